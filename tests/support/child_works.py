"""Work for another process: it ends, fails, or waits until it is stopped."""

from __future__ import annotations

import os
import time
from pathlib import Path

from napari_ngff.errors import ChunkError


def add(first, second, follow):
    follow("adding")
    time.sleep(0.5)
    return first + second


def print_much(follow):
    print("not a message " * 1000)  # noqa: T201
    os.write(1, b"nor this")
    return "done"


def refuse(follow):
    raise ChunkError("/a.zarr", "0/c/0", "it is damaged")


class OwnError(Exception):
    """No process can make it of its arguments."""

    def __init__(self, one, other):
        super().__init__("own error")


def refuse_strangely(follow):
    raise OwnError(1, 2)


def die(follow):
    os._exit(3)


def wait_for_stop(note, follow):
    """Until it is stopped; writes a note then, as work cleans up after itself."""
    try:
        while True:
            follow("waiting")
            time.sleep(0.01)
    except InterruptedError:
        Path(note).write_text(str(os.getpid()))
        raise


def never_stop(follow):
    time.sleep(600)
