"""Chooses what is shown in 3D: the finest level that fits the memory of the graphics.

napari shows the coarsest level. The finer one is read and prepared in a worker, and
shown when the camera rests. See `volume_slicing` for how napari gets it.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer.plans.layer_plan import KEY, layer_kind
from napari_ngff.viewer.private.napari_layers import is_blank, slicing_of
from napari_ngff.viewer.private.slicing import is_slicing
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.window import Window, attempt_work, going_on
from napari_ngff.viewer.streaming.prepared_volume import (
    PreparedVolume,
    TextureBudget,
    VolumePlace,
    VolumeReading,
    budget_of,
    prepare_volume,
    share_budget,
    texture_type,
)
from napari_ngff.viewer.streaming.regions import (
    Span,
    covers_part,
    layer_point,
    level_part,
    level_shapes,
    visible_part,
)
from napari_ngff.viewer.streaming.volume_slicing import (
    answer_requests,
    drop_prepared,
    holds_volume,
    is_awaited,
    is_thick,
    prepared_of,
    put_prepared,
    release_volume,
    unlock_level,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer


def displayed_axes(viewer: ViewerModel, layer: Layer) -> tuple[int, ...]:
    """List the axes of a layer that are displayed, in the order of its picture."""
    missing = viewer.dims.ndim - layer.ndim
    return tuple(axis - missing for axis in viewer.dims.displayed if axis >= missing)


def voxel_bytes(layer: Layer) -> int:
    """Count the bytes of one voxel, in memory or on the card, the larger ones."""
    dtype = np.dtype(layer.dtype)
    # The numbers of colours of labels are not larger than the labels.
    is_image = layer_kind(layer) == "image"
    return int(max(dtype.itemsize, texture_type(dtype).itemsize if is_image else 1))


def finest_place(
    viewer: ViewerModel,
    layer: Layer,
    levels: Sequence[int],
    budget: TextureBudget,
    part: Sequence[Span] | None = None,
) -> VolumePlace:
    """Choose the finest level that fits, as a whole or the part that is on the screen.

    Parameters
    ----------
    levels
        To choose from, the finest first. Of the last one, what does not fit is left
        out.
    budget
        Of this layer.
    part
        What is on the screen, see `visible_part`; None for all of it.
    """
    axes = displayed_axes(viewer, layer)
    for level in levels:
        place = place_of(viewer, layer, level, axes)
        if fits_budget(layer, place, budget):
            return place
        place = part_of(layer, place, part)
        if fits_budget(layer, place, budget):
            return place
    return cut_to_budget(layer, place, budget)


def place_of(
    viewer: ViewerModel, layer: Layer, level: int, axes: tuple[int, ...]
) -> VolumePlace:
    """Find what a level shows at the present position of the sliders."""
    shapes = level_shapes(layer)
    at = layer_point(layer, viewer.dims.point) / np.divide(shapes[0], shapes[level])
    box = []
    for axis, size in enumerate(shapes[level]):
        index = int(np.round(np.clip(at[axis], 0, size - 1)))
        box.append((0, size) if axis in axes else (index, index + 1))
    return VolumePlace(level, tuple(box), axes)


def fits_budget(layer: Layer, place: VolumePlace, budget: TextureBudget) -> bool:
    """Return whether a volume fits into the memory, and its sides into a texture."""
    size = math.prod(place.shape) * voxel_bytes(layer)
    return size <= budget.memory and max(place.shape) <= budget.side


def part_of(
    layer: Layer, place: VolumePlace, part: Sequence[Span] | None
) -> VolumePlace:
    """Cut a whole level to what is on the screen."""
    if part is None:
        return place
    factors = layer.downsample_factors[place.level][list(place.displayed)]
    return cut_place(place, level_part(part, factors, place.shape))


def cut_to_budget(
    layer: Layer, place: VolumePlace, budget: TextureBudget
) -> VolumePlace:
    """Cut a volume that is too large to its middle."""
    shape = [min(size, budget.side) for size in place.shape]
    voxels = max(1, budget.memory // voxel_bytes(layer))
    # The longest side first: to the next one, or less if that is enough.
    while math.prod(shape) > voxels:
        longest = max(shape)
        axis = shape.index(longest)
        others = shape[:axis] + shape[axis + 1 :]
        enough = voxels // math.prod(others)
        shape[axis] = max(1, min(longest - 1, max(*others, enough)))
    spans = []
    for axis, size in zip(place.displayed, shape, strict=True):
        start, stop = place.box[axis]
        start += (stop - start - size) // 2
        spans.append((start, start + size))
    return cut_place(place, spans)


def cut_place(place: VolumePlace, spans: Sequence[tuple[int, int]]) -> VolumePlace:
    """Take other spans along the displayed axes, inside of those of a volume."""
    box: list[Any] = list(place.box)
    for axis, span in zip(place.displayed, spans, strict=True):
        box[axis] = span
    is_part = place.is_part or tuple(box) != place.box
    return VolumePlace(place.level, tuple(box), place.displayed, is_part)


CAMERA_REST = 0.2
"""Seconds without a move of the camera after which it rests."""

CALM = 0.03
"""Seconds within which a window answers that has nothing to draw."""

LONGEST_WAIT = 5.0
"""Seconds that a reading waits for that: a window may have much else to do."""

_moved = [0.0]
"""When a camera moved last."""


_turns: weakref.WeakKeyDictionary[Any, VolumeReading] = weakref.WeakKeyDictionary()
"""What is read of each layer; an earlier reading is of no use."""

_readings: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
"""What workers are to do, and what to call in the main thread with the result."""

_running = [False]
"""Whether a worker reads."""

_refused: weakref.WeakKeyDictionary[Any, VolumePlace] = weakref.WeakKeyDictionary()
"""Places that napari did not ask for once they were read."""

_followed: weakref.WeakSet[Any] = weakref.WeakSet()
"""Viewers whose volumes are fitted when the camera rests."""

_attended: weakref.WeakSet[Any] = weakref.WeakSet()

_marks: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""What is written on the canvas: to look for the label takes Qt some milliseconds."""


