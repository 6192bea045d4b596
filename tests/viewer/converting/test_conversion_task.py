"""What the form *Convert OME-Zarr* shows, without a window."""

from __future__ import annotations

from dataclasses import replace

import pytest
from napari.components import ViewerModel

import napari_ngff
from held_jobs import HeldJobs
from napari_ngff.testing import write_image, write_plate
from napari_ngff.viewer.converting import conversion_task
from napari_ngff.viewer.converting.conversion_task import (
    FOUND,
    KEPT,
    NOTHING_LEFT,
    ConversionTask,
)
from napari_ngff.viewer.converting.layer_sources import image_source, source_choices
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.session import session_of
from patience import until


@pytest.fixture
def viewer() -> ViewerModel:
    return ViewerModel()


@pytest.fixture
def task(viewer) -> ConversionTask:
    return ConversionTask(viewer)


def ask(task: ConversionTask, **texts: str) -> None:
    task.ask(replace(task.words, **texts))


def finish(task: ConversionTask) -> None:
    until(lambda: not task.is_running)


def test_it_proposes_converts_and_offers_the_result(task, tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", "0.4", shape=(64, 80))
    changes = []
    task.changed.connect(lambda: changes.append(1))
    ask(task, source=str(source))
    assert task.words.target == str(tmp_path / "cells-converted.ome.zarr")
    assert task.words.to_version == "0.5"
    assert task.can_start
    assert task.action == "Convert"
    assert task.estimate.startswith("Chunks are copied as they are. Reads about")
    ask(task, target=str(tmp_path / "mine"), crop="x=8:40")
    assert task.can_start
    # What was typed stays when another source is chosen.
    other = write_image(tmp_path / "other.ome.zarr", "0.6", shape=(64, 80))
    ask(task, source=str(other))
    assert task.words.target == str(tmp_path / "mine")
    assert task.words.to_version == "0.6"
    task.start()
    assert not task.can_start
    finish(task)
    assert task.status == "Done: mine.ome.zarr."
    made = napari_ngff.open(task.result.target)
    assert made.levels[0].shape == (3, 64, 32)
    assert changes
    # The result exists now, so the same cannot begin again.
    ask(task, crop="")
    assert "already exists" in task.mistakes["target"]
    assert not task.can_start


def test_what_cannot_be_opened_is_shown_at_the_source(task, tmp_path) -> None:
    ask(task, source=str(tmp_path / "none.ome.zarr"))
    assert "nothing at" in task.mistakes["source"]
    assert not task.can_start
    ask(task, source="")
    assert task.mistakes == {}


def test_an_error_is_shown_at_its_field_and_can_be_tried_again(
    task, tmp_path, monkeypatch
) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 80))
    ask(task, source=str(source))
    # Another program makes the target after the check.
    made = write_image(tmp_path / "cells-converted.ome.zarr", "0.5", shape=(16, 16))
    task.start()
    finish(task)
    assert "already exists" in task.mistakes["target"]
    assert napari_ngff.open(made).levels[0].shape == (3, 16, 16)
    broken = source / "0/c/0/0/0"
    broken.write_bytes(b"none")
    ask(task, target=str(tmp_path / "again"), codec="zstd:1")
    task.start()
    finish(task)
    assert task.mistakes == {}
    assert "cannot be read" in task.status
    assert "Resume continues" in task.status
    assert task.action == "Resume"
    ask(task, unreadable="skip")
    task.start(afresh=True)
    finish(task)
    assert task.status.startswith("Done: again.ome.zarr. Left out, as unreadable: 1")


def test_cancel_keeps_finished_parts_and_resume_continues(
    task, tmp_path, monkeypatch
) -> None:
    jobs = HeldJobs(monkeypatch, "convert")
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 80))
    ask(task, source=str(source), chunks="y=16,x=16", codec="gzip:9")
    task.start()
    assert ConversionTask.running_in(task.viewer) is task
    ask(task, source="elsewhere")  # not while it runs
    assert task.words.source == str(source)
    jobs.wait()
    task.cancel()
    jobs.release()
    finish(task)
    assert ConversionTask.running_in(task.viewer) is None
    assert task.status == KEPT
    assert task.action == "Resume"
    assert FOUND not in task.note  # the status has it
    # Another form finds it.
    other = ConversionTask(task.viewer)
    other.ask(task.words)
    assert FOUND in other.note
    target = tmp_path / "cells-converted.ome.zarr"
    assert not target.exists()
    task.start()
    finish(task)
    assert task.status == "Done: cells-converted.ome.zarr."
    before, after = napari_ngff.open(source), napari_ngff.open(target)
    assert (before.levels[0] == after.levels[0]).all().compute()


def test_parts_can_be_deleted(task, tmp_path, monkeypatch) -> None:
    jobs = HeldJobs(monkeypatch, "convert")
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 80))
    ask(task, source=str(source), chunks="y=16,x=16", codec="gzip:9")
    task.start()
    jobs.wait()
    task.cancel()
    jobs.release()
    finish(task)
    task.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["cells.ome.zarr"]
    assert task.action == "Convert"
    # While it plans there is nothing to keep.
    jobs = HeldJobs(monkeypatch, "plan")
    task.start()
    jobs.wait()
    task.cancel()
    jobs.release()
    finish(task)
    assert task.status == NOTHING_LEFT
    assert task.action == "Convert"


def test_sources_of_the_selected_layer(viewer, tmp_path) -> None:
    assert source_choices(viewer) == []
    plate = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 2), shape=(32, 32))
    field = str(plate / "A/1/0")
    session_of(viewer).add(read_paths(field), field)
    viewer.layers.selection.active = viewer.layers[0]
    assert source_choices(viewer) == [field, str(plate)]
    assert image_source(viewer) == field
    viewer.layers.selection.active = viewer.layers["nuclei"]
    assert source_choices(viewer) == [field, f"{field}/labels/nuclei", str(plate)]
    assert image_source(viewer) == f"{field}/labels/nuclei"


def test_unsaved_changes_are_named(viewer, task, tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))
    other = write_image(tmp_path / "other.ome.zarr", shape=(64, 80))
    for path in (source, other):
        session_of(viewer).add(read_paths(str(path)), str(path))
    nuclei, others = (x for x in viewer.layers if x.name.startswith("nuclei"))
    ask(task, source=str(source))
    assert task.unsaved() == []
    nuclei.paint((20, 20), 5)
    others.paint((20, 20), 5)
    assert task.unsaved() == [nuclei]
    assert "Not saved yet: changes of nuclei." in task.note
    ask(task, source=str(source / "labels" / "cells"))
    assert task.unsaved() == []
    ask(task, source=str(source / "labels" / "nuclei"))
    assert task.unsaved() == [nuclei]
    assert nuclei.saver.save_now()
    assert task.unsaved() == []


def test_a_closed_form_gets_a_notice(task, tmp_path, monkeypatch) -> None:
    shown = []
    services = conversion_task.window_services
    monkeypatch.setattr(services, "show_messages", lambda *a: shown.append(a))
    source = write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))
    ask(task, source=str(source))
    task.start()
    finish(task)
    until(lambda: shown)
    assert shown[0][0] == ("Done: cells-converted.ome.zarr.",)
