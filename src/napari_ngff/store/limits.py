"""Limits of what is read, whatever size a file states; JSON within them."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.metadata.model import Problem, Severity

LARGEST_DOCUMENT = 64 << 20
"""Bytes of a metadata document; a plate of 1,536 wells has some hundred kilobytes."""

LONGEST_AXIS = 1 << 53
"""Voxels along an axis: float64, in which positions are computed, is exact up to there.
"""

CHUNK_VARIABLE = "NAPARI_NGFF_CHUNK_MB"
"""Environment variable that allows larger chunks."""

USUAL_CHUNK = 1024
"""Megabytes of a decoded chunk that are read without asking."""

TABLE_VARIABLE = "NAPARI_NGFF_TABLE_MB"
"""Environment variable that allows larger tables."""

USUAL_TABLE = 512
"""Megabytes of a table that are read without asking."""

LEAST_ALLOWED = 1 << 20
"""Bytes of a decoded chunk that are read whatever the variable says."""

DOCUMENTS = ("zarr.json", ".zattrs", ".zgroup", ".zarray", ".zmetadata")
"""Names of the documents of zarr, v3 and v2."""

NODE_DOCUMENTS = DOCUMENTS[:4]
"""Those by which there is a group or an array."""

GROUP_DOCUMENTS = DOCUMENTS[:3]
"""Those by which there is a group."""

V2_DOCUMENTS = DOCUMENTS[1:4]
"""Those of a group or an array of Zarr v2."""

ATTRIBUTES_IN = {3: "zarr.json", 2: ".zattrs"}
"""Zarr format -> document with the attributes of a group, the likelier first."""

ARRAY_DOCUMENT = {3: "zarr.json", 2: ".zarray"}
"""Zarr format -> document of an array, the likelier first."""


LONG_LIST = "list-too-long"
"""Code of the problem."""

MOST: Mapping[str, int] = {
    "axes": 100,
    "columns": 2_000,
    "coordinateSystems": 1_000,
    "coordinateTransformations": 1_000,
    "channels": 10_000,
    "acquisitions": 10_000,
    "datasets": 1_000,
    "images": 10_000,
    "labels": 10_000,
    "multiscales": 1_000,
    "rows": 2_000,
    "series": 10_000,
    "transformations": 1_000,
    "wells": 10_000,
}
"""Most entries that are read of a list, by its key; the largest plates have 3,456
wells."""

MOST_ALIKE = 100
"""Most problems of one code that are reported of one group or array."""

LEAVES = ("colors", "properties")
"""Lists with an entry for each label, which are not cut."""

NESTED = (dict, list)
"""Types of JSON that hold other values."""


def size_text(nbytes: float) -> str:
    """Write a number of bytes as "34 MB"."""
    size = nbytes
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {'byte' if nbytes == 1 else unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def is_document(key: str) -> bool:
    """Return whether an object is a metadata document, by its name."""
    return key.rpartition("/")[2] in (*DOCUMENTS, "METADATA.ome.xml")


def documents_beside(key: str) -> list[str]:
    """List other documents that may be in the group of an object, and at the root."""
    group = key.rpartition("/")[0]
    beside = [f"{group}/{name}" for name in DOCUMENTS if group]
    return [name for name in (*beside, *DOCUMENTS) if name != key]


def check_document_size(place: str, size: int) -> None:
    """Refuse a metadata document that is too large, before it is read.

    Raises
    ------
    CorruptDataError
        With its place and size.
    """
    if is_document(place) and size > LARGEST_DOCUMENT:
        msg = (
            f"{place} is not read: it has {size >> 20} MB, and metadata has"
            f" {LARGEST_DOCUMENT >> 20} MB at most."
        )
        raise CorruptDataError(msg, remedy="Restore it from a copy.")


def check_index(nbytes: int) -> None:
    """Refuse to read the index of a shard of very many chunks.

    Raises
    ------
    CorruptDataError
        With its size.
    """
    if nbytes > LARGEST_DOCUMENT:
        msg = (
            f"the shard's index has {nbytes >> 20} MB, more than"
            f" {LARGEST_DOCUMENT >> 20} MB: its chunks are too small"
        )
        raise CorruptDataError(msg)


def allowed_chunk() -> int:
    """Return the most bytes of a decoded chunk; see `CHUNK_VARIABLE`."""
    return _allowed_bytes(CHUNK_VARIABLE, USUAL_CHUNK)


def _allowed_bytes(variable: str, usual: int) -> int:
    """Return how many bytes an environment variable, in megabytes, allows."""
    try:
        wanted = int(os.environ.get(variable, ""))
    except ValueError:
        wanted = 0
    return (wanted if wanted > 0 else usual) << 20


def check_chunk(nbytes: int) -> None:
    """Refuse to decode a chunk that would take too much memory.

    Raises
    ------
    UnsupportedError
        With its size, and how to allow it.
    """
    # Nobody can allow less; asking the system each time would take longer than a chunk.
    if nbytes <= LEAST_ALLOWED:
        return
    allowed = allowed_chunk()
    if nbytes > allowed:
        msg = (
            f"one chunk takes {nbytes / 2**20:,.0f} MB of memory, more than"
            f" {allowed >> 20:,} MB. Write the image with smaller chunks, or set the"
            f" environment variable {CHUNK_VARIABLE} to more"
        )
        raise UnsupportedError(msg)


def check_table(nbytes: int, where: str) -> None:
    """Refuse to read a table that would take too much memory.

    Raises
    ------
    UnsupportedError
        With its size, and how to allow it.
    """
    allowed = _allowed_bytes(TABLE_VARIABLE, USUAL_TABLE)
    if nbytes > allowed:
        raise UnsupportedError(
            f"{where} has {nbytes >> 20:,} MB; tables up to {allowed >> 20:,} MB are"
            " read.",
            remedy="Keep fewer rows or columns, or set the environment variable"
            f" {TABLE_VARIABLE} to more.",
        )


def parse_json(text: bytes | str, hook: Any = None) -> Any:
    """Parse JSON of a file that may contain anything.

    Parameters
    ----------
    hook
        Called for each object, inner ones first; gives what stands for it.

    Raises
    ------
    ValueError
        Where it is not JSON, or too large or too deep for Python's parser.
    """
    try:
        return json.loads(text, object_hook=hook)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except MemoryError:
        raise ValueError("it is too large") from None


def parse_object(text: bytes | None) -> dict[str, Any] | None:
    """Parse a JSON object; None for anything else, and for nothing."""
    try:
        content = parse_json(text or b"")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def dump_like(text: str, document: dict[str, Any]) -> str:
    """Write a document with the indentation of its earlier text."""
    # People read and compare these files: only what was changed should differ.
    indented = re.match(r"\s*\{\r?\n([ \t]+)", text)
    compact = None if indented or ": " in text else (",", ":")
    indent = indented[1] if indented else None
    ascii_only = text.isascii()
    end = "\n" if text.endswith("\n") else ""
    return (
        json.dumps(document, indent=indent, separators=compact, ensure_ascii=ascii_only)
        + end
    )


def find_constants(text: bytes) -> tuple[str, ...]:
    """List, as a sentence, what only Python reads as JSON; () for plain JSON.

    `parse_json` has read the text.
    """
    found: list[str] = []
    if b"NaN" in text or b"Infinity" in text:  # maybe inside of a text
        json.loads(text, parse_constant=found.append)
    reason = "JSON has no such number, and other programs cannot read the document."
    return (f"{found[0]} is stated. {reason}",) if found else ()


def cut_long_lists(attributes: Any) -> tuple[Problem, ...]:
    """Shorten the lists in attributes to `MOST` entries, in place.

    Returns
    -------
    tuple
        A problem for each shortened list, in any order.
    """
    problems = []
    # A list, not recursion: a file may be nested deeper than Python's stack.
    pending: list[tuple[str, Any]] = [("", attributes)]
    while pending:
        where, value = pending.pop()
        if isinstance(value, list):
            # Entries of a list keep its path: a limit goes by key, and the message
            # names the list.
            pending += [(where, item) for item in value if isinstance(item, NESTED)]
            continue
        for key, item in value.items() if isinstance(value, dict) else ():
            if not isinstance(item, NESTED):
                continue
            path = f"{where}/{key}" if where else key
            most = MOST.get(key)
            if most is not None and isinstance(item, list) and len(item) > most:
                text = f"The list has {len(item):,} entries; {most:,} are read at most."
                used = f"Only its first {most:,} entries are used."
                problems.append(Problem(LONG_LIST, Severity.ERROR, path, text, used))
                # In place, so that later steps, which parse the same object, take no
                # longer.
                del item[most:]
            if key not in LEAVES:
                pending.append((path, item))
    return tuple(problems)


def limit_alike(
    findings: Iterable[tuple[str, Problem]],
) -> Iterator[tuple[str, Problem]]:
    """Report at most `MOST_ALIKE` problems of one code and place, and then the rest
    once.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for path, problem in findings:
        kind = path, problem.code
        counts[kind] += 1
        # Once, at the first that is left out: findings are yielded as they come, so the
        # final count is not known yet.
        if counts[kind] == MOST_ALIKE + 1:
            text = f"More than {MOST_ALIKE} problems of this kind are here."
            yield path, replace(problem, where="", text=text)
        elif counts[kind] <= MOST_ALIKE:
            yield path, problem
