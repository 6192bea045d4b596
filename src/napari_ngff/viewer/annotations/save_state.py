"""Computes what the controls of a layer show about saving."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ngff.labels.saving.dirty_count import MOST, ChangedBlocks
from napari_ngff.viewer.annotations.object_class_annotation import (
    ObjectClassAnnotation,
    find_classes,
)
from napari_ngff.viewer.annotations.sidecars import BEING_COPIED
from napari_ngff.viewer.painting.painted_layers import COPY
from napari_ngff.viewer.services.window import Window, attempt_work

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.labels.edits import Edit
    from napari_ngff.labels.label_writer import LabelWriter
    from napari_ngff.viewer.annotations.annotations import Annotations
    from napari_ngff.viewer.painting.paint import OMEZarrLabels
    from napari_ngff.viewer.saving.layer_saver import LayerSaver


@dataclass(frozen=True, slots=True)
class SaveState:
    """Text and buttons of the controls of saving.

    Attributes
    ----------
    text
        A few words: "No changes", "Unsaved changes", "Saving 40 %", "Saved 14:03".
    detail
        For the tool tip: the number of chunks, or a reason; or "".
    saves
        Whether there is anything to save.
    cancels
        Whether a save runs, and can be cancelled.
    copies
        Whether the labels are read-only, and a copy of them can be painted.
    """

    text: str
    detail: str = ""
    saves: bool = False
    cancels: bool = False
    copies: bool = False


class SaveWatch:
    """Reads the state of one layer; cheap enough to be asked several times a second.

    Blocks are counted in a worker, and not while a stroke is drawn.

    Parameters
    ----------
    layer
        Painted labels.
    counted
        Called when blocks have been counted.
    """

    def __init__(self, layer: OMEZarrLabels, counted: Callable[[], None]) -> None:
        self._layer = layer
        self._on_counted = counted
        self._counted: object = None
        self._counting = False
        self._count = 0
        self._writer: LabelWriter | None = None
        self._blocks: ChangedBlocks | None = None

    def read_state(self, owner: Annotations | None = None) -> SaveState:
        """Return the present state, also that of classes of the objects."""
        state = self._read_pixels()
        if state.cancels or find_unsaved_classes(owner, self._layer) is None:
            return state
        text = "Unsaved changes" if state.saves else "Unsaved classes"
        detail = f"{state.detail} Classes of objects to save.".strip()
        return replace(state, text=text, detail=detail, saves=True)

    def _read_pixels(self) -> SaveState:
        layer, saver = self._layer, self._layer.saver
        if layer.read_only:
            copying = layer.read_only.startswith(BEING_COPIED)
            text = BEING_COPIED.capitalize() if copying else "Read-only"
            copies = layer.read_only.endswith(COPY)
            return SaveState(text, layer.read_only, copies=copies)
        if saver is None:
            return SaveState("Not in a file", "Choose File ▸ Save Selected Layers...")
        if saver.running:
            return SaveState(saver.note, cancels=True)
        if not layer.unsaved:
            return SaveState(saver.note or "No changes", saver.detail)
        self._count_again(layer, saver)
        text = "Unsaved changes"
        if saver.journal.trouble is not None:
            text = "Unsaved changes, not protected from a crash"
        detail = " ".join(
            [self._count_changes(saver), f"{saver.note}." * bool(saver.note)]
        )
        return SaveState(text, detail.strip(), saves=True)

    def _count_changes(self, saver: LayerSaver) -> str:
        if self._count > MOST:
            return f"Over {MOST} chunks to save."
        if self._count:
            return f"{self._count} chunk{'s' * (self._count > 1)} to save."
        described = saver.description is not None and saver.description.is_changed
        return "Colours or properties to save." if described else ""

    def _count_again(self, layer: OMEZarrLabels, saver: LayerSaver) -> None:
        # The note changes with each save, after which there are other blocks to count.
        state = layer.canvas.version, saver.note, saver.writer
        if self._counting or layer.is_painting or state == self._counted:
            return
        self._counted = state
        if self._blocks is None or saver.writer is not self._writer:
            self._writer = saver.writer
            self._blocks = _changed_blocks(layer, saver.writer)
        edits: tuple[Edit, ...] = layer.canvas.edits
        writer = saver.writer
        if writer is not None:
            edits = writer.unsaved_edits
        self._counting = True
        # Taken here: in the worker `self._blocks` may be those of another writer by
        # then.
        blocks = self._blocks

        def count() -> int:
            return blocks.count_blocks(
                edits, () if writer is None else writer.unsaved_cells
            )

        Window.current.run_work(lambda: attempt_work(count), self._take_count)

    def _take_count(self, count: int | str) -> None:
        self._counting = False
        if isinstance(count, str):
            Window.current.show_messages((count,), "Changed chunks cannot be counted.")
        else:
            self._count = count
            self._on_counted()


def find_unsaved_classes(
    owner: Annotations | None, layer: OMEZarrLabels
) -> ObjectClassAnnotation | None:
    """Return the classes of the objects of a layer, if any is not saved; else None."""
    found = None if owner is None else find_classes(owner, layer)
    return found if found is not None and found.unsaved else None


def _changed_blocks(layer: OMEZarrLabels, writer: LabelWriter | None) -> ChangedBlocks:
    shape = layer.canvas.shape
    if writer is None:
        chunks = layer.canvas.levels[0].chunks
        return ChangedBlocks(shape, tuple(range(len(shape))), chunks)
    return ChangedBlocks(shape, writer.order, writer.arrays[0].chunks)
