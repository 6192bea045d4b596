"""What becomes layers, and where: images with their axes and coordinate systems."""
