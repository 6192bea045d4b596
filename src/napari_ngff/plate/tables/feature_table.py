"""Writes tables into images and plates, in the form of ngio.

A table is the group ``tables/NAME`` of an image or a plate, and listed by ``tables``.
Its rows are CSV, which every program reads and which needs no further package. Form:
https://biovisioncenter.github.io/ngio/stable/table_specs/overview/
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError, NameTakenError, NodeNotFoundError
from napari_ngff.metadata.version import V0_4, V0_5
from napari_ngff.plate.tables.table import LABEL
from napari_ngff.store.arrays.array_document import (
    dump_document,
    group_documents,
    put_new_group,
)
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.hierarchy.summary import list_tables, region_of
from napari_ngff.store.limits import ATTRIBUTES_IN, parse_object
from napari_ngff.store.write.consolidated import update_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from napari_ngff.metadata.model import JSON
    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.sources.blob import Revision
    from napari_ngff.store.store import Transaction

FILE = "table.csv"

FEATURES = "feature_table"
"""Type of ngio for tables whose rows are of objects of an image."""

CONDITIONS = "condition_table"
"""Type of ngio for tables whose rows are of wells or fields."""

# Key of the attributes of tables that were written as a whole, and may be replaced.
MADE_HERE = "napari-ngff:table"


def is_writable(node: Node) -> bool:
    """Return whether tables of an image or a plate can be written in it."""
    return not node.location.source.why_not_written(node.location.path)


def describe_features(labels: str, texts: Sequence[str]) -> JSON:
    """Return the attributes of a table of the objects of a label image.

    Parameters
    ----------
    texts
        Names of the columns with text.
    """
    return {
        "type": FEATURES,
        "table_version": "1",
        "fractal_table_version": "1",
        "backend": "csv",
        "index_key": LABEL,
        "index_type": "int",
        "instance_key": LABEL,
        "region": {"path": f"../labels/{labels}"},
        "categorical_columns": list(texts),
    }


def write_table(
    node: Node,
    name: str,
    files: Mapping[str, bytes],
    expected: tuple[str, Revision | None],
    begun: Transaction | None = None,
) -> Revision | None:
    """Write files of a table, and list the table in its image.

    Parameters
    ----------
    files
        Name in the group of the table -> content; others stay as they are.
    expected
        Key of the file with the rows, and the revision that was read; None for none.
    begun
        A transaction that the caller commits, where it saves all together.

    Returns
    -------
    Revision or None
        Of the file with the rows that was written.

    Raises
    ------
    ConflictError
        Where it has another revision by now; nothing is written then.
    OSError
        Where it cannot be written.
    """
    source, tables = node.location.source, node.location.object_key("tables")
    transaction, group = begun or source.begin(), join_key(tables, name)
    transaction.recover(group)
    try:
        transaction.expect_revision(*expected)
        for end, data in files.items():
            transaction.put(join_key(group, end), data)
        if not transaction.saves_together:
            # A table is listed once it is there.
            transaction.commit()
        _add_to_list(transaction, node, name)
        update_copies(transaction, [tables, group, join_key(group, "table")])
        if begun is None or not begun.saves_together:
            transaction.commit()
    except BaseException:
        transaction.drop_waiting()
        raise
    return source.ask_revision(expected[0])


def _add_to_list(transaction: Transaction, node: Node, name: str) -> None:
    """Add a table to the list of tables, in which everything else stays.

    A new list also gets the tables that exist already, since readers that show them
    without a list would no longer look for them.
    """
    group, form = node.location.object_key("tables"), ATTRIBUTES_IN[node.zarr_format]
    key = join_key(group, form)

    def append(raw: bytes | None) -> bytes | None:
        content: Any = {} if raw is None else parse_object(raw)
        is_inside = raw is not None and form == "zarr.json"
        home = content.setdefault("attributes", {}) if is_inside else content
        listed = home.get("tables")
        if listed is None:
            inside = transaction.source.list_names(group) or ()
            groups = node.children(f"tables/{x}" for x in inside).nodes
            listed = [x.name for x in groups if x.name != name]
        if not isinstance(listed, list):
            msg = f"{transaction.root}/{key} is not a list of tables."
            raise CorruptDataError(msg)
        if name in listed:
            return None
        home["tables"] = [*listed, name]
        if raw is not None:
            return dump_document(content)
        version = V0_4 if form == ATTRIBUTES_IN[2] else V0_5
        return put_new_group(transaction, group, content, version)

    transaction.change_document(key, append)


def write_tables(
    node: Node,
    name: str,
    tables: Mapping[str, tuple[Any, JSON]],
    goes_on: Callable[[int, int], bool],
) -> tuple[int, list[str]] | None:
    """Write a table of one name into each of several groups, one after the other.

    Each is old or new as a whole, also where the process is killed. What is equal
    already is not written. In an archive all are saved together.

    Parameters
    ----------
    node
        A plate, a collection or an image.
    tables
        Path of a group below it -> its rows, a pandas.DataFrame, and the attributes.
    goes_on
        Called with how many of how many groups are done; False gives up.

    Returns
    -------
    tuple or None
        How many tables were written, and the groups that were left out since the labels
        of their rows are gone; None where it was given up.

    Raises
    ------
    NodeNotFoundError
        Where all were left out.
    NameTakenError
        Where another program has written a table of that name; nothing is written then.
    ConflictError
        Where another program changes one at the same moment.
    OSError
        Where one cannot be written.
    """
    groups = {path: node.child(path) for path in tables}
    taken = [
        x for x in groups.values() if not may_get(x, name, lambda y: MADE_HERE in y)
    ]
    if taken:
        free = next(
            x
            for x in (f"{name}{number}" for number in count(2))
            if all(may_get(y, x, lambda z: MADE_HERE in z) for y in groups.values())
        )
        raise NameTakenError(
            f"Another program has written {name} in {taken[0]}.", name, free
        )
    source, written, left_out = node.location.source, 0, list[str]()
    transaction = source.begin()
    for done, (path, (frame, attributes)) in enumerate(tables.items()):
        if not goes_on(done, len(tables)):
            transaction.drop_waiting()
            return None
        group, key = groups[path], key_of(groups[path], name)
        # First: what is saved while it is compared is a conflict.
        expected = key, source.ask_revision(key)
        version = "0.4" if group.zarr_format == 2 else "0.5"
        is_about_labels = attributes["type"] == FEATURES
        region = _find_region(group, name, attributes) if is_about_labels else {}
        if region is None:
            left_out.append(path)
            continue
        marked = {**attributes, **region, MADE_HERE: True}
        documents = group_documents(marked, version)
        # What says whose table it is comes first.
        files = {end: documents[end] for end in reversed(documents)}
        files[FILE] = frame.to_csv(index=False, lineterminator="\n").encode()
        is_known = all(source.get(key_of(group, name, x)) == files[x] for x in files)
        if not is_known or name not in list_tables(group):
            write_table(group, name, files, expected, transaction)
            written += 1
    if len(left_out) == len(tables):
        msg = f"{node}: the labels of {name} were renamed or deleted."
        raise NodeNotFoundError(msg, remedy="Measure again.")
    transaction.commit()
    return written, left_out


def write_conditions(
    node: Node, name: str, table: WellTable, goes_on: Callable[[int, int], bool]
) -> str | None:
    """Write a table into a plate, as conditions, or if rows are objects as any table.

    Returns
    -------
    str or None
        Its name in the plate, another one where another program has written a table of
        that name. None where it was given up.

    Raises
    ------
    ConflictError, OSError
        As in `write_tables`.
    """
    frame = table.to_frame()
    attributes = {
        "type": "generic_table" if LABEL in frame else CONDITIONS,
        "table_version": "1",
        "backend": "csv",
        "categorical_columns": [x for x in frame if not table.is_numeric(x)],
        **({"region": {"path": f"labels/{table.region}"}} if table.region else {}),
    }
    tables = {"": (frame, attributes)}
    try:
        return None if write_tables(node, name, tables, goes_on) is None else name
    except NameTakenError as error:
        return write_conditions(node, error.free, table, goes_on)


def _find_region(group: Node, name: str, attributes: JSON) -> JSON | None:
    """Find the labels that rows are about, which were renamed since they were read.

    Returns
    -------
    dict or None
        The region of the rows, or where those labels are gone that of the table that is
        there; None where its labels are gone, too.
    """
    kept = group.find_child(f"tables/{name}")
    for known in (attributes, {} if kept is None else kept.attributes):
        if region_of(known):
            with suppress(NodeNotFoundError):
                group.child(known["region"]["path"].removeprefix("../"))
                return {"region": known["region"]}
    return None


def may_get(group: Node, name: str, is_ours: Callable[[JSON], bool]) -> bool:
    """Return whether a group may get a table of a name, or has one that is ours.

    Parameters
    ----------
    is_ours
        Judges the attributes of a table.
    """
    # Names that differ in case alone are one folder on Windows and macOS.
    if any(x.casefold() == name.casefold() and x != name for x in list_tables(group)):
        return False
    try:
        return is_ours(group.child(f"tables/{name}").attributes)
    except NodeNotFoundError:
        # Its group comes before its file; in a bucket after it.
        source = group.location.source
        return (
            source.traits.is_remote or source.find_revision(key_of(group, name)) is None
        )


def key_of(group: Node, name: str, file: str = FILE) -> str:
    """Return the key of a file of a table of an image or a plate."""
    return group.location.object_key(f"tables/{name}/{file}")
