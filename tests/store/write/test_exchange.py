"""Two paths swap their names in one step, or stay as they are."""

import os

import pytest

from napari_ngff.store.sources.folder_store import FolderTransaction
from napari_ngff.store.write import exchange as module
from napari_ngff.store.write.exchange import exchange_paths, rename_to_free


@pytest.fixture
def folders(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "who").write_text(name)
    return tmp_path


def test_folders_are_swapped(folders):
    if not exchange_paths(str(folders / "old"), str(folders / "new")):
        pytest.skip("this system cannot")
    assert (folders / "old/who").read_text() == "new"
    assert (folders / "new/who").read_text() == "old"


def test_a_missing_folder_is_refused(folders):
    if not exchange_paths(str(folders / "old"), str(folders / "new")):
        pytest.skip("this system cannot")
    with pytest.raises(FileNotFoundError, match="nothing"):
        exchange_paths(str(folders / "old"), str(folders / "nothing"))


def test_a_name_that_is_taken_is_not_renamed_to(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    if not rename_to_free(str(tmp_path / "new"), str(tmp_path / "other")):
        pytest.skip("this system cannot")
    with pytest.raises(FileExistsError, match="old"):
        rename_to_free(str(tmp_path / "other"), str(tmp_path / "old"))
    assert (tmp_path / "old").read_text() == "old"
    assert (tmp_path / "other").read_text() == "new"


@pytest.mark.parametrize("swaps", [True, False])
def test_a_folder_takes_the_place_of_another(folders, monkeypatch, swaps):
    if not swaps:
        monkeypatch.setattr(module, "_call_rename", lambda *_: module.errno.ENOSYS)
    with FolderTransaction(str(folders)).replace_tree("old") as tree:
        os.rename(folders / "new", tree.new)
        tree.commit()
    assert os.listdir(folders) == ["old"]
    assert (folders / "old/who").read_text() == "new"
