"""One minimal document for each rule, and what breaks no rule."""

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.metadata.dump import (
    dump_image,
    dump_labels,
    dump_plate,
    dump_well,
)
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
from napari_ngff.metadata.rules import (
    axis_rules,
    check_attributes,
    document_rules,
    image_rules,
    link_rules,
    plate_rules,
    transformation_rules,
)
from napari_ngff.metadata.rules.rule import FormatRule
from napari_ngff.metadata.version import VERSIONS

MICRON = {"type": "space", "unit": "micrometer"}
YX = [{"name": "y", **MICRON}, {"name": "x", **MICRON}]
ZYX = [{"name": "z", **MICRON}, *YX]
TIME = {"name": "t", "type": "time", "unit": "second"}
ANGLE = {"name": "angle", "type": "angle"}
METHOD = {"name": "cells", "type": "nearest", "metadata": {"method": "nearest"}}
LIMITS = {"min": 0, "max": 255, "start": 0, "end": 255}


def scale(*factors):
    return {"type": "scale", "scale": list(factors)}


def translation(*offsets):
    return {"type": "translation", "translation": list(offsets)}


def image_1(**changes):
    multiscale = METHOD | {"version": "0.1", "datasets": [{"path": "0"}]}
    return {"multiscales": [multiscale | changes]}


def image_3(**changes):
    attributes = image_1(**({"version": "0.3", "axes": ["y", "x"]} | changes))
    return attributes | {"_ARRAY_DIMENSIONS": ["y", "x"]}


def multiscale(steps, **changes):
    dataset = {"path": "0", "coordinateTransformations": steps}
    return METHOD | {"axes": YX, "datasets": [dataset]} | changes


def image_4(*steps, **changes):
    steps = list(steps) or [scale(1, 1)]
    return {"multiscales": [multiscale(steps, **({"version": "0.4"} | changes))]}


def image_5(*steps, others=None, version="0.5", **changes):
    entry = multiscale(list(steps) or [scale(1, 1)], **changes)
    return {"ome": {"version": version, "multiscales": [entry], **(others or {})}}


def whole(step, path="0", name="own"):
    return {"input": {"path": path}, "output": {"name": name}} | step


def link(step, first="own", last="world"):
    return {"input": {"name": first}, "output": {"name": last}} | step


def system(name, axes=YX):
    return {"name": name, "axes": axes}


def image_6(*steps, systems=None, links=None, version="0.6", **changes):
    entry = multiscale(list(steps) or [whole(scale(1, 1))], **changes)
    del entry["axes"]
    entry["coordinateSystems"] = systems or [system("own")]
    if links is not None:
        entry["coordinateTransformations"] = links
    return {"ome": {"version": version, "multiscales": [entry]}}


def linked(step, axes=YX, **changes):
    """An image of 0.6 with the systems own (yx) and world, and one way between."""
    return image_6(
        systems=[system("own"), system("world", axes)], links=[link(step)], **changes
    )


def wrapped(*items):
    keys = ("transformation", "inputAxes", "outputAxes")
    items = [dict(zip(keys, item, strict=True)) for item in items]
    return {"type": "byDimension", "transformations": items}


def with_omero(**channel):
    channel = {"color": "00FF00", "window": LIMITS} | channel
    channel = {key: value for key, value in channel.items() if value is not None}
    return image_4() | {"omero": {"channels": [channel]}}


def label_4(**changes):
    label = {"version": "0.4", "colors": [{"label-value": 1}]} | changes
    label = {key: value for key, value in label.items() if value is not None}
    return image_4() | {"image-label": label}


def plate(release="0.5", **changes):
    content = {
        "name": "screen",
        "version": release if release <= "0.5" else None,
        "field_count": 1,
        "rows": [{"name": "A"}],
        "columns": [{"name": "1"}],
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}],
    } | changes
    content = {key: value for key, value in content.items() if value is not None}
    if release <= "0.4":
        return {"plate": content}
    return {"ome": {"version": release, "plate": content}}


def acquired(**changes):
    run = {"id": 0, "name": "first", "maximumfieldcount": 1} | changes
    run = {key: value for key, value in run.items() if value is not None}
    return plate(acquisitions=[run])


def well(*images, release="0.5", **changes):
    content = {"images": list(images) or [{"path": "0"}]} | changes
    content |= {"version": release} if release <= "0.5" else {}
    content = {key: value for key, value in content.items() if value is not None}
    return {"ome": {"version": release, "well": content}}


