"""A hierarchy in a zarr store that a program already has open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from napari_ngff.addresses import hide_secrets
from napari_ngff.errors import AccessError
from napari_ngff.store.sources.blob import Blob, Traits
from napari_ngff.store.store import Store

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.abc.store import Store as AbstractStore


class ZarrStore(Store):
    """Read any zarr store; who opened the store closes it."""

    traits = Traits(is_lasting=False)

    def __init__(self, store: AbstractStore) -> None:
        self._store = store

    @property
    @override
    def name(self) -> str:
        """The text of the store itself, without secrets of an address in it."""
        return hide_secrets(str(self._store))

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        from zarr.core.buffer import default_buffer_prototype

        try:
            buffer = _wait_for(
                self._store.get(
                    key, default_buffer_prototype(), _byte_request(start, length)
                )
            )
        except PermissionError as error:
            msg = f"No permission to read {key} in {self.name}."
            raise AccessError(msg) from error
        if buffer is None:
            return None
        data: bytes = buffer.to_bytes()
        # Suffix requests of zarr have no length: `Store.read` may ask for less.
        return Blob(data if length is None else data[:length])

    @override
    def find_revision(self, key: str) -> None:
        """Return None: zarr's stores have no revisions."""

    @override
    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        if not self._store.supports_listing:
            return None
        return tuple(sorted(_wait_for(_collect_names(self._store.list_dir(prefix)))))


# Others ask what kind a source is: zarr-python is imported where a store is read.


def _wait_for(coroutine: Any) -> Any:
    # Private in zarr 3.1 to 3.4: the one way to run a store's coroutines on the event
    # loop that the store may be bound to.
    from zarr.core.sync import sync

    return sync(coroutine)


def _byte_request(start: int | None, length: int | None) -> ByteRequest | None:
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest

    if start is None:
        return None
    if start < 0:
        return SuffixByteRequest(-start)
    if length is None:
        return OffsetByteRequest(start)
    return RangeByteRequest(start, start + length)


async def _collect_names(names: Any) -> list[str]:
    return [name async for name in names]
