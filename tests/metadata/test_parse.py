import os
import re
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.metadata.dump import dump_image, dump_plate, dump_well
from napari_ngff.metadata.model import (
    Acquisition,
    Axis,
    Channel,
    CollectionMetadata,
    ContrastWindow,
    CoordinateSystem,
    GroupKind,
    GroupMetadata,
    ImageMetadata,
    LabelInfo,
    Level,
    Multiscale,
    Omero,
    PlateMetadata,
    Reference,
    Scene,
    Severity,
    SystemLink,
    WellField,
    WellMetadata,
    WellReference,
)
from napari_ngff.metadata.parse import parse_attributes
from napari_ngff.metadata.transform import Affine, MapAxis, Scale, Translation
from napari_ngff.metadata.version import VERSIONS

T, C, Z, Y, X = (
    Axis("t", "time"),
    Axis("c", "channel"),
    Axis("z", "space"),
    Axis("y", "space"),
    Axis("x", "space"),
)
YX = [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]


def image_04(**changes):
    """Valid attributes of 0.4 with axes yx; `changes` are to its multiscale."""
    scale = {"type": "scale", "scale": [0.5, 0.25]}
    multiscale = {
        "version": "0.4",
        "axes": YX,
        "datasets": [{"path": "0", "coordinateTransformations": [scale]}],
    }
    return {"multiscales": [multiscale | changes]}


def with_transforms(*transforms, axes=YX, **changes):
    datasets = [{"path": "0", "coordinateTransformations": list(transforms)}]
    return image_04(axes=axes, datasets=datasets, **changes)


def image_06(*transforms, **changes):
    """Attributes of 0.6 with one level and the systems "world" (xy), "array" (yx)."""
    systems = [
        {"name": "world", "axes": YX[::-1]},
        {"name": "array", "axes": YX},
    ]
    datasets = [{"path": "0", "coordinateTransformations": list(transforms)}]
    multiscale = {"coordinateSystems": systems, "datasets": datasets} | changes
    return {"ome": {"version": "0.6", "multiscales": [multiscale]}}


def scale(*factors):
    return {"type": "scale", "scale": list(factors)}


def translation(*offsets):
    return {"type": "translation", "translation": list(offsets)}


def codes(metadata):
    return {problem.code for problem in metadata.problems}


def errors(metadata):
    return {p.code for p in metadata.problems if p.severity is Severity.ERROR}


def first(metadata):
    return metadata.image.multiscales[0]


def level(metadata):
    return first(metadata).levels[0]


def multiscale(axes, *levels, name="", method=None):
    return Multiscale(name, axes, levels, method)


# --- versions and where the metadata is


@pytest.mark.parametrize(
    ("attributes", "zarr_format", "version", "expected"),
    [
        pytest.param({}, 2, None, set(), id="nothing"),
        pytest.param({"version": "7", "x": 1}, 2, None, set(), id="foreign"),
        pytest.param({"ome": {"version": "0.5"}}, 3, "0.5", set(), id="version-only"),
        pytest.param([], 3, None, {"wrong-value"}, id="list"),
        pytest.param(None, 2, None, {"wrong-value"}, id="null"),
        pytest.param({"ome": "0.6"}, 3, None, {"wrong-value"}, id="ome-string"),
        pytest.param({"labels": []}, 2, "0.4", set(), id="labels"),
        pytest.param(
            {"ome": {"labels": []}}, 3, "0.5", {"version-missing"}, id="labels-v3"
        ),
        pytest.param(
            {"labels": [], "ome": {"version": "0.5", "labels": []}},
            3,
            "0.5",
            set(),
            id="both-places",
        ),
    ],
)
def test_version_and_place(attributes, zarr_format, version, expected):
    metadata = parse_attributes(attributes, zarr_format)
    assert metadata.version == version
    assert codes(metadata) == expected


@pytest.mark.parametrize(
    ("version", "reported"),
    [
        ("0.4", None),
        ("0.7", "version-unknown"),
        ("garbage", "version-unknown"),
        (0.4, "version-unknown"),
        ({}, "version-unknown"),
        ("0.5", "version-zarr-format"),
    ],
)
def test_an_odd_version_does_not_stop_reading(version, reported):
    metadata = parse_attributes(image_04(version=version), 2)
    assert level(metadata) == Level("0", (0.5, 0.25), (0.0, 0.0))
    assert codes(metadata) == ({reported} if reported else set())
    assert metadata.version == (version if isinstance(version, str) else "0.4")
    if reported == "version-unknown":
        (problem,) = metadata.problems
        assert 'must be text, "0.1" to "0.6", is ' in problem.text


@pytest.mark.parametrize("version", ["0.6", "0.6rc0", "0.6.dev3", "0.6dev1"])
def test_every_0_6_is_known(version):
    attributes = image_06(scale(2, 3) | {"output": {"name": "array"}})
    attributes["ome"]["version"] = version
    assert parse_attributes(attributes, 3).problems == ()
    assert parse_attributes(attributes, 3).version == version


