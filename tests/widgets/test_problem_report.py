"""What a person copies into the report of a problem."""

import os
from importlib.metadata import version
from pathlib import Path

import numpy as np
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication, QMessageBox

from mouse import pump, until
from napari_ngff.cli import main


def test_the_menu_copies_what_is_installed(viewer, tmp_path):
    """All releases and nothing else: no folder, no user and no computer is named."""
    viewer.add_image(np.zeros((9, 9)))
    seen = []

    def press_copy():
        (box,) = (
            w for w in QApplication.topLevelWidgets() if isinstance(w, QMessageBox)
        )
        seen.append(box.text())
        box.buttons()[0].click()

    QTimer.singleShot(300, press_copy)
    menu = viewer.window.layers_menu
    for part in ("Metadata", "Report a problem… (OME-Zarr)"):
        (action,) = (a for a in menu.actions() if a.text().replace("&", "") == part)
        menu = action.menu()
    action.trigger()
    until(lambda: seen)
    pump(50)
    copied = QApplication.clipboard().text()
    assert copied in seen[0]
    for name in ("napari-ngff", "napari", "numpy", "zarr"):
        assert f"{name} {version(name)}" in copied.splitlines()
    for secret in (str(Path.home()), os.uname().nodename, str(tmp_path)):
        assert secret not in copied


def test_the_command_prints_the_same(capsys):
    assert main(["report"]) == 0
    assert f"napari-ngff {version('napari-ngff')}" in capsys.readouterr().out
