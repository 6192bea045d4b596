"""Small forms: open an address, become the default reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magicgui.widgets import Container, Label, LineEdit, PushButton
from qtpy.compat import isalive
from qtpy.QtWidgets import QApplication, QMessageBox

from napari_ngff.store.node import open_node
from napari_ngff.viewer.reader import read_node
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.settings import (
    is_default_reader,
    make_default_reader,
)
from napari_ngff.widgets.look import Look, wrap
from napari_ngff.widgets.workers import run_in_worker

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.viewer import Viewer

__all__ = ["UrlForm", "ask_default_reader", "show_open_url"]

TITLE = "Open OME-Zarr URL"
HINT = "https://…/image.ome.zarr"

QUESTION = (
    "Open folders and files that end in .zarr or .ozx with OME-Zarr from now on,"
    " without asking?\n\nOther zarr files are still passed on to other readers. This"
    " is kept in Preferences ▸ Plugins, where it can be changed."
)


class UrlForm(Container):  # type: ignore[type-arg]
    """Ask for an address, open it in a worker, and say what is going on."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self.address = LineEdit(label="Address")
        self.address.native.setPlaceholderText(HINT)
        self.address.tooltip = "Of an OME-Zarr on a web server, or s3://bucket/…"
        self.button = PushButton(text="Open")
        self.status = Label(value="")
        wrap(self.status)
        super().__init__(widgets=[self.address, self.button, self.status])
        Look(self.native, viewer)
        self.button.changed.connect(self.open)
        self.address.native.returnPressed.connect(self.open)

    def open(self) -> None:
        """Start to open what stands in the form."""
        url = self.address.value.strip()
        if not url or not self.button.enabled:
            return
        self.button.enabled = False
        self.status.value = "Reading…"
        session_of(self._viewer)
        run_in_worker(
            lambda: read_node(open_node(url)),
            lambda layers: self._add(url, layers),
            lambda error: self._finish(str(error)),
        )

    def _add(self, url: str, layers: list[Any]) -> None:
        if self._is_alive():
            session_of(self._viewer).add(layers, url)
            self._finish(f"Layers opened: {len(layers)}.")

    def _finish(self, text: str) -> None:
        if self._is_alive():
            self.button.enabled = True
            self.status.value = text

    def _is_alive(self) -> bool:
        """Tell whether the window is there; a form closed alone lives on while read."""
        return bool(isalive(self.native))  # type: ignore[no-untyped-call]


def show_open_url(viewer: Viewer) -> UrlForm:
    """Show the form in the viewer's window, the one that is there if any."""
    form = viewer.window.dock_widgets.get(TITLE)
    if not isinstance(form, UrlForm):
        form = UrlForm(viewer)
        viewer.window.add_dock_widget(form, name=TITLE, area="bottom")
    form.address.native.setFocus()
    return form


def ask_default_reader() -> bool:
    """Ask whether to become the default reader; True if so now."""
    if not is_default_reader():
        parent = QApplication.activeWindow()
        answer = QMessageBox.question(parent, "OME-Zarr", QUESTION)
        if answer != QMessageBox.StandardButton.Yes:
            return False
        make_default_reader()
    return True