@pytest.mark.parametrize(
    ("multiscale", "version", "axes"),
    [
        ({}, "0.1", (T, C, Z, Y, X)),
        ({"axes": ["c", "y", "x"]}, "0.3", (C, Y, X)),
        ({"axes": [{"name": "y", "type": "space"}] * 1}, "0.4", (Y,)),
    ],
)
def test_without_a_version_the_shape_decides(multiscale, version, axes):
    datasets = [{"path": "0", "coordinateTransformations": [scale(*[1] * len(axes))]}]
    metadata = parse_attributes(
        {"multiscales": [multiscale | {"datasets": datasets}]}, 2
    )
    assert metadata.version == version
    assert first(metadata).axes == axes
    assert codes(metadata) == {"version-missing"}


def test_metadata_at_the_root_of_zarr_v3_is_read():
    metadata = parse_attributes(image_04(), 3)
    assert level(metadata).scale == (0.5, 0.25)
    assert "ome-key-missing" in errors(metadata)


def test_an_ome_key_in_zarr_v2_is_read():
    metadata = parse_attributes({"ome": image_04(version="0.5")}, 2)
    assert level(metadata).scale == (0.5, 0.25)
    assert "ome-key-in-zarr-2" in errors(metadata)


def test_a_broken_ome_key_leaves_the_root():
    metadata = parse_attributes({"ome": "0.6rc0", **image_04()}, 3)
    assert metadata.kind is GroupKind.IMAGE


# --- axes


@pytest.mark.parametrize(
    ("written", "read", "reported"),
    [
        ({"name": "Z"}, Axis("Z", "space"), {"axis-type-missing"}),
        ({"name": "angle"}, Axis("angle"), {"axis-type-missing"}),
        ({"name": "z", "type": None}, Axis("z", "space"), {"axis-type-missing"}),
        ({"name": "a", "type": "custom"}, Axis("a", "custom"), set()),
        ({"name": "c", "type": 3}, Axis("c", "channel"), {"wrong-value"}),
        ({"type": "time"}, Axis("dim_0", "time"), {"axis-name-missing"}),
        ({"name": "", "type": "time"}, Axis("dim_0", "time"), {"axis-name-missing"}),
        ({"name": 7, "type": "a"}, Axis("7", "a"), {"wrong-value"}),
        ({"name": "x", "type": "a"}, Axis("x", "a"), {"axis-name-duplicate"}),
        ("z", Axis("z", "space"), {"wrong-value"}),
        (None, Axis("dim_0"), {"wrong-value"}),
        (5, Axis("dim_0"), {"wrong-value"}),
        (
            {"name": "t", "type": "time", "unit": "micrometer", "discrete": True},
            Axis("t", "time", "micrometer", True),
            set(),
        ),
        (
            {"name": "z", "type": "space", "unit": "um"},
            Axis("z", "space", "um"),
            {"axis-unit-unknown"},
        ),
        ({"name": "z", "type": "space", "unit": None}, Z, set()),
        ({"name": "z", "type": "space", "unit": 1}, Z, {"wrong-value"}),
    ],
)
def test_axis(written, read, reported):
    metadata = parse_attributes(with_transforms(scale(1, 1, 1), axes=[written, *YX]), 2)
    names = [axis.name for axis in first(metadata).axes]
    assert len(set(names)) == 3
    assert first(metadata).axes[0] == read
    assert codes(metadata) == reported


def test_axis_names_become_unique():
    metadata = parse_attributes(
        with_transforms(scale(1, 1, 1), axes=["x_2", "x", "x"]), 2
    )
    assert first(metadata).axis_names == ("x_2", "x", "x_2_")
    assert "axis-name-duplicate" in errors(metadata)


def test_all_listed_units_pass():
    from napari_ngff.metadata.units import SPACE_UNITS, TIME_UNITS

    assert (len(SPACE_UNITS), len(TIME_UNITS)) == (26, 23)
    for unit in (*SPACE_UNITS, *TIME_UNITS):
        axes = [{"name": "y", "type": "space", "unit": unit}, YX[1]]
        assert parse_attributes(image_04(axes=axes), 2).problems == ()


@pytest.mark.parametrize("axes", [None, [], "zyx", 3])
def test_without_axes_the_array_decides(axes):
    metadata = parse_attributes(with_transforms(scale(2, 3), axes=axes), 2)
    assert first(metadata) == multiscale((), Level("0", (2.0, 3.0), (0.0, 0.0)))
    assert "axes-missing" in errors(metadata)


def test_without_axes_all_levels_get_the_longest_vector():
    datasets = [
        {"path": "0", "coordinateTransformations": [scale(2)]},
        {"path": "1", "coordinateTransformations": [scale(4, 5)]},
        {"path": "2"},
    ]
    metadata = parse_attributes(image_04(axes=None, datasets=datasets), 2)
    scales = [level.scale for level in first(metadata).levels]
    assert scales == [(1.0, 2.0), (4.0, 5.0), (1.0, 1.0)]


# --- transformations up to 0.5


