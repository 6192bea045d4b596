"""Unsaved work of one small annotation on the disk, from which it is restored."""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from napari_ngff.labels.journal import LOCK, journal_home
from napari_ngff.labels.kept_edits import KeptEdits, is_below
from napari_ngff.labels.saving.journal_records import JournalHead, JournalSubject
from napari_ngff.store.limits import parse_json
from napari_ngff.store.write.file_lock import hold_if_possible, is_held
from napari_ngff.store.write.replace_file import replace_file

CONTENT = "content.json"


@dataclass(frozen=True, slots=True)
class KeptContent:
    """What a journal has of an annotation.

    Attributes
    ----------
    kind
        Name of the class of the annotation.
    name
        Of the annotation.
    image
        Path or URL of its image.
    path
        Of its file, whether that exists yet or not.
    revision
        Of the file when it was read or saved last, as numbers; () for no file.
    count, noun
        How many things the annotation has, and what one is called.
    text
        What the file would be.
    """

    kind: str
    name: str
    image: str
    path: str
    revision: tuple[int, ...]
    count: int
    noun: str
    text: str


@dataclass(frozen=True, slots=True)
class KeptFile(KeptEdits):
    """A journal of an annotation that no process uses.

    Attributes
    ----------
    content
        What it has.
    """

    content: KeptContent | None = None

    @property
    def kind(self) -> str:
        """Name of the class of the annotation."""
        return "" if self.content is None else self.content.kind


class FileJournal:
    """The journal of one annotation, which is replaced as a whole at each change.

    Attributes
    ----------
    wanted
        Whether it is kept when it is closed.
    is_closed
        Whether nothing is written any more.
    """

    def __init__(self) -> None:
        self.wanted = True
        self._folder = journal_home() / "annotations" / uuid.uuid4().hex
        self.is_closed = False
        self._guard = threading.Lock()
        self._lock: IO[bytes] | None = None

    def write(self, content: KeptContent) -> None:
        """Replace what is kept; in any thread.

        Raises
        ------
        OSError
            Where it cannot be written.
        """
        with self._guard:
            if self.is_closed:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._lock is None:
                # Before the content: others restore what nobody holds.
                self._lock = hold_if_possible(self._folder / LOCK)
            replace_file(self._folder / CONTENT, json.dumps(asdict(content)).encode())

    def clear(self) -> None:
        """Delete what is kept, as a file has it."""
        with self._guard:
            if self._lock is not None:
                self._lock.close()
                self._lock = None
                shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Let others restore it, or delete it."""
        if not self.wanted:
            self.clear()
        with self._guard:
            self.is_closed = True
            if self._lock is not None:
                self._lock.close()
                self._lock = None


def find_kept_files(tops: Collection[str], unreadable: list[str]) -> list[KeptFile]:
    """List free journals of annotations of images at or below some paths."""
    found = []
    for file in sorted((journal_home() / "annotations").glob(f"*/{CONTENT}")):
        if is_held(file.parent / LOCK):
            continue
        try:
            content = KeptContent(**parse_json(file.read_bytes()))
            if any(is_below(content.image, top) for top in tops):
                found.append(_describe_kept(file, content))
        except FileNotFoundError:
            continue  # another window deletes it at this moment
        except (OSError, ValueError, TypeError) as error:
            unreadable.append(f"{file}: {error}")
    return found


def _describe_kept(file: Path, content: KeptContent) -> KeptFile:
    subject = JournalSubject(content.image, content.name)
    head = JournalHead(content.path, "", (), subject)
    written = min(file.stat().st_mtime, time.time())
    return KeptFile(
        file.parent,
        head,
        content.count,
        written,
        content.image,
        noun=content.noun,
        content=content,
    )


def delete_kept_file(folder: Path) -> None:
    """Delete a journal that is discarded.

    Raises
    ------
    BlockingIOError
        Where another window has taken it over.
    """
    with hold_if_possible(folder / LOCK):
        shutil.rmtree(folder, ignore_errors=True)
