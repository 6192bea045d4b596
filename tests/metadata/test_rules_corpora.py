"""The specification's public cases: all are judged as they are meant to be."""

import json
import re

import pytest

from conformance import CASES, CORPORA, DIFFERENT, MISSING
from napari_ngff.metadata.model import Severity
from napari_ngff.metadata.rules import check_attributes

pytestmark = pytest.mark.skipif(not CORPORA.is_dir(), reason=MISSING)


def problems_of(attributes):
    return check_attributes(attributes, 3 if "ome" in attributes else 2)


def test_all_cases_are_there():
    by_version = [name[:3] for name, *_ in CASES]
    assert {v: by_version.count(v) for v in sorted(set(by_version))} == {
        "0.1": 26,
        "0.3": 20,
        "0.4": 92,
        "0.5": 86,
        "0.6": 143,
    }


@pytest.mark.parametrize(
    ("name", "attributes", "strict", "valid"),
    [pytest.param(*case, id=f"{i}-{case[0]}") for i, case in enumerate(CASES)],
)
def test_case(name, attributes, strict, valid):
    problems = problems_of(attributes)
    errors = [p for p in problems if p.severity is Severity.ERROR]
    if not valid:
        assert problems if strict else errors
        return
    assert errors == []
    if strict:
        assert {p.code for p in problems} == DIFFERENT.get(name, {}).keys()


def test_every_difference_is_one_of_a_strict_valid_case():
    strict_valid = {name for name, _, strict, valid in CASES if strict and valid}
    assert DIFFERENT.keys() <= strict_valid


def test_drafts_are_judged_without_failing():
    for path in sorted((CORPORA / "rfc5-2d").rglob("zarr.json")):
        document = json.loads(path.read_bytes())
        if document["node_type"] == "group":
            problems = check_attributes(document.get("attributes", {}), 3)
            stated = "version" in document.get("attributes", {}).get("ome", {})
            assert stated <= any(p.code == "version-draft" for p in problems)


BROKEN_EXAMPLES = {
    "byDimensionInvalid1.json": "meant to be invalid: an output that does not exist",
    "byDimensionInvalid2.json": "meant to be invalid: an output that is there twice",
    "byDimensionXarray.json": "the form of a draft",
    "mapAxis1.json": "input and output are strings",
    "sequenceSubspace1.json": "the form of a draft",
}


def test_transformations_of_the_text():
    valid = set()
    folder = CORPORA / "ngff-spec-0.6/examples/transformations"
    for path in folder.glob("*.json"):
        comments = r"^\s*//.*|(?<=[\s,{\[])//.*"
        text = re.sub(comments, "", path.read_text(), flags=re.MULTILINE)
        scene = json.loads(text)
        if "coordinateSystems" in scene:
            problems = problems_of({"ome": {"version": "0.6", "scene": scene}})
            errors = [p for p in problems if p.severity is Severity.ERROR]
            assert bool(errors) is (path.name in BROKEN_EXAMPLES), path.name
            valid.add(path.name)
    assert valid >= {"scale.json", "affine2d3d.json", *BROKEN_EXAMPLES}
