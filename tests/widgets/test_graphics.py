"""Where layers that go give back what they had on the graphics card."""

from __future__ import annotations

import pytest
from qtpy.QtGui import QOffscreenSurface, QOpenGLContext
from vispy.gloo.glir import GlirParser

from mouse import pump
from napari_ngff.viewer.samples import write_image


@pytest.mark.long
def test_a_removed_layer_is_freed_in_the_context_of_the_canvas(
    viewer, tmp_path, monkeypatch
):
    sample = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    viewer.open(str(sample), plugin="napari-ngff")
    pump(200)
    own = viewer.window._qt_viewer.canvas.native.context()
    # Another one is current at times when Qt has composed the window.
    other, surface = QOpenGLContext(), QOffscreenSurface()
    surface.create()
    assert other.create()
    assert other.makeCurrent(surface)
    freed = []  # napari deletes, and waits until all of it is done
    parse = GlirParser._parse

    def noted(self, command):
        if command[:2] == ("FUNC", "glFinish"):
            freed.append(QOpenGLContext.currentContext())
        return parse(self, command)

    monkeypatch.setattr(GlirParser, "_parse", noted)
    viewer.layers.remove(viewer.layers[-1])
    assert freed
    assert all(context is own for context in freed)
    other.doneCurrent()
