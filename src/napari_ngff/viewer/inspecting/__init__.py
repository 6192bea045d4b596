"""What the inspector shows, in words and rows; no Qt."""
