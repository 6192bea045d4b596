"""Walks plates, wells and collections."""
