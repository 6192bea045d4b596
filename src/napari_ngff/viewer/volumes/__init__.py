"""Volumes in 3D: which level is shown, read and prepared in workers."""
