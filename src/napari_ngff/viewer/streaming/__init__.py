"""Pixels that come in while the window goes on: fetched, drawn, asked for again."""
