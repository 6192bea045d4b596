"""Zarr stores over sources and transactions, for zarr-python."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from napari_ngff.store.arrays.unsafe_codecs import check_document, is_array_document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from napari_ngff.store.sources.source import Source
    from napari_ngff.store.write.transaction import Secure, Transaction

__all__ = ["SourceStore", "TransactionStore"]


class SourceStore(Store):
    """A source as a zarr store that cannot be written.

    zarr-python opens arrays only through this store, so that none is decoded whose
    codecs run programs of a file: see `check_document`.

    Parameters
    ----------
    source
        Where the bytes come from. Its reads block, so they run in threads.
    """

    supports_writes: bool = False
    supports_deletes: bool = False
    supports_listing: bool = True

    def __init__(self, source: Source) -> None:
        super().__init__(read_only=True)
        self.source = source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceStore) and other.source is self.source

    def __hash__(self) -> int:
        return hash((SourceStore, id(self.source)))

    def __str__(self) -> str:
        return self.source.name

    def __repr__(self) -> str:
        return f"SourceStore({self.source.name!r})"

    def with_read_only(self, read_only: bool = False) -> Store:
        """Return itself; there is no other mode."""
        if not read_only:
            self._refuse_change()
        return self

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Read an object or a part of it in the calling thread."""
        # In the calling thread: newer zarr-pythons call this where they need no event
        # loop.
        data = self.source.get(key, *start_and_length(byte_range))
        if data is None:
            return None
        if is_array_document(key):
            # Before zarr-python gets the document: it creates the codecs that are named
            # there.
            check_document(data, f"{self.source.name}/{key}")
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Read an object or a part of it."""
        return await asyncio.to_thread(
            self.get_sync, key, prototype=prototype, byte_range=byte_range
        )

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Read several parts."""
        reads = (self.get(key, prototype, part) for key, part in key_ranges)
        return list(await asyncio.gather(*reads))

    async def exists(self, key: str) -> bool:
        """Return whether there is such an object."""
        return await asyncio.to_thread(self.source.get, key, 0, 1) is not None

    def list(self) -> AsyncIterator[str]:
        """List the keys of all objects."""
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """List the keys that start with `prefix`."""
        parent = prefix.rpartition("/")[0]
        for key in await asyncio.to_thread(lambda: tuple(self._list_below(parent))):
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """List the names directly below `prefix`."""
        for name in await asyncio.to_thread(self._list_names, prefix.rstrip("/")):
            yield name

    def _list_names(self, prefix: str) -> tuple[str, ...]:
        names = self.source.list_names(prefix)
        if names is None:
            raise NotImplementedError(f"{self.source.name} cannot be listed")
        return names

    def _list_below(self, prefix: str) -> Iterator[str]:
        for name in self._list_names(prefix):
            key = f"{prefix}/{name}" if prefix else name
            # A name with names below it is a folder; sources have no other way to ask.
            if self.source.list_names(key):
                yield from self._list_below(key)
            else:
                yield key

    def _refuse_change(self) -> NoReturn:
        raise ValueError(f"{self.source.name} is read-only")

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse."""
        self._refuse_change()

    async def delete(self, key: str) -> None:
        """Refuse."""
        self._refuse_change()


class TransactionStore(SourceStore):
    """The objects of a transaction as a zarr store that can be written.

    Parameters
    ----------
    transaction
        Its `source` is read.
    secure
        See `Secure`.
    """

    supports_writes: bool = True
    supports_deletes: bool = True

    def __init__(self, transaction: Transaction, secure: Secure | None = None) -> None:
        super().__init__(transaction.source)
        self._read_only = False
        self.transaction = transaction
        self._secure = secure

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TransactionStore)
            and other.transaction is self.transaction
        )

    def __hash__(self) -> int:
        return hash((TransactionStore, id(self.transaction)))

    def with_read_only(self, read_only: bool = False) -> Store:
        """Open the same objects in the other mode."""
        return SourceStore(self.source) if read_only else self

    async def set(self, key: str, value: Buffer) -> None:
        """Write an object."""
        await asyncio.to_thread(
            self.transaction.put, key, value.to_bytes(), self._secure
        )

    async def delete(self, key: str) -> None:
        """Remove an object."""
        await asyncio.to_thread(self.transaction.delete, key, self._secure)


def start_and_length(request: ByteRequest | None) -> tuple[int | None, int | None]:
    """Convert a request of zarr into start and length for `Source.get`."""
    match request:
        case None:
            return None, None
        case RangeByteRequest(start, end):
            return start, end - start
        case OffsetByteRequest(offset):
            return offset, None
        case SuffixByteRequest(suffix):
            return -suffix, suffix
    raise TypeError(f"unknown byte request {request!r}")
