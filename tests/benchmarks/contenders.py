"""Ours and the others: how each opens an image, and reads a view as napari does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = [
    "OPENERS",
    "VIEWERS",
    "View",
    "clear_caches",
    "image_layers",
    "outdate_caches",
]

View = tuple[int | None, slice, slice]
"""Plane (None in 2D), rows, columns."""

Tuples = list[tuple[Any, dict[str, Any], str]]


def open_ours(path: str) -> Tuples:
    """Open as napari does: ask for the reader, call it."""
    from napari_ngff.viewer.reader import get_reader

    return get_reader(path)(path)


def open_napari_ome_zarr(path: str) -> Tuples:
    """Open as napari does; channels are still together."""
    from napari_ome_zarr._reader import napari_get_reader

    return list(napari_get_reader(path)(path))


def open_ome_zarr(path: str) -> Tuples:
    """Open by the reference library: arrays without napari's keywords."""
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    nodes = list(Reader(parse_url(path, mode="r"))())
    return [(node.data, node.metadata, "image") for node in nodes]


OPENERS: dict[str, Callable[[str], Tuples]] = {
    "napari-ngff": open_ours,
    "napari-ome-zarr": open_napari_ome_zarr,
    "ome-zarr-py": open_ome_zarr,
}


def split(layers: Tuples) -> Tuples:
    """Split channels as napari does with what a reader gives it."""
    from napari.layers.utils.stack_utils import split_channels

    done: Tuples = []
    for data, keywords, *kind in layers:
        keywords = dict(keywords)
        if "channel_axis" in keywords:
            axis = keywords.pop("channel_axis")
            done += split_channels(data, axis, **keywords)
        else:
            done.append((data, keywords, kind[0] if kind else "image"))
    return done


def image_layers(layers: Tuples) -> list[Any]:
    """Make napari's layers of what a reader gives."""
    from napari.layers import Layer

    return [Layer.create(*layer) for layer in split(layers)]


def napari_slice(data: Any, view: View) -> Any:
    """Slice a multiscale's level as napari does: the window first, then the plane."""
    import numpy as np
    from napari.utils._dask_utils import configure_dask

    plane, rows, columns = view
    with configure_dask(data)():
        if plane is None:
            return np.asarray(data[rows, columns][slice(None), slice(None)])
        window = data[slice(None), rows, columns]
        return np.asarray(window[plane, slice(None), slice(None)])


VIEWED: list[Any] = []
"""Our arrays of which views are taken."""

CACHE = 32 << 20
"""Bytes of our cache while views are taken, so that it fills up soon."""


def view_ours(path: str) -> Callable[[View], Any]:
    from napari_ngff.store.arrays.chunked_array import cache

    data = open_ours(path)[0][0][0]
    VIEWED.append(data.window.source.array)
    cache.limit = CACHE
    for i in range(2 * CACHE // (2 << 20)):
        # As in the middle of a session: the cache is full, and memory is used again.
        outdate_caches()
        start = i % 8 * 512
        plane = data.shape[-3] // 2 if data.ndim > 2 else None
        rows = slice(start, start + 1024)
        napari_slice(data, (plane, rows, rows))
    return lambda view: napari_slice(data, view)


def outdate_caches() -> None:
    """Let every view be new to our cache, which stays full, and to napari's."""
    from napari.utils._dask_utils import _DASK_CACHE

    for array in VIEWED:
        array.forget_chunks()
    with contextlib.suppress(AttributeError):
        _DASK_CACHE.cache.clear()


def view_directly(path: str) -> Callable[[View], Any]:
    data = open_ours(path)[0][0][0]
    VIEWED.append(data.window.source.array)
    # Without the slicing of napari, as the libraries below are asked.
    return lambda view: data[tuple(i for i in view if i is not None)].__array__()


def zarr_array(path: str) -> Any:
    import zarr
    from zarr.storage import ZipStore

    store = ZipStore(path, mode="r") if path.endswith(".ozx") else path
    return zarr.open_group(store, mode="r")["0"]


def view_dask(path: str) -> Callable[[View], Any]:
    import dask.array as da

    data = da.from_zarr(zarr_array(path))
    if data.ndim == 4:
        data = data[0]  # as napari splits channels
    return lambda view: napari_slice(data, view)


def view_zarr(path: str) -> Callable[[View], Any]:
    data = zarr_array(path)
    channel = (0,) if data.ndim == 4 else ()
    return lambda view: data[channel + tuple(i for i in view if i is not None)]


def view_tensorstore(path: str) -> Callable[[View], Any]:
    import tensorstore

    store: dict[str, Any] = {"driver": "file", "path": f"{path}/0/"}
    old = Path(path, "0", ".zarray").exists()
    if path.endswith(".ozx"):
        base = {"driver": "file", "path": path}
        store = {"driver": "zip", "base": base, "path": "0/"}
    spec = {"driver": "zarr" if old else "zarr3", "kvstore": store}
    data = tensorstore.open(spec, read=True).result()
    channel = (0,) if data.ndim == 4 else ()

    def read(view: View) -> Any:
        index = channel + tuple(i for i in view if i is not None)
        return data[index].read().result()

    return read


VIEWERS: dict[str, Callable[[str], Callable[[View], Any]]] = {
    "napari-ngff": view_ours,
    "directly": view_directly,
    "dask": view_dask,
    "zarr-python": view_zarr,
    "tensorstore": view_tensorstore,
}


def clear_caches() -> None:
    """Forget decoded chunks and drawn wells, ours and those of napari's dask cache."""
    from napari.utils._dask_utils import _DASK_CACHE

    from napari_ngff.plate import kept_planes
    from napari_ngff.store.arrays import chunked_array as chunks
    from napari_ngff.store.arrays import stored_objects as objects

    chunks.cache.clear()
    kept_planes.kept.clear()
    objects.indexes.clear()
    with contextlib.suppress(AttributeError):
        _DASK_CACHE.cache.clear()
