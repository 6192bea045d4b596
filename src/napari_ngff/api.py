"""What scripts open: images, plates, wells and collections, with lazy pixels.

>>> plate = open_ome_zarr("plate.ome.zarr")  # doctest: +SKIP
>>> plate.wells["A/1"].fields["0"].levels[0].mean().compute()  # doctest: +SKIP
103.2

These names are imported from `napari_ngff` itself, where `open_ome_zarr` is `open`.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

from napari_ngff.errors import NodeNotFoundError, OMEZarrError, UnsupportedError
from napari_ngff.labels.object_classes import CLASSES_KEY
from napari_ngff.labels.places.sidecar import folders_of, open_sidecars
from napari_ngff.metadata.model import JSON, Acquisition, Channel, GroupKind, Problem
from napari_ngff.store.arrays.lazy_array import ArrayWindow, LazyArray
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.hierarchy.node import Node, open_node, unreadable_problem
from napari_ngff.store.hierarchy.summary import (
    list_branches,
    list_region_tables,
    list_tables,
)
from napari_ngff.store.pyramids.pyramid import Pyramid, open_pyramid, open_pyramids
from napari_ngff.store.write.new_hierarchy import unpack_hierarchy
from napari_ngff.store.write.zip_packing import pack_hierarchy

if TYPE_CHECKING:
    from napari_ngff.plate.tables.measure_labels import MeasureResult

MemberT = TypeVar("MemberT")


class LazyMembers(Mapping[str, MemberT]):
    """What a group lists, by path; each is opened when it is asked for.

    `items` and `values` leave out what is listed and not there: the group has it among
    its problems then.
    """

    __slots__ = ("_group", "_open_member", "_paths")

    def __init__(
        self,
        group: OpenedGroup,
        open_member: Callable[[str], MemberT],
        list_paths: Callable[[Node], Iterable[str]] = list_branches,
    ) -> None:
        # A dict for its order and quick look-up; a plate may list thousands of wells.
        self._paths = dict.fromkeys(list_paths(group.node))
        self._group = group
        self._open_member = open_member

    def items(self) -> ItemsView[str, MemberT]:
        """Open one after another, by path."""
        return _FoundItems(self)

    def values(self) -> ValuesView[MemberT]:
        """Open one after another."""
        return _FoundValues(self)

    def open_found(self) -> Iterator[tuple[str, MemberT]]:
        """Open all that are there."""
        for path in self._paths:
            try:
                member = self._open_member(path)
            except NodeNotFoundError as error:
                where = self._group.node.location.object_key(path)
                self._group.absent[where] = unreadable_problem(where, error)
            else:
                yield path, member

    def __getitem__(self, path: str) -> MemberT:
        # Not opened to find out: a mapping must not read for `in` or `get`.
        if path not in self._paths:
            raise KeyError(path)
        # Not kept: a loop over a whole plate must not hold all of its images.
        return self._open_member(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __repr__(self) -> str:
        return f"<{len(self)} paths: {', '.join(list(self)[:6])}>"


class _FoundItems(ItemsView[str, MemberT]):
    _mapping: LazyMembers[MemberT]

    def __iter__(self) -> Iterator[tuple[str, MemberT]]:
        return self._mapping.open_found()


class _FoundValues(ValuesView[MemberT]):
    _mapping: LazyMembers[MemberT]

    def __iter__(self) -> Iterator[MemberT]:
        return (member for _, member in self._mapping.open_found())


@dataclass(frozen=True, slots=True, eq=False)
class OpenedGroup:
    """A group of an OME-Zarr hierarchy.

    Attributes
    ----------
    node
        Its place and its metadata.
    absent
        Groups that are listed and were found not to be there, by path; a plate has
        those of its wells, too.
    """

    node: Node
    absent: dict[str, Problem] = field(default_factory=dict, kw_only=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.node}>"

    @property
    def name(self) -> str:
        """Name of the folder, without ``.ome.zarr``."""
        return self.node.name

    @property
    def path(self) -> str:
        """Path or address."""
        return str(self.node)

    @property
    def version(self) -> str | None:
        """Version of OME-Zarr, such as "0.5"."""
        return self.node.metadata.version

    @property
    def attributes(self) -> JSON:
        """Attributes of the group as the file has them."""
        return self.node.attributes

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the metadata of this group, and what a loop left out.

        See `check` for all below.
        """
        own = self.node.location.object_key("")
        absent = (p for where, p in self.absent.items() if where.startswith(own))
        return (*self.node.problems, *absent)


