"""A process that changes a hierarchy, to be killed or hindered at any step.

    echo '{"caller": "rebuild a level", "kind": "folder", ...}' | python victim.py

A step is a call that changes something below the job's folder, or in its bucket: named
by the call and by what it is done to, and numbered. At the step asked for the process
kills itself, just before or just after the call, or the call fails once.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import io
import json
import os
import re
import signal
import sys
import tempfile
import threading
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

import callers
from napari_ngff.errors import error_text, remedy_of
from napari_ngff.store.sources.object_store import ObjectStore
from napari_ngff.store.sources.server_access import server_loop
from napari_ngff.store.write import exchange

BY_NUMBER = ("fsync", "write", "pwrite", "sendfile", "ftruncate", "truncate")
"""Calls that get the number of an open file."""

TREE = re.compile(r"\.[0-9a-f]{8}\.aside(/|$)")
"""A folder in which a tree is made, beside its place."""

CHANGING = ("put", "delete", "try_to_put")
"""Methods of `ObjectStore` that are steps."""


def tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def kind_of(path: str) -> str:
    """Name what a path below a job's folder, or an address, is of."""
    name = os.path.basename(path)
    if path.startswith("data/napari-ngff/journal"):
        return "journal"
    if path.startswith("tmp") or path.endswith("(deleted)"):
        return "stage"
    if ".ozx" in name:
        return "archive"
    if TREE.search(path):
        return "aside"
    if name.lstrip(".").startswith(("zarr.json", "z")):
        return "document"
    return "chunk" if "/c/" in path else "other"


class Steps:
    """Counts calls that change something below a folder."""

    def __init__(self, job: dict) -> None:
        self.root = job["folder"]
        step = job.get("step")
        self.stage, self.index = step or ("", 0)
        self.when = job.get("when", "")
        self.counts: Counter[str] = Counter()
        # Those that did not fail: of the others, threads need now more, now fewer.
        self.done: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.failed = ""

    def watch(self, module, name: str, path_of) -> None:
        call = getattr(module, name)

        def watched(*given, **named):
            path = path_of(*given, **named)
            if not isinstance(path, str | os.PathLike) or not self.below(path):
                return call(*given, **named)
            return self.step(name, os.fspath(path), partial(call, *given, **named))

        setattr(module, name, watched)

    def below(self, path) -> bool:
        return os.path.abspath(os.fspath(path)).startswith(self.root)

    def step(self, name: str, path: str, call):
        stage = f"{name} {kind_of(path.removeprefix(f'{self.root}/'))}"
        with self.lock:
            dies = stage == self.stage and self.counts[stage] == self.index
            self.counts[stage] += 1
        if not dies:
            result = call()
            with self.lock:
                self.done[stage] += 1
            return result
        if self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.when.startswith("E"):
            self.failed = path
            code = getattr(errno, self.when)
            # Of an open file the system knows no name.
            named = name not in BY_NUMBER and not path.startswith("s3:")
            raise OSError(code, os.strerror(code), *[path] * named)
        try:
            return call()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        def first(path, *_, **__):
            return path

        def second(_, path, *__, **___):
            return path

        def made(path, flags, *_, **__):
            return path if flags & (os.O_CREAT | os.O_TMPFILE & ~os.O_DIRECTORY) else 0

        def opened(handle, *_, **__):
            try:
                return os.readlink(f"/proc/self/fd/{handle}")
            except OSError:
                return None

        for name in ("rename", "replace"):
            self.watch(os, name, second)
        for name in ("unlink", "rmdir", "mkdir"):
            self.watch(os, name, relative(first))
        self.watch(os, "open", made)
        for name in ("fsync", "write", "pwrite", "sendfile", "ftruncate"):
            self.watch(os, name, opened)
        rename = exchange._call_rename

        def renamed(one, other, way):
            name = "swap" if way == exchange.SWAP else "rename to free"
            call = partial(rename, one, other, way)
            return self.step(name, os.fsdecode(other), call)

        exchange._call_rename = renamed
        self.watch_files()
        self.watch_bucket()

    def watch_files(self) -> None:
        """Count what is written by files of Python, too."""
        steps, opening = self, io.open

        def opened(file, mode="r", buffering=-1, *given, **named):
            path = isinstance(file, str | os.PathLike)
            if not path or not set(mode) & set("wxa+") or not steps.below(file):
                return opening(file, mode, buffering, *given, **named)
            plain = "".join(one for one in mode if one not in "bt")
            opener = named.get("opener")
            made = partial(WatchedFile, os.fspath(file), plain, opener=opener)
            raw = steps.step("create", os.fspath(file), made)
            raw.steps = steps
            if not buffering:
                return raw
            kind = io.BufferedRandom if "+" in mode else io.BufferedWriter
            buffered = kind(raw)
            if "b" in mode:
                return buffered
            encoding = given[0] if given else named.get("encoding")
            return io.TextIOWrapper(buffered, encoding, newline=named.get("newline"))

        builtins.open = io.open = opened

    def watch_bucket(self) -> None:
        """Count changes of a bucket, the errors of which are those of a server."""
        for name in CHANGING:
            call = getattr(ObjectStore, name)

            async def called(store, address, *given, name=name, call=call):
                def run():
                    running = call(store, address, *given)
                    return asyncio.run_coroutine_threadsafe(
                        running, server_loop()
                    ).result()

                # Not in the loop, which would wait for itself.
                return await asyncio.to_thread(self.step, name, address, run)

            setattr(ObjectStore, name, called)


