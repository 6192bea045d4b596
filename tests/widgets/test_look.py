from qtpy.QtCore import QCoreApplication, QEvent
from qtpy.QtWidgets import QWidget

from napari_ngff.viewer import settings
from napari_ngff.widgets.look import Look


def test_nobody_goes_on_calling_what_is_closed(viewer):
    emitters = viewer.events.theme, settings.letters()
    before = [len(emitter.callbacks) for emitter in emitters]
    widget = QWidget()
    told = []
    look = Look(widget, viewer, told.append)
    assert [len(emitter.callbacks) for emitter in emitters] == [n + 1 for n in before]
    viewer.theme = "light"
    assert len(told) == 2
    del look
    widget.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert [len(emitter.callbacks) for emitter in emitters] == before
    viewer.theme = "dark"
    assert len(told) == 2
