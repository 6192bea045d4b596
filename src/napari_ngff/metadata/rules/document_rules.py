"""The attributes of one group, judged as a whole."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.metadata.parse import KEYS as KEYS_OF_OME
from napari_ngff.metadata.parse import (
    find_home,
    find_version,
    has_keys,
    parse_attributes,
)
from napari_ngff.metadata.rules.axis_rules import check_systems
from napari_ngff.metadata.rules.image_rules import check_multiscale
from napari_ngff.metadata.rules.link_rules import check_links
from napari_ngff.metadata.rules.plate_rules import check_plate, check_well
from napari_ngff.metadata.rules.rendering_rules import check_label, check_omero
from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    FormatRule,
    apply_rules,
    find_absent,
)
from napari_ngff.metadata.systems_parse import is_draft_scene

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["DOCUMENT", "SCENE", "check_attributes", "stated_version"]

NESTED = ("plate", "well", "image-label")
KEYS = frozenset(
    # One a line would be a page of them.
    """ome multiscales omero image-label plate well scene labels series version name
    axes datasets coordinateTransformations coordinateSystems channels color window
    start end min max label family active colors rgba source image rows columns wells
    rowIndex columnIndex acquisitions id maximumfieldcount description starttime endtime
    field_count images acquisition unit discrete longName scale translation affine
    rotation mapAxis transformations transformation inputAxes outputAxes forward inverse
    droppedInputs createdOutputs bioformats2raw.layout""".split()  # noqa: SIM905
)
"""Keys that may not be null: not the type of an axis, the path of an input or output,
and what the properties of labels have."""

KINDS = frozenset(KEYS_OF_OME) | {"coordinateSystems", "coordinateTransformations"}
"""Keys by which an object is to be judged, whatever their value."""

UNFORBIDDEN = {"window-empty": 6, "transform-overflow": 6, "scale-zero": 5}
"""Errors of reading -> last version whose text does not forbid the value."""

GENERIC = ("wrong-value", "missing-key")
"""Codes that say the same of any key."""

OF_READING = (
    *GENERIC,
    "transform-level-type",
    "transform-not-applied",
    "transform-parameters",
)
"""Codes of reading a transformation, whose rules tell more exactly what is wrong."""


def list_versions(home: Cursor) -> Iterator[Cursor]:
    """Go to each version that a document states."""
    for place in (home, *home.at("multiscales").children(), *map(home.at, NESTED)):
        if place.at("version").is_present:
            yield place.at("version")


def unknown_versions(home: Cursor) -> Iterator[Cursor]:
    """Find versions that do not exist."""
    for found in list_versions(home):
        if not re.fullmatch(r"0\.[1-5]|0\.6.*", str(found.value)):
            yield found


def draft_versions(home: Cursor) -> Iterator[Cursor]:
    """Find drafts of 0.6."""
    for found in list_versions(home):
        if re.fullmatch(r"0\.6.+", str(found.value)) and found.value != "0.6rc0":
            yield found


def differing_versions(home: Cursor) -> Iterator[Cursor]:
    """Find versions that differ from the first one stated."""
    stated = list(list_versions(home))
    return (found for found in stated if found.value != stated[0].value)


def unrepeated_axes(home: Cursor) -> Iterator[Cursor]:
    """Find ``_ARRAY_DIMENSIONS`` other than the axes of the image (0.3)."""
    for multiscale in home.at("multiscales").children()[:1]:
        if multiscale.at("axes").value != home.at("_ARRAY_DIMENSIONS").value:
            yield home.at("_ARRAY_DIMENSIONS")


def stray_systems(home: Cursor) -> Iterator[Cursor]:
    """Find coordinate systems outside of a scene and of multiscales."""
    if home.at("coordinateSystems").is_present and not home.at("scene").is_present:
        yield home.at("coordinateSystems")


def find_nulls(home: Cursor) -> Iterator[Cursor]:
    """Find keys of the specification that are null where none may be."""
    waiting = [home]  # not by recursion: a document may be nested ever so deeply
    while waiting:
        place = waiting.pop()
        if not isinstance(place.value, dict):
            continue
        for key in (KEYS | {"properties"}) & place.value.keys():
            found = place.at(key)
            if not found.is_present:
                yield found
            if key in KEYS:
                waiting += [found, *found.children()]


def repeated_multiscales(home: Cursor) -> Iterator[Cursor]:
    """Find multiscales that are there twice."""
    seen: list[object] = []
    for multiscale in home.at("multiscales").children():
        if multiscale.value in seen:
            yield multiscale
        seen.append(multiscale.value)


DOCUMENT = (
    FormatRule(
        "null-value",
        MUST,
        "Every key that is there has a value of its type (the schemas).",
        find_nulls,
        consequence="It counts as missing.",
    ),
    FormatRule(
        "multiscale-duplicate",
        MUST,
        "multiscales: each entry describes another image (uniqueItems of the schemas).",
        repeated_multiscales,
    ),
    FormatRule(
        "version-missing",
        MUST,
        "The value of the ome key MUST be a JSON object that MUST contain a version "
        "key.",
        find_absent("version"),
        since=5,
    ),
    FormatRule(
        "version-unknown",
        MUST,
        "version: a string specifying the version of the OME-Zarr specification.",
        unknown_versions,
    ),
    FormatRule(
        "version-draft",
        SHOULD,
        "Data written with these latest changes (an editor's draft) will not "
        "necessarily be supported.",
        draft_versions,
        since=6,
        consequence="It is read as 0.6, with the keys of the drafts.",
    ),
    FormatRule(
        "version-differs",
        SHOULD,
        "version: indicates the version of the metadata; one document has one.",
        differing_versions,
        until=4,
        consequence="The first one counts.",
    ),
    FormatRule(
        "version-differs",
        MUST,
        "The OME-Zarr Metadata version MUST be consistent within a hierarchy.",
        differing_versions,
        since=5,
        consequence="The first one counts.",
    ),
    FormatRule(
        "array-dimensions",
        SHOULD,  # no schema has it, and valid cases lack it
        "In addition, the axes values MUST be repeated in the field _ARRAY_DIMENSIONS "
        "of all scale groups.",
        unrepeated_axes,
        since=3,
        until=3,
    ),
    FormatRule(
        "scene-missing",
        MUST,
        "Transformations between two or more images MUST be stored in the attributes "
        "of a scene dictionary.",
        stray_systems,
    ),
)

SCENE = (
    FormatRule(
        "missing-key",
        MUST,
        "The scene dictionary MUST contain the field coordinateTransformations, whose "
        "value MUST be an array of valid transformations.",
        find_absent("coordinateTransformations"),
        since=6,
    ),
)


def check_attributes(
    attributes: object, zarr_format: int, version: str | None = None
) -> tuple[Problem, ...]:
    """Judge the attributes of one group.

    Parameters
    ----------
    attributes
        Any JSON value: the content of ``.zattrs`` (Zarr v2) or the ``attributes`` of
        ``zarr.json`` (v3).
    zarr_format
        2 or 3.
    version
        What the hierarchy has, for a document that states none: the rules of "0.1" to
        "0.6" differ.

    Returns
    -------
    tuple of Problem
        By place, none of them twice; valid where none is an error. What nothing is
        known of is valid: other tools keep their own attributes in groups.
    """
    parsed = parse_attributes(attributes, zarr_format).problems
    unheard: list[Problem] = []
    home = find_home(Cursor(attributes, "", unheard), zarr_format)
    found: list[Problem] = []
    home = Cursor(home.value, home.where, found)
    minor = minor_of(home, zarr_format, version)
    if isinstance(home.value, dict) and not KINDS.isdisjoint(home.value):
        check_home(home, minor)
    elif isinstance(attributes, dict) and "ome" in attributes:
        apply_rules(DOCUMENT[:1], Cursor(attributes, "", found), minor)
    return merge_problems([lower_severity(p, minor) for p in parsed], found)


def lower_severity(problem: Problem, minor: int) -> Problem:
    """Make a warning of what cannot be shown, but breaks no rule of the version."""
    if minor <= UNFORBIDDEN.get(problem.code, 0):
        return replace(problem, severity=SHOULD)
    return problem


def stated_version(attributes: object, zarr_format: int) -> str | None:
    """Return the version that attributes state, None where they state none."""
    home = find_home(Cursor(attributes, "", []), zarr_format)
    if not has_keys(home):
        return None
    stated = (found.value for found in list_versions(home))
    return next((value for value in stated if isinstance(value, str)), None)


def minor_of(home: Cursor, zarr_format: int, version: str | None) -> int:
    """Return 4 for the rules of 0.4: of the version stated, given, or implied."""
    quiet = Cursor(home.value, home.where, [])
    stated = next(list_versions(home), None)
    known = re.match(r"0\.([1-6])", version or "") if stated is None else None
    return int(known[1]) if known else find_version(quiet, zarr_format)[1]


def check_home(home: Cursor, minor: int) -> None:
    """Apply the rules of everything that a group is."""
    apply_rules(DOCUMENT, home, minor)
    for multiscale in home.at("multiscales").children():
        check_multiscale(multiscale, minor)
    for key, check in (
        ("omero", check_omero),
        ("image-label", check_label),
        ("plate", check_plate),
        ("well", check_well),
    ):
        if isinstance(home.at(key).value, dict):
            check(home.at(key), minor)
    scene = home.at("scene") if home.at("scene").is_present else home
    if scene is not home or is_draft_scene(home):
        apply_rules(SCENE, scene, minor)
        scene.at("coordinateTransformations").list_items()
        check_systems(scene, minor, arrays=False)
        check_links(scene, None)


def merge_problems(parsed: list[Problem], found: list[Problem]) -> tuple[Problem, ...]:
    """Join what reading reported with what the rules found, each said once.

    Of one code at one place the more severe stays. Reading says of any key alike that
    it is missing or wrong; where a rule says it of this key, and of a transformation,
    which has rules of its own, the rule is the one to be told.
    """
    errors = [p for p in found if p.severity is Severity.ERROR]
    judged = {transformation_of(p.where) for p in errors}
    named = {p.where for p in errors if p.code not in GENERIC}
    problems = {
        (p.code, p.where): p
        for p in parsed
        if not (p.code in OF_READING and transformation_of(p.where) in judged - {None})
        and not (p.code in GENERIC and p.where in named)
    }
    read = ReadProblems(problems.values())
    for problem in found:
        known = problems.get((problem.code, problem.where))
        stronger = known is None or known.severity is Severity.WARNING
        if stronger and not read.has_same(problem):
            problems[problem.code, problem.where] = problem
    return tuple(sorted(problems.values(), key=lambda problem: problem.where))


def transformation_of(where: str) -> str | None:
    """Return the place of the transformation that a place is in, None outside."""
    found = re.match(r".*coordinateTransformations/\d+", where)
    return found[0] if found else None


class ReadProblems:
    """What reading has reported, found by place in about the same time for many."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._errors: dict[str, set[bool]] = {}
        self._places: dict[str, list[str]] = {}
        for one in sorted(problems, key=lambda problem: problem.where):
            if one.severity is Severity.ERROR:
                kinds = self._errors.setdefault(one.where, set())
                kinds.add(one.code in GENERIC)
            self._places.setdefault(one.code, []).append(one.where)
        self._lengths = {code: {*map(len, w)} for code, w in self._places.items()}

    def has_same(self, problem: Problem) -> bool:
        """Tell whether a problem of the rules is one of these in other words."""
        kinds = self._errors.get(problem.where)
        if kinds and (True in kinds or problem.code in GENERIC):
            return True
        places, where = self._places.get(problem.code, []), problem.where
        after = bisect_left(places, f"{where}/" if where else "")
        if after < len(places) and is_below(places[after], where):
            return True
        return any(
            is_below(where, where[:length]) and is_among(where[:length], places)
            for length in self._lengths.get(problem.code, ())
        )


def is_among(place: str, places: list[str]) -> bool:
    """Tell whether a place is one of those, which are sorted."""
    at = bisect_left(places, place)
    return at < len(places) and places[at] == place


def is_below(where: str, above: str) -> bool:
    """Tell whether a place is inside another."""
    return not above or where.startswith(f"{above}/")
