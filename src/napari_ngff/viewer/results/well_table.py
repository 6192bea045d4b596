"""The table of results of a plate: its columns, and its rows made in a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_ngff.plate.results.well_results import FIELDS, ResultColumn, sum_up_wells
from napari_ngff.plate.tables.table import CATEGORY, FIELD, LABEL
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.viewer.services.window import Signal

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.viewer.browsing.joined_tables import JoinedTables, TableColumn
    from napari_ngff.viewer.browsing.plate_tables import PlateTables


def list_result_columns(joined: JoinedTables) -> list[ResultColumn]:
    """List what results show: a value of each column of all tables, and numbers."""
    listed = list[ResultColumn]()
    titles, counted = joined.list_columns(), set[Any]()
    for column, title in titles.items():
        offer, way = column.offer, joined.find_way(column)
        rows = joined.rows_that_count(offer, in_all_wells=True)
        if FIELD in rows.place_columns and offer not in counted:
            counted.add(offer)
            named = f"{FIELDS} ({offer.title})" if len(joined.tables) > 1 else FIELDS
            meaning = describe_column(joined, column, FIELDS)
            listed.append(ResultColumn(named, meaning, rows, FIELD, FIELDS))
        full = joined.title_values(column, title)
        meaning = describe_column(joined, column, way)
        listed.append(ResultColumn(full, meaning, rows, column.name, way))
    return listed


def describe_column(joined: JoinedTables, column: TableColumn, way: str) -> str:
    """Say what the values of a column are of, in whole sentences."""
    table = joined.tables[column.offer]
    noun = table.row_noun
    text = f"{column.name} of the well, from {column.offer.title}."
    if way == FIELDS:
        text = f"Images of the well in {column.offer.title}."
    elif column.name == LABEL and way == "sum":
        text = f"Objects of all images of the well in {column.offer.title}."
    elif column.name == LABEL:
        text = f"The {way} of the numbers of objects of the images of the well."
    elif way == CATEGORY and not table.has_lone_rows:
        text = f"{column.name}: the most frequent of all {noun}, with its share."
    elif way != CATEGORY and not table.has_lone_rows:
        text = f"{column.name}: {way} of all {noun} of the well."
    if joined.hidden and table.acquisition_column:
        text += f" Acquisition: {' + '.join(joined.shown)}."
    if joined.text.strip():
        text += f" Only rows that meet the filter count: {joined.text.strip()}."
    return text


class ResultTable:
    """The results of the tables of a plate; made in a worker, the latest counts.

    Attributes
    ----------
    frame
        A pandas.DataFrame as of `sum_up_wells`; None before there is one.
    columns
        What it has.
    problem
        Why there is none; "" where there is.
    """

    changed = Signal()
    """Emitted when other results are shown."""

    def __init__(self, is_alive: Callable[[], bool]) -> None:
        self.frame: Any = None
        self.columns: list[ResultColumn] = []
        self.problem = ""
        self._task = LatestTask(is_alive)

    def show(self, tables: PlateTables) -> None:
        """Show the results of the tables as they are now."""
        joined, chosen = tables.joined, tables.view.wells
        wells = [path for path in joined.paths if chosen is None or path in chosen]

        def sum_up() -> tuple[Any, list[ResultColumn]]:
            columns = list_result_columns(joined)
            return sum_up_wells(columns, wells), columns

        self._task.start(lambda _: sum_up(), self._take, self._fail)

    def _take(self, found: tuple[Any, list[ResultColumn]]) -> None:
        (self.frame, self.columns), self.problem = found, ""
        self.changed.emit()

    def _fail(self, reason: str) -> None:
        self.problem = reason
        self.changed.emit()
