"""Opens an address, and offers to become the default reader."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from magicgui.widgets import Container, Label, LineEdit, PushButton
from qtpy.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QMainWindow,
)

from napari_ngff.addresses import is_url
from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.store.hierarchy.data_link import data_address
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.server_logins import (
    find_login,
    forget_kept_logins,
    forget_logins,
    forget_secrets,
    server_of,
)
from napari_ngff.viewer.reader import read_node
from napari_ngff.viewer.services.notices import last_part, shorten_name
from napari_ngff.viewer.services.settings import (
    forget_addresses,
    is_default_offered,
    is_default_reader,
    make_default_reader,
    note_default_offered,
    recent_addresses,
)
from napari_ngff.viewer.services.window import Window, attempt_work
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.connections import fill_layout, make_buttons
from napari_ngff.widgets.form_dialog import (
    close_form,
    is_form_open,
    is_window_open,
    main_window,
    show_form,
)
from napari_ngff.widgets.login_dialog import LoginAnswer, ask_login
from napari_ngff.widgets.opening import RemoteOpening
from napari_ngff.widgets.status_signs import put_in_status_bar
from napari_ngff.widgets.theme_look import ThemeFollower, wrap_label

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.viewer import Viewer

TITLE = "Open URL"
HINT = "https://…/image.ome.zarr"
ADDRESS_TIP = (
    "Of an OME-Zarr on a web server, or s3://bucket/…; or a link of vizarr,"
    " ome-ngff-validator or neuroglancer"
)


class UrlForm(Container):  # type: ignore[type-arg]
    """Asks for an address, opens it in a worker, and shows progress and errors."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self.address = LineEdit(label="Address", tooltip=ADDRESS_TIP)
        self.address.native.setPlaceholderText(HINT)
        self.button = PushButton(text="Open")
        tip = "To a server, or to a bucket with an own endpoint"
        self.login_button = PushButton(text="Log in…", tooltip=tip)
        self.cancel_button = PushButton(text="Cancel", visible=False)
        self.status = Label(value="")
        wrap_label(self.status)
        self._opening: RemoteOpening | None = None
        self.forget_button = PushButton(
            text="Forget logins and addresses", tooltip="Also those of the keychain"
        )
        buttons = [
            self.button,
            self.login_button,
            self.forget_button,
            self.cancel_button,
        ]
        super().__init__(widgets=[self.address, *buttons, self.status])
        self.recent = self._list_recent()
        ThemeFollower(self.native, viewer)
        self.button.changed.connect(self.open_address)
        self.login_button.changed.connect(self.log_in)
        self.forget_button.changed.connect(self.forget_all)
        self.cancel_button.changed.connect(self.cancel_opening)

    def _list_recent(self) -> QComboBox:
        """Add a row with the addresses that were opened last."""
        # A box of magicgui would keep the window in memory.
        box = QComboBox(self.native)
        box.addItems(recent_addresses())
        box.setPlaceholderText("Recent addresses")
        box.setCurrentIndex(-1)
        box.setToolTip("Opened before; they are kept without logins and signatures")
        # Long addresses must not make the dialog wide.
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        box.setSizeAdjustPolicy(policy)
        box.setMinimumContentsLength(10)
        box.setVisible(box.count() > 0)
        box.textActivated.connect(self._take_recent)
        self.native.layout().insertWidget(1, box)
        return box

    def _take_recent(self, address: str) -> None:
        self.address.value = address

    def _find_address(self) -> str:
        """Return the typed address, or the one in a link; "" for none."""
        if not self.address.value.strip() or not self.button.enabled:
            return ""
        try:
            return data_address(self.address.value)
        except OMEZarrError as error:
            self._show_error(error_text(error))
            return ""

    def log_in(self) -> None:
        """Ask for a login before the server does, and open the address with it."""
        url = self._find_address()
        if not is_url(url):
            self._show_error(self.status.value or "Type the address first.")
            return
        server = server_of(url)
        ask_login(self._viewer, server, self._open_with_login, find_login(server))

    def forget_all(self) -> None:
        """Forget all logins, those in the keychain too, and the recent addresses."""
        forget_logins()
        forget_secrets()
        self.recent.clear()
        self.recent.hide()
        work = partial(attempt_work, forget_kept)
        Window.current.run_work(work, self._show_forgotten)

    def _show_forgotten(self, failure: str | None) -> None:
        if failure is not None:
            title = "Some logins are not forgotten."
            Window.current.show_messages((failure,), title)
        elif is_form_open(self):
            self.status.value = "Logins and addresses are forgotten."

    def _open_with_login(self, answer: LoginAnswer | None) -> None:
        if answer is not None and is_form_open(self):
            self._open(self._find_address(), answer)

    def open_address(self) -> None:
        """Start to open the typed address, or the one in a link of another viewer."""
        self._open(self._find_address(), None)

    def _open(self, url: str, login: LoginAnswer | None) -> None:
        if not url:
            return
        self.button.enabled = False
        self.status.value = "Reading…"
        session_of(self._viewer)
        opening = self._opening = RemoteOpening(self._viewer, url)
        opening.login = login
        self.cancel_button.visible = True
        opening.start(
            lambda: read_node(open_node(url)),
            lambda layers: self._add_layers(opening, layers),
            lambda error: self._show_failure(opening, error_text(error)),
        )

    def cancel_opening(self) -> None:
        """Stop reading the address."""
        if self._opening is not None:
            self._opening.scope.cancel()

    def _add_layers(self, opening: RemoteOpening, layers: list[Any]) -> None:
        # The layers are added although the dialog was closed while it read.
        opening.add_layers(layers)
        if is_form_open(self):
            close_form(self)

    def _show_failure(self, opening: RemoteOpening, text: str) -> None:
        """Show why an address was not opened, also if the form was closed meanwhile."""
        self._show_error(text)
        if not is_form_open(self) and is_window_open(self._viewer):
            title = f"Not opened: {shorten_name(last_part(opening.path))}"
            Window.current.show_messages((text,), title)

    def _show_error(self, text: str) -> None:
        if is_form_open(self):
            self._opening = None
            self.button.enabled, self.cancel_button.visible = True, False
            self.status.value = text


