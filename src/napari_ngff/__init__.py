"""View and annotate OME-Zarr in napari; loads neither napari nor Qt by itself."""
