"""Thumbnails: made in threads, kept on disk."""
