"""Opens remote files in a thread, with a bar and Cancel, and takes dropped files."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import (  # type: ignore[attr-defined]
    QEventLoop,
    QThread,
    QTimer,
    Signal,
)
from qtpy.QtWidgets import QApplication, QWidget

from napari_ngff.addresses import is_url, public_address
from napari_ngff.errors import LoginNeededError, OMEZarrError
from napari_ngff.store.sources.server_access import ReadScope
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.viewer import reader
from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.viewer.services.notices import last_part, shorten_name
from napari_ngff.viewer.services.settings import note_address
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.activity_bar import PATIENCE, ActivityBar
from napari_ngff.widgets.form_dialog import is_window_open
from napari_ngff.widgets.login_dialog import (
    LoginAnswer,
    find_kept_login,
    store_login,
)
from napari_ngff.widgets.notifications import is_window_shown
from napari_ngff.widgets.workers import main_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qtpy.QtGui import QDragEnterEvent, QDropEvent

    from napari_ngff.viewer.plans.layer_plan import LayerData


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

    Attributes
    ----------
    login
        What the user answered for it; kept once the server has accepted it.
    """

    def __init__(self, viewer: Any, path: str) -> None:
        self.viewer = getattr(viewer, "__wrapped__", viewer)
        self.path = public_address(path)
        self.scope = ReadScope()
        self._bar: ActivityBar | None = None
        self._is_noted = False
        self.login: LoginAnswer | None = None
        self._unanswered: Callable[[], None] | None = None

    def start(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
        *,
        asks: bool = True,
    ) -> None:
        """Work in a thread; call one of the functions in the main thread.

        A thread of its own: those of the window may all wait for servers.

        Parameters
        ----------
        asks
            Whether the user is asked for a login where the server wants one; then it is
            worked again.
        """
        outcome: list[Any] = []
        # Else the thread, and a script that waits for it, would wait for the server.
        qt_window_of(self.viewer).destroyed.connect(self.scope.cancel)

        def finish() -> None:
            self._end_bar()
            if not is_window_open(self.viewer):
                failed(OMEZarrError(f"The window of {self.path} was closed."))
                return
            # Not from outside: frames of an error would keep the window alive.
            qt_window_of(self.viewer).destroyed.disconnect(self.scope.cancel)
            error = outcome[0]
            is_locked = isinstance(error, LoginNeededError) and asks
            if self.scope.is_cancelled:
                failed(self._cancelled())
            elif is_locked:
                self._log_in(error, partial(self.start, work, done, failed), failed)
            elif isinstance(error, Exception):
                failed(error)
            else:
                self._keep_login()
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

    def _log_in(
        self,
        error: LoginNeededError,
        again: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Get a login for a server, and work again; without one it has failed."""
        self._unanswered = partial(failed, error)
        # A window that is closed takes the dialog with it.
        qt_window_of(self.viewer).destroyed.connect(self._give_up)

        def go_on(answer: LoginAnswer | None) -> None:
            if is_window_open(self.viewer):
                qt_window_of(self.viewer).destroyed.disconnect(self._give_up)
            self._unanswered = None
            if answer is None:
                failed(error)
                return
            self.login = answer
            again()

        find_kept_login(self.viewer, error.server or server_of(self.path), go_on)

    def _give_up(self) -> None:
        unanswered, self._unanswered = self._unanswered, None
        if unanswered is not None:
            unanswered()

    def _keep_login(self) -> None:
        login, self.login = self.login, None
        if login is not None and login.is_kept:
            store_login(login)

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

        # Nobody answers where no window is shown.
        self.start(work, finish, finish, asks=is_window_shown(self.viewer))
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
            note = partial(note_address, self.path)
            Window.current.run_work(note, lambda _: None)
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
        name = shorten_name(last_part(self.path))
        bar = ActivityBar(f"Opening {name}", self.scope.cancel, total=0)
        if outcome:
            bar.close()
        else:
            self._bar = bar

    def _end_bar(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


class DropTarget(QWidget):
    """Accepts a dropped path or address; of several the first."""

    dropped = Signal(str)
    """Emitted with the dropped path or address."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAcceptDrops(True)

    def dragEnterEvent(self, event: QDragEnterEvent | None) -> None:
        """Accept a drag that has a path or an address."""
        data = event.mimeData() if event is not None else None
        if event is not None and data is not None and data.hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent | None) -> None:
        """Pass the first path or address on."""
        data = event.mimeData() if event is not None else None
        if event is not None and data is not None and data.hasUrls():
            event.acceptProposedAction()
            url = data.urls()[0]
            # Of an address as it is: `toLocalFile` would return an empty text.
            path = url.toLocalFile() if url.isLocalFile() else url.toString()
            self.takeDrop(path)

    def takeDrop(self, path: str) -> None:
        """Emit `dropped`; subclasses may handle some paths themselves."""
        self.dropped.emit(path)
