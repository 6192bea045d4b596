"""One save of a layer while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.labels.label_classes import find_class_conflicts, keep_stored_classes
from napari_ngff.labels.label_metadata import (
    read_label_info,
    rebase_label_info,
    write_label_info,
)

if TYPE_CHECKING:
    from napari_ngff.labels.label_classes import LabelClass
    from napari_ngff.metadata.model import LabelInfo
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.write.transaction import Transaction
    from napari_ngff.viewer.saving.layer_description import DescriptionSnapshot

OFTEN = 10
"""Times a second that the progress of a save is emitted."""

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
