"""The guard in conftest.py tells a forgotten widget from one that is cared for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.long
def test_forgotten_widget_fails_its_test(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_widgets.py").write_text(TESTS)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "ignore", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support")},
    )
    assert "1 failed, 4 passed, 1 error" in result.stdout, result.stdout
    assert "ERROR test_widgets.py::test_forgets" in result.stdout
    assert "left behind: QWidget 'forgotten'" in result.stdout
