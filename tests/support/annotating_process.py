"""A process that draws and classifies in fields of a plate, to be killed at any moment.

    echo '{"path": ..., "home": ..., "seed": 1}' | python annotating_process.py

It reports each edit before and after it: what is reported as kept is in a file or in a
journal.
"""

from __future__ import annotations

import os
import random
import time

from napari_ngff.viewer.annotations.object_class_annotation import begin_classes
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.window import RESTORE, Window
from napari_ngff.viewer.session import session_of
from painting_process import open_layers
from recovering import User
from victim import serve

FIELDS = ("A/1", "0"), ("A/2", "0"), ("A/2", "1")
"""Wells, and fields in them."""

KINDS = ("points", "shapes", "classes")

NAMES = ("round", "long", "dividing")
"""Of classes of objects."""

EDITS = 60


def tell(word: str, *said: object) -> None:
    os.write(1, (" ".join(map(str, (word, *said))) + "\n").encode())


def image_in(viewer):
    return next(x for x in viewer.layers if x._type_string == "image")


def labels_in(viewer):
    return next(x for x in viewer.layers if x._type_string == "labels")


def add_drawing(viewer, kind: str, number: int) -> None:
    """Draw one point or line; its place says which edit it is."""
    if kind not in viewer.layers:
        add = viewer.add_points if kind == "points" else viewer.add_shapes
        image = image_in(viewer)
        add(name=kind, ndim=image.ndim, scale=image.scale, translate=image.translate)
    layer, place = viewer.layers[kind], [0.0] * (viewer.dims.ndim - 1)
    if kind == "points":
        layer.add([[*place, float(number)]])
    else:
        layer.add_lines([[*place, float(number)], [*place, number + 200.0]])


def edit(viewer, kind: str, number: int) -> None:
    """Make an edit: each has its number, in its place or as the label of an object."""
    if kind == "classes":
        made = begin_classes(session_of(viewer).annotations, labels_in(viewer))
        for name in NAMES:
            if name not in made.classes.names:
                made.add_class(name)
        made.classify(number, NAMES[number % len(NAMES)])
    else:
        add_drawing(viewer, kind, number)


def run(job: dict) -> None:
    os.environ["XDG_DATA_HOME"] = job["home"]
    Window.current = User()
    Window.current.answer = RESTORE
    rng = random.Random(job["seed"])
    settings.saves_when_moving_on = lambda: rng.random() < 0.5
    viewer = open_layers(job["path"])
    session = session_of(viewer)
    tell("ready", os.getpid())
    for number in range(1, EDITS + 1):
        if number == 1 or rng.random() < 0.3:
            field = rng.choice(FIELDS)
            session.browser.show_field(*field)
        kind = rng.choice(KINDS)
        tell("begun", "/".join(field), kind, number)
        edit(viewer, kind, number)
        tell("kept", "/".join(field), kind, number)
        if rng.random() < 0.2:
            for annotation in session.annotations.list_savable():
                annotation.save()
        time.sleep(rng.random() * 0.01)
    time.sleep(600)


if __name__ == "__main__":
    serve(run)
