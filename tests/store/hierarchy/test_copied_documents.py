"""Names in consolidated metadata: those of documents that are read, and no others."""

from __future__ import annotations

import json

import pytest

from napari_ngff.store.hierarchy.group_documents import CopiedDocuments
from napari_ngff.store.limits import parse_object

NEWER = {"": {}, "0": {}, "labels": {}, "labels/a": {}, "labels/a/0": {}}


def of_paths(paths):
    copies = {"consolidated_metadata": {"metadata": paths}}
    return CopiedDocuments.of_document(copies, "zarr.json")


def of_file(raw):
    return CopiedDocuments.of_document(parse_object(raw) or {}, ".zmetadata")


def test_documents_of_zarr_v3_are_listed():
    names = of_paths(NEWER).names
    assert names == tuple(
        f"{path}/zarr.json" for path in ("0", "labels/a/0", "labels/a", "labels")
    )


def test_documents_of_zarr_v2_are_listed_without_those_that_are_not_read():
    keys = (".zgroup", ".zattrs", "0/.zarray", "0/.zattrs", "labels/.zattrs")
    raw = json.dumps({"metadata": {key: {} for key in keys}}).encode()
    assert of_file(raw).names == ("0/.zarray", "labels/.zattrs")


@pytest.mark.parametrize(
    "raw", [None, b"", b"{", b"[]", b'{"metadata": []}', b'{"metadata": {"x": 1}}']
)
def test_any_file_is_read(raw):
    assert of_file(raw).names == ()


@pytest.mark.parametrize("document", [{}, {"consolidated_metadata": None}])
def test_most_groups_have_no_copies(document):
    assert CopiedDocuments.of_document(document, "zarr.json").names == ()


@pytest.mark.parametrize(
    "path", ["..", "a/../b", "/a", "a//b", "a?b", "a\\b", "http://a"]
)
def test_no_name_leads_elsewhere(path):
    assert of_paths({path: {}}).names == ()


def test_documents_below_a_group_are_found():
    copied = of_paths({path: {} for path in ("A", "A/1", "A/1/0", "A/10", "A/2", "A1")})
    assert copied.below("A/1") == ("A/1/0/zarr.json", "A/1/zarr.json")
    assert copied.below("A/3") == ()
    assert len(copied.below("")) == 6
    assert copied.shallow_first("A", 2) == ("A/zarr.json", "A/1/zarr.json")
