"""What every page of the dock of results is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import QWidget

from napari_ngff.widgets.connections import Connections

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.plate_tables import PlateTables


class ResultsPage(QWidget):
    """A page of the dock of results; it is made when it is first shown.

    Attributes
    ----------
    tables
        Of the plate that is browsed; None for none. `tables.joined` has the tables,
        `tables.browser` shows wells and fields.
    """

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer
        self.tables: PlateTables | None = None
        self._following = Connections(self)

    def setTables(self, tables: PlateTables | None) -> None:
        """Follow the tables of another plate, and the wells that are selected there."""
        if tables is self.tables:
            return
        self._following.end()
        self.tables = tables
        if tables is not None:
            self._following.connect(tables.changed, self._follow_tables)
            self._following.connect(tables.browser.wells_selected, self.followWells)
        self._follow_tables()

    def _follow_tables(self) -> None:
        if self.tables is not None and self.isVisible():
            self.followTables(self.tables)

    def followTables(self, tables: PlateTables) -> None:
        """Show other rows, since tables, the filter or acquisitions have changed.

        It is called only while the page is seen.
        """
        raise NotImplementedError

    def followWells(self) -> None:
        """Show which wells are selected: `tables.browser.selected_wells`."""

    def showEvent(self, event: Any) -> None:
        """Show the rows as they are now, since nobody saw them before."""
        super().showEvent(event)
        self._follow_tables()
