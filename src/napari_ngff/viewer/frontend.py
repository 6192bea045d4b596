"""What the window does for code that knows no Qt: runs work, shows messages, asks.

`widgets` says how. Without it, work runs at once, unsaved edits are kept for later,
and nobody is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.errors import ChunkError, NameTakenError
    from napari_ngff.viewer.saving.saver import LayerSaver

__all__ = [
    "Attendant",
    "ErrorReport",
    "Runner",
    "name_taken",
    "run",
    "run_here",
    "run_later",
    "set_attendant",
    "set_browser_host",
    "set_runner",
    "settle",
    "show",
    "show_browser",
    "watch",
    "welcome",
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


def set_runner(
    runner: Runner, later: Callable[[Callable[[], Any]], None] = do_here
) -> None:
    """Choose where work that reads data runs.

    Parameters
    ----------
    runner
        See `run`.
    later
        See `run_later`.
    """
    _runner[0], _later[0] = runner, later


def run(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
    """Do some work there; what to do with its result is called in the main thread."""
    _runner[0](work, done)


def run_later(work: Callable[[], Any]) -> None:
    """Do what nobody waits for, when the window has drawn what has just changed."""
    _later[0](work)


class Attendant(Protocol):
    """What a window does for the labels that are painted in it; in the main thread."""

    def welcome(self, viewer: Any, layer: Any) -> None:
        """Look after labels that a viewer just got."""

    def settle(self, viewer: Any, layers: Iterable[Any]) -> bool:
        """Ask what to do with unsaved edits of layers that are about to go."""

    def watch(self, saver: LayerSaver) -> None:
        """Show how a save goes on, which begins now in a worker."""

    def name_taken(self, layer: Any, error: NameTakenError) -> str | None:
        """Ask how new labels shall be called."""


_attendant: list[Attendant] = []


def set_attendant(attendant: Attendant) -> None:
    """Choose who looks after labels in the windows of all sessions."""
    _attendant[:] = [attendant]


_browser_host: list[Callable[[Any], Any]] = []


def set_browser_host(host: Callable[[Any], Any]) -> None:
    """Choose who shows the browser of a viewer that has something to walk.

    Called with the viewer, in any thread.
    """
    _browser_host[:] = [host]


def show_browser(viewer: ViewerModel) -> None:
    """Show the browser of a viewer, if there is a window."""
    for show_in in _browser_host:
        show_in(viewer)


def settle(viewer: ViewerModel, layers: Iterable[Any]) -> bool:
    """Let the user decide on unsaved edits, before layers or what they show go away.

    Asks Save, Keep for later, Discard or Cancel where a layer of labels has unsaved
    edits; returns when that is done. Without a window the edits are kept for later.
    Their journals are closed then: what the layers show next needs savers of its own.

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
        return _attendant[0].settle(viewer, layers)
    for layer in layers:
        saver = getattr(layer, "saver", None)
        if saver is not None and layer.unsaved:
            saver.keep()
    return True


def welcome(viewer: ViewerModel, layer: Any) -> None:
    """Let labels be looked after that a viewer just got, or that a layer shows now."""
    if _attendant:
        _attendant[0].welcome(viewer, layer)


def watch(saver: LayerSaver) -> None:
    """Show how a save goes on, if there is a window."""
    if _attendant:
        _attendant[0].watch(saver)


def name_taken(layer: Any, error: NameTakenError) -> str | None:
    """Ask how new labels shall be called whose name is taken.

    Returns
    -------
    str or None
        The same name to replace what has it, another one, or "" to save nothing; None
        where nobody can be asked.
    """
    return _attendant[0].name_taken(layer, error) if _attendant else None


def show(messages: tuple[str, ...]) -> None:
    """Show messages to the user as one notification."""
    from napari.utils.notifications import show_warning

    if messages:
        more = f"\n... and {len(messages) - 5} more" if len(messages) > 5 else ""
        show_warning("\n".join(messages[:5]) + more)


class ErrorReport:
    """Tells the user of unreadable chunks: the first at once, and no flood after it.

    One for each file that is opened; called from any thread.
    """

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def __call__(self, error: ChunkError) -> None:
        """Show the first error, and then each power of ten."""
        if error.key in self._keys:
            return
        self._keys.add(error.key)
        count = len(self._keys)
        if count == 1:
            # napari shows the first line, and the rest on a click.
            show((f"A part cannot be read; its place stays empty.\n{error}",))
        elif str(count).strip("0") == "1":
            show((f"{count} chunks cannot be read so far.\n{error.source_name}",))
