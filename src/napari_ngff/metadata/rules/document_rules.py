"""Checks the attributes of one group as a whole."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace

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
from napari_ngff.metadata.rules.image_rules import LABEL, OMERO, check_multiscale
from napari_ngff.metadata.rules.link_rules import check_links
from napari_ngff.metadata.rules.plate_rules import PLATE, WELL
from napari_ngff.metadata.rules.rule import (
    DRAFT,
    MUST,
    SHOULD,
    FormatRule,
    apply_rules,
    find_absent,
)
from napari_ngff.metadata.systems_parse import is_draft_scene
from napari_ngff.metadata.version import Version

NESTED = ("plate", "well", "image-label")
KEYS = frozenset(
    # In one text, since a list of them would be a page long.
    """ome multiscales omero image-label plate well scene labels series version name
    axes datasets coordinateTransformations coordinateSystems channels color window
    start end min max label family active colors rgba source image rows columns wells
    rowIndex columnIndex acquisitions id maximumfieldcount description starttime endtime
    field_count images acquisition unit discrete longName scale translation affine
    rotation mapAxis transformations transformation inputAxes outputAxes forward inverse
    droppedInputs createdOutputs bioformats2raw.layout""".split()  # noqa: SIM905
)
"""Keys that may not be null. Not among them: "type" of an axis, "path" of an input or
output, and the keys of label properties."""

KINDS = frozenset(KEYS_OF_OME) | {"coordinateSystems", "coordinateTransformations"}
"""Keys of an object to which the rules are applied, whatever their values."""

UNFORBIDDEN = {"window-empty": 6, "transform-overflow": 6, "scale-zero": 5}
"""Code of an error in reading -> last version whose text does not forbid the value."""

GENERIC = ("wrong-value", "missing-key")
"""Codes that do not say what is wrong, since they are reported for any key."""

OF_READING = (
    *GENERIC,
    "transform-level-type",
    "transform-not-applied",
    "transform-parameters",
)
"""Codes of reading that are dropped where a rule of transformations says more."""


def list_versions(home: Cursor) -> Iterator[Cursor]:
    """Go to each version that a document states."""
    for owner in (home, *home.at("multiscales").children(), *map(home.at, NESTED)):
        if owner.at("version").is_present:
            yield owner.at("version")


def differing_versions(home: Cursor) -> Iterator[Cursor]:
    """Find versions that differ from the first one stated."""
    stated = list(list_versions(home))
    return (version for version in stated if version.value != stated[0].value)


def stray_systems(home: Cursor) -> Iterator[Cursor]:
    """Find coordinate systems outside of a scene and of multiscales."""
    if home.at("coordinateSystems").is_present and not home.at("scene").is_present:
        yield home.at("coordinateSystems")


def find_nulls(home: Cursor) -> Iterator[Cursor]:
    """Find keys of the specification that are null and may not be."""
    waiting = [home]  # not by recursion: a document may be nested ever so deeply
    while waiting:
        current = waiting.pop()
        if not isinstance(current.value, dict):
            continue
        for key in (KEYS | {"properties"}) & current.value.keys():
            child = current.at(key)
            if not child.is_present:
                yield child
            # Not into properties of labels, whose keys are free.
            if key in KEYS:
                waiting += [child, *child.children()]


def repeated_multiscales(home: Cursor) -> Iterator[Cursor]:
    """Find multiscales that occur twice."""
    # A list, since dicts cannot be hashed.
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
        lambda home: (
            version
            for version in list_versions(home)
            if not Version(str(version.value)).is_known
        ),
    ),
    FormatRule(
        "version-draft",
        SHOULD,
        "Data written with these latest changes (an editor's draft) will not "
        "necessarily be supported.",
        lambda home: (
            version
            for version in list_versions(home)
            if Version(str(version.value)).is_draft
        ),
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
        lambda home: (
            home.at("_ARRAY_DIMENSIONS")
            for multiscale in home.at("multiscales").children()[:1]
            if multiscale.at("axes").value != home.at("_ARRAY_DIMENSIONS").value
        ),
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
    """Check the attributes of one group.

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
    # Finding the object reports problems, which `parsed` has already.
    unheard: list[Problem] = []
    home = find_home(Cursor(attributes, "", unheard), zarr_format)
    broken: list[Problem] = []
    home = Cursor(home.value, home.where, broken)
    # The minor number of the version whose rules hold. Problems of the version are
    # reported by the rules, so those of reading it are dropped.
    quiet = Cursor(home.value, home.where, [])
    stated = next(list_versions(home), None)
    minor = Version(version or "").minor if stated is None else None
    minor = minor or find_version(quiet, zarr_format)[1]
    if isinstance(home.value, dict) and not KINDS.isdisjoint(home.value):
        text = stated.value if stated is not None else ""
        later = isinstance(text, str) and Version(text).has_free_axes
        check_home(home, DRAFT if later else minor)
    # An "ome" without any known key must still state its version.
    elif isinstance(attributes, dict) and "ome" in attributes:
        apply_rules(DOCUMENT[:1], Cursor(attributes, "", broken), minor)
    return merge_problems([lower_severity(p, minor) for p in parsed], broken)


