"""Saves painted labels every few minutes, if the user chose that."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_info

from napari_ngff.viewer.notices import shorten_name
from napari_ngff.viewer.painting.label_target import has_no_file
from napari_ngff.viewer.settings import autosave_minutes

if TYPE_CHECKING:
    from napari.components import ViewerModel

__all__ = ["LARGE", "AutoSaver"]

LARGE = 256 * 2**20
"""Bytes of an archive from which on it is not saved automatically, since a save writes
all of it."""

LEFT = (
    "Not saved automatically.\nEach save of {} writes all {} MB of {}. Your edits are"
    " safe in the journal. Press Ctrl+S to save them."
)


class AutoSaver:
    """Saves the labels of one viewer in the interval of the preference.

    Saves only layers with unsaved edits and a place in a file, in a worker, and never
    while a stroke is drawn. Nothing is asked; a failure is shown once, and so is that
    an archive is too large to be saved automatically.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = weakref.ref(viewer)
        # When each layer was saved last, or first seen with unsaved edits.
        self._since: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self._reported: weakref.WeakSet[Any] = weakref.WeakSet()

    def save_due(self, now: float) -> None:
        """Save layers that are due; called every few seconds, in the main thread.

        Parameters
        ----------
        now
            In seconds, of a clock that never goes back.
        """
        viewer = self._viewer()
        layers = () if viewer is None else viewer.layers
        unsaved = [layer for layer in layers if _is_unsaved(layer)]
        # napari reads the manifests of all plugins when it is asked for the first time.
        minutes = autosave_minutes() if unsaved else 0
        if minutes <= 0:
            self._since.clear()
            return
        for layer in set(self._since) - set(unsaved):
            # Saved meanwhile by hand: the interval begins again with the next stroke.
            del self._since[layer]
        for layer in unsaved:
            since = self._since.setdefault(layer, now)
            if now - since >= 60 * minutes and not layer.is_painting:
                self._since[layer] = now
                self._save_layer(layer)

    def _save_layer(self, layer: Any) -> None:
        archive = archive_of(layer.saver.journal.place[0])
        size = 0 if archive is None else archive.stat().st_size
        if archive is None or size < LARGE:
            layer.saver.save(quiet=True)
        elif layer not in self._reported:
            self._reported.add(layer)
            name = shorten_name(layer.name)
            show_info(LEFT.format(name, f"{size / 1e6:,.0f}", archive.name))


def _is_unsaved(layer: Any) -> bool:
    saver = getattr(layer, "saver", None)
    if saver is None or layer.read_only or saver.running:
        return False
    # Classes are in the journal; a field that is only looked at gets no labels.
    if saver.is_unpainted or has_no_file(layer):
        return False
    return bool(layer.unsaved)


def archive_of(store: str) -> Path | None:
    """Return the archive that contains a hierarchy; None for a folder.

    Parameters
    ----------
    store
        Path of the hierarchy; of one in an archive, that of the file and then inside.
    """
    store_path = Path(store)
    existing = (path for path in (store_path, *store_path.parents) if path.exists())
    file = next(existing, None)
    return file if file is not None and file.is_file() else None