@pytest.mark.parametrize(
    ("transforms", "scales", "offsets", "reported"),
    [
        ([scale(2, 3)], (2, 3), (0, 0), None),
        ([scale(2, 3), translation(4, 5)], (2, 3), (4, 5), None),
        ([scale(-2, 3)], (-2, 3), (0, 0), None),
        ([{"type": "identity"}], (1, 1), (0, 0), None),
        ([translation(4, 5), scale(2, 3)], (2, 3), (8, 15), "transforms-order"),
        ([translation(4, 5)], (1, 1), (4, 5), "transforms-order"),
        ([scale(2, 3), scale(2, 1)], (4, 3), (0, 0), "transforms-order"),
        ([], (1, 1), (0, 0), "transforms-missing"),
        ([{"scale": [2, 3]}], (2, 3), (0, 0), None),
        ([scale(0, 3)], (1, 3), (0, 0), "scale-zero"),
        ([scale(float("nan"), 3)], (1, 3), (0, 0), "wrong-value"),
        ([scale(float("inf"), 3)], (1, 3), (0, 0), "wrong-value"),
        ([scale(10**400, 3)], (1, 3), (0, 0), "wrong-value"),
        ([scale("2", 3)], (1, 3), (0, 0), "wrong-value"),
        ([scale(True, 3)], (1, 3), (0, 0), "wrong-value"),
        ([scale(None, 3)], (1, 3), (0, 0), "wrong-value"),
        ([scale(3)], (1, 3), (0, 0), "transform-length"),
        ([scale(9, 2, 3)], (2, 3), (0, 0), "transform-length"),
        ([scale(2, 3), translation(5)], (2, 3), (0, 5), "transform-length"),
        ([{"type": "scale"}], (1, 1), (0, 0), "missing-key"),
        ([{"type": "scale", "scale": 2}], (1, 1), (0, 0), "wrong-value"),
        ([{"type": "affine"}], (1, 1), (0, 0), "transform-not-applied"),
        ([{"type": ["scale"]}], (1, 1), (0, 0), "transform-not-applied"),
        (["scale"], (1, 1), (0, 0), "wrong-value"),
        ([scale(1e308, 3), scale(1e308, 1)], (1, 3), (0, 0), "transform-overflow"),
        ([scale(1e-300, 3), scale(1e-300, 1)], (1, 3), (0, 0), "transform-overflow"),
    ],
)
def test_transformations_of_a_dataset(transforms, scales, offsets, reported):
    metadata = parse_attributes(with_transforms(*transforms), 2)
    assert level(metadata) == Level("0", scales, offsets)
    assert reported in codes(metadata) if reported else not codes(metadata)


def test_one_object_in_place_of_a_list():
    datasets = {"path": "0", "coordinateTransformations": scale(2, 3)}
    metadata = parse_attributes(image_04(datasets=datasets), 2)
    assert level(metadata).scale == (2.0, 3.0)
    assert errors(metadata) == {"wrong-value"}


def test_transformations_of_the_multiscale_come_after_the_datasets():
    shared = [scale(10, 100), translation(1, 2)]
    metadata = parse_attributes(
        with_transforms(
            scale(2, 3), translation(4, 5), coordinateTransformations=shared
        ),
        2,
    )
    assert level(metadata) == Level("0", (20.0, 300.0), (41.0, 502.0))
    assert metadata.problems == ()


finite = st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6)


@given(*[st.lists(finite, min_size=2, max_size=2)] * 4, st.integers(-9, 9))
def test_composition_maps_points_as_one_step_after_the_other(s1, t1, s2, t2, point):
    shared = [scale(*s2), translation(*t2)]
    metadata = parse_attributes(
        with_transforms(scale(*s1), translation(*t1), coordinateTransformations=shared),
        2,
    )
    for axis in (0, 1):
        expected = s2[axis] * (s1[axis] * point + t1[axis]) + t2[axis]
        found = level(metadata).scale[axis] * point + level(metadata).translation[axis]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-3)


# --- 0.6

ARRAY = {"output": {"name": "array"}}
NESTED = {
    "type": "sequence",
    "transformations": [
        {"type": "sequence", "transformations": [scale(2, 3), {"type": "identity"}]},
        translation(4, 5),
    ],
}


