"""Tables of what a browser walks: they colour the map, filter it, join features.

Everything that reads runs in a worker, a few fields at a time; of two such jobs only
the later one counts.
"""

from __future__ import annotations

import math
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from psygnal import Signal

from napari_ngff.errors import OMEZarrError
from napari_ngff.plate.tables.conditions import is_condition, parse_conditions, parts_of
from napari_ngff.plate.tables.files import read_table, write_frame
from napari_ngff.plate.tables.measuring import Place
from napari_ngff.plate.tables.table import AGGREGATIONS, WELL, Table
from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.features import (
    join_table,
    labels_shown,
    names_shown,
)
from napari_ngff.viewer.browsing.map_values import Coloring
from napari_ngff.viewer.browsing.table_offers import (
    Gathered,
    Offer,
    Scope,
    Source,
    find_offers,
    gather_offer,
    read_offer,
)
from napari_ngff.viewer.browsing.well_filter import matching

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.browser import Browser

__all__ = ["Tables"]

CHANGING = (Source.PLATE, Source.IMAGES, Source.COUNT)
"""What is read anew when it is chosen again; that takes its time."""

UNSAVED = "Unsaved edits are not measured; save them first."


class Tables:
    """The tables of one browser, and what is shown of the chosen one.

    Attributes
    ----------
    offers
        What can be chosen.
    chosen
        What is; None for no table.
    column, how
        What the map is coloured by, see `Table.by_well`; no column for thumbnails.
    """

    changed = Signal()
    """Emitted when there is something else to show."""
    told = Signal(str)
    """Emitted with a sentence for the user."""
    progressed = Signal(int, int)
    """Emitted with how many of how many fields are done, from a worker; the same number
    twice, in the main thread, at the end."""

    def __init__(self, viewer: ViewerModel, browser: Browser) -> None:
        self._viewer = weakref.ref(viewer)
        self.browser = browser
        self.offers: tuple[Offer, ...] = ()
        self.chosen: Offer | None = None
        self.column: str | None = None
        self.how = AGGREGATIONS[0]
        self._tables: dict[Offer, Table] = {}
        self._limits: tuple[float, float] | None = None
        self._filter = ""
        self._values: tuple[Any, dict[str, float | None]] | None = None
        self._kept: tuple[tuple[Table, str], Table] | None = None
        self._generation = 0
        browser.layers_changed.connect(self._join)

    def close(self) -> None:
        """Do no more; features that were joined stay."""
        self.cancel()
        self.browser.layers_changed.disconnect(self._join, missing_ok=True)

    # What there is.

    @property
    def table(self) -> Table | None:
        """The chosen table."""
        return None if self.chosen is None else self._tables.get(self.chosen)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the chosen table."""
        return self.table.columns if self.table is not None else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of labels that can be measured."""
        return tuple(o.name for o in self.offers if o.source is Source.COUNT)

    @property
    def wells(self) -> tuple[str, ...]:
        """Paths of the wells on the map."""
        return tuple(well.path for well in self.browser.map.wells)

    def find(self) -> None:
        """Look which tables and labels there are, in a worker."""
        frontend.run(lambda: find_offers(self.browser), self._offer)

    def _offer(self, offers: Sequence[Offer]) -> None:
        self.offers = tuple(dict.fromkeys((*self.offers, *offers)))
        self.changed.emit()

    # Which is shown.

    def load(self, path: str) -> None:
        """Read a table from a file, and choose it."""
        offer, alone = Offer(Source.FILE, os.path.basename(path)), not self.wells
        self._run(lambda _: read_table(path, alone=alone), partial(self._take, offer))

    def choose(self, offer: Offer | None) -> None:
        """Choose a table; those of images, and numbers, are gathered first.

        One that is chosen already is read anew, where it is not of a file.
        """
        if offer is None or (offer in self._tables and not self._may_differ(offer)):
            self._show(offer)
            return
        if offer.source in (Source.PLATE, Source.STATES):
            node = self.browser.node
            self._run(lambda _: read_offer(node, offer), partial(self._take, offer))
            return
        self._gather(offer)

    def _may_differ(self, offer: Offer) -> bool:
        """Tell whether a table that was read is to be read anew."""
        if offer.source is Source.STATES:  # they change while one annotates
            return True
        return offer == self.chosen and offer.source in CHANGING

    def measure(self, label: str, scope: Scope, selected: Sequence[str] = ()) -> None:
        """Measure labels as they are saved, and choose the table.

        Parameters
        ----------
        label
            Their name.
        scope
            Of what.
        selected
            Paths of wells for `Scope.SELECTED`.
        """
        here = self.browser.position
        if scope is Scope.FIELD and here is None:
            self.told.emit("Show a field first.")
            return
        labels = labels_shown(self._viewer(), self.browser, label)
        places, wells = None, tuple(selected) if scope is Scope.SELECTED else None
        if scope is Scope.FIELD and here is not None:
            shown = (Place(here.well, here.field), *(place for _, place in labels))
            places = tuple(dict.fromkeys(shown))
        unsaved = any(getattr(layer, "unsaved", False) for layer, _ in labels)
        note = UNSAVED if unsaved else ""
        self._gather(Offer(Source.MEASURED, label), places, wells, note)

    def save(self, path: str) -> None:
        """Write the chosen table into a file, CSV or Parquet, in a worker."""
        table = self.table
        if table is not None:
            frame = self._named(table.frame)
            self._run(
                lambda _: write_frame(frame, path),
                lambda _: self.told.emit(f"{len(frame):,} rows are in {path}."),
            )

    def _named(self, frame: Any) -> Any:
        """Write wells as people do, "B03" rather than "B/3"."""
        names = {path: well.name for path, well in self._map_wells().items()}
        places = self.table.on(self.wells) if self.table is not None else {}
        known = {key: names[path] for key, path in places.items()}
        if not (frame[WELL] != "").any():
            return frame.drop(columns=WELL)
        return frame.assign(**{WELL: frame[WELL].map(lambda key: known.get(key, key))})

    def _map_wells(self) -> dict[str, Any]:
        return {well.path: well for well in self.browser.map.wells}

    def _gather(
        self,
        offer: Offer,
        places: tuple[Place, ...] | None = None,
        wells: tuple[str, ...] | None = None,
        note: str = "",
    ) -> None:
        """Look at each image in a worker; a note is told at once, and in the end."""
        node = self.browser.node

        def done(found: Gathered | None) -> None:
            if found is not None:
                self._take(offer, found.table)
                self.told.emit(f"{note} {found.told}".strip())
                if found.problems:
                    # napari shows the first line, and the rest on a click.
                    count = f"Left out: {len(found.problems):,}."
                    frontend.show((count, *found.problems))

        work = partial(gather_offer, node, offer, places=places, wells=wells)
        self._run(work, done, note)

    def _run(
        self,
        work: Callable[[Callable[[int, int], bool]], Any],
        done: Callable[[Any], None],
        note: str = "",
    ) -> None:
        """Do something in a worker; a note is told ahead, and a text that it gives."""
        self._generation += 1
        mine, watched = self._generation, len(self.progressed) > 0

        def goes_on(count: int, total: int) -> bool:
            if mine == self._generation:
                self.progressed.emit(count, total)
            seen = len(self.progressed) > 0 or not watched
            return mine == self._generation and seen

        def safely() -> Any:
            try:
                return work(goes_on)
            except (OMEZarrError, OSError, ValueError) as error:
                return str(error)

        def finished(found: Any) -> None:
            if mine != self._generation:
                return
            self.progressed.emit(1, 1)
            if isinstance(found, str):
                self.told.emit(found)
                self.changed.emit()
            else:
                done(found)

        self.progressed.emit(0, 0)
        if note:
            self.told.emit(note)
        frontend.run(safely, finished)

    def cancel(self) -> None:
        """Give up what goes on in a worker, and say so."""
        self.give_up()
        self.progressed.emit(1, 1)
        self.changed.emit()

    def give_up(self) -> None:
        """Let a worker end after the fields that were begun; from any thread."""
        self._generation += 1

    def _take(self, offer: Offer, table: Table) -> None:
        self._tables[offer] = table
        self._values = None
        self.offers = tuple(dict.fromkeys((offer, *self.offers)))
        strangers = len(
            set(table.frame[WELL].unique()) - set(table.on(self.wells)) - {""}
        )
        if strangers and self.wells:
            self.told.emit(f"Wells of {offer.title} not on this plate: {strangers}.")
        self._show(offer)

    def _show(self, offer: Offer | None) -> None:
        self.chosen = offer
        table = self.table
        numeric = table.numeric if table is not None else ()
        if self.column not in numeric:
            self.column = numeric[0] if numeric and self.wells else None
        self._limits = None
        self._join()
        self.changed.emit()

    # The map.

    def color_by(self, column: str | None, how: str) -> None:
        """Colour the map by a column, or show thumbnails."""
        self.column, self.how = column, how
        self._limits = None
        self.changed.emit()

    def limit(self, limits: tuple[float, float] | None) -> None:
        """Choose the values of the first and last colour; None for all there are."""
        self._limits = limits
        self.changed.emit()

    def coloring(self) -> Coloring | None:
        """Give the values for the map, of the rows that the filter lets through."""
        try:
            values = self._colored()
        except ValueError:
            return None
        if values is None:
            return None
        known = [v for v in values.values() if v is not None and math.isfinite(v)]
        limits = (min(known), max(known)) if known else (0.0, 1.0)
        plain = self.chosen is not None and self.chosen.source is Source.COUNT
        title = self.chosen.title if plain and self.chosen else self.column
        return Coloring(values, self._limits or limits, f"{title}, {self.how}")

    def _colored(self) -> dict[str, float | None] | None:
        if self.table is None or self.column not in self.columns:
            return None
        key = self.chosen, self.column, self.how, self._filter
        if self._values is None or self._values[0] != key:
            try:
                rows = self._rows()
            except ValueError:  # while a filter is typed the map stays as it is
                rows = self.table
            self._values = key, rows.values(self.wells, self.column, self.how)
        return self._values[1]

    def filter(self, text: str) -> None:
        """Let a line of text choose wells, and rows of the table.

        Parameters
        ----------
        text
            Parts joined by "and": tests of columns, which a row of the well has to
            meet, and words as `well_filter.matching` takes them.
        """
        self._filter = text
        self.changed.emit()

    @property
    def problem(self) -> str:
        """Why the filter or the colours mean nothing; "" where they do."""
        try:
            self._shown()
            self._colored()
        except ValueError as error:
            return str(error)
        return ""

    @property
    def shown(self) -> frozenset[str] | None:
        """Paths of the wells that the filter means; None for all, and for `problem`."""
        try:
            return self._shown()
        except ValueError:
            return None

    def _shown(self) -> frozenset[str] | None:
        shown: frozenset[str] | None = None
        words, conditions = self._conditions()
        for part in words:
            found = matching(self.browser.map, part)
            if found is not None:
                shown = found if shown is None else shown & found
        if conditions:
            met = frozenset(self._rows().on(self.wells).values())
            shown = met if shown is None else shown & met
        return shown

    def _rows(self) -> Table:
        """Give the rows of the chosen table that the filter lets through."""
        table = self.table
        assert table is not None
        key = table, self._filter
        if self._kept is None or self._kept[0] != key:
            self._kept = key, table.where(self._conditions()[1])
        return self._kept[1]

    def _conditions(self) -> tuple[tuple[str, ...], Any]:
        parts = parts_of(self._filter)
        tests = [part for part in parts if is_condition(part)]
        if tests and self.table is None:
            raise ValueError("Choose a table first: there are no columns to test.")
        places = self.table.places if self.table is not None else ()
        words = tuple(part for part in parts if part not in tests)
        return words, parse_conditions(" and ".join(tests), (*self.columns, *places))

    def _join(self) -> None:
        """Show what the chosen table says of the objects of the field.

        Labels that none of the wells had that were looked at are offered from now on.
        """
        join_table(self._viewer(), self.browser, self.table)
        names = names_shown(self._viewer(), self.browser)
        if not set(names) <= set(self.labels):
            self._offer([Offer(Source.COUNT, name) for name in names])
