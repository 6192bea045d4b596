"""How painted labels are layers of napari, and what the tools do."""
