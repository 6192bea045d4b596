"""The specification's public cases, and the one table of those that we judge otherwise.

Cases for the strict schemas, which want part of what SHOULD be, are judged strictly:
the invalid ones break something, and the valid ones nothing but what is listed here.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPORA = Path(os.environ.get("NGFF_CORPORA", ROOT / "../shared/corpora"))
MISSING = f"no public test cases at {CORPORA} (NGFF_CORPORA)"

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
