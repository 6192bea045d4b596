"""Results of a plate as a table of wells or conditions, made in a worker."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.plate.plate_layout import PLATE
from napari_ngff.plate.results.well_results import (
    ResultColumn,
    compare_to_controls,
    find_z_primes,
    group_wells,
    join_conditions,
    name_mean,
    name_share,
    sum_up_rows,
)
from napari_ngff.plate.tables.files import write_frame
from napari_ngff.plate.tables.table import CATEGORY, FIELD, LABEL, WELL
from napari_ngff.viewer.browsing.table_offers import note_of
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.viewer.services.notices import count_noun, join_names
from napari_ngff.viewer.services.window import Signal, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.joined_tables import JoinedTables, TableColumn
    from napari_ngff.viewer.browsing.listed_tables import ListedTables
    from napari_ngff.viewer.browsing.plate_tables import PlateTables

MOST_VALUES = 500
"""Controls can be chosen among so many values of a column."""

MOST_SHOWN = 3
"""Columns whose Z' is in the line below the table; the head of each column has it."""

CONTROLS = "controls-of-plates"
"""Name of the note in the user's data with the controls of each plate."""

MOST_NOTED = 500
"""Plates whose controls are remembered."""

NO_OBJECTS = "Choose a table of objects with their fields: measure labels, or load one."

Control = tuple[str, str]
"""A column of text, and its value in the wells that are controls."""


@dataclass(frozen=True, slots=True)
class ResultChoice:
    """What a person asks of the table.

    Attributes
    ----------
    keys
        Columns that state a condition, which is a row; () for a row for each well.
    shown_as
        How values are compared to negative controls; "" for not.
    controls
        The negative controls and the positive ones; None where they are not chosen.
    """

    keys: tuple[str, ...] = ()
    shown_as: str = ""
    controls: tuple[Control | None, Control | None] = (None, None)


