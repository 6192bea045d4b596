"""The 2D examples of RFC-5 with pixels, parameters and fields: all open, and every
pixel lands where an evaluation by numpy alone says, in every system.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from napari.layers import Layer
from scipy.ndimage import map_coordinates

from napari_ngff import open_node
from napari_ngff.metadata.model import Reference
from napari_ngff.store.hierarchy.coordinate_systems import open_systems
from napari_ngff.viewer import reader
from napari_ngff.viewer.layers.move_layers import (
    displayed_in,
    move_layers,
    shown_system,
)
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.plans.system_views import list_choices

ROOT = Path(__file__).parents[2]
CORPORA = Path(os.environ.get("NGFF_CORPORA", ROOT / "../shared/corpora"))
EXAMPLES = sorted((CORPORA / "rfc5-2d").glob("*/*.zarr"))

pytestmark = pytest.mark.skipif(
    not EXAMPLES, reason=f"no examples of RFC-5 at {CORPORA} (NGFF_CORPORA)"
)


@pytest.fixture
def messages(monkeypatch):
    reported = []
    monkeypatch.setattr(reader, "show_left_out", reported.extend)
    return reported


def fields(shape):
    """Smooth displacements, and coordinates that stretch and swirl."""
    y, x = np.mgrid[: shape[0], : shape[1]].astype(float)
    bend = np.stack([9 * np.sin(x / 90), 7 * np.cos(y / 70)], axis=-1)
    return {
        "displacementField": bend,
        "coordinatesField": np.stack([0.8 * y + 20, 0.9 * x + 11], axis=-1) + bend,
        "affineParams": np.array([[3, 0.4, 30], [0.3, 2, 20]]),
        "rotationParams": np.array([[0.6, 0.8], [-0.8, 0.6]]),
    }


def filled(source, target):
    """Copy an example and give its arrays content; returns the finest pixels."""
    folder = shutil.copytree(source, target / source.name)
    rng = np.random.default_rng(3)
    pixels = {}
    for path in sorted(folder.rglob("zarr.json")):
        document = json.loads(path.read_text())
        if document["node_type"] != "array":
            continue
        array = zarr.open_array(path.parent, mode="r+")
        made = fields((576, 720)).get(path.parent.name)
        if made is None:
            made = rng.integers(1, 256, array.shape, dtype=np.uint8)
            pixels[path.parent.name] = made
        array[...] = made
    (finest,) = [p for p in pixels.values() if p.shape == (576, 720)]
    return folder, finest


def evaluated(transformation, points, folder):  # noqa: C901 - one case per type
    """Apply a transformation of a JSON document; only these examples' spelling."""
    t = transformation
    stored = folder / t["path"] if "path" in t else None
    values = None if stored is None else zarr.open_array(stored, mode="r")[...]
    match t["type"]:
        case "identity":
            return points
        case "scale":
            return points * t["scale"]
        case "translation":
            return points + t["translation"]
        case "mapAxis":
            return points[:, t["mapAxis"]]
        case "sequence":
            for step in t["transformations"]:
                points = evaluated(step, points, folder)
            return points
        case "affine":
            rows = np.array(t["affine"] if values is None else values)
            return points @ rows[:, :-1].T + rows[:, -1]
        case "rotation":
            rows = np.array(t["rotation"] if values is None else values)
            return points @ rows.T
        case "byDimension":
            out = np.full(points.shape, np.nan)
            for part in t["transformations"]:
                made = evaluated(
                    part["transformation"], points[:, part["input_axes"]], folder
                )
                out[:, part["output_axes"]] = made
            return out
        case "displacements" | "coordinates":
            found = np.stack(
                [
                    map_coordinates(values[..., i], points.T, order=1, mode="nearest")
                    for i in (0, 1)
                ],
                axis=1,
            )
            return found + (points if t["type"] == "displacements" else 0)


def document_of(folder):
    multiscale = json.loads((folder / "zarr.json").read_text())
    return multiscale["attributes"]["ome"]["multiscales"][0]


def opened(folder):
    ((data, keywords, kind),) = reader.read_paths(str(folder))
    return Layer.create(data, keywords, kind)


