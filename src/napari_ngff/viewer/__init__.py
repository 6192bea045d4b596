"""What napari gets, without Qt."""
