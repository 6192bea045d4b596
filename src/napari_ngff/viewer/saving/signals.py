"""What a saver emits."""

from __future__ import annotations

from psygnal import Signal

__all__ = ["OFTEN", "SaverSignals"]

OFTEN = 10
"""Times a second that the progress of a save is emitted."""


class SaverSignals:
    """Signals of one layer's saver, all emitted in the main thread."""

    dirty_changed = Signal(bool)
    """Emitted with whether anything is unsaved, when that changes."""

    progressed = Signal(float)
    """Emitted with the part that is done, 0 to 1, while a save goes on; 0 as it begins;
    at most `OFTEN` times a second."""

    saved = Signal(object)
    """Emitted with the `SaveResult` of a save after which all that was painted before
    it began is in the file, also where there was nothing to save.

    Nothing is being saved by then, unless Ctrl+S was pressed meanwhile: then the next
    save has begun. What was painted meanwhile is unsaved; `dirty_changed` came before.
    """

    failed = Signal(object)
    """Emitted with the `SaveResult` of a save after which something of that is not in
    the file; with None where the layer went meanwhile.

    An error, blocks that were refused, a save that was cancelled, colours that were not
    written, a name that is taken: the user was shown why. Each call of `save` that
    begins a save is answered once, by `saved` or by this; where the user gives another
    name for one that is taken, after the save under that name.
    """
