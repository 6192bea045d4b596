"""Arrays of a hierarchy: their chunks, read and written by boxes, and dask arrays."""
