"""Points on images: a CSV beside each, journaled, restored after a kill."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import points_process
from napari_ngff import convert
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.annotations.file_journal import find_kept_files
from napari_ngff.viewer.annotations.object_class_annotation import begin_classes
from napari_ngff.viewer.samples import write_image, write_stack
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.window import DISCARD, RESTORE, Window
from napari_ngff.viewer.session import session_of
from plates import write_plate
from recovering import BusyUser, idle, opened


@pytest.fixture
def path(tmp_path):
    write_image(tmp_path / "in" / "cells.ome.zarr", shape=(64, 80))
    return tmp_path / "in" / "cells.ome.zarr"


PLACES = [[3.0, 4.0], [10.5, 20.25], [0.0, 60.0]]


def draw(viewer, name="spots", places=PLACES, **how):
    image = next(x for x in viewer.layers if x._type_string == "image")
    return viewer.add_points(places, name=name, scale=image.scale, **how)


def unsaved_of(viewer):
    return session_of(viewer).annotations.list_savable()


def world(layer):
    return np.array([layer.data_to_world(point) for point in layer.data])


def save(viewer):
    for annotation in unsaved_of(viewer):
        annotation.save()
        assert not annotation.running


def close(viewer):
    viewer.layers.clear()


@pytest.mark.parametrize("place", ["folder", "archive", "field", "read-only"])
def test_points_are_saved_beside_and_come_with_their_image(
    user, path, tmp_path, monkeypatch, place
):
    where, beside = path, path.parent / "cells.points/spots.csv"
    if place == "archive":
        where = path.parent / "cells.ozx"
        pack_hierarchy(path, where)
        beside = path.parent / "cells.ozx.points/spots.csv"
    elif place == "field":
        plate = path.parent / "p.ome.zarr"
        write_plate(plate, grid=(1, 2), fields=1, shape=(1, 64, 80))
        where, beside = plate / "A/2/0", path.parent / "p.points/A/2/0/spots.csv"
    elif place == "read-only":
        home = str(path.parent)
        monkeypatch.setattr(
            os, "access", lambda at, mode: mode != os.W_OK or home not in str(at)
        )
    viewer = opened(where, monkeypatch)
    before = sorted(map(str, where.parent.rglob("*")))
    layer = draw(viewer, features={"kind": ["a", "b, c", "d"], "size": [1, 2, 3]})
    drawn = world(layer)
    assert [x.name for x in unsaved_of(viewer)] == ["spots"]
    save(viewer)
    assert unsaved_of(viewer) == []
    if place == "read-only":
        (beside,) = data_folder().glob("annotations/cells-*/spots.csv")
        assert sorted(map(str, where.parent.rglob("*"))) == before
    table = pd.read_csv(beside)
    assert table.columns[0] == "index"
    assert [*table.columns][-2:] == ["kind", "size"]
    assert "x (micrometer)" in table.columns or place == "field"
    close(viewer)
    viewer = opened(where, monkeypatch)
    again = viewer.layers["spots"]
    np.testing.assert_allclose(world(again), drawn)
    assert again.features["kind"].tolist() == ["a", "b, c", "d"]
    assert unsaved_of(viewer) == []
    close(viewer)
    assert find_kept_files([str(path)], []) == []


def test_points_that_come_again_leave_the_sliders_and_their_name(
    user, tmp_path, monkeypatch
):
    """A name may have characters that no file can have."""
    path = write_stack(tmp_path / "a.ome.zarr", shape=(4, 32, 32))
    viewer = opened(path, monkeypatch)
    steps, image = viewer.dims.nsteps, viewer.layers[0]
    name = f"{image.name}: 50% - Points"
    place = image.data_to_world((2,) + (5,) * (image.ndim - 1))
    layer = draw(
        viewer, name, [[*image.world_to_data(place)]], translate=image.translate
    )
    drawn = world(layer)
    save(viewer)
    close(viewer)
    viewer = opened(path, monkeypatch)
    again = viewer.layers[name]
    assert viewer.dims.nsteps == steps
    np.testing.assert_allclose(world(again), drawn)
    np.testing.assert_allclose(again.scale, viewer.layers[0].scale)
    again.add(viewer.layers[0].world_to_data(place))
    save(viewer)
    assert unsaved_of(viewer) == []
    assert not any(text.startswith("Not saved") for text in user.told)
    (file,) = (tmp_path / "a.points").iterdir()
    assert len(pd.read_csv(file)) == 2
    assert not set(':*?"<>|') & set(file.name)
    result = convert(path, tmp_path / "b.ome.zarr")
    assert any("a.points" in note for note in result.notes)


def test_properties_are_the_same_after_the_next_save(user, path, monkeypatch):
    words = {
        "plate": ["01", "02", "1"],
        "gene": ["NA", "None", "TP53"],
        "grade": ["1", "2", "3"],
        "score": [0.1, 1 / 3, np.nan],
        "note": ["", "a, b", "yes"],
    }
    viewer = opened(path, monkeypatch)
    draw(viewer, features=words)
    save(viewer)
    file = path.parent / "cells.points/spots.csv"
    before = file.read_text()
    close(viewer)
    viewer = opened(path, monkeypatch)
    layer = viewer.layers["spots"]
    assert [*layer.features["plate"]] == words["plate"]
    assert layer.features["score"].dtype.kind == "f"
    layer.add(PLACES[0])
    save(viewer)
    assert file.read_text().startswith(before)


def test_what_another_program_changed_is_not_overwritten(user, path, monkeypatch):
    viewer = opened(path, monkeypatch)
    layer, file = draw(viewer), path.parent / "cells.points/spots.csv"
    save(viewer)
    theirs = file.read_text().replace("3.0", "5.0")
    file.write_text(theirs)
    layer.add([[1.0, 1.0]])
    save(viewer)
    assert "Another window or program has changed" in user.told[-1]
    assert file.read_text() == theirs
    assert len(unsaved_of(viewer)) == 1
    layer.name = "mine"
    save(viewer)
    assert unsaved_of(viewer) == []
    assert file.read_text() == theirs
    assert len(pd.read_csv(file.with_name("mine.csv"))) == 4
    # A name that is taken is no less of others.
    other = draw(viewer, "other")
    other.name = "spots"
    save(viewer)
    assert file.read_text() == theirs
    for annotation in unsaved_of(viewer):
        annotation.leave(keep=False)


def test_points_that_are_moved_with_their_layer_are_saved_there(
    user, path, monkeypatch
):
    viewer = opened(path, monkeypatch)
    draw(viewer)
    save(viewer)
    viewer = opened(path, monkeypatch)
    layer = viewer.layers["spots"]
    assert unsaved_of(viewer) == []
    layer.affine = [[0, 1, 5], [-1, 0, 9], [0, 0, 1]]
    layer.translate = layer.translate + 3
    save(viewer)
    again = opened(path, monkeypatch).layers["spots"]
    np.testing.assert_allclose(world(again), world(layer))


def test_points_of_a_layer_that_is_removed_at_once_are_kept(user, path, monkeypatch):
    waiting = []
    viewer = opened(path, monkeypatch)
    monkeypatch.setattr(
        type(Window.current), "run_after", lambda self, _, work: waiting.append(work)
    )
    layer = draw(viewer)
    layer.add([7.0, 8.0])
    viewer.layers.remove(layer)
    viewer.layers.selection.active = viewer.layers[0]
    del layer
    gc.collect()
    for work in waiting:
        work()
    (kept,) = find_kept_files([str(path)], [])
    assert kept.content.count == 4


def test_points_of_files_are_shown_beside_those_drawn_while_they_are_read(
    user, path, monkeypatch
):
    viewer = opened(path, monkeypatch)
    draw(viewer, "first")
    save(viewer)
    viewer.layers.clear()
    monkeypatch.setattr(Window, "current", BusyUser())
    monkeypatch.setattr("recovering.idle", lambda: None)
    viewer = opened(path, monkeypatch)
    draw(viewer, "second", PLACES[:1])
    idle()
    assert len(viewer.layers["first"].data) == len(PLACES)
    assert [x.name for x in unsaved_of(viewer)] == ["second"]


def test_nothing_is_written_where_the_image_was_moved_away(user, path, monkeypatch):
    """Nobody would look there; it is saved when the image is back."""
    viewer = opened(path, monkeypatch)
    draw(viewer)
    viewer.add_shapes([[(1, 1), (5, 9)]], shape_type="line", name="lines")
    labels = next(x for x in viewer.layers if x._type_string == "labels")
    made = begin_classes(session_of(viewer).annotations, labels)
    made.add_class("round")
    made.classify(3, "round")
    elsewhere = path.rename(path.parent / "moved.ome.zarr")
    before = sorted(path.parent.rglob("*"))
    save(viewer)
    assert len(unsaved_of(viewer)) == 3
    assert sorted(path.parent.rglob("*")) == before
    assert any("is not there any more" in text for text in user.told)
    elsewhere.rename(path)
    save(viewer)
    assert unsaved_of(viewer) == []
    assert (path.parent / "cells.points/spots.csv").exists()


def test_a_renamed_layer_moves_its_file_and_an_empty_one_has_none(
    user, path, monkeypatch
):
    viewer = opened(path, monkeypatch)
    layer, folder = draw(viewer), path.parent / "cells.points"
    save(viewer)
    layer.name = "seeds"
    save(viewer)
    assert [x.name for x in folder.iterdir()] == ["seeds.csv"]
    layer.selected_data = set(range(3))
    layer.remove_selected()
    save(viewer)
    assert [*folder.iterdir()] == []
    assert unsaved_of(viewer) == []
    layer.name = "CON"
    layer.add([[1.0, 1.0]])
    save(viewer)
    assert "Rename the layer" in user.told[-1]
    assert len(unsaved_of(viewer)) == 1
    layer.name = "Cells: DNA/2 - Points"
    save(viewer)
    assert [x.name for x in folder.iterdir()] == ["Cells%3A DNA%2F2 - Points.csv"]


# `test_killed_annotations.py` kills what draws shapes as well.
@pytest.mark.default_cases("restore-points")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [(RESTORE, "points"), (RESTORE, "shapes"), (DISCARD, "points")],
)
def test_points_of_a_killed_process_are_offered(
    user, path, tmp_path, monkeypatch, answer, kind
):
    job = {"path": str(path), "home": str(tmp_path / "data"), "count": 5, "kind": kind}
    process = subprocess.Popen(
        [sys.executable, points_process.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()
        word, pid = process.stdout.readline().split()
        assert word == b"ready"
        for _ in range(job["count"]):
            assert process.stdout.readline().startswith(b"kept")
        os.kill(int(pid), signal.SIGKILL)
        process.stdin.close()
        process.stdout.read()
    user.answer = answer
    viewer = opened(path, monkeypatch)
    ((text,),) = user.take_asked()
    assert text.startswith(f"5 {kind} of 'spots' (cells.ome.zarr, today ")
    if answer == DISCARD:
        assert "spots" not in viewer.layers
    else:
        layer = viewer.layers["spots"]
        expected = [[float(number), 2.0 * number] for number in range(5)]
        found = [np.reshape(each, (-1, 2))[0] for each in layer.data]
        found = [layer.data_to_world(place) for place in found]
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert layer.features["kind"].tolist() == [f"k{i}" for i in range(5)]
        assert [x.name for x in unsaved_of(viewer)] == ["spots"]
        save(viewer)
        (file,) = (path.parent / f"cells.{kind}").iterdir()
        assert file.stem == "spots"
        assert len(file.read_text().splitlines()) == {"points": 6, "shapes": 7}[kind]
    close(viewer)
    opened(path, monkeypatch)
    assert user.take_asked() == []


@pytest.mark.parametrize("kind", ["points", "shapes"])
def test_points_go_and_come_with_their_field(user, tmp_path, monkeypatch, kind):
    def put(count):
        if kind == "points":
            return draw(viewer, places=PLACES[:count])
        lines = [[place, (9.0, 9.0)] for place in PLACES[:count]]
        return viewer.add_shapes(lines, shape_type="line", name="spots")

    plate = tmp_path / "p.ome.zarr"
    write_plate(plate, grid=(1, 2), fields=1, shape=(1, 64, 80))
    viewer = opened(plate, monkeypatch)
    browser = session_of(viewer).browser
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: True)
    browser.show_field("A/1", "0")
    put(3)
    browser.show_field("A/2", "0")
    assert "spots" not in viewer.layers
    (file,) = (tmp_path / f"p.{kind}/A/1/0").iterdir()
    assert file.stem == "spots"
    put(1)
    browser.show_field("A/1", "0")
    assert len(viewer.layers["spots"].data) == 3
    browser.show_field("A/2", "0")
    assert len(viewer.layers["spots"].data) == 1
    assert unsaved_of(viewer) == []
