"""Rendering settings: parses ``omero`` and ``image-label``, and changes ``omero``."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.model import (
    CLASS_KEYS,
    JSON,
    KIND,
    MOST_CLASSES,
    OWN,
    Channel,
    Consequence,
    ContrastWindow,
    LabelInfo,
    LabelKind,
    Omero,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.metadata.version import Version

__all__ = ["parse_label", "parse_omero", "put_omero"]

HEX = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")


def parse_omero(omero: Cursor) -> Omero | None:
    """Read an ``omero`` object; a channel is never left out, so that each keeps its
    index. None where there is no object.
    """
    if not omero.is_object():
        return None
    channels = omero.at("channels")
    channels.require_value(
        'If "omero" is there, it MUST have "channels".', "None is set."
    )
    rdefs = omero.at("rdefs")
    # Only to report another value, from which nothing is read.
    rdefs.is_object()
    return Omero(
        omero.at("name").read_text(),
        tuple(parse_channel(channel) for channel in channels.list_items()),
        parse_index(rdefs.at("defaultT")),
        parse_index(rdefs.at("defaultZ")),
        rdefs.at("model").read_text() == "greyscale",
    )


def parse_index(index: Cursor) -> int | None:
    """Read an index on an axis."""
    value = index.read_integer()
    if value is not None and value < 0:
        index.report_expected("an index from 0 on")
        return None
    return value


def parse_channel(channel: Cursor) -> Channel:
    # Reports another value, of which no setting is read: the channel keeps its place.
    channel.is_object()
    return Channel(
        channel.at("label").read_name(),
        parse_color(channel.at("color")),
        parse_window(channel.at("window")),
        channel.at("active").read_flag(),
        bool(channel.at("inverted").read_flag()),
    )


def parse_color(color: Cursor) -> tuple[int, int, int] | None:
    """Read "0000FF"; also "#0000ff", "00f" and, without its alpha, "0000ffff"."""
    text = color.read_text()
    if text is None:
        return None
    match = HEX.fullmatch(text)
    if match is None:
        color.report_expected(
            "6 hexadecimal digits", "The channel has no colour in the file."
        )
        return None
    # "#", three digits, or alpha behind: other programs write them, and all is clear.
    digits = match[1]
    if len(text) != 6:
        color.report_warning(
            "channel-color-form",
            "A colour has 6 digits and nothing else.",
            "It is read.",
        )
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    red, green, blue, *_ = bytes.fromhex(digits)
    return red, green, blue


def parse_window(window: Cursor) -> ContrastWindow | None:
    """Read the limits that are stated; a pair in the wrong order is ignored."""
    if not window.is_object():
        return None
    limits = {
        key: window.at(key).read_number() for key in ("start", "end", "min", "max")
    }
    for low, high in (("start", "end"), ("min", "max")):
        first, last = limits[low], limits[high]
        if first is not None and last is not None and first >= last:
            text = f'"{low}" ({first:g}) is not below "{high}" ({last:g}).'
            window.report_error("window-empty", text, "The two are ignored.")
            # Both, since which of them is wrong is unknown.
            limits[low] = limits[high] = None
    return (
        ContrastWindow(**limits)
        if any(v is not None for v in limits.values())
        else None
    )


def put_omero(
    home: JSON, shown: Omero, before: Omero, channels: Iterable[int], version: Version
) -> None:
    """Put what is shown otherwise than before into the metadata of an image, in place.

    The rest may have been changed by another program meanwhile, and stays.

    Parameters
    ----------
    home
        The object that has ``multiscales``.
    shown, before
        The settings as they shall be, and as they were read.
    channels
        Numbers of the channels that are put.
    version
        Of the image.

    Raises
    ------
    AttributeError, TypeError
        Where the block, or a part of it, is of another type.
    """
    new, old = _describe_omero(shown), _describe_omero(before)
    block = {} if version.has_ome_key else {"version": version}
    omero = _part_at(home, "omero", block)
    entries = _part_at(omero, "channels", [])
    for i in sorted(channels):
        known = old["channels"][i : i + 1] or [{}]
        if i >= len(entries):
            known = [{}]
            entries += [{} for _ in range(i + 1 - len(entries))]
        _put_changes(entries[i], new["channels"][i], known[0])
    _put_changes(omero, {"rdefs": new["rdefs"]}, old)


def _describe_omero(omero: Omero) -> JSON:
    """Return the settings as a file has them."""
    content = asdict(omero)
    for channel in content["channels"]:
        color = channel["color"]
        channel["color"] = None if color is None else bytes(color).hex().upper()
    model = "greyscale" if omero.greyscale else "color"
    places = {"defaultT": omero.default_t, "defaultZ": omero.default_z}
    return {**content, "rdefs": {**places, "model": model}}


def _put_changes(part: Any, shown: JSON, before: JSON) -> None:
    for key, value in shown.items():
        if value is None or value == before.get(key):
            continue
        if not isinstance(value, dict):
            part[key] = value
            continue
        inner, old, new = _part_at(part, key, {}), before.get(key) or {}, value
        if key == "window":
            # As a whole: with the start of another program, ours might end before it.
            # OME-Zarr wants both within the range of the file.
            old = asdict(parse_window(Cursor(inner, key, [])) or ContrastWindow())
            low = value["min"] if old["min"] is None else old["min"]
            high = value["max"] if old["max"] is None else old["max"]
            limits = {"min": min(low, value["start"]), "max": max(high, value["end"])}
            new = {**value, **limits}
        _put_changes(inner, new, old)


def _part_at(parent: JSON, key: str, empty: Any) -> Any:
    """Return a part of a block, which is made where there is none."""
    if parent.get(key) is None:
        parent[key] = empty
    return parent[key]


def parse_label(label: Cursor, beside: Cursor) -> LabelInfo | None:
    """Read an ``image-label`` object.

    Parameters
    ----------
    label
        At it.
    beside
        At a ``source`` outside of it, where the examples of 0.2 to 0.4 have it.

    Returns
    -------
    LabelInfo or None
        None where there is no value; empty where it is not an object.
    """
    if not label.is_object():
        return LabelInfo() if label.is_present else None
    colors = {
        # A label without a usable colour gets one from the viewer.
        value: color
        for value, entry in by_value(label.at("colors")).items()
        if (color := parse_rgba(entry.at("rgba"))) is not None
    }
    properties = {
        value: {key: content for key, content in entry.items() if key != "label-value"}
        for value, cursor in by_value(label.at("properties")).items()
        if isinstance(entry := cursor.value, dict)
    }
    # In the label first, where the text of the specification has it.
    source = label.at("source") if label.at("source").is_present else beside
    path = source.at("image").read_text() if source.is_object() else None
    kind = LabelKind.parse(label.at(KIND).value)
    prefixed = prefix_class_keys(properties)
    return LabelInfo(colors, prefixed, path or LabelInfo().source, kind)


def prefix_class_keys(properties: dict[int, JSON]) -> dict[int, JSON]:
    """Give the keys of classes the prefix that they lack in files of earlier releases.

    Labels in large numbers, which are objects with a name, keep their keys.
    """
    name = CLASS_KEYS[0]
    named = {v: row for v, row in properties.items() if isinstance(row.get(name), str)}
    if len(named) > MOST_CLASSES:
        return properties
    moved = {}
    for value, row in named.items():
        older = {f"{OWN}{key}": row[key] for key in CLASS_KEYS if key in row}
        moved[value] = older | {k: v for k, v in row.items() if k not in CLASS_KEYS}
    return properties | moved


def by_value(entries: Cursor) -> dict[int, Cursor]:
    """Go to the entry of each label value; the last one where there are several, as
    0.1 to 0.4 say: "ignore all except the last entry".
    """
    result: dict[int, Cursor] = {}
    for entry in entries.list_items():
        if not entry.is_object():
            continue
        stated = entry.at("label-value")
        stated.require_value(
            'MUST contain the key "label-value".', Consequence.LEFT_OUT
        )
        value = stated.read_integer()
        if value is None:
            continue
        if value in result:
            text = f"The label value {value} MUST be unique."
            entry.report_error("label-value-duplicate", text, "The last entry counts.")
        result[value] = entry
    return result


def parse_rgba(rgba: Cursor) -> tuple[int, int, int, int] | None:
    """Read red, green, blue, alpha; None where absent or not four of 0 to 255."""
    values = rgba.value if isinstance(rgba.value, list) else []
    # 255.0 is in range(256), and True would be, too.
    numbers = [int(v) for v in values if type(v) in (int, float) and v in range(256)]
    if len(values) == len(numbers) == 4:
        red, green, blue, alpha = numbers
        return red, green, blue, alpha
    if rgba.is_present:
        rgba.report_expected(
            "4 integers from 0 to 255", "The label has no colour in the file."
        )
    return None
