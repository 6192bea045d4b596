"""What a person sees of notifications in a small window."""

from __future__ import annotations

import pytest
from napari._qt.dialogs.qt_notification import NapariQtNotification

from mouse import until
from napari_ngff.viewer.services.window import Window
from napari_ngff.widgets.installation import install_widgets

PLATE = "/data/a_screen_of_march_with_a_long_name.ome.zarr"
REASON = (
    "the finest level cannot be read: No zarr array at {0}/0. Check the path; a level"
    " may be missing on disk. Coarser levels are not measured: sizes differ."
)


def lost_fields(count):
    places = [f"{PLATE}/A/{well}/0" for well in range(count)]
    return [f"{p}: {p}/labels/nuclei: {REASON.format(p)}" for p in places]


MESSAGES = {
    "short": ["The well is empty."],
    "many": [f"{PLATE}/A/{well}: The well is empty." for well in range(90)],
    "long": lost_fields(1),
    "many and long": lost_fields(12),
    "endless": ["The server answers with a page. " * 200],
    "endless word": ["x" * 5000],
    "list": ["\n".join(map(str, range(500)))],
}


@pytest.fixture
def shown(viewer):
    """Show messages; gives the notification after a click that opens it."""
    install_widgets()
    viewer.window.resize(1280, 800)
    before = set()

    def show(messages):
        Window.current.show_messages(tuple(messages), "The field is not shown.")
        found = viewer.window._qt_window.findChildren(NapariQtNotification)
        (notice,) = set(found) - before
        before.add(notice)
        rests = notice.geom_anim.State.Stopped
        until(lambda: notice.geom_anim.state() == rests)
        notice.expand_button.click()
        until(lambda: notice.geom_anim.state() == rests)
        return notice

    return show


def test_a_notification_that_is_opened_is_whole_on_the_canvas(shown):
    for name, messages in MESSAGES.items():
        notice = shown(messages)
        assert notice.parent().rect().contains(notice.geometry()), name
        assert notice.height() >= notice.message.sizeHint().height(), name
        assert notice.message.text().startswith("The field is not shown.\n"), name
        notice.close()
