"""Saves annotations unasked: before another field is shown, and every few minutes."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_info

from napari_ngff.errors import OMEZarrError
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.notices import shorten_name
from napari_ngff.viewer.services.settings import autosave_minutes
from napari_ngff.viewer.services.window import Window, call_or

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.layers import Layer

    from napari_ngff.viewer.annotations.annotations import Annotation, Annotations


def save_before_leaving(
    annotations: Annotations, layers: Sequence[Layer], answer: Callable[..., None]
) -> None:
    """Save annotations, or ask what to do with them, before another field is shown.

    With the preference *Save when moving on* they are saved without a
    message. Without it, or if saving fails, the user is asked.

    Parameters
    ----------
    annotations
        Of the viewer of the layers.
    layers
        What is shown of the field.
    answer
        Called in the main thread, at once or later: see `Window.resolve_unsaved`.
    """
    viewer = annotations.viewer
    stay = partial(answer, None)
    again = partial(
        call_or, partial(save_before_leaving, annotations, layers, answer), stay
    )
    # No question comes in another one, and nothing is saved that it may discard.
    if Window.current.wait_for_answer(viewer, again):
        return
    present = {x: x.state for x in annotations if x.goes_with(layers)}
    drawn = next((x for x, state in present.items() if state.drawn), None)
    if drawn is not None and Window.current.can_ask(viewer):
        # The stroke that is being drawn belongs to the image on screen, to its end.
        drawn.call_after_stroke(again)
        return
    staying = [x.layer for x, state in present.items() if state.goes_along]
    left = [layer for layer in layers if layer not in staying]

    def call_after_saves(done: Callable[[], None]) -> None:
        go_on = partial(call_or, done, stay)
        _call_after_saves([*present], partial(_call_unasked, viewer, go_on, again))

    def resolve() -> None:
        answer(Window.current.resolve_unsaved(annotations, left))

    savable = [x for x in present if x.layer not in staying and not x.asks_for_file]
    unsaved = [x for x in savable if present[x].unsaved and not present[x].asks_name]
    if not (unsaved and settings.saves_when_moving_on()):
        call_after_saves(resolve)
        return

    def check_saved() -> None:
        failed = [x for x in unsaved if x.unsaved]
        if any(x.state.version != present[x].version for x in failed):
            again()  # painted on since the save began
        elif failed and not Window.current.can_ask(viewer):
            names = ", ".join(x.name for x in failed)
            text = f"{names}: Fix the problem, or remove these labels to continue."
            Window.current.show_messages((text,), "Labels not saved: the field stays.")
            stay()
        else:
            resolve()

    # Quietly: a failure is asked about below, and needs no second message.
    for annotation in unsaved:
        annotation.save(quiet=True)
    call_after_saves(check_saved)


def _call_unasked(
    viewer: Any, call: Callable[[], None], again: Callable[[], None]
) -> None:
    """Call a function; while a question is open, another one after the answer."""
    if not Window.current.wait_for_answer(viewer, again):
        call()


def save_all(annotations: Annotations) -> None:
    """Save all annotations of a viewer that have a place in a file, and wait.

    Raises
    ------
    OMEZarrError
        Where some are not saved; it names them.
    """
    unsaved = [x for x in annotations.list_savable() if not x.asks_for_file]
    states = {x: x.state for x in unsaved}
    for annotation, state in states.items():
        if not (state.with_image or state.asks_name):
            annotation.save(quiet=True)
    Window.current.wait_for(partial(_call_after_saves, unsaved))
    titles = [x.title for x in unsaved if x.unsaved]
    if titles:
        msg = f"Not saved: {', '.join(titles)}."
        raise OMEZarrError(msg, remedy="Save them in the window.")


def _call_after_saves(
    annotations: Sequence[Annotation], done: Callable[[], None]
) -> None:
    """Call a function when no save of annotations is running, at once if none is."""
    signals = [signal for x in annotations for signal in x.ended]

    def check_ended(_: Any = None) -> None:
        if not any(x.running for x in annotations):
            for signal in signals:
                signal.disconnect(check_ended, missing_ok=True)
            done()

    for signal in signals:
        # Connected before the first look, so that no end is missed.
        signal.connect(check_ended)
    check_ended()


LARGE = 256 * 2**20
"""Bytes of an archive from which on it is not saved automatically, since a save writes
all of it."""

LEFT = (
    "Not saved automatically.\nEach save of {} writes all {} MB of {}. Your edits are"
    " safe in the journal. Press Ctrl+S to save them."
)


class AutoSaver:
    """Saves the annotations of one viewer in the interval of the preference.

    Saves only what has a place in a file, in a worker, and never while a stroke is
    drawn. Nothing is asked; a failure is shown once, and so is that an archive is too
    large to be saved automatically.
    """

    def __init__(self, annotations: Annotations) -> None:
        self._annotations = annotations
        # When each was saved last, or first seen with unsaved changes.
        self._since: weakref.WeakKeyDictionary[Annotation, float]
        self._since = weakref.WeakKeyDictionary()
        self._reported: weakref.WeakSet[Annotation] = weakref.WeakSet()

    def save_due(self, now: float) -> None:
        """Save what is due; called every few seconds, in the main thread.

        Parameters
        ----------
        now
            In seconds, of a clock that never goes back.
        """
        # Who is asked may want to discard it.
        if Window.current.wait_for_answer(self._annotations.viewer):
            return
        states = {x: x.state for x in self._annotations if not x.asks_for_file}
        unsaved = [
            x
            for x, state in states.items()
            if state.unsaved
            and not (state.running or state.goes_along)
            and not (state.with_image or state.asks_name)
        ]
        # napari reads the manifests of all plugins when it is asked for the first time.
        minutes = autosave_minutes() if unsaved else 0
        if minutes <= 0:
            self._since.clear()
            return
        for annotation in set(self._since) - set(unsaved):
            # Saved meanwhile by hand: the interval begins again with the next stroke.
            del self._since[annotation]
        for annotation in unsaved:
            since = self._since.setdefault(annotation, now)
            if now - since >= 60 * minutes and not states[annotation].drawn:
                self._since[annotation] = now
                self._save(annotation)

    def _save(self, annotation: Annotation) -> None:
        archive = annotation.archive
        size = 0 if archive is None else archive.stat().st_size
        if archive is None or size < LARGE:
            annotation.save(quiet=True)
        elif annotation not in self._reported:
            self._reported.add(annotation)
            name = shorten_name(annotation.name)
            show_info(LEFT.format(name, f"{size / 1e6:,.0f}", archive.name))
