"""Reads and writes tables: files, and the groups in which ngio and others keep them.

OME-Zarr has no tables. By ngio's convention the attributes of a group ``tables`` list
them, and each is a group whose attributes state its ``backend``:
https://biovisioncenter.github.io/ngio/stable/table_specs/overview/
"""

from __future__ import annotations

import codecs
import csv
import errno
import io
import os
import re
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.plate.tables.decode_table import (
    check_columns,
    decode_anndata,
    decode_parquet,
    read_database,
)
from napari_ngff.plate.tables.table import (
    LABEL,
    PLACES,
    WELL,
    WELLS,
    WellTable,
    is_truth,
    is_well_name,
    make_table,
    text_categories,
)
from napari_ngff.store.bounded_call import call_bounded
from napari_ngff.store.hierarchy.summary import region_of
from napari_ngff.store.limits import check_table
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.replace_file import replace_when_done, require_writable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.store import Store

DATABASES = (".db", ".sqlite", ".sqlite3")
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", *DATABASES)
"""Of files that can be read as tables."""

SEPARATORS = ",;\t"
WRITTEN = (".csv", ".parquet", ".h5ad")
QUOTED = re.compile(r"\"[^\"]*\"")
ROW_NAMES = "\0"
"""Name of a column of numbers of rows, which is left out."""
HINT = re.compile(r"\"?sep=(.)\"?[ \r]*", re.IGNORECASE)
"""First line that names to Excel the character which separates the columns."""

LONGEST_LINE = 1 << 20
"""Bytes of a line of text."""

COPIES_OF_TEXT, VALUE = 16, 64
"""Memory that reading text takes: its bytes so many times, and bytes for each value."""

NO_PARQUET = "Tables in Parquet need pyarrow. Run: pip install 'napari-ngff[tables]'"
NO_ANNDATA = "{} is kept as AnnData. Run: pip install 'napari-ngff[tables]'"


