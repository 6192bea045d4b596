"""Rules of transformations between coordinate systems (0.6).

Such a list is in a multiscale, where one end is the image's own system, and in a scene.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    FormatRule,
    Search,
    apply_rules,
    find_repeated,
)
from napari_ngff.metadata.rules.transformation_rules import (
    TransformPlace,
    check_transformation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.cursor import Cursor

VERSION = 6
"""Minor number: links are new in 0.6, and its rules also hold for drafts."""
ENDS = ("input", "output")

System = tuple[str, str]
"""Path of the image that has it, "" for the document itself, and name."""


SENTENCE = (
    "the input and output fields of coordinateTransformations MUST contain a json "
    "object, which MUST contain the field name and MAY contain the field path."
)


def find_unnamed(end: str) -> Search:
    """Find inputs, or outputs, without a name."""

    def search(links: Cursor) -> Iterator[Cursor]:
        for link in links.children():
            if not name_of(link.at(end)):
                yield link.at(end)

    return search


LINKS = (
    FormatRule(
        "transform-input",
        MUST,
        SENTENCE,
        find_unnamed("input"),
        since=6,
        consequence="It is not used.",
    ),
    FormatRule(
        "transform-output",
        MUST,
        SENTENCE,
        find_unnamed("output"),
        since=6,
        consequence="It is not used.",
    ),
    FormatRule(
        "transform-list-empty",
        MUST,
        "MUST contain an array of valid transformations: at least one.",
        lambda links: (links,) if links.value == [] else (),
        since=6,
    ),
    FormatRule(
        "transform-name-duplicate",
        SHOULD,  # a valid case of the specification breaks it
        "Its value MUST be unique across all name fields for all coordinate "
        "transformations in the same list.",
        find_repeated("name"),
        since=6,
    ),
)


def name_of(end: Cursor) -> str:
    """Return the name of an input or output, "" if it has none."""
    name = end.at("name").value
    return name if isinstance(name, str) else ""


def system_of(end: Cursor) -> System:
    """Return the system that an input or output refers to."""
    path = end.at("path").value
    return path.strip("/") if isinstance(path, str) else "", name_of(end)


def sizes_of(place: Cursor) -> dict[str, int]:
    """Return the number of axes of each coordinate system, by its name."""
    sizes: dict[str, int] = {}
    for system in place.at("coordinateSystems").children():
        name = name_of(system)
        if name:
            # Of two systems of one name the first is used.
            sizes.setdefault(name, len(system.at("axes").children()))
    return sizes


def check_links(place: Cursor, intrinsic: str | None) -> None:
    """Report on the ``coordinateTransformations`` of a multiscale or a scene.

    Parameters
    ----------
    place
        At the multiscale or the scene.
    intrinsic
        Name of the multiscale's own system; None for a scene.
    """
    links = place.at("coordinateTransformations")
    sizes = sizes_of(place)
    apply_rules(LINKS, links, VERSION)
    for link in links.children():
        inputs, outputs = (
            # The axes of another group's system are not known here.
            None if end.at("path").is_present else sizes.get(name_of(end))
            for end in map(link.at, ENDS)
        )
        check_transformation(link, TransformPlace(VERSION, inputs, outputs))
        for end in map(link.at, ENDS):
            path, name = system_of(end)
            if name and not path and name not in sizes:
                text = (
                    '"These fields MUST correspond to the name of a coordinate system."'
                    f' Here none is called "{name[:40]}".'
                )
                # A valid multiscale of the specification breaks it; no scene does.
                severity = MUST if intrinsic is None else SHOULD
                consequence = "The transformation is not used."
                end.add_problem(severity, "transform-system-unknown", text, consequence)
        if intrinsic and ("", intrinsic) not in map(system_of, map(link.at, ENDS)):
            text = (
                '"The value of input [or output] MUST equal the name of the intrinsic '
                f'coordinate system", "{intrinsic[:40]}".'
            )
            link.report_warning(
                "transform-not-intrinsic", text, "It is followed anyway."
            )
    check_graph(place, sizes)


def check_graph(place: Cursor, sizes: dict[str, int]) -> None:
    """Report coordinate systems that no chain of transformations reaches.

    All systems of another image count as one: its own document connects them.
    """
    near: dict[System, list[System]] = {("", name): [] for name in sizes}
    for link in place.at("coordinateTransformations").children():
        first, last = (
            (path, "" if path else name)
            for path, name in map(system_of, map(link.at, ENDS))
        )
        near.setdefault(first, []).append(last)
        near.setdefault(last, []).append(first)
    # From any system; in a connected graph all others are reached from it.
    waiting = list(near)[:1]
    reached = set(waiting)
    while waiting:
        new = [node for node in near[waiting.pop()] if node not in reached]
        reached.update(new)
        waiting += new
    lost = [node for node in near if node not in reached]
    if lost:
        path, name = lost[0]
        text = (
            '"The graph MUST be fully connected in the sense that any two coordinate '
            'systems in the metadata MUST be connected by a sequence of edges." Here '
            f'"{(path or name)[:40]}" is not connected with the first.'
        )
        # A valid case of the specification breaks this MUST.
        place.report_warning(
            "systems-unconnected", text, "It cannot be chosen for display."
        )
