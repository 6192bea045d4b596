"""Shapes on images: a GeoJSON beside each; see also test_points_annotation.py."""

from __future__ import annotations

import json

import numpy as np
import pytest
from napari.layers import Shapes

from napari_ngff import convert
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from plates import pixels
from plates import write_image as write_axes
from recovering import opened

FLAT = {
    "rectangle": [(1, 2), (1, 9), (7, 9), (7, 2)],
    "ellipse": [(3, 3), (3, 9.25), (10, 9.25), (10, 3)],
    "polygon": [(4, 4), (9, 12), (20, 3), (7, 5)],
    "path": [(4, 4), (9, 12.5), (20, 3)],
    "line": [(4.125, 4), (9, 12)],
}
COLORS = ["red", "#12345678", [0.1, 0.2, 0.3, 0.4], "white", "transparent"]
WIDTHS = [1, 2, 3.5, 0.25, 20]
PLACES = {
    "yx": {"y": (0.5, 7), "x": (0.25, -3)},
    "zyx": {"z": (2.0, 5), "y": (0.5, 7), "x": (0.25, -3)},
    "tczyx": {"t": (3.0, 1), "z": (0.3, 50), "y": (0.5, 7), "x": (2.0, 100)},
}


def image_of(viewer):
    return next(x for x in viewer.layers if x._type_string == "image")


def unsaved_of(viewer):
    return session_of(viewer).annotations.list_savable()


def save(viewer):
    for annotation in unsaved_of(viewer):
        annotation.save()
    assert unsaved_of(viewer) == []


def world(layer):
    return [
        [np.round(layer.data_to_world(corner), 4).tolist() for corner in shape]
        for shape in layer.data
    ]


def draw(viewer, leading=(), **how):
    image = image_of(viewer)
    count = len(leading) + 2
    data = [[[*leading, *corner] for corner in flat] for flat in FLAT.values()]
    how = {"scale": image.scale, "translate": image.translate} | how
    how = {
        key: value[-count:] if key in ("scale", "translate") else value
        for key, value in how.items()
    }
    return viewer.add_shapes(
        data,
        name="regions",
        shape_type=[*FLAT],
        edge_color=COLORS,
        face_color=COLORS[::-1],
        edge_width=WIDTHS,
        features={"class": ["a", "b", None, "a", "b"], "area": [1, 2, 3, 4, 5]},
        **how,
    )


@pytest.mark.parametrize(
    ("axes", "leading"),
    [
        ("yx", ()),
        ("zyx", (2,)),
        ("zyx", (1.5,)),
        ("zyx", ()),
        ("tczyx", (1, 3)),
        ("tczyx", (2,)),
    ],
)
def test_shapes_come_again_where_and_as_they_were(
    user, tmp_path, monkeypatch, axes, leading
):
    path, sizes = tmp_path / "cells.ome.zarr", {"t": 2, "c": 2, "z": 4}
    data = pixels(1, [sizes.get(axis, 32) for axis in axes])
    write_axes(path, data, 3, axes, planes=PLACES[axes])
    viewer = opened(path, monkeypatch)
    layer = draw(viewer, leading)
    assert [x.name for x in unsaved_of(viewer)] == ["regions"]
    save(viewer)
    file = tmp_path / "cells.shapes/regions.geojson"
    for number, feature in enumerate(json.loads(file.read_text())["features"]):
        geometry = feature["geometry"]
        line = geometry["coordinates"]
        if geometry["type"] == "Polygon":
            (line,) = line
            assert line[0] == line[-1]
        corner = layer.data[number][:, -2:].min(axis=0) + 0.5
        np.testing.assert_allclose(np.min(line, axis=0), corner[::-1], atol=1e-4)
        plane = geometry.get("plane", {})
        assert plane.get("z") == (round(leading[-1]) if leading else None)
        assert plane.get("t") == (leading[0] if len(leading) > 1 else None)
    again = opened(path, monkeypatch).layers["regions"]
    assert again.ndim == layer.ndim
    assert list(map(str, again.shape_type)) == [*FLAT]
    assert world(again) == world(layer)
    np.testing.assert_array_equal(again.edge_color, layer.edge_color)
    np.testing.assert_array_equal(again.face_color, layer.face_color)
    assert again.edge_width == WIDTHS
    assert again.features["area"].tolist() == [1, 2, 3, 4, 5]
    assert again.features["class"].fillna("").tolist() == ["a", "b", "", "a", "b"]


def test_shapes_in_other_voxels_look_the_same(user, tmp_path, monkeypatch):
    """Layers of scripts have scale 1, and may be turned."""
    path = tmp_path / "cells.ome.zarr"
    write_axes(path, pixels(1, (32, 32)), 3, "yx", planes=PLACES["yx"])
    viewer = opened(path, monkeypatch)
    layer = draw(viewer, scale=(1, 1), translate=(2, 1), rotate=30)
    save(viewer)
    viewer = opened(path, monkeypatch)
    again = viewer.layers["regions"]
    np.testing.assert_allclose(
        np.concatenate(world(again)), np.concatenate(world(layer)), atol=1e-3
    )
    assert list(map(str, again.shape_type)) == [*FLAT]
    scale = image_of(viewer).scale[-2:].min()
    np.testing.assert_allclose(np.multiply(again.edge_width, scale), WIDTHS)


@pytest.fixture
def viewer(user, tmp_path, monkeypatch):
    path = write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))
    viewer = opened(path, monkeypatch)
    draw(viewer)
    save(viewer)
    return opened(path, monkeypatch)


