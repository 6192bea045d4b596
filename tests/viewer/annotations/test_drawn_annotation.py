"""What is drawn stays on its pixels, wherever its image is shown."""

from __future__ import annotations

import numpy as np
import pytest

from napari_ngff.metadata.model import Reference
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from recovering import opened
from scenes import NM, end, image, link, numbered, system

SHAPES = {2: (32, 40), 3: (5, 32, 40)}
PIXELS = [[3, 5], [20, 9], [11, 30]]
TURN = np.array([[0.8, 0.6, 3.0], [-0.6, 0.8, 90.0], [0, 0, 1]])
SIZE = [4, 6]


@pytest.fixture(params=["yx", "zyx"])
def path(request, tmp_path):
    """An image of pixels that are no squares, in several coordinate systems."""
    names, count = request.param, len(request.param)
    turn = np.eye(count + 1)
    turn[-3:, -3:] = TURN
    start, ways = end("physical"), [*range(count)]
    links = [
        link(start, end("nano"), type="scale", scale=[1000] * count),
        link(start, end("turned"), type="affine", affine=turn[:-1].tolist()),
        link(
            start, end("swapped"), type="mapAxis", mapAxis=[*ways[:-2], *ways[:-3:-1]]
        ),
        link(start, end("rolled"), type="mapAxis", mapAxis=[*ways[1:], 0]),
    ]
    systems = [
        system("nano", names, NM),
        system("turned", names),
        system("swapped", "cba"[-count:]),
        system("rolled", "cba"[-count:]),
    ]
    folder = tmp_path / f"in-{names}" / "cells.ome.zarr"
    scale, move = [2.0, 0.5, 0.25], [9.0, 7.0, -3.0]
    pixels = numbered(*SHAPES[count])
    where = {"scale": scale[-count:], "move": move[-count:]}
    image(folder, names, pixels, systems=systems, links=links, **where)
    return folder


def image_of(viewer):
    return next(x for x in viewer.layers if x._type_string == "image")


def seen_at(image, pixel):
    """Where a pixel is seen, which is found by its value."""
    shape = SHAPES[image.ndim]
    plane = [2] * (image.ndim - 2)
    value = np.ravel_multi_index([*plane, *pixel], shape) + 1
    (voxel,) = np.argwhere(np.asarray(image.data) == value)
    return np.asarray(image.data_to_world(voxel))


def corners_at(image, pixel):
    ends = [[0, 0], [0, SIZE[1]], SIZE, [SIZE[0], 0]]
    return np.array([seen_at(image, np.add(pixel, end)) for end in ends])


def draw(viewer, kind, layer, pixel):
    """Draw on a pixel, or a box from there, where it is seen now."""
    image = image_of(viewer)
    places = corners_at(image, pixel)
    if kind == "points":
        places = places[:1]
    if layer is None and kind == "points":
        return viewer.add_points(places, name="drawn")
    if layer is None and kind == "shapes":
        return viewer.add_shapes([places], shape_type="polygon", name="drawn")
    if layer is None:
        regions = session_of(viewer).regions
        regions.choose("drawn", is_new=True)
        layer = regions.drawn.layer
    data = [layer.world_to_data(place[-layer.ndim :]) for place in places]
    kinds = {"shapes": "polygon", "regions": "rectangle"}
    how = {} if kind == "points" else {"shape_type": kinds[kind]}
    layer.add(np.array(data), **how)
    return layer


def check(viewer, pixels=PIXELS):
    """All that is drawn is seen on its pixels."""
    image, layer = image_of(viewer), viewer.layers["drawn"]
    assert len(layer.data) == len(pixels)
    for pixel, drawn in zip(pixels, layer.data, strict=True):
        seen = np.array([layer.data_to_world(x) for x in np.atleast_2d(drawn)])
        wanted = corners_at(image, pixel)[: len(seen), -layer.ndim :]
        apart = np.abs(seen[:, None] - wanted).max(axis=2)
        assert apart.min(axis=0).max() < 1e-3 * np.abs(wanted).max()


def save(viewer):
    for annotation in session_of(viewer).annotations.list_savable():
        annotation.save()
    assert session_of(viewer).annotations.list_savable() == []