def scene(*links, **changes):
    content = {
        "coordinateSystems": [system("world")],
        "coordinateTransformations": list(links),
    } | changes
    content = {key: value for key, value in content.items() if value is not None}
    return {"ome": {"version": "0.6", "scene": content}}


def tile(path="tile", step=None):
    step = step or translation(1, 2)
    return {
        "input": {"path": path, "name": "own"},
        "output": {"name": "world"},
        **step,
    }


GOOD = {
    "0.1": image_1(),
    "0.3": image_3(),
    "0.4": image_4(),
    "0.4 moved": image_4(scale(1, 2), translation(3, 4)),
    "0.4 scaled twice": image_4(coordinateTransformations=[scale(2, 2)]),
    "0.5": image_5(),
    "0.6": image_6(),
    "0.6 linked": linked({"type": "mapAxis", "mapAxis": [1, 0]}),
    "0.6 rotated": linked({"type": "rotation", "rotation": [[0.6, -0.8], [0.8, 0.6]]}),
    "0.6 padded": linked({"type": "projectAxis", "createdOutputs": [0]}, ZYX),
    "0.6 affine": linked({"type": "affine", "affine": [[1, 0, 5]] * 3}, ZYX),
    "0.6 by path": linked({"type": "affine", "path": "matrix"}),
    "0.6 by dimension": linked(
        wrapped((scale(2), [0], [1]), (translation(3), [1], [0]))
    ),
    "0.6 field": linked({"type": "displacements", "path": "field"}),
    "0.6 pair": linked(
        {"type": "bijection", "forward": scale(2, 2), "inverse": scale(0.5, 0.5)}
    ),
    "0.6 nested": linked(
        {"type": "sequence", "transformations": [scale(2, 2), translation(1, 1)]}
    ),
    "0.6 to a label": image_6(
        links=[
            {
                "type": "identity",
                "input": {"name": "own"},
                "output": {"name": "own", "path": "labels/cells"},
            }
        ]
    ),
    "omero": with_omero(family="linear"),
    "label": label_4(),
    "plate 0.5": plate(),
    "plate 0.6": plate("0.6"),
    "runs": acquired(description="x", starttime=0, endtime=1),
    "well": well(),
    "scene": scene(tile()),
    "labels": {"ome": {"version": "0.5", "labels": ["cells"]}},
    "series": {"ome": {"version": "0.5", "series": ["0"]}},
    "layout": {"bioformats2raw.layout": 3},
    "nothing": {},
    "foreign": {"project": {"version": 7}},
}
"""Documents that break no rule at all."""

OPAQUE = {"type": "shear", "shear": [1]}

