"""Writes layers as a new OME-Zarr: all or nothing, and never over anything unasked."""

from __future__ import annotations

import itertools
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ngff.addresses import is_url
from napari_ngff.errors import OMEZarrError, UnsupportedError, error_text
from napari_ngff.labels.create_labels import METHOD
from napari_ngff.labels.places.sidecar import Address
from napari_ngff.metadata.dump import dump_image, dump_labels
from napari_ngff.metadata.model import JSON, ImageMetadata, Multiscale, Omero
from napari_ngff.metadata.systems import CoordinateSystem, Reference, SystemLink
from napari_ngff.metadata.systems_dump import INTRINSIC
from napari_ngff.metadata.transform import Affine
from napari_ngff.metadata.version import LABEL_VERSIONS, V0_4, V0_5, Version
from napari_ngff.store.arrays.array_document import group_documents
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.convert.conversion_plan import TABLES
from napari_ngff.store.data_folder import is_in_data_folder
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import read_node
from napari_ngff.store.pyramids.pyramid_writer import PyramidPlan, open_pyramid_writer
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.new_hierarchy import SINGLE, NewHierarchy, is_single
from napari_ngff.store.write.replace_file import replace_file
from napari_ngff.viewer.annotations.annotations import CopiedPart
from napari_ngff.viewer.composing.composition import (
    LayerComposition,
    LayerPart,
    compose_layers,
    keep_keys,
    read_layer_data,
)
from napari_ngff.viewer.layers.label_owners import has_no_file
from napari_ngff.viewer.plans.layer_plan import LayerData, origin_in, origin_of
from napari_ngff.viewer.services.settings import shards_to_write, version_to_write

if TYPE_CHECKING:
    from napari.layers import Layer

    from napari_ngff.labels.edits import Edit
    from napari_ngff.viewer.saving.layer_saver import LayerSaver

ENDINGS = (".zarr", SINGLE)

WORLD = "world"
"""Name of the coordinate system of 0.6 to which a layer's affine leads."""

Progress = Callable[[int, int], None]
"""Called with the number of written voxels of level 0, and of all; from any thread."""


def write(
    path: str | Path,
    layers: Iterable[Layer | LayerData | CopiedPart],
    *,
    to_version: str | None = None,
    shards: bool | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
) -> Path:
    """Write layers as one new OME-Zarr.

    Images of the same shape, axes and place become the channels of one image, labels
    on its axes its labels; several labels alone become a list of labels; see
    `napari_ngff.viewer.composing`. Coarser levels are made anew: of images by the mean,
    of labels by the mode. What is read, encoded and written at once is a few chunks of
    1 MB; or of the layer's own chunks, where these are larger.

    Parameters
    ----------
    path
        Folder, or single file ``.ozx``; ``.ome.zarr`` is added where neither ending is
        there.
    layers
        Of napari, or tuples of data, keywords and "image" or "labels"; and what goes
        along. What cannot be written of that has its `failure` afterwards.
    to_version
        "0.4", "0.5" or "0.6"; that of the preferences by default.
    shards
        Whether chunks are joined; as in the preferences by default, always in ``.ozx``.
    overwrite
        Whether another OME-Zarr at `path` may be replaced.
    progress, cancel
        See `Progress`; asked whether to stop.

    Returns
    -------
    Path
        What was written.

    Raises
    ------
    UnsupportedError
        Where OME-Zarr, or the version, cannot hold this. Nothing is written then.
    FileExistsError
        Where `path` is taken, is inside of another OME-Zarr, or is where the layers are
        read from.
    InterruptedError
        Where it was stopped. Nothing is written then.
    OSError
        Where the system refuses. There is nothing at `path` then.
    """
    given = list(layers)
    parts = [each for each in given if isinstance(each, CopiedPart)]
    tuples: list[LayerData] = [
        each if isinstance(each, tuple) else read_layer_data(each)
        for each in given
        if not isinstance(each, CopiedPart)
    ]
    target = complete_path(path)
    # All refusals come before the first file is made.
    _require_place(target, tuples)
    version, sharded = _choose_form(target, to_version, shards)
    name = re.sub(r"(\.ome)?\.\w+$", "", target.name, flags=re.IGNORECASE)
    writing = _PlannedWrite(compose_layers(tuples, name), version, sharded=sharded)
    with NewHierarchy(target, overwrite=overwrite) as draft:
        writing.write_all(draft, progress, cancel)
        for key, data in _list_inside(parts, version).items():
            draft.put(key, data)
        image = read_node(Location(FolderStore(draft.root)))
        for part in parts:
            _note_failure(part, partial(part.save_into, image))
    # Only now: beside a file that could not be written there is nothing new.
    stem = Address(os.path.realpath(target)).stem
    for part in parts:
        put = partial(_put_beside, target.parent / f"{stem}{part.beside}", overwrite)
        if part.beside:
            _make_part(part, version, put)
    return target