def forget_kept() -> None:
    """Forget what is kept on the disk of logins and addresses; this may take long."""
    forget_addresses()
    forget_kept_logins()


def show_open_url(viewer: Viewer) -> UrlForm:
    """Show the form in a dialog; if it is open already, that one."""
    return show_form(
        viewer, TITLE, UrlForm, lambda x: (x.address.native, x.button.native)
    )


OFFER = "Always open OME-Zarr with this plugin?"
TIP = (
    "For folders, files and addresses that contain .zarr, and for .ozx. Later in"
    " Preferences ▸ Plugins."
)


def offer_default_reader(viewer: Any) -> None:
    """Offer to become the default reader, once and without blocking."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    if not hasattr(viewer, "window") or not is_window_open(viewer):
        return
    if is_default_reader() or is_default_offered():
        return
    note_default_offered()
    DefaultReaderOffer(main_window(viewer))


class DefaultReaderOffer(QFrame):
    """A question with two buttons in the status bar, until it is answered."""

    def __init__(self, window: Any) -> None:
        super().__init__(window)
        assert isinstance(window, QMainWindow)
        self.yes, self.no = make_buttons(
            self, ("Always", "", self._on_yes), ("No", "", self.deleteLater)
        )
        self.setToolTip(TIP)
        parts = QLabel(OFFER, self), self.yes, self.no
        fill_layout(QHBoxLayout(self), *parts, margin=0)
        put_in_status_bar(self, window)

    def _on_yes(self) -> None:
        make_default_reader()
        self.deleteLater()
