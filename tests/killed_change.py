"""A process that changes a hierarchy, to be killed or hindered at any step.

    echo '{"change": "rebuild", "root": ..., "step": 3, ...}' | python killed_change.py

A step is a system call that changes something below the root, given by its name and by
how many of that name came before. At the step asked for the process kills itself, just
before or just after the call, or the call fails with an error.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import changes
from napari_ngff.store.write import exchange


class Steps:
    """Counts system calls that change something below a folder."""

    def __init__(self, job: dict) -> None:
        self.roots = tuple(job["roots"])
        self.step, self.when = tuple(job.get("step", ())), job.get("when", "")
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()

    def watch(self, module, name: str, path_of) -> None:
        call = getattr(module, name)

        def watched(*given, **named):
            path = path_of(*given, **named)
            if not isinstance(path, str | os.PathLike) or not self.below(path):
                return call(*given, **named)
            return self.count(name, partial(call, *given, **named))

        setattr(module, name, watched)

    def below(self, path) -> bool:
        return os.path.abspath(os.fspath(path)).startswith(self.roots)

    def count(self, name: str, call):
        with self.lock:
            step = name, self.counts[name]
            self.counts[name] += 1
        if step != self.step:
            return call()
        if self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.when.startswith("E"):
            code = getattr(errno, self.when)
            raise OSError(code, os.strerror(code))
        result = call()
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    def install(self) -> None:
        def first(path, *_, **__):
            return path

        def second(_, path, *__, **___):
            return path

        def made(path, flags, *_, **__):
            return path if flags & os.O_CREAT else None

        def written(file, mode="r", *_, **__):
            return file if set(mode) & set("wxa") else None

        def opened(handle, *_):
            return os.readlink(f"/proc/self/fd/{handle}")

        for name in ("rename", "replace"):
            self.watch(os, name, second)
        for name in ("unlink", "rmdir", "mkdir"):
            self.watch(os, name, relative(first))
        self.watch(os, "open", made)
        self.watch(os, "fsync", opened)
        self.watch(os, "write", opened)
        import builtins

        self.watch(builtins, "open", written)
        swap = exchange._swap

        def counted(one: bytes, other: bytes) -> int:
            return self.count("swap", partial(swap, one, other))

        exchange._swap = counted


def relative(path_of):
    """Take paths below an open folder, too, as `shutil.rmtree` gives them."""

    def path(*given, dir_fd=None, **named):
        found = path_of(*given, **named)
        if dir_fd is None:
            return found
        return f"{os.readlink(f'/proc/self/fd/{dir_fd}')}/{found}"

    return path


def run(job: dict) -> None:
    if not job["swaps"]:
        exchange._swap = lambda *_: errno.ENOSYS
    os.environ["XDG_DATA_HOME"] = job["home"]
    steps = Steps(job)
    change = changes.CHANGES[job["change"]]
    steps.install()
    failure = ""
    try:
        (change.recover if job["recovers"] else change.make)(Path(job["root"]))
    except Exception as error:  # noqa: BLE001
        failure = f"{type(error).__name__}: {error}"
    told = {"steps": steps.counts, "failure": failure}
    os.write(1, f"end {json.dumps(told)}\n".encode())
    os._exit(0)


def main() -> None:
    """Run a process for each line, since importing all this takes a second."""
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            try:
                run(json.loads(line))
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main()
