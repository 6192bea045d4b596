"""Parts of the browser alone: the fields of a well."""

from __future__ import annotations

import pytest

from napari_ngff.viewer.browsing.positions import FieldPlace, Position, WellFields
from napari_ngff.widgets.browser.well_view import WellView


def place(field, run):
    """Return a field of an acquisition; two fields side by side in each."""
    corner = (0.0, 10.0 * (int(field) % 2))
    return FieldPlace(Position("A/1", field, run), corner, (10.0, 10.0), field)


@pytest.mark.parametrize(("runs", "shown"), [((0,), "01"), ((1,), "23"), ((), "0123")])
def test_the_fields_of_the_chosen_acquisition_are_shown(qtbot, runs, shown):
    view = WellView()
    qtbot.addWidget(view)
    fields = [place(str(number), number // 2) for number in range(4)]
    view.setRuns(runs)
    view.setFields(WellFields(tuple(fields)))
    assert [one.position.field for one in view.map._fields] == list(shown)
