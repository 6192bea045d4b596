"""What napari hides of its layers (0.9 and 0.10): slices, transforms, overlays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Labels

from napari_ngff.addresses import public_address
from napari_ngff.viewer.private.lost import need, tells_lost

NOT_DRAWN = "Layers are not followed on the canvas."


def last_axes(layer: Any) -> list[int]:
    """Return the axes that napari displays at first."""
    return list(range(layer.ndim))[-2:]


@tells_lost(NOT_DRAWN, last_axes)
def shown_axes(layer: Any) -> list[int]:
    """List the axes of a layer that are displayed; public are those of a viewer."""
    return list(layer._slice_input.displayed)


@tells_lost(NOT_DRAWN)
def drawn_values(layer: Any) -> Any:
    """Return the values of the pixels on the screen; None if napari hides them."""
    return layer._slice.image.raw


@tells_lost(NOT_DRAWN)
def is_blank(layer: Any) -> bool:
    """Return whether nothing of a layer is drawn, such as beside its planes."""
    return bool(layer._slice.empty)


@tells_lost(NOT_DRAWN, lambda layer: layer.affine)
def tile_transform(layer: Any) -> Any:
    """Return the transform from pixels of the picture to voxels of level 0."""
    return layer._transforms["tile2data"]


@tells_lost(NOT_DRAWN, lambda layer: layer.affine)
def world_transform(layer: Any) -> Any:
    """Return the transform from voxels to the world; public are its parts alone."""
    return layer._data_to_world


@tells_lost("Values may be those of coarser pixels.")
def replace_values(layer: Any, at: Any, along_ray: Any) -> None:
    """Have something else give the values of a layer, for a position and a ray.

    Before the arguments they get napari's own function.
    """
    kind = type(layer)
    layer._get_value = partial(at, kind._get_value)
    layer._get_value_ray = partial(along_ray, kind._get_value_ray)


def slicing_of(layer: Any) -> Any:
    """Return the state of a layer's slicing: for labels that we paint, ours."""
    return layer._slicing_state


@tells_lost("Pixels are read while the window waits.")
def replace_requests(layer: Any, choose: Callable[[Any], Any]) -> None:
    """Have something else make the requests by which napari has a layer sliced.

    Parameters
    ----------
    choose
        Called with napari's class of requests; returns what is called in its place.
    """
    state = layer._slicing_state
    state._slice_request_class = choose(type(state)._slice_request_class)


@tells_lost("Volumes are drawn slowly.", lambda layer: layer.dtype)
def texture_type_of(layer: Any) -> Any:
    """Return the type of voxel in which a layer goes to the graphics card."""
    return layer._slice_dtype()


@tells_lost("Labels are not drawn in 3D.", lambda _, values: values)
def texture_values(colormap: Any, values: Any) -> Any:
    """Return what goes to the graphics card for labels."""
    return colormap._data_to_texture(values)


@tells_lost("Levels stay locked in 3D.")
def choose_level_unseen(layer: Any, level: int) -> None:
    """Choose a level, and lock none, without slicing: the public names slice."""
    need(layer, "_locked_data_level", "_data_level")
    layer._locked_data_level, layer._data_level = None, level


def whole_corners(layer: Any) -> Any:
    """Return the corners of the level that a layer shows, in the axes displayed."""
    corners = np.zeros((2, layer.ndim), int)
    axes = shown_axes(layer)
    corners[1, axes] = np.take(layer.level_shapes[layer.data_level], axes) - 1
    return corners


@tells_lost("Labels are edited on the axes shown.", last_axes)
def painted_axes(layer: Any) -> list[int]:
    """Return the axes that the tools of labels paint on."""
    return sorted(int(axis) for axis in layer._get_dims_to_paint())


@tells_lost("A save may cut a stroke in two.", lambda _: False)
def is_being_painted(layer: Any) -> bool:
    """Return whether a stroke is being drawn on labels of napari's own."""
    return bool(layer._block_history)


def handle_modes(table: str, handlers: dict[str, Any]) -> dict[Any, Any]:
    """Return what labels do in each mode, by a table of napari's; with other handlers.

    Parameters
    ----------
    table
        "_drag_modes" or "_move_modes".
    """
    usual = getattr(Labels, table, {})
    return {mode: handlers.get(str(mode), do) for mode, do in usual.items()}


@tells_lost("Overviews may be older than their file.")
def forget_thumbnail(layer: Any) -> None:
    """Forget the coarsest level, which napari keeps for layers of two axes."""
    if hasattr(layer, "multiscale"):
        layer._reset_thumbnail_level_data()


@tells_lost("Fields are drawn several times.", lambda _: nullcontext())
def hold_refresh(layer: Any) -> AbstractContextManager[Any]:
    """Let a layer be drawn once after several changes."""
    return layer._block_refresh()  # type: ignore[no-any-return]


EARLY = {"_on_layers_change": "looks for the extent and the sliders of all layers"}
"""What napari does when the data of a layer change, and whenever it moves: the layer is
not in its place yet, and would push a slider away."""

NEEDLESS = {
    "_on_colormap_change": "compiles the shader of labels again",
    "_update_level_labels": "lays out the controls again",
}
"""What napari also does then, though nothing comes of it where the data are as large
and of the type of those before."""


@tells_lost("Sliders may move to another plane.", lambda *_: nullcontext())
def hold_reactions(
    layer: Any, events: Iterable[str], alike: bool
) -> AbstractContextManager[Any]:
    """Let napari not react to new data of a layer, and to its new place.

    Parameters
    ----------
    events
        Names of events of the layer.
    alike
        Whether the data are as large, and of the same type, as those before.
    """
    need(ViewerModel, *EARLY)
    stack, names = ExitStack(), {**EARLY, **NEEDLESS} if alike else EARLY
    for event in map(layer.events.__getitem__, events):
        for callback in event.callbacks:
            if isinstance(callback, tuple) and callback[1] in names:
                method = getattr(callback[0](), callback[1], None)
                if method is not None:
                    stack.enter_context(event.blocker(method))
    return stack


@tells_lost("Layers do not name their file.", lambda *_: nullcontext())
def opened_from(path: str, plugin: str) -> AbstractContextManager[Any]:
    """Let layers that are made meanwhile name the file that they are opened from."""
    from napari.layers._source import layer_source

    return layer_source(path=path, reader_plugin=plugin)  # type: ignore[no-any-return]


@tells_lost("Addresses may show their logins.")
def hide_source_secrets(layer: Any) -> None:
    """Make the address public that a layer was opened from.

    napari shows the end of ``layer.source.path`` in the status bar; it can be set only
    once.
    """
    path = layer.source.path
    need(layer, "_source")
    if isinstance(path, str) and public_address(path) != path:
        update = {"path": public_address(path)}
        layer._source = layer.source.model_copy(update=update)
