"""The buttons that fill an object between its sections."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QWidget
from vispy.scene.visuals import Line

from napari_ngff.viewer.painting.section_edits import edit_sections, hatch_section
from napari_ngff.viewer.private.napari_window import qt_viewer_of
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.viewer.services.window import attempt_work
from napari_ngff.widgets.connections import (
    alive_check,
    connect_while_alive,
    make_buttons,
    while_alive,
    wrapping_row,
)

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.painting.object_edits import ObjectEdits


class SectionRow(QWidget):
    """Hatches what is filled between sections, and fills it when it is told to."""

    reported = Signal(str)
    """Emitted with the next step, the result or an error, for the user."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._edits: Any = None  # `ObjectEdits`, while they are hatched
        self._task = LatestTask(alive_check(self), while_alive(self.showProgress))
        tip = (
            "Hatches what would be filled in the sections between those that have the"
            " selected object.\nShift+Right, Shift+Left: copy it to the next or the"
            " previous section."
        )
        self.look, self.fill, self.cancel = make_buttons(
            self,
            ("Fill between sections", tip, self.lookAtSections),
            ("Fill", "", self.fillSections),
            ("Cancel", "", self.endFilling),
        )
        self.setLayout(wrapping_row(self.look, self.fill, self.cancel))
        view = qt_viewer_of(viewer)
        self._lines = Line(
            connect="segments",
            color="magenta",
            parent=None if view is None else view.canvas.view.scene,
        )
        self._lines.order = 1 << 16  # above all layers
        self.destroyed.connect(partial(setattr, self._lines, "parent", None))
        self.endFilling()

    def endFilling(self) -> None:
        """Stop looking, and take the lines away."""
        self._task.cancel()
        self._show_state("")

    def lookAtSections(self) -> None:
        """Find what would be filled, in a worker, and hatch it."""
        self._show_state("Looking…", is_busy=True)
        self._task.start(
            lambda turn: edit_sections(self._viewer, turn.report_progress),
            self._on_found,
            lambda reason: self._show_state(f"Not filled: {reason}"),
        )

    def showProgress(self, done: int, total: int) -> None:
        """Show how much of the present work is done."""
        self.reported.emit(f"Looking… {100 * done // total} %")

    def _on_found(self, edits: ObjectEdits) -> None:
        # With each section that is drawn, and each stroke; once for a layer.
        connect_while_alive(edits.layer.events.set_data, self, self._draw)
        edits.layer.edited.connect(self._draw, unique=True)
        self._show_state(
            f"Object {edits.labels[0]} is hatched in {len(edits.edits)} sections.",
            edits,
        )

    def fillSections(self) -> None:
        """Fill what is hatched."""
        edits = self._edits
        failed = attempt_work(edits.apply_edits)
        self._show_state(
            failed
            if isinstance(failed, str)
            else f"Filled {len(edits.edits)} sections of object {edits.labels[0]}."
        )

    def _show_state(
        self, text: str, edits: Any = None, *, is_busy: bool = False
    ) -> None:
        self._edits = edits
        self.fill.setVisible(edits is not None)
        self.cancel.setVisible(is_busy or edits is not None)
        self._draw()
        self.reported.emit(text)

    def _draw(self, event: Any = None) -> None:
        self._lines.set_data(pos=hatch_section(self._viewer, self._edits))
