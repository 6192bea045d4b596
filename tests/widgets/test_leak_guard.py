"""The guard in conftest.py tells forgotten widgets; its patches stay in a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from napari_ngff.plugin import use_workers
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming import pixel_fetcher

AROUND = """
import pytest

@pytest.fixture
def around(monkeypatch):
    return monkeypatch
"""

TESTS = """
import pytest
from qtpy.QtWidgets import QWidget

kept = []

def test_deletes_later(qapp):
    QWidget().deleteLater()

def test_gives_to_qtbot(qtbot):
    qtbot.addWidget(QWidget())

def test_cycle():
    widget = QWidget()
    widget.itself = widget

def test_fails_itself():
    kept.append(QWidget())
    raise AssertionError

def test_forgets():
    kept.append(QWidget(objectName="forgotten"))
"""


def test_a_test_that_undoes_its_patches_keeps_its_window(viewer, monkeypatch):
    """Else a save would call the controls of labels in a worker."""
    use_workers()
    window, wait = Window.current, pixel_fetcher.WAIT
    monkeypatch.undo()
    assert Window.current is window
    assert wait == pixel_fetcher.WAIT


@pytest.mark.long
def test_forgotten_widget_fails_its_test(tmp_path: Path) -> None:
    folder = tmp_path / "widgets"
    folder.mkdir()
    (tmp_path / "conftest.py").write_text(AROUND)
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_widgets.py").write_text(TESTS)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "ignore", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support")},
    )
    assert "1 failed, 4 passed, 1 error" in result.stdout, result.stdout
    assert "ERROR widgets/test_widgets.py::test_forgets" in result.stdout
    assert "left behind: QWidget 'forgotten'" in result.stdout
