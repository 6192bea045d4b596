"""Metadata of OME-Zarr as frozen values: one model for 0.1 to 0.6; no I/O.

Axis order is the order of ``Multiscale.axes``; every per-axis tuple of a
multiscale has one entry per axis in that order. Paths are relative to the group
whose attributes were parsed, with ``/`` and neither a leading nor a trailing one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from napari_ngff.metadata.systems import (
    Axis,
    CoordinateSystem,
    Reference,
    Scene,
    SystemLink,
)

if TYPE_CHECKING:
    from napari_ngff.metadata.transform import Transformation
    from napari_ngff.metadata.version import Version

__all__ = [
    "JSON",
    "Acquisition",
    "Axis",
    "Channel",
    "CollectionMetadata",
    "Consequence",
    "ContrastWindow",
    "CoordinateSystem",
    "GroupKind",
    "GroupMetadata",
    "ImageMetadata",
    "LabelInfo",
    "LabelKind",
    "Level",
    "Multiscale",
    "Omero",
    "PlateMetadata",
    "Problem",
    "Reference",
    "Scene",
    "Severity",
    "SystemLink",
    "WellField",
    "WellMetadata",
    "WellReference",
]

JSON = dict[str, Any]
"""A JSON object as Python's `json` returns it."""


class Severity(StrEnum):
    """Severity of a deviation: a broken MUST is an error, a broken SHOULD a warning."""

    ERROR = "error"
    WARNING = "warning"


