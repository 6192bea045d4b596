"""Regions of an image: tables of ngio as boxes, saved so that ngio reads them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from judges import ngio
from napari_ngff.plugin import get_reader
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.composing.chosen_layers import (
    choose_layers,
    describe_copy,
    plan_annotations,
)
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.services.window import RESTORE
from napari_ngff.viewer.session import session_of
from plates import pixels
from plates import write_image as write_axes
from recovering import opened
from region_tables import write_boxes

PLACES = {
    "yx": {"y": (0.5, 7), "x": (0.25, -3)},
    "zyx": {"z": (2.0, 5), "y": (0.5, 7), "x": (0.25, -3)},
    "tczyx": {"t": (3.0, 1), "z": (0.3, 50), "y": (0.5, 7), "x": (2.0, 100)},
}
SIZES = {"t": 3, "c": 2, "z": 4, "y": 40, "x": 60}


def image_in(tmp_path, axes="yx", zarr_format=3):
    path = tmp_path / "in" / "cells.ome.zarr"
    data = pixels(1, [SIZES[axis] for axis in axes])
    write_axes(path, data, zarr_format, axes, planes=PLACES[axes])
    return path


def image_of(viewer):
    return next(x for x in viewer.layers if x._type_string == "image")


def choose(viewer, name, **how):
    """Choose a table, and return its annotation."""
    regions = session_of(viewer).regions
    regions.choose(name, **how)
    return regions.drawn


def unsaved_of(viewer):
    return session_of(viewer).annotations.list_savable()


def box_at(axes, number):
    """A box of whole voxels, in the unit of the image."""
    first = {"t": 1, "z": number % 3, "y": 2 * number, "x": 3 * number}
    size = {"t": 1, "z": 2, "y": 4 + number, "x": 5}
    steps = {axis: PLACES[axes][axis][0] for axis in axes if axis != "c"}
    return {x: (first[x] * step, size[x] * step) for x, step in steps.items()}


@pytest.mark.default_cases("yx-2", "zyx-3", "tczyx-2")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("axes", [*PLACES])
def test_boxes_are_on_the_pixels_that_ngio_reads(
    axes, zarr_format, tmp_path, monkeypatch, user
):
    path = image_in(tmp_path, axes, zarr_format)
    boxes = {f"F{n}": box_at(axes, n) for n in range(3)}
    backends = ["csv", "json", "anndata", "parquet"]
    write_boxes(path, boxes, backends=backends)
    viewer = opened(path, monkeypatch)
    image, container = image_of(viewer), ngio.open_ome_zarr_container(str(path))
    size = container.get_image().pixel_size
    for backend in backends:
        drawn = choose(viewer, backend)
        assert drawn is not None, user.told
        assert not drawn.unsaved
        assert list(drawn.layer.features["name"]) == [*boxes]
        for roi, corners in zip(
            container.get_table(backend).rois(), drawn.layer.data, strict=True
        ):
            read = roi.to_slicing_dict(pixel_size=size)
            world = np.array([drawn.layer.data_to_world(each) for each in corners])
            lead = [0.0] * (image.ndim - world.shape[1])
            voxels = np.array([image.world_to_data([*lead, *x]) for x in world])
            low, high = voxels.min(axis=0) + 0.5, voxels.max(axis=0) + 0.5
            for axis in "yx":
                at = axes.replace("c", "").index(axis)
                assert (low[at], high[at]) == pytest.approx(
                    (read[axis].start, read[axis].stop), abs=1e-3
                )
            if "z" in axes:
                plane = np.round(voxels[0, -3])
                assert plane == min(read["z"].start + 1, SIZES["z"] - 1)
    # Workers of an earlier test may still have something to say.
    assert not [text for text in user.told if str(tmp_path) in text]


def test_a_step_shows_the_plane_where_a_region_is_drawn(tmp_path, monkeypatch, user):
    path = image_in(tmp_path, "tczyx")
    write_boxes(path, {f"F{n}": box_at("tczyx", n) for n in range(3)})
    viewer = opened(path, monkeypatch)
    layer = choose(viewer, "csv").layer
    regions = session_of(viewer).regions
    for step, number in ((1, 0), (1, 1), (1, 2), (1, 2), (-1, 1)):
        regions.step(step)
        assert regions.place == f"F{number}, {number + 1} of 3"
        middle = layer.data[number].mean(axis=0)
        shown = layer.world_to_data(viewer.dims.point)
        np.testing.assert_allclose(shown[:2], middle[:2])
        center = layer.data_to_world(middle)[-2:]
        np.testing.assert_allclose(viewer.scene.camera.center[-2:], center)


@pytest.mark.parametrize("backend", ["csv", "json"])
def test_a_save_changes_what_was_moved_alone(backend, tmp_path, monkeypatch, user):
    path = image_in(tmp_path, "tczyx")
    boxes = {f"F{n}": box_at("tczyx", n) for n in range(4)}
    write_boxes(path, boxes, backends=[backend, "parquet"])
    before = ngio.open_ome_zarr_container(str(path)).get_table(backend).dataframe
    viewer = opened(path, monkeypatch)
    drawn = choose(viewer, backend)
    layer = drawn.layer
    moved = [corners.copy() for corners in layer.data]
    moved[2][:, -1] += 4
    layer.data = moved
    layer.selected_data = {1}
    layer.remove_selected()
    layer.add_rectangles(np.add(moved[0], [0, 0, 10, 20]))
    assert drawn.unsaved
    drawn.save()
    assert unsaved_of(viewer) == [], user.told
    after = ngio.open_ome_zarr_container(str(path)).get_table(backend)
    assert [roi.name for roi in after.rois()] == ["F0", "F2", "F3", "region_1"]
    frame = after.dataframe
    for name in ("F0", "F3"):
        assert frame.loc[name].equals(before.loc[name])
    changed = {x for x in frame if frame.at["F2", x] != before.at["F2", x]}
    assert changed == {"x_micrometer"}
    assert frame.at["F2", "x_micrometer"] == boxes["F2"]["x"][0] + 4 * 2.0
    assert frame.at["region_1", "len_y_micrometer"] == boxes["F0"]["y"][1]
    # Once more: each region is found in its row of now.
    layer.data = [np.add(corners, [0, 0, 0, 1]) for corners in layer.data]
    drawn.save()
    again = ngio.open_ome_zarr_container(str(path)).get_table(backend).dataframe
    assert again["x_micrometer"].tolist() == pytest.approx(
        [value + 2.0 for value in frame["x_micrometer"]]
    )
    assert again["note"].tolist()[:3] == frame["note"].tolist()[:3]
    assert ngio.open_ome_zarr_container(str(path)).get_table("parquet").rois()


def test_new_regions_are_a_table_of_the_image(tmp_path, monkeypatch, user):
    path = image_in(tmp_path, "zyx")
    viewer = opened(path, monkeypatch)
    drawn = choose(viewer, "glands", is_new=True)
    assert unsaved_of(viewer) == []
    for corner in ([1, 2], [11, 22]):
        drawn.layer.add_rectangles(np.add([[0, 0], [0, 8], [6, 8], [6, 0]], corner))
    drawn.save()
    assert unsaved_of(viewer) == [], user.told
    table = ngio.open_ome_zarr_container(str(path)).get_table("glands")
    assert isinstance(table, ngio.tables.RoiTable)
    first, second = table.rois()
    assert (first.name, second.name) == ("region_1", "region_2")
    assert (second["y"].start, second["y"].length) == (11.5 * 0.5, 6 * 0.5)
    assert (second["x"].start, second["x"].length) == (22.5 * 0.25, 8 * 0.25)
    assert (second["z"].start, second["z"].length) == (0, 4 * 2.0)
    viewer = opened(path, monkeypatch)
    assert choose(viewer, "glands").table.titles == ["region_1", "region_2"]


def test_what_no_table_can_have_is_refused_by_name(tmp_path, monkeypatch, user):
    path = image_in(tmp_path)
    write_boxes(path, {"7": box_at("yx", 1)}, masks="nuclei")
    before = (path / "tables/csv/table.csv").read_bytes()
    viewer = opened(path, monkeypatch)
    drawn = choose(viewer, "csv")
    drawn.layer.add_ellipses(drawn.layer.data[0] + 3)
    drawn.layer.features = {"name": ["7", "8"]}
    drawn.save()
    assert "'8' is another shape" in user.told[-1]
    drawn.layer.selected_data = {1}
    drawn.layer.remove_selected()
    drawn.layer.add_rectangles(drawn.layer.data[0] + 3)
    drawn.save()
    assert "number of an object" in user.told[-1]
    assert drawn.unsaved
    assert (path / "tables/csv/table.csv").read_bytes() == before


def test_a_table_that_others_have_changed_is_left_alone(tmp_path, monkeypatch, user):
    path = image_in(tmp_path)
    write_boxes(path, {"F0": box_at("yx", 1)}, backends=["csv", "anndata"])
    viewer = opened(path, monkeypatch)
    for name in ("csv", "anndata"):
        drawn = choose(viewer, name)
        drawn.layer.add_rectangles(drawn.layer.data[0] + 3)
        if name == "csv":
            write_boxes(path, {"F9": box_at("yx", 2)}, backends=["csv"])
        before = {x: x.read_bytes() for x in path.rglob("*") if x.is_file()}
        drawn.save()
        assert drawn.unsaved
        assert "Rename the layer" in user.told[-1]
        assert {x: x.read_bytes() for x in path.rglob("*") if x.is_file()} == before
    # The columns of others come along.
    drawn.layer.name = "mine"
    drawn.save()
    assert not drawn.unsaved, user.told
    frame = ngio.open_ome_zarr_container(str(path)).get_table("mine").dataframe
    assert frame["note"].tolist()[0] == "about F0"
    assert frame.index.tolist() == ["F0", "region_1"]


def test_regions_of_an_image_that_cannot_be_written_are_beside_it(
    tmp_path, monkeypatch, user
):
    path = image_in(tmp_path)
    write_boxes(path, {"F0": box_at("yx", 1)})
    before = {x: x.read_bytes() for x in path.rglob("*") if x.is_file()}
    monkeypatch.setattr(FolderStore, "why_not_written", lambda *_: "read-only")
    viewer = opened(path, monkeypatch)
    drawn = choose(viewer, "csv")
    drawn.layer.add_rectangles(drawn.layer.data[0] + 3)
    drawn.save()
    assert not drawn.unsaved, user.told
    assert {x: x.read_bytes() for x in path.rglob("*") if x.is_file()} == before
    assert [x.name for x in (path.parent / "cells.regions").iterdir()] == ["csv.json"]
    viewer = opened(path, monkeypatch)
    (again,) = (x for x in viewer.layers if x._type_string == "shapes")
    assert list(again.features["name"]) == ["F0", "region_1"]
    assert unsaved_of(viewer) == []


def test_what_a_process_left_is_saved_into_its_rows(tmp_path, monkeypatch, user):
    path = image_in(tmp_path)
    write_boxes(path, {"F0": box_at("yx", 1), "F1": box_at("yx", 2)})
    drawn = choose(opened(path, monkeypatch), "csv")
    drawn.layer.data = [drawn.layer.data[0], drawn.layer.data[1] + 2]
    assert drawn.may_keep()
    drawn._journal.close()
    user.answer = RESTORE
    (again,) = unsaved_of(opened(path, monkeypatch))
    again.save()
    assert not again.unsaved, user.told
    frame = ngio.open_ome_zarr_container(str(path)).get_table("csv").dataframe
    assert frame["y_micrometer"].tolist() == [2 * 0.5, (4 + 2) * 0.5]
    assert frame["note"].tolist() == ["about F0", "about F1"]


@pytest.mark.parametrize(
    "text",
    ["", "FieldIndex,x_micrometer\nF0,1\n", "a;b\n1;2\n", "x_micrometer,\xff", None],
)
def test_a_damaged_table_is_named(text, tmp_path, monkeypatch, user):
    path = image_in(tmp_path)
    write_boxes(path, {"F0": box_at("yx", 1)})
    file = path / "tables/csv/table.csv"
    if text is None:
        file.unlink()
    else:
        file.write_bytes(text.encode("latin-1"))
    viewer = opened(path, monkeypatch)
    assert choose(viewer, "csv") is None
    (told,) = user.told
    assert "csv" in told
    assert session_of(viewer).regions.names == ("csv",)


def test_a_table_without_its_index_has_numbered_regions(tmp_path, monkeypatch, user):
    path = image_in(tmp_path)
    write_boxes(path, {"F0": box_at("yx", 1), "F1": box_at("yx", 2)})
    file = path / "tables/csv/table.csv"
    file.write_text(file.read_text().replace("FieldIndex", "field"))
    document = path / "tables/csv/zarr.json"
    content = json.loads(document.read_text())
    del content["attributes"]["index_key"]
    document.write_text(json.dumps(content))
    drawn = choose(opened(path, monkeypatch), "csv")
    assert drawn.table.titles == ["0", "1"]


def test_the_same_name_in_two_images_is_a_table_of_each(tmp_path, monkeypatch, user):
    paths = [image_in(tmp_path / name) for name in "ab"]
    for path in paths:
        write_boxes(path, {"F0": box_at("yx", 1)})
    viewer = opened(paths[0], monkeypatch)
    choose(viewer, "csv")
    for one in get_reader(str(paths[1]))(str(paths[1])):
        viewer.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    viewer.layers.selection.active = viewer.layers[-1]
    regions = session_of(viewer).regions
    regions.follow()
    drawn = regions.drawn
    assert (drawn.layer.name, drawn.name) == ("csv [1]", "csv")
    assert unsaved_of(viewer) == []
    drawn.layer.add_rectangles(drawn.layer.data[0] + 1)
    drawn.save()
    assert unsaved_of(viewer) == [], user.told
    containers = [ngio.open_ome_zarr_container(str(path)) for path in paths]
    assert [len(x.get_table("csv").rois()) for x in containers] == [1, 2]
    assert [x.list_tables() for x in containers] == [["csv"], ["csv"]]


def names_in(path, table="csv"):
    file = path / f"tables/{table}/table.csv"
    return [line.split(",")[0] for line in file.read_text().splitlines()[1:]]


@pytest.mark.parametrize("how", ["copied", "typed"])
def test_a_second_region_of_a_name_gets_a_free_one(how, tmp_path, monkeypatch, user):
    path = image_in(tmp_path)
    write_boxes(path, {f"F{n}": box_at("yx", n) for n in range(3)})
    file = path / "tables/csv/table.csv"
    file.write_text(file.read_text().replace("F1", "F0"))  # others have it so
    viewer = opened(path, monkeypatch)
    drawn = choose(viewer, "csv")
    layer = drawn.layer
    if how == "copied":
        layer.selected_data = {2}
        layer._copy_data()
        layer._paste_data()
        wanted = ["F0", "F0", "F2", "F2_1"]
    else:
        layer.features = {"name": ["F0", "F0", "F0"]}
        wanted = ["F0", "F0", "F0_1"]
    drawn.save()
    assert not drawn.unsaved, user.told
    assert names_in(path) == wanted == list(layer.features["name"])
    assert any(f"is now '{wanted[-1]}'" in text for text in user.told)
    layer.data = [corners + 1 for corners in layer.data]
    drawn.save()
    assert names_in(path) == wanted


@pytest.mark.default_cases(
    "1300000.0-390000.0", "-162500.0-108225.123456789", "77.7-0.30000000000000004"
)
@pytest.mark.parametrize("length", [390000.0, 108225.123456789, 0.1 + 0.2])
@pytest.mark.parametrize("start", [1300000.0, -162500.0, 77.7])
def test_a_box_that_is_moved_keeps_its_lengths(
    start, length, tmp_path, monkeypatch, user
):
    path = image_in(tmp_path)
    write_boxes(path, {"F0": {"y": (start, length), "x": (start, length)}})
    file = path / "tables/csv/table.csv"
    text = file.read_text().replace('"', "")
    before = dict(zip(*(x.split(",") for x in text.splitlines()), strict=True))
    drawn = choose(opened(path, monkeypatch), "csv")
    drawn.layer.data = [np.add(corners, [0, 3.3]) for corners in drawn.layer.data]
    drawn.save()
    assert not drawn.unsaved, user.told
    after = [x.split(",") for x in file.read_text().splitlines()]
    after = dict(zip(*after, strict=True))
    changed = {x for x in before if before[x] != after[x]}
    assert changed == {"x_micrometer"}


@pytest.mark.parametrize("name", ["csv", "CSV", "Csv"])
def test_a_refused_name_is_asked_about_at_the_end(name, tmp_path, monkeypatch, user):
    path = image_in(tmp_path)
    write_boxes(path, {"F0": box_at("yx", 1)})
    viewer = opened(path, monkeypatch)
    drawn = choose(viewer, "mine", is_new=True)
    drawn.layer.add_rectangles([[1, 2], [1, 8], [6, 8], [6, 2]])
    drawn.save()
    assert not drawn.unsaved
    drawn.layer.name = name
    drawn.save()
    assert "There is a table" in user.told[-1]
    assert session_of(viewer).annotations.list_unsaved() == [drawn]
    assert {x.name for x in (path / "tables").iterdir()} >= {"csv", "mine"}
    assert not (path / "tables" / name / "table.csv").exists() or name == "csv"


@pytest.mark.parametrize("column", ["x_micrometer", "len_x_micrometer"])
def test_the_first_row_without_a_number_is_told(column, tmp_path, monkeypatch, user):
    path = image_in(tmp_path)
    write_boxes(path, {f"F{n}": box_at("yx", n) for n in range(3)})
    file = path / "tables/csv/table.csv"
    text = file.read_text().replace('"', "")
    header, *rows = (x.split(",") for x in text.splitlines())
    rows[1][header.index(column)] = ""
    other = {"x_micrometer", "len_x_micrometer"} - {column}
    rows[2][header.index(*other)] = ""
    file.write_text("\n".join(",".join(x) for x in (header, *rows)))
    choose(opened(path, monkeypatch), "csv")
    (told,) = user.told
    assert "Row 2" in told
    assert f"in {column}." in told


def test_a_copy_has_regions_unless_its_voxels_have_another_size(
    tmp_path, monkeypatch, user
):
    path = image_in(tmp_path)
    write_boxes(path, {"F0": box_at("yx", 1)})
    viewer = opened(path, monkeypatch)
    drawn = choose(viewer, "csv")
    for name in ("csv", "mine"):
        if name == "mine":
            drawn = choose(viewer, name, is_new=True)
        drawn.layer.add_rectangles([[1, 2], [1, 8], [6, 8], [6, 2]])
    for is_scaled in (False, True):
        for layer in viewer.layers:
            layer.scale = layer.scale * (1 + is_scaled)
        chosen = choose_layers(viewer.layers)
        copy = describe_copy(chosen.layers)
        planned = dict(plan_annotations(session_of(viewer).annotations, chosen, copy))
        assert [*planned] == ["regions 'csv'", "regions 'mine'"]
        why = [x for x in planned.values() if isinstance(x, str)]
        size = "the voxels have another size in the new file"
        assert why == [size, size] * is_scaled


def test_the_image_of_what_is_selected_has_the_regions(tmp_path, monkeypatch, user):
    paths = [image_in(tmp_path / name) for name in "ab"]
    for path, name in zip(paths, ("csv", "json"), strict=True):
        write_boxes(path, {"F0": box_at("yx", 1)}, backends=[name])
    viewer = opened(paths[0], monkeypatch)
    for one in get_reader(str(paths[1]))(str(paths[1])):
        viewer.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    first, second = viewer.layers[0], viewer.layers[-1]
    regions = session_of(viewer).regions
    viewer.layers.selection.active = first
    drawn = choose(viewer, "csv")
    viewer.layers.selection.active = second
    viewer.add_points([[1, 2]])
    for active, names in ((second, "json"), (drawn.layer, "csv"), (first, "csv")):
        viewer.layers.selection.active = active
        regions.follow()
        assert regions.names == (names,)
