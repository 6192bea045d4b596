"""Nothing that a file holds is ever run, whichever library reads it for us."""

from __future__ import annotations

import json
import os
import pickle
from contextlib import suppress
from pathlib import Path

import numcodecs.pickles
import numpy as np
import pandas as pd
import pytest
import zarr

from napari_ngff import open_node
from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.plate.tables.files import find_table, read_tables
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.sources.zarr_store import ZarrStore


class Payload:
    """When it is unpickled, it makes a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """What must not be there afterwards; numcodecs unpickles as it did until 0.16.5."""
    monkeypatch.setattr(
        numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False
    )
    path = tmp_path / "executed"
    yield path
    assert not path.exists()


PICKLES = {
    "filter": {"filters": [{"id": "pickle", "protocol": 4}], "compressor": None},
    "compressor": {"filters": None, "compressor": {"id": "pickle", "protocol": 4}},
    "object": {"dtype": "|O", "filters": [{"id": "pickle"}], "compressor": None},
    "second": {"filters": [{"id": "shuffle"}, {"id": "pickle"}], "compressor": None},
}


def poison(array: Path, marker: Path, kind: str = "filter") -> None:
    """Let an array of Zarr v2 hold a pickle that makes the marker."""
    document = json.loads((array / ".zarray").read_text())
    (array / ".zarray").write_text(json.dumps(document | PICKLES[kind]))
    chunks = [path for path in array.iterdir() if not path.name.startswith(".z")]
    for chunk in chunks:
        chunk.write_bytes(pickle.dumps(Payload(marker)))


def write_array(where: Path) -> Path:
    zarr.create_array(
        where, data=np.ones((4, 4), np.uint8), chunks=(4, 4), zarr_format=2
    )
    return where


@pytest.mark.parametrize("kind", PICKLES)
def test_pickles_of_an_array_are_not_loaded(tmp_path, marker, kind):
    where = write_array(tmp_path / "a")
    poison(where, marker, kind)
    with pytest.raises(UnsupportedError, match=r"\.zarray is not read.*can run"):
        open_array(FolderStore(str(tmp_path)), "a")
    store = zarr.storage.LocalStore(tmp_path, read_only=True)
    with pytest.raises(UnsupportedError, match=r"\.zarray is not read.*can run"):
        open_array(ZarrStore(store), "a")


def test_pickles_of_zarr_3_are_not_loaded(tmp_path, marker):
    zarr.create_array(tmp_path / "a", data=np.ones((4, 4), np.uint8), zarr_format=3)
    document = json.loads((tmp_path / "a/zarr.json").read_text())
    document["codecs"] += [{"name": "numcodecs.pickle", "configuration": {}}]
    (tmp_path / "a/zarr.json").write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match=r"zarr\.json is not read.*can run"):
        open_array(FolderStore(str(tmp_path)), "a")


def write_table(where: Path) -> Path:
    """Write an image group that lists a table kept as AnnData."""
    anndata = pytest.importorskip("anndata")
    group = where / "tables" / "objects"
    data = anndata.AnnData(
        X=np.ones((3, 2), np.float32),
        obs=pd.DataFrame({"area": [1.5, 2.5, 3.5], "kind": ["a", "b", "a"]}),
    )
    with anndata.settings.override(zarr_write_format=2):
        data.write_zarr(group)
    for place, content in {
        where: {"multiscales": []},
        where / "tables": {"tables": ["objects"]},
    }.items():
        (place / ".zgroup").write_text('{"zarr_format": 2}')
        (place / ".zattrs").write_text(json.dumps(content))
    return group


# anndata writes and reads with what later zarr and pandas warn of.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("array", ["obs/area", "X", "var/_index", "obs/kind/codes"])
def test_pickles_of_a_table_are_not_loaded(tmp_path, marker, array, consolidated):
    group = write_table(tmp_path / "image")
    node = open_node(str(tmp_path / "image"))
    (group / ".zmetadata").unlink(missing_ok=True)
    assert find_table(node, "objects")[0]["area"].tolist() == [1.5, 2.5, 3.5]
    stored = group / array
    if not (stored / ".zarray").exists():  # texts, as anndata 0.13 writes them
        stored /= "values"
    clean = (stored / ".zarray").read_bytes()
    poison(stored, marker)
    if consolidated:
        documents = {
            str(path.relative_to(group)): json.loads(path.read_text())
            for path in group.rglob(".z*")
        }
        content = {"zarr_consolidated_format": 1, "metadata": documents}
        (group / ".zmetadata").write_text(json.dumps(content))
        (stored / ".zarray").write_bytes(clean)
    with pytest.raises(UnsupportedError, match="can run"):
        find_table(node, "objects")


def test_a_parquet_file_runs_nothing(tmp_path, marker):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    extension = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Payload(marker)),
    }
    columns = [
        arrow.field("well", arrow.string()),
        arrow.field("dose", arrow.float64(), metadata=extension),
    ]
    rows = arrow.table(
        [arrow.array(["A1"]), arrow.array([1.0])], schema=arrow.schema(columns)
    )
    parquet.write_table(rows, tmp_path / "a.parquet")
    with suppress(OMEZarrError):
        read_tables(tmp_path / "a.parquet")[0]


def test_no_module_unpickles_or_evaluates():
    import napari_ngff

    # They read what a process of ours wrote, through a pipe; never a file.
    allowed = {
        "store/bounded_call.py: pickle.load",
        "viewer/services/child_process.py: pickle.load",
    }
    words = ("pickle.load", "pickle.Unpickler", "eval(", "exec(", "allow_pickle=True")
    root = Path(napari_ngff.__file__).parent
    used = {
        f"{path.relative_to(root)}: {word}"
        for path in root.rglob("*.py")
        for line in path.read_text().splitlines()
        for word in words
        if word in line and ".exec(" not in line
    }
    assert used == allowed