class Consequence(StrEnum):
    """What is not shown because of a problem."""

    # The values are sentences for users. Code asks for a member, not for text.

    IGNORED = "It is ignored."
    LEFT_OUT = "It is left out."
    ENTRY_LEFT_OUT = "The entry is left out."
    PART_LEFT_OUT = "It is left out; everything else is shown."
    CHUNKS_LEFT_OUT = "They are not shown."
    MULTISCALE_LEFT_OUT = "The multiscale is left out."
    TRANSFORM_LEFT_OUT = "The transformation is left out."
    SYSTEMS_LEFT_OUT = (
        "The transformation is left out; its systems may be out of reach."
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One deviation from the specification, or one thing that cannot be shown.

    Attributes
    ----------
    code
        Stable name in kebab-case, such as ``"axis-unit-unknown"``.
    severity
        `Severity.ERROR` where the text says MUST.
    where
        Place inside the document, such as ``"multiscales/0/axes/1/unit"``; prefixed
        by ``"<path of the group>:"`` once the group is known.
    text
        What is wrong, with a quote of the broken rule.
    consequence
        What is done about it; a `Consequence` where something is left out.
    """

    code: str
    severity: Severity
    where: str
    text: str
    consequence: Consequence | str = ""

    @property
    def page(self) -> str:
        """Return the page and the heading that explain the code."""
        return f"docs/check.md#{self.code}"

    @property
    def is_loss(self) -> bool:
        """Return whether something of the file is not shown because of this problem."""
        is_stated = isinstance(self.consequence, Consequence)
        return is_stated and self.consequence is not Consequence.IGNORED


class GroupKind(StrEnum):
    """Kind of a group; if a group has several, the first of this order is used."""

    # From the whole to its parts: bioformats2raw writes plates that also have its
    # layout, and each label image is an image.

    PLATE = "plate"
    COLLECTION = "collection"
    SCENE = "scene"
    LABEL = "label"
    IMAGE = "image"
    WELL = "well"
    LABELS = "labels"
    SERIES = "series"


@dataclass(frozen=True, slots=True)
class Level:
    """One array of a pyramid.

    Attributes
    ----------
    path
        Of the array, relative to the group.
    scale
        Physical size of one voxel in units of the axes, axis order; never 0.
    translation
        Intrinsic coordinate of the centre of voxel 0, axis order.
    transformation
        From index coordinates to the intrinsic system, where that is more than a scale
        and a translation (drafts of 0.6); those are 1 and 0 then.
    """

    path: str
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    transformation: Transformation | None = None

    def span_of(self, axis: int, count: int) -> tuple[float, float]:
        """Return the lowest and the highest coordinate of the centres of voxels.

        A negative scale begins at the highest.

        Parameters
        ----------
        axis
            Along which.
        count
            Number of voxels there.
        """
        first = self.translation[axis]
        last = first + self.scale[axis] * (count - 1)
        return min(first, last), max(first, last)


@dataclass(frozen=True, slots=True)
class Multiscale:
    """A pyramid as metadata states it; levels from the finest to the coarsest.

    Attributes
    ----------
    name
        As written, "" where there is none.
    axes
        Given or inferred; () where the document gives none and the array decides
        (0.1 and 0.2, which mean "tczyx" by their specification, are filled in).
    levels
        At least one.
    method
        The ``type`` of the multiscale: how coarser levels were made ("gaussian",
        "nearest", "mode"...), or None.
    intrinsic
        Name of the system that the levels lead to (0.6), "" where there is none.
    systems
        All of the multiscale's own (0.6), the intrinsic one with `axes` among them.
    links
        Between these systems, and to those of labels (0.6).
    software
        The program that made the pixels, where ``metadata`` names it under that key.
    index
        Its number in the list of the document, in which unusable ones count, too.
    """

    name: str
    axes: tuple[Axis, ...]
    levels: tuple[Level, ...]
    method: str | None = None
    # What follows is of 0.6, and of SpatialData (`are_alternatives` in `multiscales`).
    intrinsic: str = ""
    systems: tuple[CoordinateSystem, ...] = ()
    links: tuple[SystemLink, ...] = ()
    software: str | None = None
    index: int = field(default=0, compare=False)

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names in axis order, such as ``("t", "c", "z", "y", "x")``."""
        return tuple(axis.name for axis in self.axes)

    @property
    def channel_axis(self) -> int | None:
        """Index of the axis of type channel, or None."""
        return next((i for i, a in enumerate(self.axes) if a.type == "channel"), None)


@dataclass(frozen=True, slots=True)
class ContrastWindow:
    """Contrast limits: shown (`start`, `end`) and possible ones (`min`, `max`).

    In intensity values of the pixels; None where not stated.
    """

    # Each may be missing in a file, although the specification demands all four.
    start: float | None = None
    end: float | None = None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """Rendering settings of one channel.

    Attributes
    ----------
    color
        Red, green, blue, each 0-255, or None.
    """

    label: str | None = None
    color: tuple[int, int, int] | None = None
    window: ContrastWindow | None = None
    # None where not stated, which a viewer may treat unlike False.
    active: bool | None = None
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Omero:
    """Rendering settings of an image (transitional ``omero`` block).

    Attributes
    ----------
    default_t, default_z
        Initial index on the t and the z axis, or None.
    greyscale
        True where ``rdefs.model`` is "greyscale".
    """

    name: str | None = None
    channels: tuple[Channel, ...] = ()
    default_t: int | None = None
    default_z: int | None = None
    greyscale: bool = False


OWN = "napari-ngff:"
"""Prefix of the keys of this package. Keys without one are for the specification."""

KIND = f"{OWN}kind"
"""Key of the `LabelKind` in ``image-label``, and in the ``metadata`` of a layer."""

CLASS_KEYS = ("class-name", "class-locked", "class-hidden", "class-order")
"""Keys of a class in the properties of a label, with the prefix `OWN`."""

CLASS_NAME = f"{OWN}class-name"

MOST_CLASSES = 255
"""If more labels have the name of a class, they are objects, not classes."""


class LabelKind(StrEnum):
    """What each label of a label image is: one object, or a class."""

    OBJECTS = "objects"
    CLASSES = "classes"

    @classmethod
    def parse(cls, value: Any) -> LabelKind | None:
        """Read a stated kind; None where it makes no sense."""
        return next((kind for kind in cls if kind == value), None)


@dataclass(frozen=True, slots=True)
class LabelInfo:
    """The ``image-label`` block of a label image.

    Attributes
    ----------
    colors
        Label value -> red, green, blue, alpha, each 0-255. Values without an entry
        or without ``rgba`` are not in it.
    properties
        Label value -> its other keys, in file order.
    source
        Path of the labelled image's group relative to the label's, "../../" by default;
        "" to name none when written.
    kind
        None where it is not stated.
    """

    colors: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    properties: dict[int, JSON] = field(default_factory=dict)
    # The default of the specification: from `labels/<name>` to the image.
    source: str = "../../"
    kind: LabelKind | None = None


@dataclass(frozen=True, slots=True)
class ImageMetadata:
    """An image or a label image: its pyramids and how to show them.

    Attributes
    ----------
    multiscales
        At least one; the first is shown unless the user chooses another.
    label
        Not None for a label image.
    """

    multiscales: tuple[Multiscale, ...]
    omero: Omero | None = None
    label: LabelInfo | None = None


@dataclass(frozen=True, slots=True)
class WellReference:
    """A well as its plate lists it.

    `row` and `column` are 0-based indices into the plate's rows and columns; `path` is
    that of its group, and never built from names.
    """

    # Not from the names: in published files the two disagree (see `metadata.parse`).
    path: str
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Acquisition:
    """One run over a plate; its start and end are in seconds since 1970."""

    id: int
    name: str | None = None
    start: int | None = None
    end: int | None = None

    @property
    def title(self) -> str:
        """Its name, or "acquisition 2" with its id."""
        return self.name or f"acquisition {self.id}"


@dataclass(frozen=True, slots=True)
class PlateMetadata:
    """A plate: names of rows and columns, and the wells that exist."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    wells: tuple[WellReference, ...]
    acquisitions: tuple[Acquisition, ...] = ()
    # As stated; wells may have fewer fields.
    field_count: int | None = None

    @property
    def acquisition_names(self) -> dict[int | None, str]:
        """Names in tables by id: of one without a name of its own, its id.

        {} for a plate with fewer than two, whose tables name none.
        """
        if len(self.acquisitions) < 2:
            return {}
        names = [run.name for run in self.acquisitions]
        return {
            run.id: run.name if run.name and names.count(run.name) == 1 else str(run.id)
            for run in self.acquisitions
        }

    def name_acquisition(self, run: int) -> str:
        """Return the title of an acquisition by its id, also of one not listed."""
        listed = (each for each in self.acquisitions if each.id == run)
        return next(listed, Acquisition(run)).title


@dataclass(frozen=True, slots=True)
class WellField:
    """One image of a well: path relative to the well, acquisition id or None."""

    path: str
    acquisition: int | None = None


@dataclass(frozen=True, slots=True)
class WellMetadata:
    """The fields of one well, in file order."""

    fields: tuple[WellField, ...]


@dataclass(frozen=True, slots=True)
class CollectionMetadata:
    """A ``bioformats2raw.layout`` group: images at its ``OME`` group's ``series``,
    or else numbered 0, 1, 2...
    """

    layout: int


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The parsed attributes of one group.

    Attributes
    ----------
    version
        As written ("0.4", "0.6.dev3"), or as the form of the document implies ("0.1" to
        "0.6"); None without OME metadata.
    labels
        Paths of a ``labels`` group, relative to it; None where it is none.
    series
        Paths of an ``OME`` group, relative to its parent; None where it is none.
    scene
        Of a group with images in common systems (0.6), or None.
    """

    version: Version | None = None
    image: ImageMetadata | None = None
    labels: tuple[str, ...] | None = None
    plate: PlateMetadata | None = None
    well: WellMetadata | None = None
    collection: CollectionMetadata | None = None
    series: tuple[str, ...] | None = None
    scene: Scene | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def kind(self) -> GroupKind | None:
        """First kind of the group, or None without OME metadata."""
        image = self.image
        present = (
            (GroupKind.PLATE, self.plate),
            (GroupKind.COLLECTION, self.collection),
            (GroupKind.SCENE, self.scene),
            # None without an image, and for an image that is no label.
            (GroupKind.LABEL, image and image.label),
            (GroupKind.IMAGE, image),
            (GroupKind.WELL, self.well),
            (GroupKind.LABELS, self.labels),
            (GroupKind.SERIES, self.series),
        )
        return next((kind for kind, value in present if value is not None), None)
