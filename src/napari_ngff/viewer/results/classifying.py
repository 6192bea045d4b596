"""Classifies the objects of a plate by those that a person has given a class."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.object_classes import ClassChanges, ObjectClasses
from napari_ngff.plate.results.object_classifier import (
    MARGIN,
    PREDICTED,
    ObjectRule,
    find_unsure,
    join_clicks,
    parse_rule,
    train_rule,
)
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.plate.tables.table import FIELD, LABEL, PLACES, WELL, WellTable
from napari_ngff.store.sources.read_ahead import call_at_once
from napari_ngff.store.write.replace_file import replace_file
from napari_ngff.viewer.annotations.object_class_annotation import (
    ObjectClassAnnotation,
)
from napari_ngff.viewer.painting.object_edits import label_region, show_region
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.services.latest_task import LatestTask, TaskTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.plate_tables import PlateTables

Classes = dict[tuple[str, str, str], ObjectClasses]
"""Classes of objects, by the well, the field, and the name of their labels."""

NOTHING: Any = None


def read_classes(node: Node, key: tuple[str, str, str]) -> ObjectClasses:
    """Read the classes of the objects of a field; none where that fails."""
    classes = ObjectClasses()
    with suppress(OMEZarrError, OSError):  # the map shows it crossed
        image, parse = node.child("/".join(key[:2])), ClassChanges.parse_text
        for _, found, _ in ObjectClassAnnotation.read_parsed(image, parse):
            if getattr(found, "labels", None) == key[2]:
                classes = found.merge_into(classes)
    return classes


def list_clicks(node: Node, table: WellTable, read: Classes, opened: Classes) -> Any:
    """List the objects of a table that have a class; in a worker.

    Parameters
    ----------
    table
        Its `region` names the labels.
    read
        Of fields that were read before; gets those of others.
    opened
        Of fields that are open, which count more than their file.

    Returns
    -------
    pandas.DataFrame
        With `PLACES` and `CLASS`.
    """
    import pandas as pd

    def read_field(key: tuple[str, str, str]) -> None:
        # At the end: another worker may ask for it.
        read[key] = read_classes(node, key)

    fields = table.frame[[WELL, FIELD]].drop_duplicates().assign(region=table.region)
    keys = [*fields.itertuples(index=False, name=None)]
    calls = [partial(read_field, x) for x in keys if x not in read and x not in opened]
    call_at_once(node.location.source, calls)
    found = {key: opened.get(key) or read[key] for key in keys}
    for key in opened:  # once it is not open any more, its file is read again
        read.pop(key, None)
    rows = [(*key[:2], *x) for key in keys for x in found[key].class_of.items()]
    listed = pd.DataFrame(rows, columns=[*PLACES, CLASS])
    return listed.astype({CLASS: "category"})  # counted in no time


def find_open_classes(browser: Browser) -> Classes:
    """Find the classes of objects that are not only in files."""
    root, opened = f"{browser.node}/", Classes()
    for each in browser.layers.annotations:
        if isinstance(each, ObjectClassAnnotation):
            well, _, field = str(each.node).removeprefix(root).rpartition("/")
            opened[well, field, each.labels] = each.classes
    return opened


class ObjectVisit:
    """Goes to an object of a plate: shows its field, and selects it there.

    Parameters
    ----------
    is_alive
        Asked before an answer of a worker is taken.
    """

    def __init__(self, is_alive: Callable[[], bool]) -> None:
        self._going = LatestTask(is_alive)
        self._wanted: Any = None

    def go(self, tables: PlateTables, place: Sequence[str], label: int) -> None:
        """Go to an object of a well, a field and labels, whose names are the place."""
        self._wanted = [*place], label
        tables.browser.show_field(*place[:2])
        self.arrive(tables)

    def arrive(self, tables: PlateTables) -> None:
        """Choose the object, once its field is on screen."""
        viewer, (place, label) = tables.browser.layers.viewer, self._wanted or ((), 0)
        for layer, found in tables.list_labels():
            if [found.well, found.field, layer.metadata[KEY].label_name] == place:
                self._wanted, viewer.layers.selection.active = None, layer
                show = partial(_show_object, viewer, layer, label)
                find = partial(label_region, layer, label)
                self._going.start(lambda _: find(), show, tables.end_task)  # noqa: B023
                return


def _show_object(viewer: Any, layer: Any, label: int, region: Any) -> None:
    layer.selected_label = label
    show_region(viewer, layer, region)


class Classifying:
    """What the page *Classify* shows and does.

    Parameters
    ----------
    is_alive
        Asked before an answer of a worker is taken.
    show
        Called when there is something else to show.

    Attributes
    ----------
    tables
        Of the plate; None before there is one.
    table
        The objects of the plate; None for none.
    clicks
        Those that have a class, of `list_clicks`; None until they are listed.
    rule
        What was learned of them; None before that.
    margins
        Of `ObjectRule.predict`, for `table`; None before that.
    """

    tables: Any = None

    def __init__(self, is_alive: Callable[[], bool], show: Callable[[], Any]) -> None:
        self._listing, self._visit = LatestTask(is_alive), ObjectVisit(is_alive)
        self._show = show

    def follow(self, tables: PlateTables) -> None:
        """Look for objects that have got a class, and for the one to go to."""
        browser, table = tables.browser, tables.joined.find_objects()
        if tables is not self.tables:
            self.rule = self.clicks = self.table = self.margins = NOTHING
            self.tables, self._read = tables, Classes()
        if table is not None and table.place_columns != (FIELD, LABEL):
            table = None
        if table is not self.table:
            self.table, self.margins = table, NOTHING
        opened = find_open_classes(browser)
        if table is not None:
            named = replace(table, region=table.region or "".join(tables.labels[:1]))
            find = partial(list_clicks, browser.node, named, self._read, opened)
            self._listing.start(lambda _: find(), self._take_clicks, tables.end_task)
        self._visit.arrive(tables)

    def _take_clicks(self, clicks: Any) -> None:
        self.clicks = clicks
        self._show()

    def train(self) -> None:
        """Learn classes by the objects that have one."""
        table, clicks = self.table, self.clicks
        self.tables.run_task(
            lambda _: train_rule(join_clicks(table, clicks)), self._take_rule
        )

    def load_rule(self, path: str) -> None:
        """Train the rule of a file again."""
        read = Path(path).read_text
        self.tables.run_task(lambda _: parse_rule(read()), self._take_rule)

    def _take_rule(self, rule: ObjectRule) -> str:
        self.rule = rule
        return rule.description

    def save_rule(self, path: str) -> None:
        """Write the rule into a file."""
        write = partial(replace_file, path, self.rule.dump_text().encode())
        self.tables.run_task(lambda _: write(), lambda _: f"The rule is in {path}.")

    def predict(self) -> None:
        """Give each object of the table the class that the rule finds."""
        rule, table = self.rule, self.table

        def find(turn: TaskTurn) -> Any:
            found = rule.predict(table, turn.report_progress)
            if found is None:
                return None
            margins = found.pop(MARGIN)
            return replace(table, frame=table.frame.assign(**found)), margins

        def take(found: Any) -> str:
            self.table, self.margins = found
            self.tables.replace_table(table, self.table, PREDICTED)
            return f"{len(self.table):,} objects have a predicted class."

        self.tables.run_task(find, take)

    def go_unsure(self) -> None:
        """Go to the object whose class is least sure, in a field without classes."""
        table, margins, clicks = self.table, self.margins, self.clicks
        joined, offer = self.tables.joined, self.tables.find_offer(table)

        self.tables.run_task(
            lambda _: find_unsure(joined.rows_that_count(offer), margins, clicks),
            partial(self._go, table),
        )

    def _go(self, table: WellTable, row: int) -> str:
        self.margins[row] = np.inf  # the next time it is another one
        well, field, label = table.frame.loc[row, [*PLACES]]
        self._visit.go(self.tables, (well, field, table.region), int(label))
        return f"Object {label}: give it a class, and train again."
