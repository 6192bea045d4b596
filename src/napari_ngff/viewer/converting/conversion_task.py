"""The state behind the form *Convert OME-Zarr*: what is asked, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from psygnal import Signal

from napari_ngff.errors import LoginNeededError, OMEZarrError, error_text
from napari_ngff.store.convert.conversion_preview import (
    ConversionCall,
    ConversionPreview,
    ConversionWay,
    discard_unfinished,
    preview_conversion,
    run_conversion,
)
from napari_ngff.store.convert.convert_words import (
    ConvertWords,
    propose_target,
    propose_version,
)
from napari_ngff.store.convert.source_facts import SourceFacts, read_facts
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.store.write.partial_folder import Unfinished
from napari_ngff.viewer import window_services
from napari_ngff.viewer.converting.form_task import FormTask
from napari_ngff.viewer.converting.layer_sources import unsaved_layers
from napari_ngff.viewer.latest_task import LatestTask
from napari_ngff.viewer.notices import count_noun, last_part, shorten_message

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.store.convert.conversion import ConversionResult
    from napari_ngff.viewer.latest_task import TaskTurn

__all__ = ["ConversionTask"]

KEPT = "Cancelled. Finished parts are kept, hidden beside the target: Resume continues."
NOTHING_LEFT = "Cancelled. Nothing was written."

FOUND = (
    "The same conversion was stopped before. Resume continues it; finished parts are"
    " checked, and kept."
)
OTHER = (
    "A conversion to this name with other options was stopped. Choose the options that"
    " it had to resume it; otherwise its parts are removed at the start."
)


@dataclass(frozen=True, slots=True)
class _OpenedSource:
    """A source, with what is proposed for it."""

    facts: SourceFacts
    target: str
    version: str


class ConversionTask(FormTask):
    """What the form shows: it asks, and this decides.

    Attributes
    ----------
    words
        What is asked for.
    facts
        Of the source; None until it is read.
    preview
        What would be done; None until it is known.
    result
        What was made by the last conversion.
    """

    proposed = Signal()
    """Emitted when `words` has another target or version, which were proposed."""

    login_needed = Signal(str)
    """Emitted with a server, as of `server_of`, that wants a login."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self.words = ConvertWords()
        self.facts: SourceFacts | None = None
        self.preview: ConversionPreview | None = None
        self.result: ConversionResult | None = None
        self._reading = LatestTask()
        self._looking = LatestTask(on_progress=self._show_count)
        self._proposed = ConvertWords()
        self._is_cancelled = False
        self._starts_again = False
        self._count = 0

    # --- what the form asks

    @property
    def can_start(self) -> bool:
        """Return whether there is nothing to be changed before."""
        return (
            not self.is_running
            and self.facts is not None
            and self.preview is not None
            and not self.preview.mistakes
        )

    @property
    def is_resumable(self) -> bool:
        """Return whether the same conversion was begun, and stopped."""
        preview = self.preview
        return preview is not None and preview.unfinished is Unfinished.SAME

    @property
    def action(self) -> str:
        """Text of the button that starts it."""
        if self.is_resumable:
            return "Resume"
        way = self.preview.way if self.preview else ConversionWay.CONVERT
        return way.name.capitalize()

    @property
    def note(self) -> str:
        """What to know before the start: unfinished parts, unsaved changes."""
        notes = []
        if not self.is_running and self.preview is not None:
            if self.is_resumable and self.status != KEPT:
                notes.append(FOUND)
            elif self.preview.unfinished is Unfinished.OTHER:
                notes.append(OTHER)
        if not self.is_running and self.unsaved():
            names = ", ".join(layer.name for layer in self.unsaved())
            notes.append(f"Not saved yet: changes of {names}. You are asked first.")
        return " ".join(notes)

    @property
    def estimate(self) -> str:
        """What would be read and written, or how far it is counted."""
        if self.preview is not None:
            return self.preview.text
        counted = f": {self._count:,}" if self._count > 1 else ""
        return f"Counting files{counted}…" if self.is_busy and self.facts else ""

    def unsaved(self) -> list[Any]:
        """List layers with painted changes that are not in the source yet."""
        viewer = self.viewer
        if viewer is None or self.facts is None:
            return []
        return unsaved_layers(viewer.layers, self.facts.node.location)

    def ask(self, words: ConvertWords) -> None:
        """Take what is typed; looks at the files in a worker."""
        if self.is_running or words == self.words:
            return
        source_changed = words.source != self.words.source
        self.words, self.result, self.status = words, None, ""
        if source_changed:
            self._read_source()
        else:
            self.look_again()

    def _read_source(self) -> None:
        self._looking.cancel()
        self.facts = self.preview = None
        self.mistakes = {}
        source = self.words.source.strip()
        if not source:
            self._reading.cancel()
            self.is_busy = False
            self.changed.emit()
            return

        def read(_: TaskTurn) -> _OpenedSource | LoginNeededError:
            try:
                facts = read_facts(source)
            except LoginNeededError as error:
                return error
            return _OpenedSource(facts, propose_target(facts), propose_version(facts))

        self.is_busy = True
        self._reading.start(read, self._take_source, self._refuse_source)
        self.changed.emit()

    def _take_source(self, opened: _OpenedSource | LoginNeededError) -> None:
        self.is_busy = False
        if isinstance(opened, LoginNeededError):
            self._refuse_source(shorten_message(str(opened)))
            self._ask_login(opened, self.words.source)
            return
        self.facts = opened.facts
        words, before = self.words, self._proposed
        # What was typed stays.
        if words.target in ("", before.target):
            words = replace(words, target=opened.target)
        if words.to_version == before.to_version:
            words = replace(words, to_version=opened.version)
        self._proposed = replace(
            before, target=opened.target, to_version=opened.version
        )
        self.words = words
        self.proposed.emit()
        self.look_again()

    def _refuse_source(self, reason: str) -> None:
        self.is_busy = False
        self.mistakes = {"source": reason}
        self.changed.emit()

    def _ask_login(self, error: LoginNeededError, address: str) -> None:
        self.login_needed.emit(error.server or server_of(address))

    def go_on_after_login(self) -> None:
        """Read the source, or convert, again: its server, or the target's, has one."""
        if self.is_running:
            return
        if self.facts is None:
            self._read_source()
            return
        self._starts_again = True
        self.look_again()

    def look_again(self) -> None:
        """Check and estimate what is asked for, in a worker."""
        self.preview, self.mistakes, self._count = None, {}, 0
        facts, words = self.facts, self.words
        if facts is None:
            self.changed.emit()
            return

        def look(turn: TaskTurn) -> ConversionPreview:
            return preview_conversion(
                words, facts, lambda count: turn.report_progress(count, 0)
            )

        self.is_busy = True
        self._looking.start(look, self._take_preview, self._refuse_preview)
        self.changed.emit()

    def _show_count(self, count: int, _: int) -> None:
        if not self.is_running:
            self._count = count
            self.changed.emit()

    def _take_preview(self, preview: ConversionPreview) -> None:
        self.is_busy = False
        self.preview = preview
        if self._is_cancelled:
            self._is_cancelled = False
            self.status = KEPT if self.is_resumable else NOTHING_LEFT
        found = {name: shorten_message(text) for name, text in preview.mistakes.items()}
        self.mistakes = {**found, **self.mistakes}
        if "" in found:
            self.status = found[""]
        self.changed.emit()
        starts_again, self._starts_again = self._starts_again, False
        if starts_again:
            self.start()

    def _refuse_preview(self, reason: str) -> None:
        self.is_busy = False
        self.status = reason
        self.changed.emit()

    # --- what it does

    def start(self, *, afresh: bool = False) -> None:
        """Convert; `afresh` also where it could be resumed."""
        if not self.can_start:
            return
        assert self.facts is not None
        words, resume = self.words, self.is_resumable and not afresh
        call = ConversionCall.of_words(words, self.facts, resume=resume)
        self._looking.cancel()
        title = f"Converting {last_part(words.target)}"
        self.run_job(title, run_conversion, (call,), self._on_done, self._on_failed)

    def _on_done(self, result: ConversionResult) -> None:
        self.result = result
        self.preview = None
        self.status = f"Done: {last_part(str(result.target))}."
        for note in result.notes:
            self.status += f" {shorten_message(note)}"
        if result.problems:
            left = count_noun(len(result.problems), "part")
            first = shorten_message(result.problems[0])
            self.status += f" Left out, as unreadable: {left}. {first}"

    def _on_failed(self, error: Exception) -> None:
        if isinstance(error, InterruptedError):
            self.status, self._is_cancelled = "Cancelled.", True
        else:
            self.show_error(error)
        # What is left is only known after another look.
        mistakes = self.mistakes
        self.look_again()
        self.mistakes = {**self.mistakes, **mistakes}
        if isinstance(error, LoginNeededError):
            self._ask_login(error, self.words.source)

    def discard(self) -> None:
        """Remove what a stopped conversion left."""
        if self.is_running or not self.is_resumable:
            return
        words = self.words

        def done(reason: Any) -> None:
            self.status = reason or "Unfinished parts are deleted."
            self.look_again()

        def remove() -> str:
            try:
                discard_unfinished(words)
            except (OMEZarrError, OSError) as error:
                return error_text(error)
            return ""

        window_services.run_work(remove, done)
