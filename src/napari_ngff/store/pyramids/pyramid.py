"""Opens the arrays of a multiscale as a pyramid.

Of an image and its labels, in as few round trips as their documents are deep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from napari_ngff.errors import (
    AccessError,
    ChunkError,
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
)
from napari_ngff.metadata.axes import AXES_BEFORE_0_3
from napari_ngff.metadata.model import (
    Axis,
    Consequence,
    Level,
    Multiscale,
    Problem,
    Severity,
)
from napari_ngff.metadata.version import Version
from napari_ngff.store.arrays.chunked_array import ChunkedArray, open_array
from napari_ngff.store.arrays.lazy_array import ArraySource
from napari_ngff.store.hierarchy.node import Node, OpenedGroups
from napari_ngff.store.limits import check_chunk
from napari_ngff.store.sources.read_ahead import call_at_once

if TYPE_CHECKING:
    import numpy as np

    from napari_ngff.store.arrays.boxes import Box, Cell

OnError = Callable[["ChunkError"], None]
"""Called with the error of a chunk that cannot be read; it is filled with fill
values."""

MAX_DRIFT = 1.0
"""Its own voxels by which a level may be shifted without a problem: halving does that
where a size is odd (docs/design/003)."""

VIEW = 2048
"""Voxels along each side of a large window."""

MOST_CHUNKS = 100_000
"""Chunks in a view; the window would wait far more than ten seconds for more."""

NO_GROUPS = OpenedGroups((), ())
"""Of the labels of a label image."""

MOST_NAMES = 10_000
"""Chunks and shards of a level whose names are looked at when it is opened."""


@dataclass(frozen=True, slots=True)
class Pyramid:
    """A multiscale whose arrays were found.

    Attributes
    ----------
    multiscale
        Its axes and levels match `levels` one to one.
    levels
        From the finest to the coarsest; no axis grows.
    problems
        Levels that are left out, and deviations.
    """

    multiscale: Multiscale
    levels: tuple[ArraySource, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LevelSource(ArraySource):
    """An array whose unreadable chunks are reported instead of raised.

    Attributes
    ----------
    keep, stops
        Whether decoded chunks are cached, and whether nobody needs the voxels any more;
        see `ChunkedArray.read`.
    """

    array: ChunkedArray
    on_error: OnError | None = None
    keep: bool = field(default=True, kw_only=True)
    stops: Callable[[], bool] | None = field(default=None, kw_only=True)

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    @override
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    @override
    def chunks(self) -> tuple[int, ...]:
        return self.array.chunks

    @property
    def token(self) -> object:
        """Equal ones mean equal voxels, as far as nobody else writes them."""
        return self.array.token

    @override
    def read(self, box: Box) -> np.ndarray[Any, Any]:
        return self.read_stored(box, self.on_error, self.keep, self.stops)

    def read_stored(
        self,
        box: Box,
        on_error: OnError | None,
        keep: bool = True,
        stops: Callable[[], bool] | None = None,
    ) -> np.ndarray[Any, Any]:
        """Read a box, and report to somebody else; see `ChunkedArray.read`."""
        return self.array.read(box, on_error, keep, stops=stops)

    def try_reading(self, box: Box) -> bool:
        """Read a box without a notice; return whether that went well."""
        errors: list[ChunkError] = []
        try:
            self.read_stored(box, errors.append)
        except Exception:  # noqa: BLE001  codecs raise whatever they like
            return False
        return not errors

    def cached_chunk(self, cell: Cell) -> np.ndarray[Any, Any] | None:
        """Return a chunk of a remote array if it is in memory."""
        return self.array.cached_chunk(cell)

    def __reduce__(self) -> tuple[Any, ...]:
        # The callback belongs to this process; elsewhere a broken chunk is an error.
        return type(self), (self.array,)


def innermost_source(source: Any) -> Any:
    """Find the level of the file that sources show, or what stands in for it."""
    while not isinstance(source, LevelSource) and hasattr(source, "source"):
        source = source.source
    return source


def open_pyramid(
    node: Node,
    index: int = 0,
    on_error: OnError | None = None,
    arrays: Opened | None = None,
) -> Pyramid:
    """Open the arrays of an image's multiscale, one small read each.

    Parameters
    ----------
    node
        An image or a label image.
    index
        Which of its multiscales.
    on_error
        Called with each unreadable chunk; without it, reading raises.
    arrays
        Of its levels by their path in the metadata, where they are open already; or
        why one cannot be.

    Raises
    ------
    UnsupportedError
        Where no level can be shown; the message has the reason for each.
    """
    if node.metadata.image is None:
        msg = f"{node} is not an image: its metadata has no usable 'multiscales'."
        raise UnsupportedError(msg)
    multiscale = node.metadata.image.multiscales[index]
    problems: list[Problem] = []
    opened = open_arrays(node, multiscale, arrays or {})
    # The order matters: levels are selected by what can be read, then given axes, then
    # sorted by shape, and only those that stay are compared with their metadata.
    usable = _select_levels(node, multiscale, opened, problems)
    if not usable:
        raise _no_pixels_error(node, opened, problems)
    axes, usable = _fit_axes(node, multiscale.axes, usable, problems)
    usable = _sort_levels(node, usable, problems)
    levels = tuple(level for level, _ in usable)
    multiscale = replace(multiscale, axes=axes, levels=levels)
    shown = tuple(array for _, array in usable)
    _check_arrays(node, multiscale, shown, problems)
    sources = tuple(LevelSource(array, on_error) for array in shown)
    return Pyramid(multiscale, sources, tuple(problems))


LevelArrays = list[tuple[Level, "ChunkedArray"]]
"""Levels that can be shown, each with its array."""

Opened = dict[str, "ChunkedArray | Exception"]


def _no_pixels_error(
    node: Node, opened: Opened, problems: list[Problem]
) -> UnsupportedError:
    """Make the error where no level can be shown: one sentence if all are missing."""
    if not all(isinstance(each, NodeNotFoundError) for each in opened.values()):
        reasons = " ".join(problem.text for problem in problems)
        return UnsupportedError(f"No pixel data can be read in {node}. {reasons}")
    names = [path.rpartition("/")[2] for path in opened]
    levels = "level {} is" if len(names) == 1 else "levels {} are"
    msg = f"No pixel data found in {node}: {levels.format(', '.join(names))} missing."
    copies = "it" if len(names) == 1 else "them"
    return UnsupportedError(msg, remedy=f"Restore {copies} from a copy.")


def open_arrays(node: Node, multiscale: Multiscale, known: Opened) -> Opened:
    """Open the arrays of all levels by their keys, or find out why one cannot be."""
    source = node.location.source

    def open_level(path: str) -> ChunkedArray | Exception:
        try:
            return open_array(source, path, node.zarr_format)
        except (OMEZarrError, OSError) as error:
            return error

    opened = {
        node.location.object_key(level.path): known[level.path]
        for level in multiscale.levels
        if level.path in known
    }
    keys = [node.location.object_key(level.path) for level in multiscale.levels]
    left = [key for key in keys if key not in opened]
    found = call_at_once(source, [partial(open_level, key) for key in left])
    return {**opened, **dict(zip(left, found, strict=True))}


def _select_levels(
    node: Node, multiscale: Multiscale, opened: Opened, problems: list[Problem]
) -> LevelArrays:
    usable: LevelArrays = []
    for level in multiscale.levels:
        path = node.location.object_key(level.path)
        array = opened[path]
        if isinstance(array, Exception):
            problems.append(
                _level_problem(
                    "level-unreadable", path, str(array), Consequence.LEFT_OUT
                )
            )
        elif usable and array.ndim != usable[0][1].ndim:
            text = f"It has {array.ndim} axes, the first level {usable[0][1].ndim}."
            problems.append(
                _level_problem("level-axes", path, text, Consequence.LEFT_OUT)
            )
        elif not math.prod(array.shape):
            text = f"Its shape {array.shape} is empty."
            problems.append(
                _level_problem("level-empty", path, text, Consequence.LEFT_OUT)
            )
        elif count_chunks_in_view(array) > MOST_CHUNKS:
            text = f"Its chunks of {array.chunks} voxels are too small to be viewed."
            problems.append(
                _level_problem("chunks-tiny", path, text, Consequence.LEFT_OUT)
            )
        elif text := describe_large_chunk(array):
            problems.append(
                _level_problem("chunks-large", path, text, Consequence.LEFT_OUT)
            )
        else:
            usable.append((level, array))
    return usable


def describe_large_chunk(array: ChunkedArray) -> str:
    """Describe why chunks of an array are too large to be decoded; "" if they are
    not.
    """
    try:
        check_chunk(array.layout.chunk_nbytes)
    except UnsupportedError as error:
        reason = str(error).rstrip(".")
        return f"{reason[:1].upper()}{reason[1:]}."
    return ""


def count_chunks_in_view(array: ChunkedArray) -> int:
    """Count the chunks in the largest view of a plane, at this level."""
    sizes = zip(array.shape[-2:], array.chunks[-2:], strict=True)
    return math.prod(-(-min(size, VIEW) // max(chunk, 1)) for size, chunk in sizes)


def _fit_axes(
    node: Node, axes: tuple[Axis, ...], usable: LevelArrays, problems: list[Problem]
) -> tuple[tuple[Axis, ...], LevelArrays]:
    """Choose as many axes as the arrays have, or raise.

    Raises
    ------
    UnsupportedError
        Where the arrays cannot be shown, or have other axes than the metadata.
    """
    array = usable[0][1]
    ndim = array.ndim
    if ndim < 2 or array.dtype.kind not in "biufc":
        msg = (
            f"{node}: arrays of {ndim} axes and type {array.dtype} cannot be shown;"
            " OME-Zarr images have 2 to 5 axes of numbers."
        )
        raise UnsupportedError(msg)
    if len(axes) == ndim:
        return _keep_two_axes(axes, array.path, problems), usable
    version = node.metadata.version or Version()
    if axes and version.has_axes:
        names = ", ".join(axis.name for axis in axes)
        msg = (
            f"{node}: the array {array.path} has {ndim} axes, but the metadata names"
            f" {len(axes)} ({names})."
        )
        raise UnsupportedError(msg, remedy="Correct 'axes' in the metadata.")
    # Early writers left out the first of "t, c, z, y, x", which the text required.
    # The last names, since the missing axes were the first ones.
    fitted = AXES_BEFORE_0_3[-ndim:]
    taken = f"Taken as {', '.join(axis.name for axis in fitted)}."
    if axes:
        text = f"The array has {ndim} axes; version {version} has 5, (t, c, z, y, x)."
    else:
        text = "The metadata names no axes: 'axes' MUST be there."
    if ndim > len(fitted):
        msg = f"{node}: the array {array.path} has {ndim} axes and no metadata of them."
        raise UnsupportedError(msg)
    problems.append(_level_problem("axes-count", array.path, text, taken))
    # Scale and translation are cut, or extended, to the number of axes.
    return fitted, [
        (
            Level(
                level.path,
                ((1.0,) * ndim + level.scale)[-ndim:],
                ((0.0,) * ndim + level.translation)[-ndim:],
            ),
            level_array,
        )
        for level, level_array in usable
    ]


def _keep_two_axes(
    axes: tuple[Axis, ...], where: str, problems: list[Problem]
) -> tuple[Axis, ...]:
    """Keep two axes for the plane where one of only two is of type channel."""
    if len(axes) > 2 or all(axis.type != "channel" for axis in axes):
        return axes
    text = 'The "axes" MUST contain 2 or 3 entries of "type:space".'
    consequence = "Its channels are shown along an axis, not as layers."
    problems.append(_level_problem("axes-space", where, text, consequence))
    # Without its type it is an axis like any other: napari needs two for a plane.
    return tuple(
        replace(axis, type=None) if axis.type == "channel" else axis for axis in axes
    )


def _sort_levels(
    node: Node, usable: LevelArrays, problems: list[Problem]
) -> LevelArrays:
    """Sort the levels from the finest to the coarsest, and leave out what grows.

    The listed order stays where each level is smaller than the one before, whatever its
    transformation. Otherwise they are sorted by the size of their voxels, which padding
    does not change, or by shape where the sizes are equal.
    """
    sizes = {level.path: math.prod(map(abs, level.scale)) for level, _ in usable}
    # By shapes first: napari places levels by them alone.
    shapes = [array.shape for _, array in usable]
    if all(
        coarser != finer and all(a <= b for a, b in zip(coarser, finer, strict=True))
        for finer, coarser in pairwise(shapes)
    ):
        ordered = usable
    elif len(set(sizes.values())) > 1:
        ordered = sorted(usable, key=lambda item: sizes[item[0].path])
    else:
        ordered = sorted(usable, key=lambda item: -math.prod(item[1].shape))
    if [item[1].path for item in ordered] != [item[1].path for item in usable]:
        text = "The levels are not 'ordered from largest to smallest'."
        where = node.location.object_key("multiscales/datasets")
        problems.append(
            _level_problem("levels-unordered", where, text, "They are sorted.")
        )
    # napari refuses a pyramid that grows on any axis.
    kept = ordered[:1]
    for level, array in ordered[1:]:
        finer = kept[-1][1].shape
        if all(a <= b for a, b in zip(array.shape, finer, strict=True)):
            kept.append((level, array))
        else:
            text = f"Its shape {array.shape} grows against the finer level's {finer}."
            problems.append(
                _level_problem("level-grows", array.path, text, Consequence.LEFT_OUT)
            )
    return kept


def _check_arrays(
    node: Node,
    multiscale: Multiscale,
    arrays: Sequence[ChunkedArray],
    problems: list[Problem],
) -> None:
    first = arrays[0]
    misnamed = filter(None, map(_find_misnamed, arrays))
    # The first says enough: who renames chunks does that in all levels.
    problems += islice(misnamed, 1)
    for level, array in zip(multiscale.levels, arrays, strict=True):
        problems += [
            _level_problem("zarr-metadata", array.path, flaw, "It is read.")
            for flaw in array.layout.flaws
        ]
        if array.dtype != first.dtype:
            text = f"Its type is {array.dtype}, that of the first level {first.dtype}."
            problems.append(_level_problem("level-dtype", array.path, text, ""))
        names = array.layout.dimension_names
        if names is not None and names != multiscale.axis_names:
            text = (
                f"Its dimension_names {list(names)} 'MUST match the names in the axes"
                f" metadata' {list(multiscale.axis_names)}."
            )
            problems.append(
                _level_problem("dimension-names", array.path, text, "The axes win.")
            )
        version = node.metadata.version or Version()
        stated = version.may_have_transformations and level.transformation is None
        # Before 0.4 levels had no transformations.
        drift = stated and _measure_drift(
            multiscale.levels[0], first.shape, level, array.shape
        )
        if drift > MAX_DRIFT:
            text = f"Its transformation puts it {drift:.1f} of its voxels off."
            consequence = "It is placed by its shape, not by its transformation."
            problems.append(
                _level_problem(
                    "level-misplaced", array.path, text, consequence, Severity.WARNING
                )
            )


def _find_misnamed(array: ChunkedArray) -> Problem | None:
    """Look for chunks whose names contradict the document: they would be read as 0."""
    keys, source = array.layout.keys, array.source
    stored = array.shards or array.chunks
    count = math.prod(-(-n // m) for n, m in zip(array.shape, stored, strict=True))
    if (
        count > MOST_NAMES
        or array.has_lent_layout
        # That would be one more request for each level.
        or (source.traits.is_remote and not source.traits.has_directory)
    ):
        return None
    names: Sequence[str] | None = None
    with suppress(AccessError):  # who may not list may still read
        names = source.list_names(array.path)
    for name in names or ():
        if keys.is_misnamed(name, array.ndim):
            key = keys.make_key((0,) * array.ndim)
            text = (
                f"Chunks such as {name!r} are not found: by its metadata they are named"
                f" such as {key!r}. Correct the names or the metadata."
            )
            consequence = Consequence.CHUNKS_LEFT_OUT
            return _level_problem("chunk-names", array.path, text, consequence)
    return None


def _measure_drift(
    first: Level, shape0: tuple[int, ...], level: Level, shape: tuple[int, ...]
) -> float:
    """Compare the position of a level by its metadata with that by its shape.

    napari uses only the shape: voxel ``i`` of a level reduced by ``f`` lies at
    ``f * i + (f - 1) / 2`` of level 0.

    Returns
    -------
    float
        The largest distance at either end of any axis, in voxels of the level.
    """
    drift = 0.0
    for axis, (full, size) in enumerate(zip(shape0, shape, strict=True)):
        factor = full / size
        # Drift is linear along an axis, so it is largest at one of its ends.
        for index in (0, size - 1):
            by_shape = factor * index + (factor - 1) / 2
            position = level.scale[axis] * index + level.translation[axis]
            by_metadata = (position - first.translation[axis]) / first.scale[axis]
            drift = max(drift, abs(by_shape - by_metadata) / factor)
    return drift


def _level_problem(
    code: str,
    where: str,
    text: str,
    consequence: str,
    severity: Severity = Severity.ERROR,
) -> Problem:
    return Problem(code, severity, f"{where}:", text, consequence)


@dataclass(frozen=True, slots=True)
class OpenedImage:
    """An image with its labels.

    Attributes
    ----------
    pyramid
        Its arrays, or why they cannot be shown.
    labels
        The groups of its label images; none for a label image.
    label_pyramids
        Of each of them, or why it cannot be shown.
    """

    pyramid: Pyramid | Exception
    labels: OpenedGroups
    label_pyramids: tuple[Pyramid | Exception, ...]


def open_images(
    nodes: Sequence[Node], on_error: OnError | None = None
) -> list[OpenedImage]:
    """Open several images of one hierarchy, and their labels.

    `on_error` is called later with each chunk that cannot be read.
    """
    if not nodes:
        return []
    source = nodes[0].location.source
    calls = [partial(open_with_labels, node, on_error) for node in nodes]
    opened = call_at_once(source, calls)
    inner = [label for _, labels in opened for label in labels.nodes]
    pyramids = iter(open_pyramids(inner, on_error))
    return [
        OpenedImage(pyramid, labels, tuple(next(pyramids) for _ in labels.nodes))
        for pyramid, labels in opened
    ]


def open_with_labels(
    node: Node, on_error: OnError | None = None
) -> tuple[Pyramid | Exception, OpenedGroups]:
    """Open the arrays of an image, and the groups of its labels, without their arrays.

    Returns
    -------
    pyramid
        Or why it cannot be shown.
    labels
        As of `Node.labels`; none for a label image.
    """
    image = node.metadata.image
    if image is not None and image.label is not None:
        return _try_pyramid(node, on_error), NO_GROUPS
    # The list of labels lies as deep as the arrays of the image.
    calls: list[Callable[[], Any]] = [
        partial(_try_pyramid, node, on_error),
        node.labels,
    ]
    pyramid, labels = call_at_once(node.location.source, calls)
    return pyramid, labels


def open_pyramids(
    nodes: Sequence[Node], on_error: OnError | None = None
) -> list[Pyramid | Exception]:
    """Open the arrays of several images; of one that cannot be shown, return why."""
    if not nodes:
        return []
    calls = [partial(_try_pyramid, node, on_error) for node in nodes]
    return call_at_once(nodes[0].location.source, calls)


def _try_pyramid(node: Node, on_error: OnError | None) -> Pyramid | Exception:
    try:
        return open_pyramid(node, on_error=on_error)
    except (OMEZarrError, OSError) as error:
        return error