@pytest.mark.parametrize(
    ("transforms", "expected", "reported"),
    [
        ([scale(2, 3) | ARRAY], ((2, 3), (0, 0)), set()),
        ([{"type": "identity"} | ARRAY], ((1, 1), (0, 0)), set()),
        ([NESTED | ARRAY], ((2, 3), (4, 5)), set()),
        (
            [{"type": "sequence", "transforms": [scale(2, 3)]} | ARRAY],
            ((2, 3), (0, 0)),
            set(),
        ),
        ([scale(2, 3) | {"output": "array"}], ((2, 3), (0, 0)), {"wrong-value"}),
        (
            [scale(2, 3) | ARRAY, scale(7, 7) | ARRAY],
            ((2, 3), (0, 0)),
            {"transforms-several"},
        ),
    ],
)
def test_dataset_transformation_of_0_6(transforms, expected, reported):
    metadata = parse_attributes(image_06(*transforms), 3)
    assert level(metadata) == Level("0", *expected)
    assert first(metadata).axes == (Y, X)
    assert first(metadata).intrinsic == "array"
    assert [system.name for system in first(metadata).systems] == ["world", "array"]
    assert codes(metadata) == reported


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            {"type": "affine", "affine": [[1, 2, 0], [0, 1, 0]]},
            Affine(((1.0, 2.0, 0.0), (0.0, 1.0, 0.0))),
        ),
        ({"type": "mapAxis", "mapAxis": [1, 0]}, MapAxis((1, 0))),
    ],
)
def test_levels_of_drafts_may_be_more_than_scaled(written, read):
    metadata = parse_attributes(image_06(written | ARRAY), 3)
    assert level(metadata) == Level("0", (1.0, 1.0), (0.0, 0.0), read)
    assert errors(metadata) == {"transform-level-type"}


@pytest.mark.parametrize(
    "transform",
    [
        scale(2, 3) | {"output": {"name": "nowhere"}},
        scale(2, 3) | {"output": {"path": "array"}},
        scale(2, 3),
    ],
)
def test_an_unknown_intrinsic_system_is_the_first(transform):
    metadata = parse_attributes(image_06(transform), 3)
    assert first(metadata).axes == (X, Y)
    assert "intrinsic-system-unknown" in errors(metadata)


def test_transformations_of_a_0_6_multiscale_lead_elsewhere():
    further = [scale(9, 9) | {"input": {"name": "array"}, "output": {"name": "world"}}]
    attributes = image_06(scale(2, 3) | ARRAY, coordinateTransformations=further)
    metadata = parse_attributes(attributes, 3)
    assert level(metadata).scale == (2.0, 3.0)
    ends = Reference(name="array"), Reference(name="world")
    assert first(metadata).links == (SystemLink(*ends, Scale((9.0, 9.0))),)
    assert metadata.problems == ()


def test_a_link_to_a_label_names_its_group():
    link = {"type": "identity", "input": {"name": "array"}}
    link["output"] = {"name": "i", "path": "/labels/nuclei"}
    attributes = image_06(scale(2, 3) | ARRAY, coordinateTransformations=[link])
    (found,) = first(parse_attributes(attributes, 3)).links
    assert found.output == Reference("labels/nuclei", "i")


def test_axes_in_place_of_coordinate_systems():
    attributes = image_06(scale(2, 3), coordinateSystems=None, axes=YX)
    metadata = parse_attributes(attributes, 3)
    assert first(metadata) == multiscale((Y, X), Level("0", (2.0, 3.0), (0.0, 0.0)))
    assert errors(metadata) == {"coordinate-systems-missing"}


def test_levels_of_different_systems():
    datasets = [
        {"path": name, "coordinateTransformations": [scale(1, 1) | output]}
        for name, output in (("0", ARRAY), ("1", {"output": {"name": "world"}}))
    ]
    metadata = parse_attributes(image_06(datasets=datasets), 3)
    assert first(metadata).axes == (Y, X)
    assert errors(metadata) == {"intrinsic-system-differs"}


SHIFT = {"type": "translation", "translation": [3, 4], "name": "shift"}


def test_scene():
    world = {"name": "world", "axes": YX}
    shift = SHIFT | {"input": {"path": "a/", "name": "i"}, "output": {"name": "world"}}
    broken = shift | {"translation": None}
    scene = {
        "coordinateSystems": [world],
        "coordinateTransformations": [shift, broken],
    }
    metadata = parse_attributes({"ome": {"version": "0.6", "scene": scene}}, 3)
    ends = Reference("a", "i"), Reference(name="world")
    assert metadata.scene == Scene(
        (CoordinateSystem("world", (Y, X)),),
        (SystemLink(*ends, Translation((3.0, 4.0)), "shift"),),
    )
    assert metadata.kind is GroupKind.SCENE
    assert errors(metadata) == {"transform-parameters"}


def test_scene_of_the_drafts():
    shift = SHIFT | {"input": "a/i", "output": "world"}
    scene = {
        "coordinateSystems": [{"name": "world", "axes": YX}],
        "coordinateTransformations": [shift],
    }
    metadata = parse_attributes({"ome": {"version": "0.6.dev1", **scene}}, 3)
    (link,) = metadata.scene.links
    assert (link.input, link.output) == (
        Reference(name="a/i"),
        Reference(name="world"),
    )
    assert errors(metadata) == {"scene-missing", "wrong-value"}


def test_systems_of_one_name_count_once():
    systems = [{"name": "array", "axes": YX}, {"name": "array", "axes": YX[:1]}]
    metadata = parse_attributes(
        image_06(scale(2, 3) | ARRAY, coordinateSystems=systems), 3
    )
    assert first(metadata).systems == (CoordinateSystem("array", (Y, X)),)
    assert errors(metadata) == {"coordinate-system-name"}


# --- paths


