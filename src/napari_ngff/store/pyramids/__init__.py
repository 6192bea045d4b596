"""Pyramids: the levels of images, opened, resampled, and written."""
