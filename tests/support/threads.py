"""Finds code that touches widgets from worker threads.

A widget may go at any moment while a worker runs, and a call of it then ends the
program. Such a crash is rare; what leads to it can be seen each time.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from qtpy.QtCore import QObject

import napari_ngff
from napari_ngff.widgets.workers import WorkerTask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SERVERS = "napari-ngff-servers"
FOREIGN = ("asyncio", SERVERS, "zarr_io", "Profile", "Dask", "IO loop", "person")
"""How threads are named in which none of our code runs; a person is in `person.py`."""

OURS = (str(Path(napari_ngff.__file__).parent), str(Path(__file__).parents[1]))
"""Where calls are looked at: napari has its own ways to the main thread."""

WAY = str(Path("napari_ngff", "widgets", "workers.py"))
"""The module that leads from workers to the main thread."""


_setting = threading.Lock()


class WorkerWatch:
    """Notes each call of a QObject, and each of its signals, in worker threads."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def look(self, frame: FrameType, event: str, called: Any) -> None:
        """Take note of a call that a thread makes; for `sys.setprofile`."""
        code = frame.f_code
        if not code.co_filename.startswith(OURS) or code.co_filename.endswith(WAY):
            return
        if event == "c_call":
            owner = getattr(called, "__self__", None)
            signal = type(owner).__name__ in ("pyqtBoundSignal", "SignalInstance")
            touches = signal or isinstance(owner, QObject)
            name = getattr(called, "__qualname__", str(called))
        elif event == "call" and code.co_argcount and code.co_varnames[0] == "self":
            owner, name = frame.f_locals.get("self"), code.co_qualname
            touches = isinstance(owner, QObject)
        else:
            return
        if touches:
            where = f"{Path(code.co_filename).name}:{frame.f_lineno}"
            self.found.append(f"{where} {code.co_name} calls {name} of {owner!r}")

    @classmethod
    def watching(cls) -> Iterator[WorkerWatch]:
        """Watch our workers in Qt's pool, and threads that begin meanwhile."""
        watch, work, run = cls(), WorkerTask.run, threading.Thread.run

        def watched_work(worker: Any) -> Any:
            set_profile(watch.look)
            try:
                return work(worker)
            finally:
                set_profile(None)

        def watched_run(thread: threading.Thread) -> None:
            if thread.name.startswith(FOREIGN):
                run(thread)
                return
            set_profile(watch.look)
            try:
                run(thread)
            finally:
                set_profile(None)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(WorkerTask, "run", watched_work)
            patch.setattr(threading.Thread, "run", watched_run)
            yield watch


def set_profile(function: Any) -> None:
    """Set what is called at each call of this thread, one thread at a time.

    Python 3.11 raises an error where two do so at once, as by `threading.setprofile`.
    """
    with _setting:
        sys.setprofile(function)
