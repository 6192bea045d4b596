"""Attributes of OME-Zarr 0.1 to 0.6 to the model; lenient where `dump` is strict.

Whatever is readable is read, by the shape of the document more than by its version,
and every deviation becomes a `Problem`. Nothing is raised for any JSON value.

The position of a well on the plate follows from the two names in its path, or from its
indices. In published files of 0.4 and 0.6 these disagree, so neither alone is enough.
"""

from __future__ import annotations

from xml.parsers import expat

from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.model import (
    Acquisition,
    CollectionMetadata,
    Consequence,
    GroupMetadata,
    ImageMetadata,
    PlateMetadata,
    Problem,
    WellField,
    WellMetadata,
    WellReference,
)
from napari_ngff.metadata.multiscales import parse_multiscales
from napari_ngff.metadata.rendering import parse_label, parse_omero
from napari_ngff.metadata.systems_parse import is_draft_scene, parse_scene
from napari_ngff.metadata.version import UNSTATED, V0_1, V0_3, V0_4, V0_5, V0_6, Version

__all__ = [
    "image_names",
    "parse_attributes",
    "parse_plate",
    "parse_well",
]

DRAFT = "It is a draft of OME-Zarr 1.0 (RFC-8), which is not supported."
"""Of metadata with "type" or "nodes", and nothing of another version."""


def parse_plate(plate: Cursor, minor: int) -> PlateMetadata | None:
    """Read a ``plate`` object; None where there is none.

    Parameters
    ----------
    plate
        At it.
    minor
        4 for version 0.4, the first in which wells have indices.

    Returns
    -------
    PlateMetadata or None
        Its rows and columns are those listed, and after them those that only the
        wells' paths name. Wells of an unusable or a repeated path are left out.
    """
    if not plate.is_object():
        return None
    # Lists that grow: names that only wells' paths have are added behind them.
    rows = parse_names(plate.at("rows"))
    columns = parse_names(plate.at("columns"))
    wells: dict[str, WellReference] = {}
    listed = plate.at("wells")
    listed.require_value('MUST contain the field "wells".', "The plate is empty.")
    for item in listed.list_items():
        path = item.at("path").read_path() if item.is_object() else None
        if path in wells:
            # Less the period at the end of the description.
            text = f"The well {item.at('path').describe_value()[:-1]} is listed before."
            item.report_error("well-duplicate", text)
        elif path is not None:
            row, column = find_position(item, path, rows, columns, minor)
            wells[path] = WellReference(path, row, column)
    count = plate.at("field_count").read_integer()
    if count is not None and count < 1:
        plate.at("field_count").report_expected("an integer greater than 0")
        count = None
    return PlateMetadata(
        plate.at("name").read_name() or "",
        tuple(rows),
        tuple(columns),
        tuple(wells.values()),
        parse_acquisitions(plate.at("acquisitions")),
        count,
    )


def parse_names(items: Cursor) -> list[str]:
    """Read the names of rows or columns, one for each entry."""
    items.require_value(
        "MUST list the rows and columns.", "The wells' paths name them."
    )
    names: list[str] = []
    known: set[str] = set()
    for index, item in enumerate(items.list_items()):
        if isinstance(item.value, str):
            item.report_expected("an object", "It is used as the name.")
        stated = item.at("name") if isinstance(item.value, dict) else item
        name = stated.read_name()
        if name is None:
            name = str(index + 1)
            text = "Each row and column MUST have a name."
            item.report_error("plate-name-missing", text, f'It is named "{name}".')
        elif name in known:
            text = f"The name {stated.describe_value()[:-1]} MUST NOT be a duplicate."
            item.report_error(
                "plate-name-duplicate", text, "The first one takes the wells."
            )
        # Repeated names stay, since indices of wells count them.
        names.append(name)
        known.add(name)
    return names


