"""Classifies the objects of a plate by those that a person has given a class."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.plate.results.object_classifier import (
    MARGIN,
    PREDICTED,
    ObjectRule,
    find_unsure,
    join_clicks,
    read_rule,
    train_rule,
)
from napari_ngff.plate.tables.table import LABEL
from napari_ngff.store.write.replace_file import replace_file
from napari_ngff.viewer.results.well_table import find_objects
from napari_ngff.viewer.services.latest_task import LatestTask, TaskTurn

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.viewer.results.plate_objects import PlateObjects

NOTHING: Any = None


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
    objects
        Those of the plate; None before there are some.
    table
        Their table; None for none.
    clicks
        Those that have a class, and a note: see `PlateObjects.list_clicks`; None until
        they are listed.
    rule
        What was learned of them; None before that.
    margins
        Of `ObjectRule.predict`, for `table`; None before that.
    """

    objects = clicks = rule = table = margins = _trained = NOTHING

    def __init__(self, is_alive: Callable[[], bool], show: Callable[[], Any]) -> None:
        self._listing, self._show = LatestTask(is_alive), show

    def follow(self, objects: PlateObjects) -> None:
        """Look for objects that have got a class."""
        table = objects.table
        if objects is not self.objects:
            self.objects, self.rule, self.clicks = objects, NOTHING, NOTHING
        if table is not self.table:
            self.table, self.margins = table, NOTHING
        if table is not None:
            find, fail = partial(objects.list_clicks, table), objects.tables.end_task
            self._listing.start(lambda _: find(), self._take_clicks, fail)

    def _take_clicks(self, clicks: Any) -> None:
        self.clicks = clicks
        self._show()

    def train(self) -> None:
        """Learn classes by the objects that have one."""
        table, (clicks, _) = self.table, self.clicks
        self._learn(lambda: train_rule(join_clicks(table, clicks)), clicks)

    @property
    def outdated_note(self) -> str:
        """That other objects have a class than the rule was trained by; "" if not."""
        if self.rule is None or self._trained is None or self.clicks is None:
            return ""
        clicks, _ = self.clicks
        if clicks.equals(self._trained):
            return ""
        count = f"Since then, classes have changed: {len(clicks):,} objects have one"
        return f"{count} now. Train again."

    def load_rule(self, path: str) -> None:
        """Train the rule of a file again."""
        self._learn(lambda: read_rule(path))

    def _learn(self, work: Callable[[], ObjectRule], clicks: Any = NOTHING) -> None:
        def take(rule: ObjectRule) -> str:
            self.rule, self._trained = rule, clicks
            return rule.description

        self.objects.tables.run_task(lambda _: work(), take)

    def save_rule(self, path: str) -> None:
        """Write the rule into a file."""
        write = partial(replace_file, path, self.rule.dump_text().encode())
        told = f"The rule is in {path}."
        self.objects.tables.run_task(lambda _: write(), lambda _: told)

    def predict(self) -> None:
        """Give each object of the table the class that the rule finds."""
        rule, table, tables = self.rule, self.table, self.objects.tables

        def find(turn: TaskTurn) -> Any:
            found = rule.predict(table.frame, turn.report_progress)
            if found is None:
                return None
            margins = found.pop(MARGIN)
            return replace(table, frame=table.frame.assign(**found)), margins

        def take(found: Any) -> str:
            self.table, self.margins = found
            tables.replace_table(table, self.table, PREDICTED)
            return f"{len(self.table):,} objects have a predicted class."

        tables.run_task(find, take)

    def go_unsure(self) -> None:
        """Go to the object whose class is least sure, in a field without classes."""
        frame, margins, (clicks, _) = self.table.frame, self.margins, self.clicks
        tables, joined = self.objects.tables, self.objects.tables.joined

        def go(row: int) -> str:
            margins[row] = np.inf  # the next time it is another one
            self.objects.go(frame.loc[row])
            return f"Object {frame[LABEL][row]}: give it a class, and train again."

        tables.run_task(
            lambda _: find_unsure(find_objects(joined), margins, clicks), go
        )
