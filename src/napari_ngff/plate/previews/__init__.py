"""Thumbnails: made in threads, and kept on disk."""
