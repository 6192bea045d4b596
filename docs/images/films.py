#!/usr/bin/env python3
"""Record the films of the documentation: python docs/images/make.py films.

Each scene is a napari of its own, used by pointer and keys (tests/support/person.py).
A film is an animated WebP of the scenes, with a sentence below the window.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
SUPPORT = HERE.parents[1] / "tests/support"
SIZE = 1120, 700
WIDTH = 800
TEXT_HEIGHT = 34
LIMIT = 1_000_000
"""Bytes, of each film."""
LONGEST = 10_000
"""Milliseconds, of each film."""
SHORTEST_FRAME, LONGEST_FRAME = 40, 250
READING = 850
"""Milliseconds for which a new sentence stands still."""
POINTER = ((0, 0), (0, 17), (4, 13), (7, 19), (10, 18), (7, 12), (12, 12))


class Recorder:
    """Takes a picture of the screen all the time, with the pointer and a sentence."""

    def __init__(self, person: Any) -> None:
        from qtpy.QtCore import QTimer

        self.person, self.text = person, ""
        self.frames: list[tuple[bytes, tuple[int, int], str, int]] = []
        self._timer = QTimer()
        self._timer.timeout.connect(self.take)
        self._timer.start(90)

    def take(self, held: int = 0) -> None:
        """Take one picture, held for some milliseconds at least."""
        from qtpy.QtCore import QBuffer, QIODevice
        from qtpy.QtGui import QCursor, QGuiApplication

        if not self.text:
            return
        place = QCursor.pos()
        screen: Any = QGuiApplication.primaryScreen()
        data = QBuffer()
        data.open(QIODevice.OpenModeFlag.WriteOnly)
        screen.grabWindow(0, 0, 0, *SIZE).save(data, "BMP")
        frame = bytes(data.data().data()), (place.x(), place.y()), self.text
        if self.frames and not held and self.frames[-1][:3] == frame:
            return
        self.frames.append((*frame, held))

    def say(self, text: str) -> None:
        """Show a sentence, and stand still while it is read."""
        self.text = text
        self.person.look(lambda: self.take(READING))

    def write(self, folder: Path) -> None:
        """Write the pictures, and what belongs to them."""
        self.person.look(self._timer.stop)
        for number, frame in enumerate(self.frames):
            (folder / f"{number:04}.bmp").write_bytes(frame[0])
        notes = [frame[1:] for frame in self.frames]
        (folder / "notes.json").write_text(json.dumps(notes))


def tool(person: Any, layer: Any, mode: str) -> Any:
    """Find the button of a tool in the layer controls."""
    controls = person.viewer.window._qt_viewer.controls.widgets[layer]
    buttons = controls.findChildren(type(controls.panzoom_button))
    return next(b for b in buttons if getattr(b, "mode", None) == mode)


def place_in(layer: Any, y: float, x: float) -> Any:
    """World position of a share of a layer's height and width."""
    low, high = layer.extent.world[:, -2:]
    return low + (high - low) * (y, x)


def stroke(person: Any, layer: Any, ends: list[tuple[float, float]]) -> None:
    """Draw along places with the tool in use, in small steps."""
    places = []
    for start, stop in itertools.pairwise(ends):
        for step in range(6):
            share = step / 6
            y, x = (a + (b - a) * share for a, b in zip(start, stop, strict=True))
            places.append(place_in(layer, y, x))
    person.draw([*places, place_in(layer, *ends[-1])])


def open_cells(person: Any, folder: Path) -> None:
    """Open an image without its labels."""
    from napari_ngff.viewer.samples import write_image

    person.drop(write_image(folder / "cells.ome.zarr", shape=(384, 576)))
    nuclei = person.layer("nuclei")
    person.look(lambda: setattr(nuclei, "visible", False))
    person.rest(1)


