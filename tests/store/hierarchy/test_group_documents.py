"""Documents of a group are read as they are, those of a server at once."""

from __future__ import annotations

import json

import pytest

import unreliable
from napari_ngff import open_node
from napari_ngff.errors import CorruptDataError
from napari_ngff.store.hierarchy.group_documents import FIRST, GroupDocuments
from napari_ngff.store.hierarchy.location import find_location
from napari_ngff.store.sources import read_ahead
from patience import until
from plates import pixels, write_image


def documents_of(where):
    return GroupDocuments(find_location(str(where)))


def test_documents_are_read(tmp_path):
    (tmp_path / "zarr.json").write_text(json.dumps({"a": 1}))
    documents = documents_of(tmp_path)
    assert documents.read("zarr.json") == {"a": 1}
    assert documents.read(".zattrs") is documents.get(".zgroup") is None


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_document_that_is_no_object_is_an_error_with_its_place(tmp_path, text):
    (tmp_path / "zarr.json").write_text(text)
    with pytest.raises(CorruptDataError, match=r"zarr\.json"):
        documents_of(tmp_path).read("zarr.json")


def test_a_server_is_asked_at_once_for_what_shows_whether_there_is_a_group(tmp_path):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / ".zattrs").write_text(json.dumps({"a": 1}))
    with unreliable.serving(tmp_path) as server:
        documents = documents_of(f"{server.address}/a.zarr")
        documents.ask(FIRST[None])
        until(lambda: len(server.asked) == 3)
        assert documents.read("zarr.json") is None
        assert documents.read(".zattrs") == {"a": 1}
        names = sorted(path.rpartition("/")[2] for path in server.asked)
        assert names == [".zattrs", ".zgroup", ".zmetadata", "zarr.json"]
        assert documents.list_copies().names == ()


def test_a_list_of_copies_that_never_comes_is_not_waited_for(tmp_path, monkeypatch):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    monkeypatch.setattr(read_ahead, "PATIENCE", 0.05)
    write_image(tmp_path / "a.zarr", pixels(0, (1, 8, 8)), 2)
    with unreliable.serving(tmp_path) as server:
        server.answer = lambda path: unreliable.HANG if "zmeta" in path else 200
        node = open_node(f"{server.address}/a.zarr")
        assert node.metadata.image is not None
        assert node.copied.names == ()


@pytest.mark.parametrize(
    ("text", "word"), [("[1]", "a list"), ('"a"', "a text"), ("1.5", "a number")]
)
def test_a_document_of_another_kind_is_named_in_words(tmp_path, text, word):
    (tmp_path / "zarr.json").write_text(text)
    with pytest.raises(CorruptDataError, match=f"holds {word} instead of keys"):
        documents_of(str(tmp_path)).read("zarr.json")
