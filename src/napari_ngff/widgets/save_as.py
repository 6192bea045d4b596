"""Saves layers as a new OME-Zarr, a folder or a single file of a chosen name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error, show_info, show_warning
from qtpy.QtWidgets import QFileDialog

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.viewer.notices import shorten_name
from napari_ngff.viewer.write_layers import layers_to_save, propose_target, with_ending
from napari_ngff.widgets.form_dialog import main_window
from napari_ngff.widgets.saving.writing import write_in_window

if TYPE_CHECKING:
    from napari.viewer import Viewer

__all__ = ["ask_target", "save_as"]

TYPES = {
    "OME-Zarr folder (*.ome.zarr *.zarr)": ".ome.zarr",
    "OME-Zarr single file (*.ozx)": ".ozx",
}
"""Types of files, and the ending of a name that has none."""


def save_as(viewer: Viewer) -> None:
    """Ask for a name and a type, and save the selected or the visible layers."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    layers, which = layers_to_save(viewer.layers)
    if not layers:
        show_warning("Nothing to save.\nThere is no image and there are no labels.")
        return
    count = "1 layer" if len(layers) == 1 else f"{len(layers)} layers"
    proposed = propose_target(layers, QFileDialog().directory().absolutePath())
    path = ask_target(viewer, f"Save {count} ({which}) as OME-Zarr", proposed)
    if not path:
        return
    try:
        written = write_in_window(path, [x.as_layer_data_tuple() for x in layers])
    except InterruptedError as error:
        show_info(f"Nothing is saved.\n{error}")
    except (OMEZarrError, OSError) as error:
        show_error(f"Not saved.\n{error_text(error)}")
    else:
        show_info(f"Saved {shorten_name(written.name)}")


def ask_target(viewer: Any, title: str, path: str) -> str:
    """Ask for a path; "" if cancelled. A typed ending decides the type."""
    dialog = QFileDialog(main_window(viewer), title)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    # The question whether to replace something is asked once, for folders, too.
    dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
    dialog.setNameFilters(list(TYPES))
    dialog.selectFile(path)
    files = dialog.selectedFiles() if dialog.exec() else []
    kind = TYPES[dialog.selectedNameFilter()]
    dialog.deleteLater()
    return str(with_ending(files[0], kind)) if files else ""
