"""The wells of a plate and their images, each opened once, when it is needed."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import (
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
    is_refusal,
    may_pass,
)
from napari_ngff.metadata.model import JSON, Multiscale, WellField
from napari_ngff.store.arrays.chunked_array import ChunkedArray, open_array
from napari_ngff.store.hierarchy.coordinate_systems import scene_paths
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.limits import ATTRIBUTES_IN, parse_json
from napari_ngff.store.sources.read_ahead import call_at_once

if TYPE_CHECKING:
    from napari_ngff.store.arrays.chunk_layout import ArrayLayout
    from napari_ngff.store.hierarchy.location import Location

KNOWN_DOCUMENTS = 16
"""Number of different documents that are remembered, of images and of wells. Each new
document is compared with all of them."""

KNOWN_PLACES = 256
"""Number of documents whose bytes are remembered: in many plates the n-th images of all
wells have the same document."""

Kin = dict[tuple[int, int], tuple["ArrayLayout", "ArrayLayout"]]
"""Of images whose documents are alike: number of a level, and id of the layout of
level 0 -> that layout, and the one of the level."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldImage:
    """An image, or a label image, of a plate, a well or a collection.

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
        """Open one level, or assume that it is stored like that of an alike image.

        Images are alike if their documents say the same and the documents of their
        levels 0 are equal. If a chunk of the array cannot be read, `open_level` reads
        the level's own document.

        Raises
        ------
        OMEZarrError, OSError
            As `open_level`.
        """
        opened = self.opened_level
        if opened is None or self.is_opened(level):
            return self.open_level(level)
        # Equal documents of arrays give the same layout object (see `parse_array`), so
        # its identity shows whether levels 0 are stored alike.
        first = opened.layout
        known = self._kin.get((level, id(first)))
        if known is not None:
            path = self.location.object_key(self.multiscale.levels[level].path)
            return ChunkedArray(self.location.source, path, known[1], lent=True)
        array = self.open_level(level)
        self._lend_layout(level, array)
        return array

    def _lend_layout(self, level: int, array: ChunkedArray) -> None:
        """Let alike images take one of their levels to be stored like that of this."""
        opened = self.opened_level
        # Both layouts are kept alive, so that the id of one is not given to another
        # object.
        if opened is not None and array.direct and len(self._kin) < KNOWN_DOCUMENTS:
            first = opened.layout
            self._kin[level, id(first)] = first, array.layout

    def open_level(self, level: int) -> ChunkedArray:
        """Open one level, by its index in `multiscale`; later calls return the same.

        Raises
        ------
        OMEZarrError, OSError
            Where it cannot be read.
        """
        opened = self._arrays.get(level)
        if opened is None:
            path = self.location.object_key(self.multiscale.levels[level].path)
            try:
                opened = open_array(self.location.source, path, self.zarr_format)
            except (OMEZarrError, OSError) as error:
                # What a server did not give is asked for again; anything else is kept.
                if may_pass(error):
                    raise
                opened = _copy_error(error)
            # Of two threads the first one counts, so that both share its chunks.
            opened = self._arrays.setdefault(level, opened)
        if isinstance(opened, Exception):
            raise _copy_error(opened)
        return opened

    def open_levels(self) -> dict[str, ChunkedArray | Exception]:
        """Open all levels, those of a server at once.

        Returns
        -------
        dict
            By path; why one cannot be read instead.
        """
        numbers = range(len(self.multiscale.levels))
        calls = [partial(self._try_level, number) for number in numbers]
        found = call_at_once(self.location.source, calls)
        for number, array in enumerate(found):
            if number and isinstance(array, ChunkedArray):
                self._lend_layout(number, array)
        paths = [level.path for level in self.multiscale.levels]
        return dict(zip(paths, found, strict=True))

    def _try_level(self, level: int) -> ChunkedArray | Exception:
        try:
            return self.open_level(level)
        except (OMEZarrError, OSError) as error:
            return error

    def forget_refused(self) -> None:
        """Let levels be read again that the server refused."""
        pop_refused(self._arrays)

    def is_opened(self, level: int) -> bool:
        """Return whether a level was opened."""
        return level in self._arrays

    @property
    def opened_level(self) -> ChunkedArray | None:
        """Level 0 if it was opened already, else None."""
        opened = self._arrays.get(0)
        return None if isinstance(opened, Exception) else opened

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in voxels of level 0; opens it."""
        height, width = self.open_level(0).shape[-2:]
        return height, width

    @property
    def corner(self) -> tuple[float, float]:
        """Lowest position of a voxel along y and x, in voxels of level 0; opens it."""
        level, size = self.multiscale.levels[0], self.size
        y, x = (level.span_of(i, size[i])[0] / abs(level.scale[i]) for i in (-2, -1))
        return y, x


