"""What a user sees who drops, opens and looks at OME-Zarr in napari's window."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tifffile
import yaml
import zarr
from napari._qt.dialogs.qt_reader_dialog import QtReaderDialog
from napari.layers import Image, Labels
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QEvent, QEventLoop, QThreadPool, QTimer

from mouse import drop_on_canvas, pump, until
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.samples import write_image, write_plate, write_stack
from napari_ngff.viewer.services.settings import PLUGIN, READER_PATTERNS
from napari_ngff.viewer.services.window import Window
from napari_ngff.widgets.installation import install_widgets
from patience import PATIENCE
from pointer import Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari.viewer import Viewer
    from qtpy.QtWidgets import QApplication


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small sample of each kind."""
    folder = tmp_path_factory.mktemp("samples")
    write_image(folder / "cells.ome.zarr", "0.4", shape=(2, 96, 128))
    write_image(folder / "cells.ozx", shape=(96, 128))
    write_stack(folder / "stack.ome.zarr", shape=(6, 64, 64))
    write_plate(folder / "plate.ome.zarr", grid=(2, 2), shape=(64, 64))
    return folder


def answer(monkeypatch: pytest.MonkeyPatch, reader: str) -> list[list[str]]:
    """Answer napari's question for the reader; gives the choices it had each time."""
    asked: list[list[str]] = []

    def choose(dialog: QtReaderDialog) -> tuple[str, bool]:
        asked.append([b.text() for b in dialog.reader_btn_group.buttons()])
        dialog.deleteLater()
        return reader, False

    monkeypatch.setattr(QtReaderDialog, "get_user_choices", choose)
    return asked


# -------- dropping --------


SHOWN = ["DNA", "Actin", "Mitochondria", "nuclei", "cells"]
PLACES = {
    "cells.ome.zarr": SHOWN,
    "cells.ozx": SHOWN,
    "cells.ome.zarr/.zattrs": SHOWN,
    "cells.ome.zarr/labels/nuclei": ["nuclei"],
    "cells.ome.zarr/labels": ["nuclei", "cells"],
    "stack.ome.zarr/zarr.json": ["DNA", "Membrane", "nuclei", "cells"],
    "plate.ome.zarr": SHOWN,
    "plate.ome.zarr/A": SHOWN,
    "plate.ome.zarr/A/2": SHOWN,
    "plate.ome.zarr/B/1/1": SHOWN,
    "plate.ome.zarr/B/1/1/labels/cells": ["cells"],
}


@pytest.mark.long
def test_dropped_places_become_their_layers(viewer: Viewer, folder: Path) -> None:
    for place, expected in PLACES.items():
        drop_on_canvas(viewer, folder / place)
        layers = list(viewer.layers)
        assert [la.name.split(": ")[-1] for la in layers] == expected, place
        for layer in layers:
            labels = layer.name in ("nuclei", "cells")
            assert isinstance(layer, Labels if labels else Image), place
            assert layer.source.reader_plugin == PLUGIN
            assert Path(layer.source.path) == folder / place
        assert len({tuple(layer.units) for layer in layers}) == 1, place
        viewer.layers.clear()


@pytest.mark.long
def test_plate_is_as_large_as_its_wells(viewer: Viewer, folder: Path) -> None:
    drop_on_canvas(viewer, folder / "plate.ome.zarr")
    height, width = viewer.layers[0].data[0].shape
    assert height >= 2 * 64
    assert width >= 2 * 64


@pytest.mark.long
def test_napari_asks_where_no_default_is_set(
    viewer: Viewer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari.settings import get_settings

    get_settings().plugins.extension2reader = {}
    asked = answer(monkeypatch, "OME-Zarr")
    drop_on_canvas(viewer, folder / "cells.ome.zarr")
    assert asked
    assert asked[0][0] == "OME-Zarr"  # what Enter takes
    assert len(viewer.layers) == 5


def plain_array(where: Path) -> None:
    zarr.create_array(where, data=np.eye(16, dtype="u1"), zarr_format=2)


def plain_group(where: Path) -> None:
    group = zarr.create_group(where, attributes={"note": "not of OME"})
    group.create_array("0", data=np.eye(16, dtype="u1"))


def tif_folder(where: Path) -> None:
    where.mkdir()
    for i in range(2):
        tifffile.imwrite(where / f"{i}.tif", np.eye(16, dtype="u1"))


@pytest.mark.default_cases("array.zarr-plain_array")
@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("array.zarr", plain_array),
        ("group.zarr", plain_group),
        ("tifs", tif_folder),
    ],
)
def test_foreign_data_goes_to_another_reader(
    viewer: Viewer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    write: Callable[[Path], None],
) -> None:
    write(tmp_path / name)
    answer(monkeypatch, "napari builtins")
    drop_on_canvas(viewer, tmp_path / name)
    assert viewer.layers[0].source.reader_plugin == "napari"
    assert viewer.layers[0].data.shape[-2:] == (16, 16)


