"""Reads the bytes of a hierarchy: a folder, a zip archive, a server, a zarr store."""
