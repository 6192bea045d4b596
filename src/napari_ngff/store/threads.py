"""Shares work between the calling thread and a limited number of helping threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 64
"""Most threads, for sources that are slow to answer."""

LOCAL_CONCURRENCY = 8
"""Most reads at once of a local source; sources with more are remote, where each
request takes time."""

CORES = min(os.cpu_count() or 1, LOCAL_CONCURRENCY)
"""Useful number of readers of chunks on a local source."""


@cache
def thread_pool(size: int) -> ThreadPoolExecutor:
    """Return the process's pool of this size; its threads start when first used."""
    # One pool per size: reads that wait for a server must not hold up local ones.
    return ThreadPoolExecutor(size, thread_name_prefix="napari-ngff-chunks")


def share_work(
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

    def draw_items() -> None:
        try:
            while not failed.is_set():
                with lock:
                    item = next(items, None)
                if item is None:
                    return
                step(item)
        except BaseException:
            # The other helpers stop at their next item instead of finishing work that
            # is lost.
            failed.set()
            raise

    # The pool keeps cancelled tasks until a thread takes them out: they must not keep
    # the voxels that `step` would fill.
    shared = [draw_items]
    asked = (ask_pool(concurrency, lambda: shared[0]()) for _ in range(helpers))
    tasks = [task for task in asked if task]
    try:
        draw_items()
    finally:
        # Wait for those that run: `step` may use what the caller is about to close.
        running = [task for task in tasks if not task.cancel()]
        errors = [task.exception() for task in running]
        shared.clear()
    for error in errors:
        if error is not None:
            raise error


def go_on_after_error(call: Callable[[], object]) -> None:
    """Call a function, and report its error without ending the thread."""
    try:
        call()
    except Exception as error:  # noqa: BLE001
        thread = threading.current_thread()
        arguments = type(error), error, error.__traceback__, thread
        threading.excepthook(threading.ExceptHookArgs(arguments))


def ask_pool(concurrency: int, work: Callable[[], Result]) -> Future[Result] | None:
    """Give work to the pool; None while the interpreter shuts down."""
    try:
        return thread_pool(min(concurrency, MOST)).submit(work)
    except RuntimeError:
        return None
