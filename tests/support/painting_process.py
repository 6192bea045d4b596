"""A process that paints in layers of napari, to be killed at any moment.

    echo '{"path": ..., "scenario": "new", "seed": 1}' | python painting_process.py

The journal is written by its own thread; now and then it is made to, and
that is reported.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from napari.components import ViewerModel

from napari_ngff.plugin import get_reader
from napari_ngff.viewer import reader as reader_module
from napari_ngff.viewer import session
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.services.window import Window
from victim import serve

NAMES = {"new": "mitosis", "saved": "nuclei", "field": "mitosis", "saving": "nuclei"}
"""Labels that each scenario paints on; in the last it saves, too."""

FIELD = "A/2", "1"
"""Well and field of a plate."""

EDITS = 400


def put_stroke(layer, number: int, seed: int) -> None:
    """Paint an edit; some draw over others only, and would show a second time."""
    rng = random.Random(1000 * seed + number)
    shape = layer.canvas.shape
    layer.brush_size = rng.randint(3, 12)
    layer.only_over = rng.choice([None, None, 0, 1, 2])
    at = [rng.randrange(n) for n in shape[-2:]]
    layer.paint((0,) * (layer.ndim - 2) + tuple(at), rng.randint(1, 4))
    if number % 7 == 6:
        layer.replace_label(rng.randint(1, 4), rng.randint(1, 4))


def open_layers(path: Path | str) -> ViewerModel:
    """Open a path in a new viewer."""
    viewer = ViewerModel()
    reader_module.current_viewer = lambda: viewer
    for one in get_reader(str(path))(str(path)):
        viewer.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    return viewer


def open_labels(path: Path, scenario: str):
    """Open an image, and return the layer to paint on."""
    viewer = open_layers(path)
    if scenario == "field":
        session.session_of(viewer).browser.show_field(*FIELD)
    name = NAMES[scenario]
    if name not in viewer.layers:
        image = next(x for x in viewer.layers if x._type_string == "image")
        viewer.add_layer(new_labels(image, name))
    return viewer, viewer.layers[name]


def run(job: dict) -> None:
    os.environ["XDG_DATA_HOME"] = job["home"]
    Window.current = Window()
    viewer, layer = open_labels(Path(job["path"]), job["scenario"])
    os.write(1, f"ready {os.getpid()}\n".encode())
    rng = random.Random(job["seed"])
    for number in range(EDITS):
        put_stroke(layer, number, job["seed"])
        if number % 10 == 0:
            layer.saver.journal.sync()
            os.write(1, f"kept {len(layer.canvas.edits)}\n".encode())
        if job["scenario"] == "saving" and number % 5 == 4:
            layer.saver.save_now()
        time.sleep(rng.random() * 0.02)
    time.sleep(600)
    viewer.layers.clear()


if __name__ == "__main__":
    serve(run)
