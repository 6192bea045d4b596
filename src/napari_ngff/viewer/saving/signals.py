"""Signals that a saver emits."""

from __future__ import annotations

from psygnal import Signal

__all__ = ["OFTEN", "SaverSignals"]

OFTEN = 10
"""Times a second that the progress of a save is emitted."""


class SaverSignals:
    """Signals of one layer's saver, all emitted in the main thread."""

    dirty_changed = Signal(bool)
    """Emitted when the layer gets its first unsaved change, or loses its last one; with
    whether anything is unsaved."""

    progressed = Signal(float)
    """Emitted while a save runs, with the part that is done, 0 to 1; first with 0, and
    at most `OFTEN` times a second."""

    saved = Signal(object)
    """Emitted with the `SaveResult` when all that was painted before the save is in the
    file, also where there was nothing to save.

    The save has ended by then; if Ctrl+S was pressed meanwhile, the next one has begun.
    Strokes that were painted meanwhile are unsaved; `dirty_changed` is emitted before.
    """

    failed = Signal(object)
    """Emitted with the `SaveResult` when some of it is not in the file; with None where
    the layer was removed meanwhile.

    That is after an error, refused blocks, a cancelled save, colours that were not
    written, or a name that is taken; the user was shown the reason. Each save ends with
    one of `saved` and `failed`. Where the user gives another name for one that is
    taken, that is emitted after the save under the other name.
    """
