"""Work that is shared with threads leaves nothing behind when it is done."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import nullcontext

import numpy as np
import pytest

from napari_ngff.store.threads import ask_pool, share_work

SIZE = 3
"""Of the pool: no other test uses it."""


@pytest.fixture
def busy_pool():
    """Let all threads of the pool do something else."""
    ended = threading.Event()
    tasks = [ask_pool(SIZE, ended.wait) for _ in range(SIZE)]
    yield
    ended.set()
    for task in tasks:
        assert task.result()


@pytest.mark.parametrize("fails", [False, True])
def test_pixels_are_let_go_while_the_threads_are_busy(busy_pool, fails) -> None:
    """Of read after read, the pool must not keep those that it did not help with."""
    kept = []

    def read_some() -> None:
        voxels = np.zeros(100)
        kept.append(weakref.ref(voxels))

        def step(index: int) -> None:
            voxels[index] = 1
            if fails and index == 50:
                raise ValueError("damaged")

        share_work(iter(range(100)), step, 100, SIZE)
        assert voxels.all()

    for _ in range(10):
        with pytest.raises(ValueError, match="damaged") if fails else nullcontext():
            read_some()
    gc.collect()
    assert [reference() for reference in kept] == [None] * 10
