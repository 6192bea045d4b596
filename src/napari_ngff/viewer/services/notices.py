"""Writes messages for napari's notifications: result first, whole paths last."""

from __future__ import annotations

import datetime
import enum
import os
import re
from typing import TYPE_CHECKING

from napari_ngff.addresses import name_server
from napari_ngff.errors import AGAIN, LISTED, LOG_IN, REOPEN, ChunkError, may_pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.labels.kept_edits import KeptEdits


MOST_IN_LINE = 40
"""Letters of a notification that napari shows without a click."""

SHORT = 24
"""Most letters of a name in the first line, which has the result as well."""

LONG = 60
"""Most letters of the name of an image in a sentence that is wrapped."""

MOST_SHOWN, MOST_PATHS = 5, 3
"""Most messages that are written out, and whole paths; other messages are counted."""

MOST_LETTERS, MOST_IN_PATH = 700, 240
"""Letters of all messages together, and of a path: napari shows nothing of a
notification that is opened and higher than the canvas, which has room for 43 lines in a
window of 1280 x 800."""

# An address, a path from the root, or one with a drive; a full stop or comma at its end
# belongs to the sentence.
PATH = re.compile(
    r"(?:\w+://|(?<![\w.])/|\b[A-Za-z]:[\\/])[^\s\"'<>|]*[^\s\"'<>|.,;:)]"
)
ROOT = re.compile(r"[^/\\]*\.(?:zarr|ozx|zip)\b.*", re.IGNORECASE)
LEADING = re.compile(rf"^({PATH.pattern})(?:: | )(?=[A-Z])(.+)$", re.DOTALL)


def notice_text(messages: Sequence[str], result: str) -> str:
    """Write messages as one notification.

    Parameters
    ----------
    messages
        Sentences; paths in them are cut to their last part.
    result
        The first line, at most `MOST_IN_LINE` letters.
    """
    shown = messages[:MOST_SHOWN]
    lines = [result, *(_cut_message(x, MOST_LETTERS // len(shown)) for x in shown)]
    if len(messages) > MOST_SHOWN:
        lines.append(f"... and {len(messages) - MOST_SHOWN} more")
    paths = [p for text in shown for p in PATH.findall(text)]
    # Whole paths come last, each once, so that they can be copied.
    whole = [
        path
        for path in dict.fromkeys(paths)
        if last_part(path) != path and len(path) <= MOST_IN_PATH
    ]
    return "\n".join([*lines, *whole[:MOST_PATHS]])


def _cut_message(message: str, most: int) -> str:
    """Write a message in one line of at most so many letters."""
    text = " ".join(shorten_message(message).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shorten_message(message: str) -> str:
    """Move a path at the beginning of a message to its end, and shorten all paths."""
    leading = LEADING.match(message)
    if leading is not None:
        message = f"{leading[2].rstrip()} ({leading[1]})"
    return PATH.sub(lambda match: last_part(match[0]), message)


def shorten_name(name: str) -> str:
    """Cut a name to `SHORT` letters."""
    return name if len(name) <= SHORT else f"{name[: SHORT - 1]}…"


def last_part(path: str) -> str:
    """Return a path from the OME-Zarr on, or its last part.

    >>> last_part("/data/cells.zarr/0"), last_part("/data/a/b"), last_part("/data/a/0")
    ('cells.zarr/0', 'b', 'a/0')
    """
    inside = ROOT.search(path)
    if inside:
        return inside[0]
    parts = re.split(r"[/\\]", path.rstrip("/\\"))
    # A number alone, such as that of a field or of a series, names no file.
    return "/".join(parts[-2:]) if parts[-1].isdigit() else parts[-1]


def title_addresses(addresses: Iterable[str]) -> dict[str, str]:
    """Title addresses by their last parts; alike ones by the whole address as well."""
    names = {address: last_part(address) for address in addresses}
    alike = [*names.values()]
    return {
        address: name if alike.count(name) == 1 else f"{name} ({address})"
        for address, name in names.items()
    }


def join_names(names: Sequence[str]) -> str:
    """Write "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def count_noun(number: int, noun: str) -> str:
    """Write "1 problem" or "2 problems"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class FailureKind(enum.Enum):
    """Why chunks cannot be read, as far as it matters to a user."""

    UNREACHED = "unreached"
    REFUSED = "refused"
    CHANGED = "changed"
    ABSENT = "absent"
    UNREADABLE = "unreadable"
    DAMAGED = "damaged"


def kind_of(error: ChunkError) -> FailureKind:
    """Return the kind of an error."""
    kinds = {
        AGAIN: FailureKind.UNREACHED,
        LOG_IN: FailureKind.REFUSED,
        REOPEN: FailureKind.CHANGED,
        LISTED: FailureKind.ABSENT,
    }
    usual = FailureKind.UNREADABLE if may_pass(error) else FailureKind.DAMAGED
    return kinds.get(error.remedy, usual)


def failure_text(
    name: str, count: int, kind: FailureKind, address: str = "", noun: str = "chunk"
) -> str:
    """Write how many chunks of an image cannot be read, and what comes next.

    Parameters
    ----------
    name
        Of the image.
    count
        Number of chunks.
    kind
        Why.
    address
        Of the file; its server is named.
    noun
        What cannot be read: "chunk", or "well" of an overview.
    """
    name = name if len(name) <= LONG else f"{name[: LONG - 1]}…"
    chunks, host = count_noun(count, noun), name_server(address)
    again = ("It is", "itself") if count == 1 else ("They are", "themselves")
    match kind:
        case FailureKind.UNREACHED:
            place = f" from {host}" if host else ""
            rest = f"{again[0]} asked for again by {again[1]}."
            if noun != "chunk":
                rest = f"Click a {noun} to try again."
            return f"{name}: {chunks} could not be read{place}. {rest}"
        case FailureKind.REFUSED:
            rest = f"{again[0]} asked for again after a login."
            return f"{name}: {host} refuses {chunks}. {rest}"
        case FailureKind.CHANGED:
            rest = "The file was changed on the server; open it again."
            return f"{name}: {chunks} could not be read. {rest}"
        case FailureKind.ABSENT:
            lack = "lacks" if count == 1 else "lack"
            rest = "The places of these stay empty."
            return f"{name}: {chunks} {lack} images that are listed. {rest}"
    rest = "It stays empty." if count == 1 else "They stay empty."
    if kind is FailureKind.UNREADABLE:
        return f"{name}: {chunks} could not be read. {rest}"
    return f"{name}: {chunks} {'is' if count == 1 else 'are'} damaged. {rest}"


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
    # Of an object its class alone is kept.
    kind = "classes of " * (kept.noun == "object")
    parts = [f"{kind}{count_noun(kept.count, kept.noun)}"] if kept.count else []
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