class ListedAnnotation(NamedTuple):
    """Something that people have made of an image.

    Attributes
    ----------
    kind
        "labels", "points", "shapes", "classes" (of objects) or "regions".
    name
        Of it, among those of its kind.
    path
        Of its file or group.
    """

    kind: str
    name: str
    path: str


FILES = {
    "points": ".csv",
    "shapes": ".geojson",
    "classes": ".json",
    "regions": ".json",
}
"""Kinds that are files beside an image -> their ending."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Image(OpenedGroup):
    """An image at several resolutions.

    Attributes
    ----------
    pyramid
        Its metadata and arrays.
    levels
        Dask arrays from the finest to the coarsest, all with the axes of `axes`.
        Pixels are read when they are computed.
    """

    pyramid: Pyramid
    levels: tuple[LazyArray, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, such as ``("c", "z", "y", "x")``."""
        return self.pyramid.multiscale.axis_names

    @property
    def units(self) -> tuple[str | None, ...]:
        """Unit of each axis, such as "micrometer"; None where there is none."""
        return tuple(axis.unit for axis in self.pyramid.multiscale.axes)

    @property
    def scales(self) -> tuple[tuple[float, ...], ...]:
        """Physical size of a voxel of each level, per axis."""
        return tuple(level.scale for level in self.pyramid.multiscale.levels)

    @property
    def translations(self) -> tuple[tuple[float, ...], ...]:
        """Physical position of the centre of voxel 0 of each level, per axis."""
        return tuple(level.translation for level in self.pyramid.multiscale.levels)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Names, colours and contrast of the channels; () where the file has none."""
        image = self.node.metadata.image
        return image.omero.channels if image is not None and image.omero else ()

    @property
    def labels(self) -> Mapping[str, LabelImage]:
        """Label images of this image, by name; reads their metadata."""
        # A plain dict, unlike wells and fields: an image has few label images.
        nodes = self.node.labels().nodes
        opened: dict[str, LabelImage] = {}
        for node, pyramid in zip(nodes, open_pyramids(nodes), strict=True):
            if isinstance(pyramid, Exception):
                raise pyramid
            opened[node.name] = LabelImage(node, pyramid, _levels_of(pyramid))
        return opened

    @property
    def tables(self) -> Mapping[str, Any]:
        """Tables of this image, by name; each is read when it is asked for.

        As a pandas.DataFrame, with the index that ngio gives it.
        """
        return LazyMembers(self, self._read_table, list_tables)

    def _read_table(self, name: str) -> Any:
        from napari_ngff.plate.tables.files import read_indexed_table

        return read_indexed_table(self.node, name)

    @property
    def annotations(self) -> tuple[ListedAnnotation, ...]:
        """What people have made of this image, in its file and beside it."""
        labels = {node.name: node for node in self.node.labels().nodes}
        # Those of a sidecar are shown in place of those of the image.
        labels |= open_sidecars(self.node).labels
        found = [ListedAnnotation("labels", name, str(x)) for name, x in labels.items()]
        for kind, ending in FILES.items():
            for folder in folders_of(self.node, f".{kind}"):
                for file in sorted(folder.glob(f"*{ending}")):
                    name = unquote(file.name.removesuffix(ending))
                    found.append(ListedAnnotation(kind, name, str(file)))
        # Regions beside the image are shown in place of those in it.
        beside = {one.name for one in found if one.kind == "regions"}
        regions = {*list_region_tables(self.node)} - beside
        for name in list_tables(self.node):
            with suppress(OMEZarrError):  # `tables` raises the reason
                table = self.node.child(f"tables/{name}")
                kind = "classes" if CLASSES_KEY in table.attributes else "regions"
                if kind == "classes" or name in regions:
                    found.append(ListedAnnotation(kind, name, str(table)))
        return tuple(found)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the metadata and the arrays of this image."""
        return (*self.node.problems, *self.pyramid.problems)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LabelImage(Image):
    """A label image: each voxel holds the number of its label, 0 is background."""

    @property
    def properties(self) -> dict[int, JSON]:
        """Properties of labels by number, such as their class."""
        image = self.node.metadata.image
        # A copy: metadata is shared by all that is open of the file, and must not
        # change.
        return dict(image.label.properties) if image and image.label else {}

    @property
    def colors(self) -> dict[int, tuple[int, int, int, int]]:
        """Colours of labels by number: red, green, blue, alpha from 0 to 255."""
        image = self.node.metadata.image
        return dict(image.label.colors) if image and image.label else {}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Well(OpenedGroup):
    """A well of a plate."""

    @property
    def fields(self) -> Mapping[str, Image]:
        """Images of the well, by path."""
        # By what the metadata lists; other folders in a well are not its fields.
        return LazyMembers(self, self._open_image)

    def _open_image(self, path: str) -> Image:
        return _open_image(self.node.child(path))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plate(OpenedGroup):
    """A plate of wells."""

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the rows."""
        plate = self.node.metadata.plate
        return plate.rows if plate else ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        plate = self.node.metadata.plate
        return plate.columns if plate else ()

    @property
    def acquisitions(self) -> tuple[Acquisition, ...]:
        """Acquisitions: runs over the plate."""
        plate = self.node.metadata.plate
        return plate.acquisitions if plate else ()

    @property
    def wells(self) -> Mapping[str, Well]:
        """Wells that the plate lists, by path, such as "A/1"."""
        return LazyMembers(self, self._open_well)

    def _open_well(self, path: str) -> Well:
        return Well(self.node.child(path), absent=self.absent)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Collection(OpenedGroup):
    """Several images: a file of series, a scene, or a list of label images."""

    @property
    def images(self) -> Mapping[str, Image]:
        """Images by path."""
        return LazyMembers(self, self._open_image)

    def _open_image(self, path: str) -> Image:
        # A list of label images has nothing else in it, also where one of them lacks
        # the `image-label` by which its group would be known.
        node = self.node.child(path)
        is_label = self.node.kind is GroupKind.LABELS or node.kind is GroupKind.LABEL
        return _open_image(node, LabelImage if is_label else Image)


def _levels_of(pyramid: Pyramid) -> tuple[LazyArray, ...]:
    return tuple(
        LazyArray.of_window(ArrayWindow.whole_source(level)) for level in pyramid.levels
    )


def _open_image(node: Node, kind: type[Image] = Image) -> Image:
    # Documents of the arrays are read here, pixels when an array is computed.
    pyramid = open_pyramid(node)
    return kind(node, pyramid, _levels_of(pyramid))


def open_ome_zarr(source: Any, **options: Any) -> Image | Plate | Well | Collection:
    """Open an image, a label image, a plate, a well or a collection of images.

    Parameters
    ----------
    source
        Path or address of a folder, of a group in it or of an ``.ozx``; or a zarr
        group, array or store.
    **options
        Of an address: credentials and the like.

    Returns
    -------
    Image, LabelImage, Plate, Well or Collection
        By what the metadata says. Pixels are not read yet.

    Raises
    ------
    OMEZarrError
        Where there is nothing that can be opened; the message says what to do.
    """
    # By the kind of the group: an image of a plate may be opened by its own path.
    node = open_node(source, **options)
    if node.kind is GroupKind.PLATE:
        return Plate(node)
    if node.kind is GroupKind.WELL:
        return Well(node)
    # Before `Collection`: a scene or a series may be an image, too.
    if node.metadata.image is not None:
        is_label = node.kind is GroupKind.LABEL
        return _open_image(node, LabelImage if is_label else Image)
    if node.kind is None:
        msg = f"{node} has no image, plate or well."
        raise UnsupportedError(msg, remedy="Open a group that has one.")
    return Collection(node)


def check(
    source: Any, *, pixels: bool = False, **options: Any
) -> list[tuple[str, Problem]]:
    """Check the metadata of a group and of all groups below it.

    Parameters
    ----------
    source, **options
        As for `open_ome_zarr`.
    pixels
        Whether to compare the ids of the levels of label images, too.

    Returns
    -------
    list
        Path of the group or array, and a problem. Valid is what has no problem whose
        severity is "error".
    """
    return list(check_hierarchy(open_node(source, **options), pixels=pixels))


def measure(
    source: Any,
    label: str,
    *,
    columns: Iterable[str] = (),
    wells: tuple[str, ...] | None = None,
    scheduler: str | None = None,
    goes_on: Callable[[int, int], bool] | None = None,
) -> MeasureResult | None:
    """Measure the labels of an image, a well, a plate or a collection.

    Parameters
    ----------
    source
        As for `open_ome_zarr`.
    label
        Name of the label image.
    columns
        More columns: "shape", "texture", or names of some of them.
    wells
        Paths of the wells of a plate; all by default.
    scheduler
        Address of a dask scheduler ("tcp://..."); by default threads.
    goes_on
        Gets how many of how many images are done; False cancels.

    Returns
    -------
    MeasureResult or None
        `frame` is the table, `problems` what was left out; None if it was cancelled.
    """
    # Imported here: `open` does not need pandas, which takes long to import.
    from napari_ngff.plate.tables import measure_labels, object_features

    task = measure_labels.FieldTask(object_features.choose_columns(columns))
    run = partial(measure_labels.measure, open_node(source), label, task=task)
    return run(wells, scheduler=scheduler, goes_on=goes_on)


def pack(
    source: str | Path,
    target: str | Path | None = None,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a folder as one ``.ozx`` file (RFC-9); the folder stays.

    Chunks are copied as they are.

    Parameters
    ----------
    source
        Folder of an OME-Zarr 0.5 or newer.
    target
        The file; by default ``NAME.ozx`` beside ``NAME.ome.zarr``.
    overwrite
        Whether to replace the file if it exists.
    progress
        Called with the bytes that are written, and their total; an error that it raises
        ends the packing, and no file is left.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FileExistsError
        Where `target` exists and `overwrite` is False.
    ValueError
        Where RFC-9 does not allow it: OME-Zarr 0.4 and older.
    CorruptDataError
        Where a file changes while it is copied.
    OSError
        Where reading or writing fails.
    """
    folder = _require_folder(source)
    file = folder.resolve().parent / f"{_bare_name(folder)}.ozx"
    return pack_hierarchy(
        folder, target or file, overwrite=overwrite, progress=progress
    )