def lower_severity(problem: Problem, minor: int) -> Problem:
    """Make a warning of an error that breaks no rule of the version."""
    if minor <= UNFORBIDDEN.get(problem.code, 0):
        return replace(problem, severity=SHOULD)
    return problem


def stated_version(attributes: object, zarr_format: int) -> str | None:
    """Return the version that attributes state, None where they state none."""
    home = find_home(Cursor(attributes, "", []), zarr_format)
    if not has_keys(home):
        return None
    stated = (version.value for version in list_versions(home))
    return next((value for value in stated if isinstance(value, str)), None)


def check_home(home: Cursor, minor: int) -> None:
    """Apply the rules of every kind that a group has."""
    apply_rules(DOCUMENT, home, minor)
    for multiscale in home.at("multiscales").children():
        check_multiscale(multiscale, minor)
    for key, rules in (
        ("omero", OMERO),
        ("image-label", LABEL),
        ("plate", PLATE),
        ("well", WELL),
    ):
        if isinstance(home.at(key).value, dict):
            apply_rules(rules, home.at(key), minor)
    # Drafts have the scene at the group itself.
    scene = home.at("scene") if home.at("scene").is_present else home
    if scene is not home or is_draft_scene(home):
        apply_rules(SCENE, scene, minor)
        scene.at("coordinateTransformations").list_items()
        check_systems(scene, minor, arrays=False)
        check_links(scene, None)


def merge_problems(parsed: list[Problem], broken: list[Problem]) -> tuple[Problem, ...]:
    """Join problems of reading with those of the rules, without repetition.

    Of two with the same code and place the more severe stays. A generic problem of
    reading (a missing key, a wrong value) is dropped where a rule says more about the
    same place, and so is one inside a transformation that breaks a rule.
    """
    errors = [p for p in broken if p.severity is Severity.ERROR]
    judged = {transformation_of(p.where) for p in errors}
    named = {p.where for p in errors if p.code not in GENERIC}
    # None: outside of transformations each place is compared by itself.
    problems = {
        (p.code, p.where): p
        for p in parsed
        if not (p.code in OF_READING and transformation_of(p.where) in judged - {None})
        and not (p.code in GENERIC and p.where in named)
    }
    read = ReadProblems(problems.values())
    for problem in broken:
        known = problems.get((problem.code, problem.where))
        stronger = known is None or known.severity is Severity.WARNING
        if stronger and not read.has_same(problem):
            problems[problem.code, problem.where] = problem
    return tuple(sorted(problems.values(), key=lambda problem: problem.where))


def transformation_of(where: str) -> str | None:
    """Return the place of the transformation around a place, None outside of one."""
    matched = re.match(r".*coordinateTransformations/\d+", where)
    return matched[0] if matched else None


class ReadProblems:
    """The problems that reading has reported, with quick look-up by place.

    A plate may have thousands, so each look-up takes a binary search, not a loop.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._errors: dict[str, set[bool]] = {}
        self._places: dict[str, list[str]] = {}
        for problem in sorted(problems, key=lambda problem: problem.where):
            if problem.severity is Severity.ERROR:
                kinds = self._errors.setdefault(problem.where, set())
                kinds.add(problem.code in GENERIC)
            self._places.setdefault(problem.code, []).append(problem.where)
        self._known = {(problem.code, problem.where) for problem in problems}
        self._lengths = {code: {*map(len, w)} for code, w in self._places.items()}

    def has_same(self, problem: Problem) -> bool:
        """Return whether reading has reported a problem of the rules in other words."""
        kinds = self._errors.get(problem.where)
        if kinds and (True in kinds or problem.code in GENERIC):
            return True
        # The same code at a place inside of this one, or at one that this is inside of.
        places, where = self._places.get(problem.code, []), problem.where
        after = bisect_left(places, f"{where}/" if where else "")
        if after < len(places) and is_below(places[after], where):
            return True
        return any(
            is_below(where, where[:length])
            and (problem.code, where[:length]) in self._known
            for length in self._lengths.get(problem.code, ())
        )


def is_below(where: str, above: str) -> bool:
    """Return whether a place is inside another one."""
    return not above or where.startswith(f"{above}/")
