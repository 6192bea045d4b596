"""The journals of layers: which could be restored now, and the end of one."""

from __future__ import annotations

from napari_ngff.labels.journal import find_journals, read_journal


def journals_of(saver):
    """List journals of a layer's labels that no process holds and whose shape fits."""
    folders = find_journals(*saver.journal.place)
    shape = saver.journal.canvas.shape
    return [folder for folder in folders if read_journal(folder).shape == shape]


def discard_edits(saver):
    """Delete the journal with its edits, as after the answer *Discard*."""
    saver.wanted = False
    saver.keep_journal()