CHANGES = {
    "moved": lambda x: setattr(x, "data", [x.data[0] + 1, *x.data[1:]]),
    "added": lambda x: x.add_rectangles([[3, 3], [9, 9]]),
    "removed": lambda x: x.remove([1]),
    "painted": lambda x: setattr(x, "current_edge_color", "green"),
    "filled": lambda x: setattr(x, "current_face_color", "green"),
    "thicker": lambda x: setattr(x, "current_edge_width", 7),
    "sorted": lambda x: setattr(x, "features", {"class": list("zyxwv")}),
    "shifted": lambda x: setattr(x, "translate", x.translate + 3),
    "turned": lambda x: setattr(x, "affine", [[0, 1, 5], [-1, 0, 9], [0, 0, 1]]),
    "renamed": lambda x: setattr(x, "name", "tissue"),
}


@pytest.mark.default_cases("moved", "removed", "painted", "sorted", "renamed")
@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_unsaved_and_saved(viewer, monkeypatch, tmp_path, change):
    layer = viewer.layers["regions"]
    layer.selected_data = {2}
    CHANGES[change](layer)
    assert [x.name for x in unsaved_of(viewer)] == [layer.name]
    save(viewer)
    again = opened(tmp_path / "cells.ome.zarr", monkeypatch).layers[layer.name]
    np.testing.assert_allclose(
        np.concatenate(world(again)), np.concatenate(world(layer)), atol=1e-4
    )
    np.testing.assert_array_equal(again.edge_color, layer.edge_color)
    np.testing.assert_array_equal(again.face_color, layer.face_color)
    assert again.edge_width == layer.edge_width
    shown = [x.features["class"].fillna("").tolist() for x in (layer, again)]
    assert shown[0] == shown[1]
    file = tmp_path / f"cells.shapes/{layer.name}.geojson"
    assert [*file.parent.iterdir()] == [file]


def test_looking_at_shapes_is_no_change(viewer):
    layer = viewer.layers["regions"]
    for number in range(5):
        layer.selected_data = {number}
        layer.mode = ["select", "direct", "pan_zoom", "add_polygon", "transform"][
            number
        ]
    layer.selected_data = set()
    layer.current_edge_color, layer.current_edge_width = "yellow", 9
    layer.mode = "pan_zoom"
    layer.visible, layer.opacity = False, 0.2
    assert unsaved_of(viewer) == []
    layer.selected_data = {0, 3}
    layer.remove_selected()
    assert len(unsaved_of(viewer)) == 1


def test_what_others_know_of_a_shape_goes_with_it_alone(user, tmp_path, monkeypatch):
    path = write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))
    folder = tmp_path / "cells.shapes"
    folder.mkdir()
    ring = [[2, 2], [9, 3], [8, 9], [2, 2]]
    features = [
        {
            "type": "Feature",
            "id": f"id{number}",
            "geometry": {
                "type": "Polygon",
                "coordinates": [ring] * (1 + (number == 4)),
            },
            "properties": {"name": f"n{number}", "measurements": {"area": number}},
        }
        for number in range(5)
    ]
    document = {"type": "FeatureCollection", "crs": {"a": 1}, "features": features}
    file = folder / "theirs.geojson"
    file.write_text(json.dumps(document))
    viewer = opened(path, monkeypatch)
    layer = viewer.layers["theirs"]
    (text,) = user.told
    assert "1 feature of 'theirs' cannot be shapes" in text
    assert unsaved_of(viewer) == []
    layer.selected_data = {1}
    layer.remove_selected()
    layer.add_polygons(np.array([(1, 1), (5, 5), (9, 1)]))
    layer.remove([0])
    layer.add_rectangles([[1, 1], [5, 5]])
    save(viewer)
    found = json.loads(file.read_text())
    assert found["crs"] == {"a": 1}
    ids = [feature.get("id") for feature in found["features"]]
    assert ids == ["id2", "id3", None, None, "id4"]
    for feature in found["features"]:
        number = feature.get("id", "id9")[2:]
        known = {"area": int(number)} if number != "9" else None
        assert feature["properties"].get("measurements") == known
    assert found["features"][-1] == features[-1]
    # The file of no shapes stays, as others have something in it.
    layer.data = []
    save(viewer)
    assert [x["id"] for x in json.loads(file.read_text())["features"]] == ["id4"]


def test_what_another_program_has_changed_meanwhile_is_not_overwritten(
    user, viewer, tmp_path
):
    file = tmp_path / "cells.shapes/regions.geojson"
    theirs = file.read_text().replace('"area": 5', '"area": 55')
    file.write_text(theirs)
    layer = viewer.layers["regions"]
    layer.remove([0])
    (annotation,) = unsaved_of(viewer)
    annotation.save()
    assert "Another window or program has changed" in user.told[-1]
    assert file.read_text() == theirs
    layer.name = "mine"
    save(viewer)
    assert file.read_text() == theirs
    mine = json.loads(file.with_name("mine.geojson").read_text())
    assert len(mine["features"]) == 4


def test_a_file_that_cannot_be_read_is_named_and_stays(user, tmp_path, monkeypatch):
    path = write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))
    folder = tmp_path / "cells.shapes"
    folder.mkdir()
    texts = {"a": "{", "b": '{"type": "Point"}', "c": "\xff"}
    for name, text in texts.items():
        (folder / f"{name}.geojson").write_bytes(text.encode("latin-1"))
    viewer = opened(path, monkeypatch)
    assert not any(isinstance(layer, Shapes) for layer in viewer.layers)
    for name in texts:
        assert any(f"{name}.geojson" in told for told in user.told)
    draw(viewer).name = "a"
    (annotation,) = unsaved_of(viewer)
    annotation.save()
    assert (folder / "a.geojson").read_text() == "{"
    assert len(unsaved_of(viewer)) == 1
    result = convert(path, tmp_path / "b.ome.zarr")
    assert any("cells.shapes" in note for note in result.notes)
    annotation.leave(keep=False)
