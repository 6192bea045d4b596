"""Groups of a hierarchy: found, opened with their metadata, and edited."""
