"""Tables of a plate or collection: they colour the map, filter it, join features.

Everything that reads runs in a worker, a few fields at a time; of two such jobs only
the later one counts.
"""

from __future__ import annotations

import os
import weakref
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.labels.kept_edits import address_text
from napari_ngff.plate.tables.files import read_table, write_frame
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.plate.tables.measure_labels import FieldPath
from napari_ngff.plate.tables.row_places import locate_rows
from napari_ngff.plate.tables.table import (
    WELL,
    WellTable,
)
from napari_ngff.viewer import window_services
from napari_ngff.viewer.browsing.joined_tables import (
    Coloring,
    JoinedTables,
    TableColumn,
    WellDetails,
    color_numbers,
)
from napari_ngff.viewer.browsing.shown_labels import (
    join_table,
    labels_shown,
    names_shown,
)
from napari_ngff.viewer.browsing.table_offers import (
    GatheredTable,
    MeasureScope,
    TableOffer,
    TableOrigin,
    find_offers,
    gather_offer,
    read_offer,
)
from napari_ngff.viewer.latest_task import LatestTask
from napari_ngff.viewer.notices import last_part
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.layer_measuring import (
    UNSAVED,
)
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.saving.measured_tables import OLDER, OUTDATED, MeasuredTable
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.unexpected import Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.components import ViewerModel

    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.latest_task import TaskTurn
    from napari_ngff.viewer.saving.layer_saver import LayerSaver
    from napari_ngff.viewer.saving.measured_tables import MeasuredLabels

__all__ = ["PlateTables"]

CHANGING = (TableOrigin.PLATE, TableOrigin.IMAGES, TableOrigin.COUNT)
"""Origins whose tables are read again when they are chosen again, which is slow."""

STRANGERS = 3
"""Wells that are not on the plate which a message names."""


