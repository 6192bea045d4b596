"""Checks the metadata of a label image after a save."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.metadata.model import GroupKind, Severity
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import Node, read_node

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.store import Store


def find_errors(source: Store, path: str) -> tuple[Problem, ...]:
    """Check the label image of an array by the rules of the version that it states.

    Reads the documents of its group and of its levels, some milliseconds.

    Parameters
    ----------
    source
        The hierarchy, as it is now.
    path
        Of the array.

    Returns
    -------
    tuple
        What breaks a MUST, each `where` with the path before it. Nothing if the array
        is in no group of OME-Zarr, as that of new labels before they are registered.
    """
    group = _group_above(source, path)
    if group is None:
        return ()
    return tuple(
        replace(problem, where=f"{location}:{problem.where}")
        for location, problem in check_hierarchy(group)
        if problem.severity is Severity.ERROR
    )


def _group_above(source: Store, path: str) -> Node | None:
    # A level's path may have several parts, such as "scale/0": the group is not always
    # one step above.
    group_path = path
    while group_path:
        group_path = group_path.rpartition("/")[0]
        try:
            node = read_node(Location(source, group_path))
        except (OMEZarrError, OSError):
            # A folder between the group and its level has no metadata.
            continue
        if node.kind in (GroupKind.LABEL, GroupKind.IMAGE):
            return node
    return None
