"""Parses coordinate systems and links between them: 0.6 and its drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.axes import parse_axes
from napari_ngff.metadata.model import Consequence
from napari_ngff.metadata.systems import CoordinateSystem, Reference, Scene, SystemLink
from napari_ngff.metadata.transform_parse import ParseScope, parse_transformation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ngff.metadata.cursor import Cursor

__all__ = ["is_draft_scene", "parse_links", "parse_scene", "parse_systems"]


def parse_scene(home: Cursor) -> Scene | None:
    """Read ``scene``; in drafts it is the group itself."""
    scene = home.at("scene")
    if not scene.is_object():
        if not is_draft_scene(home):
            return None
        text = 'From 0.6.dev3 on the transformations between images are in "scene".'
        home.report_error("scene-missing", text, "The group is read as a scene.")
        scene = home
    systems = parse_systems(scene.at("coordinateSystems"))
    links = scene.at("coordinateTransformations")
    links.require_value(
        'A scene MUST contain "coordinateTransformations".', "It is empty."
    )
    return Scene(systems, parse_links(links, {s.name: s for s in systems}))


def is_draft_scene(home: Cursor) -> bool:
    """Return whether a group is a scene of 0.6.dev1 or dev2.

    These have transformations between images at the group itself, with references that
    the transformation of a field does not have.
    """
    transforms = home.at("coordinateTransformations").children()
    return any(transform.at("input").is_present for transform in transforms)


def parse_systems(systems: Cursor) -> tuple[CoordinateSystem, ...]:
    """Read a list of coordinate systems, one for each object in it.

    Of several that have one name, only the first can be referred to.
    """
    parsed: list[CoordinateSystem] = []
    for item in systems.list_items():
        if not item.is_object():
            continue
        name = item.at("name").read_text() or ""
        # An unnamed system is kept once: it may be the only one.
        if any(system.name == name for system in parsed):
            text = f"The name MUST be unique, {name[:40]!r} is not, or missing."
            item.report_error(
                "coordinate-system-name", text, "It cannot be referred to."
            )
            continue
        axes = parse_axes(item.at("axes"), 6)
        if not axes:
            text = 'A coordinate system MUST contain the field "axes".'
            item.report_error(
                "axes-missing", text, "The dimensions of the arrays decide."
            )
        parsed.append(CoordinateSystem(name, axes))
    return tuple(parsed)


def parse_links(
    links: Cursor, systems: Mapping[str, CoordinateSystem]
) -> tuple[SystemLink, ...]:
    """Read a list of transformations that state their ends.

    Parameters
    ----------
    links
        At the list.
    systems
        Those of the same group by name.
    """
    parsed = (parse_link(item, systems) for item in links.list_items())
    return tuple(link for link in parsed if link is not None)


def parse_link(
    link: Cursor, systems: Mapping[str, CoordinateSystem]
) -> SystemLink | None:
    """Read one transformation and its ends; None where a part of it is unusable."""
    if not link.is_object():
        return None
    ends = parse_reference(link.at("input")), parse_reference(link.at("output"))
    scope = ParseScope(axis_names(ends[0], systems), axis_names(ends[1], systems))
    transformation = parse_transformation(link, scope)
    if transformation is None or ends[0] is None or ends[1] is None:
        return None
    return SystemLink(
        ends[0], ends[1], transformation, link.at("name").read_text() or ""
    )


def axis_names(
    end: Reference | None, systems: Mapping[str, CoordinateSystem]
) -> tuple[str, ...] | None:
    if end is None or end.path or end.name not in systems:
        # Axes of a system in another group are not known here.
        return None
    return tuple(axis.name for axis in systems[end.name].axes)


def parse_reference(reference: Cursor) -> Reference | None:
    """Read an ``input`` or ``output``; None where there is none."""
    if isinstance(reference.value, str):
        reference.report_expected("an object", "It is used as the name of the system.")
        return Reference(name=reference.value)
    rule = 'A transformation MUST contain the fields "input" and "output".'
    if (
        not reference.require_value(rule, Consequence.TRANSFORM_LEFT_OUT)
        or not reference.is_object()
    ):
        return None
    # Not `read_path`, which refuses paths out of the group.
    path = (reference.at("path").read_text() or "").strip("/")
    name = reference.at("name").read_text() or ""
    if not path and not name:
        reference.report_error(
            "reference-empty",
            "A reference MUST have a name.",
            Consequence.TRANSFORM_LEFT_OUT,
        )
        return None
    return Reference(path, name)
