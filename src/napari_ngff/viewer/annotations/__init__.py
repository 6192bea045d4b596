"""Annotations of every kind: unsaved, saved, kept and restored."""
