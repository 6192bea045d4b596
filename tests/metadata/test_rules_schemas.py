"""No document that a schema of the specification refuses passes for valid.

Documents that are written here are broken at every place in every simple way, and
judged by the schemas that another library comes with. The rules are stricter, for
schemas cannot say all that the text does.
"""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from napari_ngff.metadata.dump import dump_image, dump_plate, dump_well
from napari_ngff.metadata.model import (
    Acquisition,
    Axis,
    Channel,
    ContrastWindow,
    ImageMetadata,
    LabelInfo,
    Level,
    Multiscale,
    Omero,
    PlateMetadata,
    Severity,
    WellField,
    WellMetadata,
    WellReference,
)
from napari_ngff.metadata.rules import check_attributes

jsonschema = pytest.importorskip("jsonschema")
ngff_zarr = pytest.importorskip("ngff_zarr")
referencing = pytest.importorskip("referencing")

SCHEMAS = Path(ngff_zarr.__file__).parent / "spec"
VALUES = (None, True, -1, 1.5, "", "a-b", [], {}, [1], [[1]])


@cache
def schema_of(version, kind):
    registry = referencing.Registry()
    for path in (SCHEMAS / version / "schemas").glob("*.schema"):
        content = json.loads(path.read_text())
        if "$schema" in content:  # the strict ones of 0.4 and 0.5 have none
            resource = referencing.Resource.from_contents(content)
            registry = registry.with_resource(content["$id"], resource)
    content = json.loads((SCHEMAS / version / "schemas" / f"{kind}.schema").read_text())
    return jsonschema.Draft202012Validator(content, registry=registry)


def documents(version):
    """One document of each kind, with all that the package can write."""
    axes = (Axis("c", "channel"), *(Axis(n, "space", "micrometer") for n in "yx"))
    levels = (
        Level("0", (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)),
        Level("1", (1.0, 2.0, 2.0), (0.0, 0.5, 0.5)),
    )
    pyramid = (Multiscale("cells", axes, levels, "nearest"),)
    channel = Channel("DNA", (0, 0, 255), ContrastWindow(0, 255, 0, 255), True)
    label = LabelInfo({1: (1, 2, 3, 255)}, {1: {"area": 3}})
    wells = (WellReference("A/1", 0, 0), WellReference("A/2", 0, 1))
    plate = PlateMetadata(
        "screen", ("A",), ("1", "2"), wells, (Acquisition(0, "first"),), 1
    )
    return {
        "image": dump_image(
            ImageMetadata(pyramid, Omero("cells", (channel,))), version
        ),
        "label": dump_image(ImageMetadata(pyramid, label=label), version),
        "plate": dump_plate(plate, version),
        "well": dump_well(WellMetadata((WellField("0", 0),)), version),
    }


def places(value):
    """Containers and keys of a document, without what is free in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if key not in ("ome", "metadata", "area", "multiscales", "plate", "well"):
            yield value, key
        if isinstance(inner, dict | list) and key != "metadata":
            yield from places(inner)


def broken(document):
    """Yield the document broken once, in each way, and how."""
    for at, (container, key) in enumerate(places(document)):
        ways = [("is", value) for value in VALUES] + [("is gone", None)]
        ways += [("is twice", None)] if isinstance(container, list) else []
        for way, value in ways:
            changed = deepcopy(document)
            place, key = list(places(changed))[at]
            if way == "is":
                place[key] = value
            elif way == "is gone":
                del place[key]
            else:
                place.append(deepcopy(place[key]))
            yield changed, f"{key} {way} {value}"


@pytest.mark.default_cases(
    "image-0.4", "image-0.5", "image-0.6", "label-0.4", "label-0.6", "plate-0.4",
    "plate-0.6", "well-0.4", "well-0.6",
)  # fmt: skip
@pytest.mark.parametrize("version", ["0.4", "0.5", "0.6"])
@pytest.mark.parametrize("kind", ["image", "label", "plate", "well"])
def test_what_a_schema_refuses_is_refused(version, kind):
    schema = schema_of(version, kind)
    document = documents(version)[kind]
    assert schema.is_valid(document)
    refused, missed = 0, []
    for changed, how in broken(document):
        problems = check_attributes(changed, 2 if version == "0.4" else 3, version)
        errors = [p for p in problems if p.severity is Severity.ERROR]
        if not schema.is_valid(changed):
            refused += 1
            if not errors:
                missed.append(how)
    assert refused > 20
    # "a null / custom type" the text allows.
    assert set(missed) <= {"type is None", "image-label is gone None"}
