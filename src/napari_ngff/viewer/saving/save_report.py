"""Shows the user the result of a save, and the reasons where some of it failed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from napari.utils.notifications import show_error, show_warning

from napari_ngff.errors import NameTakenError, UnsupportedError, error_text
from napari_ngff.labels.journal import Journal, journal_home
from napari_ngff.viewer.services.notices import count_noun, notice_text, shorten_name
from napari_ngff.viewer.services.window import Signal

if TYPE_CHECKING:
    from napari_ngff.labels.saving.save_run import SaveOutcome
    from napari_ngff.metadata.model import LabelInfo, Problem

KEPT = "Your edits are kept."
AGAIN = f"{KEPT} Fix the problem and save again."

GOES_ON = "The next save writes the rest."

REST = "Everything else was saved."

LISTED = 5
"""Most blocks that a message names."""


UNPROTECTED = (
    "Edits are not protected from a crash.\nThey cannot be written into the journal,"
    " {}: {}. Save them; make room there or allow writing, and they are protected"
    " again."
)

NOT_KEPT = (
    "Not kept: {}.\nThe edits cannot be written into the journal, {}: {}. Save or"
    " discard them, or make room there."
)

REPEATED = 60
"""Seconds in which one cause is shown once; a full disk concerns several layers."""

journal_reports: dict[tuple[object, ...], float] = {}
"""Type and number of an error -> time at which it was shown last."""


def report_journal_error(error: Exception) -> None:
    """Show that edits cannot be written into the journal; called from any thread."""
    cause, now = (type(error), getattr(error, "errno", None)), time.monotonic()
    if now - journal_reports.get(cause, -REPEATED) >= REPEATED:
        journal_reports[cause] = now
        show_error(UNPROTECTED.format(journal_home(), _reason_text(error)))


reported_journal = partial(Journal, report=report_journal_error)
"""A `Journal` whose errors are shown."""


def report_not_kept(name: str, error: Exception | None) -> None:
    """Show that edits cannot be kept for later."""
    show_error(NOT_KEPT.format(shorten_name(name), journal_home(), _reason_text(error)))


def _reason_text(error: Exception | None) -> str:
    return str(getattr(error, "strerror", None) or error).rstrip(".")


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The result of one save.

    Attributes
    ----------
    outcome
        Of the voxels; None where nothing could be saved.
    error
        Reason why nothing could be saved.
    info
        Colours and properties that are in the file now; None where they were not
        written.
    before
        Colours and properties that the file had before.
    unsaid
        Reason why colours and properties were not written.
    left_out
        What of the features cannot be properties of the file.
    changed
        Number of voxels that the first save into labels of others has changed.
    """

    outcome: SaveOutcome | None = None
    error: Exception | None = None
    info: LabelInfo | None = None
    before: LabelInfo | None = None
    unsaid: Exception | None = None
    left_out: tuple[str, ...] = ()
    changed: int = 0

    @property
    def written_text(self) -> str:
        """Text for what else was written: colours, properties, or both; "" for none."""
        info, before = self.info, self.before
        if info is None or before is None:
            return ""
        changed = {
            "colours": info.colors != before.colors,
            "properties": info.properties != before.properties,
        }
        return " and ".join(name for name, differs in changed.items() if differs)

    @property
    def is_complete(self) -> bool:
        """Return whether all that was to be saved is in the file."""
        done = self.outcome
        whole = done is not None and not (done.refused or done.cancelled)
        return whole and self.unsaid is None


class SaverSignals:
    """Signals of one layer's saver, all emitted in the main thread.

    Only without a window `progressed` is emitted in the threads that write, too.
    """

    dirty_changed = Signal(bool)
    """Emitted when the layer gets its first unsaved change, or loses its last one; with
    whether anything is unsaved."""

    progressed = Signal(float)
    """Emitted while a save runs, with the part that is done, 0 to 1; first with 0, and
    at most `OFTEN` times a second."""

    saved = Signal(object)
    """Emitted with the `SaveResult` when all that was painted before the save is in the
    file, also where there was nothing to save.

    The save has ended by then; if Ctrl+S was pressed meanwhile, the next one has begun.
    Strokes that were painted meanwhile are unsaved; `dirty_changed` is emitted before.
    """

    failed = Signal(object)
    """Emitted with the `SaveResult` when some of it is not in the file; with None where
    the layer was removed meanwhile.

    That is after an error, refused blocks, a cancelled save, colours that were not
    written, or a name that is taken; the user was shown the reason. Each save ends with
    one of `saved` and `failed`. Where the user gives another name for one that is
    taken, that is emitted after the save under the other name.
    """


