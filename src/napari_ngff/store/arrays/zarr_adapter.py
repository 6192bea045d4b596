"""Reads arrays through zarr-python, which gets a store of its own over ours.

Arrays whose codecs run programs of a file are refused before a library opens them.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
import zarr
from typing_extensions import override
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)
from zarr.abc.store import (
    Store as AbstractStore,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from napari_ngff.errors import CorruptDataError, OMEZarrError, UnsupportedError
from napari_ngff.store.arrays.chunk_layout import ArrayLayout, ChunkKeys
from napari_ngff.store.arrays.parse_array import (
    IndirectError,
    codec_names,
    parse_keys,
)
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.bounded_call import ExcessError, call_bounded
from napari_ngff.store.limits import ARRAY_DOCUMENT, check_chunk, parse_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    import numpy.typing as npt

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.store import Store

WITH_CODECS = (*ARRAY_DOCUMENT.values(), ".zmetadata")
"""Documents that name codecs."""

EXECUTING = ("pickle", "cloudpickle", "dill", "joblib", "marshal")
"""Codecs that run what they decode, as Python's ``pickle`` does."""

OF_OBJECTS = (
    "vlen-utf8",
    "vlen-bytes",
    "vlen-array",
    "json2",
    "msgpack2",
    "categorize",
)
"""Codecs that decode objects of Python, which are only text and numbers."""


def check_document(raw: bytes, where: str) -> None:
    """Refuse a document of arrays whose decoding could run programs of the file.

    Parameters
    ----------
    raw
        A ``.zarray``, a ``zarr.json``, or consolidated metadata.
    where
        Its address, for the message.

    Raises
    ------
    UnsupportedError
        Where an array uses such a codec, or holds objects by an unknown one.
    """
    try:
        document = parse_json(raw)
    except (ValueError, RecursionError):
        return  # no library can open it either
    reason = next(filter(None, map(_find_danger, _find_arrays(document))), None)
    if reason:
        msg = f"{where} is not read: it holds {reason}, which can run programs."
        raise UnsupportedError(msg, remedy="Ask who made it for a copy without that.")


def _find_arrays(document: Any) -> Iterator[dict[str, Any]]:
    """Find the descriptions of arrays, also those in consolidated metadata."""
    # A list, not recursion: a file may be nested deeper than Python's stack.
    pending = [document]
    while pending:
        value = pending.pop()
        if not isinstance(value, dict):
            continue
        yield value
        inside = value.get("consolidated_metadata")
        for holder in (value, inside):
            listed = holder.get("metadata") if isinstance(holder, dict) else None
            if isinstance(listed, dict):
                pending += listed.values()


def _find_danger(array: dict[str, Any]) -> str:
    """Name the part of an array that can run programs; "" for none."""
    names = [
        # Zarr v3 has the codecs of v2 with this prefix.
        name.removeprefix("numcodecs.").lower()
        for part in ("filters", "compressor", "codecs")
        for name in _list_codecs(array.get(part))
    ]
    # Any text of the codecs counts, also in their settings: too much is refused
    # rather than too little.
    executing = next((name for name in names if name in EXECUTING), None)
    if executing is not None:
        return f"the codec {executing!r}"
    if _has_objects(array.get("dtype")) and not {*names} & {*OF_OBJECTS}:
        return "objects of Python"
    return ""


def _list_codecs(codecs: Any) -> Iterator[str]:
    """List the names of codecs, also of those inside others."""
    pending = [codecs]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()


def _has_objects(dtype: Any) -> bool:
    """Return whether a data type of Zarr v2 is one of objects, or has such a field."""
    if isinstance(dtype, list):
        fields = (field for field in dtype if isinstance(field, list))
        return any(_has_objects(field[1]) for field in fields if len(field) > 1)
    try:
        return isinstance(dtype, str) and np.dtype(dtype).hasobject
    except (TypeError, ValueError):
        return False


