"""The dock of results: pages about the tables of the plate that is browsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel, QStackedWidget, QTabWidget, QVBoxLayout, QWidget

from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.canvas_keys import leave_space_key
from napari_ngff.widgets.connections import Connections, connect_while_alive
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


def make_plot_page(viewer: ViewerModel) -> ResultsPage:
    """Make the page *Plot*; what draws it takes long to import."""
    from napari_ngff.widgets.results.plot_page import PlotPage

    return PlotPage(viewer)


PAGES: tuple[tuple[str, Callable[[Any], ResultsPage]], ...] = (
    ("Wells", WellsPage),
    ("Plot", make_plot_page),
    ("Classify", ClassifyPage),
    ("Gallery", GalleryPage),
)
"""Titles of pages, and what makes them, in their order; a new page is a line here."""

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
        self._viewer, self._session = napari_viewer, session_of(napari_viewer)
        self._following = Connections(self)
        self.pages: dict[str, ResultsPage] = {}
        self.hint = QLabel(self)
        self.hint.setWordWrap(True)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.tabs = QTabWidget(self)
        for title, _ in PAGES:
            self.tabs.addTab(QStackedWidget(self.tabs), title)
        layout = QVBoxLayout(self)
        for widget in (self.hint, self.tabs):
            layout.addWidget(widget)
        leave_space_key(self)
        self.tabs.currentChanged.connect(self._show_page)
        connect_while_alive(self._session.browsing, self, self._follow_browser)
        self._follow_browser()
        place_dock(napari_viewer, self, is_below=True)
        ThemeFollower(self, napari_viewer)

    def _follow_browser(self, _: object = None) -> None:
        """Show the tables of what is browsed now."""
        self._following.end()
        tables = self._session.open_tables()
        if tables is not None:
            self._following.connect(tables.changed, self._show_page)
        self._show_page()

    def _show_page(self, _: int = 0) -> None:
        """Show the page of the chosen tab, or what to do before there is anything."""
        tables = self._session.open_tables()
        if tables is not None and not tables.joined.paths:
            tables = None  # all pages are about wells
        has_table = tables is not None and bool(tables.joined.tables)
        self.hint.setText(NO_PLATE if tables is None else NO_TABLE)
        self.hint.setVisible(not has_table)
        self.tabs.setVisible(has_table)
        title, make_page = PAGES[self.tabs.currentIndex()]
        if has_table and title not in self.pages:
            self.pages[title] = make_page(self._viewer)
            holder: Any = self.tabs.currentWidget()
            holder.addWidget(self.pages[title])
        for page in self.pages.values():
            page.setTables(tables)
