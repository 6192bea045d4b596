"""Checks whole hierarchies by the rules of the specification, and repairs them.

`napari_ngff.metadata.rules` checks one document; here is what needs several, or the
metadata of arrays. Pixels are read only if they are asked for.
"""
