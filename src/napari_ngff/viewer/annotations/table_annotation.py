"""Measured tables as annotations: kept, and asked about before they go away."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error
from typing_extensions import override

from napari_ngff.errors import NameTakenError, error_text
from napari_ngff.labels.places.label_location import name_problem
from napari_ngff.plate.tables.feature_table import (
    describe_features,
    write_tables,
)
from napari_ngff.plate.tables.files import write_frame
from napari_ngff.viewer.annotations.annotations import (
    Annotation,
    Annotations,
    AnnotationState,
    CopiedPart,
    ImageCopy,
)
from napari_ngff.viewer.services.notices import count_noun, join_names, shorten_name
from napari_ngff.viewer.services.window import Window, attempt_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from psygnal import SignalInstance

    from napari_ngff.labels.saving.journal_records import JournalSubject
    from napari_ngff.metadata.model import JSON
    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.store.hierarchy.node import Node

OLDER = "measured before the latest strokes"

WRITES, FILE = "Ctrl+S writes the table into its images.", "Ctrl+S asks for a file"
"""How a table is kept."""

ONLY_FILE = "The images do not have this table."
"""Is told when it is saved as a file, which counts as saved."""

GONE = "Tables not saved: their labels are gone."
"""Is told with the images; others have theirs."""

MOST_NAMED = 3
"""Images that are named; of more the first is, and the others are counted."""


def outdated_note(age: str) -> str:
    """Write what to do about a table of an age; "" for one that lacks no strokes."""
    return age and f"This table was {age}: save and measure again."


def older_text(age: str) -> str:
    """Write the age of a table that is saved; "" for one that lacks no strokes."""
    return f" It was {age}." if age else ""


def name_measured(labels: str) -> str:
    """Name the table of measured labels in their images, as it is proposed."""
    return f"{labels}_measured".replace("/", "_")


class MeasuredLabels:
    """The labels that a table was measured of, and which of them were painted since.

    It is made when measuring begins: what is saved from then on may be missing.

    Parameters
    ----------
    owner
        The annotations of the viewer.
    name
        Name of the labels in their file.
    images
        Addresses of images, or of groups with all of their images.
    earlier
        What was measured before, of which the table keeps the rows of other images.
    name_image
        Names an image by its address; "" where it needs no name.
    """

    def __init__(
        self,
        owner: Annotations,
        name: str,
        images: Iterable[str],
        earlier: MeasuredLabels | None = None,
        name_image: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._owner, self._name, self._name_image = owner, name, name_image
        self._images = tuple(f"{image}/" for image in images if image)
        self._painted: set[JournalSubject] = set()
        if earlier is not None:
            self._painted = {x for x in earlier._painted if not self.include(x)}
            self._images += earlier._images
        owner.strokes_saved.connect(self.note_save)

    def include(self, labels: JournalSubject) -> bool:
        """Return whether labels are among those that were measured."""
        is_inside = f"{labels.image}/".startswith(self._images)
        return labels.name == self._name and is_inside

    def note_save(self, labels: JournalSubject) -> None:
        """Note that strokes were saved, which the table may lack."""
        if self.include(labels):
            self._painted.add(labels)

    def describe_age(self) -> str:
        """Return `OLDER` with the images that were painted since; "" for none."""
        layers = self._owner.viewer.layers
        savers = [getattr(layer, "saver", None) for layer in layers]
        # A save that runs has written strokes before it is noted.
        painting = [x for x in savers if x and (x.has_unsaved_strokes or x.running)]
        subjects = [saver.journal.subject for saver in painting]
        painted = {*self._painted, *filter(self.include, subjects)}
        if not painted:
            return ""
        names = sorted(filter(None, {self._name_image(x.image) for x in painted}))
        if len(names) > MOST_NAMED:
            names = [names[0], f"{len(names) - 1} others"]
        return f"{OLDER} in {join_names(names)}" if names else OLDER


class TableAnnotation(Annotation):
    """A table that was measured, until a file has it or it is discarded.

    It takes the place of an earlier one of the same labels.

    Parameters
    ----------
    owner
        The annotations of the viewer.
    labels
        Name of the labels that were measured.
    place
        Their image, field, plate or collection, for people.
    table
        The rows.
    measured
        Of what it was measured; None for labels that cannot be painted here.
    layer
        The layer whose labels were measured; None where the table does not go away
        with a layer.
    node
        What gets the table: the plate or collection whose browser measured it, or the
        image; None for labels that are elsewhere, as in a sidecar.

    Attributes
    ----------
    table_name
        Name of the table in its images.
    """

    asked_apart = True

    def __init__(
        self,
        owner: Annotations,
        labels: str,
        place: str,
        table: WellTable,
        measured: MeasuredLabels | None = None,
        *,
        layer: Any = None,
        node: Node | None = None,
    ) -> None:
        super().__init__(owner)
        self.labels, self.table, self.node = labels, table, node
        self.measured, self._place = measured, place
        self._why_file = (
            "the images do not have the labels."
            if node is None
            else node.location.source.why_not_written(node.location.path)
        )
        self.asks_for_file = bool(self._why_file)
        self.table_name = name_measured(table.region or labels)
        self._is_over = self._running = self._is_stopped = self._has_failed = False
        self._done = 0.0
        # Not the `layer` of an annotation, which is the one that is saved.
        self._shown = None if layer is None else weakref.ref(layer)
        for older in list_tables(owner):
            # Later ones of a plate have the rows of the earlier ones.
            if (str(older.node), older._shown) == (str(node), self._shown) and (
                layer is not None or older.labels == labels
            ):
                older._is_over = True
                self.table_name = older.table_name
        owner.add(self)
        Window.current.watch_labels(owner.viewer, None)

    @property
    @override
    def name(self) -> str:
        return self.table_name

    @property
    @override
    def title(self) -> str:
        return f"measured table of {self.labels} ({self._place})"

    @property
    def age(self) -> str:
        """See `MeasuredLabels.describe_age`."""
        return "" if self.measured is None else self.measured.describe_age()

    @property
    def hint(self) -> str:
        """Say how the table is kept; "" where it is saved."""
        if not self.unsaved:
            return ""
        return f"{FILE}: {self._why_file}" if self._why_file else WRITES

    @property
    @override
    def description(self) -> str:
        text, age = super().description, self.age
        if not age:
            return text
        return f"{text} It was {age}; to include them, cancel, save and measure again."

    @property
    @override
    def state(self) -> AnnotationState:
        # Unsaved while it is kept, unless its labels were removed by a script.
        layers = self.owner.viewer.layers
        is_there = self._shown is None or self._shown() in layers
        return AnnotationState(
            is_there and not self.is_over,
            self._running,
            self._done,
            asks_name=self._has_failed,
        )

    @property
    @override
    def is_over(self) -> bool:
        is_dropped = self._shown is not None and self._shown() is None
        return self._is_over or is_dropped

    @property
    @override
    def ended(self) -> Sequence[SignalInstance]:
        return (self.owner.changed,)

    @override
    def goes_with(self, layers: Iterable[Any]) -> bool:
        return self._shown is not None and any(x is self._shown() for x in layers)

    @override
    def save(self, *, quiet: bool = False) -> None:
        if self._running:
            return
        if self.asks_for_file:
            viewer, title = self.owner.viewer, f"Save {self.title}"
            path = Window.current.ask_table_file(viewer, title, self.labels)
            if path:
                self.write(path, partial(self._report, older_text(self.age)))
        else:
            self._running, self._has_failed, self._is_stopped = True, False, False
            changed = self.owner.changed
            Window.current.watch_copy(self, "Saving", lambda: self._done, changed)
            self._begin_save(quiet)

    def _begin_save(self, quiet: bool) -> None:
        age = older_text(self.age)

        def finish(saved: tuple[int, list[str]] | None) -> None:
            text = f"Not saved in all images: {self.name}.\nIt was cancelled."
            self._is_over, self._running = saved is not None, False
            if saved is not None:
                written, left_out = saved
                changed = count_noun(written, "image")
                text = f"Saved: {self.name}.\n{changed} changed.{age}"
                self.owner.table_saved.emit(self)
                Window.current.show_messages(tuple(left_out), GONE)
            Window.current.show_passing(text)
            self.owner.note_change()

        def fail(error: Exception) -> None:
            if isinstance(error, NameTakenError) and not quiet:
                ask = partial(Window.current.ask_name, title="Name of the table")
                text = f"{error} Choose another name."
                name = ask(self.owner.viewer, text, error.free, name_problem)
                if name:
                    self.table_name = name
                    self._begin_save(quiet)
                    return
            self._running, self._has_failed = False, True
            self._report("", error_text(error))
            self.owner.note_change()

        Window.current.run_work(self._write_images, finish, fail)

    def _describe_rows(self, rows: Any, labels: str) -> tuple[Any, JSON]:
        texts = [x for x in rows if not self.table.is_numeric(x)]
        return rows, describe_features(labels, texts)

    def _write_images(self) -> tuple[int, list[str]] | None:
        images = self.table.list_images().items()
        labels = self.table.region
        tables = {path: self._describe_rows(rows, labels) for path, rows in images}
        assert self.node is not None
        return write_tables(self.node, self.table_name, tables, self._goes_on)

    @override
    def plan_copy(self, copy: ImageCopy) -> CopiedPart | str | None:
        name = copy.labels.get(self.table.region or self.labels)
        images = self.table.list_images().items() if name and self.node else ()
        places = {f"{self.node}/{path}".rstrip("/"): rows for path, rows in images}
        rows = places.get(str(copy.node))
        if name is None or rows is None:
            return "the new file has not its labels and image"
        if self.age or copy.is_scaled:
            return self.age or "the voxels have another size in the new file"
        tables = {"": self._describe_rows(rows, name)}

        def save_into(image: Node) -> None:
            write_tables(image, self.table_name, tables, lambda *_: True)

        return CopiedPart(self.title, save_into=save_into)

    def _goes_on(self, done: int, total: int) -> bool:
        self._done = done / total
        Window.current.report_to_main(self, self.owner.note_change)
        return not self._is_stopped

    @override
    def cancel(self) -> None:
        self._is_stopped = True

    def _report(self, age: str, reason: str | None) -> None:
        if reason is not None:
            show_error(f"Not saved: {shorten_name(self.title)}.\n{reason}")
        elif age:
            text = f"Saved: {shorten_name(self.name)}.\n{age.strip()}"
            Window.current.show_passing(text)

    def write(self, path: str, done: Callable[[str | None], Any]) -> None:
        """Write the table in a worker, as CSV, or Parquet by the suffix of the name.

        Parameters
        ----------
        done
            Called in the main thread with the reason why it is not written, or None.
        """
        self._running = True

        def finish(reason: str | None) -> None:
            self._running, self._is_over = False, reason is None
            self.owner.note_change()
            done(reason)

        table = self.table
        Window.current.run_work(
            partial(attempt_work, lambda: write_frame(table.to_frame(), path)), finish
        )

    @override
    def leave(self, *, keep: bool) -> None:
        if keep:
            self._shown = None
        self._is_over = not keep
        self.owner.note_change()


def list_tables(owner: Annotations) -> list[TableAnnotation]:
    """List the measured tables that are kept."""
    return [each for each in owner if isinstance(each, TableAnnotation)]
