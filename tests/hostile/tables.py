"""Images that list a table which takes all memory, or all time, to read."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np

from hostile.cases import MAKERS as CASES
from hostile.cases import group_v2, image, sparse

MAKERS = {}


def table(function):
    MAKERS[function.__name__] = function
    return function


def list_table(folder, backend):
    """Write an image that lists a table; return the folder of that."""
    image(folder)
    place = folder / "tables/objects"
    place.mkdir(parents=True)
    for where, attributes in (
        (folder / "tables", {"tables": ["objects"]}),
        (place, {"backend": backend}),
    ):
        document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        (where / "zarr.json").write_text(json.dumps(document))
    return place


@table
def text_of_20_gigabytes(folder):
    sparse(list_table(folder, "csv") / "table.csv")


@table
def text_that_is_a_pipe(folder):
    os.mkfifo(list_table(folder, "csv") / "table.csv")


@table
def text_of_100000_columns(folder):
    names = ",".join(f"c{i}" for i in range(100_000))
    (list_table(folder, "csv") / "table.csv").write_text(f"label,{names}\n1\n")


@table
def text_of_one_line(folder):
    (list_table(folder, "csv") / "table.csv").write_bytes(b"label," * (30 << 20))


@table
def text_of_one_number(folder):
    text = b"label,area\n1," + b"7" * (150 << 20)
    (list_table(folder, "csv") / "table.csv").write_bytes(text)


@table
def text_of_one_quoted_value(folder):
    text = b'label,area\n1,"' + b"7,\n" * (1 << 20)
    (list_table(folder, "csv") / "table.csv").write_bytes(text)


def write_parquet(path, columns, times=1, **options):
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    rows = pyarrow.table(columns)
    with ParquetWriter(path, rows.schema, compression="zstd", **options) as file:
        for _ in range(times):
            file.write_table(rows)


@table
def parquet_of_one_text_in_each_row(folder):
    import pyarrow

    text = pyarrow.DictionaryArray.from_arrays(np.zeros(10**5, "i4"), ["x" * 4096])
    columns = {"label": np.arange(10**5), "text": text.cast(pyarrow.string())}
    write_parquet(list_table(folder, "parquet") / "table.parquet", columns, 8)


@table
def parquet_of_one_long_text(folder):
    columns = {"label": [1], "text": ["x" * (400 << 20)]}
    place = list_table(folder, "parquet") / "table.parquet"
    # Each would copy the text.
    write_parquet(place, columns, use_dictionary=False, write_statistics=False)


@table
def parquet_of_very_many_rows(folder):
    columns = {"label": np.zeros(10**7, "i4")}
    write_parquet(list_table(folder, "parquet") / "table.parquet", columns, 20)


@table
def parquet_of_very_many_columns(folder):
    columns = {f"c{i}": [1] for i in range(20_000)}
    write_parquet(list_table(folder, "parquet") / "table.parquet", columns)


@table
def parquet_of_20_gigabytes(folder):
    sparse(list_table(folder, "parquet") / "table.parquet")


@table
def parquet_that_is_a_pipe(folder):
    os.mkfifo(list_table(folder, "parquet") / "table.parquet")


def anndata(folder, x=None, obs=None, columns=("area",), x_shape=None):
    """Write a table of AnnData; `x` and `obs` change the documents of its arrays."""
    place = list_table(folder, "anndata")
    (place / "zarr.json").unlink()
    group_v2(place, {"encoding-type": "anndata", "encoding-version": "0.1.0"})
    frame = {"encoding-type": "dataframe", "encoding-version": "0.2.0"}
    more = {"_index": "_index", "column-order": list(columns)}
    group_v2(place / "obs", frame | more)
    group_v2(place / "var", frame | {"_index": "_index", "column-order": []})
    rows = (obs or x or {"shape": [4]})["shape"][0]
    width = (x or {"shape": [0, 1]})["shape"][1]
    numbers = {"shape": [rows], "chunks": [min(rows, 1 << 16)], **(obs or {})}
    for name in columns:
        write_zeros(place / "obs" / name, numbers)
    write_zeros(place / "obs/_index", numbers)
    write_zeros(place / "var/_index", {"shape": [width], "chunks": [width]})
    if x_shape is None:
        write_zeros(place / "X", {"shape": [rows, 1], "chunks": [4, 1], **(x or {})})
        return
    write_sparse(place, x_shape)


def write_sparse(place, x_shape, kind="csr_matrix", count=0):
    """Write a sparse matrix of so many numbers, without chunks."""
    encoding = {"encoding-type": kind, "encoding-version": "0.1.0"}
    group_v2(place / "X", encoding | {"shape": x_shape})
    ends = x_shape[0 if kind == "csr_matrix" else 1] + 1
    for name, length in (("data", count), ("indices", count), ("indptr", ends)):
        write_zeros(place / "X" / name, {"shape": [length], "chunks": [1 << 20]})


def write_zeros(folder, changes):
    """Write the document of an array without chunks."""
    folder.mkdir()
    document = {
        "zarr_format": 2,
        "dtype": "<i8",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    (folder / ".zarray").write_text(json.dumps(document | changes))
    kind = {"encoding-type": "array", "encoding-version": "0.2.0"}
    (folder / ".zattrs").write_text(json.dumps(kind))


@table
def anndata_that_is_harmless(folder):
    anndata(folder)


@table
def anndata_of_1000000000_rows(folder):
    anndata(folder, obs={"shape": [10**9], "chunks": [10**6]})


@table
def anndata_of_1000000000_numbers(folder):
    anndata(folder, x={"shape": [10**6, 10**3], "chunks": [10**4, 10**3]})


@table
def anndata_of_one_chunk_of_all_rows(folder):
    anndata(folder, obs={"shape": [10**9], "chunks": [10**9]})


@table
def anndata_of_chunks_of_one_number(folder):
    anndata(folder, x={"shape": [10**6, 1], "chunks": [1, 1]})


@table
def anndata_that_is_sparse(folder):
    anndata(folder, x_shape=[10**5, 10**5])


@table
def anndata_that_is_sparse_by_columns(folder):
    anndata(folder)
    shutil.rmtree(folder / "tables/objects/X")
    write_sparse(folder / "tables/objects", [10**5, 10**5], "csc_matrix")


@table
def anndata_that_is_sparse_with_very_many_numbers(folder):
    anndata(folder)
    shutil.rmtree(folder / "tables/objects/X")
    write_sparse(folder / "tables/objects", [4, 1], "csr_matrix", 10**9)


@table
def anndata_of_very_many_categories(folder):
    anndata(folder)
    column = folder / "tables/objects/obs/area"
    shutil.rmtree(column)
    kind = {"encoding-type": "categorical", "encoding-version": "0.2.0"}
    group_v2(column, kind | {"ordered": False})
    write_zeros(column / "codes", {"shape": [4], "chunks": [4]})
    write_zeros(column / "categories", {"shape": [10**9], "chunks": [1 << 20]})


@table
def anndata_with_a_chunk_of_20_gigabytes(folder):
    anndata(folder)
    sparse(folder / "tables/objects/obs/area/0")


@table
def anndata_with_a_document_of_20_gigabytes(folder):
    anndata(folder)
    (folder / "tables/objects/obs/area/.zarray").unlink()
    sparse(folder / "tables/objects/obs/area/.zarray")


@table
def anndata_of_5100_columns(folder):
    anndata(folder, columns=[f"c{i}" for i in range(5100)])


@table
def anndata_that_leads_into_itself(folder):
    anndata(folder)
    for name in "abcdef":
        (folder / "tables/objects/obs" / name).symlink_to(".")


@table
def anndata_with_text_in_a_bomb(folder):
    """Texts of which one chunk becomes huge."""
    from hostile.codecs import bomb

    anndata(folder)
    index = folder / "tables/objects/obs/_index"
    document = json.loads((index / ".zarray").read_text())
    filters = [{"id": "vlen-utf8"}]
    document |= {"dtype": "|O", "fill_value": "", "filters": filters}
    document["compressor"] = {"id": "zstd", "level": 1}
    (index / ".zarray").write_text(json.dumps(document))
    (index / "0").write_bytes(bomb("zstd"))


@table
def json_table_of_many_columns(folder):
    place = list_table(folder, "json")
    (place / "table").mkdir()
    attributes = {f"c{i}": {"0": 1} for i in range(100_000)}
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (place / "table/zarr.json").write_text(json.dumps(document))


assert not MAKERS.keys() & CASES.keys()
