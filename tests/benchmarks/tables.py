"""The tables of measured performance: which cases fill them, and how often."""

from __future__ import annotations

import os
from dataclasses import dataclass

OURS = "napari-ngff"
OWN_SAVERS = (OURS, "the same, nearest", "floor", "floor, on the disk")
OTHER_SAVERS = ("ome-zarr-py", "ngio", "ngff-zarr")
MAKE_THEIR_OWN = {
    "saving",
    "saving-memory",
    "editing",
    "editing-memory",
    "packing",
    "converting",
    "converting-memory",
    "planning",
    "running",
    "imports",
    "bending",
    "annotating",
    "heartbeat",
    "arriving",
}
"""Tables that need none of the images of `data.py`."""

SIZE = os.environ.get("PACKED_MEGABYTES", "2048")
"""Of the folder that is packed."""


@dataclass(frozen=True)
class Job:
    """A case in a process of its own: label of its row, case, rounds, arguments."""

    row: str
    case: str
    rounds: int
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """A table: its unit, how often its jobs are run, and the jobs."""

    unit: str
    repeats: int
    jobs: tuple[Job, ...]


def each(row: str, case: str, *who: str) -> tuple[Job, ...]:
    """One job per contender, for what has to be the first of its process."""
    return tuple(Job(row, case, 1, (name,)) for name in who)


def full(row: str, picture: str, rounds: int, others: int) -> tuple[Job, ...]:
    """One job per way of saving all of a label image, and per codec of ours."""
    ways = [(who, "zstd") for who in OWN_SAVERS + OTHER_SAVERS]
    ways += [(who, "blosc") for who in OWN_SAVERS]
    return tuple(
        Job(
            f"{row}, {codec}",
            "full_save",
            rounds if who in OWN_SAVERS else others,
            (picture, who, codec),
        )
        for who, codec in ways
    )


def full_memory(row: str, picture: str) -> tuple[Job, ...]:
    """One job per way of saving all of a label image, for its memory."""
    who = OWN_SAVERS[:3] + OTHER_SAVERS
    return tuple(Job(row, "full_save_memory", 1, (picture, name)) for name in who)


PLATES = ("96 x 4", "384 x 9", "1536 x 4")
READERS = (OURS, "napari-ome-zarr", "ome-zarr-py", "ngio")
NEXT = tuple(Job("", "next_field", 3, (name,)) for name in PLATES)


def on_plates(case: str) -> tuple[Job, ...]:
    """One job per plate and reader."""
    # ngio reads image by image: minutes for the larger ones.
    return tuple(
        Job("", case, 1 if name == PLATES[-1] else 3, (name, who))
        for name in PLATES
        for who in (READERS if name == PLATES[0] else READERS[:-1])
    )


FAR = ("100 ms", "300 ms", "100 ms, 20 Mbit/s")
NEAR = ("this disk", "20 ms a chunk")
ASYNC = "the same, asynchronous"


def edits(row: str, picture: str, method: str, rounds: int) -> tuple[Job, ...]:
    """One job per way of saving an edit, or all anew."""
    who = (OURS, "ngio, region", "ngio, all", "ome-zarr-py, all")
    return tuple(Job(row, "edit_save", rounds, (picture, method, w)) for w in who)


