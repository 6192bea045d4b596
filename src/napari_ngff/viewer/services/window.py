"""What code that knows no Qt asks of the window: to run work, to show texts, to ask."""

from __future__ import annotations

from asyncio import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import psygnal
from napari.utils.notifications import Notification, notification_manager

from napari_ngff.errors import NameTakenError, error_text
from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.viewer.services.notices import notice_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari.components import ViewerModel

    from napari_ngff.labels.kept_edits import KeptEdits
    from napari_ngff.metadata.model import Problem


def report_unexpected(error: BaseException) -> None:
    """Show an error with its traceback, as napari does; from any thread."""
    notification_manager.receive_error(type(error), error, error.__traceback__)


@contextmanager
def going_on() -> Iterator[None]:
    """Do something whose error must not stop what follows; it is shown."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  that is the purpose
        report_unexpected(error)


def call_guarded(call: Callable[..., Any], *values: Any) -> None:
    """Call a function whose error must not stop what follows; it is shown."""
    try:
        call(*values)
    except Exception as error:  # noqa: BLE001  that is the purpose
        report_unexpected(error)


def call_all(*calls: Callable[[], Any]) -> None:
    """Call several functions, each whatever another one raises."""
    for call in calls:
        call_guarded(call)


def call_or(call: Callable[[], Any], instead: Callable[[], Any]) -> None:
    """Call a function; where it fails, show that, and call another one."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  somebody waits for one of them
        report_unexpected(error)
        instead()


