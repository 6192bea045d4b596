"""The records of a journal, one per line: its head, edits, and notes of saves."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from napari_ngff.errors import CorruptDataError
from napari_ngff.labels.edits import Edit, load_edit
from napari_ngff.labels.label_classes import load_kept_classes
from napari_ngff.labels.raster import Raster
from napari_ngff.labels.saving.save_run import count_common
from napari_ngff.labels.shapes import Mask, Stroke
from napari_ngff.store.limits import parse_json

EDITS = "edits.jsonl"
"""Name of the file of a journal, whose first line is its head."""

LONGEST = 16 << 20
"""Bytes of a line; those of `LONG` may have more, for the voxels of a large image."""

LONG = re.compile(rb'\{"(?:edit|saving|saved)"')

PACKED = 64
"""Most bytes of a line for one voxel of the image."""

MOST_VALUES = 1 << 21
"""Numbers, texts and lists of one line, about."""

MOST_DABS = 1 << 20
"""Of any stroke; one across a large image may have more."""

MOST_FINER = 1 << 10
"""Voxels of a raster for one of the image."""

FAR = 1 << 53
"""Voxels; numbers beyond have no exact float."""


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
    above
        See `napari_ngff.labels.saving.journal_cleanup.folder_identity`.
    """

    store: str
    path: str
    shape: tuple[int, ...]
    subject: JournalSubject
    above: list[int] | None = None

    def dump(self) -> dict[str, Any]:
        """Convert it into what `json` takes."""
        return {
            "place": (self.store, self.path),
            "shape": self.shape,
            "above": self.above,
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
        # Journals of earlier versions have no subject, those of later ones more of it.
        given = record.get("subject") or {"name": path.rpartition("/")[2]}
        known = {
            name: given[name] for name in JournalSubject.__slots__ if name in given
        }
        shape = tuple(_read_count(size, FAR) for size in record["shape"])
        head = cls(store, path, shape, JournalSubject(**known), record.get("above"))
        texts = head.store, head.path, *asdict(head.subject).values()
        kinds = [type(text) for text in texts]
        if kinds != [str, str, str, str, int, str] or b"\0" in os.fsencode(store):
            raise ValueError(f"it is of no label image: {texts}")
        return head


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
    end
        Bytes of the file up to what a crash cut off.
    """

    edits: tuple[Edit, ...] = ()
    saved: tuple[Edit, ...] = ()
    saving: tuple[tuple[Edit, ...], ...] = ()
    shape: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()
    classes: KeptClasses = KeptClasses()
    continued: tuple[Edit, ...] = ()
    lasting: int = 0
    end: int = 0

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
    """Read the head of a journal; None if it is empty.

    Raises
    ------
    CorruptDataError
        Where it cannot be read.
    OSError
        Where it cannot be opened.
    """
    with _named_errors(folder / EDITS):
        for record, _ in _read_records(folder / EDITS):
            return JournalHead.load(record)
    return None


def read_journal(folder: Path) -> JournalContent:
    """Read a journal up to where a crash may have cut it off.

    Raises
    ------
    CorruptDataError
        Where anything before that is damaged, of a newer version, or no edit of an
        image of that shape: a part of it alone would be other labels.
    OSError
        Where it cannot be opened.
    """
    edits: list[Edit] = []
    last: Edit | None = None  # also where it was undone
    continued: list[Edit] = []
    lasting = end = 0
    saved: tuple[Edit, ...] = ()
    saving: tuple[tuple[Edit, ...], ...] = ()
    shape: tuple[int, ...] = ()
    tokens: list[str] = []
    classes = KeptClasses()
    with _named_errors(folder / EDITS):
        for record, stop in _read_records(folder / EDITS):
            end = stop
            # "end": the edits from there on were undone, or replaced by those that
            # follow.
            if "end" in record:
                del edits[_read_count(record["end"], len(edits)) :]
            elif "edit" in record:
                last = _read_edit(record["edit"], shape, last)
                edits.append(last)
                continued += edits[-1:] if record.get("continues") else []
            elif "lasting" in record:
                lasting = _read_count(record["lasting"], len(edits))
            elif "place" in record:
                shape = JournalHead.load(record).shape
            elif "classes" in record:
                classes = _read_classes(record)
            else:
                for word in {"saving", "saved"} & record.keys():
                    named = _read_saved(record, word, edits, shape)
                    # A tuple for each save that was begun: any of them may have reached
                    # the file.
                    if word == "saving":
                        saving = (*saving, named)
                        tokens += filter(None, [str(record.get("token") or "")])
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
        end,
    )


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        msg = f"{path} cannot be read: {reason.rstrip('.')}."
        remedy = "It stays as it is; a newer version of this plugin may read it."
        raise CorruptDataError(msg, remedy=remedy) from error


def _read_records(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Read each record, and where it ends, up to a last line that a crash cut off."""
    voxels = -1
    if not path.is_file():
        return  # nothing is waited for, as it would be at a pipe
    with path.open("rb") as file:
        while line := file.readline(LONGEST):
            if len(line) == LONGEST and LONG.match(line):
                line += file.readline(min(voxels * PACKED, sys.maxsize))
            try:
                record = _parse_line(line)
            except ValueError:
                # Without a head nobody knows what is lost.
                if file.read(1) or voxels < 0:
                    raise
                return
            if not isinstance(record, dict):
                raise ValueError(f"a line is not a record, but {type(record).__name__}")
            if "place" in record:
                voxels = math.prod(JournalHead.load(record).shape)
            yield record, file.tell()


def _parse_line(line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise ValueError("a line is too long")
    if sum(map(line.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise ValueError("a line has too many values")
    return parse_json(line)


def _read_count(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r} is not a number up to {most}")
    return value


def _read_classes(record: dict[str, Any]) -> KeptClasses:
    text = record["classes"]
    if text:
        load_kept_classes(text)
    # Journals of earlier versions do not say whether the file has them.
    return KeptClasses(text, bool(record.get("unsaved")))


def _read_saved(
    record: dict[str, Any], word: str, edits: list[Edit], shape: tuple[int, ...]
) -> tuple[Edit, ...]:
    """Read the edits of a save."""
    # Listed only where they are not the first edits of the journal; see `_save_record`.
    listed: tuple[Edit, ...] = ()
    for edit in record["edits"]:
        listed = *listed, _read_edit(edit, shape, listed[-1] if listed else None)
    return listed or tuple(edits[: _read_count(record[word], len(edits))])


def _read_edit(
    data: dict[str, Any], shape: tuple[int, ...], before: Edit | None
) -> Edit:
    """Read an edit; refuse one that nobody can make in an image of that shape."""
    frame = tuple(shape[axis] for axis in data["axes"])
    # Before it is decoded.
    if math.prod(data["shape"].get("size", ())) > MOST_FINER * math.prod(frame):
        raise ValueError("its labels are more than the image has voxels")
    edit = load_edit(data, before)
    form, fixed = edit.shape, [axis for axis, _ in edit.fixed]
    lists = [getattr(form, name, ()) for name in ("weights", "origin", "step")]
    numbers = chain(*edit.bbox, *getattr(form, "points", ()), *lists)
    labels = (edit.label, getattr(form, "clear", 0) or 0)
    fits = (
        type(data["label"]) is int
        and all(-(1 << 63) <= label < 1 << 64 for label in labels)
        and sorted([*edit.axes, *fixed]) == list(range(len(shape)))
        and all(0 <= index < shape[axis] for axis, index in edit.fixed)
        and getattr(form, "frame", frame) == frame
        and all(-FAR <= number <= FAR for number in numbers)
    )
    if isinstance(form, Stroke):
        # napari paints four dabs in the way of a brush of one voxel.
        most = 8 * sum(frame) * len(form.steps) + MOST_DABS
        counts = [_read_count(count, most) for count in form.steps]
        fits &= len(counts) == len(form.points) - 1 and sum(counts) <= most
        fits &= 0 <= form.radius <= FAR and min(form.weights) > 0
    elif isinstance(form, Mask):
        runs = form.runs
        fits &= all(low >= 0 for low, _ in form.bbox) and bool(
            (runs[:, -2] < runs[:, -1]).all() and (np.diff(runs[:, 0]) >= 0).all()
        )
        fits &= all(high <= n for (_, high), n in zip(form.bbox, frame, strict=True))
    elif isinstance(form, Raster):
        fits &= form.values.dtype.kind in "iub" and min(form.step) > 0
    if not fits:
        raise ValueError(f"an edit is of no image of {shape} voxels")
    return edit


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