class WatchedFile(io.FileIO):
    """A file each write of which is a step."""

    steps: Steps

    def write(self, data):
        return self._step("write", partial(io.FileIO.write, self, data))

    def truncate(self, size=None):
        return self._step("truncate", partial(io.FileIO.truncate, self, size))

    def _step(self, name, call):
        path = os.readlink(f"/proc/self/fd/{self.fileno()}")
        return self.steps.step(name, path, call)


def relative(path_of):
    """Take paths below an open folder, too, as `shutil.rmtree` gives them."""

    def path(*given, dir_fd=None, **named):
        found = path_of(*given, **named)
        if dir_fd is None:
            return found
        return f"{os.readlink(f'/proc/self/fd/{dir_fd}')}/{found}"

    return path


def run(job: dict) -> None:
    if not job.get("swaps", True):
        exchange._call_rename = lambda *_: errno.ENOSYS
    folder = Path(job["folder"])
    os.environ.update(job["environment"], XDG_DATA_HOME=str(folder / "data"))
    tempfile.tempdir = str(folder / "tmp")
    callers.reported[:] = [tell]
    place = callers.Place(job["kind"], folder)
    caller = callers.CALLERS[job["caller"]]
    steps = Steps(job)
    steps.install()
    tell(f"ready {os.getpid()}")
    reported: dict = {"failures": [], "remedies": []}
    # Once more after a failure, in the same process.
    for _ in range(2 if job.get("when", "").startswith("E") else 1):
        try:
            (caller.recover if job.get("recovers") else caller.make)(place)
        except Exception as error:  # noqa: BLE001
            reported["failures"].append(error_text(error))
            reported["remedies"].append(remedy_of(error))
            reported["trace"] = traceback.format_exc()
        else:
            break
        reported["states"] = callers.state_of(place)
    reported |= {"steps": dict(steps.done), "failed": steps.failed}
    tell(f"end {json.dumps(reported)}")
    if job.get("waits"):
        signal.pause()
    os._exit(0)


def serve(work) -> None:
    """Run a process for each line, since importing all this takes seconds."""
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            try:
                work(json.loads(line))
            except BaseException:  # noqa: BLE001  else its reason is lost
                traceback.print_exc()
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    serve(run)