@dataclass(frozen=True, slots=True)
class SaveNote:
    """What a save did, for the line in the controls.

    Attributes
    ----------
    text
        A few words: "Saved 14:03", "No changes", "Not saved 14:03".
    detail
        For the tool tip: how many chunks were written, or why not; or "".
    """

    text: str = ""
    detail: str = ""


class SaveReporter:
    """Shows failures of the saves of one layer.

    Successes are shown in the controls and the status bar only. Of saves that the user
    did not ask for, the same failure is shown once until a save succeeds.
    """

    def __init__(self) -> None:
        self._shown: set[str] = set()
        # Kept, so that a save without changes still shows when the last real one was.
        self._saved = SaveNote("No changes", "Nothing to save.")

    def report_save(
        self, name: str, result: SaveResult, *, quiet: bool = False
    ) -> SaveNote:
        """Show failures, and return the note for the controls.

        Parameters
        ----------
        name
            Of the layer.
        result
            Of the save.
        quiet
            True for a save that the user did not ask for.
        """
        now = time.strftime("%H:%M")
        outcome = result.outcome
        if outcome is None:
            if isinstance(result.error, NameTakenError):
                hint = "Rename the layer and save again."
            else:
                # The next try would fail for the same reason.
                lasts = isinstance(result.error, UnsupportedError)
                hint = KEPT if lasts else AGAIN
            reason = _error_sentence(result.error)
            text = f"Not saved: {shorten_name(name)}.\n{reason} {hint}"
            self._show_text(text, quiet, failed=True)
            return SaveNote(f"Not saved {now}", text)
        troubles = [
            *_refusal_text(name, outcome),
            *_problem_text(name, outcome.problems),
        ]
        if result.unsaid is not None:
            reason, what = (
                _error_sentence(result.unsaid),
                "Not saved: colours, properties.",
            )
            troubles.append(f"{what}\n{name}: {reason} {AGAIN}")
        if result.left_out:
            what = " and ".join(result.left_out)
            troubles.append(f"Not saved of the features of '{name}': {what}.\n{REST}")
        for text in troubles:
            self._show_text(text, quiet)
        if outcome.refused:
            refused = count_noun(len(outcome.refused), "chunk")
            some = outcome.blocks or result.written_text
            text = f"Saved {now} except {refused}" if some else f"Not saved {now}"
            return SaveNote(text, troubles[0])
        if not troubles:
            self._shown.clear()
        return self._make_note(result, outcome, now)

    def report_copy(self) -> SaveNote:
        """Return the note for labels that *Save as…* has written with their image."""
        self._shown.clear()
        self._saved = SaveNote(f"Saved {time.strftime('%H:%M')}", "With their image.")
        return self._saved

    def _make_note(
        self, result: SaveResult, outcome: SaveOutcome, now: str
    ) -> SaveNote:
        if outcome.idle and not (result.written_text or outcome.cancelled):
            return self._saved
        what = result.written_text
        if outcome.blocks:
            what = count_noun(outcome.blocks, "chunk")
        written = f"{what[:1].upper()}{what[1:]} written." if what else ""
        if outcome.cancelled:
            return SaveNote(f"Cancelled {now}", f"{written} {GOES_ON}".lstrip())
        self._saved = SaveNote(f"Saved {now}", written)
        return self._saved

    def _show_text(self, text: str, quiet: bool, failed: bool = False) -> None:
        # By the text, so that another reason for the same layer is shown.
        if quiet and text in self._shown:
            return
        self._shown.add(text)
        (show_error if failed else show_warning)(text)


def _error_sentence(error: Exception | None) -> str:
    text = str(error) if error is None else error_text(error)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _refusal_text(name: str, outcome: SaveOutcome) -> list[str]:
    count = len(outcome.refused)
    if not count:
        return []
    hint = AGAIN
    if outcome.conflict:
        hint = (
            "Check the labels, and press Ctrl+S again: another window or program"
            " changed the same chunks. They are shown with your edits on top."
        )
    more = "\n".join(outcome.refused[:LISTED])
    rest = f" All others of '{name}' were saved." if outcome.blocks else ""
    return [f"Not saved: {count_noun(count, 'chunk')}.\n{hint}{rest}\n{more}"]


def _problem_text(name: str, problems: tuple[Problem, ...]) -> list[str]:
    if not problems:
        return []
    lines = [f"{p.where}  {p.code}: {p.text} {p.consequence}" for p in problems]
    what = "problem" if len(problems) == 1 else "problems"
    result = (
        f"Saved, with {len(problems)} new {what}.\nThe file of '{name}' breaks the"
        " specification now:"
    )
    return [notice_text(lines, result)]
