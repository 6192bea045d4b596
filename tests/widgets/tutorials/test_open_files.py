"""Tutorial: single files and folders are opened and looked at; nothing is written."""

from __future__ import annotations

import pytest
from napari._qt.dialogs.qt_reader_dialog import QtReaderDialog
from napari.layers import Labels
from qtpy.QtWidgets import QApplication, QRadioButton

from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from person import Person, needs_pointer

pytestmark = needs_pointer

CHANNELS = ["Cells: DNA", "Cells: Actin", "Cells: Mitochondria"]


def dialog_of(kind):
    """Give the dialog that waits for an answer, if it is of a kind."""
    dialog = QApplication.activeModalWidget()
    return dialog if isinstance(dialog, kind) else None


def files_below(folder):
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
    }


def shown_share(viewer):
    """Give the part of the height or width of the canvas that the layers fill."""
    low, high = viewer.layers.extent.world[:, -2:]
    sizes = zip(high - low, viewer.canvas.size, strict=True)
    return max(size * viewer.scene.camera.zoom / room for size, room in sizes)


@pytest.mark.long
def test_files_and_folders_are_opened_and_looked_at(viewer, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    single = write_image(files / "film.ozx", shape=(3, 256, 384))
    for number, name in enumerate(("control.ome.zarr", "treated.ome.zarr")):
        write_image(files / "images" / name, shape=(256, 384), seed=number + 2)
    before = files_below(files)

    def tutorial(person):
        person.drop(single)
        person.layer("nuclei")
        person.sees(lambda: [layer.name for layer in viewer.layers[:3]] == CHANNELS)
        person.sees(lambda: shown_share(viewer) > 0.85)
        assert viewer.dims.axis_labels == ("t", "y", "x")
        assert person.notices() == []
        person.step("dropped")

        person.choose("View", "Scale Bar", "Toggle Scale Bar")
        person.sees(lambda: viewer.canvas.overlays.scale_bar.visible)
        low, high = viewer.layers.extent.world[:, -2:]
        person.wheel((low + high) / 2, 4)
        person.sees(lambda: shown_share(viewer) > 1.2)
        person.step("closer")

        person.drop(files / "images")
        asked = person.sees(lambda: dialog_of(QtReaderDialog))
        assert asked.findChild(QRadioButton).text() == "OME-Zarr"
        person.step("reader")
        person.click_button("OK")
        dock = person.sees(lambda: browser_of(viewer))
        browser = person.sees(lambda: session_of(viewer).browser)
        person.sees(lambda: browser.position == Position(None, "control.ome.zarr"))
        person.rest(0.5)
        person.step("folder")

        listed = dock.images.list
        row = listed.visualItemRect(listed.item(1))
        person.click(listed.viewport(), row.center())
        person.sees(lambda: browser.position == Position(None, "treated.ome.zarr"))
        person.rest(0.5)
        person.step("next-image")
        owned = [layer for layer in viewer.layers if browser.layers.owns_layer(layer)]
        assert len([x for x in owned if not isinstance(x, Labels)]) == 3

    Person(viewer, "open-files").take(tutorial)
    assert files_below(files) == before
