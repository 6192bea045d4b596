"""Writes messages for napari's notifications: result first, whole paths last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MOST_IN_LINE",
    "MOST_SHOWN",
    "count_noun",
    "last_part",
    "notice_kind",
    "notice_text",
    "shorten_message",
    "shorten_name",
]

MOST_IN_LINE = 40
"""Letters of a notification that napari shows without a click."""

SHORT = 24
"""Most letters of a name in the first line, which has the result as well."""

MOST_SHOWN = 5
"""Most messages that are written out; the others are counted."""

# An address, a path from the root, or one with a drive; a full stop or comma at its end
# belongs to the sentence.
PATH = re.compile(
    r"(?:\w+://|(?<![\w.])/|\b[A-Za-z]:[\\/])[^\s\"'<>|]*[^\s\"'<>|.,;:)]"
)
ROOT = re.compile(r"[^/\\]*\.(?:zarr|ozx|zip)\b.*", re.IGNORECASE)
NAME = re.compile(r"\d|\w[./\\]\w|['\"…]")
"""Letters by which a word is the name of something, or a number."""
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
    lines_shown = [shorten_message(message) for message in messages[:MOST_SHOWN]]
    lines = [result, *lines_shown]
    if len(messages) > MOST_SHOWN:
        lines.append(f"... and {len(messages) - MOST_SHOWN} more")
    paths = [p for text in messages[:MOST_SHOWN] for p in PATH.findall(text)]
    # Whole paths come last, each once, so that they can be copied.
    whole = [p for p in dict.fromkeys(paths) if last_part(p) != p]
    return "\n".join([*lines, *whole])


def notice_kind(text: str) -> str:
    """Give what a notification is about: its first line without names and numbers.

    Of two of one kind, such as "Saved a.ozx" and "Saved b.ozx", the newer is enough.
    """
    first = text.partition("\n")[0]
    words = [word for word in first.split() if not NAME.search(word)]
    return " ".join(words) or first


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


def count_noun(number: int, noun: str) -> str:
    """Write "1 problem" or "2 problems"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
