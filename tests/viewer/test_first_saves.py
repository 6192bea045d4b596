"""The first save into labels of others can be undone, whatever is shown by then."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.first_saves import offer_undo
from napari_ngff.viewer.saving import left_labels
from napari_ngff.viewer.session import session_of
from plates import write_plate


@pytest.fixture
def viewer():
    viewer = ViewerModel()
    yield viewer
    viewer.layers.clear()


PLACE = "labels/cells/0"


@pytest.fixture
def plates(tmp_path):
    """Two plates with fields and labels of the same names."""
    yield [
        write_plate(
            tmp_path / name / "p.ome.zarr",
            grid=(1, 2),
            fields=1,
            shape=(1, 16, 16),
            labelled=lambda _: ("cells",),
        )
        for name in "ab"
    ]
    left_labels._remove_all()
    notification_manager.records.clear()


def press_undo():
    """Press the newest button *Undo*; gives all messages after that."""
    buttons = [each for one in notification_manager.records for each in one.actions]
    [press for text, press in buttons if text == "Undo"][-1](None)
    return [str(x.message) for x in notification_manager.records]


def all_labels(root):
    return [
        zarr.open_array(root / well / "0" / PLACE, mode="r")[...]
        for well in ("A/1", "A/2")
    ]


@pytest.mark.parametrize(
    "meanwhile",
    ["nothing", "next field", "overview", "other plate", "same field of other plate"],
)
def test_the_strokes_are_undone_in_the_labels_that_were_saved(
    viewer, plates, meanwhile
):
    before = [all_labels(root) for root in plates]
    browser = session_of(viewer).browse(open_node(plates[0]))
    browser.show_field("A/1")
    layer = viewer.layers["cells"]
    layer.paint((3, 3), 99)
    assert layer.saver.save_now()
    notification_manager.records.clear()
    offer_undo(layer, 1)
    if meanwhile == "next field":
        browser.step_field(1)
    elif meanwhile == "overview":
        browser.show_mosaic()
    elif meanwhile != "nothing":
        browser.step_field(1)  # the labels of the first field are on screen no more
        other = session_of(viewer).browse(open_node(plates[1]))
        well = "A/1" if meanwhile.startswith("same") else "A/2"
        other.show_field(well)
        message = press_undo()[-1]
        assert message.startswith("Not undone.\nShow 'cells' of A1 - field 0 in p.ome")
        assert other.position.well == well, "nobody is led to a field of another plate"
        assert (all_labels(plates[0])[0] != before[0][0]).any()
        session_of(viewer).browse(open_node(plates[0])).show_mosaic()
    assert (
        press_undo()[-1] == "Undone.\nThe strokes in 'cells' of A1 - field 0 are gone."
    )
    np.testing.assert_array_equal([all_labels(root) for root in plates], before)


def test_a_field_that_cannot_be_shown_is_not_undone_later(viewer, plates):
    browser = session_of(viewer).browse(open_node(plates[0]))
    browser.show_field("A/1")
    layer = viewer.layers["cells"]
    layer.paint((3, 3), 99)
    assert layer.saver.save_now()
    offer_undo(layer, 1)
    browser.step_field(1)
    (plates[0] / "A/1/0/zarr.json").rename(plates[0] / "A/1/0/away")
    browser.resolver._ready.clear()
    browser.show_field("A/1")
    assert browser.position.well == "A/2"
    assert press_undo()[-1].startswith("Not undone.\nShow 'cells' of A1 - field 0")
    (plates[0] / "A/1/0/away").rename(plates[0] / "A/1/0/zarr.json")
    browser.forget_image("A/1/0")
    browser.show_field("A/1", "0")
    assert browser.position.well == "A/1"
    assert (all_labels(plates[0])[0] == 99).any()
