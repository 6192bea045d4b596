"""Names of label images."""

from __future__ import annotations

import pytest

from napari_ngff.labels.places.label_location import name_problem


@pytest.mark.parametrize(
    "name",
    ["", "  ", "a/b", "a\\b", "..", ".", "__a", "nuclei", "NUCLEI", "a\n", " a", "a."],
)
def test_a_name_that_cannot_be_is_refused(name):
    assert name_problem(name, ["nuclei"])


@pytest.mark.parametrize("name", ["zarr.json", ".zattrs"])
def test_the_name_of_a_document_is_refused(name):
    assert name_problem(name)


@pytest.mark.parametrize("name", ["cells", "Zellkerne 2", "核", "a.b", "_a"])
def test_a_name_that_can_be_is_taken(name):
    assert name_problem(name, ["nuclei"]) == ""
