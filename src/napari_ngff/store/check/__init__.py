"""Whole hierarchies judged by the rules of the specification.

`napari_ngff.metadata.rules` judges one document; here is what needs several, or the
metadata of arrays. No chunk is read.
"""

from __future__ import annotations

from napari_ngff.store.check.walk import Finding, walk

__all__ = ["Finding", "walk"]
