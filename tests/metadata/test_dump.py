"""What is written is what public validators accept; the rest is refused."""

from dataclasses import replace

import numpy as np
import pytest

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
    CoordinateSystem,
    ImageMetadata,
    LabelInfo,
    Level,
    Multiscale,
    Omero,
    PlateMetadata,
    Reference,
    SystemLink,
    WellField,
    WellMetadata,
    WellReference,
)
from napari_ngff.metadata.parse import parse_attributes
from napari_ngff.metadata.transform import Identity, Rotation
from napari_ngff.metadata.version import VERSIONS

NAMED = ("0.3", "0.4", "0.5", "0.6")
PHYSICAL = ("0.4", "0.5", "0.6")
TYPES = {"t": "time", "c": "channel"}


def make_axes(names: str, unit: str | None = None) -> tuple[Axis, ...]:
    return tuple(
        Axis(name, TYPES.get(name, "space"), unit if name in "zyx" else None)
        for name in names
    )


def make_image(names: str = "tczyx", version: str = "0.1", label: bool = False):
    size = 0.5 if version in PHYSICAL else 1.0
    unit = "micrometer" if version in PHYSICAL else None
    levels = tuple(
        Level(
            str(k),
            tuple(size * 2**k if n in "yx" else 1.0 for n in names),
            tuple(0.25 if k and n in "yx" else 0.0 for n in names),
        )
        for k in range(3)
    )
    window = ContrastWindow(start=10, end=900, min=0, max=65535)
    channels = (
        Channel("DNA", (0, 128, 255), window, active=True),
        Channel("actin", (0, 255, 0), window, active=False, inverted=True),
    )
    colors = {np.int32(1): (255, 0, 0, 255), 7: (0, 9, 0, 128)}
    return ImageMetadata(
        (Multiscale("cells", make_axes(names, unit), levels, "mean"),),
        omero=None if label else Omero("cells", channels, default_t=0, default_z=2),
        label=LabelInfo(colors, {np.int64(1): {"area": np.float64(2.5)}})
        if label
        else None,
    )


def make_plate() -> PlateMetadata:
    wells = (WellReference("A/1", 0, 0), WellReference("B/3", 1, 2))
    return PlateMetadata(
        "dose", ("A", "B"), ("1", "2", "3"), wells, (Acquisition(0, "x"),), 2
    )


def judge(attributes, version: str, model: str, strict: bool = True) -> None:
    ngff_zarr = pytest.importorskip("ngff_zarr.validate")
    schema = model
    if model == "label" and version <= "0.3":  # those have no schema of labels
        schema = "image"
    strict = strict and version >= "0.4"
    ngff_zarr.validate(attributes, version, schema, strict)
    if model == "label":  # the schemas of labels do not look at multiscales
        ngff_zarr.validate(attributes, version, "image", strict)


def content(attributes, version: str):
    return attributes["ome"] if version >= "0.5" else attributes


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("label", [False, True])
def test_image_passes_the_schemas(version: str, label: bool):
    attributes = dump_image(make_image("tczyx", version, label), version)
    judge(attributes, version, "label" if label else "image")


@pytest.mark.parametrize("version", VERSIONS)
def test_plate_and_well_pass_the_schemas(version: str):
    judge(dump_plate(make_plate(), version), version, "plate")
    judge(
        dump_well(WellMetadata((WellField("0", 0), WellField("1", 0))), version),
        version,
        "well",
    )


@pytest.mark.parametrize("names", ["yx", "cyx", "tyx", "zyx", "tcyx", "tczyx"])
@pytest.mark.parametrize("version", NAMED)
def test_any_ordered_axes_from_0_3_on(version: str, names: str):
    judge(dump_image(make_image(names, version), version), version, "image")


