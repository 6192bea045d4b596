"""Tells the user what a save did, and what of it failed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari.utils.notifications import show_error, show_info, show_warning

from napari_ngff.errors import NameTakenError

if TYPE_CHECKING:
    from napari_ngff.labels.saving.progress import Outcome
    from napari_ngff.metadata.model import LabelInfo, Problem

__all__ = ["Reporter", "SaveResult"]

LISTED = 5
"""Of many blocks or problems, so many are named."""


@dataclass(frozen=True, slots=True)
class SaveResult:
    """What a save did, and what of it went wrong.

    Attributes
    ----------
    outcome
        Of the voxels; None where nothing could be saved.
    error
        Why not.
    info
        Colours and properties that are in the file now; None where they were not
        written.
    before
        What the file said of them before.
    unsaid
        Why not.
    """

    outcome: Outcome | None = None
    error: Exception | None = None
    info: LabelInfo | None = None
    before: LabelInfo | None = None
    unsaid: Exception | None = None

    @property
    def said(self) -> str:
        """Name what the file says of the labels now and did not before."""
        info, before = self.info, self.before
        if info is None or before is None:
            return ""
        changed = {
            "colours": info.colors != before.colors,
            "properties": info.properties != before.properties,
        }
        return " and ".join(name for name, differs in changed.items() if differs)

    @property
    def idle(self) -> bool:
        """Whether there was nothing to save."""
        return self.outcome is not None and self.outcome.idle and not self.said

    @property
    def complete(self) -> bool:
        """Whether all that was to be saved is in the file."""
        done = self.outcome
        whole = done is not None and not (done.refused or done.cancelled)
        return whole and self.unsaid is None


class Reporter:
    """Tells of the saves of one layer.

    Of those that nobody asked for only what went wrong is told, and the same only once
    until one goes well.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._saved = ""

    def report(self, name: str, result: SaveResult, *, quiet: bool = False) -> str:
        """Show what there is to know, and return it in a few words for the status.

        Parameters
        ----------
        name
            Of the layer.
        result
            Of the save.
        quiet
            Whether nobody asked for the save.
        """
        now = time.strftime("%H:%M")
        outcome = result.outcome
        if outcome is None:
            taken = isinstance(result.error, NameTakenError)
            hint = " Rename the layer, and save again." if taken else ""
            text = f"{name} was not saved: {result.error}{hint}"
            self._tell(text, quiet, failed=True)
            return f"not saved {now}"
        trouble = [*_refusals(name, outcome), *_problems(name, outcome.problems)]
        if result.unsaid is not None:
            what = "Colours and properties"
            trouble.append(f"{name}: {what} were not saved: {result.unsaid}")
        for text in trouble:
            self._tell(text, quiet)
        if outcome.refused:
            return f"saved {now} - all but {_blocks(len(outcome.refused))}"
        note = self._note(result, outcome, now)
        if not trouble:
            self._told.clear()
            if not quiet:
                show_info(f"{name}: {note}")
        return note

    def _note(self, result: SaveResult, outcome: Outcome, now: str) -> str:
        if result.idle and not outcome.cancelled:
            return f"nothing to save{self._saved and f', saved {self._saved}'}"
        what = _blocks(outcome.blocks) if outcome.blocks else result.said
        word = "cancelled" if outcome.cancelled else "saved"
        if not outcome.cancelled:
            self._saved = now
        return f"{word} {now} - {what}" if what else f"{word} {now}"

    def _tell(self, text: str, quiet: bool, failed: bool = False) -> None:
        if quiet and text in self._told:
            return
        self._told.add(text)
        (show_error if failed else show_warning)(text)


def _blocks(count: int) -> str:
    return f"{count} block{'s' * (count != 1)}"


def _refusals(name: str, outcome: Outcome) -> list[str]:
    count = len(outcome.refused)
    if not count:
        return []
    hint = "Their edits are kept; save again when the cause is mended."
    if outcome.conflict:
        hint = (
            "What others changed was read again, and your edits lie on top of it. Look"
            " at it; saving again puts them there in the file, too."
        )
    more = "\n".join(outcome.refused[:LISTED])
    were = "was" if count == 1 else "were"
    return [
        f"{name}: {_blocks(count)} {were} not saved, all others were. {hint}\n{more}"
    ]


def _problems(name: str, problems: tuple[Problem, ...]) -> list[str]:
    if not problems:
        return []
    lines = [f"{p.where}  {p.code}: {p.text} {p.consequence}" for p in problems]
    more = len(lines) - LISTED
    if more > 0:
        lines[LISTED:] = [f"... and {more} more"]
    what = "problem" if len(problems) == 1 else "problems"
    return [
        f"{name} was saved, and its file has {len(problems)} new {what}:\n"
        + "\n".join(lines)
    ]
