"""All private names of napari: who uses one says why, and tells if napari lacks it."""
