"""The plates, collections and folders of one viewer: one is shown, others are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.utils.notifications import Notification

from napari_ngff.metadata.model import GroupKind
from napari_ngff.viewer.annotations.leaving import save_before_leaving
from napari_ngff.viewer.browsing.browser import Browser
from napari_ngff.viewer.browsing.canvas_controls import NavigationKeys
from napari_ngff.viewer.browsing.listed_tables import ListedTables
from napari_ngff.viewer.browsing.plate_tables import PlateTables
from napari_ngff.viewer.services.notices import last_part, shorten_name
from napari_ngff.viewer.services.settings import PLUGIN
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations


class Offer(Notification):  # type: ignore[misc]
    """A notification with a button."""

    @property
    def source(self) -> str:
        """What napari shows beside the button; its own manager by default."""
        return PLUGIN


def offer_text(address: str) -> str:
    """Tell that a plate is hidden."""
    name = shorten_name(last_part(address))
    return f"Still in Plates: {name}\nChoose it there to see it as it was left."


class PlateList:
    """What was opened in a viewer, or listed; collections and folders, too.

    Parameters
    ----------
    annotations
        Of the viewer.
    changed
        Called with what is shown when more is listed, or less.

    Attributes
    ----------
    browsers
        By address; None for what is read when it is chosen.
    shown
        The browser of what is on the canvas; None before anything was opened.
    wanted
        The address that was chosen last; "" before any was.
    listed
        The tables of all plates.
    """

    def __init__(self, annotations: Annotations, changed: Callable[..., Any]) -> None:
        self._annotations, self._changed = annotations, changed
        self.browsers: dict[str, Browser | None] = {}
        self.shown: Browser | None = None
        self.wanted = ""
        self._tables: dict[Browser, PlateTables] = {}

        def find_open() -> dict[str, PlateTables | None]:
            known: dict[Any, PlateTables] = self._tables
            return {
                x: known.get(y)
                for x, y in self.browsers.items()
                if y is None or y.kind is GroupKind.PLATE
            }

        self.listed = ListedTables(
            find_open, lambda: Window.current.is_open(annotations.viewer)
        )

    def show(self, node: Node, *, anew: bool) -> Browser:
        """Show what was seen of a node, and hide what is seen of another one.

        Parameters
        ----------
        anew
            Whether layers of the node come now, in place of those that are there.
        """
        older, address = self.shown, str(node)
        Window.current.close_offer(self._annotations.viewer, offer_text(address))
        is_new, known = address not in self.browsers, self.browsers.get(address)
        self.shown = browser = known or Browser(self._annotations, node)
        self.browsers[address] = browser
        if older is browser:
            if anew:
                browser.layers.put_away()
            return browser
        if older is not None:
            older.close()
            if older.layers.by_slot() and is_new:
                self._offer_close(str(older.node))
        self._annotations.browsed = address
        NavigationKeys(browser)  # the viewer has it, until the browser closes
        if known is not None:
            browser.resume(anew=anew)
        if self.listed.is_on and (tables := self.open_tables()) is not None:
            self.listed.hand_over(tables)
        return browser

    def add_plates(self, addresses: Iterable[str] = ()) -> None:
        """List plates that are read when they are chosen."""
        new = dict.fromkeys(each for each in addresses if each not in self.browsers)
        self.browsers.update(new)
        self._changed(self.shown)

    def open_tables(self) -> PlateTables | None:
        """Give the tables of what is shown; the first call searches for them."""
        browser = self.shown
        if browser is None:
            return None
        if browser not in self._tables:
            self._tables[browser] = tables = PlateTables(browser)
            tables.find_tables()

            def tell() -> None:
                if self.listed.is_on and browser is not self.shown:
                    self.listed.changed.emit()  # it was measured while it was hidden

            tables.changed.connect(tell)
        return self._tables[browser]

    def _offer_close(self, address: str) -> None:
        """Offer to close what is hidden now; else it stays in the list."""
        actions = (("Close instead", lambda _: self.close(address)),)
        offer = Offer(offer_text(address), "info", actions)
        Window.current.show_offer(self._annotations.viewer, offer)

    def close(self, address: str) -> None:
        """List what is hidden no longer, and remove all but what the user drew.

        Unsaved work is asked about.
        """
        browser = self.browsers.get(address)
        if browser is None:
            return  # closed already
        if browser is self.shown:
            text = "Not closed: it is on the canvas.\nChoose another in Plates first."
            Window.current.show_passing(text)
            return

        def remove(release: Callable[[], None] | None) -> None:
            if release is None or browser is self.shown:
                self._offer_close(address)  # the user stays
                return
            release()
            browser.remove_layers()
            del self.browsers[address]
            self._tables.pop(browser, None)
            self._changed(self.shown)
            self.listed.changed.emit()

        save_before_leaving(self._annotations, browser.layers.layers_to_leave(), remove)