def read_tables(
    path: str | os.PathLike[str], *, alone: bool = False
) -> list[WellTable]:
    """Read a file with one row per well, field or object.

    Text with commas, semicolons or tabs between columns; numbers may have decimal
    commas where these are semicolons or tabs. Parquet where pyarrow is installed. A
    database of CellProfiler has a table for each kind of object, and one of images.

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
    source = FolderStore(str(where.parent))
    tables, frames = [], dict[str, Any]()
    if where.suffix.lower() in DATABASES:
        frames = read_database(where)
    elif (rows := _read_file(source, where.name, str(where))) is not None:
        frames[""] = rows
    if not frames:
        raise FileNotFoundError(errno.ENOENT, "There is no such file", str(where))
    for kind, frame in frames.items():
        name, region = f"{where.stem}{kind and f': {kind}'}", kind * (LABEL in frame)
        try:
            tables.append(make_table(frame, name, region=region))
        except CorruptDataError:
            # No column names wells: then all rows are of the only one.
            if not alone:
                raise
            tables.append(make_table(frame, name, {WELL: ""}, region))
    return tables


def _read_file(
    source: Store, key: str, where: str, categories: Sequence[str] = ()
) -> Any:
    """Read a file of a table as a pandas.DataFrame; None where there is none.

    Columns of categories stay text, also if each could be a number.
    """
    revision = source.find_revision(key)
    check_table(getattr(revision, "size", 0), where)
    raw = source.get(key)
    if raw is None:
        return None
    check_table(len(raw), where)  # of a server
    if not key.lower().endswith(".parquet"):
        _check_lines(raw, where)
        values = sum(raw.count(end) for end in (b",", b";", b"\t", b"\n"))
        most = COPIES_OF_TEXT * len(raw) + VALUE * values
        given = raw, where, categories
        return call_bounded(_text_frame, source, given, most, ("pandas",))
    if find_spec("pyarrow") is None:
        raise UnsupportedError(NO_PARQUET)
    return decode_parquet(source, raw, where)


def _check_lines(raw: bytes, where: str) -> None:
    """Refuse a text with a line that no table has, before it is decoded."""
    for at in range(0, len(raw) - LONGEST_LINE, LONGEST_LINE):
        ends = (raw.find(end, at, at + LONGEST_LINE) for end in (b"\n", b"\r"))
        if max(ends) < 0:
            raise _not_a_table(where, "it has a line of more than a megabyte")


def _text_frame(
    source: Store, raw: bytes, where: str, categories: Sequence[str]
) -> Any:
    import pandas as pd

    text = _decode_text(raw).replace("\r\n", "\n").replace("\r", "\n").lstrip("\n ")
    # The first line may name to OMERO the types of the columns.
    text = re.sub(r"\A# header .*\n", "", text)
    first, _, rest = text.partition("\n")
    hint = HINT.fullmatch(first)
    # The most frequent one in the header, outside of quoted names.
    header = QUOTED.sub("", first)
    separator = hint[1] if hint else max(SEPARATORS, key=header.count)
    content = rest if hint else text
    names, lines = _read_header(content, separator, where)
    check_columns(len(names), where)
    read = partial(
        pd.read_csv,
        sep=separator,
        skipinitialspace=True,
        header=None,
        skiprows=lines,
        names=range(len(names)),
        dtype={i: str for i, name in enumerate(names) if name in categories},
        index_col=False,
        float_precision="round_trip",
        low_memory=False,  # in parts, a column may be text here and numbers there
    )
    try:
        frame = read(io.StringIO(content))
        texts = [i for i in frame.columns if frame[i].dtype.kind not in "biuf"]
        if separator != "," and texts:
            # A column with decimal commas holds nothing but numbers.
            frame[texts] = read(io.StringIO(content), decimal=",")[texts]
        missing = {i: frame[i].isna() for i in frame.columns}
        words = [
            i
            for i in frame.columns
            if missing[i].all()
            or (
                missing[i].any()
                and frame[i].dtype.kind not in "biuf"
                and not is_truth(frame[i])
            )
        ]
        if words:
            # Again, since "None" and "NA" are no missing values in a column of text.
            options = {"dtype": str, "keep_default_na": False, "na_values": [""]}
            frame[words] = read(io.StringIO(content), usecols=words, **options)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise _not_a_table(where, error) from error
    named = [i for i, name in enumerate(names) if name or frame[i].notna().any()]
    titles = [names[i] or f"Unnamed: {i}" for i in named if names[i] != ROW_NAMES]
    return frame[[i for i in named if names[i] != ROW_NAMES]].set_axis(titles, axis=1)


def _not_a_table(where: str, reason: object) -> CorruptDataError:
    msg = f"{where} is not a table: {reason}."
    return CorruptDataError(msg, remedy="Save it as CSV, UTF-8.")


def _read_header(content: str, separator: str, where: str) -> tuple[list[str], int]:
    """Read the names of the columns, and how many lines they take.

    They end with "" for each further value that rows have, all of them blank.

    Raises
    ------
    CorruptDataError
        Where a row has a value for which there is no column.
    """
    lines = csv.reader(io.StringIO(content), delimiter=separator, skipinitialspace=True)
    # Without quotes, rows with no more separators than the header need no look.
    most = content.lstrip("\n").partition("\n")[0].count(separator)
    is_plain = '"' not in content and all(
        line.count(separator) <= most for line in io.StringIO(content)
    )
    names: list[str] = []
    header = spare = 0
    try:
        for number, row in enumerate(islice(filter(None, lines), is_plain or None)):
            if number == 0:
                names, header = [name.strip() for name in row], lines.line_num
            elif number == 1 and _begins_with_number(row, names):
                names.insert(0, ROW_NAMES)
            spare = max(spare, len(row) - len(names))
            shifted = number and names[0] == ROW_NAMES and row[0] != str(number)
            if shifted or any(value.strip() for value in row[len(names) :]):
                raise CorruptDataError(
                    f"{where} is not read: line {lines.line_num} has {len(row)} values,"
                    f" and there are {len(names)} columns.",
                    remedy="Name all columns, and put quotes around text with a"
                    f" {separator!r}.",
                )
    except csv.Error as error:
        raise _not_a_table(where, error) from error
    return [*names, *[""] * spare], header


def _decode_text(raw: bytes) -> str:
    # Excel saves "Unicode text" as UTF-16.
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Excel's CSV of Western Windows; every byte is a character in it.
        return raw.decode("latin-1")


def _begins_with_number(row: list[str], names: list[str]) -> bool:
    """Return whether the first row has a number in front, for which there is no column.

    R writes files so. The number counts the rows, and a well follows it.
    """
    return (
        len(row) == len(names) + 1
        and row[0] == "1"
        and names[0].lower() in WELLS
        and is_well_name(row[1])
    )


def find_table(node: Node, name: str) -> tuple[Any, str]:
    """Read one of `list_tables` as a frame, with the name of its labels.

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
    region = region_of(attributes)
    # The column of ids may have any name, which the attributes state.
    key = attributes.get("instance_key") or attributes.get("index_key")
    if isinstance(key, str) and key in frame.columns and region and key != LABEL:
        frame = frame.rename(columns={key: LABEL})
    return frame, region


