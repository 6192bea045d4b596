"""Joins columns that an image's feature tables have with the list of its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.plate.tables.files import read_listed_table
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.plate.tables.table import FIELD, LABEL, WELL
from napari_ngff.store.hierarchy.summary import list_tables, region_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ngff.store.hierarchy.node import Node


def read_feature_tables(node: Node, labels: str) -> tuple[dict[str, Any], list[str]]:
    """Read the tables of an image that are about the objects of a label image.

    Returns
    -------
    tables
        By name, as pandas.DataFrame.
    notes
        Why others are left out, a sentence each.
    """
    tables, notes = dict[str, Any](), list[str]()
    try:
        names = list_tables(node)
    except (OMEZarrError, OSError) as error:
        return {}, [f"No table is read: {error_text(error)}"]
    for name in names:
        try:
            attributes = node.child(f"tables/{name}").attributes
            # A table of regions has boxes, which are no measurement.
            is_regions = "roi" in str(attributes.get("type")).lower()
            if region_of(attributes) == labels and not is_regions:
                tables[name] = read_listed_table(node, name, {WELL: ""}).frame
        # Of other programs, whose tables pandas may refuse in any way.
        except Exception as error:  # noqa: BLE001
            notes.append(f"Table {name} is not read: {error_text(error)}")
    return tables, notes


def join_columns(
    objects: Any, name: str, table: Any, outer: Mapping[str, int]
) -> tuple[Any, list[str]]:
    """Add the columns of a table to the objects that it is about.

    Parameters
    ----------
    objects
        A pandas.DataFrame with `LABEL`, each id once.
    name
        Of the table, for messages and for names that are used twice. A column that
        also has the same values is left out.
    table
        As of `read_feature_tables`.
    outer
        Index of the objects on axes that are not of space, such as the time point, by
        the name of the axis: rows of another one are left out.

    Returns
    -------
    frame
        The objects with more columns: numbers, or text.
    notes
        What is left out, a sentence each.
    """
    if LABEL not in table:
        return objects, [f"Table {name}: it has no column {LABEL} and is not shown."]
    for axis in outer.keys() & table.columns:
        table = table[table[axis] == outer[axis]].drop(columns=axis)
    # The class of now is shown, not the one of the last save.
    table = table.drop(columns=[WELL, FIELD, CLASS], errors="ignore")
    if len(table.columns) == 1:
        return objects, []  # as of a table of classes
    is_single = ~table[LABEL].duplicated(keep=False)
    is_known = table[LABEL].isin(objects[LABEL])
    lost = {
        "several rows": table[LABEL][~is_single].nunique(),
        "a row but no object in the list": (is_single & ~is_known).sum(),
    }
    notes = [
        f"Table {name}: {count:,} ids have {what}, and are left out."
        for what, count in lost.items()
        if count
    ]
    table = table[is_single & is_known].set_index(LABEL)
    for title in table.columns:
        table[title], is_mixed = _clean_values(table[title])
        if is_mixed:
            notes.append(f"Table {name}: {title} is text, as not all are numbers.")
    rows = table.reindex(objects[LABEL])
    table = table[[x for x in table if not _is_there(objects, x, rows[x])]]
    table = table.rename(columns=lambda x: f"{x} ({name})" if x in objects else x)
    return objects.join(table, on=LABEL), notes


def _is_there(objects: Any, title: str, values: Any) -> bool:
    """Return whether a column of this name has the same values already."""
    values, start = values.set_axis(objects.index), f"{title} ("
    named = (objects[x] for x in objects if x == title or str(x).startswith(start))
    # Sums differ a little by the order in which they are made.
    return any(
        values.equals(known)
        or (
            {known.dtype.kind, values.dtype.kind} <= {*"iuf"}
            and np.allclose(known, values, rtol=1e-6, atol=0, equal_nan=True)
        )
        for known in named
    )


def _clean_values(values: Any) -> tuple[Any, bool]:
    """Convert a column to numbers or text; return whether some of it are numbers."""
    import pandas as pd

    if values.dtype.kind in "iuf":
        return values, False
    known = values.notna()
    texts = values.astype(object).where(known, None)
    count = pd.to_numeric(texts, errors="coerce").notna().sum()
    is_mixed = values.dtype == object and 0 < count < known.sum()
    return texts.astype(str).where(known, None), is_mixed


def find_order(values: Any, *, is_down: bool) -> Any:
    """Return the places of the values of a column in order; missing ones are last."""
    import pandas as pd

    keys = values.to_numpy()
    if keys.dtype.kind not in "iuf":
        codes, _ = pd.factorize(keys, sort=True)
        keys = np.where(codes < 0, np.nan, codes)
    order = np.argsort(keys, kind="stable")
    known = len(keys) - np.isnan(keys).sum()
    return np.append(order[:known][::-1], order[known:]) if is_down else order
