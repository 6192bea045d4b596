"""Labels as annotations: saved by the saver of their layer, kept by its journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from napari_ngff.viewer.annotations.annotations import (
    KEEPS,
    Annotation,
    Annotations,
    AnnotationState,
)
from napari_ngff.viewer.layers.label_owners import TARGET, has_no_file, image_address
from napari_ngff.viewer.painting.paint import save_labels
from napari_ngff.viewer.services.notices import last_part
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psygnal import SignalInstance

    from napari_ngff.viewer.saving.layer_saver import LayerSaver

KEEPS_FOR_IMAGE = (
    "'Keep for later' lets you restore them: open the image, and choose"
    " Layers ▸ Annotate ▸ Restore edits…."
)

NO_FILE = "The image of {} is not an OME-Zarr: Save asks where both are saved as one."

PARTIAL = "Part of them is in the file already; Save completes it."

DESCRIBED = (
    "It keeps strokes and classes; other changes of colours and properties are lost"
    " unless you save."
)


class LabelAnnotation(Annotation):
    """The labels that a layer shows; a layer of a plate shows others in each field."""

    @classmethod
    @override
    def attach(cls, owner: Annotations, layer: Any) -> None:
        if not hasattr(layer, "saver"):
            return
        if owner.of_layer(layer) is None:
            owner.add(cls(owner, layer))
        if layer.saver is not None:
            for name in ("dirty_changed", "saved", "failed"):
                getattr(layer.saver, name).connect(owner.note_change, unique=True)

    @property
    def saver(self) -> LayerSaver | None:
        """Saver of the layer; None for labels without a place in a file."""
        saver: LayerSaver | None = getattr(self.layer, "saver", None)
        return saver

    @property
    @override
    def image(self) -> str:
        return image_title(self.owner, self.layer)

    @property
    @override
    def state(self) -> AnnotationState:
        layer, saver = self.layer, self.saver
        if saver is None:
            # Read-only labels show why they are not saved.
            return AnnotationState(unsaved=False, takes_key=bool(layer.read_only))
        with_image, keeps = has_no_file(layer), KEEPS
        if with_image:
            # Edits of other images are found again only if these have a file.
            keeps = KEEPS_FOR_IMAGE if layer.metadata[TARGET].image_file else ""
        is_described = saver.description is not None and saver.description.is_changed
        remarks = {
            PARTIAL: saver.partial,
            NO_FILE: with_image,
            DESCRIBED: is_described and bool(keeps),
        }
        return AnnotationState(
            bool(layer.unsaved),
            saver.running,
            saver.fraction,
            drawn=bool(layer.is_painting),
            restored=saver.is_restored,
            # Their classes go along, so that nothing is written of a field that is only
            # looked at.
            goes_along=saver.is_unpainted,
            with_image=with_image,
            subject=saver,
            version=layer.canvas.version,
            keeps=keeps,
            remarks=[text for text, is_so in remarks.items() if is_so],
        )

    @property
    @override
    def ended(self) -> Sequence[SignalInstance]:
        return () if self.saver is None else (self.saver.saved, self.saver.failed)

    @property
    @override
    def archive(self) -> Path | None:
        return None if self.saver is None else archive_of(self.saver.journal.place[0])

    @override
    def call_after_stroke(self, done: Callable[[], None]) -> None:
        ended = self.layer.stroke_ended

        def check_ended() -> None:
            ended.disconnect(check_ended)
            # Not yet: napari is still busy with the stroke.
            Window.current.run_work(lambda: None, lambda _: done())

        ended.connect(check_ended)

    @override
    def save(self, *, quiet: bool = False) -> None:
        if quiet and self.saver is not None:
            self.saver.save(quiet=True)
        else:
            save_labels(self.layer)

    @override
    def cancel(self) -> None:
        if self.saver is not None:
            self.saver.cancel()

    @override
    def may_keep(self) -> bool:
        return self.saver is None or self.saver.can_keep()

    @override
    def plan_leave(self, *, keep: bool) -> None:
        if self.saver is not None:
            self.saver.wanted = keep

    @override
    def leave(self, *, keep: bool) -> None:
        if self.saver is not None:
            self.plan_leave(keep=keep)
            self.saver.keep_journal()

    @override
    def note_removed(self) -> None:
        saver = self.saver
        if saver is not None and self.unsaved and not saver.is_released:
            self.owner.removed.emit(self.layer)


def image_title(owner: Annotations, layer: Any) -> str:
    """Name the image of labels: "B3 - field 2", "cells.ome.zarr" or "" without file."""
    if has_no_file(layer):
        return ""
    return owner.title_of(layer) or last_part(image_address(layer))


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
