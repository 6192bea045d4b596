"""A folder beside a target in which a conversion is made, and continued after a stop.

``.<name>.partial`` has ``new``, the new hierarchy without the documents of its root, so
that no reader takes it for whole; ``plan.jsonl``, a line for each array; ``root.json``,
the documents of the root; ``units``, one record of fixed size for each finished unit;
and ``states``, four bytes for each object that was read. A locked file shows that a
process works on it. In the end `new` is renamed.

Of a target in a bucket, the folder is among the data of this program, and all objects
are in their place, again without the documents of the root.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from napari_ngff.errors import ConflictError, name_errors
from napari_ngff.store.limits import parse_json
from napari_ngff.store.write.file_lock import hold_if_possible, is_held
from napari_ngff.store.write.fsync import flush_file
from napari_ngff.store.write.replace_file import replace_file
from napari_ngff.store.write.writer_token import new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.write.new_hierarchy import Target

RECORD = struct.Struct("<IIIQQI")
"""Number of objects and one, checksum of the source's state, number of problems, size
in bytes, and first byte and length of the states of what was read."""

LOCK, PLAN, ROOT, UNITS, STATES, SETTINGS = (
    "lock",
    "plan.jsonl",
    "root.json",
    "units",
    "states",
    "settings.json",
)


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """What a unit of work has written.

    Attributes
    ----------
    objects, nbytes
        Number and size of the objects.
    seen
        Checksum of the revisions of what was read.
    problems
        What could not be read, a text each.
    states
        Of each object that was read, four bytes; b"" where they are not needed again.
    """

    objects: int
    nbytes: int
    seen: int
    problems: tuple[str, ...] = ()
    states: bytes = b""


class Unfinished(Enum):
    """What is there of an earlier conversion to a target.

    Attributes
    ----------
    NOTHING
        Nothing that counts.
    SAME
        Finished parts of a conversion with equal settings.
    OTHER
        Parts of one with other settings.
    RUNNING
        A process works on it.
    """

    NOTHING = auto()
    SAME = auto()
    OTHER = auto()
    RUNNING = auto()


class PartialFolder:
    """The folder of one conversion; a context that keeps it locked.

    Parameters
    ----------
    target
        Where the new hierarchy goes.
    settings
        What is asked for. Only a run with equal settings continues another.
    overwrite
        Whether `target` may be replaced.
    resume
        Whether to continue what is there; otherwise it is removed.

    Attributes
    ----------
    path
        The folder.
    token
        A text that no other run has.
    continues
        Whether it has a complete plan already.

    Raises
    ------
    FileExistsError
        Where `target` exists and may not be replaced.
    ConflictError
        Where another process works on the same target.
    ValueError
        Where other settings were asked for before.
    """

    def __init__(
        self, target: Target, settings: JSON, *, overwrite: bool, resume: bool
    ) -> None:
        self.overwrite = overwrite
        self.target, self.path = target, target.notes
        self.token = new_token()
        self.continues = False
        # As they are once they are read.
        self._settings, self._resume = parse_json(json.dumps(settings)), resume
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        self.target.require_room(self.overwrite)
        with name_errors(self.path):
            os.makedirs(self.path, exist_ok=True)
            names = os.listdir(self.path)
            if names and LOCK not in names:
                msg = f"{self.path} is not of a conversion: it stays unchanged."
                raise FileExistsError(msg)
            with ExitStack() as opened:
                try:
                    opened.enter_context(hold_if_possible(f"{self.path}/{LOCK}"))
                except BlockingIOError as error:
                    raise self._busy_error() from error
                self._units = opened.enter_context(self._prepare())
                self._opened = opened.pop_all()
        return self

    def find_unfinished(self) -> Unfinished:
        """Find out what an earlier conversion left; makes and changes nothing."""
        if not os.path.exists(f"{self.path}/{LOCK}"):
            return Unfinished.NOTHING
        if is_held(f"{self.path}/{LOCK}"):
            return Unfinished.RUNNING
        stated = self._read_json(SETTINGS)
        if stated is None or not os.path.exists(f"{self.path}/{ROOT}"):
            return Unfinished.NOTHING
        return Unfinished.SAME if stated == self._settings else Unfinished.OTHER

    def discard(self) -> None:
        """Remove what an earlier conversion left.

        Raises
        ------
        ConflictError
            Where a process works on it.
        UnsupportedError
            Where the parts are in a bucket, in which nothing is deleted.
        """
        found = self.find_unfinished()
        if found is Unfinished.RUNNING:
            raise self._busy_error()
        if found is not Unfinished.NOTHING:
            self.target.discard()

    def _busy_error(self) -> ConflictError:
        msg = f"Another process is converting to {self.target.name}."
        return ConflictError(msg, remedy="Wait until it has ended.")

    def _prepare(self) -> IO[bytes]:
        """Continue what is there, or begin anew; return the open file of units."""
        stated = self._read_json(SETTINGS)
        planned = stated is not None and os.path.exists(f"{self.path}/{ROOT}")
        self.continues = planned and self._resume
        if self.continues and stated != self._settings:
            raise ValueError(
                f"{self.path} is of a conversion with other settings. Use the same"
                " ones, or convert without --resume to begin again."
            )
        if not self.continues:
            # Before the notes go that continue it.
            self.target.require_free(ours=stated is not None, resumes=self._resume)
            self._clear()
            self._write_json(SETTINGS, self._settings)
        path = f"{self.path}/{UNITS}"
        Path(path).touch()
        return open(path, "r+b", buffering=0)

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Unlock it; it stays if it was not placed."""
        self._opened.close()

    def _clear(self) -> None:
        for name in os.listdir(self.path):
            if name != LOCK:
                path = f"{self.path}/{name}"
                if os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    # --- the plan

    def write_plan(self, lines: Iterable[JSON]) -> None:
        """Write the lines of a plan; `finish_plan` makes it count."""
        path = f"{self.path}/{PLAN}"
        with name_errors(path), open(path, "w", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")
        flush_file(path)

    def finish_plan(self, root: dict[str, bytes]) -> None:
        """Keep the documents of the root until the end."""
        self._write_json(ROOT, {name: data.decode() for name, data in root.items()})

    def forget_plan(self) -> None:
        """Let the next run begin again: what the plan was made from has changed."""
        with suppress(FileNotFoundError):
            os.unlink(f"{self.path}/{ROOT}")

    def read_plan(self) -> Iterator[JSON]:
        """Read the lines of the plan, one at a time."""
        with open(f"{self.path}/{PLAN}", encoding="utf-8") as file:
            for line in file:
                yield parse_json(line)

    def _write_json(self, name: str, content: JSON) -> None:
        replace_file(f"{self.path}/{name}", json.dumps(content).encode())

    def _read_json(self, name: str) -> Any:
        try:
            with open(f"{self.path}/{name}", encoding="utf-8") as file:
                return parse_json(file.read())
        except (FileNotFoundError, ValueError):
            return None

    # --- units

    def note_unit(self, number: int, record: UnitRecord) -> None:
        """Note that a unit is finished."""
        place = 0
        if record.states:
            path = f"{self.path}/{STATES}"
            with name_errors(path), open(path, "ab") as file:
                place = file.tell()
                file.write(record.states)
        data = RECORD.pack(
            record.objects + 1,
            record.seen,
            len(record.problems),
            record.nbytes,
            place,
            len(record.states),
        )
        self._write_record(number, data)

    def read_states(self, number: int) -> bytes:
        """Return the states of what a finished unit has read."""
        *_, place, length = RECORD.unpack(self._read_record(number))
        with open(f"{self.path}/{STATES}", "rb") as file:
            file.seek(place)
            return file.read(length)

    def forget_unit(self, number: int) -> None:
        """Let a unit count as unfinished."""
        self._write_record(number, bytes(RECORD.size))

    def _read_record(self, number: int) -> bytes:
        with self._turn:
            self._units.seek(number * RECORD.size)
            return self._units.read(RECORD.size)

    def _write_record(self, number: int, data: bytes) -> None:
        with name_errors(self.path), self._turn:
            self._units.seek(number * RECORD.size)
            self._units.write(data)

    def find_unit(self, number: int) -> UnitRecord | None:
        """Return what is noted of a unit; None if it is not finished.

        Units with problems count as unfinished: their source may be readable now.
        """
        data = self._read_record(number)
        if len(data) < RECORD.size:
            return None
        objects, seen, problems, nbytes, *_ = RECORD.unpack(data)
        if not objects or problems:
            return None
        return UnitRecord(objects - 1, nbytes, seen)

    # --- the end

    def place_hierarchy(self, progress: Callable[[int, int], None] | None) -> None:
        """Write the documents of the root, and give the hierarchy its name."""
        documents = self._read_json(ROOT)
        for name, text in documents.items():
            self.target.store.put_new(name, (text.encode(),))
        self.target.store.flush_new(documents)
        self.target.place(self.overwrite, progress)
        self.remove()