def drive(path):
    """A path with a drive of Windows, which is a name anywhere else."""
    windows = os.name == "nt"
    return (path, None, "path-outside-group") if windows else (path, path, None)


@pytest.mark.parametrize(
    ("written", "read", "reported"),
    [
        ("a/b.0", "a/b.0", None),
        ("/0", "0", "path-not-plain"),
        ("./a//0/", "a/0", "path-not-plain"),
        (0, "0", "wrong-value"),
        ("", None, "path-unusable"),
        (".", None, "path-unusable"),
        ("/", None, "path-unusable"),
        ("a\0", None, "path-unusable"),
        ("\ud800", None, "path-unusable"),
        ("../0", None, "path-outside-group"),
        ("a/../0", None, "path-outside-group"),
        ("..\\0", None, "path-outside-group"),
        drive("C:/0"),
        drive("s:0"),
        drive("a/C:"),
        (None, None, "missing-key"),
        (["0"], None, "wrong-value"),
    ],
)
def test_paths_stay_below_the_group(written, read, reported):
    datasets = [{"path": written}, {"path": "z"}]
    wells = {"rows": [], "columns": [], "wells": datasets}
    metadata = parse_attributes(
        image_04(version="0.3", axes=["y", "x"], datasets=datasets)
        | {"labels": [written, "z"], "series": [written, "z"]}
        | {"well": {"images": datasets}, "plate": wells},
        2,
    )
    expected = (read, "z") if read else ("z",)
    assert tuple(level.path for level in first(metadata).levels) == expected
    assert tuple(field.path for field in metadata.well.fields) == expected
    assert tuple(well.path for well in metadata.plate.wells) == expected
    assert metadata.labels == metadata.series == expected
    assert reported is None or reported in codes(metadata)


@pytest.mark.parametrize(
    "multiscales",
    [[], [{}], [None], [{"datasets": []}], [{"datasets": [{"path": ".."}]}], "image"],
)
def test_multiscales_without_a_level_are_no_image(multiscales):
    metadata = parse_attributes(
        {"multiscales": multiscales, "omero": {"channels": []}}, 2
    )
    assert metadata.image is None
    assert metadata.kind is None


def test_a_broken_multiscale_leaves_the_others():
    attributes = image_04()
    attributes["multiscales"] += [{"datasets": []}, {"name": "b", "datasets": {}}]
    metadata = parse_attributes(attributes, 2)
    assert [m.name for m in metadata.image.multiscales] == [""]
    assert "multiscale-unusable" in errors(metadata)


# --- omero


@pytest.mark.parametrize(
    ("written", "read", "reported"),
    [
        ({}, Channel(), set()),
        ({"color": "FF8000"}, Channel(color=(255, 128, 0)), set()),
        ({"color": "ff8000"}, Channel(color=(255, 128, 0)), set()),
        ({"color": "#f80"}, Channel(color=(255, 136, 0)), {"channel-color-form"}),
        ({"color": "FF800080"}, Channel(color=(255, 128, 0)), {"channel-color-form"}),
        ({"color": "red"}, Channel(), {"wrong-value"}),
        ({"color": 255}, Channel(), {"wrong-value"}),
        ({"label": 488}, Channel("488"), {"wrong-value"}),
        (
            {"window": {"start": 1, "end": 2}},
            Channel(window=ContrastWindow(1, 2)),
            set(),
        ),
        ({"window": {"start": 2, "end": 2}}, Channel(), {"window-empty"}),
        (
            {"window": {"start": 3, "end": 2, "min": 0, "max": 9}},
            Channel(window=ContrastWindow(None, None, 0, 9)),
            {"window-empty"},
        ),
        (
            {"window": {"start": 0, "end": "9", "max": float("nan")}},
            Channel(window=ContrastWindow(0)),
            {"wrong-value"},
        ),
        ({"window": []}, Channel(), {"wrong-value"}),
        (
            {"active": False, "inverted": True, "label": "a"},
            Channel("a", active=False, inverted=True),
            set(),
        ),
        ({"active": 1}, Channel(active=True), {"wrong-value"}),
        ({"active": "yes"}, Channel(), {"wrong-value"}),
        ("red", Channel(), {"wrong-value"}),
        (None, Channel(), {"wrong-value"}),
    ],
)
def test_channel(written, read, reported):
    metadata = parse_attributes(image_04() | {"omero": {"channels": [written]}}, 2)
    assert metadata.image.omero == Omero(channels=(read,))
    assert codes(metadata) == reported


def test_omero():
    rdefs = {"defaultT": 1, "defaultZ": 2.0, "model": "greyscale"}
    omero = {"name": "a.tif", "channels": [], "rdefs": rdefs}
    metadata = parse_attributes(image_04() | {"omero": omero}, 2)
    assert metadata.image.omero == Omero("a.tif", (), 1, 2, True)
    assert metadata.problems == ()


@pytest.mark.parametrize("rdefs", [{"defaultZ": -1}, {"defaultZ": 0.5}, [], "color"])
def test_broken_rdefs(rdefs):
    metadata = parse_attributes(
        image_04() | {"omero": {"channels": [], "rdefs": rdefs}}, 2
    )
    assert metadata.image.omero == Omero()
    assert errors(metadata) == {"wrong-value"}


