"""Plates: wells and fields as one lazy picture."""