def painting(person: Any, film: Recorder, folder: Path) -> None:
    """Paint new labels with a brush, the fill tool and a polygon."""
    open_cells(person, folder)
    film.say("Create labels: New labels… in the menu File")
    layer = person.make_labels("regions")
    film.say("Paint with all tools of napari")
    ring = [(0.2, 0.15), (0.2, 0.45), (0.7, 0.4), (0.7, 0.15), (0.2, 0.15)]
    stroke(person, layer, ring)
    person.click(lambda: tool(person, layer, "fill"))
    person.click_canvas(place_in(layer, 0.5, 0.3))
    person.rest(0.5)
    film.say("M takes an unused label")
    person.click(lambda: tool(person, layer, "polygon"))
    person.press("m")
    for place in ((0.2, 0.6), (0.25, 0.9), (0.8, 0.8), (0.6, 0.55)):
        person.click_canvas(place_in(layer, *place))
    person.press("Return")
    person.rest(0.5)
    film.say("Ctrl+Z takes back the last step")
    person.press("ctrl+z")
    person.rest(0.5)
    person.press("ctrl+shift+z")
    person.rest(0.5)
    film.say("Ctrl+S saves")
    person.save(layer)
    film.say("Saved at all levels")


def saving(person: Any, film: Recorder, folder: Path) -> None:
    """Save a stroke, paint another one, and end napari by force."""
    open_cells(person, folder)
    layer = person.make_labels("regions")
    person.look(lambda: setattr(layer, "brush_size", 30))
    film.say("Paint")
    stroke(person, layer, [(0.3, 0.2), (0.3, 0.8)])
    film.say("Ctrl+S writes only the chunks that have changed")
    person.save(layer)
    person.rest(0.5)
    film.say("Paint again, without saving")
    person.press("m")
    stroke(person, layer, [(0.7, 0.2), (0.6, 0.5), (0.7, 0.8)])
    person.rest(3)
    film.say("napari is ended by force")
    film.write(folder)
    os.kill(os.getpid(), signal.SIGKILL)


def recovery(person: Any, film: Recorder, folder: Path) -> None:
    """Open the file again, and restore what was not saved."""
    from qtpy.QtWidgets import QApplication

    film.say("Open the file again")
    person.drop(folder.with_name("saving") / "cells.ome.zarr")
    person.sees(QApplication.activeModalWidget)
    person.rest(0.5)
    film.say("Unsaved edits are offered")
    person.click_button("Restore")
    layer = person.layer("regions")
    person.sees(lambda: layer.unsaved)
    person.rest(1)
    film.say("They are restored")
    person.save(layer)
    person.rest(0.5)
    film.say("Saved")


def plate(person: Any, film: Recorder, folder: Path) -> None:
    """Go through wells and fields of a plate, and colour its map."""
    from napari_ngff.viewer.samples import write_plate
    from napari_ngff.viewer.session import session_of
    from napari_ngff.widgets.browser.host import browser_of

    rows = [f"{r}{c},{10 ** (c - 4)}" for r in "ABC" for c in range(1, 7)]
    table = folder / "conditions.csv"
    table.write_text("\n".join(["well,dose", *rows]))
    path = write_plate(folder / "plate.ome.zarr", grid=(3, 6), fields=4)
    film.say("Drop a plate on napari")
    person.drop(path)
    dock = person.sees(lambda: browser_of(person.viewer))
    person.sees(lambda: len(dock.map.state.pictures) > 12)
    person.rest(1)
    film.say("Click a well")

    def click_well(well: str) -> None:
        place = person.look(lambda: dock.map.rectOf(well).center())
        person.click(dock.map.viewport(), place)
        browser: Any = session_of(person.viewer).browser
        person.sees(lambda: browser.position and browser.position.well == well)
        person.sees(lambda: not dock.cancel.isVisible())
        person.rest(0.7)

    click_well("B/3")
    click_well("C/4")
    film.say(". and , go through the fields")
    for _ in range(3):
        person.press("period")
        person.sees(lambda: not dock.cancel.isVisible())
        person.rest(0.5)
    film.say("Plate shows all fields")
    person.click(lambda: dock.controls.buttons["Plate"])
    person.rest(0.3)
    person.sees(lambda: not dock.cancel.isVisible())
    person.rest(1)
    film.say("Drop a table to colour the map")
    person.drop(table)
    person.sees(lambda: dock.tables.column.currentText() == "dose")
    person.rest(1)
    film.say("The map is coloured by dose")