def test_yaozarrs_accepts():
    yaozarrs = pytest.importorskip("yaozarrs")
    for version, models in (("0.4", yaozarrs.v04), ("0.5", yaozarrs.v05)):
        for attributes, kind in (
            (dump_image(make_image("tczyx", version), version), "Image"),
            (dump_image(make_image("yx", version, label=True), version), "LabelImage"),
            (dump_plate(make_plate(), version), "Plate"),
            (dump_well(WellMetadata((WellField("0", 0),)), version), "Well"),
            (dump_labels(["nuclei", "cells"], version), "LabelsGroup"),
        ):
            model = getattr(models, kind)
            yaozarrs.validate_ome_object(content(attributes, version), model)


def test_ome_zarr_models_accepts():
    models = pytest.importorskip("ome_zarr_models")
    for version, of in (("0.4", models.v04), ("0.5", models.v05)):
        for attributes, kind in (
            (dump_image(make_image("tczyx", version), version), "image.ImageAttrs"),
            (
                dump_image(make_image("yx", version, label=True), version),
                "image_label.ImageLabelAttrs",
            ),
            (dump_plate(make_plate(), version), "hcs.HCSAttrs"),
            (dump_well(WellMetadata((WellField("0", 0),)), version), "well.WellAttrs"),
            (dump_labels(["nuclei", "cells"], version), "labels.LabelsAttrs"),
        ):
            module, name = kind.split(".")
            model = getattr(getattr(of, module), name)
            model.model_validate(content(attributes, version))


def test_level_transformations_by_version():
    def second(version: str):
        entry = content(dump_image(make_image("yx", version), version), version)
        return entry["multiscales"][0]["datasets"][1]

    scale = {"type": "scale", "scale": [1.0, 1.0]}
    translation = {"type": "translation", "translation": [0.25, 0.25]}
    assert second("0.3") == {"path": "1"}
    for version in ("0.4", "0.5"):
        assert second(version)["coordinateTransformations"] == [scale, translation]
    assert second("0.6")["coordinateTransformations"] == [
        {
            "type": "sequence",
            "transformations": [scale, translation],
            "input": {"path": "1"},
            "output": {"name": "intrinsic"},
        }
    ]


def test_0_6_states_a_scale_alone_without_a_sequence():
    attributes = dump_image(make_image("yx", "0.6"), "0.6")
    multiscale = attributes["ome"]["multiscales"][0]
    assert multiscale["coordinateSystems"][0]["axes"][0]["unit"] == "micrometer"
    (first,) = multiscale["datasets"][0]["coordinateTransformations"]
    assert (first["type"], first["scale"]) == ("scale", [0.5, 0.5])


def test_where_the_version_is_stated():
    image = make_image("tczyx", "0.4", label=True)
    old = dump_image(image, "0.4")
    assert old["multiscales"][0]["version"] == "0.4" == old["image-label"]["version"]
    middle = dump_image(image, "0.5")["ome"]
    assert middle["version"] == "0.5" == middle["image-label"]["version"]
    assert "version" not in middle["multiscales"][0]
    new = dump_image(image, "0.6")["ome"]
    assert new["version"] == "0.6"
    assert "version" not in new["image-label"]
    assert "version" not in dump_plate(make_plate(), "0.6")["ome"]["plate"]
    assert dump_plate(make_plate(), "0.5")["ome"]["plate"]["version"] == "0.5"


def test_label_values_and_colors_are_json_integers():
    label = dump_image(make_image("yx", "0.4", label=True), "0.4")["image-label"]
    assert label["colors"][0] == {"label-value": 1, "rgba": [255, 0, 0, 255]}
    assert type(label["colors"][0]["label-value"]) is int
    assert label["properties"] == [{"label-value": 1, "area": 2.5}, {"label-value": 7}]
    assert type(label["properties"][0]["area"]) is float