def unpack(
    source: str | Path,
    target: str | Path | None = None,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write an ``.ozx`` file, or a zip file with one OME-Zarr, as a folder; it stays.

    Each entry is compared with its checksum.

    Parameters
    ----------
    source
        The file.
    target
        The folder; by default ``NAME.ome.zarr`` beside ``NAME.ozx``.
    overwrite
        Whether to replace the folder if it is a zarr hierarchy.
    progress
        Called with the bytes that are written, and their total; an error that it raises
        ends the unpacking, and no folder is left.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    FileExistsError
        Where `target` exists and `overwrite` is False, or it is not a zarr hierarchy.
    OMEZarrError
        Where the archive is not there, damaged, or not an OME-Zarr.
    OSError
        Where reading or writing fails.
    """
    file = Path(source)
    folder = file.resolve().parent / f"{_bare_name(file)}.ome.zarr"
    return unpack_hierarchy(
        file, target or folder, overwrite=overwrite, progress=progress
    )


def _require_folder(source: str | Path) -> Path:
    """Return the path of a folder; an error where it is not one."""
    folder = Path(source)
    if not folder.is_dir():
        msg = f"{folder} is not a folder."
        raise NodeNotFoundError(msg, remedy="Give the folder of an OME-Zarr.")
    return folder


def _bare_name(path: Path) -> str:
    """Return the name of a file or folder without the suffixes of OME-Zarr."""
    name = path.resolve().name
    for suffix in (".zip", ".ozx", ".zarr", ".ome"):
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return name