@dataclass(frozen=True, slots=True, eq=False)
class WellResults:
    """The table as it is shown.

    Attributes
    ----------
    frame
        A pandas.DataFrame.
    rows
        The number of the row of each well, by its path.
    meanings
        What the values of a column are of, by its title.
    keys
        Columns that can state a condition.
    controls
        Values of columns of text.
    note
        A sentence about the rows.
    """

    frame: Any = None
    rows: Any = None
    meanings: dict[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    controls: tuple[Control, ...] = ()
    note: str = ""


def list_result_columns(joined: JoinedTables) -> list[ResultColumn]:
    """List a value of each column of all tables, and the numbers of images."""
    listed, titles = list[ResultColumn](), joined.list_columns()
    tables_of_images = [x for x in joined.tables.values() if FIELD in x.place_columns]
    for offer in joined.tables:
        rows = joined.rows_that_count(offer, in_all_wells=True)
        if FIELD in rows.place_columns:
            text = f"Images of the well. Table: {offer.title}."
            title, name = "number of images", rows.place_columns[-1]
            title += f" ({offer.title})" if len(tables_of_images) > 1 else ""
            listed.append(
                ResultColumn(title, text, rows, name, "count", is_number_of_images=True)
            )
        for column in (each for each in titles if each.offer == offer):
            title = joined.title_values(column, titles[column])
            text, way = describe_column(joined, column), joined.find_way(column)
            listed.append(ResultColumn(title, text, rows, column.name, way))
    # As of a table that was saved from here, and loaded again.
    unique, taken = list[ResultColumn](), {WELL, *[PLATE] * bool(joined.plate.plates)}
    for each in listed:
        title = each.title
        while taken & {title, name_share(title)}:
            title += f" ({each.rows.name})"
        taken |= {title, name_share(title)}
        unique.append(replace(each, title=title))
    return sorted(unique, key=lambda each: each.is_number_of_images)


def describe_column(joined: JoinedTables, column: TableColumn) -> str:
    """State what the values of a column are of, in whole sentences."""
    table, way = joined.tables[column.offer], joined.find_way(column)
    text = f"The {way} of {column.name} of all {table.row_noun} of the well."
    if column.name == LABEL:
        text = f"The {way} of the numbers of objects of the images of the well."
    elif table.has_lone_rows:
        text = f"The {column.name} of the well."
    text += f" Table: {column.offer.title}."
    if joined.hidden and table.acquisition_column:
        text += f" Acquisition: {' + '.join(joined.shown)}."
    return text + (f" Filter: {joined.text.strip()}." if joined.text.strip() else "")


def count_plates(joined: JoinedTables) -> str:
    """Say how many plates are joined; "" for a single one."""
    plates = joined.plate.plates
    return f" of {count_noun(len(plates), 'plate')}" if plates else ""


def list_plates(joined: JoinedTables) -> Any:
    """List the title of the plate of each well, as a pandas.Series by its path."""
    import pandas as pd

    plates = [well.plate for well in joined.plate.wells]
    return pd.Series(plates, joined.paths, dtype=object, name=PLATE)


def list_uncontrolled(plates: Any, controls: dict[str, Any]) -> str:
    """Name the plates that have none of the controls of a kind."""
    lacks = {
        kind: [x for x in plates.unique() if x not in {*plates[is_control]}]
        for kind, is_control in controls.items()
        if is_control is not None
    }
    found = (f" No {kind} controls: {join_names(x)}." for kind, x in lacks.items() if x)
    return "".join(found) if plates.any() else ""


def list_lost(values: Any, compared: Any, plates: Any) -> str:
    """Name columns that cannot be compared on plates which have controls."""
    lost = {
        old: plates[compared[new].isna() & values[old].notna()].dropna().unique()
        for old, new in zip(values, compared, strict=True)
    }
    named = [f"{title} ({join_names([*x])})" for title, x in lost.items() if len(x)]
    return f" Controls do not vary, or are 0: {join_names(named)}." * bool(named)


def make_results(joined: JoinedTables, choice: ResultChoice) -> WellResults:
    """Make the table: for a worker, since it takes long for many rows.

    Controls count whatever wells the filter means, each for its own plate.
    """
    columns, paths = list_result_columns(joined), joined.paths
    meant, plates = joined.wells_that_count(), list_plates(joined)
    frame = sum_up_rows(columns, paths)
    # Those of objects and images; doses, too, part controls, but nobody measured them.
    of_wells = {x.title for x in columns if not x.rows.place_columns}
    readouts = [x for x in frame if x not in of_wells] or [*frame]
    measured = frame[readouts].notna().any(axis=1)
    images = [x.title for x in columns if x.is_number_of_images]
    meanings = {column.title: column.meaning for column in columns}
    texts = [column.title for column in columns if column.way == CATEGORY]
    meanings |= {name_share(x): f"Its share, in percent. {meanings[x]}" for x in texts}
    values = ((x, sorted(frame[x].dropna().unique())[:MOST_VALUES]) for x in texts)
    controls = tuple((title, value) for title, found in values for value in found)
    negative, positive = (
        None if each not in controls else frame[each[0]] == each[1]
        for each in choice.controls
    )
    wells = [path for path in paths if meant is None or path in meant]
    note = f"{len(wells):,} of {len(paths):,} wells{count_plates(joined)}."
    if negative is not None and positive is not None:
        primes = find_z_primes(frame, negative, positive, plates)
        meanings |= {x: f"{meanings[x]} Z': {primes[x]}." for x in primes}
        best = [f"{x} {primes[x]}" for x in primes if x in readouts and x not in images]
        listed = ", ".join(best[:MOST_SHOWN])
        note += f" Z' of the controls: {listed or 'not defined'}."
    note += list_uncontrolled(plates, {"negative": negative, "positive": positive})
    if choice.shown_as and negative is not None:
        values = frame
        frame = compare_to_controls(frame, choice.shown_as, negative, plates, images)
        note += list_lost(values, frame, plates.where(plates.isin(plates[negative])))
        compared = ((x, y) for x, y in zip(frame, values, strict=True) if x != y)
        meanings |= {x: f"{meanings[y]} As {choice.shown_as}." for x, y in compared}
    if joined.plate.plates:
        frame.insert(0, PLATE, plates)
        meanings[PLATE] = "The plate of the well."
    keys = [key for key in choice.keys if key in frame]
    frame, rows = group_wells(frame.loc[wells], columns, keys, measured)
    meanings |= {name_mean(x): f"Mean of wells. {meanings[x]}" for x in meanings}
    if not keys:
        frame.insert(int(PLATE in frame), WELL, name_wells(joined, wells))
    offered = [x.title for x in columns if x.title in texts or not x.rows.place_columns]
    offered += [PLATE] * bool(joined.plate.plates)
    return WellResults(frame, rows, meanings, tuple(offered), controls, note)


def name_wells(joined: JoinedTables, paths: list[str]) -> Any:
    """Name wells, with names in the order of the map: A2 before A10."""
    import pandas as pd

    wells = sorted(joined.plate.wells, key=lambda well: (well.row, well.column))
    names = {well.path: well.name for well in wells}
    order = dict.fromkeys(names.values())
    return pd.Categorical([names[path] for path in paths], order)


def find_objects(joined: JoinedTables) -> WellTable:
    """Return the objects that count; slow for many.

    Raises
    ------
    ValueError
        Where there is no table of objects.
    """
    objects = joined.find_objects()
    if objects is None:
        raise ValueError(NO_OBJECTS)
    tables = joined.tables
    return joined.rows_that_count(next(x for x in tables if tables[x] is objects))


def join_objects(joined: JoinedTables) -> Any:
    """Return the objects that count as other programs get them, with all conditions."""
    columns = list_result_columns(joined)
    conditions = [column for column in columns if not column.rows.place_columns]
    found = sum_up_rows(conditions, joined.paths)
    if joined.plate.plates:
        found.insert(0, PLATE, list_plates(joined))
    return join_conditions(find_objects(joined), found)


def recall_controls(node: Node) -> ResultChoice:
    """Choose the controls that were chosen for a plate the last time."""
    try:
        known = settings.read_note(CONTROLS)[note_of(node)]
        first, second = (x and (str(x[0]), str(x[1])) for x in known)
    except (TypeError, LookupError, ValueError):  # none, or it is damaged
        return ResultChoice()
    return ResultChoice(controls=(first, second))


def note_controls(node: Node, controls: Any) -> None:
    """Remember the controls of a plate, and those of others that were chosen last."""

    def edit(noted: Any) -> Any:
        known = noted if isinstance(noted, dict) else {}
        known = {x: y for x, y in known.items() if x != note_of(node)}
        return {**dict([*known.items()][-MOST_NOTED:]), note_of(node): controls}

    settings.change_note(CONTROLS, edit)


class ResultTable:
    """The results of a plate, as a person asks for them; the latest counts.

    Attributes
    ----------
    choice
        What is asked for.
    shown
        The table.
    note
        What the user is told about it.
    """

    changed = Signal()
    """Emitted when other results are shown."""

    def __init__(self, is_alive: Callable[[], bool]) -> None:
        self.choice, self.shown, self.note = ResultChoice(), WellResults(), ""
        self._tables: PlateTables | None = None
        self._listed: ListedTables | None = None
        self._node: Any = None
        self._asked = dict[str, Any]()
        self._task, self._saving = LatestTask(is_alive), LatestTask(is_alive)

    def show(self, tables: PlateTables, listed: ListedTables | None = None) -> None:
        """Show the results of the tables as they are now; controls as the last time.

        Parameters
        ----------
        listed
            The tables of other plates; None for none.
        """
        is_other = tables is not self._tables
        if is_other and not (listed and listed.is_on and self._tables):
            self._asked, self._node = {}, tables.browser.node
        self._tables, self._listed = tables, listed
        joined, asked, node = tables.joined, self._asked, self._node
        self._join = join = listed.joiner(tables) if listed else lambda: joined

        def make(_: Any) -> WellResults:
            tables.result_choice = replace(recall_controls(node), **asked)
            return make_results(join(), tables.result_choice)

        self._task.start(make, self._take, self._say)

    def choose(self, **changes: Any) -> None:
        """Ask for something else; see `ResultChoice`."""
        if self._tables is not None:
            self._asked = {**self._asked, **changes}
            if "controls" in changes:
                node, controls = self._tables.browser.node, changes["controls"]
                note = partial(note_controls, node, controls)
                Window.current.run_work(note, lambda _: None)
            self.show(self._tables, self._listed)

    def save(self, path: str, frame: Any) -> None:
        """Write rows; for None all objects with the conditions of their wells."""
        join = self._join

        def write() -> str:
            rows = join_objects(join()) if frame is None else frame
            write_frame(rows, path)
            return f"{len(rows):,} rows are in {path}."

        def tell(text: str) -> None:
            self._say(f"{self.shown.note} {text}")

        self._saving.start(lambda _: write(), tell, tell)

    def _take(self, found: WellResults) -> None:
        assert self._tables is not None
        self.choice, self.shown = self._tables.result_choice, found
        self._say(found.note)

    def _say(self, text: str) -> None:
        self.note = text
        self.changed.emit()