def attend_volumes(viewer: ViewerModel, layer: Layer) -> None:
    """Show a layer of ours in 3D from now on without holding the window."""
    # New labels are in no file yet, but have something that saves them.
    is_ours = KEY in layer.metadata or hasattr(layer, "saver")
    if not is_ours or layer_kind(layer) not in ("image", "labels"):
        return
    if layer in _attended:
        return
    if getattr(layer, "rgb", False):
        answer_requests(layer)  # its slices with thickness
        return
    if not _attended:
        # napari makes the preferences when they are first asked for, for 0.1 s.
        Window.current.run_later(settings.volume_memory)
    _attended.add(layer)
    answer_requests(layer)
    reference = weakref.ref(viewer)

    def fit_again(event: Any = None) -> None:
        viewer = reference()
        if viewer is not None and viewer.dims.ndisplay == 3:
            fit_soon(viewer)

    def mark_level(event: Any = None) -> None:
        viewer = reference()
        if viewer is not None:
            mark_levels(viewer)

    layer.events.depiction.connect(fit_again)
    layer.events.visible.connect(fit_again)
    layer.events.visible.connect(mark_level)
    layer.events.locked_data_level.connect(fit_again)
    layer.events.set_data.connect(mark_level)
    fit_again()


def forget_volume(layer: Layer) -> None:
    """Forget the volume of a layer that leaves its viewer."""
    _attended.discard(layer)
    _turns.pop(layer, None)
    if drop_prepared(layer):
        unlock_level(layer)


def mark_levels(viewer: ViewerModel) -> None:
    """Write on the canvas which levels are seen in 3D."""
    shown = [layer for layer in viewer.layers if layer in _attended and layer.visible]
    text = level_text(shown) if viewer.dims.ndisplay == 3 else ""
    if text != _marks.get(viewer, ""):
        _marks[viewer] = text
        Window.current.show_mark(viewer, text)


def note_camera() -> None:
    """Note that a camera moves."""
    _moved[0] = time.monotonic()


def follow_camera(viewer: ViewerModel) -> None:
    """Show the coarsest level where a part leaves the screen, and a finer one later."""
    note_camera()
    if viewer.dims.ndisplay != 3 or not Window.current.has_workers:
        return
    for layer in viewer.layers:
        volume, reading = prepared_of(layer), _turns.get(layer)
        known = None if volume is None else volume.place
        coming = None if reading is None else reading.place
        if not any(place is not None and place.is_part for place in (known, coming)):
            continue
        part = visible_part(viewer, layer, displayed_axes(viewer, layer))
        if coming is not None and not covers_part(layer, coming, part):
            del _turns[layer]
        if known is not None and not covers_part(layer, known, part):
            release_volume(layer)
    fit_at_rest(viewer)


def fit_at_rest(viewer: ViewerModel) -> None:
    """Call `fit_volumes` when the camera rests, once however often it moves."""
    if viewer in _followed:
        return
    _followed.add(viewer)

    def wait() -> None:
        while is_moving():
            time.sleep(CAMERA_REST / 4)

    def done(_: Any) -> None:
        _followed.discard(viewer)
        fit_if_open(viewer)

    Window.current.run_work(wait, done)