def finest(layer):
    return np.asarray(layer.data[0] if layer.multiscale else layer.data)


def check_pixels(layer, pixels, worlds):
    """Every pixel, at its world coordinate, has its value."""
    back = layer._data_to_world.inverse(worlds)
    index = np.round(back).astype(int)
    np.testing.assert_allclose(back, index, atol=1e-6)
    shown = finest(layer)
    assert shown.size == pixels.size
    np.testing.assert_array_equal(shown[tuple(index.T)], pixels.ravel())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_pixel_in_every_system(example, tmp_path, messages):
    folder, pixels = filled(example, tmp_path)
    multiscale = document_of(folder)
    grid = np.argwhere(np.ones(pixels.shape)).astype(float)
    level = multiscale["datasets"][0]["coordinateTransformations"][0]
    systems = {level["output"]["name"]: evaluated(level, grid, folder)}
    bent = None
    for link in multiscale.get("coordinateTransformations", ()):
        start, end = link["input"]["name"], link["output"]["name"]
        if start in systems:
            systems[end] = evaluated(link, systems[start], folder)
        else:
            bent = link

    layer = opened(folder)
    assert messages == []
    origin = layer.metadata[KEY]
    graph = open_systems([open_node(folder)]).graph
    array = Reference(multiscale["datasets"][0]["path"])
    for name, worlds in systems.items():
        there = graph.way(array, Reference(name=name)).apply(grid)
        np.testing.assert_allclose(there, worlds, atol=1e-6)
        if name == "displaced":
            assert displayed_in(origin, Reference(name=name)) is None
            continue
        axes = next(s for s in multiscale["coordinateSystems"] if s["name"] == name)
        assert move_layers([layer], Reference(name=name)) == ()
        assert shown_system(layer.metadata[KEY]) == Reference(name=name)
        check_pixels(layer, pixels, worlds)
        assert list(layer.axis_labels) == [axis["name"] for axis in axes["axes"]]
    if bent is not None:
        check_bent(layer, folder, bent, pixels)


def check_bent(layer, folder, link, pixels):
    """An image that a field leads to is what the field takes from it."""
    assert move_layers([layer], Reference(name=link["input"]["name"])) == ()
    shown = finest(layer)
    index = np.argwhere(np.ones(shown.shape)).astype(float)
    worlds = layer._data_to_world(index)
    source = evaluated(link, worlds, folder)
    inside = ((source > -0.5) & (source < np.array(pixels.shape) - 0.5)).all(axis=1)
    wanted = map_coordinates(pixels.astype(float), source.T, order=1, mode="nearest")
    assert inside.mean() > 0.5
    found = shown.ravel().astype(float)
    np.testing.assert_allclose(found[inside], wanted[inside], atol=0.51)
    assert not found[~inside].any()
    # All of the image that the field reaches is there.
    low, high = worlds.min(axis=0), worlds.max(axis=0)
    everywhere = np.argwhere(np.ones((576, 720))).astype(float)
    reached = evaluated(link, everywhere, folder)
    reached = ((reached > 0) & (reached < np.array(pixels.shape) - 1)).all(axis=1)
    assert (everywhere[reached] >= low - 25).all()
    assert (everywhere[reached] <= high + 25).all()


def test_a_field_that_leads_away_leaves_the_image_where_it_is(tmp_path, messages):
    folder, pixels = filled(CORPORA / "rfc5-2d/nonlinear/displacements.zarr", tmp_path)
    layer = opened(folder)
    before = layer._data_to_world.set_slice([0, 1])
    assert move_layers([layer], Reference(name="displaced")) == (layer,)
    grid = np.argwhere(np.ones(pixels.shape))
    np.testing.assert_array_equal(before(grid), layer._data_to_world(grid))
    found = list_choices([layer.metadata[KEY].picture])
    assert list(found) == [Reference(name="physical")]


def test_the_choice_of_systems(tmp_path, messages):
    folder, _ = filled(CORPORA / "rfc5-2d/simple/rotation.zarr", tmp_path)
    layer = opened(folder)
    found = list_choices([layer.metadata[KEY].picture])
    assert found == {
        Reference(name="rotated"): (True,),
        Reference(name="physical"): (True,),
    }
