"""A widget that outlives its test fails it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from qtpy.QtCore import QCoreApplication, QEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qtpy.QtWidgets import QApplication, QWidget


def surviving_widgets(qapp: QApplication, known: set[QWidget]) -> list[str]:
    """Describe the top-level widgets that are not in `known`, deleted ones aside."""
    # Qt deletes what `deleteLater` names only in a running event loop.
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    if set(qapp.topLevelWidgets()) - known:
        gc.collect()  # slow, and only a reference cycle needs it
    return [
        f"{type(widget).__name__} {widget.objectName() or widget.windowTitle()!r}"
        for widget in set(qapp.topLevelWidgets()) - known
    ]


@pytest.fixture(autouse=True)
def no_widget_survives(
    request: pytest.FixtureRequest, qapp: QApplication
) -> Iterator[None]:
    """Fail a test that leaves top-level widgets behind, unless it failed already."""
    known = set(qapp.topLevelWidgets())
    failed = request.session.testsfailed
    yield
    survivors = surviving_widgets(qapp, known)
    if survivors and request.session.testsfailed == failed:
        pytest.fail(
            f"left behind: {', '.join(survivors)}. The usual culprit is a widget made "
            "without a parent and without qtbot.addWidget, or a signal, lambda or "
            "timer that still holds one."
        )
