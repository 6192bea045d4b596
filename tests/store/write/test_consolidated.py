"""What zarr-python finds in consolidated metadata after something was added."""

import json
import warnings

import numpy as np
import pytest
import zarr

from napari_ngff.store.sources.folder_store import FolderTransaction
from napari_ngff.store.write.consolidated import update_copies


@pytest.fixture(params=[2, 3])
def hierarchy(request, tmp_path):
    """Make a hierarchy whose root and a group in it have consolidated metadata."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=request.param)
    group.create_group("b/labels").create_array("old", shape=(2,), dtype="u1")
    for path in ("b", ""):
        consolidated(tmp_path / "a.zarr", path)
    return tmp_path / "a.zarr"


def consolidated(folder, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no part of Zarr v3 yet
        zarr.consolidate_metadata(folder, path=path or None)


def add(hierarchy):
    """Add an array as one does who does not know of the copies."""
    plain = zarr.open_group(
        hierarchy / "b" / "labels", mode="r+", use_consolidated=False
    )
    label = plain.create_group("new", attributes={"some": "thing"})
    label.create_array("0", shape=(4,), dtype="u2")[...] = 7
    plain.attrs["labels"] = ["new"]
    return ["b/labels", "b/labels/new", "b/labels/new/0"]


def test_what_is_new_is_found(hierarchy):
    paths = add(hierarchy)
    root = zarr.open_group(hierarchy, mode="r", use_consolidated=True)
    assert "b/labels/new" not in root
    update_copies(FolderTransaction(str(hierarchy)), paths)
    for path, below in (("", "b/labels"), ("b", "labels")):
        group = zarr.open_group(
            hierarchy, path=path or None, mode="r", use_consolidated=True
        )
        assert group[below].attrs["labels"] == ["new"]
        assert group[f"{below}/new"].attrs["some"] == "thing"
        np.testing.assert_array_equal(group[f"{below}/new/0"][...], [7] * 4)
        assert group[f"{below}/old"].shape == (2,)


def test_what_changed_is_not_taken_for_what_it_was(hierarchy):
    transaction = FolderTransaction(str(hierarchy))
    update_copies(transaction, ["b/labels/old"], forgets=True)
    root = zarr.open_group(hierarchy, mode="r", use_consolidated=True)
    assert "b/labels/old" not in root
    update_copies(transaction, ["b/labels/old"])
    root = zarr.open_group(hierarchy, mode="r", use_consolidated=True)
    assert root["b/labels/old"].dtype == "u1"


def test_nothing_is_written_where_nothing_is_consolidated(tmp_path):
    zarr.open_group(tmp_path, mode="w").create_array("0", shape=(2,), dtype="u1")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    update_copies(FolderTransaction(str(tmp_path)), ["0"])
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_the_rest_of_a_document_stays(hierarchy):
    root = hierarchy / "zarr.json"
    if not root.exists():
        pytest.skip("has no consolidated metadata in it")
    document = json.loads(root.read_text())
    root.write_text(json.dumps(document | {"attributes": {"mine": 1}}, indent=3))
    update_copies(FolderTransaction(str(hierarchy)), add(hierarchy))
    assert json.loads(root.read_text())["attributes"] == {"mine": 1}
    assert root.read_text().startswith('{\n   "')
