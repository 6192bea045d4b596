"""Threads that help the calling one; bounded, and never waited for in vain."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["share"]

Item = TypeVar("Item")

MOST = 64
"""Threads at most, for sources that are slow to answer."""


@cache
def pool(size: int) -> ThreadPoolExecutor:
    """Return the process's pool of this size; its threads start when first used."""
    return ThreadPoolExecutor(size, thread_name_prefix="napari-ngff-chunks")


def share(items: Iterator[Item], step: Callable[[Item], None], workers: int) -> None:
    """Call `step` for each item in this thread and in up to ``workers - 1`` others.

    All draw from one iterator: a task per worker, not per item. Helpers that have not
    started when the items are used up are cancelled, so that a call from inside the
    pool, or while it is busy, does all the work itself and cannot wait for ever.
    An exception of `step` is raised here after the other threads have stopped.
    """
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                item = next(items, None)
            if item is None:
                return
            step(item)

    workers = min(workers, MOST)
    if workers < 2:
        work()
        return
    helpers = [pool(workers).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        running = [helper for helper in helpers if not helper.cancel()]
        errors = [helper.exception() for helper in running]
    for error in errors:
        if error is not None:
            raise error
