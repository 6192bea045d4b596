"""Unsaved edits on the local disk, from which they are recovered after a crash.

A journal is a folder in the user's data: ``edits.jsonl``, to which every change of the
log is appended, and ``before.bin``, with the blocks that a save has overwritten
(`BeforeImages`). A save that was killed is repeated from these blocks, so that no edit
is applied to its own result. A journal that no process holds open can be recovered.

If a journal cannot be written, this is reported; painting and saving continue.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import queue
import shutil
import sys
import threading
import uuid
import weakref
from typing import IO, TYPE_CHECKING, Any

from napari_ngff.labels.edits import Edit, dump_edit
from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.labels.saving.journal_cleanup import folder_identity, remove_orphans
from napari_ngff.labels.saving.journal_records import (
    EDITS,
    JournalContent,
    JournalHead,
    JournalSubject,
    KeptClasses,
    dump_record,
    read_journal,
)
from napari_ngff.labels.saving.save_run import count_common
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.threads import go_on_after_error
from napari_ngff.store.write.append_log import AppendLog
from napari_ngff.store.write.file_lock import hold_file, is_held

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from pathlib import Path

    from napari_ngff.labels.canvas import Canvas

__all__ = [
    "INTERVAL",
    "LOCK",
    "Journal",
    "JournalContent",
    "delete_journal",
    "find_journals",
    "journal_home",
    "read_journal",
    "release_later",
    "replace_journal",
]

MOST_TRIES = 10
"""Attempts to make a folder whose parents another process deletes meanwhile."""

INTERVAL = 0.5
"""Seconds between two looks at the log."""

BEFORE, LOCK = "before.bin", "lock"


def journal_home() -> Path:
    """Return the folder of all journals."""
    return data_folder() / "journal"


class Journal:
    """The journal of one canvas; nothing is written before something is unsaved.

    Parameters
    ----------
    store, path
        Of the label image: where its hierarchy is, and its path there.
    canvas
        Whose log is kept.
    folder
        Of a journal to be taken over. Nothing is written into it before the canvas has
        its edits.
    subject
        What is edited.
    report
        Called with the error, from any thread, where something cannot be written; the
        same cause is reported once until writing works again.

    Attributes
    ----------
    place
        Store and path of the label image.
    trouble
        Why the edits are not on the disk; None where they are.
    classes
        Of the labels; kept with the edits, and alone where they are unsaved.
    before_images
        What saves have overwritten.
    content
        What the journal held when it was taken over.
    """

    def __init__(
        self,
        store: str,
        path: str,
        canvas: Canvas,
        folder: Path | None = None,
        *,
        subject: JournalSubject | None = None,
        report: Callable[[Exception], None] | None = None,
    ) -> None:
        self.canvas = canvas
        self.place = store, path
        self.subject = subject or JournalSubject(name=path.rpartition("/")[2])
        self.trouble: Exception | None = None
        self._report = report
        self._written: tuple[Edit, ...] = ()
        # Of all edits in the file, also if it was undone.
        self._last: Edit | None = None
        self._written_lasting = 0
        self._saved: tuple[Edit, ...] = ()
        self.classes = self._written_classes = KeptClasses()
        # Reentrant: `note_saving` syncs first. Held by the ticker's thread and by
        # savers.
        self._guard = threading.RLock()
        self._closed = False
        self._unflushed = False
        self._repeats_saved = False
        # True until the canvas has the recovered edits.
        self._awaits_edits = folder is not None
        self._version = 0
        # Held as long as the journal is in use; other processes recover only free ones.
        self._lock: IO[bytes] | None = None
        self._file: AppendLog | None = None
        self._open = contextlib.ExitStack()
        # Not at the end of the process, when the last edits are still to be written.
        weakref.finalize(self, self._open.close).atexit = False
        # A folder per journal: two windows may edit the same labels.
        self.folder = folder or _journal_folder(store, path) / uuid.uuid4().hex
        self.before_images = BeforeImages(self._open_before, True, self._report_error)
        self.content = JournalContent()
        if folder is not None:
            self._take_over_folder()
        _watch_journal(self)

    def note_restored(self) -> None:
        """Note that the canvas has the recovered edits: what it lacks was undone."""
        with self._guard:
            self._awaits_edits = False

    def _take_over_folder(self) -> None:
        """Read the journal that the folder has, and continue it."""
        self._lock_folder()
        self.content = read_journal(self.folder)
        self._written = self.content.edits
        self._written_lasting = self.content.lasting
        self._saved = self.content.saved
        self.classes = self._written_classes = self.content.classes
        file = self._open.enter_context(self._open_edits())
        # Later records must not follow one that a crash or a full disk cut off.
        file.truncate(self.content.end)
        self._file = AppendLog(file)
        self.before_images.load()

    def _open_edits(self) -> IO[bytes]:
        # Unbuffered, as `AppendLog` needs it.
        return (self.folder / EDITS).open("ab", buffering=0)

    def _open_before(self) -> IO[bytes]:
        with self._guard:
            self._open_file()
            return (self.folder / BEFORE).open("a+b", buffering=0)

    def _lock_folder(self) -> None:
        if self._lock is None:
            self._lock = self._open.enter_context(hold_file(self.folder / LOCK))

    def _open_file(self) -> None:
        if self._file is None:
            _make_folder(self.folder)
            above = folder_identity(self.place[0])
            head = JournalHead(*self.place, self.canvas.shape, self.subject, above)
            # Made before the file: a head that cannot be stated must not leave an empty
            # file.
            record = dump_record(head.dump())
            with contextlib.ExitStack() as opened:
                # Before any record, since others may recover a journal that is not
                # locked.
                self._lock_folder()
                file = AppendLog(opened.enter_context(self._open_edits()))
                file.append(record)
                # Only a file with its head is kept; else the next call begins again.
                self._open.enter_context(opened.pop_all())
            self._file = file

    def _report_error(self, error: Exception) -> None:
        """Report that something could not be written; the same cause only once."""
        before, self.trouble = self.trouble, error
        if self._report is not None and _error_cause(before) != _error_cause(error):
            self._report(error)

    def sync(self) -> None:
        """Append what changed since the last call, and wait until it is on the disk.

        Raises
        ------
        OSError
            Where it cannot be written.
        """
        with self._guard:
            version = self.canvas.version
            edits, starts = self.canvas.edits_and_starts
            written = self._written
            classes = self.classes
            renamed = self._lacks_classes(classes)
            if self._closed or (edits is written and not renamed):
                return
            # The log is a stack: after the common edits some were undone, and others
            # made.
            same = count_common(written, edits)
            # The canvas does not have the recovered edits yet: they are not undone.
            if self._awaits_edits and same < len(written):
                return
            self._awaits_edits = False
            if same == len(written) == len(edits) and not renamed:
                self.trouble = None
                return
            self._open_file()
            records = _list_changes(same, len(written), edits, starts, self._last)
            lasting = self.canvas.log.undo_limit
            if lasting != self._written_lasting:
                records.append({"lasting": lasting})
            # Of a journal that begins now, they were no reason to begin it.
            if classes != self._written_classes:
                records.append({"classes": classes.text, "unsaved": classes.unsaved})
            if self._repeats_saved and self._saved:
                records.append(_save_record("saved", self._saved, edits))
            self._append_records(*records)
            self._repeats_saved = False
            self._written, self._written_lasting = edits, lasting
            self._last = [self._last, *edits[same:]][-1]
            self._written_classes = classes
            # What was appended is noted before this, so a flush that fails appends
            # nothing twice; `flush_records` tries it again.
            self._flush_file()
            self._version = version
            self.trouble = None

    def _lacks_classes(self, classes: KeptClasses) -> bool:
        """Return whether classes are to be written, even without an edit."""
        # Classes that the file has are no reason to begin a journal.
        begun = self._file is not None or classes.unsaved
        return begun and classes != self._written_classes

    def sync_if_changed(self) -> bool:
        """Do `sync` if anything changed; report an error; return whether it worked."""
        try:
            if (
                self._lacks_classes(self.classes)
                or self.canvas.version != self._version
            ):
                self.sync()
        # Of any kind: no error may end the thread of all journals, or go unseen.
        except Exception as error:  # noqa: BLE001
            self._report_error(error)
            return False
        self.flush_records()
        return True

    def flush_records(self) -> None:
        """Wait until all records are on the disk, or report that they are not."""
        with self._guard:
            if self._unflushed and not self._closed:
                try:
                    self._flush_file()
                except OSError as error:
                    self._report_error(error)

    def note_saving(self, edits: tuple[Edit, ...], token: str = "") -> None:
        """Note that a save of these edits begins.

        Call `flush_records` before the save replaces any object.

        Where that fails, it is reported, and the save goes on without the journal.

        Parameters
        ----------
        token
            Of the transaction that writes.
        """
        with self._guard:
            self._note_save("saving", edits, {"token": token})

    def note_saved(self, edits: tuple[Edit, ...]) -> None:
        """Note that these edits are in the file, on the disk, at all levels.

        A loss of power may take this note away: then edits are recovered that the file
        has already, which changes nothing. Where it cannot be written, the edits of
        before are removed, so that nobody is offered what is saved.
        """
        with self._guard:
            self._saved = edits
            # A full disk: truncating needs no room, and no edit is offered twice.
            if not self._note_save("saved", edits):
                self._restart_file()

    def _note_save(
        self, word: str, edits: tuple[Edit, ...], more: Mapping[str, str] | None = None
    ) -> bool:
        if self._closed:
            return True
        try:
            # The record counts edits of the journal, so these have to be in it first.
            self.sync()
            if self._file is None:
                return True
            self._append_records(_save_record(word, edits, self._written, more))
        except Exception as error:  # noqa: BLE001  saving works all the same
            self._report_error(error)
            return False
        return True

    def _restart_file(self) -> None:
        """Empty the file, which needs no room, and write everything anew later."""
        with contextlib.suppress(OSError):
            # Not removed: the lock and the before-images of this journal are still in
            # use.
            os.truncate(self.folder / EDITS, 0)
            # The head is written again with the next edits.
            self._file, self._written, self._version = None, (), -1
            self._last = None
            self._written_lasting = 0
            self._written_classes = KeptClasses()
            self._repeats_saved = True

    def _append_records(self, *records: dict[str, Any]) -> None:
        """Write all of some records, or none if that fails."""
        assert self._file is not None
        self._file.append(b"".join(map(dump_record, records)))
        self._unflushed = True

    def _flush_file(self) -> None:
        if self._file is not None:
            self._file.flush()
        self._unflushed = False

    def close(self) -> None:
        """Write the last edits and leave the journal to be recovered."""
        with self._guard:
            if not self._closed:
                self.sync_if_changed()
                self._close_files()

    def remove(self) -> None:
        """Delete the journal: all is saved, or was given up."""
        with self._guard:
            self._close_files()
            shutil.rmtree(self.folder, ignore_errors=True)
            # Fails while other journals of the label image are in it.
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()

    def _close_files(self) -> None:
        self._closed = True
        self.before_images.close()
        self._open.close()


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, which other processes delete when empty.

    Raises
    ------
    OSError
        Where it cannot be made.
    """
    for left in reversed(range(MOST_TRIES)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return
        except FileNotFoundError:
            if not left:
                raise


def find_journals(store: str, path: str) -> list[Path]:
    """List the free journals of a label image that hold what its file lacks.

    A journal is free if no process holds it. Other free ones are deleted.
    """
    _release_dropped()
    folders = []
    with contextlib.suppress(FileNotFoundError):
        for folder in sorted(_journal_folder(store, path).iterdir()):
            # A lock that is held is one of an open window, whose journal is left alone.
            with contextlib.suppress(OSError):
                if is_held(folder / LOCK):
                    continue
                # Else another process begins it: the lock comes before the file.
                if not (folder / EDITS).exists():
                    continue
                if read_journal(folder).is_unsaved:
                    folders.append(folder)
                else:
                    delete_journal(folder)
    return folders


def delete_journal(folder: Path) -> JournalContent:
    """Delete a journal that is not needed any more; return what it held.

    Raises
    ------
    BlockingIOError
        Where somebody holds it.
    """
    with hold_file(folder / LOCK):
        content = read_journal(folder)
        # Deleted under the lock, so that nobody recovers it meanwhile. Windows keeps
        # the lock file, which is open.
        shutil.rmtree(folder, ignore_errors=True)
    if sys.platform == "win32":
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
    return content


def replace_journal(older: Journal, journal: Journal) -> None:
    """Delete a journal once another one has its edits on the disk; in any thread."""
    if journal.sync_if_changed():
        older.remove()
    else:
        older.close()


def _journal_folder(store: str, path: str) -> Path:
    # A hash, since paths may be longer than a file name and hold any character.
    name = f"{os.path.realpath(store)}|{path}".encode()
    return journal_home() / hashlib.sha256(name).hexdigest()[:32]


def _list_changes(
    same: int,
    written: int,
    edits: tuple[Edit, ...],
    starts: Container[int],
    last: Edit | None,
) -> list[dict[str, Any]]:
    """Make the records of edits that were undone or made.

    Parameters
    ----------
    same, written
        Number of edits that stay, and of those that the journal has.
    edits, starts
        The edits of the canvas, and the indices of those that begin a step of undo.
    last
        The last edit in the file.
    """
    records: list[dict[str, Any]] = []
    new = edits[same:]
    # Undone edits are cut off by one record, however many they are.
    if same < written:
        records.append({"end": same})
    for index, edit in enumerate(map(dump_edit, new, (last, *new)), same):
        # A stroke that is being painted has an edit for each move of the mouse.
        more = {} if index in starts else {"continues": True}
        records.append({"edit": edit, **more})
    return records


def _save_record(
    word: str,
    edits: tuple[Edit, ...],
    written: tuple[Edit, ...],
    more: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make the record of a save."""
    # The log may be shorter by now, or others: name them by what was written.
    known = count_common(edits, written) == len(edits)
    dumped = [] if known else [*map(dump_edit, edits, (None, *edits))]
    return {word: len(edits), "edits": dumped, **(more or {})}


def _error_cause(error: Exception | None) -> tuple[object, ...]:
    return type(error), getattr(error, "errno", None)


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()
# A set that grows while it is listed raises an error, which would end the thread.
_watching = threading.Lock()
_ticker: list[threading.Thread] = []
_dropped: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
# Reentrant: at the end of the process a finalizer may come while it is held.
_releasing = threading.RLock()
_ending = threading.Event()


def release_later(release: Callable[[], object]) -> None:
    """Release the journal of an object that is gone in the thread of all journals.

    For finalizers: Python may call them in the middle of any other call, even of one
    that is writing this journal or holds the lock of its canvas.

    Parameters
    ----------
    release
        Called in that thread, before journals are looked for, or at the end of the
        process.
    """
    _dropped.put(release)
    if _ending.is_set():
        _release_dropped()


def _release_dropped() -> None:
    # A second caller waits until the journals are free.
    with _releasing, contextlib.suppress(queue.Empty):
        while True:
            go_on_after_error(_dropped.get_nowait())


@atexit.register
def _release_at_exit() -> None:
    # Finalizers may run before or after this.
    _ending.set()
    _release_dropped()


def _watch_journal(journal: Journal) -> None:
    """Write a journal's edits from now on in the thread of all journals."""
    with _watching:
        _journals.add(journal)
        if not _ticker:
            thread = threading.Thread(
                target=_sync_journals, name="napari-ngff-journal", daemon=True
            )
            _ticker.append(thread)
            thread.start()


def _sync_journals() -> None:
    pause = threading.Event()
    # Once per process. It is only housekeeping: no error of it may end the thread.
    with contextlib.suppress(Exception):
        remove_orphans(journal_home())
    while not pause.wait(INTERVAL):
        with _watching:
            journals = list(_journals)
        for journal in journals:
            go_on_after_error(journal.sync_if_changed)
        # These variables would keep journals alive while the thread waits.
        journal = None  # type: ignore[assignment]
        journals.clear()
        _release_dropped()