class PlateTables:
    """The tables of one browser, and what is shown of them.

    All that were read are joined by their wells: the map is coloured by a column of any
    of them, and the filter tests columns of all.

    Attributes
    ----------
    offers
        Tables that can be chosen.
    chosen
        The chosen table; None for no table.
    column
        Column of the chosen table that colours the map; None for thumbnails.
    outdated_note
        A sentence while the chosen table lacks strokes; "" otherwise.
    log
        Whether colours are on a logarithmic scale; None for what suits the numbers.
    """

    changed = Signal()
    """Emitted when tables, colours or filter have changed."""
    message_sent = Signal(str)
    """Emitted with a sentence for the user."""
    progressed = Signal(int, int)
    """Emitted with how many of how many fields are done; the same number twice at the
    end."""
    outdated_changed = Signal()
    """Emitted when `outdated_note` has changed."""

    def __init__(self, viewer: ViewerModel, browser: Browser) -> None:
        self._viewer = weakref.ref(viewer)
        self.browser = browser
        self.offers: tuple[TableOffer, ...] = ()
        self.chosen: TableOffer | None = None
        self.column: str | None = None
        self.log: bool | None = None
        self._ways: dict[TableColumn, str] = {}
        self._joined = JoinedTables()
        self._limits: tuple[float, float] | None = None
        self._colors_seen: dict[str, tuple[int, ...]] = {}
        self._filter = ""
        self.outdated_note = ""
        self._measured: dict[TableOffer, tuple[MeasuredLabels, ...]] = {}
        self._followed: weakref.WeakSet[LayerSaver] = weakref.WeakSet()
        self._task = LatestTask(on_progress=self.progressed.emit)
        self._session = session_of(viewer)
        browser.layers_changed.connect(self._follow_layers)
        browser.labels_offered.connect(self._offer_counts)
        self._session.measured.save_noted.connect(self._check_outdated)
        self._show_acquisitions()
        self._offer_counts()
        self._offer_measured()

    def close(self) -> None:
        """Stop; features that were joined stay."""
        self.cancel_task()
        self.browser.layers_changed.disconnect(self._follow_layers, missing_ok=True)
        self.browser.labels_offered.disconnect(self._offer_counts, missing_ok=True)
        noted = self._session.measured.save_noted
        for signal in (noted, *(saver.dirty_changed for saver in self._followed)):
            signal.disconnect(self._check_outdated, missing_ok=True)

    # Tables that can be chosen, or were read.

    @property
    def table(self) -> WellTable | None:
        """The chosen table."""
        return None if self.chosen is None else self._joined.tables.get(self.chosen)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the chosen table."""
        return self.table.columns if self.table is not None else ()

    @property
    def all_columns(self) -> dict[TableColumn, str]:
        """Columns of all tables that were read, with titles for people."""
        return self._joined.title_columns()

    @property
    def table_column(self) -> TableColumn | None:
        """The column that colours the map; None for thumbnails."""
        if self.chosen is None or self.column is None:
            return None
        column = TableColumn(self.chosen, self.column)
        return column if column in self.all_columns else None

    @property
    def ways(self) -> tuple[str, ...]:
        """List how the rows of a well can become one value of the column."""
        return self._joined.ways_of(self.table_column)

    @property
    def how(self) -> str:
        """Which of `ways` is chosen for the column: the first, or the last choice."""
        column, ways = self.table_column, self.ways
        chosen = None if column is None else self._ways.get(column)
        return chosen if chosen in ways else ways[0]

    def describe_well(self, path: str) -> WellDetails:
        """Sum up what all tables that were read hold of a well."""
        return self._joined.describe_well(path)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of labels that can be measured."""
        return tuple(o.name for o in self.offers if o.source is TableOrigin.COUNT)

    @property
    def wells(self) -> tuple[str, ...]:
        """Paths of the wells on the map."""
        return tuple(well.path for well in self.browser.map.wells)

    def find_tables(self) -> None:
        """Search tables and labels in a worker, and add them to `offers`."""
        window_services.run_work(lambda: find_offers(self.browser), self._add_offers)

    def _add_offers(self, offers: Sequence[TableOffer]) -> None:
        self.offers = tuple(dict.fromkeys((*self.offers, *offers)))
        self.browser.offer_labels(self.labels)
        self.changed.emit()

    def _offer_measured(self) -> None:
        """Offer tables that were measured before, and not saved."""
        for kept in self._session.measured.list_of_node(str(self.browser.node)):
            if kept.table is not None:
                offer = TableOffer(TableOrigin.MEASURED, kept.labels)
                self._joined.add_table(offer, kept.table)
                self._measured[offer] = kept.measured
                self.offers = (offer, *self.offers)

    # The chosen table.

    def load_file(self, path: str) -> None:
        """Read a table from a file, and choose it."""
        offer = TableOffer(TableOrigin.FILE, os.path.basename(path))
        # Where there are no wells, rows need no column of wells.
        alone = not self.wells
        node = self.browser.node
        self._start_task(
            lambda _: locate_rows(node, read_table(path, alone=alone)),
            partial(self._take_table, offer),
        )

    def choose_table(self, offer: TableOffer | None) -> None:
        """Choose a table; those of images, and numbers, are gathered first.

        A table that is chosen already is read again, unless it is of a file.
        """
        known = offer in self._joined.tables
        if offer is None or (known and not self._may_differ(offer)):
            self._show_table(offer)
            return
        if offer.source in (TableOrigin.PLATE, TableOrigin.STATES):
            node = self.browser.node
            self._start_task(
                lambda _: read_offer(node, offer), partial(self._take_table, offer)
            )
            return
        self._gather_table(offer)

    def _may_differ(self, offer: TableOffer) -> bool:
        """Return whether a table may have changed since it was read."""
        if offer.source is TableOrigin.STATES:  # they change while one annotates
            return True
        return offer == self.chosen and offer.source in CHANGING

    def measure_labels(
        self, label: str, scope: MeasureScope, selected: Sequence[str] = ()
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
        """
        position = self.browser.position
        if scope is MeasureScope.FIELD and position is None:
            self.message_sent.emit("Show a field first.")
            return
        labels = labels_shown(self._viewer(), self.browser, label)
        places: tuple[FieldPath, ...] | None = None
        wells = tuple(selected) if scope is MeasureScope.SELECTED else None
        if scope is MeasureScope.FIELD and position is not None:
            places = (FieldPath(position.well, position.field),)
        unsaved = any(getattr(layer, "unsaved", False) for layer, _ in labels)
        note = UNSAVED if unsaved else ""
        self._gather_table(TableOffer(TableOrigin.MEASURED, label), places, wells, note)

    def save_table(self, path: str) -> None:
        """Write the chosen table into a file, CSV or Parquet, in a worker."""
        table = self.table
        if table is None:
            return
        # In the main thread, since it reads the map; only writing runs in the worker.
        frame = self._name_wells(table)
        measured = self._session.measured
        node = str(self.browser.node)
        kept = [each for each in measured.list_of_node(node) if each.table is table]
        note = f" {OLDER}." if self._lacks_strokes() else ""

        def finish_save(_: None) -> None:
            for each in kept:
                measured.forget_table(each)
            self.message_sent.emit(f"{len(frame):,} rows are in {path}.{note}")

        self._start_task(lambda _: write_frame(frame, path), finish_save)

    def _check_outdated(self, _: Any = None) -> None:
        note = OUTDATED if self._lacks_strokes() else ""
        if note != self.outdated_note:
            self.outdated_note = note
            self.outdated_changed.emit()

    def _lacks_strokes(self) -> bool:
        """Return whether labels were painted since the chosen table was measured."""
        viewer = self._viewer()
        if viewer is None or self.chosen is None:
            return False
        measured = self._measured.get(self.chosen, ())
        return self._session.measured.lacks_strokes(measured, viewer.layers)

    def _keep_measured(
        self, offer: TableOffer, table: WellTable, measured: tuple[MeasuredLabels, ...]
    ) -> None:
        """Let the window ask about a table before it goes away."""
        node = str(self.browser.node)
        frame, place = self._name_wells(table), last_part(node)
        kept = MeasuredTable(
            offer.name, place, frame, node=node, table=table, measured=measured
        )
        self._session.keep_measured(kept)

    def _begin_measuring(
        self,
        name: str,
        places: tuple[FieldPath, ...] | None,
        wells: tuple[str, ...] | None,
    ) -> MeasuredLabels:
        """Note what is measured from now on: some fields, some wells, or all."""
        parts = [""] if wells is None else list(wells)
        if places is not None:
            parts = [f"{at.well or ''}/{at.field}" for at in places]
        root = address_text(self.browser.node)
        images = [f"{root}/{part.strip('/')}".rstrip("/") for part in parts if root]
        return self._session.measured.begin_measuring(name, images)

    def _name_wells(self, table: WellTable) -> Any:
        """Write wells as people do, "B03" rather than "B/3"."""
        frame = table.frame
        names = {path: well.name for path, well in self._map_wells().items()}
        places = table.wells_of(self.wells)
        known = {key: names[path] for key, path in places.items()}
        if not (frame[WELL] != "").any():
            return frame.drop(columns=WELL)
        return frame.assign(**{WELL: frame[WELL].map(lambda key: known.get(key, key))})

    def _map_wells(self) -> dict[str, Any]:
        return {well.path: well for well in self.browser.map.wells}

    def _gather_table(
        self,
        offer: TableOffer,
        places: tuple[FieldPath, ...] | None = None,
        wells: tuple[str, ...] | None = None,
        note: str = "",
    ) -> None:
        """Read each image in a worker; a note is shown meanwhile."""
        node = self.browser.node
        is_measured = offer.source is TableOrigin.MEASURED
        before = self._joined.tables.get(offer) if is_measured else None
        earlier = self._measured.get(offer, ()) if is_measured else ()
        measured = (*earlier, self._begin_measuring(offer.name, places, wells))

        def show_gathered(gathered: GatheredTable | None) -> None:
            if gathered is not None:
                self._measured[offer] = measured
                if is_measured:
                    self._keep_measured(offer, gathered.table, measured)
                self._take_table(offer, gathered.table)
                self.message_sent.emit(gathered.summary)
                if gathered.problems:
                    # napari shows the first line, and the rest on a click.
                    count = f"Left out: {len(gathered.problems):,}."
                    window_services.show_messages(gathered.problems, count)

        def gather_fields(turn: TaskTurn) -> GatheredTable | None:
            goes_on = turn.report_progress
            return gather_offer(node, offer, goes_on, places, wells, before)

        self._start_task(gather_fields, show_gathered, note)

    def _start_task(
        self,
        work: Callable[[TaskTurn], Any],
        done: Callable[[Any], None],
        note: str = "",
    ) -> None:
        """Run a task in a worker; a note is shown at once."""

        def finish_task(result: Any) -> None:
            self.progressed.emit(1, 1)
            done(result)

        def report_failure(reason: str) -> None:
            self.progressed.emit(1, 1)
            self.message_sent.emit(reason)
            self.changed.emit()

        self.progressed.emit(0, 0)
        if note:
            self.message_sent.emit(note)
        self._task.start(work, finish_task, report_failure)

    def cancel_task(self) -> None:
        """Stop the worker, and show that it was stopped."""
        self.give_up()
        self.progressed.emit(1, 1)
        self.changed.emit()

    def give_up(self) -> None:
        """Let a worker end after the fields that were begun; in the main thread."""
        self._task.cancel()

    def _take_table(self, offer: TableOffer, table: WellTable) -> None:
        self._joined.add_table(offer, table)
        self.offers = tuple(dict.fromkeys((offer, *self.offers)))
        known = {*table.wells_of(self.wells), ""}
        strangers = [w for w in table.frame[WELL].unique().tolist() if w not in known]
        if strangers and self.wells:
            names = ", ".join(str(w).replace("/", "") for w in strangers[:STRANGERS])
            more = len(strangers) - STRANGERS
            names += f" and {more:,} more" if more > 0 else ""
            self.message_sent.emit(f"Not on this plate, in {offer.title}: {names}.")
        self._show_table(offer)

    def _show_table(self, offer: TableOffer | None) -> None:
        self.chosen = offer
        table = self.table
        columns = (*table.numeric_columns, *table.columns) if table is not None else ()
        if self.column not in columns:
            self.column = columns[0] if columns and self.wells else None
        self._limits = self.log = None
        self._join_features()
        self._check_outdated()
        self.changed.emit()

    # The map.

    def color_by(self, column: str | None, how: str | None = None) -> None:
        """Colour the map by a column of the chosen table, or show thumbnails.

        Parameters
        ----------
        how
            One of `ways`; by default that of the column before, see `how`.
        """
        before = self.column, self.how
        self.column = column
        if how is not None and self.table_column is not None:
            self._ways[self.table_column] = how
        if column != before[0]:
            self._limits = self.log = None
        elif self.how != before[1]:
            self._limits = None
        self.changed.emit()

    def color_by_any(self, column: TableColumn | None, how: str | None = None) -> None:
        """Colour the map by a column of any table, which is chosen; see `color_by`."""
        if column is not None and column.offer != self.chosen:
            self.chosen, self.column = column.offer, None
            self._join_features()
        self.color_by(None if column is None else column.name, how)

    def limit_colors(self, limits: tuple[float, float] | None) -> None:
        """Choose the values of the first and last colour; None for all there are."""
        self._limits = limits
        self.changed.emit()

    def scale_by_log(self, log: bool | None) -> None:
        """Choose a logarithmic scale or not; None for what suits the numbers."""
        self.log, self._limits = log, None
        self.changed.emit()

    def color_map(self) -> Coloring | None:
        """Return the values for the map, from the rows that the filter lets through."""
        column = self.table_column
        if column is None:
            return None
        coloring = self._joined.color_wells(column, self.how, self._filter, self.wells)
        if coloring.categories:
            return replace(coloring, class_colors=self._class_colors(column))
        return color_numbers(coloring.values, coloring.title, self._limits, self.log)

    def _class_colors(self, column: TableColumn) -> dict[str, tuple[int, ...]]:
        """Find the colours of classes on the canvas, for the column that names them."""
        if column.name != CLASS:
            return {}
        self._note_class_colors()
        return dict(self._colors_seen)

    def _note_class_colors(self) -> bool:
        """Note the colours of classes on the canvas; return whether any are new."""
        before = dict(self._colors_seen)
        shown = labels_shown(self._viewer(), self.browser)
        layers = (layer for layer, _ in shown if isinstance(layer, OMEZarrLabels))
        items = (known for layer in layers for known in classes_of_layer(layer).items)
        self._colors_seen |= {known.name: known.color[:3] for known in items}
        return self._colors_seen != before

    def _follow_layers(self) -> None:
        """Join features of other labels, and show the colours of their classes."""
        if self._show_acquisitions():
            self.changed.emit()
        self._join_features()
        for layer, _ in labels_shown(self._viewer(), self.browser):
            saver = getattr(layer, "saver", None)
            if saver is not None:
                saver.dirty_changed.connect(self._check_outdated, unique=True)
                self._followed.add(saver)
        self._check_outdated()
        column = self.table_column
        is_class = column is not None and column.name == CLASS
        if is_class and self._note_class_colors():
            self.changed.emit()

    def filter_wells(self, text: str) -> None:
        """Let a line of text choose wells, and rows of the table.

        Parameters
        ----------
        text
            Parts joined by "and": tests of columns, which a row of the well has to
            meet, and words for wells, see `matching_wells`.
        """
        # Before the filter changes: the scale that is seen now is kept.
        coloring = self.color_map() if self.log is None else None
        if coloring is not None:
            self.log = coloring.is_log  # else fewer rows might have another scale
        self._filter = text
        self.changed.emit()

    @property
    def filter_problem(self) -> str:
        """The reason why the filter is not understood; "" where it is."""
        try:
            self._find_shown()
        except ValueError as error:
            return str(error)
        return ""

    @property
    def filter_note(self) -> str:
        """How many wells the filter means; "" for all, or where it has a problem."""
        shown = self.wells_shown
        if shown is None:
            return ""
        return f"Wells that match the filter: {len(shown):,} of {len(self.wells):,}."

    @property
    def wells_shown(self) -> frozenset[str] | None:
        """Paths of the wells that the filter means; None for all."""
        try:
            return self._find_shown()
        except ValueError:
            return None

    def _find_shown(self) -> frozenset[str] | None:
        return self._joined.wells_shown(self._filter, self.chosen, self.browser.map)

    def _join_features(self) -> None:
        """Show the rows of a table as features of the objects on screen.

        Labels on screen that were not found before are offered from now on.
        """
        table = self._joined.object_table(self.chosen)
        join_table(self._viewer(), self.browser, table)
        self.browser.offer_labels(names_shown(self._viewer(), self.browser))

    def _show_acquisitions(self) -> bool:
        """Let the rows of the acquisitions count that the browser shows."""
        plate, chosen = (
            self.browser.node.metadata.plate,
            self.browser.chosen_acquisitions,
        )
        names = plate.acquisition_names if plate is not None and chosen else {}
        shown = [names[run] for run in chosen if run in names]
        return self._joined.show_acquisitions(shown, set(names.values()) - set(shown))

    def _offer_counts(self) -> None:
        """Offer to count and to measure all labels that are known by now."""
        names = self.browser.known_labels
        if not set(names) <= set(self.labels):
            self._add_offers([TableOffer(TableOrigin.COUNT, name) for name in names])
