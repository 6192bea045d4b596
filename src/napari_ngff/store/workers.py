"""Threads that help the calling one; bounded, and never waited for in vain."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CORES", "LOCAL_CONCURRENCY", "go_on_after_error", "share"]

Item = TypeVar("Item")

MOST = 64
"""Threads at most, for sources that are slow to answer."""

LOCAL_CONCURRENCY = 8
"""Sources that can do more at once are remote, where each request costs time. Of small
local files, threads would only fight for the interpreter."""

CORES = min(os.cpu_count() or 1, LOCAL_CONCURRENCY)
"""Readers of chunks that pay on a local source."""


@cache
def pool(size: int) -> ThreadPoolExecutor:
    """Return the process's pool of this size; its threads start when first used."""
    return ThreadPoolExecutor(size, thread_name_prefix="napari-ngff-chunks")


def share(
    items: Iterator[Item], step: Callable[[Item], None], count: int, concurrency: int
) -> None:
    """Call `step` for each item, in this thread and in helping ones.

    All draw from one iterator: a task per helper, not per item. Helpers that have not
    started when the items are used up are cancelled; so a call from inside the pool,
    or while the pool is busy, does all the work itself and cannot wait for ever.

    Parameters
    ----------
    items
        What to work on; none of them None.
    step
        May run in several threads at once. Its first exception is raised here, after
        the helpers have stopped.
    count
        About how many items there are.
    concurrency
        How many threads are of use, the calling one among them.
    """
    helpers = min(concurrency, MOST, count) - 1
    if helpers < 1:
        for item in items:
            step(item)
        return
    lock = threading.Lock()
    failed = threading.Event()

    def work() -> None:
        try:
            while not failed.is_set():
                with lock:
                    item = next(items, None)
                if item is None:
                    return
                step(item)
        except BaseException:
            failed.set()
            raise

    tasks = [
        task for task in (submit(concurrency, work) for _ in range(helpers)) if task
    ]
    try:
        work()
    finally:
        running = [task for task in tasks if not task.cancel()]
        errors = [task.exception() for task in running]
    for error in errors:
        if error is not None:
            raise error


def go_on_after_error(call: Callable[[], object]) -> None:
    """Call something in a thread that has more to do; errors are reported like those
    that end a thread.
    """
    try:
        call()
    except Exception as error:  # noqa: BLE001
        thread = threading.current_thread()
        arguments = type(error), error, error.__traceback__, thread
        threading.excepthook(threading.ExceptHookArgs(arguments))


def submit(concurrency: int, work: Callable[[], None]) -> Future[None] | None:
    """Ask the pool for help; None while the interpreter is shutting down."""
    try:
        return pool(min(concurrency, MOST)).submit(work)
    except RuntimeError:
        return None
