"""What the window does for code that knows no Qt: runs work, shows messages, asks.

`widgets` says how. Without it, work runs at once, unsaved edits are kept for later,
and nobody is asked.
"""

from __future__ import annotations

import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from napari_ngff.errors import error_text
from napari_ngff.viewer.napari_private import qt_window_of
from napari_ngff.viewer.notices import (
    FailureKind,
    failure_text,
    kind_of,
    last_part,
    notice_text,
)

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.errors import ChunkError, NameTakenError
    from napari_ngff.labels.kept_edits import KeptEdits
    from napari_ngff.metadata.model import Problem

__all__ = [
    "DISCARD",
    "LATER",
    "RESTORE",
    "ErrorReport",
    "Runner",
    "WindowServices",
    "attempt_work",
    "can_ask",
    "current_runner",
    "hold_drawing",
    "is_annotating",
    "is_open",
    "name_taken",
    "offer_edits",
    "report_to_main",
    "resolve_unsaved",
    "run_after",
    "run_here",
    "run_in_main",
    "run_later",
    "run_work",
    "save_with_image",
    "set_annotate_check",
    "set_attendant",
    "set_browser_host",
    "set_drawing_hold",
    "set_mark_host",
    "set_missing_host",
    "set_problem_host",
    "set_runner",
    "set_starter",
    "set_window_check",
    "show_browser",
    "show_mark",
    "show_messages",
    "show_passing",
    "show_problems",
    "start_services",
    "watch_copy",
    "watch_labels",
    "watch_save",
]

Runner = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Runs the first function anywhere, and the second, with its result, in the main
thread."""


def run_here(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
    """Do the work at once, in this thread."""
    done(work())


_runner: list[Runner] = [run_here]


def do_here(work: Callable[[], Any]) -> None:
    """Do the work at once, in this thread."""
    work()


_later: list[Callable[[Callable[[], Any]], None]] = [do_here]

_in_main: list[Callable[[Callable[[], Any]], None]] = [do_here]


def call_here(_: object, call: Callable[[], Any]) -> None:
    """Call at once, in this thread."""
    call()


def do_after(seconds: float, work: Callable[[], Any]) -> None:
    """Do the work at once, in this thread."""
    work()


_after: list[Callable[[float, Callable[[], Any]], None]] = [do_after]

_main_reporter: list[Callable[[object, Callable[[], Any]], None]] = [call_here]


def set_runner(
    runner: Runner,
    later: Callable[[Callable[[], Any]], None] = do_here,
    in_main: Callable[[Callable[[], Any]], None] = do_here,
    main_reporter: Callable[[object, Callable[[], Any]], None] = call_here,
    after: Callable[[float, Callable[[], Any]], None] = do_after,
) -> None:
    """Choose where work that reads data runs.

    Parameters
    ----------
    runner
        See `run`.
    later
        See `run_later`.
    in_main
        See `run_in_main`.
    main_reporter
        See `report_to_main`.
    after
        See `run_after`.
    """
    _after[0] = after
    _runner[0], _later[0] = runner, later
    _in_main[0], _main_reporter[0] = in_main, main_reporter


def current_runner() -> Runner:
    """Return what runs work now; see `set_runner`."""
    return _runner[0]


def run_work(
    work: Callable[[], Any],
    done: Callable[[Any], Any],
    failed: Callable[[Exception], Any] | None = None,
) -> None:
    """Do some work; one of the two others is called then in the main thread, once.

    Parameters
    ----------
    work
        Called where `set_runner` says.
    done
        Called with what it returns.
    failed
        Called with what it raises. By default the user is shown that; without workers
        it is raised here.
    """
    runner = _runner[0]
    fail = failed or (_raise_here if runner is run_here else _show_failure)

    def answer(outcome: tuple[Any, Exception | None]) -> None:
        result, error = outcome
        if error is None:
            done(result)
        else:
            fail(error)

    runner(partial(_catch_error, work), answer)


def _catch_error(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Do some work; return what it gives, and what it raises."""
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001  codecs raise whatever they like
        return None, error
    except (CancelledError, SystemExit) as error:
        return None, RuntimeError(repr(error))