TABLES = {
    "opening": Measurement(
        "ms",
        2,
        (
            Job("10,000 chunks: reader alone", "opening", 15, ("1e4", "reader")),
            Job("1,000,000 chunks: reader alone", "opening", 15, ("1e6", "reader")),
            Job("10,000: with channels split", "opening", 7, ("1e4", "split")),
            Job("1,000,000: with channels split", "opening", 2, ("1e6", "split")),
            Job("10,000: with napari's layers", "opening", 5, ("1e4", "layers")),
            Job("1,000,000: with napari's layers", "opening", 2, ("1e6", "layers")),
        ),
    ),
    "first": Measurement(
        "ms", 5, each("1,000,000 chunks", "first_open", OURS, "napari-ome-zarr")
    ),
    "memory": Measurement(
        "MB",
        3,
        (
            *each("image of 1,000,000 chunks", "open_memory", OURS, "napari-ome-zarr"),
            *each("archive of 100,000 entries", "entries_memory", OURS, "zarr-python"),
        ),
    ),
    "files": Measurement(
        "",
        1,
        (
            Job("0.4, 5 levels", "files", 1, ("0.4",)),
            Job("0.5, 5 levels", "files", 1, ("0.5",)),
        ),
    ),
    "views": Measurement(
        "ms",
        3,
        (
            Job("chunks 256²", "views", 15, ("flat-256.zarr",)),
            Job("chunks 512²", "views", 15, ("flat-512.zarr",)),
            Job("256² in shards of 2048²", "views", 15, ("flat-sharded.zarr",)),
            Job("256², Zarr v2", "views", 15, ("flat-v2.zarr",)),
            Job("256² of 1,000,000 chunks", "views", 4, ("1e6-0.5.zarr",)),
            Job("`.ozx`, 256²", "views", 15, ("flat-256.ozx",)),
            # tensorstore 0.1.86 never returns from a part of a large entry.
            Job(
                "`.ozx`, 256² in shards",
                "views",
                7,
                ("flat-sharded.ozx", "tensorstore"),
            ),
            # dask leaves much behind here for whoever comes after it.
            Job(
                "the same, without dask",
                "views",
                25,
                ("flat-sharded.ozx", "tensorstore", "dask"),
            ),
        ),
    ),
    "archive": Measurement(
        "ms", 2, (Job("open, and read a first chunk", "open_entries", 5),)
    ),
    "window": Measurement(
        "ms", 5, each("", "window", OURS, "napari-ome-zarr", "zeros")
    ),
    "heartbeat": Measurement(
        "ms",
        2,
        (
            *(
                Job("", "heartbeat", 1, (source, who))
                for source in (*FAR, *NEAR)
                for who in (OURS, "of it, its own code", "napari-ome-zarr")
            ),
            Job("", "heartbeat", 1, ("100 ms", ASYNC)),
            Job("", "heartbeat", 1, ("this disk", ASYNC)),
            Job("", "heartbeat", 1, ("this disk", "napari")),
        ),
    ),
    "arriving": Measurement(
        "ms",
        2,
        tuple(
            Job("", "arriving", 1, (source, who))
            for source in FAR
            for who in (OURS, "napari-ome-zarr")
        ),
    ),
    "bending": Measurement("ms", 2, (Job("view of 1024²", "bending", 15),)),
    "plate": Measurement("ms", 1, (*on_plates("plate"), *NEXT, Job("", "walking", 15))),
    "plate-memory": Measurement("MB", 1, on_plates("plate_memory")),
    "plate-files": Measurement("", 1, on_plates("plate_files")),
    "saving": Measurement(
        "ms",
        2,
        (
            *full("8192²", "plane", 5, 3),
            *full("64 planes of 2048²", "stack", 3, 1),
        ),
    ),
    "saving-memory": Measurement(
        "MB",
        1,
        (
            *full_memory("8192²: 268 MB", "plane"),
            *full_memory("64 planes of 2048²: 1,074 MB", "stack"),
        ),
    ),
    "editing": Measurement(
        "ms",
        1,
        (
            *edits("1 % of 8192²", "plane", "nearest", 10),
            Job("the same, mode", "edit_save", 10, ("plane", "mode", OURS)),
            *edits("1 % of 64 planes of 2048²", "stack", "nearest", 3),
            Job("the same in 3D, mode", "edit_save", 3, ("stack", "mode", OURS)),
            Job("every chunk of 8192²", "edit_all", 2, ("plane", "nearest", OURS)),
            Job("every chunk of 8192²", "edit_all", 2, ("plane", "nearest", "floor")),
        ),
    ),
    "editing-memory": Measurement(
        "MB",
        1,
        (
            Job("every chunk of 8192²", "edit_memory", 1, ("plane", "mode", OURS)),
            Job("of 64 planes", "edit_memory", 1, ("stack", "mode", OURS)),
        ),
    ),
    "packing": Measurement(
        "s",
        1,
        (
            Job("pack, chunks of 512 KiB", "packing", 5, ("512", SIZE)),
            Job("to the disk", "flushed_packing", 5, ("512", SIZE)),
            Job("pack, chunks of 64 KiB", "packing", 3, ("64", SIZE)),
            Job("unpack, chunks of 512 KiB", "unpacking", 3, ("512", SIZE)),
            Job("unpack, chunks of 64 KiB", "unpacking", 3, ("64", SIZE)),
            Job("save one chunk, to the disk", "resaving", 5, ("512", SIZE)),
        ),
    ),
    "converting": Measurement(
        "s",
        1,
        (
            Job("0.4 to 0.5, chunks stay", "converting_metadata", 5, ("1",)),
            Job("the same, in shards", "converting_joined", 5, ("1",)),
            Job("blosc to zstd in shards", "converting_chunks", 3, ("1",)),
            Job("in 1 process of 1 thread", "converting_processes", 3, ("1", "1")),
            Job("in 2 processes", "converting_processes", 3, ("1", "2")),
        ),
    ),
    "converting-memory": Measurement(
        "MB",
        1,
        tuple(
            Job(f"{size} GB of pixels", "converting_memory", 1, (size, who))
            for size in ("1", "4")
            for who in (OURS, "dask, zarr-python")
        ),
    ),
    "planning": Measurement(
        "",
        1,
        tuple(
            Job(f"{10**n:,} units", "planning", 1, (str(10**n),)) for n in (4, 5, 6, 7)
        ),
    ),
    "running": Measurement(
        "",
        1,
        tuple(Job(f"{10**n:,} units", "running", 1, (str(10**n),)) for n in (4, 5, 6)),
    ),
    "annotating": Measurement(
        "ms",
        1,
        (
            Job("", "class_operations", 7, ("60000",)),
            Job("", "class_operations", 7, ("100000",)),
            Job("", "bridge", 5),
        ),
    ),
    "screen": Measurement(
        "ms",
        2,
        (
            Job("tree: the plate and its wells", "screen", 7, ("tree",)),
            Job("check: all of it", "screen", 2, ("check",)),
        ),
    ),
    "screen-files": Measurement(
        "",
        1,
        (
            Job("tree: the plate and its wells", "screen_files", 1, ("tree",)),
            Job("check: all of it", "screen_files", 1, ("check",)),
        ),
    ),
    "imports": Measurement(
        "ms",
        5,
        (
            Job("`napari_ngff`", "imports", 1, ("napari_ngff",)),
            Job(
                "its reader, napari loaded",
                "imports",
                1,
                ("napari_ngff.viewer.reader",),
            ),
            Job("`dask.array` alone", "imports", 1, ("dask.array",)),
            Job("`zarr` alone", "imports", 1, ("zarr",)),
        ),
    ),
}
