"""Layers of napari: made of plans, named, coloured and moved."""
