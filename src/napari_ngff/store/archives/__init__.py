"""Hierarchies in one zip file: how they are read, packed and written anew."""