@pytest.mark.long
def test_an_empty_folder_named_so_is_explained(viewer: Viewer, tmp_path: Path) -> None:
    where = tmp_path / "later.ome.zarr"
    where.mkdir()
    # A user has an event loop: else napari asks for another reader, in a dialog.
    loop = QEventLoop()
    QTimer.singleShot(0, lambda: drop_on_canvas(viewer, where))
    QTimer.singleShot(500, loop.quit)
    loop.exec()
    assert len(viewer.layers) == 0
    reported = [record.message for record in notification_manager.records]
    assert len(reported) == 1
    assert "There is no OME-Zarr metadata" in reported[0]


@pytest.mark.long
def test_several_paths_at_once(viewer: Viewer, folder: Path) -> None:
    drop_on_canvas(viewer, folder / "cells.ozx", folder / "stack.ome.zarr")
    assert len(viewer.layers) == 5 + 4


@pytest.mark.long
def test_stack_of_paths_is_opened_side_by_side(viewer: Viewer, folder: Path) -> None:
    paths = [str(folder / "cells.ome.zarr"), str(folder / "stack.ome.zarr")]
    viewer.open(paths, stack=True, plugin=PLUGIN)
    assert len(viewer.layers) == 5 + 4


def test_broken_metadata_is_explained(viewer: Viewer, tmp_path: Path) -> None:
    broken = tmp_path / "broken.ome.zarr"
    broken.mkdir()
    (broken / "zarr.json").write_text('{"zarr_format": 3, "node_type": ')
    with pytest.raises(Exception, match="not valid JSON"):
        viewer.open(str(broken), plugin=PLUGIN)
    assert not viewer.layers


# -------- looking --------


@pytest.fixture
def quarters(tmp_path: Path) -> Path:
    """Red at the upper left, green at the lower right, both at the upper right."""
    where = tmp_path / "quarters.ome.zarr"
    group = zarr.create_group(where, zarr_format=3)
    pixels = np.zeros((2, 128, 128), "u2")
    pixels[0, :64] = 1000
    pixels[1, :, 64:] = 1000
    for level in range(2):
        data = pixels[:, :: 2**level, :: 2**level]
        group.create_array(str(level), data=data, chunks=(1, 64, 64))
    axes = [{"name": "c", "type": "channel"}]
    axes += [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
    group.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [
            {
                "axes": axes,
                "datasets": [
                    {
                        "path": str(level),
                        "coordinateTransformations": [
                            {"type": "scale", "scale": [1, 2.0**level, 2.0**level]}
                        ],
                    }
                    for level in range(2)
                ],
            }
        ],
        "omero": {
            "channels": [
                {
                    "label": label,
                    "color": color,
                    "window": {"start": 0, "end": 1000, "min": 0, "max": 4000},
                }
                for label, color in (("a", "FF0000"), ("b", "00FF00"))
            ]
        },
    }
    return where


