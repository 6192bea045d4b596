"""The classes of objects that an image has in its tables."""

from __future__ import annotations

from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations.object_class_table import (
    list_class_tables,
    read_class_table,
)


def read_classes(path):
    """Read all tables of classes of an image."""
    node = open_node(path)
    return [read_class_table(node, name) for name in list_class_tables(node).values()]


def stored(path):
    """Return the name of each label image with classes -> label -> class."""
    return {x.labels: dict(x.classes.class_of) for x in read_classes(path)}
