"""The rows of docs/interoperability.md, one for each program."""

from __future__ import annotations

import datetime
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interop.programs import PROGRAMS, Program

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Row", "row"]

PAGE = Path(__file__).parents[2] / "docs/interoperability.md"
TITLES = (
    "program",
    "version",
    "writes",
    "read by us",
    "painted and read back",
    "notes",
    "date",
)
HEAD = (f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|")


@dataclass(slots=True)
class Row:
    """What is known of a program so far."""

    program: Program
    version: str = ""
    writes: str = ""
    read: str = "no"
    read_back: str = "no"
    judge: str = ""
    notes: str = ""

    def __str__(self) -> str:
        judge = f"Validated by {self.judge}." if self.judge else ""
        notes = " ".join(filter(None, (self.program.notes, judge, self.notes)))
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        cells = (self.version, self.writes, self.read, self.read_back, notes, today)
        escaped = (cell.replace("|", r"\|") for cell in cells)
        return f"| {self.program.name} | {' | '.join(escaped)} |"


@contextmanager
def row(program: Program) -> Iterator[Row]:
    """Write what is known of a program into the page, however its test ends."""
    known = Row(program)
    try:
        yield known
    finally:
        _write(known)


def _write(new: Row) -> None:
    """Replace the row of one program, in the order of the programs."""
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(HEAD[0])
    table = text[start:].split("\n\n")[0].rstrip("\n")
    rows = {line.split("|")[1].strip(): line for line in table.splitlines()[2:]}
    rows[new.program.name] = str(new)
    names = [program.name for program in PROGRAMS]
    lines = [*HEAD, *(rows[name] for name in names if name in rows)]
    PAGE.write_text(text.replace(table, "\n".join(lines)), encoding="utf-8")
