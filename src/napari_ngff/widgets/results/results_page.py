"""What every page of the dock of results is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import QWidget

from napari_ngff.widgets.connections import Connections, wrapping_label

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.results.plate_objects import PlateObjects


class ResultsPage(QWidget):
    """A page of the dock of results; it is made when it is first shown.

    Attributes
    ----------
    objects
        Those of the plate that is browsed; None for none. `objects.tables.joined` has
        the tables, `objects.browser` shows wells and fields.
    note
        A line for what the user is told.
    """

    objects: PlateObjects | None = None

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__()
        self.viewer, self.note = viewer, wrapping_label(self)
        self._following = Connections(self)

    def setObjects(self, objects: PlateObjects | None) -> None:
        """Follow another plate."""
        if objects is self.objects:
            return
        self._following.end()
        self.objects = objects
        if objects is not None:
            for signal, follow in (
                (objects.tables.changed, self.follow),
                (objects.listed.changed, self.follow),
                (objects.browser.wells_selected, self.followWells),
                (objects.browser.layers_changed, self.followLayers),
                (objects.changed, self.followClasses),
            ):
                self._following.connect(signal, follow)
        self.follow()

    def follow(self, _: Any = None) -> None:
        """Show what there is now, if somebody sees it."""
        if self.objects is not None and self.isVisible():
            self.followTables(self.objects)

    def followTables(self, objects: PlateObjects) -> None:
        """Show other rows, since tables, the filter or acquisitions have changed.

        It is called only while the page is seen.
        """
        raise NotImplementedError

    def followWells(self) -> None:
        """Show which wells are selected: `objects.browser.selected_wells`."""

    def followLayers(self) -> None:
        """Show what layers show, since they are others."""

    def followClasses(self) -> None:
        """Show the classes of objects, since some have changed."""

    def showEvent(self, event: Any) -> None:
        """Show the rows as they are now, since nobody saw them before."""
        super().showEvent(event)
        self.follow()
