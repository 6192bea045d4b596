"""Where label images are: beside their image, or in a hierarchy of their own."""