def _copy_error(error: Exception) -> Exception:
    """Copy an error without what it would keep alive."""
    new = copy(error)
    # They keep the frames alive in which the error was raised. `copy` takes them along
    # where distributed is imported, by tblib.
    new.__traceback__ = new.__cause__ = new.__context__ = None
    return new


def pop_refused(found: dict[Any, Any]) -> None:
    """Remove the errors of servers that want a login."""
    for key, value in list(found.items()):
        if isinstance(value, Exception) and is_refusal(value):
            found.pop(key, None)


class PlateContents:
    """The wells and images of a plate, of a well, or of a collection.

    Safe to use from several threads. What cannot be opened raises a copy of the first
    error each time, and is not read again, unless a server did not give it: that may
    come the next time, or after a login (see `forget_refused`). (The error itself would
    keep alive all that was alive where it was raised, such as a closed window of
    napari.)

    Parameters
    ----------
    node
        A plate; or a well or a collection, whose images are those of the well None.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._fields: dict[str | None, tuple[WellField, ...] | Exception] = {}
        self._images: dict[str, FieldImage | Exception] = {}
        # Documents without what differs from field to field, and what they parse to.
        self._known: list[tuple[Any, Multiscale, Kin]] = []
        # By the bytes of whole documents: equal ones are not even parsed as JSON.
        self._places: dict[bytes, tuple[Multiscale, Kin]] = {}
        self._wells: dict[bytes, tuple[WellField, ...]] = {}

    def list_fields(self, well: str | None) -> tuple[WellField, ...]:
        """Read the list of a well's images, from one document.

        Parameters
        ----------
        well
            Path relative to the plate; None for the images of the node itself.

        Raises
        ------
        OMEZarrError, OSError
            Where the well cannot be read; NodeNotFoundError where there is none.
        """
        fields = self._fields.get(well)
        if fields is None:
            try:
                fields = self._read_fields(well)
            except (OMEZarrError, OSError) as error:
                if may_pass(error):
                    raise
                fields = _copy_error(error)
            fields = self._fields.setdefault(well, fields)
        if isinstance(fields, Exception):
            raise _copy_error(fields)
        return fields

    def opened_before(self, path: str) -> FieldImage | None:
        """Return an image that was opened before, by its inner path; reads nothing."""
        image = self._images.get(path)
        return None if isinstance(image, Exception) else image

    def adopt_image(self, node: Node) -> None:
        """Take over an image that was opened elsewhere, unless it is open."""
        image = node.metadata.image
        if image is not None:
            opened = FieldImage(
                node.location, node.zarr_format, image.multiscales[0], node
            )
            self._images.setdefault(node.location.path, opened)

    def _read_fields(self, well: str | None) -> tuple[WellField, ...]:
        raw, node = b"", self.node
        if well is not None:
            # One request shows that there is no well; `child` would make several.
            location = self.node.location.join_path(well)
            name = ATTRIBUTES_IN[self.node.zarr_format]
            document = location.source.get(location.object_key(name))
            if document is None:
                msg = f"There is no well at {location}."
                raise NodeNotFoundError(msg)
            # Wells with the same fields have the same document.
            if document in self._wells:
                return self._wells[document]
            raw = document
            node = read_node(location, self.node.zarr_format, {name: document})
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
        """Return the location of an image, or of something in it ("labels/nuclei")."""
        parts = (part for part in (well or "", field, inside) if part)
        return self.node.location.join_path("/".join(parts))

    def open_image(self, well: str | None, field: str, inside: str = "") -> FieldImage:
        """Open an image by its document alone.

        Parameters
        ----------
        well
            As for `list_fields`.
        field
            Path of the image relative to the well.
        inside
            "" for the image, "labels/<name>" for labels of it.

        Raises
        ------
        OMEZarrError, OSError
            Where it cannot be read; NodeNotFoundError where there is none.
        """
        location = self.location_of(well, field, inside)
        image = self._images.get(location.path)
        if image is None:
            try:
                image = self._open_at(
                    location, self._choose_formats(well, field, inside)
                )
            except (OMEZarrError, OSError) as error:
                if may_pass(error):
                    raise
                image = _copy_error(error)
            image = self._images.setdefault(location.path, image)
        if isinstance(image, Exception):
            raise _copy_error(image)
        return image

    def forget_image(self, image: str) -> None:
        """Forget an image and its labels, which were written to: they are opened anew.

        Parameters
        ----------
        image
            Path relative to the node.
        """
        written = self.node.location.join_path(image).path
        for path in list(self._images):
            if path == written or path.startswith(f"{written}/labels/"):
                self._images.pop(path, None)

    def forget_refused(self) -> None:
        """Let all be read again that the server refused: there is a login now."""
        pop_refused(self._fields)
        pop_refused(self._images)
        for image in list(self._images.values()):
            if isinstance(image, FieldImage):
                image.forget_refused()

    def _choose_formats(
        self, well: str | None, field: str, inside: str
    ) -> tuple[int, ...]:
        """Choose the Zarr formats to try; for labels that of their image."""
        if inside:
            try:
                return (self.open_image(well, field).zarr_format,)
            except (OMEZarrError, OSError):
                pass  # labels may be there all the same
        # The plate's format first, then the other one of 2 and 3.
        return self.node.zarr_format, 5 - self.node.zarr_format

    def _read_document(
        self, location: Location, formats: tuple[int, ...]
    ) -> tuple[int, bytes]:
        """Read the document of an image; one of 0.4 may be in a plate of 0.5."""
        for zarr_format in formats:
            raw = location.source.get(location.object_key(ATTRIBUTES_IN[zarr_format]))
            if raw is not None:
                return zarr_format, raw
        msg = f"There is no image at {location}."
        raise NodeNotFoundError(msg)

    def _open_at(self, location: Location, formats: tuple[int, ...]) -> FieldImage:
        zarr_format, raw = self._read_document(location, formats)
        # The quickest way first: equal bytes, then equal but for name and place, and
        # only then a full parse.
        same = self._places.get(raw)
        if same is not None:
            return FieldImage(location, zarr_format, same[0], _kin=same[1])
        parted = _split_document(raw)
        if parted is not None:
            for rest, multiscale, kin in self._known:
                if rest == parted[0]:
                    moved = _move_levels(multiscale, parted[1])
                    if len(self._places) < KNOWN_PLACES:
                        self._places[raw] = moved, kin
                    return FieldImage(location, zarr_format, moved, _kin=kin)
        node = read_node(location, zarr_format, {ATTRIBUTES_IN[zarr_format]: raw})
        if node.metadata.image is None:
            msg = f"{node} is not an image: its metadata has no usable 'multiscales'."
            raise UnsupportedError(msg)
        multiscale = node.metadata.image.multiscales[0]
        image = FieldImage(location, node.zarr_format, multiscale, node)
        if parted is not None and len(self._known) < KNOWN_DOCUMENTS:
            rest, translations = parted
            # Only if the short way gives the same as the full one.
            if _move_levels(multiscale, translations) == multiscale:
                self._known.append((rest, multiscale, image._kin))
        return image


Translations = list[tuple[float, ...] | None]


def _split_document(raw: bytes) -> tuple[JSON, Translations] | None:
    """Split a document into what images of a plate have in common, and their places.

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
        # Raises ValueError for several multiscales, which are left to the parser.
        (multiscale,) = inner["multiscales"]
        inner.pop("omero", None)
        multiscale.pop("name", None)
        translations: Translations = []
        for dataset in multiscale["datasets"]:
            steps = dataset.get("coordinateTransformations", ())
            translations.append(_take_translation(steps))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    # These come after the translations, which then are not where the image is.
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
    # Its length stays in the document, and is compared with the rest.
    steps[1]["translation"] = len(values)
    return tuple(map(float, values))


PLAIN = [{"type", "scale"}, {"type", "translation"}]


def _move_levels(multiscale: Multiscale, translations: Translations) -> Multiscale:
    """Give the levels of a multiscale other translations."""
    if not any(translations) or len(translations) != len(multiscale.levels):
        return multiscale
    levels = tuple(
        level if translation is None else replace(level, translation=translation)
        for level, translation in zip(multiscale.levels, translations, strict=True)
    )
    return replace(multiscale, levels=levels)
