"""What the form *Convert OME-Zarr* shows, without a window."""

from __future__ import annotations

import pytest
from napari.components import ViewerModel

import napari_ngff
from held_jobs import HeldJobs
from napari_ngff.testing import write_image, write_plate
from napari_ngff.viewer.converting.conversion_task import (
    KEPT,
    ConversionTask,
    conversion_task_of,
    propose_target,
    source_choices,
    unsaved_layers,
)
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from patience import until

SMALL = {"chunks": "y=16,x=16", "codec": "gzip:9"}


@pytest.fixture
def viewer() -> ViewerModel:
    return ViewerModel()


@pytest.fixture
def task() -> ConversionTask:
    return ConversionTask()


def finish(task: ConversionTask) -> None:
    until(lambda: task.job is None)


def test_a_free_name_beside_the_source_is_proposed(tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", shape=(16, 16))
    first = tmp_path / "cells-converted.ome.zarr"
    assert propose_target(str(source)) == str(first)
    first.mkdir()
    assert propose_target(str(source)).endswith("cells-converted-2.ome.zarr")
    # Never into the hierarchy that is converted.
    inner = propose_target(str(source / "labels" / "cells"))
    assert inner == str(tmp_path / "cells-converted-2.ome.zarr")
    assert "://" not in propose_target("https://server/cells.ome.zarr")
    assert propose_target("") == ""


def test_it_converts_and_has_the_result(task, tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", "0.4", shape=(64, 80))
    states = []
    task.changed.connect(lambda: states.append(task.status))
    task.start(str(source), str(tmp_path / "mine"), {"crop": "x=8:40"})
    assert task.job is not None
    finish(task)
    assert task.status == "Done: mine.ome.zarr."
    made = napari_ngff.open(task.result.target)
    assert made.version == "0.5"
    assert made.levels[0].shape == (3, 64, 32)
    assert states[-1] == task.status


def test_an_error_names_its_field_and_the_next_try_works(task, tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 80))
    made = str(tmp_path / "made.ome.zarr")
    task.start("", made, {})
    assert "Choose what to convert" in task.status
    task.start(str(tmp_path / "none"), made, {})
    finish(task)
    assert "nothing at" in task.status
    task.start(str(source), made, {"levels": "9"})
    finish(task)
    assert task.status.startswith("Levels: ")
    assert not task.is_unfinished
    other = write_image(tmp_path / "other.ome.zarr", "0.5", shape=(16, 16))
    task.start(str(source), str(other), {})
    finish(task)
    assert "already exists" in task.status
    task.start(str(source), made, {"levels": "0"})
    finish(task)
    assert task.status == "Done: made.ome.zarr."


def test_parts_of_a_failure_are_continued(task, tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 80))
    chunk = source / "0/c/0/0/0"
    whole = chunk.read_bytes()
    chunk.write_bytes(b"none")
    made = tmp_path / "again.ome.zarr"
    task.start(str(source), str(made), SMALL)
    finish(task)
    until(lambda: task.is_unfinished)
    assert "cannot be read" in task.status
    chunk.write_bytes(whole)
    task.start(str(source), str(made), SMALL)
    finish(task)
    assert task.status == "Done: again.ome.zarr."
    before, after = napari_ngff.open(source), napari_ngff.open(made)
    assert (before.levels[0] == after.levels[0]).all().compute()


def test_parts_that_are_left_out_are_named(task, tmp_path) -> None:
    source = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 3), shape=(32, 32))
    lost = ["plate.ome.zarr/A/1/0/1", "plate.ome.zarr/A/3/0/1"]
    for level in lost:
        (tmp_path / level / "zarr.json").write_text("{")
    task.start(str(source), str(tmp_path / "made.ome.zarr"), SMALL)
    finish(task)
    assert "Left out, as unreadable: 2 parts." in task.status
    assert [level for level in lost if level not in task.status] == []


def test_cancel_keeps_parts_which_can_be_deleted(task, tmp_path, monkeypatch) -> None:
    jobs = HeldJobs(monkeypatch, "convert")
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 80))
    made = str(tmp_path / "made.ome.zarr")
    task.start(str(source), made, SMALL)
    task.start("elsewhere", made, {})  # not while it runs
    jobs.wait()
    task.cancel()
    assert task.status == "Cancelling…"
    jobs.release()
    until(lambda: task.is_unfinished)
    assert task.status == f"Cancelled.{KEPT}"
    task.discard()
    until(lambda: not task.is_unfinished)
    assert [path.name for path in tmp_path.iterdir()] == ["cells.ome.zarr"]


def test_nothing_is_left_where_it_was_only_planned(task, tmp_path, monkeypatch) -> None:
    jobs = HeldJobs(monkeypatch, "plan")
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 80))
    task.start(str(source), str(tmp_path / "made.ome.zarr"), SMALL)
    jobs.wait()
    task.cancel()
    jobs.release()
    finish(task)
    assert task.status == "Cancelled."
    assert [path.name for path in tmp_path.iterdir()] == ["cells.ome.zarr"]


def test_sources_of_the_selected_layer(viewer, tmp_path) -> None:
    assert source_choices(viewer) == []
    plate = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 2), shape=(32, 32))
    field = str(plate / "A/1/0")
    session_of(viewer).add(read_paths(field), field)
    viewer.layers.selection.active = viewer.layers[0]
    assert source_choices(viewer) == [field, str(plate)]
    viewer.layers.selection.active = viewer.layers["nuclei"]
    assert source_choices(viewer) == [field, f"{field}/labels/nuclei", str(plate)]


def test_unsaved_changes_below_a_source_are_found(viewer, tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))
    other = write_image(tmp_path / "other.ome.zarr", shape=(64, 80))
    for path in (source, other):
        session_of(viewer).add(read_paths(str(path)), str(path))
    nuclei, others = (x for x in viewer.layers if x.name.startswith("nuclei"))
    nuclei.paint((20, 20), 5)
    others.paint((20, 20), 5)
    found = {
        place: unsaved_layers(viewer.layers, str(source / place))
        for place in ("", "labels/cells", "labels/nuclei")
    }
    assert found == {"": [nuclei], "labels/cells": [], "labels/nuclei": [nuclei]}
    assert nuclei.saver.save_now()
    assert unsaved_layers(viewer.layers, str(source)) == []


def test_a_closed_form_gets_a_notice(viewer, tmp_path, monkeypatch) -> None:
    shown = []
    monkeypatch.setattr(Window.current, "show_messages", lambda *a: shown.append(a))
    source = write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))
    task = conversion_task_of(viewer)
    task.start(str(source), str(tmp_path / "made"), {})
    # A form that is opened again shows the same one.
    assert conversion_task_of(viewer) is task
    finish(task)
    until(lambda: shown)
    assert shown[0][0] == ("Done: made.ome.zarr.",)
