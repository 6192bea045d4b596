"""The state behind the form *Convert OME-Zarr*: its work, and how that ended."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ngff.addresses import is_url, join_address
from napari_ngff.errors import (
    LoginNeededError,
    OMEZarrError,
    OptionError,
    error_text,
)
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.convert.conversion import (
    ConversionCall,
    ConversionResult,
    ConversionStep,
    discard_unfinished,
    has_unfinished,
    run_conversion,
)
from napari_ngff.store.data_folder import is_in_data_folder
from napari_ngff.store.limits import size_text
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.viewer.composing.write_layers import complete_path
from napari_ngff.viewer.plans.layer_plan import layer_kind, origin_of
from napari_ngff.viewer.services.child_process import run_in_child
from napari_ngff.viewer.services.notices import (
    MOST_SHOWN,
    count_noun,
    last_part,
    shorten_message,
    shorten_name,
)
from napari_ngff.viewer.services.window import Signal, Window, going_on
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming.regions import view_region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.store.convert.request import ConvertOptions


KEPT = " Finished parts are kept, hidden beside the target: Convert continues."


class ConversionTask:
    """One conversion of a window: it goes on when its form is closed.

    Attributes
    ----------
    status
        What is going on, or how it ended.
    job
        The work that runs; None where none does.
    result
        What was made by the last conversion; None before.
    call
        What was asked for last; None before.
    is_unfinished
        Whether parts of the last conversion are there, since it was stopped.
    """

    changed = Signal()
    """Emitted in the main thread when anything that the form shows may be different."""

    login_needed = Signal(str)
    """Emitted with a server, as of `server_of`, that wants a login."""

    def __init__(self) -> None:
        self.status = ""
        self.job: LongJob | None = None
        self.result: ConversionResult | None = None
        self.call: ConversionCall | None = None
        self.is_unfinished = False

    def start(
        self, source: str, target: str, options: ConvertOptions
    ) -> LongJob | None:
        """Convert; a conversion with the same options that was stopped is continued.

        Returns
        -------
        LongJob, optional
            The work that has begun; None where it cannot begin.
        """
        if self.job is not None:
            return None
        if not source or not target:
            self.status = "Choose what to convert, and a name to save it as."
            self.changed.emit()
            return None
        target = target if is_url(target) else str(complete_path(target))
        self.call = ConversionCall.with_logins(source, target, options)
        self.result, self.is_unfinished = None, False
        job = LongJob(f"Converting {last_part(target)}", run_conversion, (self.call,))
        job.stepped.connect(self._show_step)
        job.ended.connect(self._take_outcome)
        self.job, self.status = job, "Reading metadata…"
        job.start()
        self.changed.emit()
        return job

    def cancel(self) -> None:
        """Stop the work that runs."""
        if self.job is not None:
            self.job.cancel()
            self.status = "Cancelling…"
            self.changed.emit()

    def discard(self) -> None:
        """Remove what a stopped conversion left."""
        if self.job is not None or self.call is None:
            return
        target = self.call.target

        def remove() -> str:
            try:
                discard_unfinished(target)
            except (OMEZarrError, OSError) as error:
                return error_text(error)
            return "Unfinished parts are deleted."

        def show(text: str) -> None:
            self.status, self.is_unfinished = text, False
            self.changed.emit()

        Window.current.run_work(remove, show)

    def _show_step(self, step: ConversionStep) -> None:
        if self.job is not None and not self.job.is_cancelled:
            self.status = step_text(step)
            self.changed.emit()

    def _take_outcome(self, outcome: ConversionResult | Exception) -> None:
        job, self.job = self.job, None
        self.status = "The conversion has ended."
        with going_on():
            if isinstance(outcome, Exception):
                self.status = failure_text(outcome)
                self._look_for_parts()
            else:
                self.result = outcome
                self.status = result_text(outcome)
        self.changed.emit()
        if job is not None and not len(self.changed):
            # The form was closed meanwhile.
            first = f"{shorten_name(job.title)}: ended."
            Window.current.show_messages((self.status,), first)
        if isinstance(outcome, LoginNeededError) and self.call is not None:
            self.login_needed.emit(outcome.server or server_of(self.call.source))

    def _look_for_parts(self) -> None:
        assert self.call is not None
        target = self.call.target

        def show(is_unfinished: bool) -> None:
            if self.job is None and is_unfinished:
                self.is_unfinished = True
                self.status += KEPT
                self.changed.emit()

        Window.current.run_work(lambda: has_unfinished(target), show)


_tasks: weakref.WeakKeyDictionary[Any, ConversionTask] = weakref.WeakKeyDictionary()
"""The task of each viewer: a form that is opened again shows it."""


def conversion_task_of(viewer: ViewerModel) -> ConversionTask:
    """Return the task of a viewer."""
    return _tasks.setdefault(viewer, ConversionTask())


def propose_target(source: str) -> str:
    """Return a free name beside the source, or in the home folder.

    There if the source is on a server or in the data folder. What is in an archive
    becomes a folder.
    """
    if not source:
        return ""
    path = Path(source)
    name = path.name.partition(".")[0] or "image"
    is_elsewhere = is_url(source) or is_in_data_folder(source)
    folder = Path.home() if is_elsewhere else path.absolute().parent
    while any((folder / name).exists() for name in ("zarr.json", ".zgroup")):
        folder = folder.parent
    endings = ["-converted", *(f"-converted-{number}" for number in range(2, 100))]
    names = [folder / f"{name}{ending}.ome.zarr" for ending in endings]
    free = (each for each in names if not os.path.lexists(each))
    return str(next(free, names[0]))


def step_text(step: ConversionStep) -> str:
    """Describe a step for a person."""
    if step.phase == "pack":
        return f"Packing: {size_text(step.done)} of {size_text(step.total)}"
    if step.phase == "plan":
        return f"Reading metadata: {step.done:,} arrays"
    if step.phase == "compare":
        return f"Checking the source for changes: {step.done:,} of {step.total:,}"
    return f"Piece {step.done:,} of {step.total:,}"


def result_text(result: ConversionResult) -> str:
    """Describe for a person what was made."""
    notes = [shorten_message(note) for note in result.notes]
    if result.problems:
        left = count_noun(len(result.problems), "part")
        notes.append(f"Left out, as unreadable: {left}.")
        notes += map(shorten_message, result.problems[:MOST_SHOWN])
    return " ".join([f"Done: {last_part(str(result.target))}.", *notes])


def failure_text(error: Exception) -> str:
    """Describe an error for a person, with the field that it belongs to."""
    if isinstance(error, InterruptedError):
        return "Cancelled."
    text = shorten_message(error_text(error))
    if isinstance(error, OptionError):
        return f"{error.option.capitalize()}: {text}"
    return text


class LongJob:
    """Work that reports its steps.

    Parameters
    ----------
    title
        For the bar in the window.
    work, arguments
        See `run_in_child`.

    Attributes
    ----------
    step
        The newest step that was reported; None before the first.
    running
        Whether it has begun and not ended.
    is_cancelled
        Whether it was cancelled.
    outcome
        What `work` returned, or the error that it raised.
    """

    stepped = Signal(object)
    """Emitted in the main thread with the newest step, some times a second."""

    ended = Signal(object)
    """Emitted in the main thread with `outcome`."""

    def __init__(
        self,
        title: str,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> None:
        self.title = title
        self.step: ConversionStep | None = None
        self.running = False
        self.outcome: Any = None
        self._work, self._arguments = work, arguments
        self._stop = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._stop.is_set()

    def start(self) -> None:
        """Begin."""
        self.running = True
        try:
            # Not one of the window's threads, which are few: it may take hours.
            threading.Thread(
                target=self._run, name="napari-ngff-job", daemon=True
            ).start()
        # A form waits for the end.
        except Exception as error:  # noqa: BLE001
            self._finish(error)

    def cancel(self) -> None:
        """Stop it; it ends soon, with an error as its outcome."""
        self._stop.set()

    def _run(self) -> None:
        try:
            outcome = run_in_child(self._work, self._arguments, self._follow)
        except Exception as error:  # noqa: BLE001  shown in the main thread
            outcome = error
        Window.current.run_in_main(lambda: self._finish(outcome))

    def _follow(self, step: ConversionStep | None) -> None:
        if self._stop.is_set():
            msg = "It was cancelled."
            raise InterruptedError(msg)
        if step is not None:
            Window.current.report_to_main(self, lambda: self._show_step(step))

    def _show_step(self, step: ConversionStep) -> None:
        # What was reported before the end may arrive after it.
        if self.running:
            self.step = step
            self.stepped.emit(step)

    def _finish(self, outcome: Any) -> None:
        self.running = False
        self.outcome = outcome
        self.ended.emit(outcome)


def source_choices(viewer: ViewerModel) -> list[str]:
    """List addresses that the selected layer stands for, the likeliest first.

    Of a plate that is browsed the plate, then its image; of labels their image first.
    """
    layer = _chosen_layer(viewer)
    origin = origin_of(layer)
    if origin is None:
        return []
    location = origin.node.location
    root, path = location.source.name, location.path
    image = path.rpartition("/labels/")[0] if "/labels/" in f"/{path}" else path
    if path.startswith("labels/"):
        image = ""
    found = [join_address(root, image), join_address(root, path), root]
    browser = session_of(viewer).browser
    if browser is not None and layer is not None and browser.layers.owns_layer(layer):
        found.insert(0, str(browser.node))
    return list(dict.fromkeys(found))


def _chosen_layer(viewer: ViewerModel) -> Layer | None:
    """Return the selected layer, or the topmost one that comes from OME-Zarr."""
    active = viewer.layers.selection.active
    if origin_of(active) is not None:
        return active
    shown = [layer for layer in reversed(viewer.layers) if origin_of(layer)]
    return next((layer for layer in shown if layer.visible), next(iter(shown), None))


def visible_crop(viewer: ViewerModel, source: str) -> str:
    """Return the part of an image that is in view, as a crop is typed.

    Along the axes on the screen alone, such as "y=0:100,x=20:80".

    Raises
    ------
    ValueError
        Where no layer shows the image, or it is out of view.
    """
    for layer in viewer.layers:
        if _address_of(layer) == source:
            region = view_region(viewer, layer)
            axes = [axis - viewer.dims.ndim for axis in viewer.dims.displayed]
            return ",".join(
                f"{layer.axis_labels[axis]}={region[axis][0]}:{region[axis][1]}"
                for axis in axes
            )
    msg = "The window does not show this image."
    raise ValueError(msg)


def open_result(viewer: ViewerModel, source: str, target: Path | str) -> None:
    """Open what was made, as the reader does, in place of its source.

    The layers of the source stay, and are hidden: the copy would be drawn over them.
    """
    before = session_of(viewer).browser
    viewer.open(str(target), plugin="napari-ngff")
    hide_source(viewer, source)
    if session_of(viewer).browser is not before:
        # napari shows the whole of the first image only, and this may be a plate.
        viewer.reset_view()


def hide_source(viewer: ViewerModel, source: str) -> None:
    """Hide the layers of a source, over which its copy would be drawn."""
    browser = session_of(viewer).browser
    for layer in layers_below(viewer.layers, source):
        # A browser that still browses the source shows its next field by the channels
        # that it has. Labels stay those of the source: a stroke would be saved there.
        is_labels = layer_kind(layer) == "labels"
        if is_labels or browser is None or not browser.layers.owns_layer(layer):
            layer.visible = False


def layers_below(layers: Iterable[Any], source: str) -> list[Any]:
    """List the layers that show a group, or what is below it.

    Parameters
    ----------
    source
        Address of the group.
    """
    source = source.rstrip("/")
    found = []
    for layer in layers:
        address = _address_of(layer)
        if address == source or address.startswith(f"{source}/"):
            found.append(layer)
    return found


def _address_of(layer: Any) -> str:
    """Return the address of the group that a layer shows; "" for none."""
    saver, origin = getattr(layer, "saver", None), origin_of(layer)
    if saver is not None:
        # Of new labels, the origin is their image.
        return join_key(*saver.journal.place)
    if origin is None:
        return ""
    return str(origin.node)


def unsaved_layers(layers: Iterable[Any], source: str) -> list[Any]:
    """List layers whose painted changes are not saved in a group, or below it."""
    painted = [layer for layer in layers if getattr(layer, "saver", None) is not None]
    return [layer for layer in layers_below(painted, source) if layer.unsaved]
