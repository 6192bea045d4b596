"""The wells of a plate and their images, each opened once, when something needs it."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import (
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
    may_pass,
)
from napari_ngff.metadata.model import WellField
from napari_ngff.store.arrays.chunked_array import ChunkedArray, open_array
from napari_ngff.store.hierarchy.coordinate_systems import scene_paths
from napari_ngff.store.hierarchy.node import read_node
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON, Multiscale
    from napari_ngff.store.arrays.chunk_layout import ArrayLayout
    from napari_ngff.store.hierarchy.location import Location
    from napari_ngff.store.hierarchy.node import Node

__all__ = ["FieldImage", "PlateContents"]

DOCUMENTS = {2: ".zattrs", 3: "zarr.json"}
"""Name of the document with a group's attributes, by zarr format."""

KNOWN_DOCUMENTS = 16
"""So many different documents of images, and of wells, are remembered."""

KNOWN_PLACES = 256
"""So many places of images are shared by those of all wells."""

Kin = dict[tuple[int, int], tuple["ArrayLayout", "ArrayLayout"]]
"""Of images whose documents are alike: number of a level, and id of the layout of
level 0 -> that layout, and the one of the level."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldImage:
    """An image, or a label image, of a screen.

    Attributes
    ----------
    location
        Of its group.
    zarr_format
        Of its arrays.
    multiscale
        As its metadata say; the first where there are several.
    node
        Its group; None where the document was only compared with that of another.
    """

    location: Location
    zarr_format: int
    multiscale: Multiscale
    node: Node | None = None
    _arrays: dict[int, ChunkedArray | Exception] = field(default_factory=dict)
    _kin: Kin = field(default_factory=dict)

    def like_opened(self, level: int) -> ChunkedArray:
        """Open one level, or take it to be stored like that of an image that is alike.

        Images are alike if their documents say the same and the documents of their
        levels 0 are equal. Where a chunk of what was taken cannot be read, `array`
        tells what is there.

        Raises
        ------
        OMEZarrError, OSError
            As `array`.
        """
        opened = self.opened_level
        if opened is None or self.is_opened(level):
            return self.open_level(level)
        # Equal documents of arrays give the same layout, see `parse_array`.
        first = opened.layout
        known = self._kin.get((level, id(first)))
        if known is not None:
            path = self.location.object_key(self.multiscale.levels[level].path)
            return ChunkedArray(self.location.source, path, known[1], lent=True)
        found = self.open_level(level)
        if found.direct and len(self._kin) < KNOWN_DOCUMENTS:
            self._kin[level, id(first)] = first, found.layout
        return found

    def open_level(self, level: int) -> ChunkedArray:
        """Open one level, by its index in `multiscale`; once.

        Raises
        ------
        OMEZarrError, OSError
            Where it cannot be read.
        """
        found = self._arrays.get(level)
        if found is None:
            path = self.location.object_key(self.multiscale.levels[level].path)
            try:
                found = open_array(self.location.source, path, self.zarr_format)
            except (OMEZarrError, OSError) as error:
                if may_pass(error):
                    raise
                found = _copy_error(error)
            found = self._arrays.setdefault(level, found)
        if isinstance(found, Exception):
            raise _copy_error(found)
        return found

    def is_opened(self, level: int) -> bool:
        """Tell whether a level was opened."""
        return level in self._arrays

    @property
    def opened_level(self) -> ChunkedArray | None:
        """Level 0, where it was opened already."""
        found = self._arrays.get(0)
        return None if isinstance(found, Exception) else found

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in voxels of level 0; opens it."""
        height, width = self.open_level(0).shape[-2:]
        return height, width

    @property
    def corner(self) -> tuple[float, float]:
        """Where voxel 0 lies along y and x, in voxels of level 0."""
        level = self.multiscale.levels[0]
        y, x = (level.translation[i] / level.scale[i] for i in (-2, -1))
        return y, x


def _copy_error(error: Exception) -> Exception:
    """Copy an error without what it would keep alive."""
    new = copy(error)
    # Where distributed is imported, tblib lets copies of errors have all of these.
    new.__traceback__ = new.__cause__ = new.__context__ = None
    return new