def find_position(
    well: Cursor, path: str, rows: list[str], columns: list[str], minor: int
) -> tuple[int, int]:
    """Find row and column of a well; missing names are added to `rows`, `columns`."""
    parts = path.split("/")
    # Up to 0.3 an acquisition could stand before row and column.
    if len(parts) != 2 and not (len(parts) > 2 and minor <= 3):
        text = (
            f"A well's path MUST be row/column, is {well.at('path').describe_value()}"
        )
        well.report_error("well-path-depth", text, "Its last names are used.")
    row, column = ["", *parts][-2:]
    # The path comes first: it is where the data is, and what people read.
    named = index_of(row, rows), index_of(column, columns)
    stated = (
        parse_index(well.at("rowIndex"), rows, minor),
        parse_index(well.at("columnIndex"), columns, minor),
    )
    if None in named and None not in stated:
        text = f'"{row[:40]}/{column[:40]}" names no row and column of the plate.'
        well.report_warning("well-position-differs", text, "The indices count.")
        named = stated
    elif None in named:
        text = f'"{row[:40]}/{column[:40]}" names no row and column of the plate.'
        well.report_warning("well-position-unknown", text, "The names are added to it.")
    elif any(i not in (None, n) for i, n in zip(stated, named, strict=True)):
        text = "Path, rowIndex and columnIndex MUST refer to the same row and column."
        well.report_warning("well-position-differs", text, "The path counts.")
    return (
        choose_index(named[0], stated[0], row, rows),
        choose_index(named[1], stated[1], column, columns),
    )


def index_of(name: str, names: list[str]) -> int | None:
    return names.index(name) if name in names else None


def parse_index(stated: Cursor, names: list[str], minor: int) -> int | None:
    """Read an index into `names`; None where absent or out of range."""
    index = stated.read_integer()
    if index is not None and not 0 <= index < len(names):
        stated.report_expected(
            f"an index below {len(names)}", "The path is used instead."
        )
        return None
    if minor >= 4:
        stated.require_value(
            "MUST contain rowIndex and columnIndex.", "The path is used instead."
        )
    return index


def choose_index(
    named: int | None, stated: int | None, name: str, names: list[str]
) -> int:
    """Return the index by name or the stated one, or append the `name`."""
    if named is not None:
        return named
    # An index counts only where the name of the path is not listed.
    if stated is not None:
        return stated
    names.append(name)
    return len(names) - 1


def parse_acquisitions(items: Cursor) -> tuple[Acquisition, ...]:
    """Read the acquisitions that have a unique id."""
    result: dict[int, Acquisition] = {}
    for item in items.list_items():
        stated = item.at("id")
        if item.is_object():
            stated.require_value('MUST contain the key "id".', Consequence.LEFT_OUT)
        identity = stated.read_integer()
        # Fields name their acquisition by it, so a second one could not be chosen.
        if identity in result:
            item.report_error(
                "acquisition-duplicate", f"The id {identity} MUST be unique."
            )
        elif identity is not None:
            start, end = (
                item.at("starttime").read_integer(),
                item.at("endtime").read_integer(),
            )
            name = item.at("name").read_name()
            result[identity] = Acquisition(identity, name, start, end)
    return tuple(result.values())


def parse_well(well: Cursor) -> WellMetadata | None:
    """Read a ``well`` object; None where there is none.

    Fields of an unusable or a repeated path are left out.
    """
    if not well.is_object():
        return None
    images = well.at("images")
    images.require_value('MUST contain the field "images".', "The well is empty.")
    fields: dict[str, WellField] = {}
    for item in images.list_items():
        path = item.at("path").read_path() if item.is_object() else None
        if path in fields:
            item.report_error("field-duplicate", "The images of a well MUST be unique.")
        elif path is not None:
            fields[path] = WellField(path, item.at("acquisition").read_integer())
    if images.is_present and not fields:
        images.report_error(
            "well-empty", "A well MUST have an image.", "The well is empty."
        )
    return WellMetadata(tuple(fields.values()))


LAYOUT = "bioformats2raw.layout"

VERSIONED = ("plate", "well", "image-label", "omero")
"""Keys whose objects state a version of their own, in the order they are asked."""

