"""Hands regions to other plugins, and takes their labels back."""
