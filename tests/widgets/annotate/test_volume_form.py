"""A region in 3D, chosen and shown in a real window."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import pump, until
from napari_ngff import plugin
from napari_ngff.viewer.bridge import view_volume
from napari_ngff.viewer.bridge.handover import hand_over
from napari_ngff.viewer.layers.volume_layers import is_volume
from napari_ngff.viewer.samples import write_stack
from napari_ngff.viewer.streaming.prepared_volume import TextureBudget
from napari_ngff.widgets.annotate.region_form import VolumeForm, show_volume_form


@pytest.fixture
def page(viewer, tmp_path):
    viewer.open(str(write_stack(tmp_path / "stack.ome.zarr")), plugin="napari-ngff")
    pump(300)
    plugin.view_region(viewer)
    pump(300)
    form = show_volume_form(viewer)
    assert form.isVisible()
    return form


def choose(box, number):
    """Choose by the keys, as a person who has no mouse."""
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Home)
    for _ in range(number):
        QTest.keyClick(box, Qt.Key.Key_Down)
    pump()


def test_the_report_ends_with_the_volume(qtbot):
    viewer = ViewerModel()
    pixels = np.zeros((4, 16, 16), "u1")
    levels = [pixels, pixels[:, ::2, ::2]]
    layer = viewer.add_image(levels, multiscale=True, name="dapi")
    page = VolumeForm(viewer)
    qtbot.addWidget(page)
    region = ((0, 4), (0, 16), (0, 16))
    page._show_volume(hand_over([layer], region, 0).read_region())
    assert viewer.status == "1 layer is shown in 3D. Return to 2D to go back."


@pytest.mark.long
def test_a_region_is_chosen_and_shown_in_3d(viewer, page):
    lazy = [one for one in viewer.layers if one.visible]
    choose(page.form.region, 3)
    choose(page.form.level, 0)
    fine = page.form.memory.text()
    choose(page.form.level, 1)
    assert page.form.level.currentIndex() == 1
    assert "of memory" in fine
    assert page.form.memory.text() != fine
    page.button.setFocus()
    QTest.keyClick(page.button, Qt.Key.Key_Space)
    until(lambda: any(map(is_volume, viewer.layers)))
    pump(300)
    assert viewer.dims.ndisplay == 3
    shown = [one for one in viewer.layers if is_volume(one)]
    images = [one for one in shown if isinstance(one, Image)]
    assert images
    for image in images:
        source = next(one for one in lazy if image.name.startswith(one.name))
        assert image.data.shape == source.data[1].shape[-3:]
        np.testing.assert_array_equal(
            image.data, np.asarray(source.data[1]).reshape(image.data.shape)
        )
    picture = viewer.screenshot(flash=False)[..., :3]
    assert (picture.max(axis=-1) > 60).mean() > 0.02, "something is seen"
    viewer.dims.ndisplay = 2
    pump(100)
    assert all(one.visible for one in lazy)


@pytest.mark.long
def test_what_is_too_large_cannot_be_pressed(viewer, page, monkeypatch):
    limit = TextureBudget(1000, 2048)
    monkeypatch.setattr(view_volume, "budget_of", lambda _: limit)
    choose(page.form.region, 3)
    assert not page.button.isEnabled()
    assert "Choose a coarser level" in page.form.memory.text()
    monkeypatch.undo()
    choose(page.form.region, 0)
    assert page.button.isEnabled()