class ZarrAdapter(AbstractStore):
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

    def __init__(self, source: Store) -> None:
        super().__init__(read_only=True)
        self.source = source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrAdapter) and other.source is self.source

    def __hash__(self) -> int:
        return hash((ZarrAdapter, id(self.source)))

    def __str__(self) -> str:
        return self.source.name

    def __repr__(self) -> str:
        return f"ZarrAdapter({self.source.name!r})"

    @override
    def with_read_only(self, read_only: bool = False) -> AbstractStore:
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
        if key.rpartition("/")[2] in WITH_CODECS:
            # Before zarr-python gets the document: it creates the codecs that are named
            # there.
            check_document(data, f"{self.source.name}/{key}")
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    @override
    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        return await asyncio.to_thread(
            self.get_sync, key, prototype=prototype, byte_range=byte_range
        )

    @override
    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        reads = (self.get(key, prototype, part) for key, part in key_ranges)
        return list(await asyncio.gather(*reads))

    @override
    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self.source.get, key, 0, 1) is not None

    @override
    def list(self) -> AsyncIterator[str]:
        return self.list_prefix("")

    @override
    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        parent = prefix.rpartition("/")[0]
        await asyncio.to_thread(self._list_names, parent)
        for key in await asyncio.to_thread(lambda: (*self.source.list_keys(parent),)):
            if key.startswith(prefix):
                yield key

    @override
    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for name in await asyncio.to_thread(self._list_names, prefix.rstrip("/")):
            yield name

    def _list_names(self, prefix: str) -> tuple[str, ...]:
        names = self.source.list_names(prefix)
        if names is None:
            raise NotImplementedError(f"{self.source.name} cannot be listed")
        return names

    def _refuse_change(self) -> NoReturn:
        raise ValueError(f"{self.source.name} is read-only")

    @override
    async def set(self, key: str, value: Buffer) -> None:
        self._refuse_change()

    @override
    async def delete(self, key: str) -> None:
        self._refuse_change()


def start_and_length(request: ByteRequest | None) -> tuple[int | None, int | None]:
    """Convert a request of zarr into start and length for `Store.get`."""
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


EXPERIMENTAL = {"array.rectilinear_chunks": True}
"""Settings of zarr-python for what it reads only if it is asked."""

PACKAGES = {
    "imagecodecs": (
        "imagecodecs-numcodecs (for Zarr v3 imagecodecs-zarr, for which Python 3.12 is"
        " needed)."
    ),
    "zfpy": "'numcodecs[zfpy]'",
    "cast_value": "'zarr>=3.2' cast-value-rs, for which Python 3.12 is needed.",
    "scale_offset": "'zarr>=3.2', for which Python 3.12 is needed.",
    "rectilinear": "'zarr>=3.2', for which Python 3.12 is needed.",
}
"""Parts of names in documents -> packages by which zarr-python reads them."""

COPIES = 4
"""Of the voxels of a chunk and of a box, that zarr-python has in memory."""

MOST_EXCESSES = 3
"""Reads that took too much memory, after which an array is not read any more."""


