"""The dock of results: pages about the tables of the plate that is browsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel, QTabWidget, QVBoxLayout, QWidget

from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.canvas_keys import leave_space_key
from napari_ngff.widgets.connections import Connections, connect_while_alive
from napari_ngff.widgets.docking import place_dock
from napari_ngff.widgets.installation import install_widgets
from napari_ngff.widgets.results.wells_page import WellsPage
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.plate_tables import PlateTables
    from napari_ngff.widgets.results.results_page import ResultsPage

PAGES: tuple[tuple[str, type[ResultsPage]], ...] = (("Wells", WellsPage),)
"""Titles and classes of pages, in their order; a new page is a line here."""

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

    def __init__(
        self, napari_viewer: ViewerModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        install_widgets()
        self._viewer = napari_viewer
        self._session = session_of(napari_viewer)
        self._following = Connections(self)
        self._tables: PlateTables | None = None
        self.pages: dict[str, ResultsPage] = {}
        self.hint = QLabel(self)
        self.hint.setWordWrap(True)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.tabs = QTabWidget(self)
        for title, _ in PAGES:
            holder = QWidget(self.tabs)
            QVBoxLayout(holder).setContentsMargins(0, 0, 0, 0)
            self.tabs.addTab(holder, title)
        layout = QVBoxLayout(self)
        layout.addWidget(self.hint)
        layout.addWidget(self.tabs, 1)
        leave_space_key(self)
        self.tabs.currentChanged.connect(self._show_page)
        connect_while_alive(self._session.browsing, self, self._follow_browser)
        self._follow_browser()
        place_dock(napari_viewer, self, is_below=True)
        ThemeFollower(self, napari_viewer)

    def _follow_browser(self, _: object = None) -> None:
        """Show the tables of what is browsed now."""
        tables = self._session.open_tables()
        self._following.end()
        # Other nodes have no wells, which all pages are about.
        has_wells = tables is not None and bool(tables.browser.map.wells)
        self._tables = tables if has_wells else None
        if self._tables is not None:
            self._following.connect(self._tables.changed, self._show_page)
        self._show_page()

    def _show_page(self, _: int = 0) -> None:
        """Show the page of the chosen tab, or what to do before there is anything."""
        tables = self._tables
        has_table = tables is not None and bool(tables.joined.tables)
        self.hint.setText(NO_PLATE if tables is None else NO_TABLE)
        self.hint.setVisible(not has_table)
        self.tabs.setVisible(has_table)
        for page in self.pages.values():
            page.setTables(tables)
        title, page_class = PAGES[self.tabs.currentIndex()]
        holder = self.tabs.currentWidget()
        if has_table and title not in self.pages and holder is not None:
            self.pages[title] = page = page_class(self._viewer, holder)
            page.setTables(tables)
            box = holder.layout()
            assert box is not None
            box.addWidget(page)