def _list_inside(parts: Iterable[CopiedPart], version: str) -> dict[str, bytes]:
    """Make what goes along in the new file: tables, and the list of them."""
    files: dict[str, bytes] = {}
    for part in parts:
        if not part.beside:
            # Classes as they are now replace those of the table that was copied.
            _make_part(part, version, files.__setitem__)
    names = [*dict.fromkeys(key.split("/")[1] for key in files)]
    listed = group_documents({TABLES: names}, version) if names else {}
    return files | {join_key(TABLES, name): text for name, text in listed.items()}


def _make_part(
    part: CopiedPart, version: str, put: Callable[[str, bytes], None]
) -> None:
    def put_all() -> None:
        for name, data in part.make(version).items():
            put(name, data)

    _note_failure(part, put_all)


def _note_failure(part: CopiedPart, work: Callable[[], object]) -> None:
    try:
        work()
    except (OMEZarrError, OSError, ValueError) as error:
        part.failure = error_text(error)


def _put_beside(folder: Path, overwrite: bool, name: str, data: bytes) -> None:
    if not replace_file(folder / name, data, False if overwrite else None):
        raise FileExistsError(f"There is {folder / name} already.")


def edits_without_file(layers: Sequence[Layer]) -> dict[LayerSaver, tuple[Edit, ...]]:
    """Return the savers of labels whose image is not an OME-Zarr, and their edits.

    For `LayerSaver.note_copied`.
    """
    labels: list[Any] = [layer for layer in layers if has_no_file(layer)]
    return {layer.saver: layer.canvas.edits for layer in labels if layer.saver}


def with_ending(path: str | Path, ending: str) -> Path:
    """Add an ending of OME-Zarr to a path that has none of them."""
    text = os.fspath(path)
    return Path(text if text.lower().endswith(ENDINGS) else f"{text}{ending}")


def propose_target(layers: Sequence[Layer], folder: str | Path) -> str:
    """Return a free path without an ending beside the file that layers come from.

    Parameters
    ----------
    layers
        The layers to save; the first one names the file.
    folder
        Taken for layers that come from no file of this computer.
    """
    origins = [origin for origin in map(origin_of, layers) if origin is not None]
    sources = filter(None, (x.node.location.source.name for x in origins))
    local = [x for x in sources if not (is_url(x) or is_in_data_folder(x))]
    folder = Path(local[0]).absolute().parent if local else folder
    # The layer of a channel is named "image: channel".
    name = layers[0].name.partition(":")[0].replace("/", "-")
    stem = re.sub(r"(\.ome)?(\.zarr|\.ozx)$", "", name, flags=re.IGNORECASE) or name
    endings = ("", ".ome.zarr", *ENDINGS)
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))
    free = (
        path
        for path in (Path(folder, name) for name in names)
        if not any(os.path.lexists(f"{path}{ending}") for ending in endings)
    )
    return str(next(free))


def complete_path(path: str | Path) -> Path:
    """Add the ending that is missing, and make a path absolute.

    Raises
    ------
    UnsupportedError
        Where it is an address: only local files can be written.
    """
    text = os.fspath(path)
    if is_url(text):
        msg = f"{text} is not a local path."
        raise UnsupportedError(msg, remedy="Write to the disk, and copy it there.")
    text = os.path.abspath(os.path.expanduser(text))
    return with_ending(text, ".ome.zarr")


def _choose_form(
    target: Path, version: str | None, shards: bool | None
) -> tuple[str, bool]:
    """Return version and shards; explicit choices are kept, or refused."""
    single = is_single(target)
    if version == V0_4 and (single or shards):
        what = "in a single file" if single else "in shards"
        raise UnsupportedError(f"OME-Zarr 0.4 cannot be {what}: write 0.5 or newer.")
    chosen = version or version_to_write()
    if chosen == V0_4:
        return (V0_5, True) if single else (V0_4, False)
    return chosen, single or (shards_to_write() if shards is None else shards)