def _raise_here(error: Exception) -> None:
    raise error


def _show_failure(error: Exception) -> None:
    show_messages((error_text(error),), "Something failed in the background.")


def attempt_work(work: Callable[[], Any]) -> Any:
    """Do some work; return what it gives, or in words why it failed.

    Whatever fails: who waits for the answer must get one, and show it.
    """
    result, error = _catch_error(work)
    return result if error is None else error_text(error)


def run_later(work: Callable[[], Any]) -> None:
    """Do what nobody waits for, when the window has drawn what has just changed."""
    _later[0](work)


def run_after(seconds: float, work: Callable[[], Any]) -> None:
    """Call something in the main thread after some time."""
    _after[0](seconds, work)


def run_in_main(call: Callable[[], Any]) -> None:
    """Call something in the main thread: at once from there, soon from a worker."""
    _in_main[0](call)


def report_to_main(key: object, call: Callable[[], Any]) -> None:
    """Call something in the main thread, from a worker that reports how far it is.

    Of calls with the same key that wait, only the newest is made, so a worker may
    report as often as it likes.
    """
    _main_reporter[0](key, call)


_starter: list[Callable[[Any], Any]] = []


def set_starter(start: Callable[[Any], Any]) -> None:
    """Choose what begins when a layer of OME-Zarr comes into a window.

    Called with the viewer, also for each further layer.
    """
    _starter[:] = [start]


def start_services(viewer: ViewerModel) -> None:
    """Begin what a window does for layers of OME-Zarr, however they came into it."""
    if qt_window_of(viewer) is not None:
        for start in _starter:
            start(viewer)


class WindowServices(Protocol):
    """What a window does for the labels that are painted in it; in the main thread."""

    def watch_labels(self, viewer: Any, layer: Any) -> None:
        """Look after labels that a viewer just got; None for a measured table."""

    def can_ask(self, viewer: Any) -> bool:
        """Return whether a viewer has a window in which the user can be asked."""

    def resolve_unsaved(self, viewer: Any, layers: Iterable[Any]) -> bool:
        """Ask what to do with unsaved edits of layers that are about to go."""

    def watch_save(self, saver: Any) -> None:
        """Show how a save goes on, which begins now in a worker."""

    def save_with_image(self, layer: Any) -> bool:
        """Ask where labels without a file, and their image, are saved, and do it."""

    def watch_copy(self, copy: Any) -> None:
        """Show how a copy of labels goes on, which begins now in a worker."""

    def name_taken(self, layer: Any, error: NameTakenError) -> str | None:
        """Ask how new labels shall be called."""

    def offer_edits(
        self, viewer: Any, found: Sequence[KeptEdits]
    ) -> tuple[str, Sequence[KeptEdits]]:
        """Ask what to do with edits that were not saved."""


_attendant: list[WindowServices] = []


def set_attendant(attendant: WindowServices) -> None:
    """Choose who looks after labels in the windows of all sessions."""
    _attendant[:] = [attendant]


_annotate_check: list[Callable[[Any], bool]] = []


def set_annotate_check(is_annotated: Callable[[Any], bool]) -> None:
    """Choose how to find out whether the window of a layer has the annotate dock."""
    _annotate_check[:] = [is_annotated]


def is_annotating(layer: Any) -> bool:
    """Return whether the annotate dock is in the window of a layer."""
    return any(is_annotated(layer) for is_annotated in _annotate_check)


_browser_host: list[Callable[[Any], Any]] = []


def set_browser_host(host: Callable[[Any], Any]) -> None:
    """Choose who shows the browser of a viewer that has something to browse.

    Called with the viewer, in any thread.
    """
    _browser_host[:] = [host]


Hold = Callable[[Any], Callable[[], None]]
"""Stops the drawing of a viewer's canvas; what it returns goes on with it."""

_drawing_hold: list[Hold] = []


def set_drawing_hold(hold: Hold) -> None:
    """Choose how the canvas of a viewer keeps its last frame for a while."""
    _drawing_hold[:] = [hold]


