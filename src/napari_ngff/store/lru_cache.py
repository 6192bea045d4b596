"""A cache of limited bytes that drops the least recently used values first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")

ENTRY = 600
"""Bytes that a value takes besides its content: its key, and the objects around both.

Measured: 520 to 575 for a chunk. A chunk of 8 x 8 voxels has no more than 128 itself.
"""


class ByteCache(Generic[Value]):
    """A mapping that takes at most `limit` bytes; safe to use from many threads.

    Each value counts with the bytes of its content and `ENTRY`.

    Parameters
    ----------
    limit
        In bytes; 0 keeps nothing.
    least
        Number of values for which there must be room: larger ones are not kept.
    """

    def __init__(self, limit: int, least: int = 8) -> None:
        self._limit = limit
        self._least = least
        self._items: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Most bytes kept; a smaller limit drops values at once."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        with self._lock:
            self._limit = limit
            self._drop_oldest()

    @property
    def nbytes(self) -> int:
        """Bytes that are used now."""
        return self._nbytes

    def get(self, key: Hashable) -> Value | None:
        """Return the value under `key`, or None."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
            return item[0]

    def put(self, key: Hashable, value: Value, nbytes: int) -> None:
        """Keep `value`, whose content has `nbytes`, unless it is too large."""
        if nbytes > self._limit // self._least:
            return
        nbytes += ENTRY
        with self._lock:
            replaced = self._items.pop(key, None)
            if replaced is not None:
                self._nbytes -= replaced[1]
            self._items[key] = value, nbytes
            self._nbytes += nbytes
            self._drop_oldest()

    def drop(self, key: Hashable) -> None:
        """Drop the value under `key`, if there is one."""
        with self._lock:
            _, nbytes = self._items.pop(key, (None, 0))
            self._nbytes -= nbytes

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._items.clear()
            self._nbytes = 0

    def _drop_oldest(self) -> None:
        while self._nbytes > self._limit:
            _, (_, nbytes) = self._items.popitem(last=False)
            self._nbytes -= nbytes
