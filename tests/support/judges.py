"""Other libraries of OME-Zarr, as independent judges of what is written."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    # Before ngio and anndata: after them, its models of Zarr v2 arrays match no more.
    import ome_zarr_models  # isort: skip
    import ngio
    import yaozarrs
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "container",
    "ngio",
    "read_by_ome_zarr",
    "validate_models",
    "validate_yaozarrs",
]


def validate_models(path: Path | str, version: str) -> None:
    """Let ome-zarr-models judge one group, "0.4" or "0.5"."""
    group = zarr.open_group(str(path), mode="r")
    ome_zarr_models.open_ome_zarr(group, version=version)


def validate_yaozarrs(path: Path | str) -> None:
    """Let yaozarrs judge a store and what it lists."""
    yaozarrs.validate_zarr_store(str(path))


def read_by_ome_zarr(path: Path | str) -> dict[str, list[np.ndarray]]:
    """Read the levels of all images and labels at a path by ome-zarr-py, by name."""
    nodes = Reader(parse_url(str(path)))()
    return {
        node.zarr.basename(): [np.asarray(level) for level in node.data]
        for node in nodes
        if node.data
    }


def container(path: Path | str) -> Any:
    """Open an image by ngio."""
    return ngio.open_ome_zarr_container(str(path))
