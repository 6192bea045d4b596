"""Journals with content that no window of ours writes: damaged, hostile, or newer."""

from __future__ import annotations

import base64
import copy
import functools
import json
import os
import shutil
import zlib
from pathlib import Path

import numpy as np

from napari_ngff.labels.create_labels import create_labels
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.journal import BEFORE, Journal
from napari_ngff.labels.kept_edits import find_kept_edits, place_text
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.places.label_location import location_inside
from napari_ngff.labels.raster import Raster
from napari_ngff.labels.saving.journal_records import EDITS, JournalSubject
from napari_ngff.labels.shapes import Everywhere, Mask, Polygon, Stroke
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.samples import write_image
from saving import open_canvas

MEMORY = 300 << 20
"""Bytes that a journal may take."""

EACH_SHAPE = (
    Edit(Stroke(((5.0, 5.0), (20.0, 30.0)), (40,), 3.5, (1.0, 1.0)), (0, 1), (), 5),
    Edit(Polygon(((1, 1), (1, 20), (20, 20)), (64, 64)), (0, 1), (), 6),
    Edit(Mask(np.array([[3, 4, 9], [4, 4, 9]])), (0, 1), (), 7),
    Edit(
        Raster(np.arange(16, dtype="u2").reshape(4, 4), (30.0, 30.0), (1.0, 1.0)),
        (0, 1),
        (),
        15,
    ),
    Edit(Everywhere((64, 64)), (0, 1), (), 9, 5),
)

BIG = 10**12
FAR = (1e18, 1e308, float("inf"), float("nan"), 10**400)


def pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@functools.cache
def make_bomb() -> str:
    """Pack more than may be held."""
    return pack(bytes(MEMORY + (100 << 20)))


def change(records, number, path, value):
    """Put a value in place of another one."""
    changed = copy.deepcopy(records)
    inside = changed[number]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return changed


def record_poisons(records: list) -> dict[str, list]:
    """Change one value each of records as a journal has them, one of each kind.

    0 is the head, 1 a stroke, 2 a polygon, 3 a mask, 4 a raster, 5 all voxels, and 6 a
    save that was begun.
    """

    shape = ("edit", "shape")
    values = {
        "an unknown kind": (1, (*shape, "kind"), "spiral"),
        "a kind that is a list": (1, (*shape, "kind"), ["stroke"]),
        "another field": (1, (*shape, "pressure"), 0.5),
        "a shape that is a text": (1, shape, "stroke"),
        "an edit that is a number": (1, ("edit",), 5),
        "no axes": (1, ("edit", "axes"), []),
        "other axes": (1, ("edit", "axes"), [5, 6]),
        "an axis twice": (1, ("edit", "axes"), [0, 0]),
        "one more fixed axis": (1, ("edit", "fixed"), [[2, 0]]),
        "a label that is a text": (1, ("edit", "label"), "seven"),
        "a label of 80 bits": (1, ("edit", "label"), 1 << 80),
        "a negative label": (1, ("edit", "label"), -7),
        "a label that is not whole": (1, ("edit", "label"), 7.5),
        "spared values of 80 bits": (1, ("edit", "spared"), [1 << 80]),
        "spared values of no edit before it": (1, ("edit", "spared"), None),
        "a source that is a list": (1, ("edit", "source"), [1]),
        "points that are none": (1, (*shape, "points"), []),
        "points of three axes": (1, (*shape, "points"), [[1.0, 2.0, 3.0]] * 2),
        "points far apart": (1, (*shape, "points"), [[0.0, 0.0], [1e15, 1e15]]),
        "steps beyond all": (1, (*shape, "steps"), [BIG]),
        "steps that are too many": (1, (*shape, "steps"), [1, 1, 1, 1]),
        "steps below zero": (1, (*shape, "steps"), [-5]),
        "a radius beyond all": (1, (*shape, "radius"), BIG),
        "a radius below zero": (1, (*shape, "radius"), -1.0),
        "a weight of zero": (1, (*shape, "weights"), [0.0, 1.0]),
        "weights that are too many": (1, (*shape, "weights"), [1.0, 1.0, 1.0]),
        "corners that are none": (2, (*shape, "points"), []),
        "corners beyond all": (2, (*shape, "points"), [[0, 0], [BIG, 0], [BIG, BIG]]),
        "another frame": (2, (*shape, "frame"), [BIG, BIG]),
        "a frame below zero": (2, (*shape, "frame"), [-5, -5]),
        "runs of another length": (3, (*shape, "runs"), pack(bytes(20))),
        "runs that are none": (3, (*shape, "runs"), pack(b"")),
        "runs that are a bomb": (3, (*shape, "runs"), make_bomb()),
        "runs that are no zip": (3, (*shape, "runs"), "AAAA"),
        "runs that are no base 64": (3, (*shape, "runs"), "ä"),
        "runs out of the image": (3, (*shape, "runs"), pack(b"\x7f" * 48)),
        "values that are a bomb": (4, (*shape, "values"), make_bomb()),
        "values of another size": (4, (*shape, "size"), [BIG, BIG]),
        "values that are objects": (4, (*shape, "dtype"), "|O"),
        "values of a type that is none": (4, (*shape, "dtype"), "labels"),
        "a step of zero": (4, (*shape, "step"), [0.0, 0.0]),
        "a frame beyond all": (5, (*shape, "frame"), [BIG, BIG]),
        "a save of texts": (6, ("edits",), ["a"]),
        "a save below zero": (6, ("saving",), -1),
        "a save that is a text": (6, ("saving",), "all"),
        "a token that is a list": (6, ("token",), [1]),
        "a head of other axes": (0, ("shape",), [64]),
        "a head of texts": (0, ("shape",), ["64", "64"]),
        "a head with a newer subject": (0, ("subject", "scanner"), "x"),
        "a head without a place": (0, ("place",), None),
        "a head with a null in its place": (0, ("place",), ["a\0b", "labels/bad"]),
        "a head with half a letter": (0, ("place",), ["\ud800", "labels/bad"]),
        "a head of a subject of texts": (0, ("subject", "level"), "0"),
    }
    for number in FAR:
        values[f"a point at {str(number)[:6]}"] = (
            1,
            (*shape, "points"),
            [[0, number]] * 2,
        )
        values[f"a radius of {str(number)[:6]}"] = 1, (*shape, "radius"), number
        values[f"an origin at {str(number)[:6]}"] = 4, (*shape, "origin"), [0, number]
    return {name: change(records, *what) for name, what in values.items()}


