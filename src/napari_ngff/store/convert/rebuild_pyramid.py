"""Makes the coarser levels of an image again from its finest level, in its place.

Each level is written beside the old one and takes its place when it is complete. New
levels, also those of labels, are listed when all are there; a level that gets another
shape is first taken out of the metadata. So an image that is read meanwhile has fewer
levels at most.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OptionError, UnsupportedError
from napari_ngff.metadata.dump import dump_level
from napari_ngff.metadata.version import V0_4, V0_5, Version
from napari_ngff.store.arrays.array_document import read_documents
from napari_ngff.store.arrays.array_writer import ArrayWriter, replace_unchanged
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.store.arrays.chunked_array import ChunkedArray, open_array
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.convert.array_plan import (
    ArrayRegion,
    PlannedLevel,
    convert_array,
)
from napari_ngff.store.convert.array_task import (
    ArrayTask,
    choose_block,
    sharing_sources,
)
from napari_ngff.store.convert.image_plan import whole_factors
from napari_ngff.store.convert.request import ConversionRequest
from napari_ngff.store.convert.unit_runner import run_units
from napari_ngff.store.convert.work_unit import WorkUnit, run_unit
from napari_ngff.store.hierarchy.edit_document import change_document
from napari_ngff.store.hierarchy.node import Node, open_node
from napari_ngff.store.hierarchy.save_transform import entry_of
from napari_ngff.store.pyramids.level_reduction import method_named
from napari_ngff.store.pyramids.pyramid_writer import PyramidPlan, place_coarse_level
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.consolidated import update_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from napari_ngff.metadata.model import JSON, ImageMetadata, Level, Multiscale
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.sources.blob import Revision
    from napari_ngff.store.store import NewTree, Revisions, Store, Transaction

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
    node, image
        The image or label image.
    finest
        Its level 0.
    method
        "mean", "mode" or "nearest".
    levels
        The coarser levels, from the finer one on.
    """

    node: Node
    image: ImageMetadata
    finest: ChunkedArray
    method: str
    levels: tuple[RebuiltLevel, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the voxels that are written."""
        voxels = sum(math.prod(level.shape) for level in self.levels)
        return voxels * self.finest.dtype.itemsize


@dataclass(frozen=True, slots=True)
class ReplacedLevel:
    """A level that is made from the finer one, and takes the place of the old one.

    Attributes
    ----------
    transaction
        Of the hierarchy, a folder.
    finer, path
        Keys of the two levels.
    documents
        Of the new level, by name.
    method, factors
        See `ArrayTask`.
    shared
        Keys of levels that other windows may save meanwhile.
    """

    transaction: Transaction
    finer: str
    path: str
    documents: Mapping[str, bytes]
    method: str
    factors: Shape
    shared: Sequence[str] = ()

    def put_in_place(
        self,
        done: Callable[[WorkUnit, Any], None],
        scheduler: Any = None,
        kept: str = "",
    ) -> None:
        """Make the level, and replace the old one when the new one is complete.

        Parameters
        ----------
        done, scheduler
            See `run_units`.
        kept
            See `NewTree.commit`.

        Raises
        ------
        ConflictError
            Where others save into shared levels again and again.
        UnsupportedError
            Where this package cannot encode it.
        OMEZarrError, OSError
            Where reading or writing fails.
        """
        folder = FolderStore(self.transaction.root)
        zarr_format = 3 if "zarr.json" in self.documents else 2

        def make_level(tree: NewTree) -> Revisions:
            # Before any is read: a save in another window changes them, and this level
            # must have it.
            revisions: dict[str, Revision | None] = {}
            for path in self.shared:
                array = open_array(self.transaction.source, path, zarr_format)
                revisions |= ArrayWriter(array, self.transaction).list_revisions()
            made = {join_key(tree.key, name): d for name, d in self.documents.items()}
            for key, data in made.items():
                folder.put_new(key, (data,))
            # As the chunks: the old level goes once the new one is in its place.
            folder.flush_new(made)
            new = open_array(folder, tree.key, zarr_format)
            if not new.direct:
                raise UnsupportedError(
                    f"{folder.root}/{self.path} cannot be encoded by this package.",
                    remedy="Convert it, with --codec zstd.",
                )
            unit, size = new.shards or new.chunks, new.dtype.itemsize
            task = ArrayTask(
                self.finer,
                tree.key,
                zarr_format,
                ArrayRegion(whole_box(new.shape)),
                False,
                False,
                choose_block(unit, unit, new.shape, size, False),
                size,
                self.method,
                self.factors,
            )
            units = (
                WorkUnit(tree.key, index, folder, folder, task, index)
                for index in range(task.count)
            )
            with sharing_sources():
                run_units(units, run_unit, done, scheduler)
            return revisions

        replace_unchanged(self.transaction, self.path, make_level, kept=kept)


def _write_levels(
    plan: RebuildPlan,
    done: Callable[[WorkUnit, Any], None],
    scheduler: Any,
    unlisted: list[str],
) -> None:
    """Write all levels; those that are new are not listed yet, but in `unlisted`."""
    node, image = plan.node, plan.image
    transaction = node.location.source.begin()
    transaction.recover(node.location.path)
    finer, *others = (level.path for level in image.multiscales[0].levels)
    if any(not level.stays and level.path in others for level in plan.levels):
        # Replaced by another shape, for which it is taken out of the list.
        _change_levels(plan, made=False)
    finer = node.location.object_key(finer)
    for level in plan.levels:
        path = node.location.object_key(level.path)
        shared = [finer, path] if level.stays else [finer]
        replaced = ReplacedLevel(
            transaction,
            finer,
            path,
            _make_documents(plan, level, path),
            plan.method,
            level.factors,
            # Labels, which other windows may save.
            shared if image.label is not None else (),
        )
        replaced.put_in_place(done, scheduler)
        if not level.stays:
            unlisted.append(path)
        finer = path


def _make_documents(
    plan: RebuildPlan, level: RebuiltLevel, path: str
) -> dict[str, bytes]:
    """Copy the documents of a level, or make them like those of the finest one."""
    source, finest = plan.node.location.source, plan.finest
    like = path if level.stays else finest.path
    documents = read_documents(source, like, finest.zarr_format)
    if level.stays:
        return documents
    region = ArrayRegion(whole_box(level.shape))
    planned = PlannedLevel(level.path, finest, (), False, region, finest.path)
    request = ConversionRequest(V0_4 if finest.zarr_format == 2 else V0_5)
    return convert_array(documents, planned, request, updates=False).documents


def _list_levels(plan: RebuildPlan) -> None:
    """List the levels that are there now, and remove all others."""
    location = plan.node.location
    _change_levels(plan, made=True)
    first, *others = plan.image.multiscales
    used = {level.path for each in others for level in each.levels}
    used |= {level.path for level in plan.levels}
    gone = {level.path for level in first.levels[1:]} - used
    _remove_levels(location.source, [*map(location.object_key, sorted(gone))])


def _remove_levels(source: Store, keys: Sequence[str]) -> None:
    """Remove levels that are not listed."""
    transaction = source.begin()
    for key in keys:
        transaction.remove_below(key)
    if keys:
        update_copies(transaction, keys)


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
    plans = plan_rebuild(open_node(source), levels, method)
    node, done = plans[0].node, 0
    total = sum(plan.nbytes for plan in plans)

    def count_bytes(unit: WorkUnit, _: Any) -> None:
        nonlocal done
        # A level that is made twice is counted twice.
        done = min(done + unit.nbytes, total)
        if progress is not None:
            progress(done, total)

    unlisted: list[str] = []
    # All are written before any is listed: labels MUST have as many levels as their
    # image, also where it is stopped in between.
    try:
        for each in plans:
            _write_levels(each, count_bytes, scheduler, unlisted)
    except BaseException:
        _remove_levels(node.location.source, unlisted)
        raise
    made = []
    for each in plans:
        _list_levels(each)
        path = each.node.location.path[len(node.location.path) :].lstrip("/")
        made += [join_key(path, level.path) for level in each.levels]
    return tuple(made)


def plan_rebuild(
    node: Node, levels: int | None = None, method: str | None = None
) -> tuple[RebuildPlan, ...]:
    """Plan what `rebuild` does; writes nothing.

    The plan of the image, then those of its labels that get another number of levels,
    since they MUST have as many.

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
    if node.location.source.traits.folder is None:
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
    planned = tuple(_plan_levels(node, multiscale, finest, levels))
    plans = [RebuildPlan(node, image, finest, method, planned)]
    for each in node.labels().nodes if image.label is None else ():
        inner, count = each.metadata.image, len(planned) + 1
        if inner is not None and len(inner.multiscales[0].levels) != count:
            plans += plan_rebuild(each, count)
    return tuple(plans)


def _plan_levels(
    node: Node, multiscale: Multiscale, finest: ChunkedArray, levels: int | None
) -> list[RebuiltLevel]:
    """Choose shapes: those of the levels that are there, then halved ones."""
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


def _change_levels(plan: RebuildPlan, *, made: bool) -> None:
    """List the levels that are there: all once they are `made`."""
    node, multiscale = plan.node, plan.image.multiscales[0]
    there = [*itertools.takewhile(lambda level: made or level.stays, plan.levels)]
    version = node.metadata.version or Version()

    def put(home: JSON) -> None:
        entry = entry_of(node, multiscale, home)
        listed = {item["path"].strip("/"): item for item in entry["datasets"]}
        first = entry["datasets"][0]
        total = [1] * plan.finest.ndim
        datasets = [first]
        for level in there:
            total = [n * f for n, f in zip(total, level.factors, strict=True)]
            if level.stays:
                datasets.append(listed[level.path])
            else:
                datasets.append(_dump_coarse(multiscale, first, level, total, version))
        entry["datasets"] = datasets
        if made and plan.levels:
            entry["type"] = plan.method
            described = entry.get("metadata")
            if isinstance(described, dict) and "method" in described:
                described["method"] = plan.method

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
    placed = place_coarse_level(level.path, scale, corner, total)
    placed = replace(placed, transformation=finest.transformation)
    return dump_level(placed, multiscale.intrinsic or "intrinsic", version)