# --- labels


@pytest.mark.parametrize(
    ("written", "read", "reported"),
    [
        ({}, LabelInfo(), set()),
        ([], LabelInfo(), {"wrong-value"}),
        (
            {
                "colors": [
                    {"label-value": 0, "rgba": [0, 0, 0, 0]},
                    {"label-value": 2.0, "rgba": [1, 2, 3, 255.0]},
                    {"label-value": 3},
                ],
                "properties": [{"label-value": 2, "class": "a", "area": [1]}],
                "source": {"image": "../img"},
            },
            LabelInfo(
                {0: (0, 0, 0, 0), 2: (1, 2, 3, 255)},
                {2: {"class": "a", "area": [1]}},
                "../img",
            ),
            set(),
        ),
        (
            {
                "colors": [
                    {"label-value": 1, "rgba": [0, 0, 0, 0]},
                    {"label-value": 1, "rgba": [9, 9, 9, 9]},
                ]
            },
            LabelInfo({1: (9, 9, 9, 9)}),
            {"label-value-duplicate"},
        ),
        (
            {
                "colors": [
                    {"label-value": 1, "rgba": [0, 0, 0]},
                    {"label-value": 2, "rgba": [0, 0, 0, 256]},
                    {"label-value": 3, "rgba": [0, 0, 0, 0.5]},
                    {"label-value": 4, "rgba": [0, 0, 0, True]},
                    {"label-value": 5, "rgba": "red"},
                    {"label-value": 1.5, "rgba": [0, 0, 0, 0]},
                    {"label-value": True, "rgba": [0, 0, 0, 0]},
                    {"label-value": 10**30, "rgba": [0, 0, 0, 0]},
                    5,
                ]
            },
            LabelInfo(),
            {"wrong-value"},
        ),
        ({"properties": [{"class": "a"}]}, LabelInfo(), {"missing-key"}),
        ({"source": {"image": 1}}, LabelInfo(), {"wrong-value"}),
        ({"source": "../.."}, LabelInfo(), {"wrong-value"}),
    ],
)
def test_image_label(written, read, reported):
    metadata = parse_attributes(image_04() | {"image-label": written}, 2)
    assert metadata.image.label == read
    assert codes(metadata) == reported
    assert metadata.kind is GroupKind.LABEL


def test_source_beside_image_label():
    beside = {"source": {"image": "../a"}}
    attributes = image_04() | {"image-label": {}}
    assert parse_attributes(attributes | beside, 2).image.label.source == "../a"
    attributes["image-label"]["source"] = {"image": "../b"}
    assert parse_attributes(attributes | beside, 2).image.label.source == "../b"


def test_image_label_without_multiscales():
    metadata = parse_attributes({"image-label": {"version": "0.4"}}, 2)
    assert metadata.image is None
    assert codes(metadata) == {"label-without-multiscales"}
    assert errors(metadata) == set()


def test_labels_list():
    metadata = parse_attributes({"labels": ["a", 5.5, None, "b/0", "a", {}]}, 2)
    assert metadata.labels == ("a", "b/0")
    assert metadata.kind is GroupKind.LABELS
    assert parse_attributes({"labels": "a"}, 2).labels is None


# --- screens


def plate_of(wells, rows=("A", "B"), columns=("1", "2"), version="0.4", **more):
    return {
        "plate": {
            "version": version,
            "rows": [{"name": name} for name in rows],
            "columns": [{"name": name} for name in columns],
            "wells": wells,
            **more,
        }
    }


@pytest.mark.parametrize(
    ("version", "well", "place", "reported"),
    [
        ("0.4", ("B/1", 1, 0), (1, 0), None),
        ("0.2", ("B/1", None, None), (1, 0), None),
        ("0.1", ("2020-10-10/B/1", None, None), (1, 0), None),
        ("0.4", ("2020-10-10/B/1", 1, 0), (1, 0), "well-path-depth"),
        ("0.4", ("B/1", None, None), (1, 0), "missing-key"),
        ("0.4", ("A/2", 1, 0), (0, 1), "well-position-differs"),
        ("0.4", ("1/A", 1, 1), (1, 1), "well-position-differs"),
        ("0.4", ("A/9", 1, 1), (1, 1), "well-position-differs"),
        ("0.4", ("B/1", 7, 0), (1, 0), "wrong-value"),
        ("0.4", ("B/1", "1", 0), (1, 0), "wrong-value"),
        ("0.4", ("B1", 1, 0), (1, 0), "well-path-depth"),
        ("0.4", ("C/1", None, None), (2, 0), "well-position-unknown"),
        ("0.4", ("C/1", 1, None), (1, 0), "well-position-unknown"),
    ],
)
def test_position_of_a_well(version, well, place, reported):
    path, row, column = well
    written = {"path": path, "rowIndex": row, "columnIndex": column}
    metadata = parse_attributes(plate_of([written], version=version), 2)
    assert metadata.plate.wells == (WellReference(path, *place),)
    assert reported in codes(metadata) if reported else not codes(metadata)