def hold_drawing(viewer: ViewerModel) -> Callable[[], None]:
    """Keep the last frame on the canvas until the function that is returned is called.

    Of many changes of layers and camera only the result is seen.
    """
    return _drawing_hold[0](viewer) if _drawing_hold else lambda: None


_mark_host: list[Callable[[Any, str], None]] = []


def set_mark_host(host: Callable[[Any, str], None]) -> None:
    """Choose how the mark of a canvas is shown.

    Called in the main thread with the viewer and the text, "" for none.
    """
    _mark_host[:] = [host]


def show_mark(viewer: ViewerModel, text: str) -> None:
    """Show a text in the corner of the canvas, if there is a window; "" for none."""
    for show_text in _mark_host:
        show_text(viewer, text)


_window_check: list[Callable[[Any], bool]] = []


def set_window_check(is_alive: Callable[[Any], bool]) -> None:
    """Choose how to find out whether the window of a viewer is still there."""
    _window_check[:] = [is_alive]


def is_open(viewer: ViewerModel) -> bool:
    """Return whether layers of a viewer may change: its window was not closed."""
    return all(is_alive(viewer) for is_alive in _window_check)


def show_browser(viewer: ViewerModel) -> None:
    """Show the browser of a viewer, if there is a window."""
    for show_in in _browser_host:
        show_in(viewer)


def resolve_unsaved(viewer: ViewerModel, layers: Iterable[Any]) -> bool:
    """Let the user decide on unsaved work, before layers or what they show go away.

    Asks Save, Keep for later, Discard or Cancel where a layer of labels has unsaved
    edits, or where a table that was measured of it is in no file; returns when that is
    done. Without a window the edits are kept for later. Their journals are closed then:
    what the layers show next needs savers of its own.

    Parameters
    ----------
    viewer
        Theirs.
    layers
        Of any kind.

    Returns
    -------
    bool
        False where they shall stay.
    """
    if _attendant:
        return _attendant[0].resolve_unsaved(viewer, layers)
    for layer in layers:
        saver = getattr(layer, "saver", None)
        if saver is not None and layer.unsaved:
            saver.keep_journal()
    return True


def can_ask(viewer: ViewerModel) -> bool:
    """Return whether the viewer has a window in which the user can be asked."""
    return bool(_attendant) and _attendant[0].can_ask(viewer)


def watch_labels(viewer: ViewerModel, layer: Any) -> None:
    """Let labels be looked after that a viewer just got, or that a layer shows now.

    None for a measured table: then it is the window that is looked after.
    """
    if _attendant:
        _attendant[0].watch_labels(viewer, layer)


def watch_save(saver: Any) -> None:
    """Show how a save goes on, if there is a window."""
    if _attendant:
        _attendant[0].watch_save(saver)


def save_with_image(layer: Any) -> bool:
    """Ask where labels without a file, and their image, are saved, and do it.

    Returns
    -------
    bool
        False if nobody can be asked.
    """
    return bool(_attendant) and _attendant[0].save_with_image(layer)


def watch_copy(copy: Any) -> None:
    """Show how a copy of labels goes on, if there is a window."""
    if _attendant:
        _attendant[0].watch_copy(copy)


def name_taken(layer: Any, error: NameTakenError) -> str | None:
    """Ask how new labels shall be called whose name is taken.

    Returns
    -------
    str or None
        The same name to replace what has it, another one, or "" to save nothing; None
        where nobody can be asked.
    """
    return _attendant[0].name_taken(layer, error) if _attendant else None


RESTORE, DISCARD, LATER = "restore", "discard", "later"
"""Answers of `offer_edits`."""


def offer_edits(
    viewer: ViewerModel, found: Sequence[KeptEdits]
) -> tuple[str, Sequence[KeptEdits]]:
    """Ask what to do with edits that journals hold.

    Returns
    -------
    str
        `RESTORE`, `DISCARD` or `LATER`; `LATER` where nobody can be asked.
    sequence of KeptEdits
        Those that the answer is about.
    """
    return _attendant[0].offer_edits(viewer, found) if _attendant else (LATER, ())


