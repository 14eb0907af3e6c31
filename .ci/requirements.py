"""Print what the package needs with an extra, a line each: ``python requirements.py EXTRA``.

Extras that name others of the package's own are followed. With this an environment can be filled
while the package itself is still being compiled. Run it from the project's folder.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def requirements(project: dict, extra: str) -> list[str]:
    """Of the package with one extra."""
    own = re.compile(rf"{re.escape(project['name'])}\[([\w\s,-]+)\]")
    found, left, followed = list(project["dependencies"]), [extra], set()
    while left:
        name = left.pop()
        if name in followed:
            continue
        followed.add(name)
        for requirement in project["optional-dependencies"][name]:
            extras = own.fullmatch(requirement)
            if extras:
                left += (each.strip() for each in extras[1].split(","))
            else:
                found.append(requirement)
    return sorted(set(found))


if __name__ == "__main__":
    text = Path("pyproject.toml").read_text(encoding="utf-8")
    print("\n".join(requirements(tomllib.loads(text)["project"], sys.argv[1])))
