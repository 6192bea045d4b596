"""Scenes of several images with labels in a window: where marked pixels are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Labels

from mouse import camera, on_canvas, pump
from napari_ngff.metadata.model import Reference
from napari_ngff.viewer.session import session_of
from scenes import (
    NM,
    channel_scene,
    end,
    image,
    labelled,
    link,
    registered_scene,
    scene,
    system,
)

MARKS = ((1, 2), (9, 4), (6, 11))
SIDES = (12, 14)


def marked(marks=MARKS, shape=SIDES, value=255):
    pixels = np.zeros(shape, "u1")
    for at in marks:
        pixels[at] = value
    return pixels


def both(folder, name, **keywords):
    """An image and labels of its own, both with the same marks."""
    image(folder / name, "yx", marked(), **keywords)
    ids = marked(value=7)
    labelled(folder / name, {f"cells of {name}": ("yx", ids, keywords)})
    return name, f"cells of {name}"


def stitched(folder):
    places = {"a": (0, 0), "b": (0, 28), "c": (12, 0)}
    links = [
        link(end("physical", name), end("world"), type="translation", translation=at)
        for name, at in places.items()
    ]
    scene(folder, links, [system("world", "yx")])
    found = {}
    for name, (y, x) in places.items():
        for layer in both(folder, name, scale=[1, 2]):
            found[layer] = [(y + i, x + 2 * j) for i, j in MARKS]
    return found, 2


def nanometres(folder):
    scene(
        folder,
        [
            link(end("physical", "wide"), end("world"), type="identity"),
            link(
                end("physical", "small"),
                end("world"),
                type="sequence",
                transformations=[
                    {"type": "scale", "scale": [0.001, 0.001]},
                    {"type": "translation", "translation": [3, 4]},
                ],
            ),
        ],
        [system("world", "yx")],
    )
    found = {
        layer: [(i, j) for i, j in MARKS]
        for layer in both(folder, "wide", scale=[1, 1])
    }
    for layer in both(folder, "small", scale=[400, 400], unit=NM):
        found[layer] = [(3 + 0.4 * i, 4 + 0.4 * j) for i, j in MARKS]
    return found, 1


def several_hops(folder):
    # world <- a ; b -> a, turned by 90 degrees and twice as large ; c -> b backwards.
    to_a = {"type": "affine", "affine": [[0, 2, 5], [-2, 0, 40]]}
    to_c = {"type": "scale", "scale": [2, 0.5]}
    back = {"type": "translation", "translation": [-3, -5]}
    scene(
        folder,
        [
            link(end("world"), end("physical", "a"), **back),
            link(end("physical", "b"), end("physical", "a"), **to_a),
            link(end("physical", "b"), end("physical", "c"), **to_c),
        ],
        [system("world", "yx")],
    )
    found = {}
    for layer in both(folder, "a"):
        found[layer] = [(i + 3, j + 5) for i, j in MARKS]
    for layer in both(folder, "b"):
        found[layer] = [(2 * j + 5 + 3, -2 * i + 40 + 5) for i, j in MARKS]
    for layer in both(folder, "c"):
        found[layer] = [(2 * (j / 0.5) + 8, -2 * (i / 2) + 45) for i, j in MARKS]
    return found, 4


def turned(folder):
    cos, sin = np.cos(0.5), np.sin(0.5)
    turn = {"type": "rotation", "rotation": [[cos, -sin], [sin, cos]]}
    scene(
        folder,
        [
            link(end("physical", "straight"), end("world"), type="identity"),
            link(end("physical", "turned"), end("world"), **turn),
        ],
        [system("world", "yx")],
    )
    found = {layer: list(MARKS) for layer in both(folder, "straight")}
    for layer in both(folder, "turned"):
        found[layer] = [(cos * i - sin * j, sin * i + cos * j) for i, j in MARKS]
    return found, 1


def channels(folder):
    channel_scene(folder)
    others = ((3, 3), (10, 12), (0, 0))
    image(folder / "multi", "cyx", np.stack([marked(), marked(others)]))
    both(folder, "single")
    return {
        "multi: channel 0": list(MARKS),
        "multi: channel 1": list(others),
        "single": list(MARKS),
        "cells of single": list(MARKS),
    }, 1


def registered(folder):
    registered_scene(folder)
    even = ((8, 10), (20, 14), (18, 34))
    image(folder / "a", "yx", marked(shape=(40, 40)))
    image(folder / "b", "yx", marked(even, (40, 40)))
    labelled(folder / "b", {"cells": ("yx", marked(even, (40, 40), 7), {})})
    in_a = [(i / 2 - 3, j / 2 - 3) for i, j in even]
    return {"a": list(MARKS), "b": in_a, "cells": in_a}, 2


def opened(viewer, folder):
    viewer.window.resize(1400, 900)
    viewer.open(str(folder), plugin="napari-ngff")
    pump(300)  # the browser of the scene takes its place
    layers = {layer.name: layer for layer in viewer.layers}
    for layer in viewer.layers:
        if not isinstance(layer, Labels):
            layer.contrast_limits = 0, 255
            layer.colormap = "gray"
    viewer.reset_view()
    pump(200)
    return layers


def check_points(layer, worlds):
    """The layer's transforms put its marks there, and nothing else."""
    data = np.asarray(layer.data[0] if layer.multiscale else layer.data)
    index = np.argwhere(data)
    assert len(index) == len(worlds)
    there = layer._data_to_world(index)
    order = np.lexsort(np.round(there, 6).T)
    worlds = np.array(worlds, float)
    wanted = worlds[np.lexsort(np.round(worlds, 6).T)]
    np.testing.assert_allclose(there[order], wanted, atol=1e-6)