SCENES: dict[str, Callable[[Any, Recorder, Path], None]] = {
    "painting": painting,
    "saving": saving,
    "recovery": recovery,
    "plate": plate,
}
FILMS = {
    "painting": ["painting"],
    "recovery": ["saving", "recovery"],
    "plate": ["plate"],
}


def play(name: str, folder: Path) -> None:
    """Play one scene in a napari of this process."""
    import napari

    from napari_ngff.viewer.services.settings import make_default_reader
    from person import Person  # type: ignore[import-not-found]

    make_default_reader()
    viewer = napari.Viewer(show=True)
    person = Person(viewer, "film")
    film = Recorder(person)

    def scene(person: Any) -> None:
        SCENES[name](person, film, folder)
        film.write(folder)

    person.take(scene)
    viewer.close()


def frames_of(folder: Path) -> list[tuple[Any, int]]:
    """Pictures of a scene with their milliseconds."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(18)
    frames: list[tuple[Any, int]] = []
    notes = json.loads((folder / "notes.json").read_text())
    for number, (place, text, held) in enumerate(notes):
        picture = Image.open(folder / f"{number:04}.bmp").convert("RGB")
        draw = ImageDraw.Draw(picture)
        arrow = [(place[0] + x, place[1] + y) for x, y in POINTER]
        draw.polygon(arrow, fill="white", outline="black")
        height = round(picture.height * WIDTH / picture.width)
        frame = Image.new("RGB", (WIDTH, height + TEXT_HEIGHT), "black")
        frame.paste(picture.resize((WIDTH, height), Image.Resampling.LANCZOS))
        middle = WIDTH // 2, height + TEXT_HEIGHT // 2
        ImageDraw.Draw(frame).text(middle, text, "white", font, anchor="mm")
        frames.append((frame, held or LONGEST_FRAME))
    return frames


def write_film(frames: list[tuple[Any, int]], name: str) -> None:
    """Write a film within its limits of bytes and of time."""
    pictures, times = [list(part) for part in zip(*frames, strict=True)]
    moving = [number for number, time in enumerate(times) if time == LONGEST_FRAME]
    left = LONGEST - sum(times) + LONGEST_FRAME * len(moving)
    for number in moving:
        times[number] = min(LONGEST_FRAME, max(SHORTEST_FRAME, left // len(moving)))
    path = HERE / f"{name}.webp"
    for quality in (75, 60, 45, 30):
        data = io.BytesIO()
        options = {"duration": times, "loop": 0, "quality": quality, "method": 4}
        pictures[0].save(
            data, "WEBP", save_all=True, append_images=pictures[1:], **options
        )
        if data.tell() <= LIMIT:
            break
    path.write_bytes(data.getvalue())
    shown = f"{len(times)} frames, {sum(times) / 1000:.1f} s"
    print(f"{path.name}: {shown}, quality {quality}, {data.tell() // 1000} kB")


def record(folder: Path, names: list[str] | None = None) -> None:
    """Record films below a folder, all unless they are named."""
    paths = [str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    own = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TUTORIAL_SIZE": "x".join(map(str, SIZE)),
        "NAPARI_CONFIG": str(folder / "settings.yaml"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    for name in names or FILMS:
        frames = []
        for scene in FILMS[name]:
            (folder / scene).mkdir()
            command = [sys.executable, __file__, scene, str(folder / scene)]
            result = subprocess.run(command, env=os.environ | own, check=False)
            if result.returncode not in (0, -signal.SIGKILL):
                sys.exit(f"the scene {scene} failed")
            frames += frames_of(folder / scene)
        write_film(frames, name)


if __name__ == "__main__":
    play(sys.argv[1], Path(sys.argv[2]))
