"""Zarr: where things are and how bytes come."""
