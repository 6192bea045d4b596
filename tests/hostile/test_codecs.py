"""No codec and no table takes more memory than belongs there: 300 MB, 10 s."""

from __future__ import annotations

import sys

import pytest

from hostile import codecs, tables
from hostile.running import run

QUICK_TABLES = (
    "text_of_20_gigabytes",
    "text_that_is_a_pipe",
    "text_of_100000_columns",
    "parquet_of_very_many_columns",
    "anndata_of_1000000000_rows",
    "anndata_that_leads_into_itself",
    "anndata_with_text_in_a_bomb",
)

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="pipes, the memory of processes"
)


def test_some_codecs_in_all_positions(tmp_path):
    places = codecs.write_all(tmp_path, codecs.QUICK, ["zstd"])
    run(tmp_path, *places, script="run_measured.py")


@pytest.mark.long(seconds=200)
def test_all_codecs_and_pairs_of_them_in_all_positions(tmp_path):
    names = [*codecs.COMPRESSORS, *codecs.OTHERS]
    by_zarr = ["zstd", "zlib", "packbits", "delta", "base64"]
    places = codecs.write_all(tmp_path, names, by_zarr, names)
    assert len(places) > 500
    run(tmp_path, *places, script="run_measured.py")


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(QUICK_TABLES, id="quick"),
        pytest.param(tuple(tables.MAKERS), id="all", marks=pytest.mark.long),
    ],
)
def test_tables_are_judged_before_they_are_read(tmp_path, names):
    places = [tmp_path / f"{name}.ome.zarr" for name in names]
    for name, place in zip(names, places, strict=True):
        tables.MAKERS[name](place)
    run(tmp_path, *places, script="run_measured.py")
