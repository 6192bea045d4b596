"""Notices of a window: one stack, the newest on top, each for its own time."""

from __future__ import annotations

import itertools

import pytest
from napari._qt.dialogs.qt_notification import NapariQtNotification
from napari.utils.notifications import show_info, show_warning
from qtpy.QtCore import QPoint, QRect
from qtpy.QtGui import QCursor
from qtpy.QtWidgets import QLineEdit

from mouse import canvas, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.widgets import notice_area

LONG = (
    "cells.ome.zarr: 100 chunks could not be read from 127.0.0.1:8000."
    " They are asked for again by themselves."
)


pytestmark = pytest.mark.usefixtures("short_notices")


@pytest.fixture
def short_notices(viewer, monkeypatch):
    use_workers()
    monkeypatch.setattr(notice_area, "SHOWN", 1500)
    # A notice under the pointer stays.
    QCursor.setPos(viewer.window._qt_window.geometry().bottomRight() + QPoint(50, 50))
    yield
    for notice in shown(viewer):
        notice.close()


def shown(viewer):
    """Notices that are to be seen, those further up first."""
    window = viewer.window._qt_window
    found = [n for n in window.findChildren(NapariQtNotification) if n.isVisible()]
    return sorted(found, key=lambda notice: notice.y())


def texts(viewer):
    return [notice.message.text() for notice in shown(viewer)]


def at_rest(viewer):
    """Wait until nothing slides, and give what is to be seen."""
    until(lambda: not any(one.geom_anim.state().value for one in shown(viewer)))
    pump(50)
    return shown(viewer)


def inside(viewer, notice):
    return QRect(canvas(viewer).native.rect()).contains(notice.geometry())


def test_the_newest_is_on_top_and_none_covers_another(viewer):
    for text in ("Labels are read-only.", "Nothing to save.", "Saved a.ozx"):
        show_info(text)
    notices = at_rest(viewer)
    assert texts(viewer) == [
        "Saved a.ozx", "Nothing to save.", "Labels are read-only.",
    ]  # fmt: skip
    for upper, lower in itertools.pairwise(notices):
        assert upper.geometry().bottom() < lower.geometry().top()
    assert all(inside(viewer, notice) for notice in notices)


def test_the_reason_is_shown_without_a_click(viewer):
    show_warning("Not saved.\nThe folder is inside of another OME-Zarr.\n/data/a.zarr")
    (notice,) = at_rest(viewer)
    one_line = notice.message.fontMetrics().lineSpacing()
    assert notice.message.height() >= 2 * one_line
    show_info("Saved a.ozx")
    upper, _ = at_rest(viewer)
    assert upper.height() < notice.height()


def test_each_goes_by_its_own_time(viewer, monkeypatch):
    # Also where napari's window is not the active one, as behind another program.
    monkeypatch.setattr(
        type(viewer.window._qt_window), "isActiveWindow", lambda _: False
    )
    show_info("Labels are read-only.")
    pump(700)
    show_warning("Nothing to save.")
    until(lambda: texts(viewer) == ["Nothing to save."])
    until(lambda: texts(viewer) == [])
    # What was behind a newer one does not come back.
    pump(300)
    assert texts(viewer) == []


def test_one_of_the_same_kind_replaces_the_one_before(viewer):
    show_info("Saved copy.ozx")
    show_info("Nothing to save.")
    show_info("Saved copy2.ozx")
    assert texts(viewer) == ["Saved copy2.ozx", "Nothing to save."]


def test_an_expanded_one_stays(viewer):
    show_info("Saved copy.ozx\nIt is in a folder.")
    (notice,) = at_rest(viewer)
    notice.toggle_expansion()
    show_info("Saved copy2.ozx")
    until(lambda: texts(viewer) == ["Saved copy.ozx\nIt is in a folder."])
    pump(2000)
    assert texts(viewer) == ["Saved copy.ozx\nIt is in a folder."]


def test_only_a_few_are_shown(viewer):
    for word in ("One", "Two", "Three", "Four", "Five", "Six"):
        show_info(word)
    assert texts(viewer) == ["Six", "Five", "Four", "Three"]


@pytest.mark.default_cases("small")
@pytest.mark.parametrize("size", [(900, 600), (620, 420)], ids=["usual", "small"])
def test_a_long_one_fits_into_a_small_window(viewer, size):
    viewer.window.add_dock_widget(QLineEdit(), area="right")
    viewer.window.resize(*size)
    pump(300)
    show_warning(f"{LONG}\nhttp://127.0.0.1:8000/cells.ome.zarr/0/c/0/0")
    (notice,) = at_rest(viewer)
    assert inside(viewer, notice)
    label = notice.message
    rows = label.fontMetrics().boundingRect(
        QRect(0, 0, label.width(), 9999), 0x1000, LONG
    )
    most = notice_area.MOST_LINES * label.fontMetrics().lineSpacing()
    assert label.height() >= min(rows.height(), most), "its first sentence in whole"
    viewer.window.resize(size[0] + 100, size[1] + 80)
    pump(300)
    assert inside(viewer, notice)
    right = canvas(viewer).native.width() - notice.geometry().right()
    assert right < 20, "it stays in its corner"


def test_the_keyboard_stays_where_it_is(viewer):
    line = QLineEdit()
    viewer.window.add_dock_widget(line)
    viewer.window._qt_window.activateWindow()
    line.setFocus()
    show_info("Saved copy.ozx")
    until(line.hasFocus)
    until(lambda: texts(viewer) == [])
    assert line.hasFocus()
