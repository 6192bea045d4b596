"""Classes of objects as a feature table of their image, in the form of ngio.

The table ``tables/NAME_classes`` has the columns ``label`` and ``class`` and refers to
the label image ``labels/NAME``; its attributes have the list of the classes. It is CSV,
which every program reads and which needs no further package. Form:
https://biovisioncenter.github.io/ngio/stable/table_specs/table_types/feature_table/
"""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import (
    ConflictError,
    CorruptDataError,
    NodeNotFoundError,
    OMEZarrError,
)
from napari_ngff.labels.object_classes import (
    CLASSES_KEY,
    ClassChanges,
    ObjectClasses,
    ObjectNames,
    dump_list,
    join_labels,
    parse_list,
)
from napari_ngff.plate.tables.feature_table import (
    FILE,
    describe_features,
    is_writable,
    key_of,
    may_get,
    write_table,
)
from napari_ngff.plate.tables.files import find_table
from napari_ngff.plate.tables.table import LABEL
from napari_ngff.store.arrays.array_document import group_documents
from napari_ngff.store.hierarchy.summary import list_tables, region_of
from napari_ngff.store.store import TRIES

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.sources.blob import Revision

ENDING = "_classes"
CLASS = "class"
NO_ROWS = f"{LABEL},{CLASS}\n".encode()

AT_ONCE = 1 << 14
"""Rows of text that one call reads or writes: it holds up the window for some ms."""


@dataclass(frozen=True, slots=True)
class ObjectClassTable:
    """A stored table of classes.

    Attributes
    ----------
    name
        Of the table.
    labels
        Name of the label image.
    revision
        Of its file.
    """

    name: str
    labels: str
    classes: ObjectClasses
    revision: Revision | None


def list_class_tables(node: Node) -> dict[str, str]:
    """List the tables of classes of an image: name of the label image -> table."""
    found: dict[str, str] = {}
    for name in list_tables(node):
        with suppress(OMEZarrError):  # another table may be damaged
            labels = _labels_of(node, name)
            found |= {labels: name} if labels and labels not in found else {}
    return found


def _labels_of(node: Node, name: str) -> str:
    """Return the name of the label image of a table of classes; "" for other tables."""
    attributes = node.child(f"tables/{name}").attributes
    return region_of(attributes) if CLASSES_KEY in attributes else ""


def read_class_table(node: Node, name: str) -> ObjectClassTable:
    """Read a table of classes of an image.

    Raises
    ------
    OMEZarrError
        Where it is damaged.
    """
    import pandas as pd

    # First: what is saved while it is read is a conflict of the next save.
    revision = node.location.source.ask_revision(key_of(node, name))
    # A server that is only read from tells no revisions.
    if revision is None and is_writable(node):
        # Another window makes it at this moment.
        return ObjectClassTable(name, _labels_of(node, name), ObjectClasses(), None)
    try:
        frame, labels = find_table(node, name)
        stated = node.child(f"tables/{name}").attributes[CLASSES_KEY]
    except NodeNotFoundError:
        # In a bucket the document comes after the rows: another process writes it now,
        # or ended before that.
        raw = node.location.source.get(key_of(node, name))
        frame = read_text(raw or NO_ROWS).replace("", None)
        labels, stated = "", None
    where = node.location.object_key(f"tables/{name}")
    if LABEL not in frame.columns or CLASS not in frame.columns:
        raise CorruptDataError(f"{where} has no columns {LABEL} and {CLASS}.")
    known = frame.loc[frame[CLASS].notna() & frame[LABEL].notna(), [LABEL, CLASS]]
    labels_of = pd.to_numeric(known[LABEL], errors="coerce")
    if (labels_of % 1 != 0).any() or labels_of.duplicated().any():
        raise CorruptDataError(
            f"{where} has labels with fractions, or several rows for one label.",
            remedy="Correct the table by the program that wrote it.",
        )
    listed = parse_list(stated.get("classes") if isinstance(stated, dict) else None)
    codes, names = pd.factorize(known[CLASS])
    class_of = ObjectNames.from_arrays(
        join_labels(labels_of.to_numpy()), codes, [*map(str, names)]
    )
    classes = ObjectClasses(listed, class_of).with_all_named()
    return ObjectClassTable(name, labels, classes, revision)


