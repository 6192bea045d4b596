"""What a version of OME-Zarr has, also where its text is no version."""

import json
from copy import deepcopy
from pickle import dumps, loads

import pytest

from napari_ngff.metadata.version import LABEL_VERSIONS, VERSIONS, Version

RELEASES = ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]
DRAFTS = ["0.6.dev3", "0.6rc0", "0.6-dev"]
LATER = ["0.7", "1.0", "draft"]
LATER_BY_NUMBER = ["0.10", "0.45", "10.0", "9" * 5000]
OF_0_4 = [" 0.4", "0.4.1", "0.4-dev", "0.4.10"]
OF_0_5 = ["0.5.1", "0.5-dev-spatialdata"]
BLANK = ["", "0", "0.0"]
LATER += LATER_BY_NUMBER

FROM_0_6 = ["0.6", *DRAFTS, *LATER]
FROM_0_5 = ["0.5", *OF_0_5, *FROM_0_6]
FROM_0_4 = ["0.4", *OF_0_4, *FROM_0_5]
HAVE = {
    "has_ome_key": FROM_0_5,
    "has_nested_chunks": ["0.2", "0.3", *FROM_0_4, *BLANK],
    "must_be_consistent": FROM_0_5,
    "has_part_versions": [*RELEASES[:5], *OF_0_4, *OF_0_5, *BLANK],
    "has_axes": ["0.3", *FROM_0_4, *BLANK],
    "has_axis_names_only": ["0.3"],
    "has_transformations": FROM_0_4,
    "may_have_transformations": [*FROM_0_4, *BLANK],
    "has_systems": FROM_0_6,
    "has_free_axes": ["0.7", *LATER_BY_NUMBER],
    "has_well_indices": FROM_0_4,
    "has_complete_label_list": FROM_0_4,
    "is_known": [*RELEASES, *DRAFTS],
    "is_draft": ["0.6.dev3", "0.6-dev"],
}
"""Texts of which a question is true."""


@pytest.mark.parametrize("question", HAVE)
def test_questions_have_one_answer_for_each_text(question):
    texts = [*RELEASES, *DRAFTS, *LATER, *OF_0_4, *OF_0_5, *BLANK]
    true = [text for text in texts if getattr(Version(text), question)]
    assert sorted(true) == sorted(HAVE[question])


def test_every_question_is_asked_here():
    named = [n for n, x in vars(Version).items() if isinstance(x, property)]
    assert {*HAVE, "number", "minor", "zarr_format"} == set(named)


@pytest.mark.parametrize(
    ("text", "minor"),
    [("0.4", 4), ("0.6.dev3", 6), ("0.5-dev", 5), ("0.4.1", 4), (" 0.4", 4)]
    + [(text, None) for text in ["", "0.7", "0.0", "1.4", "0.10", "0.45", "draft"]],
)
def test_the_minor_number(text, minor):
    assert Version(text).minor == minor


@pytest.mark.parametrize(
    ("text", "zarr_format"),
    [("0.4", 2), ("0.4.1", 2), ("0.5", 3), ("0.10", 3), ("", 2)],
)
def test_the_format_of_zarr(text, zarr_format):
    assert Version(text).zarr_format == zarr_format


def test_drafts_belong_to_their_release():
    assert Version("0.6.dev3").belongs_to("0.6")
    assert Version("0.6").belongs_to("0.6")
    assert not Version("0.5").belongs_to("0.6")
    assert not Version("0.10").belongs_to("0.1")


def test_it_is_a_text():
    version = Version("0.6.dev3")
    assert version == "0.6.dev3"
    assert f"{version} {version!r}" == "0.6.dev3 '0.6.dev3'"
    assert json.dumps({"version": version}) == '{"version": "0.6.dev3"}'
    assert {version: 1}["0.6.dev3"] == 1
    copies = loads(dumps(version)), deepcopy(version)
    assert all(copy == version and type(copy) is Version for copy in copies)


def test_versions_to_write_are_in_order():
    assert list(VERSIONS) == RELEASES == sorted(VERSIONS)
    assert list(LABEL_VERSIONS) == RELEASES[3:]
