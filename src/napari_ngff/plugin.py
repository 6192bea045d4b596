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
    from napari_ngff.viewer.painting.painted_layers import as_layers
    from napari_ngff.viewer.reader import read_first_pixels

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


def restore_edits(viewer: Viewer) -> None:
    """Offer edits of the open images that were kept, such as by *Later*."""
    from napari_ngff.viewer.session import session_of

    use_workers()
    session_of(viewer).recovery.offer_again()


def _command(home: str, name: str) -> Callable[[Viewer], Any]:
    """Make a command of a function of a module, which is imported when it is called."""

    def run(viewer: Viewer) -> Any:
        use_workers()
        # napari hands commands proxies, which are gone when the command returns.
        viewer = getattr(viewer, "__wrapped__", viewer)
        return getattr(import_module(f"napari_ngff.{home}"), name)(viewer)

    return run


measure_labels = _command("widgets.annotate.measure_form", "show_measure_form")
new_labels = _command("widgets.new_labels_form", "show_new_labels")
open_url = _command("widgets.forms", "show_open_url")
report_problem = _command("widgets.problem_report", "report_problem")
save_as = _command("widgets.save_as", "save_as")
show_more_channels = _command("viewer.session", "show_more_channels")
view_region = _command("widgets.annotate.region_form", "show_volume_form")
work_with_plugins = _command("widgets.annotate.bridge_form", "show_bridge_form")


def _open_sample(name: str) -> list[LayerData]:
    from napari_ngff.viewer.painting.painted_layers import add_sample

    use_workers()
    where = str(getattr(import_module("napari_ngff.viewer.samples"), name)())
    layers = reader.read_paths(where)
    # Of a sample napari takes tuples only, and would make its own labels of them: these
    # are added here.
    viewer = reader.current_viewer()
    return layers if viewer is None else add_sample(viewer, layers, where)


sample_cells = partial(_open_sample, "cells_path")
sample_stack = partial(_open_sample, "stack_path")
sample_plate = partial(_open_sample, "plate_path")
