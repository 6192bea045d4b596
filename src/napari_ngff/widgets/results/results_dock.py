"""The dock of results: pages about the tables of the plate that is browsed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QStackedWidget, QTabWidget, QVBoxLayout, QWidget

from napari_ngff.viewer.reader import show_listed
from napari_ngff.viewer.results.plate_objects import PlateObjects
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.table_bar import fill_box
from napari_ngff.widgets.canvas_keys import leave_space_key
from napari_ngff.widgets.connections import (
    Connections,
    alive_check,
    choice_box,
    connect_while_alive,
    enable_if,
    fill_layout,
    filled_row,
    make_buttons,
    while_alive,
    wrapping_label,
)
from napari_ngff.widgets.docking import place_dock
from napari_ngff.widgets.installation import install_widgets
from napari_ngff.widgets.results.classify_page import ClassifyPage
from napari_ngff.widgets.results.gallery_page import GalleryPage
from napari_ngff.widgets.results.wells_page import WellsPage
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.widgets.results.results_page import ResultsPage


PAGES: dict[str, Callable[[Any], ResultsPage] | None] = {
    "Wells": WellsPage,
    "Plot": None,
    "Classify": ClassifyPage,
    "Gallery": GalleryPage,
}
"""What makes pages, by their titles, in their order; None until it is imported."""


def import_plot() -> Callable[[Any], ResultsPage]:
    """Import what makes the page *Plot*: it takes half a second, so in a worker."""
    from napari_ngff.widgets.results.plot_page import PlotPage

    return PlotPage


JOINED = "Wells", "Plot"
"""Titles of the pages that can show several plates."""

PLATES = {False: "this plate", True: "all listed plates"}

NO_PLATE = "Open a plate first: drop it on the window."
NO_TABLE = (
    "There is no table yet. In the plate browser, load one by Load…, or press Measure."
)


class ResultsDock(QWidget):
    """Shows pages about the plate of the session; each is made when it is first shown.

    Attributes
    ----------
    pages
        Those that were made, by their titles.
    """

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__()
        install_widgets()
        self._viewer, self._session = napari_viewer, session_of(napari_viewer)
        self._listed = self._session.plates.listed
        self._following = Connections(self)
        self._objects: PlateObjects | None = None
        self.pages: dict[str, ResultsPage] = {}
        self.hint, self.tabs = wrapping_label(self), QTabWidget(self)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        tip = "Plates whose wells and objects the pages Wells and Plot show"
        self.plates = choice_box(self, "Plates", tip)
        self.tabs.setCornerWidget(self.plates)
        (self.cancel,) = make_buttons(self, ("Cancel", "", self._on_cancel))
        for title in PAGES:
            self.tabs.addTab(QStackedWidget(self.tabs), title)
        row = filled_row(self.hint, self.cancel, wide=self.hint)
        fill_layout(QVBoxLayout(self), row, self.tabs)
        leave_space_key(self)
        self.tabs.currentChanged.connect(self._show_page)
        self.plates.activated.connect(self._on_plates)
        connect_while_alive(self._listed.changed, self, self._show_page)
        connect_while_alive(self._listed.progressed, self, self._show_plates)
        connect_while_alive(self._session.browsing, self, self._follow_browser)
        self._follow_browser()
        place_dock(napari_viewer, self, is_below=True)
        ThemeFollower(self, napari_viewer)
        Window.current.run_work(import_plot, while_alive(self._take_plot))

    def _take_plot(self, make_page: Callable[[Any], ResultsPage]) -> None:
        PAGES["Plot"] = make_page
        self._show_page()

    def _follow_browser(self, _: object = None) -> None:
        """Show the tables of what is browsed now."""
        self._following.end()
        tables, before = self._session.open_tables(), self._objects
        # All pages are about wells.
        self._objects = None
        if tables is not None and tables.joined.paths:
            is_same = before is not None and before.tables is tables
            show_plate = partial(show_listed, self._session)
            self._objects = (
                before
                if is_same
                else PlateObjects(tables, alive_check(self), self._listed, show_plate)
            )
            self._following.connect(tables.changed, self._show_page)
        self._show_page()

    def _show_page(self, _: int = 0) -> None:
        """Show the page of the chosen tab, or what to do before there is anything."""
        objects, title = self._objects, self.tabs.tabText(self.tabs.currentIndex())
        has_table = self._has_table()
        self.tabs.setVisible(has_table)
        make_page, holder = PAGES[title], cast("Any", self.tabs.currentWidget())
        if has_table and title not in self.pages and make_page is not None:
            self.pages[title] = page = make_page(self._viewer)
            leave_space_key(page)
            page.setObjects(objects)
            holder.addWidget(page)
        for page in self.pages.values():
            page.setObjects(objects)
        if objects is not None:
            self._listed.follow(objects.tables)
        self._show_plates()

    def _has_table(self) -> bool:
        objects = self._objects
        return objects is not None and (
            self._listed.is_on or bool(objects.tables.joined.tables)
        )

    def _show_plates(self) -> None:
        """Show of which plates the page is, and what is read or missing of others."""
        objects, listed = self._objects, self._listed
        title = self.tabs.tabText(self.tabs.currentIndex())
        is_joined = listed.is_on and title in JOINED
        fill_box(self.plates, PLATES, is_joined)
        enable_if(title in JOINED, self.plates, f"{title} shows this plate alone.")
        self.plates.setVisible(len(self._session.plates.browsers) > 1)
        has_table = self._has_table()
        text = NO_PLATE if objects is None else NO_TABLE
        short, full = listed.notes if title in JOINED else ("", "")
        self.hint.setText(short if has_table else text)
        self.hint.setToolTip(full)
        self.hint.setVisible(bool(self.hint.text()))
        self.cancel.setVisible(bool(listed.progress))

    def _on_plates(self, row: int) -> None:
        if self._objects is not None:
            self._listed.choose(self._objects.tables, is_on=bool(row))

    def _on_cancel(self) -> None:
        self._on_plates(0)
