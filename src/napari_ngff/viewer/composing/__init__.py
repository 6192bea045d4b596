"""Layers of any origin as a new OME-Zarr."""
