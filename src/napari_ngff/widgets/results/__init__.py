"""The dock of results, and its pages."""
