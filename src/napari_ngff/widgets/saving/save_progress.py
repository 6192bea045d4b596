"""Waits for saves, which the user may cancel meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEventLoop, Qt, QTimer
from qtpy.QtWidgets import QProgressDialog

from napari_ngff.widgets.dialogs import ask_question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.viewer.annotations.annotations import Annotation
    from napari_ngff.viewer.saving.layer_saver import LayerSaver

LOOK = 50
"""Milliseconds between two looks whether a save has ended."""

LAST_BLOCK = 5_000
"""Milliseconds in which a save that was cancelled can write its last block."""

UNSAVED = "Unsaved changes"


def wait_for_saves(
    parent: Any, savers: Sequence[LayerSaver] | Sequence[Annotation]
) -> None:
    """Block a window until saves have ended; the user may only cancel them.

    One that does not end then is left to its worker, with its edits in the journal.
    """
    if not any(saver.running for saver in savers):
        return
    dialog = QProgressDialog("Saving", "Cancel", 0, 100, parent)
    dialog.setWindowModality(Qt.WindowModality.WindowModal)
    dialog.setAutoReset(False)
    dialog.show()
    loop, looking, ending = QEventLoop(dialog), QTimer(dialog), QTimer(dialog)

    def show_progress() -> None:
        running = [saver for saver in savers if saver.running]
        done = len(savers) - len(running) + sum(saver.fraction for saver in running)
        dialog.setValue(int(100 * done / len(savers)))
        if not running:
            loop.quit()

    def cancel_saves() -> None:
        for saver in savers:
            saver.cancel()
        ending.start(LAST_BLOCK)

    ending.timeout.connect(loop.quit)
    looking.timeout.connect(show_progress)
    dialog.canceled.connect(cancel_saves)
    # Not by a signal of theirs, which might not come.
    looking.start(LOOK)
    loop.exec()
    # `close` emits `canceled`, and these saves are done.
    dialog.canceled.disconnect(cancel_saves)
    dialog.close()
    dialog.deleteLater()


def may_start(
    parent: Any, layers: Sequence[Any], action: str, *, needed: bool = False
) -> bool:
    """Ask whether to save painted changes first, and save them.

    Parameters
    ----------
    layers
        With unsaved changes; without any, nothing is asked.
    action
        What is about to begin, such as "convert".
    needed
        Whether it cannot begin without saving.

    Returns
    -------
    bool
        Whether to begin: all is saved, or the user wants it without the changes.
    """
    if not layers:
        return True
    save, without = f"Save and {action}", f"{action.capitalize()} without them"
    names = ", ".join(f"'{layer.name}'" for layer in layers)
    text = f"The changes of {names} are not in the file yet. Save them first?"
    answers = [save] if needed else [save, without]
    answer = ask_question(parent, UNSAVED, text, answers)
    if answer != save:
        return answer == without
    savers = [layer.saver for layer in layers]
    for saver in savers:
        saver.save()
    wait_for_saves(parent, savers)
    return not any(layer.unsaved for layer in layers)