def fit_soon(viewer: ViewerModel) -> None:
    """Call `fit_volumes`, but not while napari slices a layer."""
    if not is_slicing():
        fit_volumes(viewer)
    elif Window.current.has_workers:
        Window.current.run_work(lambda: None, lambda _: fit_if_open(viewer))


def fit_when_calm(viewer: ViewerModel) -> None:
    """Call `fit_volumes` once the first picture in 3D was drawn, or the last in 2D."""
    if not Window.current.has_workers or viewer.dims.ndisplay != 3:
        fit_volumes(viewer)
        return
    reference = weakref.ref(viewer)
    wait = partial(wait_for_calm, lambda: False)
    _readings.append((wait, lambda _: fit_if_open(reference())))
    read_next()


def fit_if_open(viewer: ViewerModel | None) -> None:
    """Call `fit_volumes` after a wait, unless the window was closed."""
    if viewer is not None and Window.current.is_open(viewer):
        fit_volumes(viewer)


def fit_volumes(viewer: ViewerModel) -> None:
    """Have the finest level shown that fits, of each layer; in 2D let the zoom choose.

    A level that the user has locked stays.
    """
    mark_levels(viewer)
    attended = [layer for layer in viewer.layers if layer in _attended]
    if viewer.dims.ndisplay != 3:
        for layer in attended:
            with going_on():
                leave_volume(layer)
        return
    shown = []
    for layer in attended:
        axes = displayed_axes(viewer, layer)
        thick = slicing_of(layer).data_slice
        is_whole = not is_thick(layer.projection_mode, thick, axes)
        if layer.visible and len(axes) == 3 and is_whole:
            shown.append((layer, axes))
        else:
            _turns.pop(layer, None)
    budget = budget_of(viewer)
    # Bytes of the finest levels, in memory or on the card, the larger ones.
    wanted = [
        math.prod(int(level_shapes(layer)[0][axis]) for axis in axes)
        * voxel_bytes(layer)
        for layer, axes in shown
    ]
    shares = share_budget(wanted, budget.memory)
    for (layer, _), share in zip(shown, shares, strict=True):
        with going_on():
            show_finest(viewer, layer, TextureBudget(share, budget.side))


def leave_volume(layer: Layer) -> None:
    """Forget the volume of a layer, and let the zoom choose the level again."""
    _turns.pop(layer, None)
    _refused.pop(layer, None)
    if drop_prepared(layer):
        layer.locked_data_level = None


def show_finest(viewer: ViewerModel, layer: Layer, budget: TextureBudget) -> None:
    """Have the finest level of a layer read that fits, unless it is shown already."""
    axes, volume = displayed_axes(viewer, layer), prepared_of(layer)
    chosen = layer.locked_data_level if layer.multiscale else None
    if volume is not None and volume.locks:
        chosen = None  # locked here
    coarsest = len(level_shapes(layer)) - 1
    part = visible_part(viewer, layer, axes)
    levels = range(coarsest + 1) if chosen is None else [chosen]
    place = finest_place(viewer, layer, levels, budget, part)
    is_slow = is_awaited(layer, coarsest if chosen is None else chosen, axes)
    if place.level == coarsest and not place.is_part and not is_slow:
        release_volume(layer)  # napari shows it
        return
    if volume is not None and holds_volume(layer, volume):
        if volume.place == place or is_like(layer, volume.place, place, part):
            return
    elif is_slow and place.level != coarsest and chosen is None:
        # Something to see first.
        place = finest_place(viewer, layer, [coarsest], budget, part)
    start_reading(viewer, layer, place)


def is_like(
    layer: Layer, known: VolumePlace, place: VolumePlace, part: Sequence[Span] | None
) -> bool:
    """Return whether a part that is shown is as good as another one of its level."""
    hidden = set(range(len(place.box))) - set(place.displayed)
    return (
        (known.level, known.displayed) == (place.level, place.displayed)
        and known.is_part
        and place.is_part
        and all(known.box[axis] == place.box[axis] for axis in hidden)
        and (known.shape == place.shape or covers_part(layer, known, part))
    )


def reread_volume(viewer: ViewerModel, layer: Layer) -> None:
    """Have a volume read again that is shown, and stays until then."""
    volume = prepared_of(layer)
    if volume is not None and viewer.dims.ndisplay == 3:
        start_reading(viewer, layer, volume.place)


