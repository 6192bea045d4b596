"""Plots of a plate: which dots and lines they have, found in a worker."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.plate.plate_layout import PLATE
from napari_ngff.plate.results.dose_curves import compute_responses, fit_curve
from napari_ngff.plate.tables.table import LABEL, PLACES, WELL, text_categories
from napari_ngff.viewer.layers.coloring import CATEGORY_COLORS, FEW, natural_key
from napari_ngff.viewer.results.well_table import (
    ResultChoice,
    count_plates,
    find_objects,
    list_plates,
    make_results,
)
from napari_ngff.viewer.services.notices import count_noun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ngff.viewer.browsing.joined_tables import JoinedTables

DOSES, BOXES, WELLS = "Dose response", "Box by condition", "Scatter of wells"
OBJECTS, HISTOGRAM = "Scatter of objects", "Histogram of objects"
KINDS = DOSES, BOXES, WELLS, OBJECTS, HISTOGRAM

MOST_DOTS = 10_000  # of more objects a sample is drawn: in less than 50 ms
MOST_GROUPS = 400  # as compounds of a plate
DOSE = re.compile("dose|conc", re.IGNORECASE)  # names of columns with doses
GREY = (128, 128, 128)  # dots of no group, and boxes


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """What is drawn.

    Attributes
    ----------
    choice, offered
        What was asked for, with columns that there are; and all that can be chosen.
    dots
        A pandas.DataFrame of wells or objects: `WELL`, "x", "y", the number of the
        group as "group", and `FIELD` and `LABEL` of objects.
    legend
        Texts about groups, and their colours.
    title
        Of the axis x.
    lines
        x, y and colour of each; NaN interrupts it.
    ticks
        Places on the axis x, and their texts; empty for plain numbers.
    note
        Sentences about what is drawn.
    """

    choice: Mapping[str, str]
    offered: Mapping[str, Sequence[str]]
    dots: Any
    legend: Sequence[tuple[str, tuple[int, ...]]]
    title: str
    lines: Sequence[tuple[Any, ...]] = ()
    ticks: Sequence[tuple[float, str]] = ()
    note: str = ""


def list_rows(
    joined: JoinedTables, choice: ResultChoice | None, *, of_objects: bool
) -> tuple[Any, list[str], list[str]]:
    """List the objects that count, or the wells as the page *Wells* shows them.

    Returns
    -------
    frame
        A pandas.DataFrame, with the paths of wells as `WELL`.
    numbers, groups
        Titles of its columns with numbers, that of the map first, and of those that
        part rows into groups.

    Raises
    ------
    ValueError
        Where there is no table of objects.
    """
    if of_objects:
        rows, tables = find_objects(joined), joined.tables
        frame = rows.frame.copy(deep=False)
        groups = [x for x in rows.columns if x not in rows.numeric_columns]
        for column, title in joined.list_columns().items():
            table = tables[column.offer]
            if not table.place_columns:
                kind: Any = float if table.is_numeric(column.name) else str
                texts = table.count_texts(column.name)["text"]
                frame[title] = frame[WELL].map(texts.astype(kind))
                groups.append(title)
        if joined.plate.plates:
            frame[PLATE] = frame[WELL].map(list_plates(joined)).astype(str)
            groups = [*(x for x in groups if x != PLATE), PLATE]
    else:
        found = make_results(joined, replace(choice or ResultChoice(), keys=()))
        frame = found.frame.assign(**{WELL: found.rows.index})
        groups = [key for key in found.keys if key in frame]
    frame.attrs["plates"] = count_plates(joined)
    numbers = [x for x in frame if frame[x].dtype.kind in "biuf" and x not in PLACES]
    colored, titles = joined.table_column, joined.list_columns()
    first = titles[colored] if colored is not None else ""
    if colored is not None and not of_objects:
        is_usual = colored.name == joined.find_first_column(colored.offer)
        first = titles.get(replace(colored, name=LABEL), first) if is_usual else first
    numbers.sort(
        key=lambda x: (not is_near(x, first), x in groups, x.startswith("number of"))
    )
    return frame, numbers, groups


def is_near(title: str, other: str) -> bool:
    """Return whether titles are of one column: "area", "area, mean, % of control"."""
    return title.partition(", ")[0] == other.partition(", ")[0]


def choose_columns(
    numbers: list[str], groups: list[str], asked: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Choose columns that there are: those asked for, the nearest, or the first.

    Returns
    -------
    choice, offered
        See `Plot`.

    Raises
    ------
    ValueError
        Where there is none.
    """
    kind = asked["kind"]
    # Compounds and doses before texts of objects, whose shares are numbers.
    groups = sorted(groups, key=lambda x: (x in numbers, f"{x}, %" in numbers))
    doses = sorted(
        numbers,
        key=lambda x: (x not in groups, not DOSE.search(x), x == numbers[0]),
    )
    # y before x, which is another column than it.
    offered = {
        "kind": [*KINDS],
        "y": ["number of objects"] if kind == HISTOGRAM else numbers,
        "x": {DOSES: doses, BOXES: groups}.get(kind, numbers),
        "group": [*groups, ""] if kind == DOSES else ["", *groups],
    }
    choice = dict[str, str]()
    for name, titles in offered.items():
        wanted = asked.get(name)
        near = [title for title in titles if is_near(title, str(wanted))]
        taken = {*choice.values(), asked.get("x"), *(doses[:1] * (name == "y"))}
        others = [title for title in titles if title not in taken]
        choice[name] = wanted if wanted in titles else [*near, *others, *titles, ""][0]
    if not (choice["x"] and choice["y"]):
        raise ValueError(f"No table has columns for this kind of plot: {kind}.")
    return choice, offered


