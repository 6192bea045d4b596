"""Each tool paints the plane that is drawn, wherever the planes of the labels lie.

With PLANES=N each walk visits more planes.
"""

from __future__ import annotations

import os
import random
import shutil

import numpy as np
import pytest
import zarr
from napari.utils.notifications import notification_manager

from mouse import RIGHT, click, drag, move, pump, until
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from plates import write_group, write_image, write_plate

SIZE = 64
VISITS = int(os.environ.get("PLANES", "5"))
STEPS = (0.3, 0.35, 1 / 3, 1.0, 2.5)
FIRST = (0.0, -3.1, 6.65, 1234.7)
LABEL = 7


def number_planes(shape):
    """Give each plane another value, from 1001 on."""
    count = int(np.prod(shape))
    planes = np.arange(1001, 1001 + count).reshape(*shape, 1, 1)
    return np.broadcast_to(planes, (*shape, SIZE, SIZE)).astype("u2")


def write_case(folder, chance, frames=()):
    """Write an image, and labels that begin and end elsewhere, or have other planes."""
    step, first = chance.choice(STEPS), chance.choice(FIRST)
    count = chance.randint(4, 30)
    if chance.random() < 0.3:  # the last plane first
        step = -step
    rows = chance.choice([(0.5, 0.0), (-0.5, 100.0), (0.25, -7.0)])
    factor = chance.choice([1, 1, 2, 3])
    half = chance.choice([0, (factor - 1) / 2])
    begin, end = chance.choice([(0, 0), (2, 0), (0, 2), (1, 1), (-2, -1)])
    label_count = max(1, (count - begin - end) // factor)
    label_planes = {
        "z": (step * factor, first + step * (begin + half)),
        "y": rows,
    }
    axes = "tzyx"[1 - len(frames) :]
    image = number_planes((*frames, count))
    write_image(folder, image, 3, axes, planes={"z": (step, first), "y": rows})
    write_group(folder / "labels", {"labels": ["cells"]}, 3)
    if chance.random() < 0.5 and frames:
        frames = (2,)
    labels = number_planes((*frames, label_count))
    write_image(folder / "labels/cells", labels, 3, axes, label={}, planes=label_planes)
    return image.shape[:-2]


class Painter:
    """A person who paints on the plane that is drawn."""

    def __init__(self, viewer, layer, chance):
        self.viewer, self.layer, self.chance = viewer, layer, chance
        viewer.layers.selection.active, layer.visible = layer, True
        viewer.reset_view(margin=0.1)
        pump(30)
        low, high = layer.extent.world[:, -2:]
        self.at = lambda y, x: tuple(low + (high - low) * (y, x))

    def visit(self, shape):
        """Move the sliders, mostly to a plane of the image, and look at a level."""
        dims = self.viewer.dims
        for axis in range(len(shape)):
            steps = dims.nsteps[axis]
            dims.set_current_step(axis, self.chance.choice([0, *range(steps)]))
        self.layer.locked_data_level = self.chance.choice([0, 1])
        pump(20)

    def brush(self):
        self.layer.mode = "paint"
        drag(self.viewer, [self.at(0.4, 0.3), self.at(0.4, 0.5), self.at(0.6, 0.5)])

    def eraser(self):
        self.layer.mode = "erase"
        drag(self.viewer, [self.at(0.4, 0.3), self.at(0.6, 0.5)])

    def bucket(self):
        self.layer.mode = "fill"
        click(self.viewer, self.at(0.5, 0.5))

    def polygon(self):
        self.layer.mode = "polygon"
        corners = [(0.3, 0.3), (0.3, 0.6), (0.6, 0.6)]
        for corner in corners:
            click(self.viewer, self.at(*corner))
        click(self.viewer, self.at(*corners[-1]), double=True)

    def ring(self):
        self.layer.mode = "paint"
        angles = np.linspace(0, 2 * np.pi, 12)
        ring = [self.at(0.5 + 0.2 * np.cos(a), 0.5 + 0.2 * np.sin(a)) for a in angles]
        click(self.viewer, ring[0], button=RIGHT)
        for point in ring[1:]:
            move(self.viewer, point)

    def picker(self):
        self.layer.mode = "pick"
        click(self.viewer, self.at(0.2, 0.8))

    def drawn(self):
        """What napari draws of the labels; None where it draws nothing."""
        piece = self.layer._slice
        return None if piece.empty else np.array(piece.image.raw)

    def leave_stroke(self, label):
        """Draw a stroke that stays; return its plane."""
        self.layer.locked_data_level = None
        self.layer.selected_label, self.layer.brush_size = label, 5
        self.layer.mode = "paint"
        click(self.viewer, self.at(0.1 + 0.15 * (label - 100), 0.1))
        return np.unique(np.argwhere(np.asarray(self.layer.data[0]) == label)[:, 0])

    def check(self, tool):
        """Use a tool, and compare what it changes with what is drawn."""
        layer = self.layer
        layer.selected_label, layer.brush_size = LABEL, 5
        before, seen = np.asarray(layer.data[0]), self.drawn()
        notification_manager.records.clear()
        getattr(self, tool)()
        after, what = np.asarray(layer.data[0]), (tool, self.viewer.dims.point)
        assert len(layer._overlays["polygon"].points) == 0, what
        changed = np.argwhere(before != after)
        if seen is None:
            assert not len(changed), what
            # Once, however often a polygon is clicked.
            (message,) = [record.message for record in notification_manager.records]
            assert "outside of the labels" in message, what
            assert layer.selected_label == LABEL, what
            return
        assert not notification_manager.records
        if tool == "picker":
            assert layer.selected_label == np.unique(seen).item(), what
            return
        planes = np.unique(changed[:, :-2], axis=0)
        assert len(planes) == 1, what
        plane = tuple(planes[0])
        assert (self.drawn() != seen).any(), (what, "the stroke is seen")
        level = layer.locked_data_level
        layer.locked_data_level = 0
        np.testing.assert_array_equal(self.drawn(), after[plane], str(what))
        layer.undo()
        np.testing.assert_array_equal(self.drawn(), before[plane], str(what))
        layer.locked_data_level = level


TOOLS = ("brush", "eraser", "bucket", "polygon", "ring", "picker")


@pytest.mark.default_cases("8")  # with the last plane first
@pytest.mark.parametrize("seed", range(12))
def test_strokes_land_in_the_plane_that_is_drawn(viewer, tmp_path, seed):
    chance = random.Random(seed)
    shape = write_case(tmp_path / "i.ome.zarr", chance, chance.choice([(), (3,)]))
    viewer.open(str(tmp_path / "i.ome.zarr"), plugin="napari-ngff")
    painter = Painter(viewer, viewer.layers["cells"], chance)
    for _ in range(VISITS):
        painter.visit(shape)
        for tool in chance.sample(TOOLS, 3):
            painter.check(tool)


@pytest.mark.default_cases("0")
@pytest.mark.parametrize("seed", range(4))
def test_strokes_land_in_the_plane_of_the_field_that_is_drawn(viewer, tmp_path, seed):
    chance, root = random.Random(seed), tmp_path / "p.ome.zarr"
    write_plate(root, grid=(1, 3), fields=1, shape=(1, SIZE, SIZE))
    wells, painted = ["A/1", "A/2", "A/3"], {}
    for well in wells:
        shutil.rmtree(root / well / "0")
        write_case(root / well / "0", chance)
    viewer.open(str(root), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    browser = session_of(viewer).browser
    for label, well in enumerate([*wells, *chance.choices(wells, k=2)], 100):
        browser.show_field(well)
        task, state = browser._task, browser.state
        until(lambda task=task, state=state: not (task._steps or state.wanted))
        assert browser.position.well == well
        (layer,) = (x for x in viewer.layers if hasattr(x, "canvas"))
        painter = Painter(viewer, layer, chance)
        painter.visit((1,))
        painter.check(chance.choice(TOOLS))
        if painter.drawn() is not None:
            painted[label] = well, painter.leave_stroke(label)
    browser.show_mosaic()
    until(lambda: browser.position is None and browser._task._steps is None)
    for label, (well, planes) in painted.items():
        assert len(planes) == 1
        for other in wells:
            stored = zarr.open_array(root / other / "0/labels/cells/0", mode="r")[...]
            found = np.unique(np.argwhere(stored == label)[:, 0])
            assert found.tolist() == (planes.tolist() if other == well else [])
