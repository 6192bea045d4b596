"""A million objects in the window: listed, coloured, filtered, classified, saved.

    python objects.py [DATA]

Prints for each step how long the window did not answer at most, how much of its main
thread the longest answer took, and how long it took until the step was done, in
milliseconds; then the same for napari's own table of features, which gets the same rows
and sorts them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from heartbeat import beating

from napari_ngff.labels.object_classes import ClassChanges, ObjectClasses
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations.object_class_annotation import find_classes
from napari_ngff.viewer.annotations.object_class_table import write_classes

SIDE, STEP = 4096, 4
"""Pixels of the image and of an object."""

LONGEST = 120
"""Seconds that a step may take."""


def write_labels(folder: Path) -> Path:
    """Write an image whose label image has a million objects."""
    from plates import write_image

    count = SIDE // STEP
    ids = np.arange(1, count * count + 1, dtype="u4").reshape(count, count)
    pixels = ids.repeat(STEP, 0).repeat(STEP, 1)
    pixels[:, ::STEP] = 0
    path = folder / "million.ome.zarr"
    write_image(path, pixels, 3, "yx", labels=("nuclei",))
    half = dict.fromkeys(range(1, count * count // 2), "round")
    classes = ObjectClasses().with_class("round").classes
    write_classes(open_node(path), ClassChanges("nuclei", classes, half))
    return path


def measured(step: str, action: Callable[[], Any], is_done: Callable[[], bool]) -> None:
    """Do something, wait until it is done, and print how the window answered."""
    from qtpy.QtWidgets import QApplication

    app = QApplication.instance()
    assert app is not None
    with beating() as heartbeat:
        start, begun = time.perf_counter(), time.thread_time()
        action()
        first, used = time.perf_counter() - start, [time.thread_time() - begun]
        while not is_done() and time.perf_counter() - start < LONGEST:
            begun = time.thread_time()
            app.processEvents()
            used.append(time.thread_time() - begun)
        whole = time.perf_counter() - start
    longest = max([1000 * first, *(gap for gap, _ in heartbeat.gaps)])
    numbers = longest, 1000 * max(used), 1000 * whole
    sys.stdout.write("{:<40}{:>8.0f}{:>8.0f}{:>8.0f}\n".format(step, *numbers))
    sys.stdout.flush()


def list_ours(path: Path) -> Any:
    """Measure the list of objects; return its rows."""
    import napari

    from napari_ngff.plugin import use_workers

    use_workers()
    viewer = napari.Viewer(show_welcome_screen=False)
    viewer.open(str(path), plugin="napari-ngff")
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active = layer
    table, panel = dock.objects.table, dock.objects.classes
    objects = table.objects

    def count() -> int:
        return 0 if objects.frame is None else len(objects.frame)

    def color(title: str) -> None:
        table.color.setCurrentText(title)
        table.color.activated.emit(table.color.currentIndex())

    classes = partial(find_classes, objects._annotations, layer)
    measured("classes read", lambda: None, lambda: classes() is not None)
    measured("all listed", lambda: dock.setKind("objects"), lambda: count() > 0)
    whole = count()
    title = f"area of {whole:,} objects coloured"
    measured(title, lambda: color("area"), lambda: objects.colors.coloring is not None)
    measured(
        "filtered",
        lambda: table.filter.setText("centroid_x > 1000"),
        lambda: count() < whole,
    )
    measured("all again", table.filter.clear, lambda: count() == whole)
    header = table.view.horizontalHeader()
    first = objects.frame
    measured(
        "sorted",
        lambda: header.setSortIndicator(2, header.sortIndicatorOrder()),
        lambda: objects.frame is not first,
    )
    layer.selected_label = whole
    measured_colors = partial(_measure_colors, objects)
    measured_colors("coloured by class", lambda: color("class"))
    measured_colors("one more classified", lambda: panel.classify("round"))
    measured_colors("the next one classified", lambda: panel.classify("round"))
    measured_colors("undone", panel.buttons["Undo class"].click)
    measured("saved", classes().save, lambda: not classes().unsaved)
    panel.select_class("round")
    rename = partial(panel.change_class, "round", name="ball")
    measured_colors("class of half a million renamed", rename)
    measured("saved", classes().save, lambda: not classes().unsaved)
    measured_colors("class of half a million removed", panel.buttons["Remove"].click)
    measured_colors("that undone", panel.buttons["Undo class"].click)
    measured("saved", classes().save, lambda: not classes().unsaved)
    frame = objects.listed.frame
    viewer.close()
    return frame


def _measure_colors(objects: Any, step: str, action: Callable[[], Any]) -> None:
    before = objects.colors.coloring
    measured(step, action, lambda: objects.colors.coloring is not before)


def list_theirs(frame: Any) -> None:
    """Measure napari's table of features with the same rows."""
    import napari
    from napari_builtins._qt.features_table import FeaturesTable

    viewer = napari.Viewer(show_welcome_screen=False)
    count = SIDE // STEP
    layer = viewer.add_labels(np.zeros((count, count), "u4"))
    layer.features = frame.rename(columns={"label": "index"})
    viewer.layers.selection.clear()
    widget: list[Any] = []

    def show() -> None:
        widget.append(FeaturesTable(viewer))
        viewer.window.add_dock_widget(widget[0])
        viewer.layers.selection.active = layer

    measured("napari: features shown", show, lambda: True)
    view = widget[0].table
    measured(
        "napari: sorted",
        lambda: view.sortByColumn(3, view.horizontalHeader().sortIndicatorOrder()),
        lambda: True,
    )


def main() -> None:
    """Measure both."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    sys.stdout.write(f"{'':<40}{'stall':>8}{'main':>8}{'whole':>8}\n")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder)
        path = data / "million.ome.zarr"
        list_theirs(list_ours(path if path.exists() else write_labels(data)))


if __name__ == "__main__":
    main()
