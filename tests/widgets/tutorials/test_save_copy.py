"""Tutorial: plain layers of napari are saved as a new file, and opened again."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QLineEdit

from napari_ngff.store.hierarchy.node import open_node
from person import Person, needs_pointer
from plates import SPACING, write_image

pytestmark = needs_pointer


@pytest.fixture(autouse=True)
def qt_dialogs():
    """Dialogs of Qt, which are the same on every desktop."""
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    yield
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs, False)


@pytest.mark.long
def test_layers_are_saved_and_opened_again(viewer, tmp_path):
    y, x = np.mgrid[:300, :400]
    pixels = (2000 + 1500 * np.sin(y / 20) * np.cos(x / 30)).astype("u2")
    waves = tmp_path / "waves.ome.zarr"
    write_image(waves, pixels, 3, axes="yx", levels=3, name="waves")
    painted = []

    def tutorial(person):
        person.drop(waves)
        person.layer("waves")
        painted.append(paint_in_memory(person))
        save(person, tmp_path)
        open_again(person)

    def open_again(person):
        person.remove_layers()
        person.drop(tmp_path / "copy.ozx")
        image, labels = person.layer("waves"), person.layer("waves - Labels")
        assert np.array_equal(np.asarray(image.data[0]), pixels)
        assert np.array_equal(np.asarray(labels.data[0]), painted[0])
        assert np.allclose(image.scale, SPACING)
        person.step("opened")

    Person(viewer, "save-copy").take(tutorial)
    stored = open_node(str(tmp_path / "copy.ozx"))
    assert [label.name for label in stored.labels().nodes] == ["waves - Labels"]
    assert not (waves / "labels").exists()


def paint_in_memory(person):
    """Paint on labels of napari's own button."""
    parts = person.viewer.window._qt_viewer
    person.click(parts.layerButtons.newLabelsButton)
    labels = person.layer("waves - Labels")
    person.click(lambda: parts.controls.widgets[labels].paint_button)
    low, high = labels.extent.world[:, -2:]
    person.draw([low + (high - low) * [0.5, part] for part in (0.3, 0.5, 0.7)])
    assert labels.data.any()
    return labels.data.copy()


def save(person, folder):
    person.select_all_layers()
    person.choose("File", "IO Utilities", "Save as… (OME-Zarr)")
    dialog = person.file_dialog()
    person.look(lambda: dialog.setDirectory(str(folder)))
    line = person.look(lambda: dialog.findChild(QLineEdit, "fileNameEdit"))
    person.click(line)
    person.press("ctrl+a")
    person.types("copy.ozx")
    person.step("name")
    person.press("Return")
    person.sees((folder / "copy.ozx").exists)
    person.sees(lambda: person.notices_now()[-1:] == ["Saved copy.ozx"])
    person.step("saved")
