"""No key of a dock of ours takes the place of one of napari's."""

from __future__ import annotations

import pytest
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import QAbstractButton, QGroupBox, QLabel, QTabBar, QWidget

from mouse import pump
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.widgets.browser.host import show_browser

PLUGIN = "napari-ngff"
DOCKS = ("Annotate", "Inspector")


def keys_of_napari(viewer):
    """Alt and a letter: the menus, and what napari's menus and window do at a key."""
    window = viewer.window._qt_window
    menus = [action.text() for action in window.menuBar().actions()]
    found = {QKeySequence.mnemonic(text).toString(): text for text in menus}
    for action in items(window.menuBar()):
        for keys in action.shortcuts():
            found[keys.toString()] = action.text()
    return {key: text for key, text in found.items() if key.startswith("Alt+")}


def items(menu):
    """Give the actions of a menu, and of all menus in it."""
    for action in menu.actions():
        yield action
        if action.menu() is not None:
            action.menu().aboutToShow.emit()
            yield from items(action.menu())


def mnemonics(widget):
    """Give the texts below a widget that Alt and a letter lead to."""
    texts = []
    for part in (widget, *widget.findChildren(QWidget)):
        if isinstance(part, QAbstractButton):
            texts.append(part.text())
        elif isinstance(part, QGroupBox):
            texts.append(part.title())
        elif isinstance(part, QLabel) and part.buddy() is not None:
            texts.append(part.text())
        elif isinstance(part, QTabBar):
            texts += [part.tabText(i) for i in range(part.count())]
    found = [(QKeySequence.mnemonic(text).toString(), text) for text in texts]
    return [(key, text) for key, text in found if key]


@pytest.mark.long
@pytest.mark.parametrize("make", [write_image, write_plate])
def test_no_dock_takes_a_key_of_napari(viewer, tmp_path, make):
    use_workers()
    where = make(tmp_path / "x.ome.zarr", shape=(64, 64))
    viewer.open(str(where), plugin=PLUGIN)
    viewer.layers.selection.active = viewer.layers[-1]
    pump(300)
    add = viewer.window.add_plugin_dock_widget
    docks = [show_browser(viewer), *(add(PLUGIN, name)[1] for name in DOCKS)]
    pump(100)
    theirs = keys_of_napari(viewer)
    assert {"Alt+F", "Alt+L", "Alt+S", "Alt+C"} <= set(theirs)
    for dock in docks:
        ours = mnemonics(dock)
        assert [(key, text, theirs[key]) for key, text in ours if key in theirs] == []
        assert dock is docks[0] or ours