def test_published_plate_with_rows_and_columns_swapped():
    wells = [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}]
    metadata = parse_attributes(plate_of(wells, rows=("1",), columns=("A",)), 2)
    assert metadata.plate.wells == (WellReference("A/1", 0, 0),)
    assert codes(metadata) == {"well-position-differs"}
    assert errors(metadata) == set()


def test_plate_without_rows_takes_the_names_of_the_wells():
    attributes = plate_of([{"path": "B/3"}, {"path": "A/3"}], version="0.1")
    del attributes["plate"]["rows"], attributes["plate"]["columns"]
    plate = parse_attributes(attributes, 2).plate
    assert (plate.rows, plate.columns) == (("B", "A"), ("3",))
    assert [(w.row, w.column) for w in plate.wells] == [(0, 0), (1, 0)]


def test_a_repeated_well_is_kept_once():
    well = {"path": "A/1", "rowIndex": 0, "columnIndex": 0}
    metadata = parse_attributes(plate_of([well, well]), 2)
    assert metadata.plate.wells == (WellReference("A/1", 0, 0),)
    assert errors(metadata) == {"well-duplicate"}


def test_sloppy_names_and_acquisitions():
    attributes = plate_of(
        [{"path": "A/2"}],
        version="0.1",
        name=5966,
        acquisitions=[{"id": "0"}, {"id": 1, "name": "a"}, {"id": 1}, {}, {"id": "x"}],
        field_count=0,
    )
    columns = [1, "2", {"name": 3}, {}, {"name": "3"}]
    attributes["plate"]["columns"] = columns
    metadata = parse_attributes(attributes, 2)
    assert metadata.plate == PlateMetadata(
        "5966",
        ("A", "B"),
        ("1", "2", "3", "4", "3"),
        (WellReference("A/2", 0, 1),),
        (Acquisition(0), Acquisition(1, "a")),
    )
    assert errors(metadata) == {
        "wrong-value",
        "plate-name-missing",
        "plate-name-duplicate",
        "acquisition-duplicate",
        "missing-key",
    }


def test_well():
    images = [
        {"path": "0", "acquisition": "3"},
        {"path": "1", "acquisition": 4},
        {"path": 2},
        {"path": "1"},
        "3",
    ]
    metadata = parse_attributes({"well": {"version": "0.4", "images": images}}, 2)
    assert metadata.well == WellMetadata(
        (WellField("0", 3), WellField("1", 4), WellField("2"))
    )
    assert errors(metadata) == {"wrong-value", "field-duplicate"}


@pytest.mark.parametrize("images", [[], None, "0", [{"path": ".."}]])
def test_a_well_without_images_is_a_well(images):
    metadata = parse_attributes({"well": {"version": "0.4", "images": images}}, 2)
    assert metadata.well == WellMetadata(())
    assert errors(metadata)


@pytest.mark.parametrize("key", ["plate", "well", "scene", "omero", "labels", "series"])
@pytest.mark.parametrize("value", ["x", 3, True, 0.5])
def test_a_key_of_another_type_is_ignored(key, value):
    metadata = parse_attributes({key: value}, 2)
    assert replace(metadata, problems=(), version=None) == GroupMetadata()
    assert errors(metadata) == {"wrong-value"}


# --- collections


@pytest.mark.parametrize(
    ("value", "layout", "reported"),
    [
        (3, 3, set()),
        (2, 2, {"layout-unknown"}),
        ("3", 3, {"wrong-value"}),
        ([], 3, {"wrong-value"}),
    ],
)
def test_collection(value, layout, reported):
    metadata = parse_attributes(
        {"ome": {"version": "0.5", "bioformats2raw.layout": value}}, 3
    )
    assert metadata.collection == CollectionMetadata(layout)
    assert codes(metadata) == reported


def test_a_plate_wins_over_the_collection():
    attributes = plate_of([]) | {"bioformats2raw.layout": 3}
    assert parse_attributes(attributes, 2).kind is GroupKind.PLATE


# --- what we write ourselves


@pytest.mark.parametrize("version", VERSIONS)
def test_what_dump_writes_is_read_back(version):
    old = version < "0.4"
    step = (1.0, 1.0, 1.0, 1.0, 1.0) if old else (2.0, 1.0, 0.5, 0.25, 0.25)
    offset = (0.0,) * 5 if old else (0.0, 0.0, 1.0, 2.0, 3.0)
    unit = None if old else "micrometer"
    axes = (T, C, *(Axis(name, "space", unit) for name in "zyx"))
    image = ImageMetadata(
        (multiscale(axes, Level("0", step, offset), name="a", method="mode"),),
        Omero(
            None, (Channel("a", (255, 0, 9), ContrastWindow(1, 2, 0, 3), True),), 1, 2
        ),
        LabelInfo({1: (1, 2, 3, 4)}, {1: {"class": "x"}}),
    )
    plate = PlateMetadata(
        "p", ("A",), ("1",), (WellReference("A/1", 0, 0),), (Acquisition(0),)
    )
    well = WellMetadata((WellField("0", 0),))
    zarr_format = 2 if version < "0.5" else 3
    for attributes, expected in (
        (dump_image(image, version), {"image": image}),
        (dump_plate(plate, version), {"plate": plate}),
        (dump_well(well, version), {"well": well}),
    ):
        metadata = parse_attributes(attributes, zarr_format)
        if version == "0.6" and expected.get("image") is image:
            system = CoordinateSystem("intrinsic", axes)
            one = replace(
                image.multiscales[0], intrinsic="intrinsic", systems=(system,)
            )
            expected = {"image": replace(image, multiscales=(one,))}
        assert metadata == GroupMetadata(version, **expected)