BAD = [
    # --- any document
    ("version-missing", {"ome": {"labels": []}}),
    ("version-missing", {"ome": {"image-label": {"version": "0.5"}}}),
    ("version-missing", image_4(version=None)),
    ("version-missing", image_4(version=None) | {"omero": {"version": "0.4"}}),
    ("version-unknown", image_4(version="foo")),
    ("version-unknown", {"ome": {"version": 0.5, "labels": []}}),
    ("version-draft", image_6(version="0.6.dev3")),
    ("version-unsupported", {"ome": {"version": "0.x", "type": "collection"}}),
    ("version-unsupported", {"ome": {"type": "multiscale", "nodes": []}}),
    ("version-differs", plate("0.4") | image_4(version="0.3")),
    ("version-differs", image_5(others={"image-label": {"version": "0.4"}})),
    ("version-zarr-format", image_4(version="0.5")),
    ("ome-key-missing", (image_4(), 3)),
    ("ome-key-in-zarr-2", (image_5(), 2)),
    ("wrong-value", []),
    ("missing-key", plate(rows=None)),
    ("layout-unknown", {"bioformats2raw.layout": 2}),
    ("scene-missing", {"ome": {"version": "0.6", "coordinateSystems": [system("a")]}}),
    ("path-not-plain", {"labels": ["/cells"]}),
    ("path-outside-group", {"labels": ["../cells"]}),
    ("path-unusable", {"labels": ["."]}),
    # --- multiscales
    ("multiscales-empty", {"multiscales": []}),
    ("multiscale-unusable", image_4(datasets=[])),
    ("multiscale-duplicate", {"multiscales": image_4()["multiscales"] * 2}),
    ("multiscale-name-missing", image_4(name=None)),
    ("multiscale-type-missing", image_4(type=None)),
    ("multiscale-metadata-missing", image_4(metadata=None)),
    ("null-value", image_4(name=None)),
    ("null-value", {"plate": None}),
    ("null-value", {"ome": None}),
    ("multiscale-metadata-type", image_1(metadata="nearest")),
    ("transforms-missing", image_4(datasets=[{"path": "0"}])),
    ("transforms-order", image_5(translation(1, 1), scale(1, 1))),
    ("transforms-order", image_4(coordinateTransformations=[translation(1, 1)])),
    ("transforms-several", image_6(whole(scale(1, 1)), whole(scale(2, 2)))),
    ("scale-zero", image_4(scale(0, 1))),
    ("transform-overflow", image_4(scale(1e308, 1), coordinateTransformations=[
        scale(1e308, 1)])),
    ("dataset-transform-type", image_6(whole({"type": "mapAxis", "mapAxis": [1, 0]}))),
    ("dataset-input", image_6(whole(scale(1, 1)) | {"input": {"name": "0"}})),
    ("dataset-output", image_6(whole(scale(1, 1)) | {"output": {"path": "own"}})),
    ("dataset-input-differs", image_6(whole(scale(1, 1), path="1"))),
    # --- axes
    ("axes-missing", image_4(axes=None)),
    ("axes-number", image_4(scale(1), axes=YX[:1])),
    ("axes-number", image_3(axes=["x"])),
    ("array-dimensions", image_3(axes=["z", "y", "x"])),
    ("axes-letters", image_3(axes=["z", "y", "ct"])),
    ("axes-letters", image_3(axes=["y", "x", "x"])),
    ("axes-order", image_3(axes=["y", "t", "x"])),
    ("axes-order", image_4(scale(1, 1, 1), axes=[*YX, TIME])),
    ("axes-space", image_4(axes=[TIME, YX[0]])),
    ("axes-space", scene(tile(), coordinateSystems=[system("world", [TIME, YX[0]])])),
    ("axes-several", image_4(
        scale(1, 1, 1, 1), axes=[ANGLE, ANGLE | {"name": "b"}, *YX])),
    ("axes-order-planes", image_4(scale(1, 1, 1), axes=ZYX[::-1])),
    ("axis-name-missing", image_4(axes=[MICRON, YX[1]])),
    ("axis-name-duplicate", image_4(axes=[YX[0], YX[0]])),
    ("axis-type-missing", image_4(scale(1, 1, 1), axes=[{"name": "angle"}, *YX])),
    ("axis-type-custom", image_5(scale(1, 1, 1), axes=[ANGLE, *YX])),
    ("axis-type-custom", image_6(
        whole(scale(1, 1, 1)), systems=[system("own", [ANGLE, *YX])])),
    ("axis-unit-missing", image_4(axes=[{"name": "y", "type": "space"}, YX[1]])),
    ("axis-unit-unknown", image_4(axes=[YX[0] | {"unit": "micron"}, YX[1]])),
    ("axis-unit-kind", image_4(axes=[YX[0] | {"unit": "second"}, YX[1]])),
    ("axis-long-name-type", image_6(
        systems=[system("own", [YX[0] | {"longName": 3}, YX[1]])])),
    # --- coordinate systems
    ("coordinate-systems-missing", image_5(version="0.6")),
    ("coordinate-system-name", image_6(systems=[system(""), system("own")])),
    ("coordinate-system-name", image_6(systems=[system("own"), {"axes": YX}])),
    ("coordinate-system-duplicate", image_6(systems=[system("own"), system("own")])),
    ("coordinate-system-axes-missing", image_6(systems=[{"name": "own"}])),
    ("intrinsic-system-unknown", image_6(whole(scale(1, 1), name="other"))),
    ("intrinsic-system-differs", image_6(
        systems=[system("own"), system("b")],
        datasets=[
            {"path": p, "coordinateTransformations": [whole(scale(1, 1), p, name)]}
            for p, name in (("0", "own"), ("1", "b"))
        ])),
    # --- transformations
    ("transform-input", linked(scale(1, 1) | {"input": "own"})),
    ("transform-output", linked(scale(1, 1) | {"output": {"path": "labels/a"}})),
    ("transform-list-empty", image_6(links=[])),
    ("transform-list-empty", image_4(coordinateTransformations=[])),
    ("transform-name-duplicate", scene(*[tile(p) | {"name": "a"} for p in "ab"])),
    ("transform-not-intrinsic", image_6(
        systems=[system("own"), system("a"), system("b")],
        links=[link(scale(1, 1), "own", "a"), link(scale(1, 1), "a", "b")])),
    ("transform-system-unknown", image_6(links=[link(scale(1, 1))])),
    ("transform-system-unknown", scene(tile() | {"output": {"name": "moon"}})),
    ("systems-unconnected", image_6(systems=[system("own"), system("alone")])),
    ("transform-type-missing", linked({"scale": [1, 1]})),
    ("transform-type-unknown", linked(OPAQUE)),
    ("transform-name-type", linked(scale(1, 1) | {"name": 1})),
    ("transform-field-missing", linked({"type": "scale"})),
    ("transform-field-missing", linked({"type": "bijection", "forward": scale(1, 1)})),
    ("transform-value", linked({"type": "scale", "scale": [1, "1"]})),
    ("transform-value", linked(scale(1, -1))),
    ("transform-value", linked({"type": "affine", "affine": [[1, 0, 0], [0, 1]]})),
    ("transform-value", linked({"type": "sequence", "transformations": []})),
    ("transform-value", linked({"type": "coordinates", "path": 3})),
    ("transform-length", linked(scale(1, 1, 1))),
    ("transform-length", linked({"type": "affine", "affine": [[1, 0]] * 2})),
    ("transform-length", image_5(scale(1, 1, 1))),
    ("transform-length", image_4(scale(1, 1, 1))),
    ("rotation-not-orthonormal", linked(
        {"type": "rotation", "rotation": [[1, 0], [0, 2]]})),
    ("rotation-not-orthonormal", linked(
        {"type": "rotation", "rotation": [[1, 0], [0, -1]]})),
    ("map-axis-indices", linked({"type": "mapAxis", "mapAxis": [0, 0]})),
    ("project-axis-indices", linked({"type": "projectAxis"})),
    ("project-axis-indices", linked({"type": "projectAxis", "droppedInputs": [5]})),
    ("by-dimension-item", linked({"type": "byDimension", "transformations": [{}]})),
    ("by-dimension-output-missing", linked(wrapped((scale(2), [0], [0])))),
    ("by-dimension-output-twice", linked(
        wrapped((scale(2), [0], [0]), (scale(2), [1], [0])))),
    ("by-dimension-output-unknown", linked(
        wrapped((scale(2), [0], [0]), (scale(2), [1], [2])))),
    ("transform-spelling", linked({"type": "byDimension", "transformations": [
        {"transformation": scale(2), "input_axes": [0], "output_axes": [0]}]})),
    ("interpolation-unknown", linked(
        {"type": "displacements", "path": "field", "interpolation": "magic"})),
    ("missing-key", scene(coordinateTransformations=None)),
    # --- omero and image-label
    ("channel-color-missing", with_omero(color=None)),
    ("channel-color-missing", image_5(others={"omero": {"channels": [
        {"window": LIMITS}]}})),
    ("channel-window-missing", image_5(others={"omero": {"channels": [
        {"color": "FF0000"}]}})),
    ("channel-color-form", with_omero(color="#00ff00")),
    ("channel-window-missing", with_omero(window=None)),
    ("channel-window-incomplete", with_omero(window={"start": 0, "end": 1})),
    ("channel-family-type", with_omero(family=1)),
    ("window-empty", with_omero(window=LIMITS | {"end": 0})),
    ("label-without-multiscales", {"image-label": {"version": "0.4"}}),
    ("label-version-missing", label_4(version=None)),
    ("label-colors-missing", label_4(colors=None)),
    ("label-list-empty", label_4(properties=[])),
    ("label-value-duplicate", label_4(colors=[{"label-value": 1}] * 2)),
    # --- plate and well
    ("plate-version-missing", plate("0.3", version=None, wells=[{"path": "A/1"}])),
    ("plate-version-missing", plate("0.5", version=None)),
    ("plate-untitled", plate(name=None)),
    ("plate-field-count-missing", plate(field_count=None)),
    ("plate-list-empty", plate(wells=[])),
    ("plate-name-missing", plate(rows=[{}])),
    ("plate-name-duplicate", plate(rows=[{"name": "A"}] * 2)),
    ("plate-name-characters", plate(rows=[{"name": "A-1"}])),
    ("plate-name-collides", plate(rows=[{"name": "Aa"}, {"name": "aA"}])),
    ("well-index-missing", plate(wells=[{"path": "A/1", "rowIndex": 0}])),
    ("well-path-depth", plate(wells=[{"path": "A1"}])),
    ("well-duplicate", plate(wells=plate()["ome"]["plate"]["wells"] * 2)),
    ("well-position-differs", plate(
        columns=[{"name": "1"}, {"name": "2"}],
        wells=[{"path": "A/1", "rowIndex": 0, "columnIndex": 1}])),
    ("well-position-unknown", plate("0.1", wells=[{"path": "A/3"}])),
    ("acquisition-duplicate", plate(acquisitions=[{"id": 0}, {"id": 0}])),
    ("acquisition-id", acquired(id=-1)),
    ("acquisition-name-missing", acquired(name=None)),
    ("acquisition-count-missing", acquired(maximumfieldcount=None)),
    ("acquisition-count", acquired(maximumfieldcount=0)),
    ("acquisition-text", acquired(description=1)),
    ("acquisition-time", acquired(starttime="yesterday")),
    ("well-version-missing", {"ome": {"version": "0.5", "well": {"images": [
        {"path": "0"}]}}}),
    ("well-empty", well(images=[])),
    ("field-duplicate", well({"path": "0"}, {"path": "0"})),
    ("field-path-characters", well({"path": "a-b"})),
    ("field-path-characters", well({"path": "__a"}, release="0.6")),
]  # fmt: skip
"""Code -> a document, perhaps with its Zarr format, that breaks its rule."""