def test_every_colour_has_its_value_and_is_that_which_is_shown():
    info = LabelInfo({1: (1, 2, 3, 4)}, {1: {"a": 1}, 2: {"a": 2}, 0: {}, 50: {}})
    image = replace(make_image("yx", "0.5", label=True), label=info)
    label = dump_image(image, "0.5")["ome"]["image-label"]
    colors = {entry["label-value"]: entry["rgba"] for entry in label["colors"]}
    assert colors[1] == [1, 2, 3, 4]
    assert set(colors) == {entry["label-value"] for entry in label["properties"]}
    from napari.utils.colormaps import label_colormap

    shown = label_colormap(49).map(np.array([2, 50]))
    assert [colors[2], colors[50]] == np.rint(255 * shown).astype(int).tolist()
    assert colors[0] == [0, 0, 0, 0]
    bare = replace(image, label=LabelInfo({}, info.properties))
    assert "colors" not in dump_image(bare, "0.5")["ome"]["image-label"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unpainted_label_has_no_empty_lists(version: str):
    image = replace(make_image("tczyx", version, label=True), label=LabelInfo())
    attributes = dump_image(image, version)
    block = content(attributes, version)["image-label"]
    assert "colors" not in block
    assert "properties" not in block
    assert block["source"] == {"image": "../../"}
    judge(attributes, version, "label", strict=False)


def test_omero_keeps_what_the_model_knows():
    omero = dump_image(make_image("tczyx", "0.4"), "0.4")["omero"]
    assert [c["color"] for c in omero["channels"]] == ["0080FF", "00FF00"]
    assert [c["active"] for c in omero["channels"]] == [True, False]
    assert omero["channels"][0]["window"] == {
        "min": 0, "max": 65535, "start": 10, "end": 900
    }  # fmt: skip
    assert omero["channels"][1]["inverted"] is True
    assert omero["rdefs"] == {"defaultT": 0, "defaultZ": 2, "model": "color"}


def test_plates_before_0_4_have_no_indices():
    assert dump_plate(make_plate(), "0.3")["plate"]["wells"][1] == {"path": "B/3"}
    assert dump_plate(make_plate(), "0.4")["plate"]["wells"][1] == {
        "path": "B/3", "rowIndex": 1, "columnIndex": 2
    }  # fmt: skip


def test_0_3_repeats_the_axes_for_xarray():
    attributes = dump_image(make_image("cyx", "0.3"), "0.3")
    assert attributes["_ARRAY_DIMENSIONS"] == ["c", "y", "x"]


@pytest.mark.parametrize(
    ("names", "version", "message"),
    [
        ("zyx", "0.1", "needs the axes t, c, z, y, x"),
        ("tcyx", "0.2", "needs the axes t, c, z, y, x"),
        ("xy", "0.3", "in the order"),
        ("ctyx", "0.4", "in the order"),
        ("yxc", "0.5", "in the order"),
        ("cx", "0.6", "two or three space"),
        ("yy", "0.4", "twice"),
        ("yx", "0.7", "choose one of 0.1, 0.2"),
    ],
)
def test_refuses_axes_and_versions(names: str, version: str, message: str):
    with pytest.raises(ValueError, match=message):
        dump_image(make_image(names, version), version)


def test_refuses_physical_sizes_before_0_4():
    with pytest.raises(ValueError, match=r"write 0\.4 or newer"):
        dump_image(make_image("tczyx", "0.4"), "0.3")


@pytest.mark.parametrize(
    ("level", "version"),
    [
        (Level("0", (0.0, 1.0), (0.0, 0.0)), "0.4"),
        (Level("0", (-1.0, 1.0), (0.0, 0.0)), "0.6"),
        (Level("0", (float("nan"), 1.0), (0.0, 0.0)), "0.5"),
        (Level("0", (1.0,), (0.0, 0.0)), "0.5"),
    ],
)
def test_refuses_impossible_scales(level: Level, version: str):
    image = ImageMetadata((Multiscale("", make_axes("yx"), (level,)),))
    with pytest.raises(ValueError, match="Level '0'"):
        dump_image(image, version)


@pytest.mark.parametrize(
    "channel", [Channel("a", (1, 2, 3)), Channel("a", None, ContrastWindow(0, 1, 0, 1))]
)
def test_refuses_channels_without_color_or_window(channel: Channel):
    image = replace(make_image("cyx", "0.4"), omero=Omero(channels=(channel,)))
    with pytest.raises(ValueError, match="Channel 0 needs a color and a window"):
        dump_image(image, "0.4")


def test_refuses_properties_that_are_no_json():
    label = LabelInfo(properties={3: {"area": float("nan")}})
    with pytest.raises(ValueError, match="Properties of label 3"):
        dump_image(replace(make_image("yx", "0.4"), label=label), "0.4")


@pytest.mark.parametrize(
    "change",
    [
        {"rows": ("A", "A")},
        {"rows": ("A-1", "B")},
        {"wells": ()},
        {"wells": (WellReference("A/2", 0, 0),)},
        {"wells": (WellReference("A/1", 5, 0),)},
        {"field_count": 0},
        {"acquisitions": (Acquisition(-1),)},
    ],
)
def test_refuses_broken_plates(change):
    with pytest.raises(ValueError, match=r"\w"):
        dump_plate(replace(make_plate(), **change), "0.4")


def test_field_paths_by_version():
    well = WellMetadata((WellField("field_1"),))
    judge(dump_well(well, "0.6"), "0.6", "well")
    with pytest.raises(ValueError, match="field_1"):
        dump_well(well, "0.5")


def test_labels_lists_are_where_the_version_keeps_them():
    assert dump_labels(["nuclei"], "0.4") == {"labels": ["nuclei"]}
    assert dump_labels([], "0.6") == {"ome": {"version": "0.6", "labels": []}}
    with pytest.raises(ValueError, match="twice"):
        dump_labels(["nuclei", "nuclei"], "0.5")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("label", [False, True])
def test_parse_reads_back_what_was_written(version: str, label: bool):
    image = make_image("tczyx", version, label)
    metadata = parse_attributes(
        dump_image(image, version), 2 if version <= "0.4" else 3
    )
    assert metadata.problems == ()
    assert metadata.version == version
    assert metadata.image is not None
    assert metadata.image.omero == image.omero
    if label:
        assert metadata.image.label is not None
        assert metadata.image.label.colors == image.label.colors
        assert metadata.image.label.properties[1] == {"area": 2.5}
    if version == "0.6":
        system = CoordinateSystem("intrinsic", image.multiscales[0].axes)
        (one,) = image.multiscales
        one = replace(one, intrinsic="intrinsic", systems=(system,))
        assert metadata.image.multiscales == (one,)
    elif version in PHYSICAL:
        assert metadata.image.multiscales == image.multiscales


def test_systems_and_links_are_written_from_0_6_on():
    (one,) = make_image("yx", "0.6").multiscales
    axes = make_axes("yx", "nanometer")
    other = CoordinateSystem("atlas", axes), CoordinateSystem("physical", one.axes)
    turn = Rotation(((0.0, -1.0), (1.0, 0.0)))
    links = (
        SystemLink(
            Reference(name="physical"), Reference(name="atlas"), turn, "to atlas"
        ),
        SystemLink(Reference("labels/n", "i"), Reference(name="physical"), Identity()),
    )
    one = replace(one, intrinsic="physical", systems=other, links=links)
    metadata = parse_attributes(dump_image(ImageMetadata((one,)), "0.6"), 3)
    assert metadata.problems == ()
    assert metadata.image.multiscales == (one,)
    with pytest.raises(ValueError, match="links"):
        dump_image(ImageMetadata((one,)), "0.5")
    turned = replace(one.levels[0], transformation=turn)
    with pytest.raises(ValueError, match="scale"):
        dump_image(ImageMetadata((replace(one, levels=(turned,)),)), "0.6")


@pytest.mark.parametrize("version", PHYSICAL)
def test_parse_reads_back_plates_and_wells(version: str):
    zarr_format = 2 if version == "0.4" else 3
    metadata = parse_attributes(dump_plate(make_plate(), version), zarr_format)
    assert (metadata.plate, metadata.problems) == (make_plate(), ())
    well = WellMetadata((WellField("0", 0), WellField("1")))
    assert parse_attributes(dump_well(well, version), zarr_format).well == well