class PlateContents:
    """What is in a plate, in a well, or in a collection of images.

    Safe to use from several threads. What cannot be opened raises, each time, a copy of
    the first error: nothing is read twice, but what a server did not give, which may
    come the next time. (The error itself would keep all that was alive where it was
    raised, a closed window of napari among it.)

    Parameters
    ----------
    node
        A plate; or a well or a collection, whose own images those of well None are.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._fields: dict[str | None, tuple[WellField, ...] | Exception] = {}
        self._images: dict[str, FieldImage | Exception] = {}
        self._known: list[tuple[Any, Multiscale, Kin]] = []
        self._places: dict[bytes, tuple[Multiscale, Kin]] = {}
        self._wells: dict[bytes, tuple[WellField, ...]] = {}

    def list_fields(self, well: str | None) -> tuple[WellField, ...]:
        """Read which images a well has: one document.

        Parameters
        ----------
        well
            Path relative to the plate; None for the images of the node itself.

        Raises
        ------
        OMEZarrError, OSError
            Where the well cannot be read; NodeNotFoundError where there is none.
        """
        found = self._fields.get(well)
        if found is None:
            try:
                found = self._read_fields(well)
            except (OMEZarrError, OSError) as error:
                if may_pass(error):
                    raise
                found = _copy_error(error)
            found = self._fields.setdefault(well, found)
        if isinstance(found, Exception):
            raise _copy_error(found)
        return found

    def opened_before(self, place: str) -> FieldImage | None:
        """Give an image that was opened before, by its inner path; reads nothing."""
        found = self._images.get(place)
        return None if isinstance(found, Exception) else found

    def _read_fields(self, well: str | None) -> tuple[WellField, ...]:
        raw = b""
        if well is not None:
            # One look tells that there is no well; `child` would ask for more.
            place = self.node.location.join_path(well)
            name = place.object_key(DOCUMENTS[self.node.zarr_format])
            found = place.source.get(name)
            if found is None:
                msg = f"There is no well at {place}."
                raise NodeNotFoundError(msg)
            if found in self._wells:
                return self._wells[found]
            raw = found
        node = self.node if well is None else self.node.child(well)
        metadata = node.metadata
        if metadata.well is not None:
            if len(self._wells) < KNOWN_DOCUMENTS:
                self._wells[raw] = metadata.well.fields
            return metadata.well.fields
        if well is None and metadata.collection is not None:
            return tuple(WellField(path) for path in node.series())
        if well is None and metadata.series is not None:
            return tuple(WellField(path) for path in metadata.series)
        if well is None and metadata.scene is not None:
            return tuple(WellField(path) for path in scene_paths(node))
        msg = f"{node} is not a well: its metadata has no usable 'well'."
        raise UnsupportedError(msg)

    def location_of(self, well: str | None, field: str, inside: str = "") -> Location:
        """Say where an image, or something inside it ("labels/nuclei"), is."""
        parts = (part for part in (well or "", field, inside) if part)
        return self.node.location.join_path("/".join(parts))

    def open_image(self, well: str | None, field: str, inside: str = "") -> FieldImage:
        """Open an image by its document alone.

        Parameters
        ----------
        well
            As for `fields`.
        field
            Path of the image relative to the well.
        inside
            "" for the image, "labels/<name>" for labels of it.

        Raises
        ------
        OMEZarrError, OSError
            Where it cannot be read; NodeNotFoundError where there is none.
        """
        place = self.location_of(well, field, inside)
        found = self._images.get(place.path)
        if found is None:
            try:
                found = self._open_at(place, self._choose_formats(well, field, inside))
            except (OMEZarrError, OSError) as error:
                if may_pass(error):
                    raise
                found = _copy_error(error)
            found = self._images.setdefault(place.path, found)
        if isinstance(found, Exception):
            raise _copy_error(found)
        return found

    def forget_image(self, image: str) -> None:
        """Open an image and its labels anew next time: they were written to.

        Parameters
        ----------
        image
            Path relative to the node.
        """
        place = self.node.location.join_path(image).path
        for path in list(self._images):
            if path == place or path.startswith(f"{place}/labels/"):
                self._images.pop(path, None)

    def _choose_formats(
        self, well: str | None, field: str, inside: str
    ) -> tuple[int, ...]:
        """Choose the Zarr formats to ask for: of labels that of their image."""
        if inside:
            try:
                return (self.open_image(well, field).zarr_format,)
            except (OMEZarrError, OSError):
                pass  # labels may be there all the same
        return self.node.zarr_format, 5 - self.node.zarr_format

    def _read_document(
        self, place: Location, formats: tuple[int, ...]
    ) -> tuple[int, bytes]:
        """Read the document of an image; one of 0.4 may be in a plate of 0.5."""
        for zarr_format in formats:
            raw = place.source.get(place.object_key(DOCUMENTS[zarr_format]))
            if raw is not None:
                return zarr_format, raw
        msg = f"There is no image at {place}."
        raise NodeNotFoundError(msg)

    def _open_at(self, place: Location, formats: tuple[int, ...]) -> FieldImage:
        zarr_format, raw = self._read_document(place, formats)
        same = self._places.get(raw)
        if same is not None:
            return FieldImage(place, zarr_format, same[0], _kin=same[1])
        parted = _split_document(raw)
        if parted is not None:
            for rest, multiscale, kin in self._known:
                if rest == parted[0]:
                    moved = _move_levels(multiscale, parted[1])
                    if len(self._places) < KNOWN_PLACES:
                        self._places[raw] = moved, kin
                    return FieldImage(place, zarr_format, moved, _kin=kin)
        node = read_node(place, zarr_format)
        if node.metadata.image is None:
            msg = f"{node} is not an image: its metadata has no usable 'multiscales'."
            raise UnsupportedError(msg)
        multiscale = node.metadata.image.multiscales[0]
        found = FieldImage(place, node.zarr_format, multiscale, node)
        if parted is not None and len(self._known) < KNOWN_DOCUMENTS:
            rest, translations = parted
            if _move_levels(multiscale, translations) == multiscale:
                self._known.append((rest, multiscale, found._kin))
        return found


Translations = list[tuple[float, ...] | None]


def _split_document(raw: bytes) -> tuple[JSON, Translations] | None:
    """Part a document into what images of a plate have in common, and their places.

    To parse a document in full takes twenty times as long as to compare it.

    Returns
    -------
    tuple or None
        The document without name, rendering and the translations of its levels, and
        these; None where it is not of the plain kind that 0.4 and 0.5 describe.
    """
    try:
        document = parse_json(raw)
        attributes = document.get("attributes", document)
        inner = attributes.get("ome", attributes)
        (multiscale,) = inner["multiscales"]
        inner.pop("omero", None)
        multiscale.pop("name", None)
        translations: Translations = []
        for dataset in multiscale["datasets"]:
            steps = dataset.get("coordinateTransformations", ())
            translations.append(_take_translation(steps))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if "coordinateTransformations" in multiscale and any(translations):
        return None
    return document, translations


def _take_translation(steps: Any) -> tuple[float, ...] | None:
    """Take the translation out of a scale followed by a translation."""
    if len(steps) != 2 or [set(step) for step in steps] != PLAIN:
        return None
    values = steps[1]["translation"]
    if not all(type(v) in (int, float) and math.isfinite(v) for v in values):
        raise ValueError(values)
    steps[1]["translation"] = len(values)
    return tuple(map(float, values))


PLAIN = [{"type", "scale"}, {"type", "translation"}]


def _move_levels(multiscale: Multiscale, translations: Translations) -> Multiscale:
    """Put the levels of a multiscale at other places."""
    if not any(translations) or len(translations) != len(multiscale.levels):
        return multiscale
    levels = tuple(
        level if place is None else replace(level, translation=place)
        for level, place in zip(multiscale.levels, translations, strict=True)
    )
    return replace(multiscale, levels=levels)
