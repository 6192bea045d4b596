"""The progress of one save, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from napari_ngff.errors import ConflictError

if TYPE_CHECKING:
    from napari_ngff.labels.edits import Edit
    from napari_ngff.metadata.model import Problem

Progress = Callable[[int, int, int], None]
"""Called with the level, how many of its objects are done, and of how many; or with
`ARCHIVE` and bytes."""

ARCHIVE = -1
"""In place of a level: the archive that holds all of them is written anew."""


@dataclass(frozen=True, slots=True)
class SaveOutcome:
    """The result of a save.

    Attributes
    ----------
    blocks
        Of level 0: those that edits touch, or touched, and that the file has now.
    objects
        Stored objects that were written or removed, of all levels.
    refused
        Why other objects stay as they are; their edits are still unsaved.
    cancelled
        Whether it was stopped; the next save goes on from there.
    problems
        What breaks a MUST in the metadata of the label image now, and did not before.
    conflict
        Whether others changed what is refused; it was read again, and saving once more
        puts the edits on top.
    idle
        Whether there was nothing to save.
    """

    blocks: int = 0
    objects: int = 0
    refused: tuple[str, ...] = ()
    cancelled: bool = False
    problems: tuple[Problem, ...] = ()
    conflict: bool = False
    idle: bool = False


@dataclass(slots=True)
class SaveRun:
    """One save while it runs; see `SaveOutcome`."""

    progress: Progress | None
    cancel: Callable[[], bool] | None
    blocks: int = 0
    objects: int = 0
    refused: list[str] = field(default_factory=list)
    cancelled: bool = False
    conflict: bool = False
    done: dict[int, int] = field(default_factory=dict)

    def check_cancel(self) -> bool:
        """Return False if the save is to stop."""
        # Once cancelled, it stays so: threads ask independently of each other.
        if not self.cancelled and self.cancel is not None and self.cancel():
            self.cancelled = True
        return not self.cancelled

    def report_object(self, level: int, total: int) -> None:
        """Report that one more object of a level is done."""
        self.done[level] = self.done.get(level, 0) + 1
        if self.progress is not None:
            self.progress(level, self.done[level], total)

    def make_outcome(
        self, problems: tuple[Problem, ...], idle: bool = False
    ) -> SaveOutcome:
        """Make the outcome of the save."""
        return SaveOutcome(
            self.blocks,
            self.objects,
            tuple(self.refused),
            self.cancelled,
            problems,
            self.conflict,
            idle,
        )

    def note_refused(self, error: Exception) -> None:
        """Note why an object was not written."""
        self.refused.append(str(error))
        self.conflict |= isinstance(error, ConflictError)

    def report_archive(self, done: int, total: int) -> bool:
        """Report progress of the archive; return False if the save is to stop."""
        if self.progress is not None:
            self.progress(ARCHIVE, done, total)
        return self.check_cancel()


def count_common(first: Sequence[Edit], second: Sequence[Edit]) -> int:
    """Count the edits that two logs have in common at their beginning."""
    # By identity: edits never change, and comparing large masks would take long.
    pairs = enumerate(zip(first, second, strict=False))
    shorter = min(len(first), len(second))
    return next((i for i, (edit, other) in pairs if edit is not other), shorter)
