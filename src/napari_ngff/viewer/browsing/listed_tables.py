"""The tables of all plates that a viewer lists, joined as if they were of one plate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import NodeNotFoundError, OMEZarrError, error_text
from napari_ngff.plate.plate_layout import PlateMap, map_plate
from napari_ngff.plate.tables.table import FIELD, PLACES, WELL, WellTable
from napari_ngff.store.hierarchy.node import Node, open_node
from napari_ngff.viewer.annotations.table_annotation import name_measured
from napari_ngff.viewer.browsing.joined_tables import JoinedTables, TableColumn
from napari_ngff.viewer.browsing.table_offers import (
    TableOffer,
    TableOrigin,
    read_offer,
    read_wanted,
)
from napari_ngff.viewer.services.latest_task import LatestTask, TaskTurn
from napari_ngff.viewer.services.notices import join_names, title_addresses
from napari_ngff.viewer.services.window import Signal

if TYPE_CHECKING:
    from napari_ngff.viewer.browsing.plate_tables import PlateTables

Plates = dict[str, JoinedTables]
"""The tables of plates, by their titles or addresses."""

Tables = Mapping[TableOffer, WellTable]

MADE = TableOrigin.COUNT, TableOrigin.STATES
"""Origins of tables whose columns are the same for all labels."""

MOST_LETTERS = 120  # of what plates lack; above that, plates are counted
LACKS = "Tables or columns are missing on {} of {} plates: hover here to read which."

MOST_NAMED = 3
"""Tables and columns that a plate lacks are named up to this number."""


def name_saved(offer: TableOffer) -> TableOffer:
    """Name a table as it is once it is saved: a measured one is in the images then."""
    if offer.source is not TableOrigin.MEASURED:
        return offer
    return TableOffer(TableOrigin.IMAGES, name_measured(offer.name))


def find_alike(offer: TableOffer, own: Tables, others: Tables) -> TableOffer | None:
    """Find the table of another plate that has the same name.

    Else it is the one with the same columns, if both plates have a single one.
    """
    kind = describe_kind(own[offer])

    def list_alike(tables: Tables) -> list[TableOffer]:
        found = [x for x in tables if describe_kind(tables[x]) == kind]
        return [x for x in found if x.source not in MADE]

    named = [x for x in others if name_saved(x) == name_saved(offer)]
    if offer in others or named:
        return offer if offer in others else named[0]
    alike = list_alike(others)
    return alike[0] if list_alike(own) == [offer] and len(alike) == 1 else None


def describe_kind(table: WellTable) -> Any:
    """Describe what a table is of: its labels, places and columns."""
    return table.region, table.place_columns, {*table.columns}


def match_tables(plates: Plates) -> dict[TableOffer, dict[str, WellTable]]:
    """Match the tables of plates; each has those of the plates that have it."""
    matched, used = dict[TableOffer, dict[str, WellTable]](), set[WellTable]()
    for joined in plates.values():
        for offer, table in joined.tables.items():
            if table not in used and offer not in matched:
                alike = {
                    x: find_alike(offer, joined.tables, plates[x].tables)
                    for x in plates
                }
                found = {x: plates[x].tables[at] for x, at in alike.items() if at}
                matched[offer] = found
                used.update(found.values())
    return matched


def list_kinds(table: WellTable) -> dict[str, bool]:
    """List the columns of a table, and whether each has numbers."""
    types = table.frame.dtypes.items()
    return {name: x.kind in "biuf" for name, x in types if name not in PLACES}


def find_kinds(tables: Mapping[str, WellTable]) -> dict[str, bool]:
    """Find the columns of matched tables, and whether the first one has numbers."""
    kinds = dict[str, bool]()
    for table in [*tables.values()][::-1]:
        kinds |= list_kinds(table)
    return kinds


def list_lacks(plates: Plates) -> list[str]:
    """State which tables and columns each plate lacks."""
    lacks: dict[str, list[str]] = {title: [] for title in plates}
    for offer, tables in match_tables(plates).items():
        kinds = find_kinds(tables)
        for title, found in lacks.items():
            if title not in tables:
                found.append(f"the table {offer.title}")
                continue
            own = list_kinds(tables[title])
            found += [
                f"{'numbers' if is_number else 'texts'} in {column} of {offer.title}"
                for column, is_number in kinds.items()
                if own.get(column) is not is_number
            ]
    more = {x: ["others"] * (len(y) > MOST_NAMED) for x, y in lacks.items()}
    named = {x: join_names([*y[:MOST_NAMED], *more[x]]) for x, y in lacks.items()}
    return [f"{title} lacks {text}." for title, text in named.items() if text]


def stack_tables(tables: tuple[tuple[str, WellTable], ...]) -> WellTable:
    """Put tables below each other, with a prefix for the wells of each.

    Values of another kind than in the first table are missing.
    """
    import pandas as pd
    from pandas.api.types import union_categoricals

    kinds, frames, names = find_kinds(dict(tables)), list[Any](), dict[str, str]()
    without = list[tuple[str, str, str]]()
    for prefix, table in tables:
        others = [x for x, kind in list_kinds(table).items() if kind != kinds[x]]
        wells = table.frame[WELL].cat.rename_categories(prefix.__add__)
        frames.append(table.frame.drop(columns=others).assign(**{WELL: wells}))
        names |= {prefix + path: name for path, name in table.names.items()}
        without += [(prefix + well, field, run) for well, field, run in table.without]
    frame = pd.concat(frames, ignore_index=True)
    for place in {WELL, FIELD}.intersection(*frames):
        frame[place] = union_categoricals([each[place] for each in frames])
    first = tables[0][1]
    return replace(first, frame=frame, without=tuple(without), names=names)


def join_plates(
    shown: str, plates: tuple[tuple[str, JoinedTables], ...], stack: Callable[..., Any]
) -> JoinedTables:
    """Join the tables of plates, and ask of them what is asked of the shown one.

    Parameters
    ----------
    shown
        The title of a plate.
    plates
        Their titles, which are in front of the paths of their wells then, and tables.
    stack
        The function `stack_tables`, or one that remembers what it gave.
    """
    every, maps = dict(plates), {title: x.plate for title, x in plates}
    rows, columns = (
        tuple(dict.fromkeys(chain.from_iterable(names)))
        for names in zip(*((x.rows, x.columns) for x in maps.values()), strict=True)
    )
    wells = [
        replace(
            well,
            path=f"{title}/{well.path}",
            row=rows.index(plate.rows[well.row]),
            column=columns.index(plate.columns[well.column]),
            plate=title,
        )
        for title, plate in maps.items()
        for well in plate.wells
    ]
    joined = every[shown]
    # What is asked names tables of the shown plate.
    matched = match_tables({shown: joined, **every})
    tables = {
        offer: stack(tuple((f"{x}/", found[x]) for x in every if x in found))
        for offer, found in matched.items()
    }
    chosen = joined.chosen or next(iter(tables), None)
    plate = PlateMap(rows, columns, tuple(wells))
    return replace(joined, plate=plate, tables=tables, chosen=chosen)


def read_plate(
    node: Node,
    known: JoinedTables | None,
    wanted: Tables,
    goes_on: Callable[[int, int], bool],
) -> tuple[JoinedTables, list[str]]:
    """Read what a plate has of some tables of another one, with notes on failures.

    Parameters
    ----------
    known
        The tables that were read before; None for none.
    goes_on
        See `measure`.
    """
    plate, notes = node.metadata.plate, list[str]()
    if plate is None:  # a folder or a collection
        return JoinedTables(PlateMap((), (), ())), []
    joined = known or JoinedTables(map_plate(plate))
    for offer, read in [] if known else read_wanted(node, joined.plate):
        joined = joined.with_read(offer, read)
        notes.append(read.note)
    for offer in wanted:
        asked, is_file = name_saved(offer), offer.source is TableOrigin.FILE
        if is_file or find_alike(offer, wanted, joined.tables):
            continue
        try:
            found = read_offer(node, asked, joined.plate, goes_on)
        except NodeNotFoundError:
            continue  # it is stated that the plate lacks it
        except (OMEZarrError, OSError) as error:
            notes.append(error_text(error))
            continue
        if found is not None:
            joined = joined.with_read(asked, found)
            notes.append(found.notice and found.note)
    return joined, notes


class ListedTables:
    """Joins the tables of all listed plates, and reads those that are not open.

    Parameters
    ----------
    find_open
        Returns the addresses of all that is listed, with the tables of what was shown.
    is_alive
        Asked before an answer of a worker is taken.

    Attributes
    ----------
    is_on
        Whether results are of all listed plates.
    progress
        A sentence while tables are read; "" otherwise.
    """

    changed = Signal()
    """Emitted when other tables are joined."""
    progressed = Signal()
    """Emitted when `progress` is another one."""
    arrived = Signal(object)
    """Emitted with a row to go to, once its plate is shown."""

    def __init__(
        self,
        find_open: Callable[[], dict[str, PlateTables | None]],
        is_alive: Callable[[], bool],
    ) -> None:
        self.is_on, self.progress, self._find_open = False, "", find_open
        self._read, self._problems = Plates(), list[str]()
        self._asked = set[tuple[str, TableOffer]]()
        self._task = LatestTask(is_alive, self._show_progress)
        self._join = lru_cache(maxsize=2)(join_plates)
        self._stack = lru_cache(maxsize=16)(stack_tables)
        self._latest: PlateTables | None = None

    def list_plates(self) -> Plates:
        """List the tables of all plates by address, as far as they are known."""
        known = {
            address: self._read.get(address) if tables is None else tables.joined
            for address, tables in self._find_open().items()
        }
        return {address: x for address, x in known.items() if x and x.paths}

    @property
    def titles(self) -> dict[str, str]:
        """The title of each plate, by its address."""
        return title_addresses(self._find_open())

    @property
    def notes(self) -> tuple[str, str]:
        """What the user is told, in short and in full.

        It is how far reading is, or what plates lack.
        """
        if self.progress or not self.is_on:
            return self.progress, self.progress
        titles = self.titles
        named = {titles[address]: x for address, x in self.list_plates().items()}
        told = [*self._problems, *list_lacks(named)]
        text = " ".join(told)
        count = sum(
            any(each.startswith((f"{title}: ", f"{title} lacks ")) for each in told)
            for title in titles.values()
        )
        is_short = len(text) < MOST_LETTERS
        return text if is_short else LACKS.format(count, len(titles)), text

    def joiner(self, tables: PlateTables) -> Callable[[], JoinedTables]:
        """Return a function that joins the tables of all plates, as `join_plates`.

        It takes long for many rows: for a worker.
        """
        joined, plates, titles = tables.joined, self.list_plates(), self.titles
        if not self.is_on:
            return lambda: joined
        named = tuple((titles[address], x) for address, x in plates.items())
        shown = titles[str(tables.browser.node)]
        return partial(self._join, shown, named, self._stack)

    def find_place(self, well: str) -> tuple[str, str]:
        """Find the address of the plate of a joined well, and its path there.

        It is "" for the path of a well of the plate on the canvas.
        """
        titles = self.titles
        for address, joined in self.list_plates().items():
            path = well.removeprefix(f"{titles[address]}/")
            if path != well and path in joined.paths:
                return address, path
        return "", well

    def choose(self, tables: PlateTables, *, is_on: bool) -> None:
        """Let results be of all plates or one; what was missing is read again."""
        self._task.cancel()
        self.is_on, self.progress = is_on, ""
        self._problems.clear()
        self._asked.clear()
        self._join.cache_clear()
        self._stack.cache_clear()
        self.follow(tables)
        self.changed.emit()

    def follow(self, tables: PlateTables) -> None:
        """Read what other plates have of the tables of one, unless it was tried."""
        if not self.is_on:
            return
        self._latest, known, wanted = tables, self.list_plates(), tables.joined.tables
        opened = self._find_open()
        missing = {
            (address, offer)
            for address in opened.keys() - {str(tables.browser.node)}
            for offer in wanted
            if address not in known
            or find_alike(offer, wanted, known[address].tables) is None
        }
        asked = [x for x in opened if x in {at for at, _ in missing - self._asked}]
        if not asked or self.progress:
            return  # at the end it is called again
        self._asked |= missing
        titles = self.titles

        def read(turn: TaskTurn) -> tuple[Plates, list[str]]:
            found, problems = Plates(), list[str]()
            for number, address in enumerate(asked):

                def goes_on(done: int, total: int, before: int = number) -> bool:
                    done += before * total
                    return turn.report_progress(done, len(asked) * total)

                goes_on(0, 1)
                try:
                    node, notes = open_node(address), list[str]()
                    found[address], notes = read_plate(
                        node, known.get(address), wanted, goes_on
                    )
                except (OMEZarrError, OSError) as error:
                    notes = [error_text(error)]
                problems += [f"{titles[address]}: {x}" for x in notes if x]
            return found, problems

        self._show_progress(0, 1)
        self._task.start(read, self._take, self._end)

    def _take(self, result: tuple[Plates, list[str]]) -> None:
        found, problems = result
        for address, joined in found.items():
            self._read[address] = joined
            opened = self._find_open().get(address)
            if opened is not None:
                self._add_read(opened)
        self._end(*problems)

    def _end(self, *problems: str) -> None:
        self._problems += problems
        self.progress = ""
        self.changed.emit()

    def _show_progress(self, done: int, total: int) -> None:
        self.progress = f"Reading tables of other plates: {done / total:.0%}."
        self.progressed.emit()

    def _add_read(self, tables: PlateTables) -> None:
        """Give the tables of a plate those that were read for it."""
        read, own = self._read.pop(str(tables.browser.node), None), tables.joined
        if read is not None:
            every = {**read.tables, **own.tables}
            tables.joined = replace(own, tables=every).with_offers(read.offers)

    def hand_over(self, tables: PlateTables) -> None:
        """Ask of the tables of a plate that is shown now what was asked of the last."""
        before, self._latest = self._latest, tables
        if not self.is_on or before in (None, tables) or not tables.joined.paths:
            return
        self._add_read(tables)
        asked, own = before.joined, tables.joined
        alike = {x: find_alike(x, asked.tables, own.tables) for x in asked.tables}
        order = dict.fromkeys([*filter(None, alike.values()), *own.tables])
        ways = {
            TableColumn(alike.get(x.offer) or x.offer, x.name): way
            for x, way in asked.ways.items()
        }
        tables.joined = replace(
            own,
            tables={offer: own.tables[offer] for offer in order},
            column=asked.column,
            chosen=(asked.chosen and alike.get(asked.chosen)) or own.chosen,
            ways=ways,
            log=asked.log,
            text=asked.text,
        )
        tables.result_choice = before.result_choice
        tables.filter_wells(asked.text)