MODULES = (
    axis_rules,
    document_rules,
    image_rules,
    link_rules,
    plate_rules,
    transformation_rules,
)
RULES = [
    rule
    for module in MODULES
    for table in vars(module).values()
    if isinstance(table, tuple)
    for rule in table
    if isinstance(rule, FormatRule)
]


def found_in(attributes):
    attributes, zarr_format = (
        attributes
        if isinstance(attributes, tuple)
        else (attributes, 3 if "ome" in attributes else 2)
    )
    return check_attributes(json.loads(json.dumps(attributes)), zarr_format)


@pytest.mark.parametrize("attributes", GOOD.values(), ids=GOOD)
def test_what_breaks_no_rule(attributes):
    assert found_in(attributes) == ()


@pytest.mark.parametrize(
    ("code", "attributes"),
    BAD,
    ids=[f"{index}-{code}" for index, (code, _) in enumerate(BAD)],
)
def test_each_rule_is_found_once_and_with_its_place(code, attributes):
    problems = [p for p in found_in(attributes) if p.code == code]
    assert problems
    places = [problem.where for problem in problems]
    assert len(places) == len(set(places))
    assert all(problem.text for problem in problems)


def test_every_rule_is_broken_in_some_version():
    assert len(RULES) > 60
    assert {rule.code for rule in RULES} <= {code for code, _ in BAD}


