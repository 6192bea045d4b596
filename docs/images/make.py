#!/usr/bin/env python3
"""Draw the pictures of the documentation: python docs/images/make.py [NAME...].

All of them show generated samples in a window of fixed size; where there is no DISPLAY
an X server without a screen (Xvfb) is started. The films are made by `films`.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
SIZE = (1120, 720)
COLORS = (256, 128, 96, 64)
LIMIT = 300_000
STEP_WIDTH = 900
"""Pixels, of the pictures of a walk-through."""
TUTORIAL_LIMIT = 80_000
"""Bytes, of each of the many pictures of tutorials."""


@contextmanager
def display() -> Iterator[None]:
    """Give napari a screen, and settings of its own."""
    server = None
    if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
        out, into = os.pipe()
        command = ["Xvfb", "-displayfd", str(into), "-screen", "0", "1600x1000x24"]
        server = subprocess.Popen(command, pass_fds=[into], stderr=subprocess.DEVNULL)
        os.close(into)
        with open(out) as number:
            os.environ["DISPLAY"] = f":{number.readline().strip()}"
        os.environ["QT_QPA_PLATFORM"] = "xcb"
    try:
        yield
    finally:
        if server is not None:
            server.terminate()
            server.wait()


def wait(seconds: float) -> None:
    """Let the window work."""
    from qtpy.QtWidgets import QApplication

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.01)


def open_window() -> Any:
    """Open an empty window."""
    import napari

    viewer = napari.Viewer(show=True)
    viewer.window.resize(*SIZE)
    wait(0.5)
    return viewer


def open_sample(path: Path) -> Any:
    """Open a window with a sample."""
    viewer = open_window()
    viewer.open(str(path), plugin="napari-ngff")
    viewer.canvas.overlays.scale_bar.visible = True
    wait(0.5)
    viewer.reset_view()
    return viewer


def save(viewer: Any, name: str, active: int | str = 0) -> None:
    """Write the window as a small PNG, with one layer selected, and close it."""
    from PIL import Image

    viewer.layers.selection.active = viewer.layers[active]
    wait(1)
    pixels = viewer.screenshot(canvas_only=False, flash=False)
    viewer.close()
    wait(0.2)
    write(Image.fromarray(pixels[..., :3]), name)


def write(picture: Any, name: str, limit: int = LIMIT) -> None:
    """Write a picture as a PNG of few colours, of about so many bytes at most."""
    from PIL import Image

    path = HERE / f"{name}.png"
    for colors in COLORS:
        # This method keeps the colours of small things, as of classes.
        method, dither = Image.Quantize.FASTOCTREE, Image.Dither.NONE
        picture.quantize(colors, method, dither=dither).save(path, optimize=True)
        size = path.stat().st_size
        if size <= limit:
            break
    print(f"{path.name}: {picture.size}, {colors} colours, {size // 1000} kB")


def plate(folder: Path) -> None:
    """Draw a plate with the labels of its nuclei."""
    from napari_ngff.viewer.samples import write_plate

    viewer = open_sample(write_plate(folder / "plate.ome.zarr", fields=4))
    viewer.layers["nuclei"].opacity = 0.4
    save(viewer, "plate")


def image(folder: Path) -> None:
    """Draw three channels without labels."""
    from napari_ngff.viewer.samples import write_image

    viewer = open_sample(write_image(folder / "cells.ome.zarr"))
    for layer in viewer.layers[3:]:
        layer.visible = False
    save(viewer, "image")


def labels(folder: Path) -> None:
    """Draw labels over the image, at full resolution."""
    from napari_ngff.viewer.samples import write_image

    viewer = open_sample(write_image(folder / "cells.ome.zarr"))
    viewer.layers["nuclei"].visible = False
    viewer.layers["cells"].visible = True
    viewer.scene.camera.zoom *= 2
    save(viewer, "labels")


def paint(folder: Path) -> None:
    """Draw new labels that are being painted, with the form they came from."""
    import numpy as np

    from napari_ngff.plugin import new_labels
    from napari_ngff.viewer.samples import write_image
    from napari_ngff.widgets.form_dialog import shown_form

    viewer = open_sample(write_image(folder / "cells.ome.zarr"))
    for layer in viewer.layers[3:]:
        layer.visible = False
    viewer.layers.selection.active = viewer.layers[0]
    new_labels(viewer)
    form = shown_form(viewer, "New labels")
    form.called.value = "territories"
    form.create_labels()
    layer = viewer.layers["territories"]
    layer.brush_size = 24
    height, width = layer.data.shape[-2:]
    for label, (y, x) in enumerate([(0.3, 0.3), (0.6, 0.45), (0.35, 0.65)], 1):
        layer.selected_label = label
        angles = np.linspace(0, 2 * np.pi, 60)
        radius = 90 + 18 * np.sin(4 * angles + label)
        way = [
            (0, y * height + r * np.sin(a), x * width + r * np.cos(a))
            for a, r in zip(angles, radius, strict=True)
        ]
        with layer.block_history():
            for start, stop in itertools.pairwise(way):
                layer._draw(label, start, stop)
        if label > 1:
            layer.paint_polygon(way, label)
    viewer.reset_view()
    save(viewer, "paint", "territories")


def sidecar(folder: Path) -> None:
    """Draw labels that are saved beside their image, with the form they came from."""
    import numpy as np
    from scipy import ndimage

    from napari_ngff.plugin import new_labels
    from napari_ngff.viewer.samples import write_image
    from napari_ngff.widgets.form_dialog import shown_form

    viewer = open_sample(write_image(folder / "cells.ome.zarr"))
    for layer in viewer.layers[3:]:
        layer.visible = False
    viewer.layers.selection.active = viewer.layers[0]
    new_labels(viewer)
    form = shown_form(viewer, "New labels")
    form.called.value = "mitoses"
    form.where.value = True
    form.create_labels()
    layer = viewer.layers["mitoses"]
    layer.brush_size = 36
    nuclei = viewer.layers["nuclei"]
    table, first = nuclei.features, np.asarray(nuclei.data[0][0])
    dividing = table["index"][table["class"] == "mitotic"]
    dividing = np.intersect1d(first, dividing)[:4]
    places = ndimage.center_of_mass(first > 0, first, dividing)
    for label, place in enumerate(places, 1):
        layer.paint((0, *place), label)
    layer.saver.save_now()
    viewer.reset_view()
    save(viewer, "sidecar", "mitoses")


def saving(folder: Path) -> None:
    """Draw labels that were painted on, with what is not saved of them."""
    from napari_ngff.viewer.samples import write_image

    viewer = open_sample(write_image(folder / "cells.ome.zarr"))
    for layer in viewer.layers[1:]:
        layer.visible = layer.name == "nuclei"
    labels = viewer.layers["nuclei"]
    labels.opacity = 0.8
    labels.mode, labels.selected_label, labels.brush_size = "paint", 77, 24
    height, width = labels.data.shape[-2:]
    for share in (0.3, 0.5, 0.7):
        ends = [(0, share * height, side * width) for side in (0.35, 0.65)]
        with labels.block_history():
            labels._draw(77, *ends)
    viewer.scene.camera.zoom *= 1.5
    save(viewer, "save", "nuclei")


def well(folder: Path) -> None:
    """Draw the fields of one well."""
    from napari_ngff.viewer.samples import write_plate

    path = write_plate(folder / "plate.ome.zarr", fields=4, wells=["C4"])
    viewer = open_sample(path / "C" / "4")
    viewer.layers["nuclei"].opacity = 0.4
    save(viewer, "well")


def scene(folder: Path) -> None:
    """Draw a scene of four tiles, one of which lay askew, two with their labels."""
    viewer = open_sample(write_scene(folder / "tiles.ome.zarr"))
    colors = ("gray", "green", "magenta", "yellow")
    for name, color in zip(TILES, colors, strict=True):
        viewer.layers[f"{name}: DNA"].colormap = color
    images = {f"{name}: DNA" for name in TILES}
    for layer in viewer.layers:
        layer.visible = layer.name in {*images, "nuclei", "nuclei [3]"}
        if layer.name.startswith("nuclei"):
            layer.contour = 2
    save(viewer, "scene", "turned: DNA")


TILES = {"first": (0, 0), "second": (0, 340), "third": (300, 0), "turned": (310, 370)}
"""Corner of each tile in pixels (y, x) of the whole."""


def write_scene(where: Path) -> Path:
    """Cut a picture into tiles of 300 by 340 pixels, which a scene puts together."""
    import numpy as np
    from scipy.ndimage import affine_transform

    from napari_ngff.viewer.samples import open_sink
    from napari_ngff.viewer.samples.drawing import CellPicture, Population, draw_cells

    shape, voxel, angle = (300, 340), 0.325, np.deg2rad(12)
    whole = draw_cells((700, 720), Population(), 1)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def turned(pixels: Any, corner: Any, order: int) -> Any:
        return affine_transform(pixels, turn, corner, shape, order=order)

    links = []
    with open_sink(where, "0.6", {}) as sink:
        for name, corner in TILES.items():
            matrix = np.eye(2)
            tile = whole.cut_part(corner, shape)
            if name == "turned":
                matrix = turn
                tile = CellPicture(
                    np.stack([turned(p, corner, 1) for p in whole.channels]),
                    turned(whole.cells, corner, 0),
                    turned(whole.nuclei, corner, 0),
                    whole.kinds,
                )
            one = CellPicture(tile.channels[:1], tile.cells, tile.nuclei, tile.kinds)
            place = {"y": (voxel, 0.0), "x": (voxel, 0.0)}
            sink.write_picture(name, one, place, name)
            rows = np.c_[np.zeros(2), matrix, voxel * np.array(corner)]
            rows = np.vstack([[1, 0, 0, 0], rows])
            links.append(
                {
                    "type": "affine",
                    "affine": rows.tolist(),
                    "input": {"path": name, "name": "intrinsic"},
                    "output": {"name": "slide"},
                }
            )
        space = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
        axes = [{"name": "c", "type": "channel"}, *space]
        content = {
            "coordinateSystems": [{"name": "slide", "axes": axes}],
            "coordinateTransformations": links,
        }
        sink.create_group("", {"ome": {"version": "0.6", "scene": content}})
    return where


def regions(folder: Path) -> None:
    """Draw the fields of view of an image as boxes, with the dock."""
    from napari_ngff.viewer.samples import write_image
    from napari_ngff.viewer.session import session_of

    path = write_image(folder / "cells.ome.zarr")
    for is_new in (True, False):
        viewer = open_sample(path)
        for layer in viewer.layers[3:]:
            layer.visible = False
        viewer.layers.selection.active = viewer.layers[0]
        steps = session_of(viewer).regions
        steps.choose("FOV_ROI_table", is_new=is_new)
        wait(0.5)
        drawn: Any = steps.drawn
        if is_new:
            height, width = viewer.layers[0].level_shapes[0][-2:]
            for y, x in itertools.product((0, 1), (0, 1)):
                ends = [(y, x), (y, x + 1), (y + 1, x + 1), (y + 1, x)]
                corners = [[b * height / 2, a * width / 2] for b, a in ends]
                drawn.layer.add_rectangles([corners])
            names = [f"FOV_{number}" for number in range(1, 5)]
            drawn.layer.features = {"name": names}
            drawn.save()
            while drawn.unsaved:
                wait(0.1)
            viewer.close()
    open_annotate(viewer)
    wait(1)
    viewer.reset_view()
    steps.step(1)
    viewer.scene.camera.zoom *= 0.8
    save(viewer, "regions")


def url_form(folder: Path) -> None:
    """Draw the dialog for an address."""
    from PIL import Image

    from napari_ngff.widgets.forms import show_open_url

    viewer = open_window()
    form = show_open_url(viewer)
    form.address.value = "https://example.org/spheroid.ome.zarr"
    wait(1)
    file = folder / "dialog.png"
    form.native.window().grab().save(str(file))
    viewer.close()
    wait(0.2)
    write(Image.open(file).convert("RGB"), "url-form")


def convert_form(folder: Path) -> None:
    """Draw the form that converts, with its options, for a plate."""
    from PIL import Image

    from napari_ngff.plugin import convert_files
    from napari_ngff.viewer.samples import write_plate
    from napari_ngff.widgets.converting.convert_form import TITLE
    from napari_ngff.widgets.form_dialog import shown_form

    viewer = open_sample(write_plate(folder / "plate.ome.zarr", "0.4", fields=2))
    convert_files(viewer)
    while shown_form(viewer, TITLE) is None:
        wait(0.1)
    form = shown_form(viewer, TITLE)
    form.more.expand(animate=False)
    form.lines["shards"].setText("auto")
    # Not the folder of this computer.
    form.source.setEditText("/data/plate.ome.zarr")
    form.start.setFocus()
    wait(0.5)
    file = folder / "dialog.png"
    form.window().grab().save(str(file))
    viewer.close()
    wait(0.2)
    write(Image.open(file).convert("RGB"), "convert-form")


def inspector(folder: Path) -> None:
    """Draw the inspector with what is wrong with labels, and the buttons to fix it."""
    import json

    from napari_ngff.viewer.samples import write_image
    from napari_ngff.widgets.inspector.inspector_dock import PROBLEMS, Inspector

    path = write_image(folder / "cells.ome.zarr")
    for file in (path / "labels" / "zarr.json", path / "zarr.json"):
        document = json.loads(file.read_text())
        home = document["attributes"]["ome"]
        if "labels" in home:
            home["labels"] = ["nuclei"]
        else:
            del home["version"]
        file.write_text(json.dumps(document))
    viewer = open_window()
    dock = Inspector(viewer)
    viewer.window.add_dock_widget(dock, name="Inspector", area="right")
    layers = viewer.open(str(path), plugin="napari-ngff")
    viewer.layers.selection.active = layers[0]
    dock.tabs.setCurrentIndex(PROBLEMS)
    while not dock.problems.rowCount():
        wait(0.1)
    wait(1)
    viewer.reset_view()
    save(viewer, "inspector")


def browser(folder: Path) -> None:
    """Draw the browser beside a field of the plate that it shows."""
    from napari_ngff.viewer.samples import write_plate
    from napari_ngff.widgets.browser.host import show_browser

    os.environ["XDG_CACHE_HOME"] = str(folder)
    path = write_plate(folder / "plate.ome.zarr", fields=4)
    viewer = open_sample(path)
    dock = show_browser(viewer)
    while len(dock.map.state.pictures) < 22:
        wait(0.1)
    dock.goToWell("C/4")
    wait(2)
    viewer.layers["nuclei"].opacity = 0.4
    viewer.reset_view()
    save(viewer, "browser")


def tables(folder: Path) -> None:
    """Draw a plate coloured by what was measured, in the light theme."""
    from napari_ngff.viewer.browsing.joined_tables import TableColumn
    from napari_ngff.viewer.browsing.table_offers import MeasureScope
    from napari_ngff.viewer.samples import write_plate
    from napari_ngff.widgets.browser.host import show_browser

    os.environ["XDG_CACHE_HOME"] = str(folder)
    viewer = open_sample(write_plate(folder / "plate.ome.zarr", fields=2))
    viewer.theme = "light"
    dock = show_browser(viewer)
    while len(dock.map.state.pictures) < 22 or not dock.browser().known_labels:
        wait(0.1)
    found = dock.tables.tables()
    found.measure_labels("nuclei", MeasureScope.ALL)
    while found.table is None:
        wait(0.1)
    found.color_by(TableColumn(found.joined.chosen, "area"), "mean")
    dock.goToWell("C/4")
    wait(2)
    dock.controls.filter.setText("A1:D5 and area > 20")
    while dock.progress.isVisible():
        wait(0.1)
    wait(1)
    viewer.reset_view()
    save(viewer, "tables", "nuclei")


def results(folder: Path) -> None:
    """Draw the wells of a plate as a table, compared with controls."""
    os.environ["XDG_CACHE_HOME"] = str(folder)
    from napari_ngff.viewer.browsing.table_offers import MeasureScope
    from napari_ngff.viewer.samples import write_plate
    from napari_ngff.widgets.browser.host import show_browser
    from napari_ngff.widgets.docking import RESULTS, show_dock

    viewer = open_sample(write_plate(folder / "plate.ome.zarr", fields=2))
    viewer.theme = "light"
    dock = show_browser(viewer)
    while len(dock.map.state.pictures) < 22 or not dock.browser().known_labels:
        wait(0.1)
    found = dock.tables.tables()
    drugs = {1: "dmso", 2: "taxol"}
    wells = [
        f"{well.name},{drugs.get(well.column, 'compound 7')},{10.0 ** (well.row - 2)}"
        for well in dock.browser().map.wells
    ]
    (folder / "conditions.csv").write_text("\n".join(["well,compound,dose", *wells]))
    found.load_file(str(folder / "conditions.csv"))
    while found.table is None:
        wait(0.1)
    found.measure_labels("nuclei", MeasureScope.ALL)
    while len(found.joined.tables) < 2:
        wait(0.1)
    shown = show_dock(viewer, RESULTS)
    while "Wells" not in shown.pages:
        wait(0.1)
    wait(2)
    page = shown.pages["Wells"]
    controls = ("compound", "dmso"), ("compound", "taxol")
    page.results.choose(controls=controls, keys=("compound", "dose"))
    wait(2)
    viewer.reset_view()
    save(viewer, "results")


def plot(folder: Path) -> None:
    """Draw dose-response curves of two compounds."""
    os.environ["XDG_CACHE_HOME"] = str(folder)
    from math import sin

    from napari_ngff.viewer.samples import write_plate
    from napari_ngff.widgets.browser.host import show_browser
    from napari_ngff.widgets.docking import RESULTS, show_dock

    viewer = open_sample(write_plate(folder / "plate.ome.zarr", fields=1))
    dock = show_browser(viewer)
    while len(dock.map.state.pictures) < 22:
        wait(0.1)
    rows = ["well,compound,dose,viability"]
    for number, well in enumerate(dock.browser().map.wells):
        at, dose = number % 2, 10 ** (number // 2 / 2 - 3)
        value = 100 - 80 * dose / (dose + (0.05, 0.8)[at]) + 3 * sin(7 * number)
        rows.append(f"{well.name},compound {'AB'[at]},{dose:.3g},{value:.1f}")
    (folder / "screen.csv").write_text("\n".join(rows))
    dock.tables.tables().load_file(str(folder / "screen.csv"))
    shown = show_dock(viewer, RESULTS)
    while "Wells" not in shown.pages:
        wait(0.1)
    titles = [shown.tabs.tabText(at) for at in range(shown.tabs.count())]
    shown.tabs.setCurrentIndex(titles.index("Plot"))
    while "Plot" not in shown.pages or shown.pages["Plot"].plot is None:
        wait(0.1)
    wait(1)
    viewer.reset_view()
    save(viewer, "plot")


def open_annotate(viewer: Any) -> Any:
    """Open the dock as the menu does."""
    from napari_ngff.widgets.docking import ANNOTATE, show_dock

    return show_dock(viewer, ANNOTATE)


def annotate(folder: Path) -> None:
    """Draw three classes in a field of a plate, with the dock beside it."""
    from napari_ngff.viewer.painting.new_labels import new_labels
    from napari_ngff.viewer.samples import write_plate
    from napari_ngff.viewer.session import session_of

    path = write_plate(folder / "plate.ome.zarr", grid=(2, 3), fields=3)
    viewer = open_window()
    dock = open_annotate(viewer)
    viewer.open(str(path), plugin="napari-ngff")
    browser = session_of(viewer).browser
    assert browser is not None
    browser.show_field("A/1", "0")
    while browser.position is None:
        wait(0.1)
    wait(1)
    for name in [name for name in viewer.window.dock_widgets if "browser" in name]:
        viewer.window.dock_widgets[name].parent().hide()
    for layer in viewer.layers[3:]:
        layer.visible = False
    labels = viewer.add_layer(new_labels(viewer.layers[0], "phenotypes"))
    viewer.layers.selection.active = labels
    for name in ("nucleus", "debris", "dividing"):
        dock.classes.classes.add_class(name)
    dock.round.startRound()
    while not dock.round.annotation.fields:
        wait(0.1)
    labels = dock.round.annotation.layer
    labels.mode, labels.brush_size = "paint", 22
    height, width = labels.data.shape[-2:]
    lead = (0,) * (labels.ndim - 2)
    for number in range(12):
        place = (
            (0.15 + 0.25 * (number // 4)) * height,
            (0.15 + number % 4 * 0.22) * width,
        )
        labels.paint((*lead, *place), number % 3 + 1)
    dock.classes.countPixels()
    wait(1)
    viewer.reset_view()
    save(viewer, "annotate", labels.name)


def object_classes(folder: Path) -> None:
    """Draw nuclei in the colours of their classes, with the page of objects."""
    from napari_ngff.viewer.annotations.object_class_annotation import begin_classes
    from napari_ngff.viewer.samples import write_image
    from napari_ngff.viewer.session import session_of

    viewer = open_sample(write_image(folder / "cells.ome.zarr"))
    dock = open_annotate(viewer)
    layer = viewer.layers["nuclei"]
    viewer.layers["cells"].visible = False
    layer.visible, layer.opacity = True, 0.8
    viewer.layers.selection.active = layer
    dock.setKind("objects")
    wait(1)
    panel, names = dock.objects.classes, ("round", "long", "dividing")
    classes = begin_classes(session_of(viewer).annotations, layer)
    for name in names:
        classes.add_class(name)
    table = dock.objects.table
    table.color.setCurrentText("class")
    table.color.activated.emit(table.color.currentIndex())
    for label in (*range(1, 160), 23):
        layer.selected_label = label
        if label % 6:
            panel.classify(names[label % 3])
    wait(1)
    viewer.reset_view()
    save(viewer, "object-classes", "nuclei")


def bridge(folder: Path) -> None:
    """Draw the form for other plugins, with labels that were found in a region."""
    from PIL import Image
    from scipy import ndimage

    from napari_ngff.viewer.samples import write_image
    from napari_ngff.widgets.annotate.bridge_form import show_bridge_form

    viewer = open_sample(write_image(folder / "cells.ome.zarr"))
    for layer in viewer.layers[1:]:
        layer.visible = layer.name == "cells"
    viewer.layers["cells"].opacity = 0.3
    viewer.layers.selection.active = viewer.layers["cells"]
    viewer.reset_view()
    viewer.scene.camera.zoom *= 2.5
    form = show_bridge_form(viewer)
    wait(0.5)
    form.extractRegion()
    while "new layer" not in form.status.text():
        wait(0.1)
    work = viewer.layers[-2]
    found = ndimage.label(work.data > work.data.mean() + work.data.std())[0]
    place = {"scale": work.scale, "translate": work.translate, "units": work.units}
    viewer.add_labels(found, name="found", **place)
    viewer.layers.selection.active = viewer.layers["cells"]
    wait(0.5)
    file, dialog = folder / "dialog.png", form.window()
    assert dialog is not None
    dialog.grab().save(str(file))
    viewer.close()
    wait(0.2)
    write(Image.open(file).convert("RGB"), "bridge")


def tutorials(folder: Path) -> None:
    """Draw the steps of all tutorials, by the tests that take them."""
    from PIL import Image

    tests = HERE.parents[1] / "tests/widgets/tutorials"
    command = [sys.executable, "-m", "pytest", "--long", "-q", "-p", "no:cacheprovider"]
    command += [f"--basetemp={folder / 'files'}", str(tests)]
    settings = os.environ | {"TUTORIAL_PICTURES": str(folder)}
    subprocess.run(command, env=settings, check=True, cwd=HERE.parents[1])
    shutil.rmtree(HERE / "tutorials", ignore_errors=True)
    (HERE / "tutorials").mkdir()
    for file in sorted(folder.glob("*.png")):
        picture = Image.open(file).convert("RGB")
        size = STEP_WIDTH, round(picture.height * STEP_WIDTH / picture.width)
        small = picture.resize(size, Image.Resampling.LANCZOS)
        write(small, f"tutorials/{file.stem}", TUTORIAL_LIMIT)


def classify(folder: Path) -> None:
    """Draw the page Classify, by the test that uses it."""
    draw_page(folder, "classify")


def gallery(folder: Path) -> None:
    """Draw the page Gallery, by the test that uses it."""
    draw_page(folder, "gallery")


def draw_page(folder: Path, name: str) -> None:
    """Draw a page of the dock of results."""
    from PIL import Image

    test = HERE.parents[1] / f"tests/widgets/results/test_{name}_page.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--basetemp={folder / 'files'}", str(test)]
    settings = os.environ | {f"{name.upper()}_PICTURE": str(folder)}
    subprocess.run(command, env=settings, check=True, cwd=HERE.parents[1])
    picture = Image.open(folder / f"{name}.png").convert("RGB")
    size = STEP_WIDTH, round(picture.height * STEP_WIDTH / picture.width)
    write(picture.resize(size, Image.Resampling.LANCZOS), name)


def films(folder: Path) -> None:
    """Record the films."""
    import films as recorded

    recorded.record(folder)


def volume(folder: Path) -> None:
    """Draw a part of a stack in 3D."""
    from napari_ngff.viewer.samples import write_stack
    from napari_ngff.widgets.annotate.region_form import show_volume_form

    viewer = open_sample(write_stack(folder / "spheroid.ome.zarr"))
    viewer.layers.selection.active = viewer.layers[0]
    for layer in viewer.layers[2:]:
        layer.visible = False
    viewer.scene.camera.zoom *= 1.6
    form = show_volume_form(viewer)
    wait(1)
    form.viewVolume()
    while viewer.dims.ndisplay == 2:
        wait(0.1)
    viewer.scene.camera.angles = (10, -25, 50)
    save(viewer, "volume", -2)


PICTURES: dict[str, Callable[[Path], None]] = {
    "plate": plate,
    "image": image,
    "labels": labels,
    "paint": paint,
    "sidecar": sidecar,
    "save": saving,
    "well": well,
    "scene": scene,
    "url-form": url_form,
    "convert-form": convert_form,
    "inspector": inspector,
    "browser": browser,
    "plot": plot,
    "results": results,
    "annotate": annotate,
    "object-classes": object_classes,
    "bridge": bridge,
    "classify": classify,
    "gallery": gallery,
    "volume": volume,
    "tutorials": tutorials,
    "films": films,
    "tables": tables,
    "regions": regions,
}


def main() -> None:
    """Draw the pictures that the command line names, or all."""
    unknown = sorted(set(sys.argv[1:]) - set(PICTURES))
    if unknown:
        sys.exit(f"no such picture: {', '.join(unknown)}; there are {list(PICTURES)}")
    folder = Path(tempfile.mkdtemp())
    os.environ["NAPARI_CONFIG"] = str(folder / "settings.yaml")
    try:
        with display():
            for name in sys.argv[1:] or PICTURES:
                (folder / name).mkdir()
                PICTURES[name](folder / name)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