def test_colours_on_the_canvas(viewer: Viewer, quarters: Path) -> None:
    drop_on_canvas(viewer, quarters)

    def seen() -> list[tuple[int, ...]]:
        picture = viewer.screenshot(canvas_only=True, flash=False)
        y, x = (size // 2 for size in picture.shape[:2])
        d = min(y, x) // 3
        places = [(y - d, x - d), (y - d, x + d), (y + d, x - d), (y + d, x + d)]
        return [tuple(int(v) for v in picture[place][:3]) for place in places]

    red, yellow, black, green = (255, 0, 0), (255, 255, 0), (0, 0, 0), (0, 255, 0)
    until(lambda: seen() == [red, yellow, black, green])


def test_contrast_sliders_span_the_window_of_the_file(
    viewer: Viewer, quarters: Path
) -> None:
    drop_on_canvas(viewer, quarters)
    for layer in viewer.layers:
        assert layer.contrast_limits == [0, 1000]
        assert layer.contrast_limits_range == [0, 4000]


def test_contrast_that_the_file_lacks_arrives_from_a_worker(
    viewer: Viewer, quarters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_ngff.viewer import session

    document = json.loads((quarters / "zarr.json").read_text())
    del document["attributes"]["ome"]["omero"]
    (quarters / "zarr.json").write_text(json.dumps(document))
    estimate = session.measure_contrast
    threads = []

    def noted(data: Any) -> Any:
        threads.append(threading.current_thread())
        return estimate(data)

    monkeypatch.setattr(session, "measure_contrast", noted)
    drop_on_canvas(viewer, quarters)
    until(lambda: [la.contrast_limits for la in viewer.layers] == [[0, 1000]] * 2)
    assert threading.main_thread() not in threads


@pytest.mark.long
def test_sliders_start_where_rdefs_say(viewer: Viewer, folder: Path) -> None:
    drop_on_canvas(viewer, folder / "stack.ome.zarr")
    node = open_node(folder / "stack.ome.zarr")
    assert node.metadata.image.omero.default_z == 3
    assert viewer.dims.current_step[0] == 3


def test_layers_arrive_in_asynchronous_mode(
    viewer: Viewer, quarters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari.settings import get_settings

    monkeypatch.setattr(get_settings().experimental, "async_", True)
    drop_on_canvas(viewer, quarters)

    def centre() -> tuple[int, ...]:
        picture = viewer.screenshot(canvas_only=True, flash=False)
        y, x = (size // 2 for size in picture.shape[:2])
        return tuple(int(v) for v in picture[y - 40, x + 40][:3])

    until(lambda: centre() == (255, 255, 0))


def test_corrupt_chunk_is_reported_once_and_the_rest_is_shown(
    viewer: Viewer, tmp_path: Path
) -> None:
    where = write_image(tmp_path / "x.ome.zarr", shape=(4, 64, 64))
    broken = [where / level / "c/1/0/0/0" for level in "012"]
    for chunk in broken:
        chunk.write_bytes(b"no chunk")
    notification_manager.records.clear()
    drop_on_canvas(viewer, where)
    for t in (1, 2, 1, 3):
        viewer.dims.set_current_step(0, t)
        pump(50)
    reported = [record.message for record in notification_manager.records]
    assert len(reported) == 1
    assert f"{where}/" in reported[0]
    assert "cannot be read" in reported[0]
    assert viewer.layers[0]._slice.image.view.max() > 0
    viewer.dims.set_current_step(0, 1)
    assert viewer.layers[0]._slice.image.view.max() == 0
    assert viewer.layers[1]._slice.image.view.max() > 0
    viewer.add_image(np.eye(8))
    assert len(viewer.layers) == 6


# -------- how much is read --------


class Reads:
    """Keys of all objects that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[str] = []
        get = FolderStore.read

        def noted(source: FolderStore, key: str, *part: Any) -> Any:
            if part != (0, 1):  # a byte: only whether it is there
                self.keys.append(key)
            return get(source, key, *part)

        monkeypatch.setattr(FolderStore, "read", noted)

    def metadata(self) -> list[str]:
        return [key for key in self.keys if key.endswith(("zarr.json", ".zattrs"))]


@pytest.fixture
def million(tmp_path: Path) -> Path:
    """An image of 10^6 chunks, none of which was written."""
    where = tmp_path / "million.ome.zarr"
    group = zarr.create_group(where, zarr_format=3)
    for level, size in enumerate((16000, 8000, 4000, 2000)):
        group.create_array(
            str(level), shape=(4, 64, size, size), chunks=(1, 1, 256, 256), dtype="u2"
        )
    axes = [{"name": "c", "type": "channel"}]
    axes += [{"name": n, "type": "space"} for n in "zyx"]
    datasets = [
        {
            "path": str(level),
            "coordinateTransformations": [
                {"type": "scale", "scale": [1, 1, 2.0**level, 2.0**level]}
            ],
        }
        for level in range(4)
    ]
    multiscale = {"axes": axes, "datasets": datasets}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
    return where


@pytest.mark.long
def test_a_million_chunks_open_with_a_read_per_level(
    viewer: Viewer, million: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    drop_on_canvas(viewer, million)
    assert len(viewer.layers) == 4
    QThreadPool.globalInstance().waitForDone()
    levels = [f"{level}/zarr.json" for level in range(4)]
    # Labels and tables are looked for by workers.
    groups = "labels/", "tables/"
    rest = [key for key in reads.metadata() if not key.startswith(groups)]
    assert sorted(rest) == sorted(["zarr.json", *levels])
    reads.keys.clear()
    viewer.dims.set_current_step(0, 7)
    pump(50)
    assert reads.metadata() == []
    # The plane of the coarsest level of each channel, 8 x 8 chunks.
    assert len(set(reads.keys)) == 4 * 64
    assert len(reads.keys) < 3 * 4 * 64


# -------- menus, samples, the end --------


@pytest.mark.long
@pytest.mark.parametrize(("key", "count"), [("cells", 5), ("stack", 4), ("plate", 5)])
def test_samples_open_from_the_file_menu(
    viewer: Viewer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    count: int,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    viewer.open_sample(PLUGIN, key)
    assert len(viewer.layers) == count


def menu_texts(actions: Iterable[Any]) -> list[str]:
    found = []
    for action in actions:
        found.append(action.text())
        if action.menu():
            found += menu_texts(action.menu().actions())
    return found


def test_commands_stand_in_the_file_menu(viewer: Viewer) -> None:
    texts = menu_texts(viewer.window.file_menu.actions())
    assert "Open URL… (OME-Zarr)" in texts
    assert "Convert OME-Zarr… (OME-Zarr)" in texts
    assert "24-well plate" in texts


def test_closing_the_window_leaves_no_worker(
    make_napari_viewer: Callable, folder: Path
) -> None:
    before = set(threading.enumerate())
    viewer = make_napari_viewer(show=True)
    viewer.open(str(folder / "plate.ome.zarr"), plugin=PLUGIN)
    viewer.close()
    assert QThreadPool.globalInstance().waitForDone(1000 * PATIENCE)
    left = {t for t in threading.enumerate() if not t.daemon} - before
    assert left == set()


RUN = """
import sys
import napari
from napari import __main__ as program
from qtpy.QtCore import QTimer

start = napari.run

def run(**options):
    viewer = napari.current_viewer()
    print([layer.name for layer in viewer.layers])
    QTimer.singleShot(500, viewer.close)
    start(**options)

napari.run = run
sys.argv[0] = "napari"
program.main()
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("screen")
@pytest.mark.parametrize("asynchronous", ["0", "1"])
def test_napari_on_the_command_line(
    folder: Path, tmp_path: Path, asynchronous: str
) -> None:
    readers = dict.fromkeys(READER_PATTERNS, PLUGIN)
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"plugins": {"extension2reader": readers}}))
    result = subprocess.run(
        [sys.executable, "-c", RUN, str(folder / "cells.ome.zarr")],
        env={
            **os.environ,
            "NAPARI_CONFIG": str(settings),
            "NAPARI_ASYNC": asynchronous,
        },
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == str(
        [f"Cells: {name}" for name in SHOWN[:3]] + SHOWN[3:]
    )
    assert "Traceback" not in result.stderr


DRAG_SOURCE = """
import sys
from qtpy.QtCore import QEvent, QMimeData, Qt, QUrl
from qtpy.QtGui import QDrag
from qtpy.QtWidgets import QApplication, QLabel

class Source(QLabel):
    def paintEvent(self, event):
        super().paintEvent(event)
        print("ready", flush=True)

    def mouseMoveEvent(self, event):
        drag, data = QDrag(self), QMimeData()
        data.setUrls([QUrl.fromLocalFile(sys.argv[1])])
        drag.setMimeData(data)
        drag.exec(Qt.DropAction.CopyAction)

application = QApplication([])
source = Source("drag me", windowTitle="source")
source.setWindowFlag(Qt.WindowType.X11BypassWindowManagerHint)
source.setGeometry(1200, 40, 120, 60)
source.show()
application.exec()
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("xdotool") is None, reason="xdotool is not installed")
def test_folder_dragged_with_the_mouse(
    viewer: Viewer, folder: Path, qapp: QApplication
) -> None:
    listener = Listener(QEvent.Type.DragMove)

    def mouse(*command: object) -> None:
        subprocess.run(["xdotool", *map(str, command)], check=True)
        pump(100)

    viewer.window._qt_window.move(0, 0)
    dragged = str(folder / "cells.ome.zarr")
    command = [sys.executable, "-c", DRAG_SOURCE, dragged]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as source:
        try:
            assert source.stdout is not None
            assert source.stdout.readline() == "ready\n"
            pump(300)
            mouse("mousemove", 1250, 70)
            mouse("mousedown", 1)
            for x in (1240, 1220, 1180, 1000, 800):
                mouse("mousemove", x, 300)
            steps = itertools.cycle((620, 600))

            def over() -> bool:
                mouse("mousemove", next(steps), 300)
                return listener.reported

            qapp.installEventFilter(listener)
            until(over)
            qapp.removeEventFilter(listener)
            pump(300)  # the other program is answered
            mouse("mouseup", 1)
            until(lambda: len(viewer.layers) == 5)
        finally:
            source.terminate()
    assert {layer.source.path for layer in viewer.layers} == {dragged}


def test_a_window_without_ome_zarr_stays_napari_s(viewer: Viewer) -> None:
    install_widgets()
    image = viewer.add_image(np.zeros((8, 8)), name="of others")
    assert Window.current.can_ask(viewer)
    viewer.layers.selection = {image}
    viewer.layers.remove_selected()
    assert not viewer.layers
    for name in ("remove_selected", "save"):
        assert name not in vars(viewer.layers)
    assert "close" not in vars(viewer.window._qt_window)
