"""Decodes tables by pandas, pyarrow and anndata, in a process with a limit of memory.

See `call_bounded`: a table of some bytes may take all memory where they decode it. Not
so a database of SQLite, which is not compressed.
"""

from __future__ import annotations

import io
import math
import sqlite3
from contextlib import closing
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.plate.tables.table import LABEL
from napari_ngff.store.bounded_call import call_bounded
from napari_ngff.store.limits import check_table

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ngff.store.store import Store

MOST_COLUMNS = 5000
"""Columns of a table."""

MOST_CHUNKS = 100_000
"""Chunks of the arrays of a table."""

NUMBER, TEXT = 8, 64
"""Bytes that a value takes, about."""

MOST_PACKED = 200
"""Times that a file of Parquet may become larger; one of zeros does by some 1,000."""

FREE = 64 << 20
"""Bytes that a table of any size of file may take."""

COPIES = 4
"""Of all values, that libraries have in memory."""

ANNDATA = "anndata.io", "pandas", "zarr"
PARQUET = "pandas", "pyarrow.parquet"

# Columns of CellProfiler: of images, and behind the name of a kind of objects.
IMAGE, ID = "ImageNumber", "_Number_Object_Number"


def check_columns(count: int, where: str) -> None:
    """Refuse a table of very many columns: each is read by itself.

    Raises
    ------
    UnsupportedError
        With their number.
    """
    if count > MOST_COLUMNS:
        msg = f"{where} has {count:,} columns; up to {MOST_COLUMNS:,} are read."
        raise UnsupportedError(msg, remedy="Keep those that are needed.")


def decode_parquet(source: Store, raw: bytes, where: str) -> Any:
    """Read a file of Parquet, which was read from `source`, as a pandas.DataFrame.

    Raises
    ------
    CorruptDataError
        Where it is no such file, or takes more memory than it states.
    UnsupportedError
        Where it is too large.
    """
    from pyarrow.parquet import read_metadata

    try:
        stated = read_metadata(io.BytesIO(raw))
    except (OSError, ValueError) as error:
        raise CorruptDataError(f"{where} is not a Parquet file: {error}.") from error
    check_columns(stated.num_columns, where)
    groups = map(stated.row_group, range(stated.num_row_groups))
    size = sum(group.total_byte_size for group in groups)
    # Repeated values are stored once: only what is made to fill memory gets so large.
    if size > max(FREE, MOST_PACKED * len(raw)):
        msg = f"{where} has {size >> 20:,} MB in a file of {len(raw):,} bytes."
        raise UnsupportedError(msg, remedy="Write the table again by another program.")
    size += NUMBER * stated.num_rows * stated.num_columns
    check_table(size, where)
    columns = map(stated.schema.column, range(stated.num_columns))
    words = [one.path for one in columns if one.physical_type == "BYTE_ARRAY"]
    arguments = raw, where, words
    return call_bounded(_parquet_frame, source, arguments, COPIES * size, PARQUET)


def _parquet_frame(source: Store, raw: bytes, where: str, words: list[str]) -> Any:
    from pyarrow.parquet import read_table

    try:
        # A text that is stored once is in memory once, however many rows have it.
        table = read_table(io.BytesIO(raw), read_dictionary=words)
        frame = table.to_pandas()
    except (OSError, ValueError) as error:
        raise CorruptDataError(f"{where} is not a Parquet file: {error}.") from error
    for name in frame.columns.intersection(words):
        if frame[name].dtype.name == "category":
            frame[name] = frame[name].astype(object)
    # An index with names holds columns.
    return frame.reset_index() if any(frame.index.names) else frame


def decode_anndata(source: Store, path: str, where: str) -> Any:
    """Join what AnnData keeps of objects: ``obs``, and ``X`` with its column names.

    Raises
    ------
    CorruptDataError
        Where anndata cannot read it, or it takes more memory than it states.
    UnsupportedError
        Where it is too large.
    """
    names = source.list_names(f"{path}/obs") or ()
    check_columns(len(names), where)
    try:
        size, columns = call_bounded(_measure_anndata, source, (path,), 0, ANNDATA)
        check_columns(columns, where)
        check_table(size, where)
        return call_bounded(_anndata_frame, source, (path,), COPIES * size, ANNDATA)
    except (CorruptDataError, ImportError) as error:
        found = version("anndata")
        if tuple(map(int, found.split(".")[:2])) < (0, 12):
            msg = f"anndata {found} does not read the table {where}: {error}."
            remedy = "Run: pip install -U anndata"
            raise UnsupportedError(msg, remedy=remedy) from error
        msg = f"The table {where} is not readable as AnnData: {error}."
        raise CorruptDataError(msg) from error


