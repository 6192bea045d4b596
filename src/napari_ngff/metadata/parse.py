"""Attributes of OME-Zarr 0.1 to 0.6 to the model; lenient where `dump` is strict.

Whatever is readable is read, by the shape of the document more than by its version,
and every deviation becomes a `Problem`. Nothing is raised for any JSON value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.parsers import expat

from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.model import CollectionMetadata, GroupMetadata, ImageMetadata
from napari_ngff.metadata.multiscales import parse_multiscales
from napari_ngff.metadata.plate_parse import parse_plate, parse_well
from napari_ngff.metadata.rendering import parse_label, parse_omero
from napari_ngff.metadata.systems_parse import is_draft_scene, parse_scene
from napari_ngff.metadata.version import UNSTATED, V0_1, V0_3, V0_4, V0_5, V0_6, Version

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Problem

__all__ = ["image_names", "parse_attributes"]

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
    minor = version.exact_minor or int(implied[-1])
    if stated.value != version or not version.is_known:
        text = f"The version must be 0.1 to 0.6, is {stated.describe_value()}"
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
