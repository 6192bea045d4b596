"""Converting files from the window, and making pyramids again; without Qt."""
