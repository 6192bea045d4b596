"""Where layers that go give back what they had on the graphics card."""

from __future__ import annotations

from typing import Any

__all__ = ["make_current"]


def make_current(viewer: Any) -> None:
    """Make the OpenGL context of a viewer's canvas the current one, if it has a window.

    napari (0.9.0 to 0.9.2, ``VispyCanvas._clean_and_update_scenegraph``) deletes the
    textures and buffers of a removed layer at once, in whatever context is current. Out
    of paint events that may be the one in which Qt composes the window: Mesa's llvmpipe
    then crashes in a later draw. The way to the canvas is private to napari.
    """
    window = getattr(viewer, "window", None)
    view = getattr(window, "_qt_viewer", None)
    scene = None if view is None else view.canvas._scene_canvas
    if scene is not None and not scene._closed:
        scene.set_current()
