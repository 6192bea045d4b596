"""Reads and writes tables: files, and the groups in which ngio and others keep them.

OME-Zarr has no tables. By ngio's convention the attributes of a group ``tables`` list
them, and each is a group whose attributes state its ``backend``:
https://biovisioncenter.github.io/ngio/stable/table_specs/overview/
"""

from __future__ import annotations

import codecs
import io
import os
import re
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError, NodeNotFoundError, UnsupportedError
from napari_ngff.plate.tables.table import LABEL, WELL, make_table
from napari_ngff.store.write.replace_file import replace_when_done, require_writable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from napari_ngff.metadata.model import JSON
    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.store.hierarchy.node import Node

__all__ = [
    "SUFFIXES",
    "check_target",
    "find_table",
    "read_listed_table",
    "read_table",
    "table_names",
    "write_frame",
]

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
"""Of files that can be read as tables."""

SEPARATORS = ",;\t"
WRITTEN = (".csv", ".parquet")
QUOTED = re.compile(r"\"[^\"]*\"")
HINT = re.compile(r"\"?sep=(.)\"?[ \r]*", re.IGNORECASE)
"""First line that names to Excel the character which separates the columns."""

NO_PARQUET = "Tables in Parquet need pyarrow. Run: pip install 'napari-ngff[tables]'"
NO_ANNDATA = "{} is kept as AnnData. Run: pip install 'napari-ngff[tables]'"


def read_table(path: str | os.PathLike[str], *, alone: bool = False) -> WellTable:
    """Read a file with one row per well, field or object.

    Text with commas, semicolons or tabs between columns; numbers may have decimal
    commas where these are semicolons or tabs. Parquet where pyarrow is installed.

    Parameters
    ----------
    alone
        Whether rows may belong to no well, as for a collection or a single well.

    Raises
    ------
    CorruptDataError
        Where it is no table, or its columns name no wells.
    UnsupportedError
        For Parquet without pyarrow.
    OSError
        Where it cannot be read.
    """
    where = Path(path)
    raw = where.read_bytes()
    read = _read_parquet if where.suffix.lower() == ".parquet" else _text_frame
    frame = read(raw, str(where))
    try:
        return make_table(frame, where.stem)
    except CorruptDataError:
        # No column names wells: then all rows are of the only one.
        if not alone:
            raise
        return make_table(frame, where.stem, {WELL: ""})


