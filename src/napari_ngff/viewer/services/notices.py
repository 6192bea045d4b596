"""Writes messages for napari's notifications: result first, whole paths last."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from napari_ngff.addresses import MARK, public_address
from napari_ngff.errors import AGAIN, LISTED, LOG_IN, REOPEN, may_pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.errors import ChunkError

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
    chunks, host = count_noun(count, noun), host_of(address)
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


def host_of(address: str) -> str:
    """Return the host of an address, or its bucket; "" for a path."""
    scheme, mark, rest = public_address(address).partition(MARK)
    if not mark or scheme == "file":
        return ""
    host = rest.partition("/")[0]
    return host if scheme.startswith("http") else f"{scheme}{MARK}{host}"