def check_picture(viewer, layer, worlds, size):
    """The window shows the marks there, and nothing elsewhere."""
    for other in viewer.layers:
        other.visible = other is layer
    layer.opacity = 1
    pump(150)
    picture = viewer.screenshot(canvas_only=True, flash=False)[..., :3].max(axis=-1)
    ratio = picture.shape[1] / viewer.window._qt_viewer.canvas.native.width()
    places = [on_canvas(viewer, world) for world in worlds]
    places = np.array([(p.y(), p.x()) for p in places]) * ratio
    bright = picture > 60
    for y, x in np.round(places).astype(int):
        assert bright[y - 1 : y + 2, x - 1 : x + 2].all(), layer.name
    reach = size * camera(viewer).zoom * ratio / np.sqrt(2) + 2
    away = np.linalg.norm(np.argwhere(bright)[:, None] - places, axis=-1)
    assert away.min(axis=1).max() < reach, layer.name


@pytest.mark.default_cases("several_hops")
@pytest.mark.parametrize(
    "build", [stitched, nanometres, several_hops, turned, channels, registered]
)
def test_marks_are_drawn_where_they_belong(viewer, tmp_path, build):
    found, size = build(tmp_path / "scene.ome.zarr")
    layers = opened(viewer, tmp_path / "scene.ome.zarr")
    assert set(layers) == set(found)
    for name, worlds in found.items():
        check_points(layers[name], worlds)
        check_picture(viewer, layers[name], worlds, size)


@pytest.mark.long
def test_marks_move_with_the_system_that_is_chosen(viewer, tmp_path):
    found, _ = registered(tmp_path / "scene.ome.zarr")
    layers = opened(viewer, tmp_path / "scene.ome.zarr")
    assert session_of(viewer).show_system(Reference("b", "physical")) == ()
    pump(200)
    layers = {layer.name: layer for layer in viewer.layers}
    for name, worlds in found.items():
        moved = [(2 * (y + 3), 2 * (x + 3)) for y, x in worlds]
        if name != "a":  # that one is interpolated: four pixels for each
            check_points(layers[name], moved)
        check_picture(viewer, layers[name], moved, 4)