def test_a_version_from_above_counts_where_none_is_stated():
    attributes = {"plate": {"rows": [], "columns": [], "wells": []}}
    old = {p.code for p in check_attributes(attributes, 2, "0.3")}
    new = {p.code for p in check_attributes(attributes, 2, "0.4")}
    assert "plate-version-missing" in old - new
    assert "plate-untitled" in new - old
    attributes = image_4(version=None, axes=None)
    del attributes["multiscales"][0]["axes"]
    assert "axes-missing" in {p.code for p in check_attributes(attributes, 2, "0.4")}
    assert "axes-missing" not in {p.code for p in check_attributes(attributes, 2)}


def test_what_the_reader_says_of_a_key_is_not_said_again():
    broken = image_4(scale("a", 1))
    assert [p.code for p in found_in(broken) if p.severity is Severity.ERROR] == [
        "wrong-value"
    ]
    broken = linked({"type": "mapAxis", "mapAxis": [0, 7]})
    assert [p.code for p in found_in(broken)] == ["map-axis-indices"]


def test_a_must_that_reading_takes_lightly_is_an_error():
    unknown = [
        p for p in found_in(image_4(version="foo")) if p.code == "version-unknown"
    ]
    assert [p.severity for p in unknown] == [Severity.ERROR]
    moved = plate(wells=[{"path": "1/A", "rowIndex": 0, "columnIndex": 0}])
    assert [p.severity for p in found_in(moved)] == [Severity.ERROR]
    moved = plate("0.4", wells=[{"path": "1/A", "rowIndex": 0, "columnIndex": 0}])
    assert [p.severity for p in found_in(moved)] == [Severity.WARNING]


