"""Commands of ``napari-ngff`` that are more than a few lines; no napari, no Qt."""