def write_classes(node: Node, changes: ClassChanges) -> ObjectClassTable:
    """Write classes of objects into the table of an image, which is made if need be.

    Objects that were not changed here keep the class that the table has by now; columns
    and attributes that another program has added to it stay.

    Parameters
    ----------
    node
        The image.

    Returns
    -------
    ObjectClassTable
        As it is in the file now.

    Raises
    ------
    ConflictError
        Where another program changes it all the time.
    OSError
        Where it cannot be written.
    """
    for number in range(TRIES):
        name = _find_place(node, changes.labels)
        table = ObjectClassTable(name, changes.labels, ObjectClasses(), None)
        with suppress(NodeNotFoundError):
            table = read_class_table(node, name)
            if not table.labels:
                # Rows without a document say nothing about how classes look.
                own = (item.name for item in changes.classes)
                changes = replace(changes, edited=(*changes.edited, *own))
        table = replace(table, labels=changes.labels)
        merged = replace(table, classes=changes.merge_into(table.classes))
        files = _dump_table(node, merged, "0.4" if node.zarr_format == 2 else "0.5")
        expected = key_of(node, name), table.revision
        try:
            return replace(merged, revision=write_table(node, name, files, expected))
        except ConflictError:
            if number == TRIES - 1:
                raise
    raise AssertionError


def _find_place(node: Node, labels: str) -> str:
    """Return the table of the classes of a label image, or a free name for it."""
    listed = list_class_tables(node).get(labels)
    if listed is not None:
        return listed
    names = (f"{labels}{number}{ENDING}" for number in ("", *range(2, 100)))
    # Another window may be making it right now.
    return next(
        name
        for name in names
        if may_get(node, name, lambda x: CLASSES_KEY in x and region_of(x) == labels)
    )


def dump_copied_classes(
    node: Node, labels: str, classes: ObjectClasses, new_name: str, version: str
) -> dict[str, bytes]:
    """Write the table of classes that a copy of an image has: path -> content.

    Parameters
    ----------
    node
        The image; what its table has beside the classes is kept.
    labels, new_name
        Name of the label image, and in the copy.
    version
        Of the copy.
    """
    name = _find_place(node, labels)
    table = ObjectClassTable(name, new_name, classes, None)
    files = _dump_table(node, table, version).items()
    return {f"tables/{name}/{key}": data for key, data in files}


def _dump_table(node: Node, table: ObjectClassTable, version: str) -> dict[str, bytes]:
    """Write the files of a table, in which everything else stays: name -> content."""
    before: JSON = {}
    with suppress(NodeNotFoundError):
        before = node.child(f"tables/{table.name}").attributes
    rows = node.location.source.get(key_of(node, table.name))
    return {
        **group_documents({**before, **_describe(table)}, version),
        FILE: merge_rows(rows, table.classes).encode(),
    }


def _describe(table: ObjectClassTable) -> JSON:
    return {
        **describe_features(table.labels, [CLASS]),
        CLASSES_KEY: {"classes": dump_list(table.classes.classes)},
    }


def read_text(raw: bytes, rows: int | None = None) -> Any:
    """Read a table as a pandas.DataFrame of its texts; or as several of some rows."""
    import pandas as pd

    return pd.read_csv(
        io.BytesIO(raw),
        dtype=str,
        keep_default_na=False,
        encoding="utf-8-sig",
        chunksize=rows,
    )


def merge_rows(raw: bytes | None, classes: ObjectClasses) -> str:
    """Write the classes of objects into the text of a table.

    Parameters
    ----------
    raw
        The CSV of before, whose other columns stay as they are; None for none.
    """
    import pandas as pd

    class_of = classes.class_of
    known: list[np.ndarray] = []
    texts: list[str] = []

    def write(frame: Any, labels: np.ndarray) -> None:
        frame[CLASS] = class_of.names_of(labels)
        # An object without a class has no row, unless other columns describe it.
        rows = frame[frame.drop(columns=LABEL).ne("").any(axis=1)]
        texts.append(rows.to_csv(index=False, header=not texts, lineterminator="\n"))

    # In short calls: a long one would hold up all other threads.
    for frame in read_text(raw or NO_ROWS, AT_ONCE):
        if LABEL not in frame:
            raise ConflictError(f"The table has no column {LABEL}.")
        numbers = pd.to_numeric(frame[LABEL], errors="coerce").fillna(0)
        known.append(join_labels(numbers.to_numpy()).astype(class_of.labels.dtype))
        write(frame, known[-1])
    new = class_of.labels[
        np.isin(class_of.labels, join_labels(*known), assume_unique=True, invert=True)
    ]
    for labels in np.array_split(new, len(new) // AT_ONCE + 1):
        added = pd.DataFrame({LABEL: labels.astype(str)})
        write(added.reindex(columns=frame.columns, fill_value=""), labels)
    return "".join(texts)
