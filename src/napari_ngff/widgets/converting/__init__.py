"""Forms that convert files, and make pyramids again."""
