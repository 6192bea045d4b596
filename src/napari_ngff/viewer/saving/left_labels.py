"""Keeps the edits of labels whose field was left: they can be undone after a return."""

from __future__ import annotations

import atexit
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.saving.before_images import file_array_of
from napari_ngff.labels.saving.journal_records import KeptClasses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.labels.journal import Journal
    from napari_ngff.labels.label_writer import LabelWriter
    from napari_ngff.store.arrays.lazy_array import ArraySource

MOST = 24
"""Label images whose edits are kept; each has three open files."""

MOST_BYTES = 1 << 28
"""Bytes of all their journals: the edits, and blocks as they were before."""


@dataclass(frozen=True, slots=True, eq=False)
class LeftLabels:
    """Labels with saved edits that no layer shows any more.

    Attributes
    ----------
    writer
        Of their canvas, which has the edits.
    journal
        Of that canvas; no other process uses it.
    nbytes
        Of the journal.
    """

    writer: LabelWriter
    journal: Journal
    nbytes: int

    def fits(self, sources: Sequence[ArraySource]) -> bool:
        """Return whether levels that were opened again are still these."""
        try:
            files = [file_array_of(source) for source in sources]
        except UnsupportedError:
            return False
        shapes = [tuple(source.shape) for source in sources]
        known = [level.shape for level in self.writer.canvas.levels]
        return shapes == known and all(
            order == self.writer.order and array.layout.is_stored_like(old.layout)
            for (array, order), old in zip(files, self.writer.arrays, strict=False)
        )

    @property
    def is_alone(self) -> bool:
        """Return whether no other journal has edits of these labels, to be restored."""
        with suppress(OSError):
            return len(list(self.journal.folder.parent.iterdir())) == 1
        return True


_left: dict[tuple[str, str], LeftLabels] = {}


def keep_left(writer: LabelWriter, journal: Journal) -> None:
    """Keep labels that are saved and left; the oldest ones of too many are dropped."""
    sizes = [0]
    with suppress(OSError):
        sizes += [path.stat().st_size for path in journal.folder.iterdir()]
    writer.canvas.forget_patches()
    older = _left.pop(journal.place, None)
    if older is not None:  # of a second layer of these labels
        older.journal.remove()
    _left[journal.place] = LeftLabels(writer, journal, sum(sizes))
    while len(_left) > MOST or sum(one.nbytes for one in _left.values()) > MOST_BYTES:
        _left.pop(next(iter(_left))).journal.remove()


def take_left(
    place: tuple[str, str], sources: Sequence[ArraySource]
) -> LeftLabels | None:
    """Take labels that were left, to be shown again; None where there are none.

    Parameters
    ----------
    place
        Store and path of the label image.
    sources
        Its levels, which were opened again.
    """
    left = _left.pop(place, None)
    if left is None:
        return None
    if left.fits(sources) and left.is_alone:
        # Others may have renamed classes meanwhile: those of the file count.
        left.journal.classes = KeptClasses()
        return left
    left.journal.remove()
    return None


@atexit.register
def _remove_all() -> None:
    while _left:
        _left.popitem()[1].journal.remove()