def test_documents_of_any_depth_and_size():
    step = scale(1, 1)
    for _ in range(5000):
        step = {"type": "sequence", "transformations": [step], "name": None}
    assert "transform-name-type" not in {
        p.code for p in check_attributes(linked(step), 3)
    }
    tiles = [
        tile(str(i)) | {"output": {"path": str(i + 1), "name": "own"}}
        for i in range(2000)
    ]
    assert {p.code for p in check_attributes(scene(*tiles), 3)} == {
        "systems-unconnected"
    }
    colors = [{"label-value": i, "rgba": [1, 2, 3, 4]} for i in range(20_000)]
    assert check_attributes(label_4(colors=colors), 2) == ()


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def places(value):
    """Containers and keys of a document, from the root down."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


@given(
    st.sampled_from([d for d in GOOD.values() if d] + [scene(tile()), plate()]),
    st.integers(0, 10**6),
    VALUES,
)
def test_no_value_at_any_place_raises(document, at, value):
    document = deepcopy(document)
    found = list(places(document))
    container, key = found[at % len(found)]
    container[key] = value
    for zarr_format in (2, 3):
        for problem in check_attributes(document, zarr_format):
            assert problem.code
            assert len(problem.text) < 1000


# --- what is written here


def written(version):
    """Everything that the package can write, with all that it can state."""
    names = {"0.1": "tczyx", "0.2": "tczyx"}.get(version, "tcyx")
    kinds = {"t": "time", "c": "channel"}
    units = {"t": "second", "c": None} if version >= "0.4" else dict.fromkeys("tczyx")
    unit = "micrometer" if version >= "0.4" else None
    axes = tuple(Axis(n, kinds.get(n, "space"), units.get(n, unit)) for n in names)
    ones = (1.0,) * len(axes)
    levels = (
        Level("0", ones, (0.0,) * len(axes)),
        Level("1", (*ones[:-2], 2.0, 2.0), (0.0,) * len(axes)),
    )
    channel = Channel("DNA", (0, 0, 255), ContrastWindow(0, 255, 0, 255), True)
    pyramid = Multiscale("cells", axes, levels, "nearest")
    label = LabelInfo({1: (1, 2, 3, 255)}, {1: {"area": 3}})
    wells = (WellReference("A/1", 0, 0),)
    runs = (Acquisition(0, "first"),)
    yield dump_image(ImageMetadata((pyramid,), Omero("cells", (channel,))), version)
    yield dump_image(ImageMetadata((pyramid,), label=label), version)
    yield dump_labels(["cells"], version)
    yield dump_plate(PlateMetadata("screen", ("A",), ("1",), wells, runs, 1), version)
    yield dump_well(WellMetadata((WellField("0", 0),)), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_written_breaks_no_rule(version):
    for attributes in written(version):
        assert found_in(attributes) == ()


FREE = {
    "seven": [{"name": name, **MICRON} for name in "abcdefg"],
    "one": YX[:1],
    "no plane": [TIME, ANGLE],
    "time last": [*YX, TIME],
    "two of time": [TIME, TIME | {"name": "s"}, *YX],
    "two of another kind": [ANGLE, ANGLE | {"name": "polarisation"}, *YX],
    "xyz": ZYX[::-1],
}
"""Axes that 0.6 forbids or advises against."""


@pytest.mark.parametrize("axes", FREE.values(), ids=FREE)
def test_axes_are_free_in_drafts_after_0_6(axes):
    def find_codes(version):
        step = whole(scale(*[1] * len(axes)))
        attributes = image_6(step, systems=[system("own", axes)], version=version)
        return {problem.code for problem in check_attributes(attributes, 3)}

    assert find_codes("0.9.dev1") == {"version-unknown"}
    assert find_codes("0.9.dev3") == {"version-unknown"}
    assert any(code.startswith("ax") for code in find_codes("0.6"))


def test_names_of_axes_stay_unique_in_drafts_after_0_6():
    attributes = image_6(systems=[system("own", [YX[0], YX[0]])], version="0.9.dev1")
    codes = {problem.code for problem in check_attributes(attributes, 3)}
    assert codes > {"version-unknown"}