def catch_error(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Do some work; return what it gives, and what it raises."""
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001  codecs raise whatever they like
        return None, error
    except (CancelledError, SystemExit) as error:
        return None, RuntimeError(repr(error))


def attempt_work(work: Callable[[], Any]) -> Any:
    """Do some work; return what it gives, or in words why it failed.

    Whatever fails: who waits for the answer must get one, and show it.
    """
    result, error = catch_error(work)
    return result if error is None else error_text(error)


class GuardedSignal(psygnal.SignalInstance):
    """A signal each of whose listeners is called, whatever another one raises."""

    # psygnal (0.14 to 0.16) calls this for each emission; elsewhere the first error
    # stops all later listeners, and whoever emits.
    def _run_emit_loop_immediate(self) -> None:
        values = self._emit_queue.popleft()
        for listener in tuple(self._slots):
            # What it belongs to may be gone, and its place in the list not yet.
            if listener.dereference() is not None:
                call_guarded(listener.cb, values)


Signal = partial(psygnal.Signal, signal_instance_class=GuardedSignal)
"""Declares a `GuardedSignal` of a class, as `psygnal.Signal` does."""


RESTORE, DISCARD, LATER = "restore", "discard", "later"
"""Answers of `Window.offer_edits`."""


class Window:
    """What napari's windows do for us; by this class, what is done without a window.

    All code asks `Window.current`, which `widgets` replaces by one that knows Qt.
    """

    current: ClassVar[Window]

    has_workers = False
    """Whether work runs in other threads, so that it ends later."""

    starter: Callable[[Any], Any] | None = None
    """Begins to serve a viewer that has a window and gets a layer of OME-Zarr."""

    @staticmethod
    def start_services(viewer: ViewerModel) -> None:
        """Begin what a window does for layers of OME-Zarr, however they came into it.

        Called for each further layer as well.
        """
        starter = Window.current.starter
        if starter is not None and qt_window_of(viewer) is not None:
            starter(viewer)

    def run_work(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], Any],
        failed: Callable[[Exception], Any] | None = None,
    ) -> None:
        """Do some work; one of the two others is called then in the main thread, once.

        Parameters
        ----------
        work
            Called in a worker, where there are any.
        done
            Called with what it returns.
        failed
            Called with what it raises. By default the user is shown that; without
            workers it is raised here.
        """
        fail = failed or self.show_failure

        def answer(outcome: tuple[Any, Exception | None]) -> None:
            result, error = outcome
            if error is None:
                done(result)
            else:
                fail(error)

        self.run(partial(catch_error, work), answer)

    def run(self, work: Callable[[], Any], done: Callable[[Any], Any]) -> None:
        """Do work that raises nothing, and hand on its result in the main thread."""
        done(work())

    def show_failure(self, error: Exception) -> None:
        """Show what work raised; without workers it is raised here."""
        if not self.has_workers:
            raise error
        self.show_messages((error_text(error),), "Something failed in the background.")

    def wait_for(self, begin: Callable[[Callable[[], None]], None]) -> None:
        """Begin something in the main thread, and return when that has ended.

        Parameters
        ----------
        begin
            Called with a function, which it calls in the end.
        """
        begin(lambda: None)

    def run_later(self, work: Callable[[], Any]) -> None:
        """Do what nobody waits for, when the window has drawn what was just changed."""
        work()

    def run_after(self, seconds: float, work: Callable[[], Any]) -> None:
        """Call something in the main thread after some time."""
        work()

    def run_in_main(self, call: Callable[[], Any]) -> None:
        """Call something in the main thread: at once from there, soon from a worker.

        Without a window it is called at once in any thread.
        """
        call()

    def report_to_main(self, key: object, call: Callable[[], Any]) -> None:
        """Call something in the main thread, from a worker that reports how far it is.

        Of calls with the same key that wait, only the newest is made, so a worker may
        report as often as it likes.
        """
        call()

    def notify(self, text: str, *, is_warning: bool = True) -> None:
        """Show one text as a notification; called in any thread."""
        show_notification(text, is_warning=is_warning)

    def show_messages(self, messages: tuple[str, ...], result: str) -> None:
        """Show messages to the user as one notification; see `notice_text`."""
        if messages:
            self.notify(notice_text(messages, result))

    def show_passing(self, text: str) -> None:
        """Show one text as a notification that is no warning, and closes soon."""
        self.notify(text, is_warning=False)

    def show_offer(self, viewer: ViewerModel, offer: Notification) -> None:
        """Show a notification that stays until the user closes it."""
        notification_manager.dispatch(offer)

    def close_offer(self, viewer: ViewerModel, text: str) -> None:
        """Close a notification, by its text, that was answered elsewhere."""

    def show_problems(
        self, viewer: Any, path: str, problems: tuple[Problem, ...]
    ) -> None:
        """Have a sign that stays while something of a file is open that has problems.

        Called in any thread with what opening found wrong with a file.
        """

    def show_missing(self) -> None:
        """Have signs in all windows of chunks on the screen that could not be read."""

    def show_mark(self, viewer: ViewerModel, text: str) -> None:
        """Show a text in the corner of the canvas; "" for none."""

    def show_browser(self, viewer: ViewerModel) -> None:
        """Show the browser of a viewer; called in any thread."""

    def hold_drawing(self, viewer: ViewerModel) -> Callable[[], None]:
        """Keep the last frame on the canvas, until what is returned is called.

        Of many changes of layers and camera only the result is seen.
        """
        return lambda: None

    def is_open(self, viewer: ViewerModel) -> bool:
        """Return whether layers of a viewer may change: its window was not closed."""
        return True

    def find_annotated(self, layer: Any) -> str:
        """Name the labels of the annotate dock in the window of a layer; "" without."""
        return ""

    def can_ask(self, viewer: ViewerModel) -> bool:
        """Return whether the viewer has a window in which the user can be asked."""
        return False

    def watch_labels(self, viewer: ViewerModel, layer: Any) -> None:
        """Look after labels that a viewer just got, or that a layer shows now.

        None for a measured table: then it is the window that is looked after.
        """

    def watch_save(self, saver: Any) -> None:
        """Show how a save goes on, which begins now in a worker."""

    def watch_copy(
        self, copy: Any, title: str, part: Callable[[], float], *signals: Any
    ) -> None:
        """Show how a copy of labels, or of a table, goes on, which begins in a worker.

        Parameters
        ----------
        copy
            With `name`, `running` and `cancel`.
        part
            Returns how much is done, 0 to 1.
        signals
            Emitted when more is done, and at the end.
        """

    def save_with_image(self, layer: Any) -> bool:
        """Ask where labels without a file, and their image, are saved, and do it.

        Returns
        -------
        bool
            False if nobody can be asked.
        """
        return False

    def name_taken(self, layer: Any, error: NameTakenError) -> str | None:
        """Ask how new labels shall be called whose name is taken.

        Returns
        -------
        str or None
            The same name to replace what has it, another one, or "" to save nothing;
            None where nobody can be asked.
        """
        return None

    def ask_name(
        self,
        viewer: Any,
        text: str,
        name: str,
        check: Callable[[str], str],
        title: str = "Name of labels",
    ) -> str:
        """Ask how labels, or a table, shall be called in a file; "" to save nothing.

        Parameters
        ----------
        text
            Of the question.
        name
            Is proposed, and taken where nobody can be asked.
        check
            Says what is wrong with a name; "" for nothing.
        """
        return name

    def confirm(self, viewer: Any, text: str, action: str) -> bool:
        """Ask whether to do something; True where nobody can be asked."""
        return True

    def resolve_unsaved(
        self, annotations: Any, layers: Iterable[Any]
    ) -> Callable[[], None] | None:
        """Let the user decide on unsaved work, before layers or what they show go away.

        Asks Save, Keep for later, Discard or Cancel where a layer of labels has unsaved
        edits, or where a table that was measured of it is in no file; returns when all
        is saved that is to be. Without a window the edits are kept for later.

        Parameters
        ----------
        annotations
            The `Annotations` of their viewer.
        layers
            Of any kind.

        Returns
        -------
        callable or None
            Keeps or discards the rest, and closes the journals: to be called when the
            layers go, as what they show next needs savers of its own. None where they
            shall stay.
        """
        unsaved = annotations.list_unsaved(layers)

        def leave() -> None:
            for annotation in unsaved:
                annotation.leave(keep=True)

        return leave

    def wait_for_answer(
        self, viewer: ViewerModel, call: Callable[[], None] | None = None
    ) -> bool:
        """Let a call wait while a question is open in a window; None only asks that.

        It is called when that was answered, and all is saved that is to be; never if
        the window was closed.

        Returns
        -------
        bool
            Whether it waits; False where no question is open.
        """
        return False

    def ask_table_file(self, viewer: Any, title: str, name: str) -> str:
        """Ask for the file to save a table in; "" where nobody names one."""
        return ""

    def ask_layer_file(self, viewer: Any) -> None:
        """Ask for a file, and save the selected layer in it."""

    def offer_edits(
        self, viewer: ViewerModel, found: Sequence[KeptEdits]
    ) -> tuple[str, Sequence[KeptEdits]]:
        """Ask what to do with edits that journals hold.

        Returns
        -------
        str
            `RESTORE`, `DISCARD` or `LATER`; `LATER` where nobody can be asked.
        sequence of KeptEdits
            Those that the answer is about.
        """
        return LATER, ()


def show_notification(text: str, *, is_warning: bool = True) -> None:
    """Show one text by napari."""
    from napari.utils.notifications import show_info, show_warning

    (show_warning if is_warning else show_info)(text)


Window.current = Window()
