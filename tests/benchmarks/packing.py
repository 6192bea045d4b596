"""How long an `.ozx` takes to pack, and to save into, against copies by the system.

    python packing.py DATA [MEGABYTES]

prints one round by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

Values = dict[str, dict[str, list[float]]]

CHUNKS = "512", "64"
"""Kibibytes of a chunk."""

IN_FOLDER = 200


def write_folder(folder: Path, kibibytes: int, megabytes: int) -> Path:
    """Write a hierarchy of one array whose chunks cannot be compressed."""
    if folder.exists():
        return folder
    group = {"zarr_format": 3, "node_type": "group"}
    document = group | {"attributes": {"ome": {"version": "0.5"}}}
    partial = folder.with_suffix(".part")
    partial.mkdir(parents=True)
    (partial / "zarr.json").write_text(json.dumps(document))
    noise = os.urandom(kibibytes * 1024 - 8)
    for number in range(megabytes * 1024 // kibibytes):
        row, column = divmod(number, IN_FOLDER)
        place = partial / "0" / "c" / str(row)
        if not column:
            place.mkdir(parents=True)
        (place / str(column)).write_bytes(noise + number.to_bytes(8, "little"))
    partial.rename(folder)
    return folder


def alternate(
    ways: dict[str, tuple[Callable[[], Any], Path]], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each way, in turn; what it made is removed outside of the time."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for i in range(rounds):
        for name in list(ways) if i % 2 else list(ways)[::-1]:
            call, made = ways[name]
            # What the one before has left to write is not this one's.
            os.sync()
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
            shutil.rmtree(made) if made.is_dir() else made.unlink()
    return dict(seconds)


def copied(folder: Path, copy: Path) -> None:
    subprocess.run(["cp", "-r", str(folder), str(copy)], check=True)


def packing(data: Path, rounds: int, kibibytes: str, megabytes: str) -> Values:
    """Folder -> archive, and folder -> folder, in the system's cache."""
    from napari_ngff.store.write.zip_packing import pack_hierarchy

    name = f"packed-{kibibytes}-{megabytes}"
    folder = write_folder(data / name, int(kibibytes), int(megabytes))
    file, copy = data / f"{name}.ozx", data / f"{name}.copy"
    ways: dict[str, tuple[Callable[[], Any], Path]] = {
        "napari-ngff": (lambda: pack_hierarchy(folder, file, flush=False), file),
        "shutil": (lambda: shutil.copytree(folder, copy), copy),
        "`cp -r`": (lambda: copied(folder, copy), copy),
    }
    return {"time": alternate(ways, rounds)}


def flushed_packing(data: Path, rounds: int, kibibytes: str, megabytes: str) -> Values:
    """The same until all is on the disk."""
    from napari_ngff.store.write.zip_packing import pack_hierarchy

    name = f"packed-{kibibytes}-{megabytes}"
    folder = write_folder(data / name, int(kibibytes), int(megabytes))
    file, copy = data / f"{name}.ozx", data / f"{name}.copy"

    def flushed() -> None:
        copied(folder, copy)
        subprocess.run(["sync", "-f", str(copy)], check=True)

    ways: dict[str, tuple[Callable[[], Any], Path]] = {
        "napari-ngff": (lambda: pack_hierarchy(folder, file), file),
        "`cp -r`": (flushed, copy),
    }
    return {"time": alternate(ways, rounds)}


def unpacking(data: Path, rounds: int, kibibytes: str, megabytes: str) -> Values:
    """Archive -> folder, and a copy of such a folder, until all is on the disk."""
    from napari_ngff.store.write.new_hierarchy import unpack_hierarchy
    from napari_ngff.store.write.zip_packing import pack_hierarchy

    name = f"packed-{kibibytes}-{megabytes}"
    folder = write_folder(data / name, int(kibibytes), int(megabytes))
    file, made, copy = data / f"{name}.ozx", data / "made", data / f"{name}.copy"
    pack_hierarchy(folder, file, overwrite=True)

    def flushed() -> None:
        copied(folder, copy)
        subprocess.run(["sync", "-f", str(copy)], check=True)

    ways: dict[str, tuple[Callable[[], Any], Path]] = {
        "napari-ngff": (lambda: unpack_hierarchy(file, made), made),
        "`cp -r`": (flushed, copy),
    }
    values = {"time": alternate(ways, rounds)}
    file.unlink()
    return values


def resaving(data: Path, rounds: int, kibibytes: str, megabytes: str) -> Values:
    """Change one chunk of an archive; copy the archive. Until all is on the disk."""
    from napari_ngff.store.sources.archive_store import ArchiveStore
    from napari_ngff.store.write.zip_packing import pack_hierarchy

    name = f"packed-{kibibytes}-{megabytes}"
    folder = write_folder(data / name, int(kibibytes), int(megabytes))
    file, copy, nothing = data / f"{name}.ozx", data / "copy.ozx", data / "nothing"
    pack_hierarchy(folder, file, overwrite=True)
    transaction = ArchiveStore(file).begin()

    def save() -> None:
        nothing.touch()
        transaction.put("0/c/0/7", os.urandom(1000))
        transaction.commit()

    def flushed() -> None:
        shutil.copyfile(file, copy)
        with copy.open("rb+") as target:
            os.fsync(target.fileno())

    ways: dict[str, tuple[Callable[[], Any], Path]] = {
        "napari-ngff": (save, nothing),
        "shutil": (flushed, copy),
    }
    values = {"time": alternate(ways, rounds)}
    file.unlink()
    return values


CASES: dict[str, Callable[..., Values]] = {
    function.__name__: function
    for function in (packing, flushed_packing, unpacking, resaving)
}


def main() -> None:
    data, *size = sys.argv[1:]
    megabytes = size[0] if size else "2048"
    for kibibytes in CHUNKS:
        for case in CASES.values():
            row = case(Path(data), 1, kibibytes, megabytes)["time"]
            reported = {who: round(min(seconds), 2) for who, seconds in row.items()}
            print(case.__name__, kibibytes, reported)


if __name__ == "__main__":
    main()
