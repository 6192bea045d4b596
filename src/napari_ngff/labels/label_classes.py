"""Named classes of labels, kept in the label image's own colours and properties.

In ``image-label.properties`` an entry that has the key `NAME` is a class; its other
keys are those of `KEYS`, each left out where it says nothing. A plain "class" is often
that of an object, of which there are many. The colour stands in ``image-label.colors``,
where every program looks. See docs/annotate.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import LabelInfo

__all__ = [
    "PALETTE",
    "STATES",
    "LabelClass",
    "classes_of",
    "color_of_new",
    "dump_classes",
    "free_color",
    "load_classes",
    "with_classes",
    "with_classes_in_use",
]

STATES = ("to do", "in progress", "done", "flagged")

NAME, STATE, LOCKED, HIDDEN, PLACE = (
    "class-name",
    "class-state",
    "class-locked",
    "class-hidden",
    "class-order",
)
KEYS = (NAME, STATE, LOCKED, HIDDEN, PLACE)

PALETTE = (
    (230, 159, 0, 255),
    (86, 180, 233, 255),
    (0, 158, 115, 255),
    (240, 228, 66, 255),
    (0, 114, 178, 255),
    (213, 94, 0, 255),
    (204, 121, 167, 255),
    (221, 221, 221, 255),
    (136, 34, 85, 255),
)
"""Red, green, blue, alpha of new classes, which people with any usual kind of colour
blindness can tell apart: the eight of Okabe and Ito (2008) without black; pale grey and
the wine of Tol (2021)."""

MOST = 255
"""Where more labels have such a name, they are objects, and no classes."""

FORMAT = "napari-ngff-classes"
"""Names the files of `dump_classes`."""


@dataclass(frozen=True, slots=True)
class LabelClass:
    """One class: a label value with a meaning.

    Attributes
    ----------
    value
        The label in the pixels; not 0.
    color
        Red, green, blue, alpha, each 0-255.
    state
        One of `STATES`.
    """

    value: int
    name: str
    color: tuple[int, int, int, int]
    state: str = STATES[0]
    locked: bool = False
    hidden: bool = False


def free_color(classes: Sequence[LabelClass]) -> tuple[int, int, int, int]:
    """Propose the colour of the palette that is least used."""
    used = [one.color for one in classes]
    return min(PALETTE, key=used.count)


def color_of_new(
    value: int, classes: Sequence[LabelClass]
) -> tuple[int, int, int, int]:
    """Propose the colour of a new class: that of its label, or else a free one.

    New labels have the colours of the palette in the order of their values.
    """
    usual = PALETTE[(value - 1) % len(PALETTE)]
    return free_color(classes) if usual in [c.color for c in classes] else usual


def with_classes_in_use(
    own: Sequence[LabelClass], in_use: Sequence[LabelClass]
) -> tuple[LabelClass, ...]:
    """Add classes of other labels to those that labels have of their own.

    A class of a name that is there is not added. One whose label means another class
    here gets a free label.
    """
    found = list(own)
    names, values = {one.name for one in own}, {one.value for one in own}
    free = 1 + max(values | {one.value for one in in_use}, default=0)
    for one in in_use:
        if one.name in names:
            continue
        value = one.value
        if value in values:
            value, free = free, free + 1
        found.append(replace(one, value=value, state=STATES[0]))
        values.add(value)
    return tuple(found)


def classes_of(info: LabelInfo) -> tuple[LabelClass, ...]:
    """Read the classes of a label image, in their order.

    What other programs wrote under the same keys is taken as far as it makes sense.
    """
    found: list[tuple[Any, LabelClass]] = []
    for value, row in info.properties.items():
        name = row.get(NAME)
        if value == 0 or not isinstance(name, str):
            continue
        state, place = row.get(STATE), row.get(PLACE)
        one = LabelClass(
            value,
            name,
            info.colors.get(value) or free_color([c for _, c in found]),
            state if state in STATES else STATES[0],
            row.get(LOCKED) is True,
            row.get(HIDDEN) is True,
        )
        numbered = isinstance(place, int | float)
        found.append((place if numbered else float("inf"), one))
    if len(found) > MOST:
        return ()
    return tuple(one for _, one in sorted(found, key=lambda pair: pair[0]))


def with_classes(info: LabelInfo, classes: Sequence[LabelClass]) -> LabelInfo:
    """State classes in place of those that are there; all else stays.

    A label that is no class any more keeps its other properties, not its colour.
    """
    before = {one.value for one in classes_of(info)}
    gone = before - {one.value for one in classes}
    colors = {v: rgba for v, rgba in info.colors.items() if v not in gone}
    properties = dict(info.properties)
    for value in before:
        rest = {k: item for k, item in properties[value].items() if k not in KEYS}
        properties[value] = rest
        if value in gone and not rest:
            del properties[value]
    for place, one in enumerate(classes):
        colors[one.value] = one.color
        stated = {
            NAME: one.name,
            STATE: one.state if one.state != STATES[0] else None,
            LOCKED: one.locked or None,
            HIDDEN: one.hidden or None,
            PLACE: place,
        }
        stated_keys = {key: item for key, item in stated.items() if item is not None}
        properties[one.value] = properties.get(one.value, {}) | stated_keys
    return replace(info, colors=colors, properties=properties)


def dump_classes(classes: Sequence[LabelClass]) -> str:
    """Write classes as JSON, for other images; states stay with the image."""
    rows = [
        {"value": one.value, "name": one.name, "color": list(one.color)}
        for one in classes
    ]
    return json.dumps({"format": FORMAT, "version": 1, "classes": rows}, indent=2)


def load_classes(text: str) -> tuple[LabelClass, ...]:
    """Read what `dump_classes` wrote.

    Raises
    ------
    ValueError
        Where it is something else; the message says what.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"Not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'Not a list of classes: "format" is not "{FORMAT}".')
    classes = []
    for row in content.get("classes", ()):
        try:
            value, name = int(row["value"]), str(row["name"])
            red, green, blue, alpha = (int(part) for part in row["color"])
        except (KeyError, TypeError, ValueError) as error:
            msg = f"A class needs a value, a name and four parts of a colour: {row}"
            raise ValueError(msg) from error
        color = red, green, blue, alpha
        if value == 0 or not all(0 <= part <= 255 for part in color):
            raise ValueError(f"Value 0 is the background, and colours 0-255: {row}")
        classes.append(LabelClass(value, name, color))
    if len({one.value for one in classes}) < len(classes):
        raise ValueError("Two classes have the same value.")
    return tuple(classes)