def _text_frame(raw: bytes, where: str) -> Any:
    import pandas as pd

    text = _decode_text(raw).lstrip("\r\n ")
    first, _, rest = text.partition("\n")
    hint = HINT.fullmatch(first)
    # The most frequent one in the header, outside of quoted names.
    header = QUOTED.sub("", first)
    separator = hint[1] if hint else max(SEPARATORS, key=header.count)
    try:
        frame = pd.read_csv(
            io.StringIO(rest if hint else text),
            sep=separator,
            skipinitialspace=True,
            low_memory=False,  # in parts, a column may be text here and numbers there
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        msg = f"{where} is not a table: {error}."
        raise CorruptDataError(msg, remedy="Save it as CSV, UTF-8.") from error
    frame = _below_header(frame)
    return frame if separator == "," else _with_points(frame)


def _decode_text(raw: bytes) -> str:
    # Excel saves "Unicode text" as UTF-16.
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Excel's CSV of Western Windows; every byte is a character in it.
        return raw.decode("latin-1")


def _below_header(frame: Any) -> Any:
    """Put columns below their names if each line but the header ends in a separator.

    Lines are then longer than the header, and pandas takes their first columns for
    names of rows. If the last columns hold values, they really are names of rows.
    """
    import pandas as pd

    names = list(frame.columns)
    if isinstance(frame.index, pd.RangeIndex):
        return frame
    spare = frame.index.nlevels
    if spare > len(names) or frame.iloc[:, -spare:].notna().any(axis=None):
        return frame
    shifted = frame.reset_index().iloc[:, : len(names)]
    return shifted.set_axis(names, axis=1)


def _with_points(frame: Any) -> Any:
    """Read decimal commas, in columns that hold nothing but numbers."""
    import pandas as pd

    for column in frame.select_dtypes(exclude="number").columns:
        # By column, all or nothing: "1,5" among names is no number.
        changed = frame[column].astype(str).str.replace(",", ".", regex=False)
        numbers = pd.to_numeric(changed, errors="coerce")
        if (numbers.notna() == frame[column].notna()).all():
            frame[column] = numbers
    return frame


def _read_parquet(raw: bytes, where: str) -> Any:
    import pandas as pd

    if find_spec("pyarrow") is None:
        raise UnsupportedError(NO_PARQUET)
    try:
        return _plain_index(pd.read_parquet(io.BytesIO(raw), engine="pyarrow"))
    except (OSError, ValueError) as error:
        msg = f"{where} is not a Parquet file: {error}."
        raise CorruptDataError(msg) from error


def _plain_index(frame: Any) -> Any:
    """Convert an index with names into columns."""
    return frame.reset_index() if any(frame.index.names) else frame


def table_names(node: Node) -> tuple[str, ...]:
    """Read the names of the tables of a plate, a well or an image; () for none."""
    try:
        listed = node.child("tables").attributes.get("tables")
    except NodeNotFoundError:
        return ()
    names = listed if isinstance(listed, list) else []
    return tuple(name for name in names if isinstance(name, str) and name)


def find_table(node: Node, name: str) -> tuple[Any, str]:
    """Read one of `table_names` as a frame, with the name of its labels.

    Returns
    -------
    frame
        A pandas.DataFrame.
    region
        Name of the labels whose objects it is about, "" where it says none.

    Raises
    ------
    NodeNotFoundError
        Where there is no such table.
    CorruptDataError
        Where its files are damaged.
    UnsupportedError
        Where its backend is unknown, or needs what is not installed.
    """
    group = node.child(f"tables/{name}")
    attributes = group.attributes
    # ngio reads tables that state none as AnnData.
    backend = str(attributes.get("backend", "anndata")).lower()
    frame = _frame_of(group, backend)
    region = attributes.get("region")
    path = region.get("path") if isinstance(region, dict) else None
    # The column of ids may have any name, which the attributes state.
    key = attributes.get("instance_key") or attributes.get("index_key")
    if isinstance(key, str) and key in frame.columns and path and key != LABEL:
        frame = frame.rename(columns={key: LABEL})
    return frame, path.rstrip("/").rsplit("/", 1)[-1] if isinstance(path, str) else ""


def _frame_of(group: Node, backend: str) -> Any:
    # "in": tables of earlier versions of ngio say "experimental_json_v1" and the like.
    if "anndata" in backend:
        return _read_anndata(group)
    if "json" in backend:
        return _read_json(group)
    for kind, read in (("csv", _text_frame), ("parquet", _read_parquet)):
        if kind in backend:
            location = group.location
            raw = location.source.get(location.object_key(f"table.{kind}"))
            if raw is None:
                msg = f"The table {group} has no file table.{kind}."
                raise CorruptDataError(msg)
            return read(raw, f"{group}/table.{kind}")
    msg = f"The table {group} has the backend {backend!r}, which cannot be read."
    raise UnsupportedError(msg)


def _read_json(group: Node) -> Any:
    import pandas as pd

    content: JSON = group.child("table").attributes
    try:
        return pd.DataFrame.from_dict(content)
    except ValueError as error:
        msg = f"The columns of the table {group} differ in length: {error}."
        raise CorruptDataError(msg) from error


def _read_anndata(group: Node) -> Any:
    """Join what AnnData keeps of objects: ``obs``, and ``X`` with its column names."""
    import pandas as pd
    import zarr

    if find_spec("anndata") is None:
        raise UnsupportedError(NO_ANNDATA.format(f"The table {group}"))
    from anndata.io import read_elem

    from napari_ngff.store.arrays.zarr_adapter import SourceStore

    location = group.location
    try:
        store = SourceStore(location.source)
        data = read_elem(zarr.open_group(store, path=location.path, mode="r"))
    # Of any kind: anndata raises whatever its readers do.
    except Exception as error:
        msg = f"The table {group} is not readable as AnnData: {error}."
        raise CorruptDataError(msg) from error
    values = pd.DataFrame(
        # Sparse matrices have `toarray`, arrays do not.
        getattr(data.X, "toarray", lambda: data.X)(),
        index=data.obs.index,
        columns=data.var_names,
    )
    frame = pd.concat([data.obs, values], axis=1)
    # An index without a name only counts rows.
    if frame.index.name in (None, "_index"):
        return frame.reset_index(drop=True)
    return frame.reset_index(drop=frame.index.name in frame.columns)


def read_listed_table(
    node: Node, name: str, place: Mapping[str, str] | None = None
) -> WellTable:
    """Read one of `table_names` as a `WellTable`; see `find_table` and `make_table`."""
    frame, region = find_table(node, name)
    return make_table(frame, name, place, region)


def check_target(path: str | os.PathLike[str]) -> None:
    """Check whether `write_frame` can write to a path, before the table is made.

    Raises
    ------
    UnsupportedError
        For a file of another kind, and for Parquet without pyarrow.
    OSError
        Where it cannot be written.
    """
    # Asked before hours of measuring, not after.
    where = Path(path)
    suffix = where.suffix.lower()
    if suffix not in WRITTEN:
        msg = f"{where}: tables are written as {' or '.join(WRITTEN)}."
        raise UnsupportedError(msg, remedy="Name it so.")
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UnsupportedError(NO_PARQUET)
    with _name_path(where):
        require_writable(where)


def write_frame(frame: Any, path: str | os.PathLike[str]) -> None:
    """Write a table: Parquet if the name ends so, else CSV.

    Raises
    ------
    UnsupportedError
        As in `check_target`, and for columns that Parquet cannot hold.
    OSError
        Where it cannot be written.
    """
    check_target(path)
    where = Path(path)
    with _name_path(where), replace_when_done(where) as aside:
        if where.suffix.lower() != ".parquet":
            frame.to_csv(aside, index=False)
        else:
            try:
                frame.to_parquet(aside, index=False)
            except (TypeError, ValueError) as error:  # of pyarrow: mixed columns
                msg = f"{where} cannot be written: {error}."
                raise UnsupportedError(msg, remedy="Save it as CSV.") from error


@contextmanager
def _name_path(where: Path) -> Iterator[None]:
    """Let errors name the path of a table, not that of a temporary file.

    Raises
    ------
    UnsupportedError
        Where a folder is in its place, or there is no folder for it.
    OSError
        Where the system refuses it.
    """
    reason = "it is a folder" if where.is_dir() else ""
    if not where.parent.is_dir():
        reason = f"there is no folder {where.parent}"
    if reason:
        msg = f"{where} cannot be written: {reason}."
        raise UnsupportedError(msg, remedy="Choose another place.")
    try:
        yield
    except OSError as error:
        # It names the temporary file beside the table, which says nothing to a user.
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(where)) from error
