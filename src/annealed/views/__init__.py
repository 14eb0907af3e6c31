"""What pictures and pages share: colours, branches of a path, planes to look at."""