# --- never an exception

DOCUMENTS = [
    image_04(name="a", type="mode", coordinateTransformations=[scale(1, 1)])
    | {
        "omero": {
            "channels": [{"color": "FF0000", "window": {"start": 0, "end": 1}}],
            "rdefs": {"defaultT": 0},
        },
        "image-label": {
            "colors": [{"label-value": 1, "rgba": [0, 0, 0, 0]}],
            "properties": [{"label-value": 1, "a": 1}],
            "source": {"image": "../../"},
        },
    },
    image_06(NESTED | ARRAY, name="a"),
    plate_of(
        [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}],
        acquisitions=[{"id": 0, "name": "a"}],
        field_count=1,
    ),
    {"well": {"version": "0.4", "images": [{"path": "0", "acquisition": 0}]}},
    {"labels": ["a"], "series": ["0"], "bioformats2raw.layout": 3},
]


def places(value, path=()):
    """All paths of keys and indices inside a document."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [path, *(p for key, v in inner for p in places(v, (*path, key)))]


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([10**400, -(10**400), 1e308, 5e-324]),
    st.floats(),
    st.sampled_from(["", ".", "..", "0", "A/1", "0.4", "0.6", "sequence", "scale"]),
    st.text(max_size=5),
)
names = {key for d in DOCUMENTS for p in places(d) for key in p if type(key) is str}
keys = st.sampled_from(sorted(names | {"ome", "scene"}))
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5)
    ),
    max_leaves=40,
)


def check(metadata):
    """Assert what the model promises, whatever the document was."""
    for problem in metadata.problems:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", problem.code)
        assert problem.text
        assert problem.consequence
    for found in metadata.image.multiscales if metadata.image else ():
        assert found.levels
        assert len(set(found.axis_names)) == len(found.axes)
        assert all(found.axis_names)
        for part in found.levels:
            assert len(part.scale) == len(part.translation)
            assert len(part.scale) == (len(found.axes) or len(found.levels[0].scale))
            assert all(abs(s) < float("inf") and s != 0 for s in part.scale)
            assert all(abs(t) < float("inf") for t in part.translation)
            assert not {"", ".", ".."} & set(part.path.split("/"))
    if metadata.plate:
        for well in metadata.plate.wells:
            assert 0 <= well.row < len(metadata.plate.rows)
            assert 0 <= well.column < len(metadata.plate.columns)


def nested(depth, inner, wrap):
    for _ in range(depth):
        inner = wrap(inner)
    return inner


@given(values, st.sampled_from([2, 3]))
def test_any_json_is_read(attributes, zarr_format):
    check(parse_attributes(attributes, zarr_format))


@pytest.mark.parametrize(
    "value",
    [
        nested(100_000, 1, lambda inner: [inner]),
        nested(100_000, {}, lambda inner: {"a": inner}),
        10**5000,  # more digits than Python converts to text
        -(10**5000),
    ],
    ids=["deep-list", "deep-object", "huge", "huge-negative"],
)
def test_extreme_values_are_read_anywhere(value):
    check(parse_attributes(value, 2))
    for document in DOCUMENTS:
        for *path, key in places(document)[1:]:
            mutant = deepcopy(document)
            parent = mutant
            for step in path:
                parent = parent[step]
            parent[key] = value
            check(parse_attributes(mutant, 2))


def test_sequences_nested_without_end():
    deep = nested(
        50_000,
        scale(2, 3),
        lambda inner: {"type": "sequence", "transformations": [inner]},
    )
    metadata = parse_attributes(image_06(deep | ARRAY), 3)
    assert level(metadata).scale == (1.0, 1.0)
    assert codes(metadata) == {"transform-not-applied"}


@given(st.data(), st.sampled_from(DOCUMENTS))
def test_any_mutation_of_a_valid_document_is_read(data, document):
    document = deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        *path, key = data.draw(st.sampled_from(places(document)[1:]))
        parent = document
        for step in path:
            parent = parent[step]
        if data.draw(st.booleans()):
            parent[key] = data.draw(values)
        else:
            del parent[key]
        if not document:
            break
    for zarr_format in (2, 3):
        check(parse_attributes(document, zarr_format))
        check(parse_attributes({"ome": document}, zarr_format))
