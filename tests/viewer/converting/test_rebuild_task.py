"""What the form *Rebuild pyramid* shows, without a window."""

from __future__ import annotations

import pytest
from napari.components import ViewerModel

import napari_ngff
from held_jobs import HeldJobs
from napari_ngff.store.convert.rebuild_preview import RebuildWords
from napari_ngff.testing import write_image
from napari_ngff.viewer.converting.rebuild_task import STOPPED, RebuildTask
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.session import session_of
from patience import until


@pytest.fixture
def viewer() -> ViewerModel:
    return ViewerModel()


@pytest.fixture
def task(viewer) -> RebuildTask:
    return RebuildTask(viewer)


def finish(task: RebuildTask) -> None:
    until(lambda: not task.is_running)


def test_levels_are_made_and_layers_of_the_old_ones_go(viewer, task, tmp_path) -> None:
    source = write_image(tmp_path / "a.ome.zarr", "0.5", shape=(300, 520))
    other = write_image(tmp_path / "b.ome.zarr", "0.5", shape=(32, 32))
    for path in (source, other):
        session_of(viewer).add(read_paths(str(path)), str(path))
    task.ask(RebuildWords(str(source), levels=2))
    assert task.can_start
    task.start()
    finish(task)
    assert task.status.startswith("Done. Levels: 1")
    assert len(napari_ngff.open(source).levels) == 2
    assert len(task.open_layers()) == 5
    assert task.close_layers()
    assert {
        layer.metadata["ome-zarr"].node.location.source.name for layer in viewer.layers
    } == {str(other)}


def test_unsaved_changes_have_to_be_saved(viewer, task, tmp_path) -> None:
    source = write_image(tmp_path / "a.ome.zarr", "0.5", shape=(64, 80))
    session_of(viewer).add(read_paths(str(source)), str(source))
    nuclei = viewer.layers["nuclei"]
    task.ask(RebuildWords(str(source)))
    nuclei.paint((20, 20), 5)
    assert "changes of nuclei" in task.note
    task.start()
    assert not task.is_running
    assert nuclei.saver.save_now()
    assert task.note == ""
    task.start()
    assert task.is_running
    finish(task)


def test_cancel_leaves_a_valid_image(task, tmp_path, monkeypatch) -> None:
    jobs = HeldJobs(monkeypatch, "rebuild")
    source = write_image(tmp_path / "a.ome.zarr", "0.5", shape=(300, 520))
    task.ask(RebuildWords(str(source), levels=4))
    task.start()
    jobs.wait()
    task.cancel()
    jobs.release()
    finish(task)
    assert task.status == STOPPED
    assert task.can_start
    assert not [p for _, p in napari_ngff.check(source) if str(p.severity) == "error"]


def test_a_mistake_is_shown_at_its_field(task, tmp_path) -> None:
    task.ask(RebuildWords(str(tmp_path / "none")))
    assert "nothing at" in task.mistakes["source"]
    assert not task.can_start
