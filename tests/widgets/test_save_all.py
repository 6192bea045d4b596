"""`napari_ngff.save` in a window: what workers save is there when it returns."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import napari_ngff
from napari_ngff.plugin import use_workers
from napari_ngff.testing import write_image
from napari_ngff.viewer.annotations.file_annotation import FileAnnotation
from napari_ngff.viewer.services.window import Window


@pytest.mark.parametrize("with_workers", [True, False])
def test_all_is_saved_when_it_returns(viewer, tmp_path, monkeypatch, with_workers):
    folder = write_image(tmp_path / "cells.ome.zarr")
    if with_workers:
        use_workers()
    viewer.open(str(folder), plugin="napari-ngff")
    if not with_workers:
        monkeypatch.setattr(Window, "current", Window())
    nuclei = next(x for x in viewer.layers if hasattr(x, "saver"))
    at = (0,) * nuclei.ndim
    nuclei.paint(at, 77)
    points = viewer.add_points(np.ones((2, nuclei.ndim)), name="spots")
    napari_ngff.save(viewer)
    stored = zarr.open_array(folder / "labels" / nuclei.name / "0", mode="r")
    assert stored[at] == 77
    found = napari_ngff.open(folder).annotations
    assert ("points", "spots") in [(one.kind, one.name) for one in found]
    napari_ngff.save(viewer)  # nothing is left

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    points.add(np.zeros(nuclei.ndim))
    monkeypatch.setattr(FileAnnotation, "write_stored", refused)
    monkeypatch.setattr(Window, "notify", lambda *_, **__: None)
    monkeypatch.setattr(type(Window.current), "notify", lambda *_, **__: None)
    with pytest.raises(napari_ngff.OMEZarrError, match=r"Not saved: .*spots"):
        napari_ngff.save(viewer)