def start_reading(viewer: ViewerModel, layer: Layer, place: VolumePlace) -> None:
    """Have a volume read in a worker, and shown when the camera rests."""
    reading = VolumeReading.of_layer(layer, place)
    before = _turns.get(layer)
    if before is not None and before.is_same(reading):
        return
    if _refused.get(layer) == place:
        return
    _turns[layer] = reading
    reference, viewer_reference = weakref.ref(layer), weakref.ref(viewer)

    def is_left() -> bool:
        layer = reference()
        return layer is None or _turns.get(layer) is not reading

    def read() -> Any:
        # Else the first picture, and the camera, would share the processor with it.
        wait_for_calm(is_left)
        volume = prepare_volume(reading, is_left)
        while Window.current.has_workers and not is_left() and is_moving():
            time.sleep(CAMERA_REST / 4)
        wait_for_calm(is_left)
        return volume

    def done(volume: Any) -> None:
        layer, viewer = reference(), viewer_reference()
        if layer is None or viewer is None or is_left():
            return
        del _turns[layer]
        if viewer.dims.ndisplay == 3 and layer in viewer.layers:
            take_volume(viewer, layer, volume)

    _readings.append((read, done))
    read_next()


def read_next() -> None:
    """Have the next volume read, if none is read: they are shown one after the other.

    To send several to the graphics card at once would hold the window for longer.
    """
    if _running[0] or not _readings:
        return
    _running[0] = True
    read, done = _readings.popleft()

    def end(volume: Any) -> None:
        _running[0] = False
        try:
            done(volume)
        finally:
            read_next()

    Window.current.run_work(lambda: attempt_work(read), end)


def wait_for_calm(stops: Callable[[], bool]) -> None:
    """Wait, in a worker, until the window answers; at most `LONGEST_WAIT`."""
    end = time.monotonic() + LONGEST_WAIT
    while Window.current.has_workers and not stops() and time.monotonic() < end:
        answered, asked = threading.Event(), time.monotonic()
        Window.current.run_in_main(answered.set)
        answered.wait(LONGEST_WAIT)
        if time.monotonic() - asked < CALM:
            return
        time.sleep(CALM)


def take_volume(viewer: ViewerModel, layer: Layer, volume: Any) -> None:
    """Show what a worker has read: a volume, none, or in words why not."""
    if isinstance(volume, str):
        Window.current.show_messages((volume,), "Not all of it is shown in 3D.")
        return
    if volume is not None and holds_volume(layer, volume):
        show_volume(layer, volume)
        if prepared_of(layer) is not volume:
            _refused[layer] = volume.place  # or it would be read without an end
    fit_volumes(viewer)


def is_moving() -> bool:
    """Return whether a camera was moved a moment ago."""
    return time.monotonic() < _moved[0] + CAMERA_REST


def show_volume(layer: Layer, volume: PreparedVolume) -> None:
    """Have a volume drawn that was read for the present place of the sliders."""
    level = volume.place.level
    coarsest = len(level_shapes(layer)) - 1
    before = prepared_of(layer)
    locked = layer.locked_data_level if layer.multiscale else None
    is_ours = before is not None and before.locks and before.place.level == locked
    volume.locks = level != coarsest and (locked is None or is_ours)
    put_prepared(layer, volume)
    if not layer.multiscale or locked == level or not volume.locks:
        layer.refresh(extent=False)
    else:
        layer.locked_data_level = level


def name_level(layer: Layer) -> str:
    """Name the level that is seen of a layer, as "level 1 of 0 to 3"; 0 is the finest.

    napari and files count the levels like this, too.
    """
    return f"level {layer.data_level} of 0 to {len(layer.data) - 1}"


def level_text(layers: Iterable[Layer]) -> str:
    """Name the level that is seen of each layer; "" for none.

    Layers are named where they differ.
    """
    seen: dict[str, list[str]] = {}
    for layer in layers:
        if is_blank(layer):
            text = "being read"
        elif layer.multiscale and len(layer.data) > 1:
            text = name_level(layer)
            if is_part(layer):
                text += ", the part in view"
        elif is_part(layer):
            text = "the part in view"
        else:
            continue
        seen.setdefault(text, []).append(layer.name)
    if len(seen) < 2:
        return next(iter(seen), "")
    return "\n".join(f"{text}: {', '.join(names)}" for text, names in seen.items())


def is_part(layer: Layer) -> bool:
    """Return whether only a part of a layer is shown."""
    volume = prepared_of(layer)
    return volume is not None and volume.place.is_part
