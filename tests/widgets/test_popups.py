import pytest
from qtpy.QtCore import QEvent, QObject
from qtpy.QtWidgets import QComboBox, QWidget

from mouse import until
from napari_ngff.widgets.theme_look import ThemeFollower


class Listener(QObject):
    """Notes which popups are told of a style."""

    def __init__(self):
        super().__init__()
        self.reported = []

    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.StyleChange:
            self.reported.append(watched)
        return False


@pytest.mark.long
def test_popups_get_no_style_when_their_dock_is_closed(viewer):
    widget = QWidget()
    boxes = [QComboBox(widget) for _ in range(2)]
    ThemeFollower(widget, viewer)
    dock = viewer.window.add_dock_widget(widget)
    until(widget.isVisible)
    listener = Listener()
    for box in boxes:
        box.view().parentWidget().installEventFilter(listener)
    viewer.theme = "light"
    assert len(set(listener.reported)) == 2
    listener.reported.clear()
    viewer.window.remove_dock_widget(dock)
    assert not listener.reported
    dock = viewer.window.add_dock_widget(widget)
    assert len(set(listener.reported)) == 2
    viewer.window.remove_dock_widget(dock)
    widget.deleteLater()