class Notifier(Protocol):
    """Shows one text as a notification; called in any thread."""

    def __call__(self, text: str, *, is_warning: bool = True) -> None: ...


def show_notification(text: str, *, is_warning: bool = True) -> None:
    """Show one text as a notification."""
    from napari.utils.notifications import show_info, show_warning

    (show_warning if is_warning else show_info)(text)


_notifier: list[Notifier] = [show_notification]

ProblemHost = Callable[[Any, str, "tuple[Problem, ...]"], None]
"""Called with the viewer, the path of a file and what opening found wrong with it."""

_problem_host: list[ProblemHost] = []


def set_problem_host(notifier: Notifier, host: ProblemHost) -> None:
    """Choose who shows notifications, and the lasting sign of problems.

    Parameters
    ----------
    notifier
        See `Notifier`.
    host
        See `ProblemHost`; called in any thread.
    """
    _notifier[0], _problem_host[:] = notifier, [host]


def show_messages(messages: tuple[str, ...], result: str) -> None:
    """Show messages to the user as one notification; see `notice_text`."""
    if messages:
        _notifier[0](notice_text(messages, result))


def show_passing(text: str) -> None:
    """Show one text as a notification that is no warning, and closes soon."""
    _notifier[0](text, is_warning=False)


def show_problems(viewer: Any, path: str, problems: tuple[Problem, ...]) -> None:
    """Have a sign that stays while something of a file is open that has problems."""
    for show_sign in _problem_host:
        show_sign(viewer, path, problems)


_missing_host: list[Callable[[], None]] = []


def set_missing_host(host: Callable[[], None]) -> None:
    """Choose what shows, in all windows, that chunks on screen are missing.

    Called in the main thread when a chunk could not be read.
    """
    _missing_host[:] = [host]


GATHER = 0.5
"""Seconds in which failures are counted before they are shown."""

OUTAGE = 30.0
"""Seconds without a failure after which the next one is of another outage."""


Failures = tuple[FailureKind, str]
"""Why something cannot be read, and what: "chunk", or "well" of an overview."""


class ErrorReport:
    """Reports unreadable chunks to the user: soon after the first, then seldom.

    One for each file that is opened; called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Those of the last outage, and the number that was shown last.
        self._found: dict[Failures, dict[str, ChunkError]] = {}
        self._shown: dict[Failures, int] = {}
        self._waiting: set[Failures] = set()
        self._last = 0.0

    def __call__(self, error: ChunkError) -> None:
        """Show how many there are: soon, and when there are ten times as many."""
        for watch in _missing_host:
            run_in_main(watch)
        kind = kind_of(error), "well" if error.key == error.group else "chunk"
        with self._lock:
            self._forget_outage()
            found = self._found.setdefault(kind, {})
            is_known = error.key in found
            found[error.key] = error.without_frames()
            shown = self._shown.get(kind, 0)
            if is_known or kind in self._waiting or len(found) < max(1, 10 * shown):
                return
            self._waiting.add(kind)
        run_after(GATHER, partial(self._show_count, kind))

    def _forget_outage(self) -> None:
        """Forget what may have come since, where the last failure was long ago."""
        now = time.monotonic()
        if now - self._last > OUTAGE:
            for kind in [one for one in self._found if one[0] in PASSING]:
                del self._found[kind]
                self._shown.pop(kind, None)
        self._last = now

    def _show_count(self, kind: Failures) -> None:
        with self._lock:
            errors = tuple(self._found.get(kind, {}).values())
            self._waiting.discard(kind)
            self._shown[kind] = len(errors)
        if errors:
            first = errors[0]
            inner = first.group if kind[1] == "chunk" else ""
            name = last_part("/".join(filter(None, (first.source_name, inner))))
            address = first.source_name
            result = failure_text(name, len(errors), kind[0], address, kind[1])
            show_messages((str(first),), result)


PASSING = (FailureKind.UNREACHED, FailureKind.REFUSED, FailureKind.UNREADABLE)
"""Failures after which a chunk may come; a damaged one stays so."""
