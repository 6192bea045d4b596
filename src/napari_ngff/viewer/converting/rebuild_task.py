"""The state behind the form *Rebuild pyramid*."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_ngff.store.convert.rebuild_preview import (
    RebuildPreview,
    RebuildWords,
    preview_rebuild,
    run_rebuild,
)
from napari_ngff.viewer import window_services
from napari_ngff.viewer.converting.form_task import FormTask
from napari_ngff.viewer.converting.layer_sources import layers_below
from napari_ngff.viewer.latest_task import LatestTask
from napari_ngff.viewer.notices import last_part, shorten_message
from napari_ngff.viewer.session import session_of

if TYPE_CHECKING:
    from napari.components import ViewerModel

__all__ = ["RebuildTask"]

STOPPED = (
    "Cancelled. The image and its labels are valid, with levels as before, or fewer."
    " Rebuild again to complete them."
)

NOTE = "Not saved yet: changes of {}. They have to be saved first."


class RebuildTask(FormTask):
    """What the form shows: it asks, and this decides.

    Attributes
    ----------
    words
        What is asked for.
    preview
        What it comes to; None until that is known.
    made
        Paths of the levels that were made last; None before.
    """

    # Levels that were finished and are not listed yet are removed.
    grace = 60.0

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self.words = RebuildWords()
        self.preview: RebuildPreview | None = None
        self.made: tuple[str, ...] | None = None
        self._looking = LatestTask()

    @property
    def can_start(self) -> bool:
        """Return whether there is nothing to be changed before."""
        preview = self.preview
        return not self.is_running and preview is not None and not preview.mistakes

    @property
    def estimate(self) -> str:
        """What would be made, read and written."""
        if self.preview is not None:
            return self.preview.text
        return "Reading…" if self.is_busy else ""

    @property
    def note(self) -> str:
        """What to know before the start."""
        names = ", ".join(layer.name for layer in self.unsaved())
        return NOTE.format(names) if names and not self.is_running else ""

    def unsaved(self) -> list[Any]:
        """List layers of the image, or its labels, with changes that are not saved."""
        return [layer for layer in self.open_layers() if getattr(layer, "unsaved", 0)]

    def open_layers(self) -> list[Any]:
        """List the layers that show the image or its labels."""
        viewer = self.viewer
        if viewer is None or self.preview is None:
            return []
        return layers_below(viewer.layers, self.preview.place)

    def ask(self, words: RebuildWords) -> None:
        """Take what is chosen; looks at the file in a worker."""
        if self.is_running or words == self.words:
            return
        self.words, self.made, self.status = words, None, ""
        self.look_again()

    def look_again(self) -> None:
        """Check and estimate what is asked for, in a worker."""
        self.preview, self.mistakes, self.is_busy = None, {}, True
        words = self.words
        self._looking.start(
            lambda _: preview_rebuild(words), self._take_preview, self._refuse_preview
        )
        self.changed.emit()

    def _take_preview(self, preview: RebuildPreview) -> None:
        self.is_busy, self.preview = False, preview
        self.mistakes = {
            name: shorten_message(text) for name, text in preview.mistakes.items()
        }
        if "" in self.mistakes:
            self.status = self.mistakes[""]
        self.changed.emit()

    def _refuse_preview(self, reason: str) -> None:
        self.is_busy, self.status = False, reason
        self.changed.emit()

    def start(self) -> None:
        """Make the levels again; not while there are unsaved changes."""
        if self.can_start and not self.unsaved():
            title = f"Rebuilding {last_part(self.words.source)}"
            self.run_job(
                title, run_rebuild, (self.words,), self._on_done, self._on_failed
            )

    def _on_done(self, made: tuple[str, ...]) -> None:
        self.made = made
        self.status = f"Done. Levels: {', '.join(made) or 'none'}."

    def _on_failed(self, error: Exception) -> None:
        if isinstance(error, InterruptedError):
            self.status = STOPPED
        else:
            self.show_error(error)

    @property
    def is_browsed(self) -> bool:
        """Return whether the browser of a plate owns layers of the image."""
        viewer = self.viewer
        browser = None if viewer is None else session_of(viewer).browser
        owned = browser is not None and any(map(browser.owns_layer, self.open_layers()))
        return bool(owned)

    def close_layers(self) -> bool:
        """Remove the layers that show the image as it was; False where they stay."""
        viewer, layers = self.viewer, self.open_layers()
        if viewer is None or not window_services.resolve_unsaved(viewer, layers):
            return False
        for layer in layers:
            viewer.layers.remove(layer)
        return True
