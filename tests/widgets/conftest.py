"""A real window for the tests; a widget or worker that outlives its test fails it."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from qtpy.QtCore import QCoreApplication, QEvent, Qt, QThreadPool
from qtpy.QtTest import QTest

from patience import PATIENCE
from threads import WorkerWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from threading import Thread

    from qtpy.QtWidgets import QApplication, QWidget

HAS_DISPLAY = not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY"))


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


@pytest.fixture(scope="session")
def worker_watch() -> Iterator[WorkerWatch]:
    """Watch what workers call."""
    yield from WorkerWatch.watching()


@pytest.fixture(autouse=True)
def no_worker_touches_a_widget(worker_watch: WorkerWatch) -> Iterator[None]:
    """Fail a test in which a worker calls a widget: some day it crashes there."""
    worker_watch.found.clear()
    yield
    assert not worker_watch.found, "In a worker: " + "; ".join(worker_watch.found[:5])


@pytest.fixture(autouse=True)
def thumbnails_elsewhere(tmp_path: Path, around: pytest.MonkeyPatch) -> None:
    """Keep thumbnails out of the cache of whoever runs the tests."""
    from napari_ngff.plate.previews import preview_cache as preview_cache

    around.setattr(preview_cache, "preview_folder", lambda: tmp_path / "previews")


@pytest.fixture(autouse=True)
def no_earlier_notices() -> None:
    """Forget the notices of windows of other tests."""
    from napari.utils.notifications import notification_manager

    notification_manager.records.clear()


@pytest.fixture(autouse=True)
def patient_drawing(around: pytest.MonkeyPatch) -> None:
    """Let local files be read in time, however busy the machine is."""
    from napari_ngff.viewer.streaming import pixel_fetcher

    around.setattr(pixel_fetcher, "WAIT", PATIENCE)
    around.setattr(pixel_fetcher, "WAIT_TOGETHER", PATIENCE)


@pytest.fixture
def askers(around: pytest.MonkeyPatch) -> set[Thread]:
    """Threads that wait for a server."""
    from napari_ngff.store.sources.server_access import ReadScope

    threads: set[Thread] = set()
    wait = ReadScope.wait_for

    def note_thread(*arguments: Any) -> Any:
        threads.add(threading.current_thread())
        return wait(*arguments)

    around.setattr(ReadScope, "wait_for", note_thread)
    return threads


@pytest.fixture
def reported(around: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Messages to the user: the result, and then the texts."""
    from napari_ngff.viewer.services.window import Window

    messages: list[tuple[str, ...]] = []

    def note_texts(texts: tuple[str, ...], result: str = "") -> None:
        if texts:
            messages.append((result, *texts))

    around.setattr(Window, "show_messages", staticmethod(note_texts))
    return messages


@pytest.fixture
def screen() -> None:
    """Skip where there is nothing to draw on."""
    if not HAS_DISPLAY:
        pytest.skip("no DISPLAY: run the tests with `python run.py test`")


@pytest.fixture
def viewer(
    screen: None,
    quick_windows: None,
    quick_letters: None,
    make_napari_viewer: Callable,
    around: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator:
    """A napari window on the screen, with our reader as the default.

    Half of the time of most tests goes into drawing it: `WINDOW` of a module that needs
    a larger one is its size.
    """
    from napari_ngff.viewer.services.settings import make_default_reader
    from napari_ngff.viewer.services.window import Window

    # Reading in the window installs worker threads for good.
    around.setattr(Window, "current", Window())
    viewer = make_napari_viewer(show=True)
    viewer.window.resize(*getattr(request.module, "WINDOW", (800, 600)))
    # A key that an earlier test clicked with Alt counts as held until the next event:
    # napari asks for a reader when a file is dropped with Alt held, and waits for good.
    QTest.keyRelease(viewer.window._qt_window, Qt.Key.Key_Alt)
    make_default_reader()
    yield viewer
    assert QThreadPool.globalInstance().waitForDone(1000 * PATIENCE), (
        "a worker does not end"
    )
