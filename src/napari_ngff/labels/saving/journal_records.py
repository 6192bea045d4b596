"""The records of a journal, one per line: its head, edits, and notes of saves."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.edits import load_edit
from napari_ngff.labels.saving.save_run import count_common
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from napari_ngff.labels.edits import Edit

__all__ = [
    "EDITS",
    "JournalContent",
    "JournalHead",
    "JournalSubject",
    "KeptClasses",
    "dump_record",
    "read_head",
    "read_journal",
]

EDITS = "edits.jsonl"
"""Name of the file of a journal, whose first line is its head."""


@dataclass(frozen=True, slots=True)
class JournalSubject:
    """The label image that is edited, so that it can be made anew.

    Attributes
    ----------
    image
        Path or URL of its image, the same however that is opened; "" for none.
    name
        Of the label image.
    level
        Level of the image that is the finest of the labels.
    dtype
        Of the labels, such as "uint16".
    """

    image: str = ""
    name: str = ""
    level: int = 0
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class JournalHead:
    """First line of a journal.

    Attributes
    ----------
    store, path
        Of the label image: where its hierarchy is, and its path there.
    shape
        Of level 0 of the canvas.
    subject
        The label image; of journals of older versions all but its name is unknown.
    """

    store: str
    path: str
    shape: tuple[int, ...]
    subject: JournalSubject

    def dump(self, above: list[int] | None) -> dict[str, Any]:
        """Convert it into what `json` takes.

        Parameters
        ----------
        above
            See `napari_ngff.labels.saving.journal_cleanup.folder_identity`.
        """
        return {
            "place": (self.store, self.path),
            "shape": self.shape,
            "above": above,
            "subject": asdict(self.subject),
        }

    @classmethod
    def load(cls, record: dict[str, Any]) -> JournalHead:
        """Read what `dump` returned.

        Raises
        ------
        ValueError, KeyError, TypeError
            Where it is something else.
        """
        store, path = record["place"]
        # Journals of earlier versions have no subject.
        given = record.get("subject") or {"name": path.rpartition("/")[2]}
        return cls(store, path, tuple(record["shape"]), JournalSubject(**given))


@dataclass(frozen=True, slots=True)
class KeptClasses:
    """The classes of labels in a journal.

    Attributes
    ----------
    text
        As `dump_kept_classes` writes them; "" for none.
    unsaved
        Whether the file lacks a change of them.
    """

    text: str = ""
    unsaved: bool = False


@dataclass(frozen=True, slots=True)
class JournalContent:
    """The content of a journal.

    Attributes
    ----------
    edits
        All edits that were not undone, in order.
    saved
        Those that the file is known to have, from the first on.
    saving
        The edits of each save that was begun after that and did not finish.
    shape
        Of level 0 of the canvas.
    tokens
        Of all transactions that saved; none of them writes any more.
    classes
        Of the labels.
    continued
        Those of the edits that continue the step of undo of the one before.
    lasting
        Number of the first edits that cannot be undone: the file has or had them, or
        another program made them.
    """

    edits: tuple[Edit, ...] = ()
    saved: tuple[Edit, ...] = ()
    saving: tuple[tuple[Edit, ...], ...] = ()
    shape: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()
    classes: KeptClasses = KeptClasses()
    continued: tuple[Edit, ...] = ()
    lasting: int = 0

    @property
    def is_unsaved(self) -> bool:
        """Return whether the file lacks anything that is in the journal."""
        return self.classes.unsaved or bool(self.unsaved_count)

    @property
    def saved_count(self) -> int:
        """Number of the first edits that the file has, and that were not undone."""
        return count_common(self.edits, self.saved)

    @property
    def needs_originals(self) -> bool:
        """Return whether edits go over what the file was before any of them.

        A save that did not finish may have written a part of them, and saved edits that
        were undone are still to be taken out.
        """
        return bool(self.saving) or self.saved_count < len(self.saved)

    @property
    def edits_to_restore(self) -> tuple[Edit, ...]:
        """Edits that go over the original blocks, or over the file as it is now.

        What the file has may have been changed in a later session: it is put over the
        file again only where the original blocks need it.
        """
        return self.edits if self.needs_originals else self.edits[self.saved_count :]

    @property
    def unsaved_count(self) -> int:
        """Number of edits that the file lacks and of saved edits undone since then.

        As users count them: a stroke is one, however many moves of the mouse it has.
        """
        same = self.saved_count
        # Those that another program made are no edits of the user.
        own = self.edits[max(same, self.lasting) :]
        lacking = (*own, *self.saved[same:])
        # By identity: an edit of another step may be equal.
        continued = {id(edit) for edit in self.continued}
        count = sum(id(edit) not in continued for edit in lacking)
        # A save that did not finish has to be repeated, even without such edits.
        return max(count, 1) if lacking or self.saving else 0


def read_head(folder: Path) -> JournalHead | None:
    """Read the head of a journal; None if it cannot be read.

    Raises
    ------
    OSError
        Where it cannot be opened.
    """
    with contextlib.suppress(ValueError, KeyError, TypeError):
        for record in _read_records(folder / EDITS):
            return JournalHead.load(record)
    return None


def read_journal(folder: Path) -> JournalContent:
    """Read a journal up to where a crash may have cut it off."""
    edits: list[Edit] = []
    continued: list[Edit] = []
    lasting = 0
    saved: tuple[Edit, ...] = ()
    saving: tuple[tuple[Edit, ...], ...] = ()
    shape: tuple[int, ...] = ()
    tokens: list[str] = []
    classes = KeptClasses()
    for record in _read_records(folder / EDITS):
        # "end": the edits from there on were undone, or replaced by those that follow.
        if "end" in record:
            del edits[record["end"] :]
        elif "edit" in record:
            edits.append(load_edit(record["edit"]))
            continued += edits[-1:] if record.get("continues") else []
        elif "lasting" in record:
            lasting = int(record["lasting"])
        elif "place" in record:
            shape = tuple(record["shape"])
        elif "classes" in record:
            # Journals of earlier versions do not say whether the file has them.
            unsaved = bool(record.get("unsaved"))
            classes = KeptClasses(str(record["classes"]), unsaved)
        else:
            for word in {"saving", "saved"} & record.keys():
                # Listed only where they are not the first edits of the journal; see
                # `_save_record`.
                listed = tuple(load_edit(edit) for edit in record["edits"])
                named = listed or tuple(edits[: record[word]])
                # A tuple for each save that was begun: any of them may have reached the
                # file.
                if word == "saving":
                    saving = (*saving, named)
                    tokens += filter(None, [record.get("token")])
                else:
                    saved, saving = named, ()
    return JournalContent(
        tuple(edits),
        saved,
        saving,
        shape,
        tuple(tokens),
        classes,
        tuple(continued),
        lasting,
    )


def _read_records(path: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
        for line in file:
            # A crash may have cut off the last line.
            try:
                yield parse_json(line)
            except ValueError:
                return


def dump_record(record: dict[str, Any]) -> bytes:
    """Convert a record into a line of JSON."""
    text = json.dumps(record, separators=(",", ":"), default=_to_plain)
    return text.encode() + b"\n"


def _to_plain(value: Any) -> Any:
    """Convert NumPy's numbers, which plugins use in shapes, into Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    msg = f"{type(value).__name__} cannot be written into a journal."
    raise TypeError(msg)