def number_groups(values: Any) -> tuple[Any, list[str]]:
    """Give the values of a column numbers in their order.

    Returns
    -------
    numbers
        Of each row; -1 for no value.
    names
        Of the numbers.
    """
    kinds, texts = values.astype("category").cat.categories, text_categories(values).cat
    key: Any = float if kinds.dtype.kind in "iuf" else natural_key
    names = sorted(texts.categories, key=key)
    return texts.reorder_categories(names).cat.codes.to_numpy(), names


def make_plot(rows: tuple[Any, list[str], list[str]], asked: Mapping[str, str]) -> Plot:
    """Find what is drawn of `list_rows`.

    Raises
    ------
    ValueError
        Where there are no columns for it, or too many groups.
    """
    (choice, offered), frame = choose_columns(rows[1], rows[2], asked), rows[0]
    x, y, group, kind = (choice[name] for name in ("x", "y", "group", "kind"))
    noun, ticks = "objects" if kind in (OBJECTS, HISTOGRAM) else "wells", list[Any]()
    if kind == BOXES:
        across, names = number_groups(frame[x])
        ticks = [(at, "\n" * (at % 4) + name) for at, name in enumerate(names)]
    else:
        across = frame[x].to_numpy(float, na_value=np.nan)
    upwards = across if kind == HISTOGRAM else frame[y].to_numpy(float, na_value=np.nan)
    is_drawn = np.isfinite(across) & np.isfinite(upwards)
    if kind in (DOSES, BOXES):
        is_drawn &= across >= 0
    drawn = np.flatnonzero(is_drawn)
    plates = frame.attrs.get("plates", "")
    note = f"{len(drawn):,} of {len(frame):,} {noun}{plates} have these values."
    if kind == OBJECTS and len(drawn) > MOST_DOTS:
        note += f" {MOST_DOTS:,} of them are drawn, chosen at random."
        drawn = np.random.default_rng(0).choice(drawn, MOST_DOTS, replace=False)
    shown = frame[[name for name in dict.fromkeys((*PLACES, group)) if name in frame]]
    dots = shown.iloc[drawn].assign(x=across[drawn], y=upwards[drawn])
    dots["group"], names = number_groups(dots[group]) if group else (0, [f"all {noun}"])
    if len(names) > MOST_GROUPS:
        text = f"{group} has {len(names):,} values, of at most {MOST_GROUPS}"
        raise ValueError(f"{text}: choose another column for groups.")
    legend = [(name, CATEGORY_COLORS[i % FEW]) for i, name in enumerate(names)]
    legend += [("no value", GREY)] * bool((dots["group"] < 0).any())
    plot = Plot(choice, offered, dots, legend, x, (), ticks, note)
    if kind == DOSES:
        return _scale_by_log(_fit_doses(plot))
    if kind in (WELLS, OBJECTS) and x in rows[2] and spans_decades(dots["x"]):
        return _scale_by_log(plot)
    finish = {BOXES: _add_boxes, HISTOGRAM: _count_values}.get(kind)
    return plot if finish is None else finish(plot)


