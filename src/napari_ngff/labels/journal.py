"""Edits that are not in their file yet, on the local disk, for after a crash.

A journal is a folder in the user's data: ``edits.jsonl``, to which every change of the
log is appended, and ``before.bin``, with what a save has overwritten (`Retained`). So a
save that died half way is done again from what was there before it, and no edit is ever
applied to its own result. A journal that nobody holds open is one to recover.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import threading
import uuid
import weakref
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from platformdirs import user_data_path

from napari_ngff.labels.edits import dump_edit, load_edit
from napari_ngff.labels.saving.orphans import folder_of, remove_orphans
from napari_ngff.labels.saving.progress import in_common
from napari_ngff.labels.saving.retained import Retained
from napari_ngff.store.growing import GrowingFile
from napari_ngff.store.holding import hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.edits import Edit

__all__ = [
    "INTERVAL",
    "Journal",
    "Recovered",
    "discard",
    "find_journals",
    "journal_home",
]

INTERVAL = 0.5
"""Seconds between two looks at the log."""

EDITS, BEFORE, LOCK = "edits.jsonl", "before.bin", "lock"


def journal_home() -> Path:
    """Return the folder of all journals."""
    return user_data_path("napari-ngff", appauthor=False) / "journal"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a journal holds.

    Attributes
    ----------
    edits
        All that held, in order.
    saved
        Those that the file is known to have, from the first on.
    saving
        Those of each save that was begun since and not finished.
    shape
        Of level 0 of the canvas.
    tokens
        Of all sinks that saved; see `Sink`. Nobody writes with them any more.
    """

    edits: tuple[Edit, ...] = ()
    saved: tuple[Edit, ...] = ()
    saving: tuple[tuple[Edit, ...], ...] = ()
    shape: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many edits, or edits taken back, the file lacks."""
        same = in_common(self.edits, self.saved)
        lacking = len(self.edits) + len(self.saved) - 2 * same
        return max(lacking, 1) if self.saving else lacking


class Journal:
    """The journal of one canvas; nothing is written before there is an edit.

    Parameters
    ----------
    store, path
        Of the label image: where its hierarchy is, and its path there.
    canvas
        Whose log is kept.
    folder
        Of a journal to be taken over.

    Attributes
    ----------
    place
        Store and path.
    retained
        What saves have overwritten.
    recovered
        What the journal that was taken over holds.
    """

    def __init__(
        self, store: str, path: str, canvas: Canvas, folder: Path | None = None
    ) -> None:
        self.canvas = canvas
        self.place = store, path
        self._written: tuple[Edit, ...] = ()
        self._guard = threading.RLock()
        self._closed = False
        self._unsecured = False
        self._version = 0
        self._file: GrowingFile | None = None
        self._open = contextlib.ExitStack()
        weakref.finalize(self, self._open.close)
        self.folder = folder or _folder(store, path) / uuid.uuid4().hex
        self.retained = Retained(self._open_before, durable=True)
        self.recovered = Recovered()
        if folder is not None:
            self._open.enter_context(hold(folder / LOCK))
            self.recovered = read_journal(folder)
            self._written = self.recovered.edits
            self._file = GrowingFile(self._open.enter_context(_appending(folder)))
            self.retained.load()
        _watch(self)

    def _open_before(self) -> IO[bytes]:
        with self._guard:
            self._begin()
            return (self.folder / BEFORE).open("a+b", buffering=0)

    def _begin(self) -> None:
        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            above = folder_of(self.place[0])
            head = {"place": self.place, "shape": self.canvas.shape, "above": above}
            with contextlib.ExitStack() as opened:
                opened.enter_context(hold(self.folder / LOCK))
                file = GrowingFile(opened.enter_context(_appending(self.folder)))
                file.append(_line(head))
                self._open.enter_context(opened.pop_all())
            self._file = file

    def sync(self) -> None:
        """Append what changed since; it is on the disk when this returns."""
        with self._guard:
            version, edits = self.canvas.version, self.canvas.edits
            written = self._written
            if self._closed or edits is written:
                return
            same = in_common(written, edits)
            if same == len(written) == len(edits):
                return
            self._begin()
            records: list[dict[str, Any]] = []
            if same < len(written):
                records.append({"end": same})
            records += [{"edit": dump_edit(edit)} for edit in edits[same:]]
            self._append(*records)
            self._written = edits
            self._flush()
            self._version = version

    def look(self) -> None:
        """Do `sync` if anything happened."""
        if self.canvas.version != self._version:
            self.sync()
        self.secure()

    def secure(self) -> None:
        """Return once all that was noted is on the disk."""
        with self._guard:
            if self._unsecured and not self._closed:
                self._flush()

    def saving(self, edits: tuple[Edit, ...], token: str = "") -> None:
        """Note that a save of these edits begins; `secure` before it replaces any.

        Parameters
        ----------
        token
            Of the sink that writes.
        """
        self._note("saving", edits, {"token": token})

    def saved(self, edits: tuple[Edit, ...]) -> None:
        """Note that they are in the file, on the disk, at all levels.

        A loss of power may take this note away: then edits are recovered that the file
        has already, which changes nothing.
        """
        self._note("saved", edits)

    def _note(
        self, word: str, edits: tuple[Edit, ...], more: Mapping[str, str] | None = None
    ) -> None:
        with self._guard:
            if self._closed:
                return
            self.sync()
            if self._file is None:
                return
            # The log may be shorter by now, or others: name them by what was written.
            known = in_common(edits, self._written) == len(edits)
            extra = [] if known else [dump_edit(edit) for edit in edits]
            self._append({word: len(edits), "edits": extra, **(more or {})})

    def _append(self, *records: dict[str, Any]) -> None:
        """Write all of some records, or none where that fails."""
        assert self._file is not None
        self._file.append(b"".join(map(_line, records)))
        self._unsecured = True

    def _flush(self) -> None:
        assert self._file is not None
        self._file.flush()
        self._unsecured = False

    def close(self) -> None:
        """Write the last edits and leave the journal to be recovered."""
        with self._guard:
            if not self._closed:
                self.sync()
                self._leave()

    def remove(self) -> None:
        """Delete the journal: all is saved, or nobody wants it."""
        with self._guard:
            self._leave()
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()

    def _leave(self) -> None:
        self._closed = True
        self.retained.close()
        self._open.close()


def find_journals(store: str, path: str) -> list[Path]:
    """List the journals of a label image that nobody holds and that lack in its file.

    Those of which nothing is lacking are deleted.
    """
    found = []
    with contextlib.suppress(FileNotFoundError):
        for folder in sorted(_folder(store, path).iterdir()):
            # Else it is of a window that is open.
            with contextlib.suppress(OSError):
                if read_journal(folder).count:
                    hold(folder / LOCK).close()
                    found.append(folder)
                else:
                    discard(folder)
    return found


def discard(folder: Path) -> Recovered:
    """Delete a journal that nobody wants any more; return what it held.

    Raises
    ------
    BlockingIOError
        Where somebody holds it.
    """
    with hold(folder / LOCK):
        found = read_journal(folder)
        # Of what is open, Windows deletes nothing; others begin no new one meanwhile.
        shutil.rmtree(folder, ignore_errors=True)
    if sys.platform == "win32":
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
    return found


def read_journal(folder: Path) -> Recovered:
    """Read a journal up to where a crash may have cut it off."""
    edits: list[Edit] = []
    saved: tuple[Edit, ...] = ()
    saving: tuple[tuple[Edit, ...], ...] = ()
    shape: tuple[int, ...] = ()
    tokens: list[str] = []
    for record in _records(folder / EDITS):
        if "end" in record:
            del edits[record["end"] :]
        elif "edit" in record:
            edits.append(load_edit(record["edit"]))
        elif "place" in record:
            shape = tuple(record["shape"])
        else:
            for word in {"saving", "saved"} & record.keys():
                own = tuple(load_edit(edit) for edit in record["edits"])
                named = own or tuple(edits[: record[word]])
                if word == "saving":
                    saving = (*saving, named)
                    tokens += filter(None, [record.get("token")])
                else:
                    saved, saving = named, ()
    return Recovered(tuple(edits), saved, saving, shape, tuple(tokens))


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                return


def _folder(store: str, path: str) -> Path:
    name = f"{os.path.realpath(store)}|{path}".encode()
    return journal_home() / hashlib.sha256(name).hexdigest()[:32]


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _appending(folder: Path) -> IO[bytes]:
    """Open the edits to append whole lines, also where a crash cut the last one off."""
    path = folder / EDITS
    if path.exists():
        data = path.read_bytes()
        if not data.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)
    return path.open("ab", buffering=0)


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()
_ticker: list[threading.Thread] = []


def _watch(journal: Journal) -> None:
    """Look at a journal's log from now on, for as long as it is used."""
    _journals.add(journal)
    if not _ticker:
        thread = threading.Thread(target=_tick, name="napari-ngff-journal", daemon=True)
        _ticker.append(thread)
        thread.start()


def _tick() -> None:
    pause = threading.Event()
    with contextlib.suppress(OSError):
        remove_orphans(journal_home(), EDITS)
    while not pause.wait(INTERVAL):
        for journal in list(_journals):
            # A full disk must not end the journals of other labels.
            with contextlib.suppress(OSError):
                journal.look()
        journal = None  # type: ignore[assignment]
