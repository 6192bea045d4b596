"""What goes along with an image into a new file, and what is named as left out."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff.metadata.units import unit_factor
from napari_ngff.plate.tables.files import find_table
from napari_ngff.plate.tables.table import WellTable
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.hierarchy.summary import list_tables
from napari_ngff.viewer.annotations.annotations import CopiedPart
from napari_ngff.viewer.annotations.file_annotation import image_node
from napari_ngff.viewer.annotations.object_class_annotation import begin_classes
from napari_ngff.viewer.annotations.region_table import read_region_table
from napari_ngff.viewer.annotations.regions_annotation import (
    RegionsAnnotation,
    region_axes,
)
from napari_ngff.viewer.annotations.table_annotation import TableAnnotation
from napari_ngff.viewer.composing.chosen_layers import (
    choose_layers,
    describe_copy,
    plan_annotations,
    plan_tables,
)
from napari_ngff.viewer.composing.composition import read_layer_data
from napari_ngff.viewer.composing.write_layers import write
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.samples import write_image, write_plate, write_stack
from napari_ngff.viewer.saving.layer_description import JOINED
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from object_tables import stored
from recovering import User, image_of, opened

OF_OTHERS = {"projection": "normal", "defaultT": 0, "model": "color"}
PLACES = [[3.0, 4.0], [10.5, 20.25]]
OUTLINE = [[5, 5], [5, 20], [20, 20]]
BOX = np.array([[9, 9], [9, 29], [19, 29], [19, 9]]) + 0.5


@pytest.fixture(autouse=True)
def user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Window, "current", User())


def add_everything(path, version):
    """Write an image with tables of ngio, and keys of other programs."""
    ngio = pytest.importorskip("ngio")
    write_image(path, version, shape=(64, 80))
    image = ngio.open_ome_zarr_container(str(path))
    rows = pd.DataFrame({"label": [1, 2, 3], "area": [1.5, 2.5, 3.5]})
    features = ngio.tables.FeatureTable(rows, reference_label="nuclei")
    image.add_table("features", features, backend="csv")
    image.add_table("arrays", features, backend="anndata")
    image.add_table("FOV", image.build_image_roi_table("all"), backend="csv")
    image.add_table("masks", image.build_masking_roi_table("nuclei"), backend="csv")
    key = ".zattrs" if version == "0.4" else "zarr.json"
    document = json.loads((path / key).read_text())
    attributes = document if version == "0.4" else document["attributes"]
    home = attributes if version == "0.4" else attributes["ome"]
    home["omero"] |= {"id": 7, "rdefs": OF_OTHERS}
    for channel in home["omero"]["channels"]:
        channel |= {"coefficient": 1.0, "family": "linear"}
    attributes["source"] = {"stain": "H&E"}
    (path / key).write_text(json.dumps(document))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    with warnings.catch_warnings():  # of libraries about each other
        warnings.simplefilter("ignore")
        for version in ("0.4", "0.5"):
            add_everything(folder / f"{version}.ome.zarr", version)
    return folder


def annotate(viewer):
    """Make unsaved work of all kinds."""
    image, labels = image_of(viewer), viewer.layers["nuclei"]
    labels.visible = True
    classes = classes_of_layer(labels)
    classes.add_class("tumour", 901)
    classes.add_class("stroma", 902)
    classes.change_class(901, locked=True)
    classes.change_class(902, hidden=True)
    labels.paint((2,) * labels.ndim, 905)
    own = begin_classes(session_of(viewer).annotations, labels)
    own.add_class("round")
    own.classify(3, "round")
    place = {"scale": image.scale[-2:], "translate": image.translate[-2:]}
    viewer.add_points(PLACES, name="spots", features={"kind": ["a", "b"]}, **place)
    viewer.add_shapes([np.array(OUTLINE)], shape_type="polygon", name="lines", **place)
    viewer.layers["lines"].visible = False
    rows = pd.DataFrame({"well": ["", ""], "label": [1, 2], "area": [1.5, 2.5]})
    owner, node = session_of(viewer).annotations, image_node(image)
    TableAnnotation(owner, "nuclei", "cells", WellTable("nuclei", rows), node=node)
    table = read_region_table(node, "FOV", region_axes(image))
    RegionsAnnotation.open_table(owner, image, "FOV", table)
    RegionsAnnotation.begin(owner, image, "mine")
    for name in ("FOV", "mine"):
        viewer.layers[name].add_rectangles([BOX])
    viewer.layers[image.name].visible = True


def unsaved(viewer):
    return {type(x).__name__ for x in session_of(viewer).annotations if x.unsaved}


def save_copy(viewer, path, version=None, **how):
    """Save as the command does; return what goes along, and what does not."""
    chosen = choose_layers(viewer.layers)
    copy = describe_copy(chosen.layers)
    planned = plan_tables(copy)
    planned += plan_annotations(session_of(viewer).annotations, chosen, copy)
    parts = [x for _, x in planned if isinstance(x, CopiedPart)]
    layers = map(read_layer_data, chosen.layers)
    write(path, [*layers, *parts], to_version=version, **how)
    left = {title: x for title, x in planned if isinstance(x, str)}
    return {part.title: part.failure for part in parts}, left


def files_below(path):
    return {p: p.read_bytes() for p in Path(path).rglob("*") if p.is_file()}


def world(layer):
    return np.array([layer.data_to_world(point) for point in layer.data])


def attributes_of(path):
    return dict(zarr.open_group(str(path), mode="r").attrs)


ALL = {
    *("table 'features'", "table 'arrays'", "table 'FOV'", "table 'masks'"),
    *("points 'spots'", "shapes 'lines'", "classes of 'nuclei'"),
    *("regions 'FOV'", "regions 'mine'", "measured table of nuclei (cells)"),
}


@dataclass
class Saved:
    """A copy of an image with everything, and what it was made of."""

    source: Path
    target: Path
    viewer: Any
    parts: dict[str, str]
    left: dict[str, str]
    is_same: bool


@pytest.fixture(
    scope="module",
    params=[("0.4", "0.5"), ("0.4", "0.4"), ("0.5", "0.4")],
    ids=lambda pair: "-".join(pair),
)
def saved(request, images, tmp_path_factory):
    before, after = request.param
    source, folder = images / f"{before}.ome.zarr", tmp_path_factory.mktemp("copy")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
        monkeypatch.setattr(Window, "current", User())
        stood, viewer = files_below(images), opened(source, monkeypatch)
        annotate(viewer)
        viewer.layers[1].visible = False
        work = unsaved(viewer)
        parts, left = save_copy(viewer, folder / "copy.ome.zarr", after)
        # A copy is no save.
        assert unsaved(viewer) == work
        assert len(work) == 6
        assert files_below(images) == stood
    same = before == after
    return Saved(source, folder / "copy.ome.zarr", viewer, parts, left, same)


def test_all_that_an_image_has_goes_along(saved):
    assert saved.parts == dict.fromkeys(ALL, "")
    assert saved.left == {}


def test_other_programs_read_tables_points_and_shapes(saved):
    ngio = pytest.importorskip("ngio")
    target, names = saved.target, {"features", "FOV", "masks", "nuclei_classes"}
    names |= {"nuclei_measured", "mine"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        container = ngio.open_ome_zarr_container(str(target))
        assert set(container.list_labels()) == {"nuclei", "cells"}
        assert set(container.list_tables()) == {*names, "arrays"}
        names |= {"arrays"} if saved.is_same else set()
        rows = {name: len(container.get_table(name).dataframe) for name in names}
        (box,) = container.get_table("mine").rois()
        pixels = container.get_image().get_roi(box)
    assert (rows["features"], rows["FOV"], rows["nuclei_classes"]) == (3, 2, 1)
    assert pixels.shape[-2:] == (10, 20)
    measured = pd.read_csv(target / "tables/nuclei_measured/table.csv")
    assert measured.to_dict("list") == {"label": [1, 2], "area": [1.5, 2.5]}
    table = pd.read_csv(target / "tables/nuclei_classes/table.csv")
    assert table.to_dict("list") == {"label": [3], "class": ["round"]}
    if saved.is_same:
        for name in ("features", "arrays", "masks"):
            old, new = (
                files_below(x / "tables" / name) for x in (saved.source, target)
            )
            assert [*sorted(old.values())] == [*sorted(new.values())]
    points = pd.read_csv(target.parent / "copy.points" / "spots.csv")
    scale = saved.viewer.layers[0].scale[-2:]
    np.testing.assert_allclose(points.iloc[:, 1:3], np.multiply(PLACES, scale))
    assert list(points["kind"]) == ["a", "b"]
    shapes = json.loads((target.parent / "copy.shapes" / "lines.geojson").read_text())
    assert shapes["features"][0]["geometry"]["coordinates"][0][1] == [20.5, 5.5]


def test_keys_of_other_programs_stay(saved):
    attributes = attributes_of(saved.target)
    omero = attributes.get("ome", attributes)["omero"]
    assert [x["active"] for x in omero["channels"]] == [True, False, True]
    assert (omero["id"], omero["rdefs"]) == (7, OF_OTHERS)
    assert [x["coefficient"] for x in omero["channels"]] == [1.0] * 3
    assert attributes["source"] == {"stain": "H&E"}


def test_opened_again_it_has_the_same(saved, monkeypatch):
    before, after = saved.viewer, opened(saved.target, monkeypatch)
    assert unsaved(after) == set()
    np.testing.assert_allclose(
        world(after.layers["spots"]), world(before.layers["spots"])
    )
    assert [*after.layers["spots"].features["kind"]] == ["a", "b"]
    np.testing.assert_allclose(after.layers["lines"].data[0], OUTLINE, rtol=1e-5)
    assert stored(saved.target) == {"nuclei": {3: "round"}}
    labels = after.layers["nuclei"]
    assert int(np.asarray(labels.data[0])[2, 2]) == 905
    items = [classes_of_layer(x.layers["nuclei"]).items for x in (before, after)]
    assert items[0] == items[1]
    assert [x.hidden for x in items[1]] == [False, True]


def test_a_single_file_has_it_inside_and_beside(images, tmp_path, monkeypatch):
    viewer = opened(images / "0.5.ome.zarr", monkeypatch)
    annotate(viewer)
    target = tmp_path / "copy.ozx"
    parts, _ = save_copy(viewer, target)
    assert parts == dict.fromkeys(ALL, "")
    node = open_node(str(target))
    assert len(list_tables(node)) == 7
    assert not list(tmp_path.rglob("*.aside"))
    assert len(find_table(node, "arrays")[0]) == 3
    again = opened(target, monkeypatch)
    np.testing.assert_allclose(
        world(again.layers["spots"]), world(viewer.layers["spots"])
    )
    assert stored(target) == {"nuclei": {3: "round"}}


@pytest.mark.parametrize(
    "change",
    [
        {"translate": (100, -7.5)},
        {"scale": (2, 0.25)},
        {"affine": np.diag([3.0, 0.5, 1])},
        {"units": ("nm", "nm")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_is_drawn_is_where_it_is_seen_though_the_image_was_moved(
    images, tmp_path, monkeypatch, change
):
    viewer = opened(images / "0.5.ome.zarr", monkeypatch)
    for layer in viewer.layers:
        for key, value in change.items():
            setattr(layer, key, value)
    image = image_of(viewer)
    viewer.add_points(PLACES, name="spots", scale=image.scale, units=image.units)
    viewer.add_shapes(
        [np.array(OUTLINE)], shape_type="polygon", name="lines", units=image.units
    )
    seen = {name: world_corners(viewer.layers[name]) for name in ("spots", "lines")}
    parts, left = save_copy(viewer, tmp_path / "copy.ome.zarr", "0.5")
    # ngio counts regions from the first voxel, wherever it is.
    regions = {"table 'FOV'", "table 'masks'"}
    is_scaled = "translate" not in change
    assert regions & set(left if is_scaled else parts) == regions
    assert all("another size" in reason for reason in left.values())
    assert "table 'features'" in parts
    again = opened(tmp_path / "copy.ome.zarr", monkeypatch)
    assert again.layers["spots"].units == image_of(again).units
    for name, corners in seen.items():
        found = world_corners(again.layers[name])
        np.testing.assert_allclose(found, corners, rtol=1e-5)


def world_corners(layer):
    """Corners in micrometres."""
    parts = layer.data if layer._type_string == "points" else layer.data[0]
    factors = [unit_factor(str(unit), "micrometer") for unit in layer.units]
    return np.array([layer.data_to_world(point) for point in parts]) * factors


@pytest.mark.parametrize("make", [write_stack, write_image])
def test_points_of_stacks_and_series_keep_their_place(tmp_path, monkeypatch, make):
    make(tmp_path / "deep.ome.zarr", shape=(3, 48, 40))
    viewer = opened(tmp_path / "deep.ome.zarr", monkeypatch)
    image, places = image_of(viewer), np.array([[1, 3.5, 4], [2, 20, 30.25]])
    for name, first in ("deep", 0), ("flat", 1):
        scaled, units = places[:, first:] * image.scale[first:], image.units[first:]
        viewer.add_points(scaled, name=name, units=units)
    before = {name: world(viewer.layers[name]) for name in ("deep", "flat")}
    save_copy(viewer, tmp_path / "copy.ome.zarr")
    again = opened(tmp_path / "copy.ome.zarr", monkeypatch)
    for name, where in before.items():
        np.testing.assert_allclose(world(again.layers[name]), where)


def test_what_lost_its_labels_or_image_is_named(images, tmp_path, monkeypatch):
    viewer = opened(images / "0.5.ome.zarr", monkeypatch)
    annotate(viewer)
    labels, cells = viewer.layers["nuclei"], viewer.layers["cells"]
    viewer.layers.selection = {image_of(viewer), cells}
    parts, left = save_copy(viewer, tmp_path / "no-labels.ome.zarr")
    assert set(parts) == {"table 'FOV'"}
    named = {"table 'features'", "table 'arrays'", "table 'masks'"}
    named |= {"measured table of nuclei (cells)"}
    assert set(left) == {*named, "classes of 'nuclei' of 0.5.ome.zarr"}
    assert list_tables(open_node(str(tmp_path / "no-labels.ome.zarr"))) == ("FOV",)
    viewer.layers.selection = {labels, cells}
    parts, left = save_copy(viewer, tmp_path / "labels.ome.zarr")
    assert set(parts) == set()
    assert "classes of 'nuclei' of 0.5.ome.zarr" in left
    viewer.layers.selection = set()
    viewer.layers.remove(cells)
    assert choose_layers(viewer.layers).lacking == ("labels 'cells' without a layer",)


def test_files_of_another_image_beside_stay_and_are_named(
    images, tmp_path, monkeypatch
):
    viewer = opened(images / "0.5.ome.zarr", monkeypatch)
    annotate(viewer)
    older = tmp_path / "copy.points" / "spots.csv"
    older.parent.mkdir()
    older.write_text("work of yesterday")
    parts, _ = save_copy(viewer, tmp_path / "copy.ome.zarr")
    assert "There is" in parts["points 'spots'"]
    assert older.read_text() == "work of yesterday"
    assert (tmp_path / "copy.shapes" / "lines.geojson").exists()
    shutil.rmtree(tmp_path / "copy.shapes")
    parts, _ = save_copy(viewer, tmp_path / "copy.ome.zarr", overwrite=True)
    assert set(parts.values()) == {""}
    assert len(pd.read_csv(older)) == 2


def test_a_damaged_table_is_named_and_the_rest_is_saved(images, tmp_path, monkeypatch):
    source = shutil.copytree(images / "0.5.ome.zarr", tmp_path / "in.ome.zarr")
    (source / "tables" / "masks" / "zarr.json").write_text("{")
    viewer = opened(source, monkeypatch)
    parts, left = save_copy(viewer, tmp_path / "copy.ome.zarr")
    assert set(left) == {"table 'masks'"}
    assert set(parts.values()) == {""}
    node = open_node(str(tmp_path / "copy.ome.zarr"))
    assert set(list_tables(node)) == {"features", "arrays", "FOV"}


def test_columns_of_a_table_do_not_become_properties(images, tmp_path, monkeypatch):
    viewer = opened(images / "0.5.ome.zarr", monkeypatch)
    labels = viewer.layers["nuclei"]
    labels.features = labels.features.assign(intensity=1.5)
    labels.metadata[JOINED] = ("intensity",)
    plain = viewer.add_labels(
        np.array(labels.data[0]), name="plain", scale=labels.scale, units=labels.units
    )
    plain.features = pd.DataFrame({"index": [1], "intensity": [2.5], "kind": ["a"]})
    plain.metadata[JOINED] = ("intensity",)
    save_copy(viewer, tmp_path / "copy.ome.zarr", "0.5")
    for name in ("nuclei", "plain"):
        attributes = attributes_of(tmp_path / "copy.ome.zarr" / "labels" / name)
        rows = attributes["ome"]["image-label"]["properties"]
        assert not [row for row in rows if "intensity" in row]


def test_classes_of_renamed_labels_get_their_new_name(images, tmp_path, monkeypatch):
    source = shutil.copytree(images / "0.5.ome.zarr", tmp_path / "in.ome.zarr")
    viewer = opened(source, monkeypatch)
    annotate(viewer)
    classes = begin_classes(session_of(viewer).annotations, viewer.layers["nuclei"])
    classes.save()
    classes.classify(4, "round")
    viewer.layers["nuclei"].name = "corrected: nuclei?"
    parts, left = save_copy(viewer, tmp_path / "copy.ome.zarr")
    assert set(left) == {"table 'features'", "table 'arrays'", "table 'masks'"}
    assert "classes of 'nuclei'" in parts
    assert stored(tmp_path / "copy.ome.zarr") == {
        "corrected_ nuclei_": {3: "round", 4: "round"}
    }
    assert stored(source) == {"nuclei": {3: "round"}}


def test_a_field_of_a_plate_becomes_an_image_with_its_annotations(
    tmp_path, monkeypatch
):
    write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=2, shape=(32, 32))
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(str(tmp_path / "p.ome.zarr")))
    browser.show_field("A/2", "1")
    image, labels = image_of(viewer), viewer.layers["nuclei"]
    viewer.add_points(PLACES * image.scale + image.translate, units=image.units)
    own = begin_classes(session_of(viewer).annotations, labels)
    own.add_class("round")
    own.classify(3, "round")
    frame = pd.DataFrame({"well": ["A/1", "A/2"], "field": "1", "label": [4, 5]})
    owner, rows = session_of(viewer).annotations, WellTable("nuclei", frame)
    TableAnnotation(owner, "nuclei", "p", rows, node=browser.node)
    before = files_below(tmp_path)
    parts, left = save_copy(viewer, tmp_path / "field.ome.zarr")
    assert left == {}
    measured = "measured table of nuclei (p)"
    assert set(parts) == {"points 'Points'", "classes of 'nuclei'", measured}
    copy = open_node(str(tmp_path / "field.ome.zarr"))
    assert find_table(copy, "nuclei_measured")[0]["label"].tolist() == [5]
    assert before.items() <= files_below(tmp_path).items()
    again = opened(tmp_path / "field.ome.zarr", monkeypatch)
    points = again.layers["Points"], viewer.layers["Points"]
    np.testing.assert_allclose(*map(world, points))
    assert stored(tmp_path / "field.ome.zarr") == {"nuclei": {3: "round"}}


def voxels(viewer, name):
    """Where in the image a layer is."""
    corners, image = world_corners(viewer.layers[name]), image_of(viewer)
    return np.array([image.world_to_data(corner) for corner in corners])


def test_what_is_drawn_stays_on_its_voxels_in_any_coordinate_system(
    images, tmp_path, monkeypatch
):
    viewer = opened(images / "0.5.ome.zarr", monkeypatch)
    angle = np.radians(30)
    turned = np.array(
        [[np.cos(angle), -np.sin(angle), 9], [np.sin(angle), np.cos(angle), -4]]
    )
    for layer in viewer.layers:
        layer.affine = [*turned, [0, 0, 1]]
    image = image_of(viewer)
    how = {"scale": image.scale, "affine": image.affine, "units": image.units}
    viewer.add_points(PLACES, name="spots", **how)
    viewer.add_shapes([np.array(OUTLINE)], shape_type="polygon", name="lines", **how)
    save_copy(viewer, tmp_path / "turned.ome.zarr", "0.6")
    again = opened(tmp_path / "turned.ome.zarr", monkeypatch)
    # What is drawn was opened in the intrinsic system, and its image is in another one.
    session = session_of(again)
    session.show_system(next(x for x in session.systems() if x.name == "world"))
    assert not np.allclose(image_of(again).affine.affine_matrix, np.eye(3))
    save_copy(again, tmp_path / "twice.ome.zarr", "0.6")
    for copy in ("turned", "twice"):
        found = opened(tmp_path / f"{copy}.ome.zarr", monkeypatch)
        for name, where in ("spots", PLACES), ("lines", OUTLINE):
            np.testing.assert_allclose(voxels(found, name), where, rtol=1e-5)


@pytest.mark.parametrize(
    "omero",
    [
        [],
        {"channels": 5, "id": 3},
        {"channels": [4, None, {"family": "linear"}], "id": 3},
        {"channels": [{}] * 9, "id": 3},
    ],
)
def test_keys_of_damaged_settings_stop_no_copy(images, tmp_path, monkeypatch, omero):
    source = shutil.copytree(images / "0.5.ome.zarr", tmp_path / "in.ome.zarr")
    document = json.loads((source / "zarr.json").read_text())
    document["attributes"]["ome"]["omero"] = omero
    document["attributes"]["spatialdata_attrs"] = {"version": "0.3"}
    (source / "zarr.json").write_text(json.dumps(document))
    viewer = opened(source, monkeypatch)
    save_copy(viewer, tmp_path / "copy.ome.zarr", "0.5")
    attributes = attributes_of(tmp_path / "copy.ome.zarr")
    assert attributes["source"] == {"stain": "H&E"}
    # Else no labels could be saved in it.
    assert "spatialdata_attrs" not in attributes
    assert attributes["ome"]["omero"].get("id") == (3 if omero else None)


def test_a_copy_that_is_stopped_leaves_nothing_beside(images, tmp_path, monkeypatch):
    viewer = opened(images / "0.5.ome.zarr", monkeypatch)
    annotate(viewer)
    with pytest.raises(InterruptedError):
        save_copy(viewer, tmp_path / "in" / "copy.ome.zarr", cancel=lambda: True)
    assert [x for x in tmp_path.rglob("copy*") if x.is_file()] == []
    assert not (tmp_path / "in" / "copy.points").exists()
    assert len(unsaved(viewer)) == 6
