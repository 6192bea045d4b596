"""Every plane of every field can be reached, wherever the person came from."""

from __future__ import annotations

import json
import random
import shutil

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff import read_layers
from napari_ngff.store.hierarchy.image_folder import find_images
from napari_ngff.viewer.session import session_of
from plates import write_group, write_image, write_plate

COUNT = 4
STEPS = (0.3, 0.35, 1 / 3, 1.0, 2.5, -0.3, -1.0)
"""Distances of planes; the file may count them downwards."""

FIRST = (0.0, 0.0, -3.1, 7.2)
"""Places of the first plane."""


def any_stack(chance):
    """Draw the number of planes, their distance, and the place of the first."""
    return chance.randint(1, 6), chance.choice(STEPS), chance.choice(FIRST)


def write_stack(folder, number, stack, axis, labels=("cells",)):
    """Write an image whose pixels name the field and the plane."""
    count, step, first = stack
    data = np.broadcast_to(
        100 * (number + 1) + np.arange(count)[:, None, None], (count, 16, 16)
    )
    shutil.rmtree(folder, ignore_errors=True)
    write_image(
        folder, data.astype("u2"), 3, f"{axis}yx", labels=labels,
        planes={axis: (step, first)},
    )  # fmt: skip


def write_wells(root, stacks, axis):
    write_plate(root, grid=(1, COUNT), fields=1, shape=(1, 16, 16))
    places = [(f"A/{number + 1}", "0") for number in range(COUNT)]
    for number, (well, field) in enumerate(places):
        write_stack(root / well / field, number, stacks[number], axis)
    return places


def write_well(root, stacks, axis):
    write_plate(root, grid=(1, 1), fields=COUNT, shape=(1, 16, 16))
    for number in range(COUNT):
        write_stack(root / f"A/1/{number}", number, stacks[number], axis)
    return [("A/1", str(number)) for number in range(COUNT)]


def write_images(root, stacks, axis):
    ome = {"version": "0.5", "bioformats2raw.layout": 3}
    write_group(root, {}, 3)
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    (root / "zarr.json").write_text(json.dumps(document))
    for number in range(COUNT):
        write_stack(root / str(number), number, stacks[number], axis)
    return [(None, str(number)) for number in range(COUNT)]


def write_folder(root, stacks, axis):
    root.mkdir()
    for number in range(COUNT):
        write_stack(root / f"{number}.ome.zarr", number, stacks[number], axis)
    return [(None, f"{number}.ome.zarr") for number in range(COUNT)]


WRITERS = {
    "wells": write_wells,
    "fields": write_well,
    "images": write_images,
    "folder": write_folder,
}


def planes_of(viewer, image):
    """Return the planes of an image that its slider shows, one after another."""
    here, seen = viewer.dims.point, []
    for step in range(viewer.dims.nsteps[0]):
        viewer.dims.set_current_step(0, step)
        if not image._slice.empty:
            seen += np.unique(np.asarray(image._slice.image.raw)).tolist()
    viewer.dims.point = here
    return seen


@pytest.mark.default_cases("wells-0", "fields-1", "images-2", "folder-0")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", WRITERS)
def test_every_plane_of_every_field_is_reached(tmp_path, kind, seed):
    chance = random.Random(f"{kind} {seed}")
    axis = chance.choice("zt")
    fields = [any_stack(chance) for _ in range(COUNT)]
    places = WRITERS[kind](tmp_path / "p", fields, axis)
    viewer = ViewerModel()
    browser = session_of(viewer).browse(find_images(str(tmp_path / "p")))
    for number in chance.choices(range(COUNT + 1), k=8):
        if number == COUNT:  # an overview, or a comparison where there is none
            if kind in ("wells", "fields"):
                browser.show_mosaic()
            elif browser.position is not None:
                browser.toggle_pin(*places[0])
            continue
        browser.show_field(*places[number])
        seen = planes_of(viewer, browser.layers.image_layers()[0])
        wanted = [100 * (number + 1) + plane for plane in range(fields[number][0])]
        assert sorted(set(seen)) == wanted


@pytest.mark.default_cases("wells", "images")
@pytest.mark.parametrize("kind", WRITERS)
def test_the_slider_returns_to_its_plane_after_shallower_fields(tmp_path, kind):
    fields = [(9, 0.35, 0.0), (4, 0.35, 40.0), (1, 2.0, -3.1), (9, -0.35, 60.0)]
    places = WRITERS[kind](tmp_path / "p", fields, "z")
    viewer = ViewerModel()
    browser = session_of(viewer).browse(find_images(str(tmp_path / "p")))

    def shown_depth(number):
        browser.show_field(*places[number])
        (image, *_), (at, *_) = browser.layers.image_layers(), viewer.dims.point
        return at - image.extent.world[0][0]

    shown_depth(0)
    viewer.dims.set_current_step(0, 7)
    walk = [(1, 3), (0, 7), (2, 0), (3, 7), (1, 3), (3, 7)]
    for number, plane in walk:
        assert shown_depth(number) == pytest.approx(0.35 * plane), number
    shown_depth(1)
    viewer.dims.set_current_step(0, 2)
    assert shown_depth(0) == pytest.approx(0.35 * 2), "where the user put it last"


def test_the_slider_stays_in_an_overview_and_after_it(tmp_path):
    fields = [(9, 2.0, 0.0), (4, 2.0, 0.0), (1, 2.0, 0.0), (9, 2.0, 0.0)]
    places = write_wells(tmp_path / "p", fields, "z")
    viewer = ViewerModel()
    browser = session_of(viewer).browse(find_images(str(tmp_path / "p")))
    browser.show_field(*places[0])
    viewer.dims.set_current_step(0, 7)
    for number in (1, None, 2, None, 3):
        if number is None:
            browser.show_mosaic()
        else:
            browser.show_field(*places[number])
        wanted = 14 if number is None else min(14, 2 * fields[number][0] - 2)
        assert viewer.dims.point[0] == wanted, number


@pytest.mark.default_cases("-0.3")
@pytest.mark.parametrize("step", STEPS)
def test_the_last_plane_of_an_opened_image_is_reached(tmp_path, step):
    for first in (0.0, -3.1, 6.65, 1234.7):
        for count in (2, 3, 7):
            write_stack(tmp_path / "i", 0, (count, step, first), "z", labels=())
            viewer = ViewerModel()
            session_of(viewer)
            (image,) = map(viewer.add_layer, read_layers(tmp_path / "i"))
            assert sorted(planes_of(viewer, image)) == [*range(100, 100 + count)]
