"""Named classes of labels, stored in the colours and properties of the label image.

An entry of ``image-label.properties`` is a class if it has the key `NAME`. Its other
keys are those of `KEYS`; defaults are left out. The colour is in
``image-label.colors``, where every program looks. See docs/annotate.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.labels.class_colors import free_color
from napari_ngff.metadata.model import (
    CLASS_KEYS,
    MOST_CLASSES,
    OWN,
    LabelInfo,
    LabelKind,
)
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.labels.used_labels import UsedLabels

KEYS = tuple(f"{OWN}{key}" for key in CLASS_KEYS)
NAME, LOCKED, HIDDEN, PLACE = KEYS

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
    """

    value: int
    name: str
    color: tuple[int, int, int, int]
    locked: bool = False
    hidden: bool = False


def with_classes_in_use(
    existing: Sequence[LabelClass],
    in_use: Sequence[LabelClass],
    pixels: UsedLabels | None = None,
) -> tuple[LabelClass, ...]:
    """Add the classes in use to the classes of a label image, in the same order.

    A class of a name that is there is not added, but locked if one of both is, and
    hidden as the one in use: that is how the user works. One whose label means another
    class here, or that pixels have, gets a free label, and a free colour if a class
    has the same.

    Parameters
    ----------
    pixels
        Of the label image; None where it has none.
    """
    joined = list(existing)
    names, values = [item.name for item in existing], {item.value for item in existing}
    # Of both lists, so that no later class of `in_use` needs the same value.
    taken = values | {item.value for item in in_use}
    place = 0  # behind the class before, so that number keys mean the same classes
    for item in in_use:
        if item.name in names:
            place = names.index(item.name)
            known = joined[place]
            is_locked = known.locked or item.locked
            joined[place] = replace(known, locked=is_locked, hidden=item.hidden)
            place += 1
            continue
        value, color = item.value, item.color
        if value in values or (pixels is not None and pixels.has(value)):
            value = max(taken) + 1 if pixels is None else pixels.find_free(taken)
            taken.add(value)
            used = [label_class.color for label_class in joined]
            if color in used:
                # Those that are added later keep their colours, too.
                color = free_color(each.color for each in (*joined, *in_use))
        added = replace(item, value=value, color=color)
        joined.insert(place, added)
        names.insert(place, added.name)
        values.add(value)
        place += 1
    return tuple(joined)


def has_marked_classes(info: LabelInfo) -> bool:
    """Return whether a class of a label image is locked or hidden."""
    return info.kind is not LabelKind.OBJECTS and any(
        NAME in row and (row.get(LOCKED) or row.get(HIDDEN))
        for row in info.properties.values()
    )


def kind_of(info: LabelInfo) -> LabelKind:
    """Return the kind of a label image; by what it holds where it is not stated."""
    held = LabelKind.CLASSES if classes_of(info) else LabelKind.OBJECTS
    return info.kind or held


def used_classes(info: LabelInfo) -> tuple[LabelClass, ...]:
    """Read the classes of a label image; none of objects, which may have kept some."""
    return () if info.kind is LabelKind.OBJECTS else classes_of(info)


def classes_of(info: LabelInfo) -> tuple[LabelClass, ...]:
    """Read the classes of a label image, in their order.

    What other programs wrote under the same keys is taken as far as it makes sense.
    """
    numbered_classes: list[tuple[Any, LabelClass]] = []
    for value, row in info.properties.items():
        name = row.get(NAME)
        # 0 is the background, which nobody paints.
        if value == 0 or not isinstance(name, str):
            continue
        order = row.get(PLACE)
        label_class = LabelClass(
            value,
            name,
            info.colors.get(value) or free_color(c.color for _, c in numbered_classes),
            row.get(LOCKED) is True,
            row.get(HIDDEN) is True,
        )
        # Classes without a number come last, in the order of the file.
        numbered = isinstance(order, int | float)
        numbered_classes.append((order if numbered else float("inf"), label_class))
    if len(numbered_classes) > MOST_CLASSES:
        return ()
    return tuple(
        label_class
        for _, label_class in sorted(numbered_classes, key=lambda pair: pair[0])
    )


def find_class_conflicts(
    own: LabelInfo, before: LabelInfo, stored: LabelInfo
) -> tuple[tuple[LabelClass, LabelClass], ...]:
    """Find labels that became one class here, and another one in the file meanwhile.

    Parameters
    ----------
    own
        What is to be written.
    before
        What the file had when it was read.
    stored
        What it has now.

    Returns
    -------
    tuple
        The class here and the class in the file, for each such label.
    """
    names = {item.value: item.name for item in classes_of(before)}
    others = {item.value: item for item in classes_of(stored)}
    return tuple(
        (item, others[item.value])
        for item in classes_of(own)
        if item.value in others
        and len({names.get(item.value), item.name, others[item.value].name}) == 3
    )


