"""Results of a plate with a million objects, beside what pandas alone takes.

    python results.py [ROWS]

Prints for each step the milliseconds of the package and of pandas; no window is needed.
All but the sorting, and the drawing of plots, runs in workers. Plots are drawn whole.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from napari_ngff.plate.plate_layout import MapWell, PlateMap
from napari_ngff.plate.tables.table import make_table
from napari_ngff.viewer.browsing.joined_tables import JoinedTables
from napari_ngff.viewer.browsing.table_offers import TableOffer, TableOrigin
from napari_ngff.viewer.results.plot_data import (
    DOSES,
    HISTOGRAM,
    KINDS,
    list_rows,
    make_plot,
)
from napari_ngff.viewer.results.plot_data import OBJECTS as OBJECTS_SCATTER
from napari_ngff.viewer.results.well_table import ResultChoice, make_results

COLUMNS = 30
ROUNDS = 3
LETTERS, NUMBERS = "ABCDEFGHIJKLMNOP", range(1, 25)
OBJECTS = TableOffer(TableOrigin.FILE, "objects.csv")
CONDITIONS = TableOffer(TableOrigin.FILE, "conditions.csv")
CONTROLS = ("drug", "dmso"), ("drug", "taxol")


def make_tables(count: int) -> tuple[JoinedTables, pd.DataFrame]:
    """Make a plate of 384 wells with objects and conditions; also the plain rows."""
    random = np.random.default_rng(0)
    wells = [
        MapWell(f"{row}/{column}", f"{row}{column}", at, column - 1)
        for at, row in enumerate(LETTERS)
        for column in NUMBERS
    ]
    plate = PlateMap(tuple(LETTERS), tuple(map(str, NUMBERS)), tuple(wells))
    paths = np.array([well.path for well in wells])
    rows = pd.DataFrame({"well": paths[random.integers(0, len(paths), count)]})
    rows["field"] = random.integers(0, 4, count).astype(str)
    rows["label"] = np.arange(1, count + 1)
    values = random.normal(100, 20, (count, COLUMNS - 1))
    names = ["area", *(f"feature {number}" for number in range(1, COLUMNS - 1))]
    rows = pd.concat([rows, pd.DataFrame(values, columns=names)], axis=1)
    rows["kind"] = random.choice(["round", "long", "mitotic"], count)
    drugs = [{1: "dmso", 2: "taxol"}.get(well.column + 1, "x") for well in wells]
    known = pd.DataFrame({"well": paths, "drug": drugs})
    known["dose"] = [10.0 ** (well.column % 8 - 4) for well in wells]
    named = {well.path: well.name for well in wells}
    tables = {
        CONDITIONS: make_table(known, "conditions").place_on(named),
        OBJECTS: make_table(rows, "objects").place_on(named),
    }
    joined = JoinedTables(plate, tables, column="area", chosen=OBJECTS)
    return joined, tables[OBJECTS].frame


def best(action: Callable[[], Any]) -> float:
    """Return the milliseconds of the best of some rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        action()
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


def sorting(joined: JoinedTables) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Sort ten thousand rows by a column, in a list of Qt and by pandas alone."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from qtpy.QtWidgets import QApplication, QWidget

    from napari_ngff.widgets.frame_model import FrameModel

    global application, parent
    application = QApplication.instance() or QApplication([])
    parent = QWidget()
    model = FrameModel(parent)
    rows = joined.tables[OBJECTS].frame.head(10_000)
    model.showRows(rows)
    return (
        lambda: model.sort(model.columns.index("area")),
        lambda: rows.sort_values("area", kind="stable"),
    )


def plotting(
    joined: JoinedTables, rows: pd.DataFrame
) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Find and draw each kind of plot, beside what pandas takes for its values."""
    from napari.components import ViewerModel

    from napari_ngff.widgets.results.plot_page import PlotPage

    page = PlotPage(ViewerModel())
    page.setParent(parent)
    page.resize(1000, 500)

    def plot(kind: str) -> None:
        of_objects = kind in (OBJECTS_SCATTER, HISTOGRAM)
        found = list_rows(joined, ResultChoice(), of_objects=of_objects)
        asked = {"kind": kind, "x": "dose" if kind == DOSES else ""}
        page._draw(make_plot(found, asked))
        page.picture.grab()

    def mean_of_wells() -> Any:
        return rows.groupby("well", observed=True)["area"].mean()

    alone = {
        HISTOGRAM: lambda: np.histogram(rows["area"], 50),
        OBJECTS_SCATTER: lambda: rows[["area", "feature 1"]].sample(10_000),
    }
    return {
        f"plot: {kind.lower()}": (partial(plot, kind), alone.get(kind, mean_of_wells))
        for kind in KINDS
    }


def main() -> None:
    """Print a line for each step."""
    joined, rows = make_tables(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    from dataclasses import replace

    filtered = replace(joined, text="area > 110 and drug = x")
    choice = ResultChoice(("drug", "dose"), "", CONTROLS)
    groups = [name for name in rows if name.startswith(("area", "feature"))]
    sort, sort_alone = sorting(joined)
    steps = {
        "colour": (
            joined.find_view,
            lambda: rows.groupby("well", observed=True)["area"].mean(),
        ),
        "filter, and colour": (
            filtered.find_view,
            lambda: (
                rows[rows["area"] > 110].groupby("well", observed=True)["area"].mean()
            ),
        ),
        "rows that count": (
            lambda: filtered.rows_that_count(OBJECTS),
            lambda: rows[rows["area"] > 110],
        ),
        "page of wells": (
            lambda: make_results(joined, ResultChoice()),
            lambda: rows.groupby("well", observed=True)[groups].mean(),
        ),
        "page of conditions": (
            lambda: make_results(joined, choice),
            lambda: rows.groupby("well", observed=True)[groups].mean(),
        ),
        "sort 10,000 rows": (sort, sort_alone),
    }
    steps |= plotting(joined, rows)
    print(f"{len(rows):,} rows, {COLUMNS} columns; ms{'':>11} here  pandas")
    for name, (here, alone) in steps.items():
        print(f"{name:<32}{best(here):>8.0f}{best(alone):>8.0f}")


if __name__ == "__main__":
    main()