KEYS = (LAYOUT, "scene", "multiscales", "labels", "series", *VERSIONED)
"""Keys by which OME metadata is known: it has at least one of them."""


def parse_attributes(attributes: object, zarr_format: int) -> GroupMetadata:
    """Parse the attributes of one group.

    Parameters
    ----------
    attributes
        Any JSON value: the content of ``.zattrs`` (Zarr v2) or the ``attributes`` of
        ``zarr.json`` (v3).
    zarr_format
        2 or 3.

    Returns
    -------
    GroupMetadata
        With a problem for each broken rule. Multiscales without any usable level are
        left out, and `GroupMetadata.image` is None where none remains.
        Where a multiscale has no axes, its scales and translations are as long as the
        longest one written, to be aligned with the last dimensions of the arrays.
    """
    problems: list[Problem] = []
    root = Cursor(attributes, "", problems)
    if not isinstance(attributes, dict):
        root.report_expected("an object")
    home = find_home(root, zarr_format)
    if not has_keys(home):
        # A version alone counts in "ome"; at the root of Zarr v2 it may be any
        # program's.
        text = home.at("version").read_text() if home.where else None
        version = None if text is None else Version(text)
        if home.where and (home.at("type").is_present or home.at("nodes").is_present):
            home.report_error("version-unsupported", DRAFT, Consequence.LEFT_OUT)
        return GroupMetadata(version, problems=tuple(problems))
    stated, minor = find_version(home, zarr_format)
    return GroupMetadata(
        version=stated,
        image=parse_image(home, minor),
        labels=parse_paths(home.at("labels")),
        plate=parse_plate(home.at("plate"), minor),
        well=parse_well(home.at("well")),
        collection=parse_collection(home.at(LAYOUT)),
        series=parse_paths(home.at("series")),
        scene=parse_scene(home),
        problems=tuple(problems),
    )


def has_keys(place: Cursor) -> bool:
    """Return whether an object has OME metadata, other than a version alone."""
    return any(place.at(key).is_present for key in KEYS) or is_draft_scene(place)


def find_home(root: Cursor, zarr_format: int) -> Cursor:
    """Go to the object that has the metadata: the root in Zarr v2, ``ome`` in v3.

    The other object is read where the right one has no OME metadata.
    """
    ome = root.at("ome")
    if zarr_format == 2:
        if has_keys(root) or not has_keys(ome):
            return root
        text = '0.5 and later, with the key "ome", MUST NOT use Zarr v2.'
        ome.report_error("ome-key-in-zarr-2", text, "It is read anyway.")
        return ome
    if not has_keys(root) or has_keys(ome):
        ome.is_object()
        return ome
    text = 'In Zarr v3 the metadata MUST be under the key "ome".'
    root.report_error("ome-key-missing", text, "The attributes themselves are read.")
    return root


def find_version(home: Cursor, zarr_format: int) -> tuple[Version, int]:
    """Read the first stated version, or infer it from the form of the document.

    Returns
    -------
    Version, int
        The version as written, or inferred where none is; and its minor number, 4 for
        0.4, inferred where the written version does not exist.
    """
    # From 0.5 on "ome" states the version first, before that its parts do.
    places = home.at("multiscales").children()
    places += [home.at(key) for key in VERSIONED]
    places.insert(0 if home.where else len(places), home)
    stated = next((s for p in places if (s := p.at("version")).is_present), None)
    implied = implied_version(home, zarr_format)
    if stated is None:
        consequence = f"It is read as {implied}."
        if zarr_format != 2:
            text = '"ome" MUST contain the field "version".'
            home.report_error("version-missing", text, consequence)
        elif any(home.at(key).is_present for key in ("multiscales", "plate", "well")):
            home.report_warning(
                "version-missing", 'SHOULD contain "version".', consequence
            )
        return implied, int(implied[-1])
    version = Version(stated.value) if isinstance(stated.value, str) else implied
    minor = version.minor or int(implied[-1])
    if stated.value != version or not version.is_known:
        text = f'The version must be text, "0.1" to "0.6", is {stated.describe_value()}'
        stated.report_warning("version-unknown", text, f"It is read as 0.{minor}.")
    elif (minor >= 5) != (zarr_format != 2):
        text = f"Version {version[:20]} MUST NOT use Zarr v{zarr_format}."
        stated.report_error("version-zarr-format", text, "It is read anyway.")
    return version, minor


