"""Saves annotations every few minutes, if the user chose that."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from napari.utils.notifications import show_info

from napari_ngff.viewer.services.notices import shorten_name
from napari_ngff.viewer.services.settings import autosave_minutes

if TYPE_CHECKING:
    from napari_ngff.viewer.annotations.annotations import Annotation, Annotations

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