def keep_stored_classes(
    own: LabelInfo, conflicts: Sequence[tuple[LabelClass, LabelClass]]
) -> LabelInfo:
    """Replace classes by those that the file has by now; see `find_class_conflicts`."""
    stored = {item.value: item for _, item in conflicts}
    classes = [stored.get(item.value, item) for item in classes_of(own)]
    return with_classes(own, classes) if stored else own


def with_classes(info: LabelInfo, classes: Sequence[LabelClass]) -> LabelInfo:
    """Replace the classes of a label image; everything else stays.

    A label that is no class any more keeps its other properties, not its colour.
    """
    before = {item.value for item in classes_of(info)}
    # A label that lost its class is an object among others: no colour of its own.
    gone = before - {item.value for item in classes}
    colors = {v: rgba for v, rgba in info.colors.items() if v not in gone}
    properties = dict(info.properties)
    for value in before:
        rest = {k: item for k, item in properties[value].items() if k not in KEYS}
        properties[value] = rest
        if value in gone and not rest:
            del properties[value]
    for order, item in enumerate(classes):
        colors[item.value] = item.color
        stated = {
            NAME: item.name,
            # Defaults are left out, so that a plain class is a plain entry.
            LOCKED: item.locked or None,
            HIDDEN: item.hidden or None,
            PLACE: order,
        }
        stated_keys = {key: item for key, item in stated.items() if item is not None}
        properties[item.value] = properties.get(item.value, {}) | stated_keys
    return replace(info, colors=colors, properties=properties)


def rename_class(info: LabelInfo, name: str, new_name: str) -> LabelInfo | None:
    """Give a class of a label image another name; everything else stays.

    Returns
    -------
    LabelInfo or None
        None where there is no such class, or one with the new name as well.
    """
    names = [item.name for item in classes_of(info)]
    if name not in names or new_name in names:
        return None
    properties = {
        value: {**row, NAME: new_name} if row.get(NAME) == name else row
        for value, row in info.properties.items()
    }
    return replace(info, properties=properties)


def dump_classes(classes: Sequence[LabelClass]) -> str:
    """Write classes as JSON, for other images."""
    rows = [_dump_class(item) for item in classes]
    return json.dumps({"format": FORMAT, "version": 1, "classes": rows}, indent=2)


def dump_kept_classes(
    classes: Sequence[LabelClass],
    removed: Iterable[int] = (),
    kind: LabelKind | None = None,
) -> str:
    """Write classes as JSON with all that is known of them, for the same image.

    Parameters
    ----------
    removed
        Values of classes that the user has removed.
    kind
        Of the labels, where it is stated.
    """
    rows = [
        {
            **_dump_class(item),
            "locked": item.locked,
            "hidden": item.hidden,
        }
        for item in classes
    ]
    content = {"format": FORMAT, "version": 1, "classes": rows}
    return json.dumps({**content, "removed": sorted(removed), "kind": kind})


def load_kept_classes(
    text: str,
) -> tuple[tuple[LabelClass, ...], frozenset[int], LabelKind | None]:
    """Read what `dump_kept_classes` wrote: classes, values of removed ones, the kind.

    Raises
    ------
    ValueError
        Where it is something else.
    """
    classes = load_classes(text)
    content = parse_json(text)
    whole = (
        replace(item, locked=bool(row.get("locked")), hidden=bool(row.get("hidden")))
        for item, row in zip(classes, content.get("classes", ()), strict=True)
    )
    removed = frozenset(int(value) for value in content.get("removed", ()))
    return tuple(whole), removed, LabelKind.parse(content.get("kind"))


def _dump_class(item: LabelClass) -> dict[str, Any]:
    return {"value": item.value, "name": item.name, "color": list(item.color)}


def load_classes(text: str) -> tuple[LabelClass, ...]:
    """Read what `dump_classes` wrote.

    Raises
    ------
    ValueError
        Where it is something else; the message says what.
    """
    try:
        content = parse_json(text)
    except ValueError as error:
        raise ValueError(f"Not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'Not a list of classes: "format" is not "{FORMAT}".')
    classes, rows = [], content.get("classes", ())
    if not isinstance(rows, list | tuple):
        raise ValueError(f'Not a list of classes: "classes" is {rows!r:.40}.')
    for row in rows:
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
    if len({item.value for item in classes}) < len(classes):
        raise ValueError("Two classes have the same value.")
    return tuple(classes)
