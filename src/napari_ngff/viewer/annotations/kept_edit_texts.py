"""What the user reads about kept edits: of which labels, how many, and what to do."""

from __future__ import annotations

import datetime
import os
import re
from typing import TYPE_CHECKING

from napari_ngff.viewer.services.notices import count_noun, shorten_name

if TYPE_CHECKING:
    from napari_ngff.labels.kept_edits import KeptEdits

TAKEN = "Another window has these edits now.\nThose of '{}' were left to it."

UNFIT = (
    "Not restored: {}.\nKept: {}. The edits were painted on {} pixels, and {} has {}."
    " Open {} to restore them."
)

CLOSED = "Not restored: {}.\nKept: {}. The image is not open; open {} to restore them."

BUSY = (
    "Not restored: {}.\nKept: {}. The layer has other edits; save or undo them, and"
    " open the image again."
)

UNREADABLE = "Some kept edits cannot be restored."

LEFT = (
    "Kept: {}.\n{}. To restore, choose Layers ▸ Annotate ▸ Restore edits…, or open"
    " the image again."
)

REMOVED = (
    "Not saved: {}.\nIts layer was removed, and its unsaved changes are kept. To"
    " restore them, choose Layers ▸ Annotate ▸ Restore edits…."
)

NOTHING_KEPT = "No edits to restore.\nNone were kept of the images that are open."

FILE = re.compile(r"[^/\\]+\.(?:zarr|ozx|zip)\b", re.IGNORECASE)
"""Name of a hierarchy in a path or an address."""


def describe_edits(
    kept: KeptEdits, now: datetime.datetime | None = None, name: str = ""
) -> str:
    """Describe a journal: "2 edits of 'mitosis' (cells.ome.zarr, today 16:11)".

    With a `name`, of the field: "2 edits of 'a' (B3, field 2, p.zarr, today 16:11)".
    """
    now = now or datetime.datetime.now().astimezone()
    then = datetime.datetime.fromtimestamp(kept.time, now.tzinfo)
    days = (now.date() - then.date()).days
    day = {0: "today", 1: "yesterday"}.get(days, f"{then.day} {then:%b %Y}")
    file = file_of(kept.image or kept.place)
    file = f"{name}, {file.partition(' ')[0]}" if name else file
    where_and_when = f"{file}, {day} {then:%H:%M}".removeprefix(", ")
    return f"{count_edits(kept)} ({where_and_when})"


def count_edits(kept: KeptEdits) -> str:
    """Return a text such as "2 edits and changed classes of 'mitosis'"."""
    parts = [count_noun(kept.count, kept.noun)] if kept.count else []
    if kept.has_classes:
        parts.append("changed classes" if parts else "Changed classes")
    return f"{' and '.join(parts)} of '{shorten_name(kept.name)}'"


def file_of(address: str) -> str:
    """Return the name of a hierarchy, and the path in it: "plate.ome.zarr A/1/0"."""
    matches = list(FILE.finditer(address))
    if not matches:
        return os.path.basename(address.rstrip("/\\")) or address
    inside = address[matches[-1].end() :].strip("/\\").replace("\\", "/")
    return f"{matches[-1][0]} {inside}".rstrip()
