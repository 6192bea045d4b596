import gc

import pytest
from qtpy.QtCore import QCoreApplication, QEvent
from qtpy.QtWidgets import QWidget

from napari_ngff.viewer.services import settings
from napari_ngff.widgets.theme_look import ThemeFollower


def closed(viewer, reported):
    """Make a widget with its look, and delete both as the end of a dock does."""
    widget = QWidget()
    ThemeFollower(widget, viewer, reported.append)
    widget.deleteLater()
    del widget
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()


@pytest.mark.long
def test_nobody_goes_on_calling_what_is_closed(viewer):
    reported = []
    closed(viewer, reported)
    viewer.theme = "light"
    assert len(reported) == 1


@pytest.mark.long
def test_few_callbacks_of_closed_docks_are_kept(viewer):
    emitters = viewer.events.theme, settings.letter_event()
    before = [len(emitter.callbacks) for emitter in emitters]
    for _ in range(3):
        closed(viewer, [])
    for emitter, number in zip(emitters, before, strict=True):
        assert len(emitter.callbacks) <= number + 1