def _frame_of(group: Node, backend: str) -> Any:
    import pandas as pd

    location = group.location
    # "in": tables of earlier versions of ngio say "experimental_json_v1" and the like.
    if "anndata" in backend:
        if find_spec("anndata") is None:
            raise UnsupportedError(NO_ANNDATA.format(f"The table {group}"))
        return decode_anndata(location.source, location.path, str(group))
    if "json" in backend:
        content: JSON = group.child("table").attributes
        try:
            return pd.DataFrame.from_dict(content)
        except ValueError as error:
            msg = f"The columns of the table {group} differ in length: {error}."
            raise CorruptDataError(msg) from error
    for name in (f"table.{kind}" for kind in ("csv", "parquet") if kind in backend):
        key = location.object_key(name)
        stated = group.attributes.get("categorical_columns")
        categories = stated if isinstance(stated, list) else ()
        frame = _read_file(location.source, key, f"{group}/{name}", categories)
        if frame is None:
            raise CorruptDataError(f"The table {group} has no file {name}.")
        return frame
    msg = f"The table {group} has the backend {backend!r}, which cannot be read."
    raise UnsupportedError(msg)


def read_indexed_table(node: Node, name: str) -> Any:
    """Read one of `list_tables` as a frame, with the index that ngio gives it.

    Raises what `find_table` raises.
    """
    (frame, _), group = find_table(node, name), node.child(f"tables/{name}")
    key = group.attributes.get("index_key") or group.attributes.get("instance_key")
    column = key if key in frame.columns else LABEL
    if not isinstance(key, str) or column not in frame.columns:
        return frame
    kind = {"int": int, "str": str}.get(str(group.attributes.get("index_type")))
    if kind is not None:
        frame = frame.astype({column: kind})
    return frame.set_index(column).rename_axis(key)


def read_listed_table(
    node: Node, name: str, place: Mapping[str, str] | None = None
) -> WellTable:
    """Read one of `list_tables` as a `WellTable`; see `find_table` and `make_table`."""
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
    if suffix == ".h5ad" and find_spec("anndata") is None:
        raise UnsupportedError(NO_ANNDATA.format(where))
    with _name_path(where):
        require_writable(where)


def write_frame(frame: Any, path: str | os.PathLike[str]) -> None:
    """Write a table: CSV, Parquet or AnnData, by the ending of the name.

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
        if where.suffix.lower() == ".h5ad":
            _to_anndata(frame).write_h5ad(aside)
        elif where.suffix.lower() != ".parquet":
            frame.to_csv(aside, index=False)
        else:
            try:
                frame.to_parquet(aside, index=False)
            except (TypeError, ValueError) as error:  # of pyarrow: mixed columns
                msg = f"{where} cannot be written: {error}."
                raise UnsupportedError(msg, remedy="Save it as CSV.") from error


def _to_anndata(frame: Any) -> Any:
    """Make an AnnData of numbers, whose `obs` has places and texts."""
    import anndata
    import pandas as pd

    places = [name for name in PLACES if name in frame]
    numbers = frame.drop(columns=places).select_dtypes("number")
    others = frame.drop(columns=[*places, *numbers]).apply(text_categories)
    obs = pd.concat([frame[places], others], axis=1)
    is_of_wells = WELL in frame and frame[WELL].is_unique
    obs = obs.set_axis(
        [str(x) for x in (frame[WELL] if is_of_wells else range(len(obs)))]
    )
    names = pd.DataFrame(index=list(numbers))
    return anndata.AnnData(numbers.to_numpy(float, na_value=float("nan")), obs, names)


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
