"""What `tests/store/test_bounded_call.py` lets another process do."""

from __future__ import annotations

import os
import sys
import threading
import time


def read_twice(source, key):
    return source.get(key), source.get(key, 1, 2), source.list_names("")


def take_memory(source, count):
    held = [b"\1" * (1 << 20) for _ in range(count)]
    time.sleep(0.1)
    return len(held)


def start_threads(source, count):
    """Start threads that wait, as libraries do."""
    threads = [threading.Thread(target=time.sleep, args=(0.1,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    return len(threads)


def wait(source, seconds):
    time.sleep(seconds)
    return "done"


def print_much(source):
    print("x" * 100_000)  # noqa: T201
    os.write(1, b"y" * 1000)
    return "done"


def die(source):
    os._exit(3)


def fail(source):
    raise KeyError("broken")


def fail_and_go_on(source, key):
    """Fail while another thread asks for objects, as zarr-python's threads may."""

    def ask():
        while True:
            source.get(key)

    threading.Thread(target=ask, daemon=True).start()
    time.sleep(0.05)
    raise KeyError("broken")


def import_from_here(source):
    return [name for name in sys.path if name in ("", os.getcwd())]
