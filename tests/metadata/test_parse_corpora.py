"""The specification's public cases: every valid one is read without an error."""

import json
import os
import re
from pathlib import Path

import pytest

from napari_ngff.metadata.model import Axis, Channel, ContrastWindow, Level, Severity
from napari_ngff.metadata.parse import parse_attributes

ROOT = Path(__file__).parents[2]
CORPORA = Path(os.environ.get("NGFF_CORPORA", ROOT / "../shared/corpora"))

pytestmark = pytest.mark.skipif(
    not CORPORA.is_dir(), reason=f"no public test cases at {CORPORA} (NGFF_CORPORA)"
)


def suites():
    """Cases of 0.4 and 0.5: suites of one file each."""
    for version, zarr_format in (("0.4", 2), ("0.5", 3)):
        for path in sorted(CORPORA.glob(f"ngff-spec-{version}/*_suite.json")):
            for test in json.loads(path.read_bytes())["tests"]:
                name = test.get("formerly") or test["description"]
                yield f"{version}/{name}", test["data"], zarr_format, test["valid"]


def documents():
    """Cases of 0.1, 0.3 and 0.6: one file each, in folders called valid or invalid."""
    for folder, zarr_format in (
        ("ngff-spec-0.1", 2),
        ("ngff-spec-0.3", 2),
        ("ngff-spec-0.6/attributes", 3),
    ):
        for path in sorted((CORPORA / folder).rglob("*.json")):
            data = json.loads(path.read_bytes())
            valid = "valid" in path.parts
            yield str(path.relative_to(CORPORA)), data, zarr_format, valid


def hierarchies():
    """Groups of the examples of RFC-5, in the spelling of 0.6.dev4."""
    for path in sorted((CORPORA / "rfc5-2d").rglob("zarr.json")):
        data = json.loads(path.read_bytes())
        if data["node_type"] == "group":
            yield str(path.relative_to(CORPORA)), data.get("attributes", {}), 3, True


CASES = [
    pytest.param(*case, id=name)
    for source in (suites, documents, hierarchies)
    for name, *case in source()
]


def errors(metadata):
    return [p for p in metadata.problems if p.severity is Severity.ERROR]


def test_the_corpora_are_complete():
    valid = [case.values[2] for case in CASES]
    assert valid.count(True) >= 112
    assert valid.count(False) >= 270


@pytest.mark.parametrize(("attributes", "zarr_format", "valid"), CASES)
def test_case(attributes, zarr_format, valid):
    metadata = parse_attributes(attributes, zarr_format)
    home = attributes.get("ome", attributes)
    if valid:
        assert errors(metadata) == []
    if valid and "multiscales" in home:
        written = home["multiscales"]
        assert len(metadata.image.multiscales) == len(written)
        for stated, found in zip(written, metadata.image.multiscales, strict=True):
            paths = [dataset["path"] for dataset in stated["datasets"]]
            assert [level.path for level in found.levels] == paths
            assert all(len(level.scale) == len(found.axes) for level in found.levels)
    for key in ("plate", "well", "scene"):
        if isinstance(home.get(key), dict):
            assert getattr(metadata, key) is not None
    if "plate" in home and valid:
        assert [well.path for well in metadata.plate.wells] == [
            well["path"] for well in home["plate"]["wells"]
        ]
    if metadata.image is None and home.get("multiscales"):
        assert errors(metadata)


INVALID_UNUSABLE = re.compile(
    r"(missing|no)_(datasets|multiscales)|missing_path|invalid_path"
)


@pytest.mark.parametrize(
    ("attributes", "zarr_format"),
    [
        pytest.param(*case.values[:2], id=case.id)
        for case in CASES
        if "image/invalid" in case.id and not INVALID_UNUSABLE.search(case.id)
    ],
)
def test_invalid_images_are_shown(attributes, zarr_format):
    assert parse_attributes(attributes, zarr_format).image is not None


def test_strict_image_with_omero_0_4():
    cases = {case.id: case.values for case in CASES}
    attributes, zarr_format, _ = cases["0.4/valid_strict/image_omero.json"]
    image = parse_attributes(attributes, zarr_format).image
    assert image.multiscales[0].axes == (
        Axis("t", "time"),
        Axis("c", "channel"),
        *(Axis(name, "space", "micrometer") for name in "zyx"),
    )
    assert image.multiscales[0].levels == (
        Level("0", (1.0, 1.0, 0.5, 0.13, 0.13), (0.0, 9.0, 0.5, 25.74, 21.58)),
        Level("1", (1.0, 1.0, 1.0, 0.26, 0.26), (0.0,) * 5),
    )
    assert len(image.omero.channels) == 2
    assert isinstance(image.omero.channels[0], Channel)
    assert isinstance(image.omero.channels[0].window, ContrastWindow)


def test_sequence_of_rfc_5():
    path = "rfc5-2d/basic/sequenceScaleTranslation.zarr/zarr.json"
    attributes = json.loads((CORPORA / path).read_bytes())["attributes"]
    (level,) = parse_attributes(attributes, 3).image.multiscales[0].levels
    assert level == Level("array", (3.0, 2.0), (30.0, 20.0))


def without_comments(text):
    return re.sub(r"^\s*//.*|(?<=[\s,{\[])//.*", "", text, flags=re.MULTILINE)


def test_examples_of_the_text():
    read = 0
    for path in sorted((CORPORA / "ngff-spec-0.6/examples").rglob("[!.]*.json")):
        data = json.loads(without_comments(path.read_text()))
        metadata = parse_attributes(data.get("attributes", data), 3)
        read += metadata.kind is not None
    assert read > 30
