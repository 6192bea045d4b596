"""Parts of the browser alone: the fields of a well."""

from __future__ import annotations

import pytest
from qtpy.QtGui import QImage

from napari_ngff.viewer.browsing.positions import FieldPlace, Position, WellFields
from napari_ngff.widgets.browser.well_view import WellView
from napari_ngff.widgets.theme_look import ThemeColors


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


STATES = {"0": "done", "1": "in progress", "2": "flagged", "3": "to do"}


def marks(picture):
    """Whether a field has a bar of full and of half height, and a flag."""
    colors, high = ThemeColors.from_theme("dark"), picture.height()
    column = [picture.pixelColor(picture.width() // 2, y) for y in range(high)]
    bar = column[-high // 4 :].count(colors.mark)
    # Beside the name, which has the corner.
    flag = picture.pixelColor(picture.width() // 4, 3) == colors.broken
    return bar > 8, bar > 0, flag


def check_marks(pictures):
    assert marks(pictures["0"]) == (True, True, False)
    assert marks(pictures["1"]) == (False, True, False)
    assert marks(pictures["2"]) == (False, False, True)
    assert marks(pictures["3"]) == (False, False, False)


def test_fields_show_how_far_they_are(qtbot):
    view = WellView()
    qtbot.addWidget(view)
    view.resize(420, 160)
    view.setFields(WellFields(tuple(wide_place(n) for n in range(4))))
    black = QImage(64, 64, QImage.Format.Format_RGB32)
    black.fill(0)
    view.setPictures(dict.fromkeys(STATES, black))
    view.show()
    view.setStates(STATES)
    picture = view.map.grab().toImage()
    check_marks({field: picture.copy(view.map.rectOf(field)) for field in STATES})
    items = [view.strip.item(row) for row in range(4)]
    icons = {x.text(): x.icon().pixmap(64, 64).toImage() for x in items}
    check_marks(icons)
    view.setStates({**STATES, "3": "done"})
    assert marks(view.strip.item(3).icon().pixmap(64, 64).toImage())[0]


def wide_place(number):
    return FieldPlace(
        Position("A/1", str(number)), (0.0, 10.0 * number), (10.0, 10.0), str(number)
    )
