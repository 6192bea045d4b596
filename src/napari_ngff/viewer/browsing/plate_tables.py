"""Tables of a plate or collection: they colour the map, filter it, join features.

All that takes long runs in workers: reading, a few fields at a time, and finding what
the map shows. Of two such jobs only the later one counts.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import Notification

from napari_ngff.labels.kept_edits import address_text
from napari_ngff.labels.places.label_location import name_problem
from napari_ngff.plate.tables.feature_table import write_conditions
from napari_ngff.plate.tables.files import write_frame
from napari_ngff.plate.tables.measure_labels import FieldPath, FieldTask
from napari_ngff.plate.tables.object_features import choose_columns
from napari_ngff.viewer.annotations.table_annotation import (
    ONLY_FILE,
    MeasuredLabels,
    TableAnnotation,
    list_tables,
    older_text,
    outdated_note,
)
from napari_ngff.viewer.browsing.joined_tables import (
    JoinedTables,
    TableColumn,
    TableView,
)
from napari_ngff.viewer.browsing.positions import Position, inline_title
from napari_ngff.viewer.browsing.table_offers import (
    TASKS,
    MeasureScope,
    TableOffer,
    TableOrigin,
    TableRead,
    describe_reads,
    find_offers,
    list_files,
    note_of,
    read_offer,
    read_wanted,
)
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.layer_measuring import (
    UNSAVED,
    join_features,
    part_features,
)
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.plans.layer_plan import KEY, layer_kind, origin_of
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.latest_task import LatestTask, TaskTurn
from napari_ngff.viewer.services.notices import last_part
from napari_ngff.viewer.services.window import Signal, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari.layers import Labels

    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.viewer.browsing.browser import Browser

KEPT = (TableOrigin.FILE, TableOrigin.MEASURED)
"""Origins whose tables are never read again."""


class PlateTables:
    """The tables of one browser, and what is shown of them.

    Attributes
    ----------
    joined
        The tables that there are, and what was chosen.
    view
        What the map shows of them; soon after each change.
    message
        A sentence for the user; "" for none.
    outdated_note
        A sentence while the chosen table lacks strokes; "" otherwise.
    result_choice
        How the dock of results shows wells: a `ResultChoice`, None before it is open.
    kept_note
        A sentence while no file has the chosen table; "" otherwise.
    """

    result_choice: Any = None

    changed = Signal()
    """Emitted when what is shown of tables has changed."""
    message_sent = Signal(str)
    """Emitted with a sentence for the user."""
    progressed = Signal(int, int)
    """Emitted with how many of how many fields are done; the same number twice at the
    end."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.joined = JoinedTables(browser.map)
        self.view = TableView()
        self.message = self.outdated_note = self.kept_note = self._cancelled = ""
        self._measured: dict[TableOffer | None, MeasuredLabels] = {}
        self._annotations = browser.layers.annotations
        viewer = self._annotations.viewer

        def is_open() -> bool:
            return Window.current.is_open(viewer)

        self._task = LatestTask(is_open, self.progressed.emit)
        self._search, self._reading = LatestTask(is_open), LatestTask(is_open)
        self._viewing = LatestTask(is_open)
        browser.layers_changed.connect(self._follow_layers)
        browser.labels_offered.connect(self._offer)
        self._annotations.changed.connect(self._check_strokes)
        self._annotations.table_saved.connect(self._offer_saved)
        # Tables that were measured before, and not saved.
        for kept in list_tables(self._annotations):
            if str(kept.node) == str(browser.node):
                offer = TableOffer(TableOrigin.MEASURED, kept.labels)
                if kept.measured is not None:
                    self._measured[offer] = kept.measured
                self.joined = self.joined.with_read(offer, TableRead((kept.table,)))
        self._offer()
        self._follow_layers()

    def close(self) -> None:
        """Stop; features that were joined stay."""
        for task in (self._task, self._search, self._reading, self._viewing):
            task.cancel()
        for signal in (self.changed, self.message_sent, self.progressed):
            signal.disconnect()
        self.browser.layers_changed.disconnect(self._follow_layers)
        self.browser.labels_offered.disconnect(self._offer)
        self._annotations.changed.disconnect(self._check_strokes)
        self._annotations.table_saved.disconnect(self._offer_saved)

    def stop(self) -> None:
        """Stop reading and measuring, since nobody sees how far it is."""
        self._task.cancel()

    # What there is, and what is shown.

    @property
    def table(self) -> WellTable | None:
        """The rows of the chosen table; None before there is one."""
        chosen = self.joined.chosen
        return None if chosen is None else self.joined.tables[chosen]

    @property
    def note(self) -> str:
        """What the user is told: the problem of the filter, or all else there is."""
        notes = self.message, self.view.note, self.outdated_note, self.kept_note
        return self.view.problem or " ".join(filter(None, notes))

    def _say(self, text: str) -> None:
        self.message = text
        if text:
            self.message_sent.emit(text)

    # Tables.

    def find_tables(self) -> None:
        """Search tables and labels in a worker, and read those that are wanted."""

        def take(found: Sequence[tuple[TableOffer, TableRead]]) -> None:
            for offer, read in found:
                self.joined = self.joined.with_read(offer, read)
            self._say(describe_reads(found) or self.message)
            self._show(self.joined)

        node, plate = self.browser.node, self.browser.map
        self._search.start(lambda _: find_offers(self.browser), self._offer, self._say)
        self._reading.start(lambda _: read_wanted(node, plate), take, self._say)

    def _offer(self, offers: Sequence[TableOffer] = ()) -> None:
        """Offer further tables, and numbers of all labels that are known."""
        self.browser.offer_labels(
            each.name for each in offers if each.source is TableOrigin.COUNT
        )
        known = self.browser.known_labels
        self.joined = self.joined.with_offers(
            [*offers, *(TableOffer(TableOrigin.COUNT, name) for name in known)]
        )
        self.changed.emit()

    def load_file(self, path: str) -> None:
        """Read a table from a file, and choose it."""
        self._read(
            TableOffer(TableOrigin.FILE, os.path.basename(path), os.path.abspath(path))
        )

    def choose_table(self, offer: TableOffer | None) -> None:
        """Choose a table, or none; what may have changed is read again.

        Numbers and tables of all images, which take long, only if they were chosen
        already.
        """
        source = None if offer is None else offer.source
        is_known = offer in self.joined.tables and offer != self.joined.chosen
        # No file has the classes that were predicted.
        kept = [x.table for x in list_tables(self._annotations)]
        is_kept = (
            offer is not None
            and offer in self.joined.tables  # else it is tried again
            and (source in KEPT or self.joined.tables[offer] in kept)
        )
        if offer is None or is_kept or (is_known and source in TASKS):
            self._choose(offer)
        else:
            self._read(offer, [""] if source is TableOrigin.COUNT else ())

    def measure_labels(
        self,
        label: str,
        scope: MeasureScope,
        selected: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> None:
        """Measure labels as they are saved, and choose the table.

        Parameters
        ----------
        label
            Their name.
        scope
            Of what.
        selected
            Paths of wells for `MeasureScope.SELECTED`.
        groups
            Of columns, see `choose_columns`.
        """
        position, parts, which = self.browser.position, [""], dict[str, Any]()
        if scope is MeasureScope.SELECTED:
            parts = which["places"] = list(selected)
        if scope is MeasureScope.FIELD:
            if position is None:
                self._say("Show a field first.")
                return
            which["places"] = [FieldPath(position.well, position.field)]
            parts = [which["places"][0].path]
        offer = TableOffer(TableOrigin.MEASURED, label)
        which["task"] = FieldTask(choose_columns(groups))
        which["before"] = self.joined.tables.get(offer)
        unsaved = any(
            layer.metadata[KEY].label_name == label and getattr(layer, "unsaved", False)
            for layer, _ in self.list_labels()
        )
        self._read(offer, parts, UNSAVED if unsaved else "", **which)

    def _read(
        self,
        offer: TableOffer,
        parts: Iterable[str] = (),
        note: str = "",
        **which: Any,
    ) -> None:
        """Read a table in a worker, and choose it.

        Parameters
        ----------
        parts
            Paths of the fields or wells whose labels are measured now; "" is all.
        note
            Is shown meanwhile.
        which
            See `read_offer`.
        """
        node, plate = self.browser.node, self.browser.map
        root, earlier = address_text(node), self._measured.get(offer)
        images = [f"{root}/{part}".rstrip("/") for part in parts if root]
        measured = MeasuredLabels(
            self._annotations, offer.name, images, earlier, self._name_image
        )

        def take(found: TableRead) -> str:
            self._measured[offer] = measured
            if offer.source is TableOrigin.MEASURED:
                self._keep_measured(offer, found.tables[0])
            self.joined = self.joined.with_read(offer, found)
            self._choose(offer)
            if found.notice:
                # It stays: who measures a plate for hours is not there all the time.
                notice = Notification(found.notice, "warning")
                Window.current.show_offer(self._annotations.viewer, notice)
            return found.note

        self._say(note)
        self.run_task(
            lambda turn: read_offer(node, offer, plate, turn.report_progress, **which),
            take,
            "Cancelled: nothing was kept." if offer.source in TASKS else "Cancelled.",
        )

    def _keep_measured(self, offer: TableOffer, table: WellTable) -> TableAnnotation:
        """Ask about a measured table before it goes away, until a file has it."""
        node = self.browser.node
        return TableAnnotation(
            self._annotations,
            table.region,
            last_part(str(node)),
            table,
            self._measured.get(offer),
            node=node,
        )

    def _name_image(self, address: str) -> str:
        """Name a field by the address of its image."""
        root = address_text(self.browser.node) or ""
        well, field = None, address.removeprefix(root).strip("/")
        if self.browser.map.wells:
            well, _, field = field.rpartition("/")
        return inline_title(self.browser.name_field(Position(well, field)))

    def run_task(
        self,
        work: Callable[[TaskTurn], Any],
        done: Callable[[Any], str],
        cancelled: str = "Cancelled.",
    ) -> None:
        """Do work in a worker; `done` gets its result, and returns a sentence on it.

        Parameters
        ----------
        cancelled
            The sentence if the user cancels it.
        """
        self._cancelled = cancelled
        self.progressed.emit(0, 0)
        self._task.start(work, lambda found: self.end_task(done(found)), self.end_task)

    def replace_table(self, table: WellTable, new: WellTable, column: str) -> None:
        """Replace a table by one with more columns, and colour the map by one of them.

        It is kept as one that was measured: no file has the new columns.
        """
        offer = next(
            each for each, found in self.joined.tables.items() if found is table
        )
        self.joined = self.joined.with_read(offer, TableRead((new,)))
        self._keep_measured(offer, new)
        self.color_by(TableColumn(offer, column))

    def end_task(self, note: str = "") -> None:
        """Tell how a task has ended."""
        self._say(note)
        self.progressed.emit(1, 1)
        self.changed.emit()

    def cancel_task(self) -> None:
        """Stop the worker after the fields that were begun."""
        self._task.cancel()
        self.end_task(self._cancelled)

    def forget_file(self, name: str) -> None:
        """Take a file off the list, and read it no more; the file itself stays."""
        work = partial(
            settings.change_note,
            note_of(self.browser.node),
            lambda noted: {x: y for x, y in list_files(noted).items() if x != name},
        )
        Window.current.run_work(work, lambda _: None)
        self.message = ""
        self._follow_layers(self.joined.without_file(name))

    @property
    def why_not_saved(self) -> str:
        """Why *Save into the plate* is not possible for the chosen table; "" if so."""
        chosen, place = self.joined.chosen, self.browser.node.location
        if (
            chosen is None
            or chosen.source not in KEPT
            or (chosen.path and not self.joined.paths)
        ):
            return "Choose a table that was measured, or loaded for a plate."
        reason = place.source.why_not_written(place.path)
        end = " The file is remembered, and read again with the plate."
        return reason + end * bool(reason and chosen.path)

    def save_in_plate(self) -> None:
        """Write the chosen table into the images it was measured of, or if it was
        loaded, into the plate.
        """
        offer, table, node = self.joined.chosen, self.table, self.browser.node
        if offer is None or table is None:
            return
        unsaved = (x for x in list_tables(self._annotations) if x.table is table)
        kept = next(unsaved, None)
        if kept is not None or not offer.path:
            (kept or self._keep_measured(offer, table)).save()
            return
        # As of one of several tables of a file.
        name = table.name.replace(": ", "_")

        def take(written: str) -> str:
            new = TableOffer(TableOrigin.PLATE, written)
            # In its place, where people find its columns again.
            tables = {x: y for x, y in self.joined.tables.items() if x != new}
            tables = {new if x == offer else x: y for x, y in tables.items()}
            self.joined = replace(self.joined, tables=tables).with_offers([new])
            self._choose(new)
            if [x.path for x in self.joined.offers].count(offer.path) == 1:
                self.forget_file(offer.name)
            return f"Saved into {last_part(str(node))}: {written}."

        self.run_task(
            lambda turn: write_conditions(
                node,
                "conditions" if name_problem(name) else name,
                table,
                turn.report_progress,
            ),
            take,
        )

    def _offer_saved(self, saved: TableAnnotation) -> None:
        """Offer a measured table that the images have now."""
        offer = TableOffer(TableOrigin.IMAGES, saved.table_name)
        if str(saved.node) == str(self.browser.node):
            if offer != self.joined.chosen:
                # What was read of it before is older.
                tables = {x: y for x, y in self.joined.tables.items() if x != offer}
                self.joined = replace(self.joined, tables=tables)
            self._offer([offer])

    def save_table(self, path: str) -> None:
        """Write the chosen table into a file, CSV or Parquet, in a worker."""
        table = self.table
        if table is None:
            return
        kept = [each for each in list_tables(self._annotations) if each.table is table]
        measured = self._measured.get(self.joined.chosen)
        age = "" if measured is None else measured.describe_age()

        def finish(_: None) -> str:
            for each in kept:
                each.leave(keep=False)
            only = f" {ONLY_FILE}" * bool(kept)
            return f"{len(table):,} rows are in {path}.{only}{older_text(age)}"

        self.run_task(lambda _: write_frame(table.to_frame(), path), finish)

    # What is shown of them.

    def _choose(self, offer: TableOffer | None) -> None:
        joined = replace(self.joined, chosen=offer, log=None)
        if joined.table_column is None and offer is not None and joined.paths:
            joined = replace(joined, column=joined.find_first_column(offer))
        self.message = ""
        self._follow_layers(joined)

    def color_by(self, column: TableColumn | None, how: str | None = None) -> None:
        """Colour the map by a column, whose table is chosen, or show thumbnails.

        Parameters
        ----------
        how
            How the rows of a well become one value; by default as the last time.
        """
        joined = replace(self.joined, column=None if column is None else column.name)
        if column is not None:
            ways = joined.ways if how is None else {**joined.ways, column: how}
            log = joined.log if column == self.joined.table_column else None
            joined = replace(joined, chosen=column.offer, ways=ways, log=log)
        self.message = ""
        self._follow_layers(joined)

    def scale_by_log(self, log: bool | None) -> None:
        """Choose a logarithmic scale or not; None for what suits the numbers."""
        self._show(replace(self.joined, log=log))

    def filter_wells(
        self, text: str, done: Callable[[TableView], Any] = lambda view: None
    ) -> None:
        """Let a line of text choose wells, and rows of tables.

        Parameters
        ----------
        text
            Parts joined by "and": tests of columns, which a row of the well has to
            meet, and words for wells, see `matching_wells`.
        done
            Called with what is shown then.
        """
        self.message = ""
        self._show(replace(self.joined, text=text), done)

    def _show(
        self,
        joined: JoinedTables,
        done: Callable[[TableView], Any] = lambda view: None,
    ) -> None:
        """Find what the map shows in a worker, and show it."""

        def show(view: TableView) -> None:
            self.view = view
            self.changed.emit()
            done(view)

        self.joined = joined
        self._viewing.start(
            lambda _: joined.find_view(),
            show,
            lambda reason: show(TableView(problem=reason)),
        )

    # Layers.

    def _follow_layers(self, joined: JoinedTables | None = None) -> None:
        """Follow what is on screen: acquisitions, labels and classes.

        Rows of a table are features of the labels. Labels on screen that were not found
        before are offered from now on.

        Parameters
        ----------
        joined
            Tables with another choice, which is shown.
        """
        browser, before, labels = self.browser, self.joined, self.list_labels()
        plate, runs = browser.node.metadata.plate, browser.chosen_acquisitions
        names = plate.acquisition_names if plate is not None and runs else {}
        shown = tuple(names[run] for run in runs if run in names)
        hidden = frozenset(names.values()) - {*shown}
        colors = dict(before.class_colors)
        for layer, _ in labels:
            if isinstance(layer, OMEZarrLabels):
                items = classes_of_layer(layer).items or layer.object_classes().classes
                colors |= {known.name: known.color[:3] for known in items}
        self.joined = replace(
            joined or before, shown=shown, hidden=hidden, class_colors=colors
        )
        self._join_rows(labels)
        # Those of sidecars are not in the fields, where labels to measure are looked
        # for.
        root = browser.node.location.source.name
        nodes = [layer.metadata[KEY].node for layer, _ in labels]
        found = (node.name for node in nodes if node.location.source.name == root)
        browser.offer_labels(tuple(dict.fromkeys(found)))
        self._check_strokes()
        if before.shown != shown:
            self.message = ""
        known = before.shown, before.hidden, before.class_colors
        if joined is not None or known != (shown, hidden, colors):
            self._show(self.joined)

    def list_labels(self) -> list[tuple[Labels, FieldPath]]:
        """List the labels of what is shown, each with the field that it belongs to.

        They belong to several fields where several acquisitions are shown.
        """
        position, labels = self.browser.position, list[tuple[Any, FieldPath]]()
        if position is None:
            return []
        root = self.browser.node.location.join_path(position.well or "").path
        for layer in self.browser.layers.viewer.layers:
            origin: Any = origin_of(layer)
            is_label = layer_kind(layer) == "labels" and origin is not None
            if is_label and self.browser.layers.owns_layer(layer):
                picture = origin.picture
                image = picture.image if picture is not None else None
                image_path = image.node.location.path if image is not None else ""
                field = image_path.removeprefix(root).strip("/") or position.field
                labels.append((layer, FieldPath(position.well, field)))
        return labels

    def _join_rows(self, labels: Iterable[tuple[Labels, FieldPath]]) -> None:
        """Show the rows of the table of objects as features of labels."""
        table, kept = self.joined.find_objects(), list_tables(self._annotations)
        for layer, place in labels:
            # Rows of the field before must not stay, whether or not this one has some.
            part_features(layer)
            # CellProfiler begins names of objects with a capital.
            regions = "", layer.metadata[KEY].label_name.casefold()
            if table is not None and table.region.casefold() in regions:
                rows = table.of_field(place.well or "", place.field)
                if len(rows):
                    join_features(layer, rows)
                    continue
            # What the form has measured stays, until the field is left.
            for measured in kept:
                if measured.goes_with([layer]):
                    join_features(layer, measured.table)

    def _check_strokes(self) -> None:
        """Find out whether the chosen table lacks strokes, and how it is kept."""
        measured = self._measured.get(self.joined.chosen)
        note = "" if measured is None else outdated_note(measured.describe_age())
        kept = [x.hint for x in list_tables(self._annotations) if x.table is self.table]
        notes = note, "".join(kept)
        if notes != (self.outdated_note, self.kept_note):
            self.outdated_note, self.kept_note = notes
            self.changed.emit()
