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
from napari_ngff.widgets.workers import worker_class

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

FOREIGN = ("asyncio", "fsspecIO", "zarr_io", "Profile", "Dask", "IO loop", "person")
"""How threads are named in which none of our code runs; a person is in `person.py`."""

OURS = (str(Path(napari_ngff.__file__).parent), str(Path(__file__).parents[1]))
"""Where calls are looked at: napari has its own ways to the main thread."""

WAY = str(Path("napari_ngff", "widgets", "workers.py"))
"""The module that leads from workers to the main thread."""


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

    def begin(self, frame: FrameType, event: str, called: Any) -> None:
        """Watch a new thread where code of ours runs; for `threading.setprofile`."""
        ours = not threading.current_thread().name.startswith(FOREIGN)
        sys.setprofile(self.look if ours else None)

    @classmethod
    def watching(cls) -> Iterator[WorkerWatch]:
        """Watch our workers in Qt's pool, and threads that begin meanwhile."""
        watch, work = cls(), worker_class().work

        def watched(worker: Any) -> Any:
            sys.setprofile(watch.look)
            try:
                return work(worker)
            finally:
                sys.setprofile(None)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker_class(), "work", watched)
            threading.setprofile(watch.begin)
            yield watch
            threading.setprofile(None)
