"""What napari (0.9 and 0.10) hides of its window, canvas and lists of layers."""

from __future__ import annotations

import sys
import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.events import EventEmitter

from napari_ngff.viewer.private.lost import mentions, need, tell_lost, tells_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType

    from napari.layers import Layer

NO_WINDOW = "Dialogs and signs have no window."


def qt_window_of(viewer: Any) -> Any:
    """Return the main window of a viewer; None without a window, or a closed one.

    Dialogs need a parent, and signs a status bar.
    """
    return _of_window(viewer, "_qt_window")


def qt_viewer_of(viewer: Any) -> Any:
    """Return the widget around the canvas of a viewer; None without a window.

    It takes what is dropped, and holds the canvas.
    """
    return _of_window(viewer, "_qt_viewer")


def _of_window(viewer: Any, name: str) -> Any:
    # Docks get a proxy, which warns of each private name.
    viewer = getattr(viewer, "__wrapped__", viewer)
    window = getattr(viewer, "window", None)
    found = getattr(window, name, None)
    # A closed window has lost its own.
    if found is None and window is not None and not mentions(type(window), name):
        tell_lost(NO_WINDOW, name)
    return found


@contextmanager
def calling_all_listeners(call_guarded: Callable[..., Any]) -> Iterator[None]:
    """Let napari call each listener of an event, whatever another one raises.

    Else the first error, as of another plugin, stops all later listeners, and leaves
    what was being changed half changed.

    Parameters
    ----------
    call_guarded
        Calls a function, and shows what it raises.
    """
    invoke = getattr(EventEmitter, "_invoke_callback", None)
    if invoke is None:
        tell_lost("Errors of other plugins may stop changes.", "_invoke_callback")
        yield
        return

    def invoke_guarded(emitter: EventEmitter, listener: Any, event: Any) -> None:
        call_guarded(invoke, emitter, listener, event)

    EventEmitter._invoke_callback = invoke_guarded
    try:
        yield
    finally:
        EventEmitter._invoke_callback = invoke


@tells_lost("Files are opened while the window waits.", lambda _: False)
def is_opened_by_user(viewer: Any) -> bool:
    """Return whether napari opens a path that was dropped or chosen in its window.

    Then nobody needs its layers at once, as a script does.
    """
    view = qt_viewer_of(viewer)
    return view is not None and is_called_by(type(view)._qt_open.__code__)


def is_called_by(code: CodeType) -> bool:
    """Return whether a function is running in the calling thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


@tells_lost("Save the layer by File ▸ Save selected layers.")
def save_by_dialog(viewer: Any) -> None:
    """Ask for a file for the selected layers by napari's dialog, and write them."""
    qt_viewer_of(viewer)._save_layers_dialog(selected=True)


@tells_lost("The last layer of a file is selected.")
def select_on_insert(viewer: Any, selects: bool) -> None:
    """Set whether the layer that is being inserted becomes the selected one.

    To select it and then another one leaves both marked in the list.
    """
    need(viewer.layers, "_activate_on_insert")
    viewer.layers._activate_on_insert = selects


@tells_lost("Images are shown without their controls.")
def notice_windows(layer: Layer, notice: Callable[[Any], None]) -> None:
    """Call something with each viewer that a layer is about to be inserted in.

    Events of a list of layers reach only who knows the list. Before the first of them,
    ``LayerList.insert`` connects the list to the event ``extent`` of the layer.
    """
    emitter = layer.events.extent
    emitter.connect = partial(_connect_seen, weakref.ref(emitter), notice)


def _connect_seen(
    at_emitter: Any, notice: Callable[[Any], None], callback: Any, **options: Any
) -> Any:
    from napari.components import LayerList, ViewerModel

    layers = getattr(callback, "__self__", None)
    if isinstance(layers, LayerList):
        for follower in layers.events.inserted.callbacks:
            viewer = follower[0]() if isinstance(follower, tuple) else None
            if isinstance(viewer, ViewerModel):
                notice(viewer)
    emitter = at_emitter()
    return type(emitter).connect(emitter, callback, **options)


@tells_lost("Removed labels are offered for restoring again.", lambda _: True)
def is_in_window(layer: Layer) -> bool:
    """Return whether any list of layers has a layer; see `notice_windows`."""
    from napari.components import LayerList

    followers = (f for f in layer.events.extent.callbacks if isinstance(f, tuple))
    return any(isinstance(follower[0](), LayerList) for follower in followers)


@tells_lost("A box may be drawn behind the brush.")
def hide_brush_box(viewer: Any) -> None:
    """Let no box be drawn behind the circle of the brush.

    When overlays are placed anew, napari 0.9 draws one: a black square that looks like
    a hole in the labels.
    """
    viewer.canvas.overlays._brush_circle.box = False


@tells_lost("Screenshots may show coarser pixels.")
def wrap_screenshots(viewer: Any, prepare: Callable[[], None]) -> None:
    """Call something before each screenshot of a viewer, when its layers are drawn.

    All ways end in ``VispyCanvas.screenshot``, or in ``Window._screenshot`` for the
    window around the canvas.
    """
    canvas, window = qt_viewer_of(viewer).canvas, viewer.window
    # Not by bound methods: widgets in a cycle may be deleted by any thread.
    of_canvas, of_window = type(canvas).screenshot, type(window)._screenshot
    at_canvas, at_window = weakref.ref(canvas), weakref.ref(window)

    def canvas_screenshot() -> Any:
        canvas = at_canvas()
        assert canvas is not None
        canvas.on_draw(None)  # layers ask for the level and the part that fit
        prepare()
        return of_canvas(canvas)

    def window_screenshot(*arguments: Any, **keywords: Any) -> Any:
        prepare()
        return of_window(at_window(), *arguments, **keywords)

    canvas.screenshot, window._screenshot = canvas_screenshot, window_screenshot


