"""Browses plates, wells and collections."""
