"""Levels of an image by zarr-python, for programs that only write."""

from __future__ import annotations

import zarr


def opened(path):
    """Open a group of a folder, or of a single file."""
    before, archive, below = path.partition(".ozx")
    if not archive:
        return zarr.open_group(path, mode="r")
    store = zarr.storage.ZipStore(before + archive, mode="r")
    return zarr.open_group(store, path=below.strip("/"), mode="r")


def attributes(path):
    found = opened(path).attrs.asdict()
    return found.get("ome", found)


def levels(path):
    """Read all levels of an image that a group describes."""
    datasets = attributes(path)["multiscales"][0]["datasets"]
    group = opened(path)
    return [group[dataset["path"]][...] for dataset in datasets]


def labels_below(path):
    """List the label images of an image."""
    if "labels" not in opened(path):
        return []
    return [f"{path}/labels/{name}" for name in attributes(f"{path}/labels")["labels"]]
