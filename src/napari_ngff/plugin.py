"""What ``napari.yaml`` names: joins the viewer part to the widgets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer import reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.viewer import Viewer

    from napari_ngff.viewer.picture import LayerData

__all__ = [
    "edit_copy",
    "get_reader",
    "make_default_reader",
    "measure_labels",
    "new_labels",
    "open_url",
    "sample_cells",
    "sample_plate",
    "sample_stack",
    "view_region",
    "write_layers",
]


def get_reader(path: str | Sequence[str]) -> Callable[[Any], list[Any]] | None:
    """Give napari our reader, or None where it is no OME-Zarr.

    Labels come as layers, all else as tuples: napari has no tuple for a layer of ours.
    """
    use_workers()
    read = reader.get_reader(path)
    if read is None:
        return None
    from napari_ngff.viewer.painting.painted import as_layers

    # npe2's word for what was read without layers to add: a folder that is listed.
    return lambda given: as_layers(read(given)) or [(None,)]


def write_layers(path: str, layers: Sequence[LayerData]) -> list[str]:
    """Write layers for napari, which waits for it; see `viewer.writer.write`."""
    use_workers()
    if "qtpy" in sys.modules:
        from napari_ngff.widgets.saving.writing import write_in_window

        return [str(write_in_window(path, layers))]
    from napari_ngff.viewer.writer import write

    return [str(write(path, layers))]


def use_workers() -> None:
    """Read in worker threads, and let labels have their controls, under Qt."""
    if "qtpy" not in sys.modules:
        return
    from napari_ngff.widgets.installation import install

    install()


def open_url(viewer: Viewer) -> None:
    """Ask for an address and open it."""
    from napari_ngff.widgets.forms import show_open_url

    use_workers()
    show_open_url(viewer)


def new_labels(viewer: Viewer) -> None:
    """Ask what new labels shall be like, and add them."""
    from napari_ngff.widgets.new_labels_form import show_new_labels

    use_workers()
    show_new_labels(viewer)


def edit_copy(viewer: Viewer) -> None:
    """Copy the active, read-only labels beside their image, and paint on the copy."""
    from napari_ngff.viewer.saving.sidecars import edit_copy as start

    use_workers()
    start(viewer)


def view_region(viewer: Viewer) -> None:
    """Choose a region and a level, and view it in 3D."""
    from napari_ngff.widgets.annotate.dock import AnnotateDock
    from napari_ngff.widgets.docking import ANNOTATE, show_dock

    use_workers()
    show_dock(viewer, ANNOTATE, AnnotateDock).showVolume()


def measure_labels(viewer: Viewer) -> None:
    """Measure the labels of a layer: size, place, intensities."""
    from napari_ngff.widgets.annotate.measure_form import show_measure_form

    use_workers()
    show_measure_form(viewer)


def make_default_reader() -> None:
    """Ask, and then let napari open OME-Zarr without asking."""
    from napari_ngff.widgets.forms import ask_default_reader

    ask_default_reader()


def clear_thumbnails() -> None:
    """Delete the thumbnails that are kept on disk, and say how much that was."""
    from napari.utils.notifications import show_info

    from napari_ngff.plate.previews.cache import clear_previews
    from napari_ngff.viewer.frontend import run

    use_workers()
    run(
        clear_previews,
        lambda freed: show_info(f"{freed / 1e6:.1f} MB of thumbnails are deleted."),
    )


def sample_cells() -> list[LayerData]:
    """Open a time series of cells with labels of nuclei and cells."""
    from napari_ngff.viewer.samples import cells_path

    return _sample(cells_path)


def sample_stack() -> list[LayerData]:
    """Open a 3D stack with labels."""
    from napari_ngff.viewer.samples import stack_path

    return _sample(stack_path)


def sample_plate() -> list[LayerData]:
    """Open a 24-well plate with labels in every field."""
    from napari_ngff.viewer.samples import plate_path

    return _sample(plate_path)


def _sample(path: Callable[[], Any]) -> list[LayerData]:
    from napari_ngff.viewer.painting.painted import add_sample

    use_workers()
    where = str(path())
    layers = reader.read(where)
    viewer = reader.current_viewer()
    return layers if viewer is None else add_sample(viewer, layers, where)
