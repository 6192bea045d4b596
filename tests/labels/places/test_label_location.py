"""Names of label images."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.labels.places.label_location import name_problem

DEVICES = ["con", "prn", "aux", "nul", "CONIN$", "conout$", "com1", "COM9", "lpt³"]
"""Names of Windows: https://learn.microsoft.com/windows/win32/fileio/naming-a-file"""


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


@given(
    st.sampled_from(DEVICES),
    st.sampled_from([str.lower, str.upper, str.title]),
    st.sampled_from(["", ".zarr", ".a.b", " .txt"]),
)
def test_the_name_of_a_device_of_windows_is_refused(name, case, ending):
    assert "on every system" in name_problem(case(name) + ending)


@pytest.mark.parametrize("name", ["console", "com10", "com", "nul-2", "a.nul", "cell"])
def test_a_name_that_only_looks_like_one_is_taken(name):
    assert name_problem(name) == ""


@given(st.text(st.characters(categories=["L", "M"]), min_size=1).map("a{}".format))
def test_a_name_counts_as_taken_in_any_case_and_form_of_unicode(name):
    forms = [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    for other in [*forms, *map(str.casefold, forms), name.lower()]:
        assert "already exists" in name_problem(other, [name])
