"""What ``napari.yaml`` names: joins the viewer part to the widgets."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from napari_ngff import serve_windows
from napari_ngff.addresses import public_address
from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.viewer import reader
from napari_ngff.viewer.private.napari_window import is_opened_by_user
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.viewer import Viewer

    from napari_ngff.viewer.plans.layer_plan import LayerData
    from napari_ngff.widgets.opening import RemoteOpening


def get_reader(path: str | Sequence[str]) -> Callable[[Any], list[Any]] | None:
    """Give napari our reader, or None if the path is no OME-Zarr.

    Labels come as layers, everything else as tuples of layer data: napari makes its own
    layers of tuples, and labels need the class of ours.
    """
    # Each command begins so: napari may call any of them first.
    use_workers()
    opening = find_opening(path)
    if opening is not None and is_opened_by_user(opening.viewer):
        return partial(open_later, opening)
    find_reader = partial(reader.get_reader, path)
    read = find_reader() if opening is None else opening.wait(find_reader)
    if read is None:
        viewer = reader.current_viewer()
        read = None if viewer is None else reader.plain_reader(viewer, path)
        if read is None and viewer is not None and is_named_ome_zarr(path):
            read = reader.read_paths  # raises the reason
    if read is None:
        return None
    from napari_ngff.viewer.layers.first_pixels import read_first_pixels
    from napari_ngff.viewer.painting.painted_layers import as_layers

    def read_layers(given: Any) -> list[Any]:
        read_given = partial(read, given)
        try:
            found = read_given() if opening is None else opening.wait(read_given)
            if reader.current_viewer() is None:
                read_first_pixels(found, shown=True)
            layers = as_layers(found)
        except (OMEZarrError, OSError) as error:
            if not reported_in_window(given, error):
                raise
            layers = []
        else:
            offer_default()
        # How npe2 says that something was read which adds no layers, as a folder does.
        return layers or [(None,)]

    return read_layers


def is_named_ome_zarr(path: str | Sequence[str]) -> bool:
    """Return whether all names end with ".ome.zarr", which no other reader takes."""
    paths = [path] if isinstance(path, str) else path
    return all(str(each).rstrip("/").endswith(".ome.zarr") for each in paths)


def find_opening(path: str | Sequence[str]) -> RemoteOpening | None:
    """Prepare to open something remote in a window; None where there is none."""
    if "qtpy" not in sys.modules:
        return None
    from napari_ngff.widgets.opening import begin_opening

    return begin_opening(path)


def open_later(opening: RemoteOpening, path: str | Sequence[str]) -> list[Any]:
    """Begin to open something remote that a user opened; its layers come later."""

    def done(layers: list[LayerData]) -> None:
        opening.add_layers(layers)
        offer_default()

    opening.start(partial(reader.read_paths, path), done, partial(report_failure, path))
    return [(None,)]


def offer_default() -> None:
    """Offer the user who just opened a file that napari asks for no reader any more."""
    viewer = reader.current_viewer()
    if viewer is None:
        return
    from napari_ngff.widgets.forms import offer_default_reader
    from napari_ngff.widgets.notifications import is_event_loop_running, is_window_shown

    # A user, or a start by `napari PATH` before the window is shown; not a script.
    if is_event_loop_running() or not is_window_shown(viewer):
        offer_default_reader(viewer)


def reported_in_window(path: str | Sequence[str], error: Exception) -> bool:
    """Show why a path was not opened, where a user opened it; a script gets the error.

    For an error napari asks for another reader, with a traceback.
    """
    viewer = reader.current_viewer()
    if viewer is None:
        return False
    from napari_ngff.widgets.notifications import is_event_loop_running, is_window_shown

    is_user = is_event_loop_running()
    if is_user or not is_window_shown(viewer):
        report_failure(path, error)
    return is_user


def report_failure(path: str | Sequence[str], error: Exception) -> None:
    """Show why a path was not opened: at once, and in the sign of problems."""
    from napari_ngff.metadata.model import Problem, Severity
    from napari_ngff.viewer.services.notices import last_part, shorten_name

    first = public_address(path if isinstance(path, str) else path[0])
    text = error_text(error)
    Window.current.show_messages(
        (text,), f"Not opened: {shorten_name(last_part(first))}"
    )
    viewer = reader.current_viewer()
    if viewer is not None:
        problem = Problem("node-unreadable", Severity.ERROR, "", text)
        Window.current.show_problems(viewer, first, (problem,))


def write_layers(path: str, layers: Sequence[LayerData]) -> list[str]:
    """Write layers for napari, which waits for it; see `viewer.write_layers.write`."""
    use_workers()
    # No Qt: a script without a window. Under Qt a worker writes, so that the window
    # answers.
    if "qtpy" not in sys.modules:
        from napari_ngff.viewer.composing.write_layers import write

        return [str(write(path, layers))]
    from napari_ngff.widgets.save_as import save_for_napari

    return [str(save_for_napari(path, layers))]


def write_single_file(path: str, layers: Sequence[LayerData]) -> list[str]:
    """Write layers as `write_layers`, an ``.ozx`` where no ending is typed."""
    from napari_ngff.viewer.composing.write_layers import with_ending

    return write_layers(str(with_ending(path, ".ozx")), layers)


def save_as(viewer: Viewer) -> None:
    """Ask for a name, and save the selected or the visible layers as an OME-Zarr."""
    from napari_ngff.widgets.save_as import save_as as ask_and_save

    use_workers()
    ask_and_save(viewer)


def convert_files(viewer: Viewer) -> None:
    """Ask what to convert to another version, other chunks, a part or one file."""
    use_workers()
    viewer = getattr(viewer, "__wrapped__", viewer)

    def show(form: Any) -> None:
        if Window.current.is_open(viewer):
            form.show_convert_form(viewer)

    # The first import takes more than 100 ms, in which the window would not answer.
    module = "napari_ngff.widgets.converting.convert_form"
    Window.current.run_work(partial(import_module, module), show)


def use_workers() -> None:
    """Read in worker threads, and let labels have their controls, under Qt."""
    # A script may read layers, and make the window for them later.
    serve_windows()
    # Importing Qt here would make a script without a window need it.
    if "qtpy" not in sys.modules:
        return
    from napari_ngff.widgets.installation import install_widgets

    install_widgets()


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


def restore_edits(viewer: Viewer) -> None:
    """Offer edits of the open images that were kept, such as by *Later*."""
    from napari_ngff.viewer.session import session_of

    use_workers()
    session_of(viewer).recovery.offer_again()


def show_more_channels(viewer: Viewer) -> None:
    """Add the next channels of an image that has very many."""
    from napari_ngff.viewer.session import show_more_channels as show

    use_workers()
    show(viewer)


def view_region(viewer: Viewer) -> None:
    """Choose a region and a level, and view it in 3D."""
    from napari_ngff.widgets.annotate.volume_form import show_volume_form

    use_workers()
    show_volume_form(viewer)


def work_with_plugins(viewer: Viewer) -> None:
    """Extract a region for other plugins, and merge their results."""
    from napari_ngff.widgets.annotate.bridge_form import show_bridge_form

    use_workers()
    show_bridge_form(viewer)


def measure_labels(viewer: Viewer) -> None:
    """Measure the labels of a layer: size, place, intensities."""
    from napari_ngff.widgets.annotate.measure_form import show_measure_form

    use_workers()
    show_measure_form(viewer)


def sample_cells() -> list[LayerData]:
    """Open a time series of cells with labels of nuclei and cells."""
    from napari_ngff.viewer.samples import cells_path

    return _open_sample(cells_path)


def sample_stack() -> list[LayerData]:
    """Open a 3D stack with labels."""
    from napari_ngff.viewer.samples import stack_path

    return _open_sample(stack_path)


def sample_plate() -> list[LayerData]:
    """Open a 24-well plate with labels in every field."""
    from napari_ngff.viewer.samples import plate_path

    return _open_sample(plate_path)


def _open_sample(path: Callable[[], Any]) -> list[LayerData]:
    from napari_ngff.viewer.painting.painted_layers import add_sample

    use_workers()
    where = str(path())
    layers = reader.read_paths(where)
    # Of a sample napari takes tuples only, and would make its own labels of them: these
    # are added here.
    viewer = reader.current_viewer()
    return layers if viewer is None else add_sample(viewer, layers, where)