def implied_version(home: Cursor, zarr_format: int) -> Version:
    """Infer the version from the form of the document."""
    first = next(iter(home.at("multiscales").children()), home.at("multiscales"))
    scene = home.at("scene").is_present or is_draft_scene(home)
    if scene or first.at("coordinateSystems").is_present:
        return V0_6
    # Each clue is in no earlier version: systems in 0.6, Zarr v3 in 0.5, axes as
    # objects and indices of wells in 0.4, axes as strings in 0.3.
    if zarr_format != 2:
        return V0_5
    axes = first.at("axes").children()
    if axes:
        return V0_3 if isinstance(axes[0].value, str) else V0_4
    wells = home.at("plate").at("wells").children()
    if wells:
        return V0_4 if any(well.at("rowIndex").is_present for well in wells) else V0_1
    return V0_1 if first.is_present else UNSTATED


def parse_image(home: Cursor, minor: int) -> ImageMetadata | None:
    """Read multiscales and rendering settings; None without a usable multiscale."""
    stated = home.at("image-label")
    label = parse_label(stated, home.at("source"))
    omero = parse_omero(home.at("omero"))
    multiscales = parse_multiscales(home.at("multiscales"), minor)
    if multiscales:
        return ImageMetadata(multiscales, omero, label)
    if stated.is_present and not home.at("multiscales").is_present:
        text = 'A group with "image-label" MUST also contain "multiscales".'
        stated.report_warning(
            "label-without-multiscales", text, "There is no label image."
        )
    return None


def parse_paths(paths: Cursor) -> tuple[str, ...] | None:
    """Read ``labels`` or ``series``; None where there is no list."""
    if not isinstance(paths.value, list):
        paths.list_items()
        return None
    stated = [item.read_path() for item in paths.list_items() if item.is_present]
    # Each once: a name that is listed twice must not make two layers.
    return tuple(dict.fromkeys(path for path in stated if path is not None))


def parse_collection(layout: Cursor) -> CollectionMetadata | None:
    """Read ``bioformats2raw.layout``; any value of it makes a collection."""
    if not layout.is_present:
        return None
    number = layout.read_integer()
    if number is None:
        return CollectionMetadata(3)
    if number != 3:
        text = f'"MUST be 3", is {number}.'
        layout.report_error("layout-unknown", text, "It is read as layout 3.")
    return CollectionMetadata(number)


MAX_SIZE = 2**28
"""Bytes of a document; plates of many fields reach tens of megabytes."""


def image_names(xml: bytes) -> tuple[str | None, ...]:
    """Return the ``Name`` of each ``Image`` right below the root, in document order.

    Parameters
    ----------
    xml
        A document of any OME namespace, or of none.

    Returns
    -------
    tuple[str | None, ...]
        None for an image without a name. () where the document is malformed, larger
        than `MAX_SIZE`, or has a DOCTYPE, whose entities could expand without bound.
    """
    names: list[str | None] = []
    depth = 0

    def start_element(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        # Expat puts the namespace before the name, separated by the space.
        if depth == 2 and tag.rpartition(" ")[2] == "Image":
            names.append(attributes.get("Name"))

    def end_element(_tag: str) -> None:
        nonlocal depth
        depth -= 1

    # Entities of a DOCTYPE could expand to gigabytes ("billion laughs").
    def refuse_doctype(*_: object) -> None:
        raise ValueError("a DOCTYPE")

    if len(xml) > MAX_SIZE:
        return ()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        parser.Parse(xml, True)
    except (expat.ExpatError, LookupError, ValueError):  # the last two: the encoding
        return ()
    return tuple(names)
