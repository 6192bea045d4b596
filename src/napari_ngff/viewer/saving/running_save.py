"""One save of a layer while it runs."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.labels.label_classes import (
    LabelClass,
    find_class_conflicts,
    keep_stored_classes,
)
from napari_ngff.labels.label_metadata import (
    read_label_info,
    rebase_label_info,
    write_label_info,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from napari_ngff.labels.label_writer import LabelWriter
    from napari_ngff.metadata.model import LabelInfo
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.store import Transaction
    from napari_ngff.viewer.saving.layer_description import DescriptionSnapshot

OFTEN = 10
"""Times a second that the progress of a save is emitted."""

BRIEFLY = 0.02
"""Seconds for which the main thread waits for files that are looked at again."""

COPY = (
    "{} is a copy of labels, and has no place in a file. Choose File ▸ Save Selected"
    " Layers..., or paint on the layer it was copied from."
)

RELEASED = "This layer has its edits no more: they were kept for later or discarded."

REOPEN = "Open the labels again, or choose Layers ▸ Annotate ▸ Restore edits…."


@dataclass(slots=True)
class RunningSave:
    """One save of a layer.

    Attributes
    ----------
    quiet, asks
        Whether the user did not ask for it, and whether the user may be asked.
    described
        Colours and properties when it began; None where they are not saved.
    conflicts
        Classes that another program changed, too.
    counts_voxels
        Whether it counts the voxels that it changes.
    cancelled, again
        Whether it stops after the present block, and whether another one follows.
    ended
        Whether its end was emitted, or is about to be.
    reported_at
        When its progress was emitted last.
    """

    quiet: bool = False
    asks: bool = False
    described: DescriptionSnapshot | None = None
    conflicts: tuple[tuple[LabelClass, LabelClass], ...] = ()
    counts_voxels: bool = False
    cancelled: bool = False
    again: bool = False
    ended: bool = False
    reported_at: float = 0.0

    def is_report_due(self) -> bool:
        """Return whether the progress is emitted now; then the next time is later."""
        now = time.monotonic()
        if now - self.reported_at < 1 / OFTEN:
            return False
        self.reported_at = now
        return True

    def put_info(
        self, info: LabelInfo, before: LabelInfo, node: Node, transaction: Transaction
    ) -> LabelInfo:
        """Put colours and properties into a transaction; returns what is put.

        What the layer changed is applied to what the file has now: another program may
        have changed other labels since it was opened.
        """
        stored = read_label_info(node)
        found = find_class_conflicts(info, before, stored)
        self.conflicts = found or self.conflicts
        info = keep_stored_classes(info, self.conflicts)
        write_label_info(node, rebase_label_info(info, before, stored), transaction)
        return info


class JournalUse:
    """Lets one at a time work with a journal, and end its use when nobody does."""

    def __init__(self) -> None:
        self._working = threading.Lock()
        self._ends: list[Callable[[], None]] = []

    @contextmanager
    def begin(self, seconds: float = -1) -> Iterator[bool]:
        """Work with the journal; gives whether it is free within some seconds.

        Parameters
        ----------
        seconds
            -1 to wait until it is.
        """
        is_free = self._working.acquire(timeout=seconds)
        try:
            yield is_free
        finally:
            if is_free:
                self._working.release()
                self._end_use()

    def end_by(self, end: Callable[[], None]) -> None:
        """Call something now, or else where the work ends; nobody waits for that."""
        self._ends.append(end)
        self._end_use()

    def _end_use(self) -> None:
        # Listed before the lock is asked for, and looked for after it is released: one
        # of two threads always sees it.
        while self._ends and self._working.acquire(blocking=False):
            try:
                for end in tuple(self._ends):
                    self._ends.remove(end)
                    end()
            finally:
                self._working.release()


def part_done(writer: LabelWriter, level: int, part: float) -> float:
    """Compute how much of a save is done from the part of the level that is written.

    A level counts by its number of voxels.
    """
    # As floats: the numbers of voxels of large pyramids overflow in the product.
    sizes = [float(np.prod(array.shape)) for array in writer.arrays]
    return (sum(sizes[:level]) + sizes[level] * part) / max(sum(sizes), 1)