@tells_lost("Removing layers may crash the graphics.")
def make_current(viewer: Any) -> None:
    """Make the OpenGL context of a viewer's canvas the current one, if it has a window.

    napari (0.9.0 to 0.9.2, ``VispyCanvas._clean_and_update_scenegraph``) deletes the
    textures and buffers of a removed layer at once, in whatever context is current. Out
    of paint events that may be the one in which Qt composes the window: Mesa's llvmpipe
    then crashes in a later draw. The way to the canvas is private to napari.
    """
    view = qt_viewer_of(viewer)
    scene = None if view is None else view.canvas._scene_canvas
    if scene is not None and not scene._closed:
        scene.set_current()


@tells_lost("The plane and the view are lost after 3D.")
def connect_before_camera(viewer: Any, callback: Callable[[Any], None]) -> None:
    """Call a method when 2D or 3D is chosen, before napari moves camera and slider.

    napari calls what others connect after ``ViewerModel._on_ndisplay_changed``, which
    moves both; where that is ``separate``, ``_save_camera_state`` has to come before.
    """
    need(viewer, "_on_ndisplay_changed", "_save_camera_state")
    napari = weakref.ref(viewer)
    viewer.dims.events.ndisplay.connect(
        callback,
        before=[(napari, "_on_ndisplay_changed")],
        after=[(napari, "_save_camera_state")],
    )


def connect_before_sliders(viewer: Any, adjust: Callable[[Any], None]) -> None:
    """Call a function with the dims when their ranges change, before sliders follow.

    napari (0.9) calls what others connect after its own callbacks, which it knows by
    their module. A slider with fewer planes for a moment would move to another one.
    """
    reference = weakref.ref(viewer)

    def adjust_ranges(event: Any = None) -> None:
        viewer = reference()
        if viewer is not None:
            adjust(viewer.dims)

    adjust_ranges.__module__ = "napari.components.dims"
    viewer.dims.events.range.connect(adjust_ranges, position="first")


@tells_lost("The size of the graphics memory is guessed.", lambda _: (None, None))
def graphics_limits(viewer: Any) -> tuple[int | None, int | None]:
    """Return what the graphics reports: voxels along a side of a volume, and memory.

    napari asks for the first when it makes a canvas. The memory is all
    that the card has, in bytes, which drivers of NVIDIA and of Mesa report.

    Returns
    -------
    tuple
        None for what is not reported, and without a window.
    """
    view = qt_viewer_of(viewer)
    scene = None if view is None else view.canvas._scene_canvas
    if scene is None or scene._closed:
        return None, None
    if scene not in _limits:
        from napari._vispy.utils.gl import get_max_texture_sizes

        make_current(viewer)
        _limits[scene] = get_max_texture_sizes()[1], graphics_memory()
    return _limits[scene]


_limits: weakref.WeakKeyDictionary[Any, tuple[int | None, int | None]] = (
    weakref.WeakKeyDictionary()
)

MEMORY_NAMES = {"GL_NVX_gpu_memory_info": 0x9047, "GL_ATI_meminfo": 0x87FC}
"""Extension -> what to ask for: dedicated memory, and free memory for textures; both
in KiB."""


def graphics_memory() -> int | None:
    """Ask the current OpenGL context for its memory, in bytes; None if unknown."""
    from vispy.gloo import gl

    try:
        known = str(gl.glGetParameter(gl.GL_EXTENSIONS))
        for extension, name in MEMORY_NAMES.items():
            if extension in known:
                found = gl.glGetParameter(name)
                kib = int(found[0] if isinstance(found, tuple | list) else found)
                return kib << 10 if kib > 0 else None
    except Exception:  # noqa: BLE001
        # Drivers and versions of PyOpenGL differ in what they raise; not knowing is no
        # harm.
        return None
    return None


@tells_lost("The menu of a layer does not have what changes its file.")
def extend_layer_menu(commands: Mapping[str, str], kind: str) -> None:
    """Show commands of the manifest in the menu of layers of a kind, in their list.

    The manifest cannot add to this menu. Windows that have opened it already have it
    as it was. What it has is not shown twice.

    Parameters
    ----------
    commands
        Id -> title.
    kind
        Such as "labels".
    """
    from app_model.expressions import parse_expression
    from app_model.types import CommandRule, MenuItem
    from napari._app_model import get_app_model
    from napari._app_model.constants import MenuId

    group, when = "8_file", parse_expression(f"active_layer_type == {kind!r}")
    items = [
        MenuItem(command=CommandRule(id=name, title=title), group=group, when=when)
        for name, title in commands.items()
    ]
    menus, place = get_app_model().menus, MenuId.LAYERLIST_CONTEXT
    here = menus.get_menu(place)
    menus.append_menu_items([(place, item) for item in items if item not in here])