def reopened(path, monkeypatch, kind):
    viewer = opened(path, monkeypatch)
    if kind == "regions":
        session_of(viewer).regions.choose("drawn")
    return viewer


KINDS = ["points", "shapes", "regions"]


@pytest.mark.default_cases(
    "yx-systems0-points", "yx-systems0-regions", "zyx-systems1-shapes"
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "systems",
    [
        ("physical", "nano", "turned"),
        ("swapped", "turned", "physical"),
    ],
)
def test_it_stays_on_its_pixels_in_every_system(user, path, monkeypatch, kind, systems):
    viewer = opened(path, monkeypatch)
    session, layer = session_of(viewer), None
    for pixel, name in zip(PIXELS, systems, strict=True):
        assert session.show_system(Reference("", name)) == ()
        assert session.annotations.list_savable() == []
        layer = draw(viewer, kind, layer, pixel)
        save(viewer)
    check(viewer)
    viewer = reopened(path, monkeypatch, kind)
    check(viewer)
    session_of(viewer).show_system(Reference("", systems[1]))
    check(viewer)
    layer = viewer.layers["drawn"]
    assert layer.units == image_of(viewer).units[-layer.ndim :]
    assert session_of(viewer).annotations.list_savable() == []


@pytest.mark.parametrize("path", ["zyx"], indirect=True)
@pytest.mark.parametrize("kind", ["points", "shapes"])
def test_what_napari_slices_along_other_axes_is_named(user, path, monkeypatch, kind):
    viewer = opened(path, monkeypatch)
    session = session_of(viewer)
    rolled, physical = Reference("", "rolled"), Reference("", "physical")
    session.show_system(rolled)
    draw(viewer, kind, None, PIXELS[0])
    save(viewer)
    check(viewer, PIXELS[:1])
    viewer = reopened(path, monkeypatch, kind)
    check(viewer, PIXELS[:1])
    session = session_of(viewer)
    assert session.show_system(rolled) == ("drawn",)
    assert session.show_system(physical) == ()
    draw(viewer, kind, viewer.layers["drawn"], PIXELS[1])
    save(viewer)
    check(reopened(path, monkeypatch, kind), PIXELS[:2])


def move_by_hand(viewer):
    Window.current.has_workers = True  # what comes soon comes at once
    image_of(viewer).affine = turn_of(image_of(viewer))
    Window.current.has_workers = False


def turn_of(image):
    turn = np.eye(image.ndim + 1)
    turn[-3:, -3:] = TURN
    return turn


def move_all(viewer, layers, *, relative):
    """As a script moves layers."""
    for layer in layers:
        before = layer.affine.affine_matrix if relative else np.eye(layer.ndim + 1)
        layer.affine = turn_of(layer) @ before


MOVES = {
    "by hand": move_by_hand,
    "all": lambda x: move_all(x, x.layers, relative=False),
    "all by a step": lambda x: move_all(x, x.layers, relative=True),
    "all, topmost first": lambda x: move_all(x, [*x.layers][::-1], relative=True),
    "the image alone": lambda x: move_all(x, x.layers[:1], relative=True),
}


@pytest.mark.default_cases(
    "by hand-points-yx",
    "all-shapes-yx",
    "all by a step-regions-yx",
    "all, topmost first-points-yx",
    "the image alone-points-yx",
)
@pytest.mark.parametrize("path", ["yx"], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("move", [*MOVES])
def test_it_stays_on_its_pixels_where_its_image_is_moved(
    user, path, monkeypatch, kind, move
):
    viewer = opened(path, monkeypatch)
    layer = draw(viewer, kind, None, PIXELS[0])
    MOVES[move](viewer)
    for each in session_of(viewer).annotations:
        each.follow_image()  # as an instant later
    check(viewer, PIXELS[:1])
    draw(viewer, kind, layer, PIXELS[1])
    save(viewer)
    check(reopened(path, monkeypatch, kind), PIXELS[:2])
    draw(viewer, kind, layer, PIXELS[2])
    session_of(viewer).save_transform(image_of(viewer), "aligned")
    check(viewer)
    save(viewer)
    check(reopened(path, monkeypatch, kind))
