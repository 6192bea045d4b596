"""Makes the coarser levels of an image again from its finest level, in its place.

Each level is written beside the old one and takes its place when it is complete. New
levels, also those of labels, are listed when all are there; a level that gets another
shape is first taken out of the metadata. So an image that is read meanwhile has fewer
levels at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OptionError, UnsupportedError
from napari_ngff.metadata.dump import dump_level
from napari_ngff.metadata.version import Version
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.stored_objects import DOCUMENTS, join_key
from napari_ngff.store.convert.array_document import (
    ArrayRegion,
    ArrayTarget,
    convert_array,
)
from napari_ngff.store.convert.array_task import ArrayTask, choose_block
from napari_ngff.store.convert.image_plan import whole_factors
from napari_ngff.store.convert.opened_task import sharing_sources
from napari_ngff.store.convert.selection import Storage
from napari_ngff.store.convert.unit_runner import run_units
from napari_ngff.store.convert.work_unit import WorkUnit, run_unit
from napari_ngff.store.hierarchy.consolidated import update_copies
from napari_ngff.store.hierarchy.edit_document import change_document
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.hierarchy.save_transform import entry_of
from napari_ngff.store.pyramids.level_reduction import method_named
from napari_ngff.store.pyramids.pyramid_plan import PyramidPlan
from napari_ngff.store.sources.folder_source import FolderSource, local_folder
from napari_ngff.store.write.begin import begin_transaction
from napari_ngff.store.write.new_objects import put_object
from napari_ngff.store.write.transaction import replace_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.metadata.model import JSON, Level, Multiscale
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.sources.revision import Revision
    from napari_ngff.store.write.transaction import NewTree, Revisions

METHODS = ("mean", "mode", "nearest")


@dataclass(frozen=True, slots=True)
class RebuiltLevel:
    """A coarser level that is made: its path, shape, and voxels of the finer one."""

    path: str
    shape: Shape
    factors: Shape
    stays: bool  # whether it is there in this shape


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What making the coarser levels again comes to.

    Attributes
    ----------
    node
        The image or label image.
    finest
        Its level 0.
    method
        "mean", "mode" or "nearest".
    levels
        The coarser levels, from the finer one on.
    labels
        Plans of its labels that get another number of levels.
    """

    node: Node
    finest: ChunkedArray
    method: str
    levels: tuple[RebuiltLevel, ...]
    labels: tuple[RebuildPlan, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of the voxels that are written."""
        voxels = sum(math.prod(level.shape) for level in self.levels)
        own = voxels * self.finest.dtype.itemsize
        return own + sum(label.nbytes for label in self.labels)


class _ByteCount:
    """Adds up the bytes of all levels of a run, and reports the sum."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def add_bytes(self, nbytes: int) -> None:
        """Count a unit that is done."""
        # A level that is made twice is counted twice.
        self._done = min(self._done + nbytes, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)


class _Rebuilding:
    """One run for one image or label image."""

    def __init__(self, plan: RebuildPlan, scheduler: Any, count: _ByteCount) -> None:
        self.plan = plan
        self.node = plan.node
        self.transaction = begin_transaction(plan.node.location.source)
        self.scheduler = scheduler
        self.count = count
        self.unlisted: list[str] = []

    def write_levels(self) -> None:
        """Write all levels; those that are new are not listed yet."""
        plan, image = self.plan, self.node.metadata.image
        assert image is not None
        self.transaction.recover(self.node.location.path)
        finer, *others = (level.path for level in image.multiscales[0].levels)
        if any(not level.stays and level.path in others for level in plan.levels):
            # Replaced by another shape, for which it is taken out of the list.
            _change_levels(self.node, plan.levels, plan.method, made=False)
        for level in plan.levels:
            self.write_level(level, plan.finest, finer, plan.method)
            if not level.stays:
                self.unlisted.append(self.node.location.object_key(level.path))
            finer = level.path

    def list_levels(self) -> None:
        """List the levels that are there now, and remove all others."""
        plan, image = self.plan, self.node.metadata.image
        assert image is not None
        _change_levels(self.node, plan.levels, plan.method, made=True)
        made = [level.path for level in plan.levels]
        first, *others = image.multiscales
        used = {level.path for each in others for level in each.levels}
        gone = {level.path for level in first.levels[1:]} - used - set(made)
        self.remove_levels(list(map(self.node.location.object_key, sorted(gone))))

    def remove_levels(self, keys: Sequence[str]) -> None:
        """Remove levels that are not listed."""
        for key in keys:
            self.transaction.remove_below(key)
        if keys:
            update_copies(self.transaction, keys)

    def write_level(
        self, level: RebuiltLevel, finest: ChunkedArray, finer: str, method: str
    ) -> None:
        """Make one level, and put it in the place of the old one."""
        path = self.node.location.object_key(level.path)
        source = self.node.location.object_key(finer)

        def make_level(tree: NewTree) -> Revisions:
            read = self._list_revisions(source, path if level.stays else "")
            for name, data in self._make_documents(level, finest, path).items():
                put_object(self.transaction.root, join_key(tree.key, name), (data,))
            self._compute_level(level, tree.key, source, method)
            return read

        replace_unchanged(self.transaction, path, make_level)

    def _list_revisions(self, *paths: str) -> Revisions:
        """List the objects of levels of labels, which other windows may save."""
        image = self.node.metadata.image
        assert image is not None
        revisions: dict[str, Revision | None] = {}
        if image.label is not None:
            for path in filter(None, paths):
                array = open_array(self.transaction.source, path, self.node.zarr_format)
                writer = ArrayWriter(array, self.transaction)
                revisions |= writer.list_revisions()
        return revisions

    def _compute_level(
        self, level: RebuiltLevel, key: str, finer: str, method: str
    ) -> None:
        """Compute the voxels of a level from the finer one, and write them."""
        folder = FolderSource(self.transaction.root)
        new = open_array(folder, key, self.plan.finest.zarr_format)
        if not new.direct:
            raise UnsupportedError(
                f"{self.node}/{level.path} cannot be encoded by this package.",
                remedy="Convert it, with --codec zstd.",
            )
        unit = new.shards or new.chunks
        size = new.dtype.itemsize
        task = ArrayTask(
            finer,
            key,
            new.zarr_format,
            ArrayRegion(tuple((0, n) for n in new.shape)),
            False,
            False,
            choose_block(unit, unit, new.shape, size, False),
            size,
            method,
            level.factors,
        )
        units = (
            WorkUnit(key, index, folder, folder.root, task, index)
            for index in range(task.count)
        )
        with sharing_sources(key):
            run_units(
                units,
                run_unit,
                lambda unit, _: self.count.add_bytes(unit.nbytes),
                self.scheduler,
            )

    def _make_documents(
        self, level: RebuiltLevel, finest: ChunkedArray, path: str
    ) -> dict[str, bytes]:
        """Copy the documents of a level, or make them like those of the finest one."""
        source = self.node.location.source
        name = DOCUMENTS[finest.zarr_format]
        like = path if level.stays else finest.path
        raw = source.get(join_key(like, name)) or b""
        extra = source.get(join_key(like, ".zattrs"))
        attributes = extra if finest.zarr_format == 2 else None
        if level.stays:
            more = {} if attributes is None else {".zattrs": attributes}
            return {name: raw} | more
        region = ArrayRegion(tuple((0, n) for n in level.shape))
        target = ArrayTarget(finest.zarr_format, (), False, False, True)
        made = convert_array(raw, attributes, finest.layout, region, target, Storage())
        return made.documents


def rebuild(
    source: Any,
    *,
    levels: int | None = None,
    method: str | None = None,
    scheduler: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[str, ...]:
    """Make the coarser levels of an image or of labels again, in their file.

    If the number of levels changes, the labels of an image get as many.

    Parameters
    ----------
    source
        The image or label image, in a folder.
    levels
        How many levels it has then, the finest included; by default as many as before.
    method
        "mean", "mode" or "nearest"; by default mean for images, and for labels mode
        where their metadata have it, otherwise nearest.
    scheduler
        As for `convert`.
    progress
        Called with the bytes of voxels that are written, and their total; an error that
        it raises stops, and levels that are complete stay.

    Returns
    -------
    tuple of str
        Paths of the levels that were made.

    Raises
    ------
    UnsupportedError
        Where it is not an image in a folder.
    ValueError
        Where `levels` or `method` do not fit.
    OMEZarrError, OSError
        Where reading or writing fails.
    """
    plan = plan_rebuild(open_node(source), levels, method)
    return _run_plan(plan, scheduler, progress)


def plan_rebuild(
    node: Node, levels: int | None = None, method: str | None = None
) -> RebuildPlan:
    """Plan what `rebuild` does; writes nothing.

    Raises
    ------
    UnsupportedError
        Where it is not an image in a folder.
    OptionError
        Where `levels` or `method` do not fit.
    OMEZarrError, OSError
        Where metadata cannot be read.
    """
    image = node.metadata.image
    if image is None:
        msg = f"{node} is not an image."
        raise UnsupportedError(msg, remedy="Name an image or a label image.")
    if local_folder(node.location.source) is None:
        msg = f"{node} is not in a folder."
        raise UnsupportedError(msg, remedy="Unpack it, or convert it to a folder.")
    if method not in (None, *METHODS):
        text = f"Choose one of {', '.join(METHODS)}, not {method!r}."
        raise OptionError(text, "method")
    if image.label is not None and method == "mean":
        text = "A mean of ids is another id: choose mode or nearest."
        raise OptionError(text, "method")
    multiscale = image.multiscales[0]
    finest = open_array(
        node.location.source,
        node.location.object_key(multiscale.levels[0].path),
        node.zarr_format,
    )
    if method is None:
        label = image.label is not None
        method = method_named(multiscale.method) if label else "mean"
    planned = tuple(_plan_levels(node, finest, levels))
    labels = () if image.label is not None else _plan_labels(node, len(planned) + 1)
    return RebuildPlan(node, finest, method, planned, labels)


def _plan_labels(node: Node, count: int) -> tuple[RebuildPlan, ...]:
    """Give the labels of an image as many levels as it has, which they MUST have."""
    plans = []
    for label in node.labels().nodes:
        assert label.metadata.image is not None
        if len(label.metadata.image.multiscales[0].levels) != count:
            plans.append(plan_rebuild(label, count))
    return tuple(plans)


def _run_plan(
    plan: RebuildPlan, scheduler: Any, progress: Callable[[int, int], None] | None
) -> tuple[str, ...]:
    """Make the levels of a plan and of its labels; returns their paths.

    All are written before any is listed: labels MUST have as many levels as their
    image, also where it is stopped in between.
    """
    count = _ByteCount(plan.nbytes, progress)
    runs = [_Rebuilding(each, scheduler, count) for each in (plan, *plan.labels)]
    try:
        for run in runs:
            run.write_levels()
    except BaseException:
        for run in runs:
            run.remove_levels(run.unlisted)
        raise
    made = []
    for run in runs:
        run.list_levels()
        path = run.plan.node.location.path[len(plan.node.location.path) :].lstrip("/")
        made += [join_key(path, level.path) for level in run.plan.levels]
    return tuple(made)


def _plan_levels(
    node: Node, finest: ChunkedArray, levels: int | None
) -> list[RebuiltLevel]:
    """Choose shapes: those of the levels that are there, then halved ones."""
    assert node.metadata.image is not None
    multiscale = node.metadata.image.multiscales[0]
    if levels is not None and levels < 1:
        text = f"An image has 1 level or more, not {levels}."
        raise OptionError(text, "levels")
    if len(multiscale.axes) not in (0, finest.ndim):
        raise UnsupportedError(f"{node} has other axes than its arrays.")
    stated = len(multiscale.levels)
    count = levels or (stated if stated > 1 else None)
    kept = _keep_levels(node, multiscale, finest, count)
    missing = None if count is None else count - len(kept)
    if not multiscale.axes or missing == 1:
        return kept
    return kept + _halve_levels(node, multiscale, finest, kept, missing)


def _keep_levels(
    node: Node, multiscale: Multiscale, finest: ChunkedArray, count: int | None
) -> list[RebuiltLevel]:
    """List the levels that are there, up to one without whole voxels of the finer."""
    kept: list[RebuiltLevel] = []
    shape = finest.shape
    for level in multiscale.levels[1:count]:
        key = node.location.object_key(level.path)
        there = open_array(node.location.source, key, node.zarr_format).shape
        factors = whole_factors(shape, there)
        if not factors:
            break
        kept.append(RebuiltLevel(level.path, there, factors, True))
        shape = there
    return kept


def _halve_levels(
    node: Node,
    multiscale: Multiscale,
    finest: ChunkedArray,
    kept: list[RebuiltLevel],
    count: int | None,
) -> list[RebuiltLevel]:
    """Choose halved shapes for the levels after those that are kept.

    `count` is their number, with the level that is halved first; None chooses it.
    """
    stated = multiscale.levels
    names = {level.path for level in stated}
    shape = kept[-1].shape if kept else finest.shape
    scale = tuple(
        s * n / m for s, n, m in zip(stated[0].scale, finest.shape, shape, strict=True)
    )
    more = PyramidPlan.choose_shapes(
        shape, multiscale.axes, scale, finest.chunks, levels=count
    )
    halved: list[RebuiltLevel] = []
    for number, (_, coarse, factors) in enumerate(more.steps, len(kept) + 1):
        if coarse == shape:
            text = f"{node} has {number} levels at most: the last is one pixel."
            raise OptionError(text, "levels")
        path = str(number)
        while path in names:
            path += "-new"
        if number < len(stated):
            path = stated[number].path
        names.add(path)
        shape = coarse
        halved.append(RebuiltLevel(path, coarse, factors, False))
    return halved


def _change_levels(
    node: Node, plan: Sequence[RebuiltLevel], method: str, *, made: bool
) -> None:
    """List the levels that are there: all once they are `made`."""
    assert node.metadata.image is not None
    multiscale = node.metadata.image.multiscales[0]
    stated = [level.path for level in multiscale.levels]
    kept = [stated[0]]
    for level in plan:
        if not (made or level.stays):
            break
        kept.append(level.path)
    version = node.metadata.version or Version()

    def put(home: JSON) -> None:
        entry = entry_of(node, multiscale, home)
        listed = {item["path"].strip("/"): item for item in entry["datasets"]}
        first = entry["datasets"][0]
        total = [1] * len(plan[0].shape) if plan else []
        datasets = [first]
        for level in plan[: len(kept) - 1]:
            total = [n * f for n, f in zip(total, level.factors, strict=True)]
            if level.stays:
                datasets.append(listed[level.path])
            else:
                datasets.append(_dump_coarse(multiscale, first, level, total, version))
        entry["datasets"] = datasets
        if made and plan:
            entry["type"] = method
            described = entry.get("metadata")
            if isinstance(described, dict) and "method" in described:
                described["method"] = method

    change_document(node, put)


def _dump_coarse(
    multiscale: Multiscale,
    first: JSON,
    level: RebuiltLevel,
    total: list[int],
    version: Version,
) -> JSON:
    """Return the entry of a new level, placed by that of the finest one."""
    finest: Level = multiscale.levels[0]
    scale, corner = finest.scale, finest.translation
    steps = first.get("coordinateTransformations")
    if not version.has_systems and isinstance(steps, list) and steps:
        # As written: transformations of the whole multiscale come after it.
        scale = tuple(steps[0].get("scale", scale))
        corner = (0.0,) * len(scale)
        if len(steps) > 1:
            corner = tuple(steps[1].get("translation", corner))
    placed = replace(
        finest,
        path=level.path,
        scale=tuple(s * n for s, n in zip(scale, total, strict=True)),
        translation=tuple(
            t + (n - 1) / 2 * s for t, s, n in zip(corner, scale, total, strict=True)
        ),
    )
    return dump_level(placed, multiscale.intrinsic or "intrinsic", version)