class ZarrReader:
    """Reads boxes through zarr-python.

    Parameters
    ----------
    source, path
        Where the array is.
    raw
        Its metadata document.
    reason
        What this package cannot decode, for the message.

    Raises
    ------
    UnsupportedError
        Where the installed zarr cannot open the array either.
    """

    def __init__(self, source: Store, path: str, raw: bytes, reason: str) -> None:
        names = codec_names(raw)
        self._source = source
        self._place = path, parse_json(raw)["zarr_format"]
        # Its document is not read again for each box.
        self._known: dict[str, bytes | None] = {
            join_key(path, ARRAY_DOCUMENT[self._place[1]]): raw,
            join_key(path, ".zattrs"): None,
        }
        self._excess = 0
        try:
            with zarr.config.set(EXPERIMENTAL):
                self._settings = deepcopy(zarr.config.config)
                array = zarr.open_array(
                    store=ZarrAdapter(source),
                    path=path,
                    mode="r",
                    zarr_format=self._place[1],
                )
        # An error of the source names the object itself.
        except (OMEZarrError, OSError):
            raise
        # zarr and the codecs it finds among the installed packages raise anything.
        except Exception as error:
            used = " ".join((reason, *names))
            packages = [found for word, found in PACKAGES.items() if word in used]
            remedy = (
                "Write it again in common types and codecs, such as uint16 and zstd."
            )
            if packages:
                remedy = f"Run: pip install {packages[0]}"
            raise UnsupportedError(
                f"Cannot decode the array {path or '/'} in {source.name}: it uses"
                f" {reason} (codecs: {', '.join(names) or 'none'}), which zarr"
                f" {zarr.__version__} does not read: {str(error).rstrip('.')}.",
                remedy=remedy,
            ) from error
        self.layout = describe_layout(array, raw, names)

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Read a box of voxels.

        Raises
        ------
        CorruptDataError
            Where zarr fails, for whatever reason.
        UnsupportedError
            Where a chunk is too large.
        OSError
            Where an object cannot be read.
        """
        check_chunk(self.layout.chunk_nbytes)
        names = f"its codecs ({', '.join(self.layout.codecs)})"
        if self._excess >= MOST_EXCESSES:
            raise CorruptDataError(f"{names} take more memory than its voxels")
        most = COPIES * self.layout.chunk_nbytes
        arguments = *self._place, box, self._settings
        try:
            chunk: npt.NDArray[Any] = call_bounded(
                read_box, self._source, arguments, most, ("zarr",), self._known
            )
            # The cache gives one chunk to many readers.
            chunk.setflags(write=False)
            return chunk
        except ExcessError as error:
            self._excess += 1
            raise CorruptDataError(f"{names}: {error}") from error


def read_box(
    source: Store,
    path: str,
    zarr_format: Literal[2, 3],
    box: Box,
    settings: dict[str, Any],
) -> npt.NDArray[Any]:
    """Read a box of voxels by zarr-python, in this process."""
    store = ZarrAdapter(source)
    zarr.config.set(settings)
    array = zarr.open_array(store=store, path=path, mode="r", zarr_format=zarr_format)
    return np.asarray(array[tuple(slice(start, stop) for start, stop in box)])


def describe_layout(array: Any, raw: bytes, names: tuple[str, ...]) -> ArrayLayout:
    """Describe an open zarr array; the layout cannot decode chunks."""
    try:
        chunks = getattr(array, "shards", None) or array.chunks
    # zarr-python gives no shape of chunks for a grid that is not regular.
    except NotImplementedError:
        chunks = tuple(map(max, array.write_chunk_sizes))
    fill_value = array.fill_value
    if fill_value is None:
        fill_value = np.zeros((), array.dtype)[()]
    if array.dtype.kind not in "biufcSUmMV":
        msg = f"It holds {array.dtype}, which cannot be shown as numbers."
        raise UnsupportedError(msg)
    dimension_names = getattr(array.metadata, "dimension_names", None)
    return ArrayLayout(
        zarr_format=array.metadata.zarr_format,
        shape=tuple(array.shape),
        dtype=np.dtype(array.dtype),
        chunks=tuple(max(1, n) for n in chunks),
        shards=None,
        fill_value=fill_value,
        dimension_names=None if dimension_names is None else tuple(dimension_names),
        codecs=names,
        keys=document_keys(parse_json(raw)),
        order=tuple(range(len(array.shape))),
        steps=(),
    )


def document_keys(document: dict[str, Any]) -> ChunkKeys:
    """Return the keys of an array's objects, for messages."""
    if document["zarr_format"] == 2:
        return ChunkKeys("", document.get("dimension_separator") or ".")
    try:
        return parse_keys(document["chunk_key_encoding"])
    except IndirectError:
        return ChunkKeys("c", "/")
