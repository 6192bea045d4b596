"""The specification's public cases: all are judged as they are meant to be.

Cases for the strict schemas, which want part of what SHOULD be, are judged strictly:
the invalid ones break something, and the valid ones nothing but what is listed here.
"""

import json
import os
import re
from pathlib import Path

import pytest

from napari_ngff.metadata.model import Severity
from napari_ngff.metadata.rules import check_attributes

ROOT = Path(__file__).parents[2]
CORPORA = Path(os.environ.get("NGFF_CORPORA", ROOT / "../shared/corpora"))

pytestmark = pytest.mark.skipif(
    not CORPORA.is_dir(), reason=f"no public test cases at {CORPORA} (NGFF_CORPORA)"
)

UNITS = "its axis t has no unit, which it SHOULD have"
SWAPPED = "its rows are called 1 and its columns A, and its well A/1"
FIELDS = "it has no field_count, which it SHOULD have"
PLATE_0_5 = "the text of 0.5 wants a version in the plate, its schema does not"
WELL_0_5 = "the text of 0.5 wants a version in the well, its schema does not"

DIFFERENT = {
    "0.4/image_omero.json": {"axis-unit-missing": UNITS},
    "0.4/plate/strict_no_acquisitions": {"well-position-differs": SWAPPED},
    "0.4/plate/strict_acquisitions": {"well-position-differs": SWAPPED},
    "0.5/image_omero.json": {"axis-unit-missing": UNITS},
    "0.5/plate/strict_no_acquisitions": {
        "plate-field-count-missing": FIELDS,
        "plate-version-missing": PLATE_0_5,
    },
    "0.5/plate/strict_acquisitions": {
        "plate-field-count-missing": FIELDS,
        "plate-version-missing": PLATE_0_5,
    },
    "0.5/well/strict_no_acquisitions": {"well-version-missing": WELL_0_5},
    "0.5/well/strict_acquisitions": {"well-version-missing": WELL_0_5},
    "0.6/image/image_omero": {
        "axis-unit-missing": UNITS,
        "transform-not-intrinsic": 'its system "intrinsic" is defined nowhere',
        "transform-system-unknown": 'its system "intrinsic" is defined nowhere',
        "systems-unconnected": 'its system "intrinsic" is defined nowhere',
    },
    "0.6/image/multiscales_example": {
        "dataset-input-differs": 'the path is "1", the path of the input "s1"'
    },
    "0.6/plate/strict_no_acquisitions": {
        "plate-field-count-missing": FIELDS,
        "well-position-differs": SWAPPED,
    },
    "0.6/plate/strict_acquisitions": {
        "plate-field-count-missing": FIELDS,
        "well-position-differs": SWAPPED,
    },
}
"""Strict case that is meant to be valid -> the rule it breaks -> why we say so."""


def suites():
    """Cases of 0.4 and 0.5: suites of one file each."""
    for version in ("0.4", "0.5"):
        for path in sorted(CORPORA.glob(f"ngff-spec-{version}/*_suite.json")):
            strict = path.name.startswith("strict")
            for test in json.loads(path.read_bytes())["tests"]:
                name = test.get("formerly") or test["description"]
                name = re.sub("^(in)?valid(_strict)?/", "", name)
                # Two strict suites call the cases of wells those of plates.
                name = name.replace("plate/", "well/") if "well" in path.name else name
                yield f"{version}/{name}", test["data"], strict, test["valid"]


def documents():
    """Cases of 0.1, 0.3 and 0.6: one file each, in folders called valid or invalid."""
    for folder in ("ngff-spec-0.1", "ngff-spec-0.3", "ngff-spec-0.6/attributes"):
        for path in sorted((CORPORA / folder).rglob("*.json")):
            name = f"{folder[10:13]}/{path.parent.name}/{path.stem}"
            strict, valid = "strict" in path.parts, "valid" in path.parts
            yield name, json.loads(path.read_bytes()), strict, valid


CASES = [(*case,) for source in (suites, documents) for case in source()]


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