def line_poisons(text: bytes) -> dict[str, bytes]:
    """Add or change lines of the file of a journal."""
    head, _, rest = text.partition(b"\n")
    first, _, later = rest.partition(b"\n")

    def between(line: bytes) -> bytes:
        return b"\n".join((head, first, line, later))

    return {
        "a line that is a list": between(b"[1, 2]"),
        "a line that is a number": between(b"7"),
        "a line that is nothing": between(b"null"),
        "an empty line": between(b""),
        "a line that is no JSON": between(b"\x00" * 100),
        "a line that is not UTF-8": between(b'{"classes": "\xff\xfe"}'),
        "a deep line": between(b"[" * 200_000 + b"]" * 200_000),
        "a long line": between(b'{"x": "' + b"x" * (160 << 20) + b'"}'),
        "a line of many values": between(b'{"x": [' + b"[]," * (10 << 20) + b"[]]}"),
        "a long number": between(b'{"end": ' + b"1" * 100_000 + b"}"),
        "an end below zero": between(b'{"end": -1}'),
        "an end beyond": between(b'{"end": 100}'),
        "an end that is a text": between(b'{"end": "1"}'),
        "an end that is not whole": between(b'{"end": 0.5}'),
        "lasting edits that are none": between(b'{"lasting": null}'),
        "lasting edits below zero": between(b'{"lasting": -5}'),
        "lasting edits beyond": between(b'{"lasting": 1000000000000}'),
        "classes that are a list": between(b'{"classes": [1], "unsaved": true}'),
        "classes that are deep": between(
            json.dumps({"classes": "[" * 200_000, "unsaved": True}).encode()
        ),
        "classes of numbers": between(
            json.dumps(
                {
                    "classes": '{"format": "napari-ngff-classes", "classes": 5}',
                    "unsaved": True,
                }
            ).encode()
        ),
        "a record of a newer version": between(b'{"undo": 1}'),
        "another head": between(b'{"place": [1, 2], "shape": 5}'),
        "no head": rest,
        "a head that is a list": b"[]\n" + rest,
        "a head that is not UTF-8": b"\xff\n" + rest,
        "zeros alone": bytes(1 << 20),
        "zeros behind": text + bytes(1 << 20),
        "half a line behind": text + first[: len(first) // 2],
    }


def block_poisons(text: bytes) -> dict[str, bytes]:
    """Put blocks of before a save into the file that keeps them."""
    data = zlib.compress(b"block")
    head = {
        "level": 0,
        "cell": [0, 0],
        "shape": [32, 32],
        "dtype": "<u2",
        "constant": None,
        "length": len(data),
        "crc": zlib.crc32(data),
    }
    values = {
        "a block of another size": {"shape": [BIG, BIG], "constant": 0},
        "a block below zero": {"shape": [-5, 5], "constant": 0},
        "a block of objects": {"dtype": "|O"},
        "a block of no type": {"dtype": "labels"},
        "a block of a text": {"constant": "seven"},
        "a block that is longer": {"length": BIG},
        "a block that ends before it begins": {"length": -5},
        "a block at a text": {"cell": "here"},
        "a block of unknown steps": {"chunks": [32, 32], "order": 5, "steps": 7},
    }
    return {
        **{
            name: json.dumps(head | change).encode() + b"\n" + data
            for name, change in values.items()
        },
        "a block of a list": b"[]\n",
        "blocks that are deep": b"[" * 200_000 + b"\n",
        "blocks of zeros": bytes(64 << 20),
    }


def labels_in(root: Path, name: str) -> tuple:
    """Open the labels of a name, and say what their journal is of."""
    folder = root / "labels" / name
    canvas = open_canvas(folder, len([p for p in folder.iterdir() if p.is_dir()]))
    subject = JournalSubject(str(root), name, 0, "uint16")
    return str(root), f"labels/{name}", canvas, subject


def leave_journal(root: Path, name: str, *, begins_save: bool) -> Path:
    """Paint on labels, and end as a process that is killed."""
    store, path, canvas, subject = labels_in(root, name)
    journal = Journal(store, path, canvas, subject=subject)
    for edit in EACH_SHAPE:
        canvas.begin_step()
        canvas.add_edit(edit)
        canvas.close_step()
    journal.sync()
    if begins_save:
        journal.note_saving(canvas.edits, "a token")
    journal.close()
    return journal.folder


def restore(root: Path, folder: Path) -> None:
    """Take a journal over, look at all levels, and save them."""
    store, path, canvas, subject = labels_in(root, "bad")
    journal = Journal(store, path, canvas, folder, subject=subject)
    try:
        canvas.add_edits(journal.content.edits)
        writer = LabelWriter(canvas, journal.before_images, "nearest")
        writer.adopt_journal(journal.content)
        for level in canvas.levels:
            canvas.read(level.number, whole_box(level.shape))
        writer.save()
    finally:
        journal.close()


def meet_journal(root: Path, folder: Path) -> str:
    """Open the image as a window does; say what comes of the journal."""
    unreadable: list[str] = []
    kept = find_kept_edits([open_node(root)], (), unreadable)
    found = {one.place: one for one in kept}
    assert place_text(str(root), "labels/good") in found
    if place_text(str(root), "labels/bad") not in found:
        return "named" if str(folder) in "".join(unreadable) else "left out"
    try:
        restore(root, folder)
    except (ValueError, OverflowError):  # reported as that they are kept
        return "refused"
    return "restored"


def meet_bounded(root: Path, folder: Path) -> str:
    """Do `meet_journal` with so much more memory than is in use."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGESIZE") + MEMORY
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        return meet_journal(root, folder)
    except Exception as error:  # noqa: BLE001  whatever it is
        return repr(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def meet_all(folder: Path, answers) -> None:
    """Make an image with two journals, poison one in each way, and open the image."""
    root = folder / "image.zarr"
    write_image(root, shape=(64, 64))
    for name in ("good", "bad"):
        image = open_node(root)
        create_labels(image, name, np.dtype("u2"), 0, location_inside(image)).register()
    leave_journal(root, "good", begins_save=False)
    journal = leave_journal(root, "bad", begins_save=True)
    text = (journal / EDITS).read_bytes()
    records = [json.loads(line) for line in text.splitlines()]
    poisoned = {"nothing": text, **line_poisons(text)}
    for name, changed in record_poisons(records).items():
        poisoned[name] = b"".join(json.dumps(one).encode() + b"\n" for one in changed)
    blocks = block_poisons(text)
    shutil.copytree(journal, folder / "copy")
    found = {}
    for name in (*poisoned, *blocks):
        shutil.rmtree(journal, ignore_errors=True)
        shutil.copytree(folder / "copy", journal)
        (journal / EDITS).write_bytes(poisoned.get(name, text))
        if name in blocks:
            (journal / BEFORE).write_bytes(blocks[name])
        answer = meet_bounded(root, journal)
        is_kept = (journal / EDITS).read_bytes() == poisoned.get(name, text)
        found[name] = (
            answer if is_kept or answer == "restored" else f"changed, {answer}"
        )
    answers.put(found)
