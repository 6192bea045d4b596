"""What is pointed at is what is drawn there, whatever units the files state."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff.metadata.units import unit_factor
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations.regions_annotation import region_axes
from napari_ngff.viewer.layers.user_alignment import save_alignment
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from plates import write_image, write_plate
from recovering import User, image_of, opened

UNITS = ["nanometer", "micrometer", "millimeter"]


@pytest.fixture
def viewer():
    viewer = ViewerModel()
    yield viewer
    viewer.layers.clear()


@pytest.fixture
def user(tmp_path, monkeypatch):
    person = User()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Window, "current", person)
    return person


def state_unit(root, unit):
    for document in root.rglob("zarr.json"):
        content = json.loads(document.read_text())
        ome = content.get("attributes", {}).get("ome", {})
        for multiscale in ome.get("multiscales", ()):
            for axis in multiscale["axes"]:
                if axis["type"] == "space":
                    axis["unit"] = unit
        document.write_text(json.dumps(content))
    return root


def write_wells(root, unit):
    write_plate(
        root, grid=(1, 2), fields=1, shape=(1, 16, 16), labelled=lambda _: ("cells",)
    )
    return open_node(state_unit(root, unit))


def write_cells(root, unit):
    planes = {"y": (0.5, 7), "x": (0.25, -3)}
    pixels = np.zeros((40, 60), "u2")
    write_image(root, pixels, 3, "yx", planes=planes, labels=("cells",))
    return state_unit(root, unit)


def drawn_edges(viewer, layer):
    """Corners of a layer as napari draws it, in the units of all layers."""
    units = zip(layer.units[-2:], viewer.layers.extent.units[-2:], strict=True)
    factors = [unit_factor(str(own), str(drawn)) for own, drawn in units]
    return layer.extent.world[:, -2:] * factors


@pytest.mark.parametrize(
    "units",
    [
        ("nanometer", "micrometer"),
        ("micrometer", "nanometer"),
        ("millimeter", "nanometer", "millimeter"),
    ],
)
def test_what_is_pointed_at_is_what_is_drawn_there(viewer, tmp_path, units):
    session = session_of(viewer)
    for number, unit in enumerate(units):
        plate = write_wells(tmp_path / str(number) / "p.ome.zarr", unit)
        browser = session.browse(plate)
        browser.show_mosaic()
    low, high = drawn_edges(viewer, browser.layers.image_layers()[0])
    for well, share in (("A/1", 0.25), ("A/2", 0.75)):
        point = low + (high - low) * (0.5, share)
        assert browser.position_at(point).well == well
    center = viewer.scene.camera.center[-2:]
    np.testing.assert_allclose(center, (low + high) / 2, rtol=1e-3)

    browser.show_field("A/2")
    (labels,) = browser.layers.labels()
    middle = drawn_edges(viewer, labels).mean(axis=0)
    np.testing.assert_allclose(labels.world_to_data(middle), (7.5, 7.5), atol=1e-6)


@pytest.mark.parametrize("unit", UNITS)
def test_a_stroke_lands_where_it_is_seen(tmp_path, monkeypatch, user, unit):
    path = write_cells(tmp_path / "a.ome.zarr", unit)
    viewer = opened(path, monkeypatch)
    other = opened(write_cells(tmp_path / "b.ome.zarr", "nanometer"), monkeypatch)
    labels = viewer.layers[-1]
    for layer in [*other.layers]:
        other.layers.remove(layer)
        viewer.add_layer(layer)
        layer.visible = False
    before = zarr.open_array(path / "labels/cells/0")[...]
    low, high = drawn_edges(viewer, labels)
    place = low + (high - low) * ((12 + 0.5) / 40, (33 + 0.5) / 60)
    voxel = tuple(np.round(labels.world_to_data(place)).astype(int))
    labels.selected_label, labels.brush_size = 77, 1
    labels.paint(voxel, 77)
    for savable in session_of(viewer).annotations.list_savable():
        savable.save()
    after = zarr.open_array(path / "labels/cells/0")[...]
    assert np.argwhere(after != before).tolist() == [[12, 33]]
    assert after[12, 33] == 77
    viewer.layers.clear()


@pytest.mark.parametrize("unit", UNITS)
def test_files_have_the_unit_of_their_image(tmp_path, monkeypatch, user, unit):
    path = write_cells(tmp_path / "a.ome.zarr", unit)
    viewer = opened(path, monkeypatch)
    image = image_of(viewer)
    assert [str(x) for x in image.units] == ["micrometer"] * 2
    steps = [axis.scale for axis in region_axes(image)]
    np.testing.assert_allclose(steps, (0.5, 0.25), rtol=1e-12)
    places = [[3, 4], [10.5, 20.25]]
    viewer.add_points(
        places, name="spots", scale=image.scale, translate=image.translate
    )
    for savable in session_of(viewer).annotations.list_savable():
        savable.save()
    table = pd.read_csv(tmp_path / "a.points/spots.csv")
    assert [*table.columns[1:3]] == [f"y ({unit})", f"x ({unit})"]
    stated = np.array(places) * (0.5, 0.25) + (7, -3)
    np.testing.assert_allclose(table.iloc[:, 1:3], stated, rtol=1e-12)

    viewer.layers.clear()
    viewer = opened(path, monkeypatch)
    image = image_of(viewer)
    np.testing.assert_allclose(viewer.layers["spots"].data, places, rtol=1e-9)

    step = image.scale * (2, 4)
    image.translate = image.translate + step
    save_alignment(image, "moved")
    viewer.layers.clear()
    multiscale = zarr.open_group(path).attrs["ome"]["multiscales"][0]
    assert {axis["unit"] for axis in multiscale["axes"]} == {unit}
    (move,) = (
        x["translation"]
        for x in multiscale["coordinateTransformations"]
        if x["type"] == "translation"
    )
    np.testing.assert_allclose(move, (1, 1), rtol=1e-12)
