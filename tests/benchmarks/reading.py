"""Reads views by this package and by others: the table of docs/design/002.

    python tests/benchmarks/reading.py

Median milliseconds of views of 1024 x 1024 that begin anywhere, the processor's and the
clock's. zarrs and tensorstore are measured where they are installed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from napari_ngff.store.arrays.chunked_array import cache, open_array
from napari_ngff.store.hierarchy.location import find_location
from napari_ngff.store.write.zip_packing import pack_hierarchy

SIZE, VIEW, VIEWS = 4096, 1024, 25
FORMS: dict[str, dict[str, Any]] = {
    "256": {"chunks": (256, 256)},
    "512": {"chunks": (512, 512)},
    "sharded": {"chunks": (256, 256), "shards": (1024, 1024)},
}
PIPELINES = {
    "batched": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}

Read = Callable[[int, int], Any]


def write_arrays(root: Path) -> None:
    """Write one array of noise on a slope in each form, and pack all."""
    noise = np.random.default_rng(1).integers(0, 400, (SIZE, SIZE), "u2")
    pixels = noise + np.arange(SIZE, dtype="u2")
    about = {"ome": {"version": "0.5"}}
    group = zarr.create_group(root / "a.zarr", zarr_format=3, attributes=about)
    blosc = zarr.codecs.BloscCodec(cname="zstd", shuffle="shuffle")
    for name, form in FORMS.items():
        made = group.create_array(
            name, shape=pixels.shape, dtype="u2", compressors=blosc, **form
        )
        made[:] = pixels
    pack_hierarchy(root / "a.zarr", root / "a.ozx")


def direct_reader(file: Path, name: str) -> Read:
    """Read by this package, without its cache."""
    array = open_array(find_location(str(file)).source, name)
    return lambda y, x: array.read(((y, y + VIEW), (x, x + VIEW)), keep=False)


def zarr_reader(file: Path, name: str) -> Read:
    """Read by zarr-python, as it is set."""
    store = zarr.storage.ZipStore(file) if file.suffix == ".ozx" else file
    array = zarr.open_group(store, mode="r")[name]
    return lambda y, x: array[y : y + VIEW, x : x + VIEW]


def tensorstore_reader(file: Path, name: str) -> Read:
    """Read a folder by tensorstore; its driver of archives hangs on shards."""
    import tensorstore

    kept = {"driver": "file", "path": str(file / name)}
    array = tensorstore.open({"driver": "zarr3", "kvstore": kept}).result()
    return lambda y, x: array[y : y + VIEW, x : x + VIEW].read().result()


def list_readers() -> Iterator[tuple[str, Any, Callable[[Path, str], Read]]]:
    """List the readers that are there: name, what they are used in, opener."""
    yield "direct reader", nullcontext(), direct_reader
    for name, path in PIPELINES.items():
        module, _, kind = path.rpartition(".")
        with suppress(ImportError):
            if find_spec(module) and hasattr(sys.modules.get(module), kind):
                setting = zarr.config.set({"codec_pipeline.path": path})
                yield f"zarr {zarr.__version__}, {name}", setting, zarr_reader
    if find_spec("tensorstore"):
        yield "tensorstore", nullcontext(), tensorstore_reader


def measure(read: Read) -> tuple[float, float]:
    """Return the medians of the processor's and of the clock's milliseconds."""
    places = np.random.default_rng(2).integers(0, SIZE - VIEW, (VIEWS, 2)).tolist()
    times = []
    for y, x in places:
        cache.clear()
        begun = time.process_time(), time.perf_counter()
        read(y, x)
        times.append((time.process_time() - begun[0], time.perf_counter() - begun[1]))
    used, taken = (
        statistics.median(column) * 1000 for column in zip(*times, strict=True)
    )
    return used, taken


def main() -> None:
    """Write the arrays, and print a line for each reader and form."""
    with suppress(ImportError):
        import zarrs  # noqa: F401
    with tempfile.TemporaryDirectory() as folder:
        write_arrays(Path(folder))
        for name, used_in, opener in list_readers():
            with used_in:
                for file in ("a.zarr", "a.ozx")[: 1 if "tensor" in name else 2]:
                    for form in FORMS:
                        used, taken = measure(opener(Path(folder, file), form))
                        print(
                            f"{name:24} {file[2:]:5} {form:8} {used:6.1f} {taken:6.1f}"
                        )


if __name__ == "__main__":
    main()