def spans_decades(doses: Any) -> bool:
    """Return whether doses suit a logarithmic axis, also those of controls, of 0."""
    positive = doses[doses > 0]
    return bool((doses >= 0).all() and positive.max() >= 100 * positive.min())


def _scale_by_log(plot: Plot) -> Plot:
    """Put doses on a logarithmic axis, which has 0 at its left edge."""
    with np.errstate(divide="ignore"):
        logs = np.log10(plot.dots["x"])
    low, high = logs[np.isfinite(logs)].agg(["min", "max"]).fillna(0.0)
    decades = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    ticks = [(float(x), f"{10.0**x:g}") for x in decades]
    title = f"{plot.title} (logarithmic)"
    if (plot.dots["x"] == 0).any():
        ticks.append((low - 0.5, "0"))
        title = f"{plot.title} (logarithmic, 0 at the left edge)"
    dots = plot.dots.assign(x=logs.clip(low - 0.5))
    return replace(plot, dots=dots, ticks=ticks, title=title)


def _fit_doses(plot: Plot) -> Plot:
    """Add the curve of each group, over the logarithms of doses."""
    lines, legend = list[Any](), [*plot.legend]
    for number, rows in plot.dots[plot.dots["group"] >= 0].groupby("group"):
        (name, color), fit = legend[number], fit_curve(rows["x"], rows["y"])
        legend[number] = f"{name}: {fit.text}", color
        if fit.parameters:
            ends = np.log10(rows["x"][rows["x"] > 0].to_numpy())
            line = np.linspace(ends.min(), ends.max(), 100)
            lines.append((line, compute_responses(fit.parameters, line), color))
    count = count_noun(len(lines), "curve")
    note = f"{plot.note} {count}; EC50 with its 95 % confidence interval."
    return replace(plot, legend=legend, lines=lines, note=note)


def _add_boxes(plot: Plot) -> Plot:
    """Add boxes from quartile to quartile, with lines to the outermost values."""
    lines, aside, gap = list[Any](), 0.3, np.nan
    for place, values in plot.dots.groupby("x")["y"]:
        least, low, middle, high, most = np.quantile(values, (0, 0.25, 0.5, 0.75, 1))
        left, right = place - aside, place + aside
        x = [place, place, left, left, right, right, place, gap, left, right, gap]
        y = [least, low, low, high, high, low, low, gap, middle, middle, gap]
        ends = [*x, place, place], [*y, high, most]
        lines.append((*map(np.array, ends), GREY))
    shifts = np.random.default_rng(0).uniform(-aside, aside, len(plot.dots)) / 2
    return replace(plot, dots=plot.dots.assign(x=plot.dots["x"] + shifts), lines=lines)


def _count_values(plot: Plot) -> Plot:
    """Outline the histogram of each group; all have the same bars."""
    edges, lines = np.histogram_bin_edges(plot.dots["x"], 60), list[Any]()
    for number, rows in plot.dots.groupby("group"):
        counts = np.repeat(np.histogram(rows["x"], edges)[0], 2)
        line = np.repeat(edges, 2), np.array([0, *counts, 0])
        lines.append((*line, plot.legend[number][1]))
    return replace(plot, dots=plot.dots[:0], lines=lines)