def _open_anndata(source: Store, path: str) -> Any:
    import zarr

    from napari_ngff.store.arrays.zarr_adapter import ZarrAdapter

    return zarr.open_group(ZarrAdapter(source), path=path, mode="r")


def _measure_anndata(source: Store, path: str) -> tuple[int, int]:
    """Return how many bytes a table takes, and how many columns it has."""
    group = _open_anndata(source, path)
    arrays = [group["X"]] if hasattr(group["X"], "nchunks") else []
    # Groups in these hold the parts of a column, or of a sparse matrix.
    for name in ("obs", "var", "X")[: 3 - len(arrays)]:
        members = group[name].members(max_depth=2)
        arrays += [one for _, one in members if hasattr(one, "nchunks")]
    if sum(array.nchunks for array in arrays) > MOST_CHUNKS:
        raise CorruptDataError("it has very many chunks")
    # A sparse matrix is shown with its zeros.
    shape = group["X"].attrs.get("shape") or getattr(group["X"], "shape", ())
    size = NUMBER * math.prod(shape) + sum(map(_size_of, arrays))
    return size, len(arrays) + shape[-1]


def _size_of(array: Any) -> int:
    is_text = array.dtype.kind not in "biuf"
    return int(array.size) * (TEXT if is_text else array.dtype.itemsize)


def _anndata_frame(source: Store, path: str) -> Any:
    import pandas as pd
    from anndata.io import read_elem

    # Not the whole: other parts of it may be large.
    group = _open_anndata(source, path)
    obs, matrix, var = (read_elem(group[name]) for name in ("obs", "X", "var"))
    values = pd.DataFrame(
        # Sparse matrices have `toarray`, arrays do not.
        getattr(matrix, "toarray", lambda: matrix)(),
        index=obs.index,
        columns=var.index,
    )
    frame = pd.concat([obs, values], axis=1)
    # An index without a name only counts rows.
    if frame.index.name in (None, "_index"):
        return frame.reset_index(drop=True)
    return frame.reset_index(drop=frame.index.name in frame.columns)


def read_database(path: Path) -> dict[str, Any]:
    """Read the SQLite database that *ExportToDatabase* of CellProfiler writes.

    It has the tables ``PREFIXPer_Image`` and ``PREFIXPer_Object``, or one for each kind
    of objects, joined by ``ImageNumber``. Columns begin with "Image_", or the name of
    the kind. In ``Per_Object`` a row has an object of each kind, and
    ``KIND_Number_Object_Number`` is its label.

    Returns
    -------
    dict
        Name of a kind, and last "images" -> a pandas.DataFrame.

    Raises
    ------
    CorruptDataError
        Where it is no such database.
    UnsupportedError
        Where it is too large.
    OSError
        Where there is none.
    """
    import pandas as pd

    check_table(path.stat().st_size, str(path))
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '*Per_*'"
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as file:
            names = [name for (name,) in file.execute(query)]
            frames = {x: pd.read_sql_query(f'SELECT * FROM "{x}"', file) for x in names}
    except (sqlite3.Error, pd.errors.DatabaseError) as error:
        raise CorruptDataError(f"{path} is not read by SQLite: {error}.") from error
    stem = next((x[:-5] for x in names if x.endswith("Per_Image")), None)
    if stem is None or IMAGE not in frames[f"{stem}Image"]:
        raise CorruptDataError(f"{path} has no table Per_Image of CellProfiler.")
    images = frames.pop(f"{stem}Image").rename(
        columns=lambda name: name.replace("Image_Metadata_", "Metadata_")
    )
    places = [x for x in images if x == IMAGE or x.startswith("Metadata_")]
    tables: dict[str, Any] = {}
    for frame in (frames[name] for name in frames if name.startswith(stem)):
        check_columns(len(frame.columns), str(path))
        # Columns of Cell_Wall are not of Cell: the longer name counts.
        kinds = sorted((x[: -len(ID)] for x in frame if x.endswith(ID)), key=len)
        of = {x: kind for kind in kinds for x in frame if x.startswith(f"{kind}_")}
        for kind in kinds:
            rows = frame.loc[frame[f"{kind}{ID}"] > 0]
            rows = rows[[x for x in rows if x == IMAGE or of.get(x) == kind]]
            rows = rows.rename(columns={f"{kind}{ID}": LABEL})
            tables[kind] = images[places].merge(rows, on=IMAGE)
    return {**tables, "images": images}
