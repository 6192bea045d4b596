"""Where images lie: units, coordinate systems, and layers that follow them."""