def _require_place(target: Path, layers: Sequence[LayerData]) -> None:
    """Refuse a target inside of an OME-Zarr, or that layers are read from."""
    real = Path(os.path.realpath(target))
    # By both paths: a link may lead into a zarr, or out of one.
    for folder in (*target.parents, *real.parents):
        if any((folder / name).exists() for name in ("zarr.json", ".zgroup")):
            msg = f"{target} is inside of {folder}, which is a zarr. Choose another."
            raise FileExistsError(msg)
    for _, keywords, _ in layers:
        origin = origin_in(keywords.get("metadata", {}))
        if origin is None:
            continue
        source = Path(os.path.realpath(origin.node.location.source.name))
        if source in (real, *real.parents) or real in source.parents:
            msg = (
                f"{keywords.get('name')} is read from {target}, which cannot be"
                " replaced meanwhile. Choose another name; or press Ctrl+S to save"
                " painted labels in place."
            )
            raise FileExistsError(msg)


class _PlannedWrite:
    """A planned composition; making it raises all errors that are known beforehand."""

    def __init__(
        self, composition: LayerComposition, version: str, *, sharded: bool
    ) -> None:
        self.version = version
        self.sharded = sharded
        self.done = 0
        self.lock = threading.Lock()
        self.groups: dict[str, JSON] = {}
        self.parts: list[tuple[str, LayerPart, PyramidPlan]] = []
        image = composition.image
        if version not in LABEL_VERSIONS:
            known = ", ".join(LABEL_VERSIONS)
            msg = f"OME-Zarr {version} is not written, only {known}."
            raise UnsupportedError(msg)
        for part in composition.labels if image is None else (image,):
            if part.place.affine is not None and not Version(version).has_systems:
                msg = (
                    f"{part.name} is turned, sheared or mirrored, which OME-Zarr"
                    f" {version} cannot state. Choose 0.6 in Preferences ▸ OME-Zarr."
                )
                raise UnsupportedError(msg)
        # A root that is a list of labels, as sidecars are: docs/design/006.
        folder = "" if image is None else "labels"
        try:
            levels = None if image is None else self._plan_pyramid("", image)
            if composition.labels:
                names = [label.name for label in composition.labels]
                self.groups[folder] = dump_labels(names, version)
            for label in composition.labels:
                self._plan_pyramid(join_key(folder, label.name), label, levels)
        except ValueError as error:
            # napari takes a ValueError for a missing writer (0.9).
            raise UnsupportedError(str(error)) from error
        self.total = sum(math.prod(part.source.shape) for _, part, _ in self.parts)

    def _plan_pyramid(
        self, path: str, part: LayerPart, levels: int | None = None
    ) -> int:
        """Plan one pyramid; return its number of levels."""
        placement = part.place
        outline = PyramidPlan.choose_shapes(
            part.source.shape,
            part.axes,
            placement.scale,
            part.source.chunks,
            sharded=self.sharded,
            levels=levels,
        )
        is_label = part.label is not None
        multiscale = Multiscale(
            part.name,
            part.axes,
            outline.place_levels(placement.scale, placement.translation),
            METHOD if is_label else "mean",
            software=part.software,
            **_world_transform(part),
        )
        omero = Omero(part.name or None, part.channels) if part.channels else None
        image = ImageMetadata((multiscale,), omero, part.label)
        self.groups[path] = keep_keys(dump_image(image, self.version), part)
        self.parts.append((path, part, outline))
        return len(outline.shapes)

    def write_all(
        self,
        draft: NewHierarchy,
        progress: Progress | None,
        cancel: Callable[[], bool] | None,
    ) -> None:
        """Write everything."""

        def step(voxels: int) -> None:
            # Raised in the thread of a tile; `share_work` stops the others.
            if cancel is not None and cancel():
                msg = f"Saving {draft.target} was stopped. Nothing was written."
                raise InterruptedError(msg)
            with self.lock:
                self.done += voxels
                done = self.done
            if progress is not None:
                progress(done, self.total)

        for path, attributes in self.groups.items():
            for name, text in group_documents(attributes, self.version).items():
                draft.put(f"{path}/{name}".lstrip("/"), text)
        for path, part, outline in self.parts:
            writer = open_pyramid_writer(
                draft,
                path,
                outline,
                part.axes,
                part.source.dtype,
                self.version,
                is_label=part.label is not None,
            )
            writer.write_levels(part.source, step)


def _world_transform(part: LayerPart) -> dict[str, Any]:
    """Return systems and link from the intrinsic system to the world; {} for none."""
    affine = part.place.affine
    if affine is None:
        return {}
    ends = Reference(name=INTRINSIC), Reference(name=WORLD)
    systems = (
        CoordinateSystem(INTRINSIC, part.axes),
        CoordinateSystem(WORLD, part.axes),
    )
    link = SystemLink(*ends, Affine.from_matrix(affine))
    return {"intrinsic": INTRINSIC, "systems": systems, "links": (link,)}
