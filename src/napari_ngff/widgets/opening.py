"""Opens remote files while the window goes on: in a thread, with a bar and Cancel."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils import cancelable_progress
from qtpy.QtCore import QEventLoop, QThread, QTimer
from qtpy.QtWidgets import QApplication

from napari_ngff.addresses import public_address
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.hierarchy.location import is_url
from napari_ngff.store.sources.remote_source import ReadScope
from napari_ngff.viewer import reader
from napari_ngff.viewer.napari_private import qt_window_of
from napari_ngff.viewer.notices import last_part, shorten_name
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.settings import note_address
from napari_ngff.widgets.form_dialog import is_window_open
from napari_ngff.widgets.workers import main_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.viewer.layer_plan import LayerData

__all__ = ["RemoteOpening", "begin_opening"]

PATIENCE = 300
"""Milliseconds after which an opening gets a bar; most are done by then."""


def begin_opening(path: str | Sequence[str]) -> RemoteOpening | None:
    """Prepare to open something remote in the window in front; None for all else."""
    paths = [path] if isinstance(path, str) else list(path)
    application = QApplication.instance()
    in_main = (
        application is not None and QThread.currentThread() is application.thread()
    )
    if not in_main or not any(is_url(one) for one in paths):
        return None
    viewer = reader.current_viewer()
    if viewer is None or not is_window_open(viewer):
        return None
    session_of(viewer)  # in the main thread: the reader asks for it in another
    return RemoteOpening(viewer, paths[0])


class RemoteOpening:
    """One opening of something remote.

    Parameters
    ----------
    viewer
        In whose window it is opened.
    path
        What is opened.
    """

    def __init__(self, viewer: Any, path: str) -> None:
        self.viewer = getattr(viewer, "__wrapped__", viewer)
        self.path = public_address(path)
        self.scope = ReadScope()
        self._bar: OpeningBar | None = None
        self._is_noted = False

    def start(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Work in a thread; call one of the functions in the main thread.

        A thread of its own: those of the window may all wait for servers.
        """
        outcome: list[Any] = []
        window = qt_window_of(self.viewer)
        # Else the thread, and a script that waits for it, would wait for the server.
        window.destroyed.connect(self.scope.cancel)

        def finish() -> None:
            self._end_bar()
            if not is_window_open(self.viewer):
                failed(OMEZarrError(f"The window of {self.path} was closed."))
                return
            window.destroyed.disconnect(self.scope.cancel)
            if isinstance(outcome[0], Exception):
                failed(outcome[0])
            elif self.scope.is_cancelled:
                failed(self._cancelled())
            else:
                done(outcome[0])

        def run() -> None:
            try:
                with self.scope.active():
                    outcome.append(work())
            except Exception as error:  # noqa: BLE001  raised or shown in main
                outcome.append(error)
            calls.call_in_main(finish)

        calls = main_calls()
        thread = threading.Thread(target=run, name="napari-ngff-open", daemon=True)
        thread.start()
        QTimer.singleShot(PATIENCE, partial(self._begin_bar, outcome))

    def wait(self, work: Callable[[], Any]) -> Any:
        """Work in a thread, and return the result; the window goes on meanwhile.

        Raises
        ------
        OMEZarrError
            Where it was cancelled, or the window was closed.
        Exception
            Of the work.
        """
        loop = QEventLoop()
        found: list[Any] = []

        def finish(result: Any) -> None:
            found.append(result)
            loop.quit()

        self.start(work, finish, finish)
        # The loop may end early, when the application quits.
        if not found:
            loop.exec()
        if not found:
            self.scope.cancel()
            raise self._cancelled()
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def add_layers(self, layers: Sequence[LayerData]) -> None:
        """Add layers one by one, and remember the address.

        Other events of the window come in between.
        """
        if layers and not self._is_noted and not self.scope.is_cancelled:
            self._is_noted = True
            note_address(self.path)
        if not layers or self.scope.is_cancelled or not is_window_open(self.viewer):
            return
        session_of(self.viewer).add(layers[:1], self.path)
        QTimer.singleShot(0, partial(self.add_layers, layers[1:]))

    def _cancelled(self) -> OMEZarrError:
        return OMEZarrError(f"{self.path} was not opened: it was cancelled.")

    def _begin_bar(self, outcome: list[Any]) -> None:
        if outcome or self._bar is not None or not is_window_open(self.viewer):
            return
        # A bar of napari lets other events happen, among them the end of the work.
        bar = OpeningBar(self.scope, shorten_name(last_part(self.path)))
        if outcome:
            bar.close()
        else:
            self._bar = bar

    def _end_bar(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


class OpeningBar(cancelable_progress):  # type: ignore[misc]
    """The bar of one opening in napari's activity dock; its button cancels it."""

    def __init__(self, scope: ReadScope, name: str) -> None:
        super().__init__(total=0, desc=f"Opening {name}")
        self._scope = scope

    def cancel(self) -> None:
        """Stop reading."""
        super().cancel()
        self._scope.cancel()
