"""After the anneal: which level predicts, and LVQ that fine-tunes it."""
