"""Painting on pyramids of labels."""
