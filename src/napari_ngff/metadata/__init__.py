"""The format as values: JSON in, JSON out; no I/O."""
