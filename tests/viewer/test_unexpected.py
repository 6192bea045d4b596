"""Whatever is raised wherever: work ends, what failed is shown, the next try works."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from napari_ngff import read_layers
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.unexpected import Signal, going_on
from napari_ngff.viewer.window import Window
from raising import each_failing

SAVING = (
    "viewer/saving/layer_saver.py",
    "viewer/saving/save_report.py",
    "viewer/saving/layer_description.py",
)


@pytest.fixture
def every(request):
    """Of so many calls, one fails in a quick run."""
    return 1 if request.config.getoption("--long") else 4


@pytest.fixture
def told(monkeypatch, unexpected):
    """What was shown to the user; work is done at once, as by workers."""
    monkeypatch.setattr(Window.current, "run", lambda work, done: done(work()))
    notification_manager.records.clear()
    yield notification_manager.records
    notification_manager.records.clear()
    unexpected.clear()


class Emitter:
    sent = Signal(int)


def test_each_listener_is_called_and_errors_are_shown(told, unexpected):
    emitter, heard = Emitter(), []

    def fail(number):
        raise LookupError(number)

    emitter.sent.connect(fail)
    emitter.sent.connect(heard.append)
    emitter.sent.emit(1)
    emitter.sent.emit(2)
    assert heard == [1, 2]
    assert [repr(error) for error in unexpected] == ["LookupError(1)", "LookupError(2)"]
    assert [record.message for record in told] == ["1", "2"]


def test_work_goes_on(told):
    with going_on():
        raise LookupError("shown")
    assert [record.message for record in told] == ["shown"]


class Saving:
    """Labels with all that a save writes, saved again and again."""

    def __init__(self, path, is_new=False, has_conflict=False):
        self.path, self.is_new, self.has_conflict = path, is_new, has_conflict
        self.viewer, self.count, self.ends = ViewerModel(), 0, []
        session_of(self.viewer)
        layers = {layer.name: layer for layer in read_layers(path)}
        self.image, self.layer = next(iter(layers.values())), layers["nuclei"]
        self.viewer.add_layer(self.image if is_new else self.layer)
        self.follow(self.layer.saver)

    def follow(self, saver):
        saver.saved.connect(lambda _: self.ends.append("saved"))
        saver.failed.connect(lambda _: self.ends.append("failed"))

    def change(self):
        """Change voxels and classes."""
        notification_manager.records.clear()
        self.count += 1
        if self.is_new:
            self.viewer.layers[1:] = []
            name = f"mine {self.count}"
            self.layer = self.viewer.add_layer(new_labels(self.image, name))
            self.follow(self.layer.saver)
        layer, self.ends = self.layer, []
        layer.paint((8, 1 + self.count % 30), 7)
        classes_of_layer(layer).add_class(f"class {self.count}")
        if self.has_conflict:
            other = zarr.open_array(self.path / "labels" / "nuclei" / "0", mode="r+")
            other[:2, :2] = 1 + self.count % 50

    def save(self):
        self.layer.saver.save()

    def stored(self):
        name = f"mine {self.count}" if self.is_new else "nuclei"
        return zarr.open_array(self.path / "labels" / name / "0", mode="r")[...]


@pytest.mark.parametrize("case", ["strokes", "new", "conflict"])
def test_a_save_ends_whatever_fails_and_the_next_one_works(tmp_path, told, every, case):
    path = write_image(tmp_path / "cells.ome.zarr", shape=(32, 32))
    saving = Saving(path, is_new=case == "new", has_conflict=case == "conflict")
    for error in each_failing(SAVING, saving.change, saving.save, every):
        layer = saving.layer
        assert not layer.saver.running, error
        assert len(saving.ends) == 1, error
        assert not layer.saver.note.startswith("Saving"), error
        assert told or not layer.unsaved, error
        assert layer.unsaved or saving.ends == ["saved"], error
        for _ in range(2):  # a conflict is saved by the second
            layer.saver.save()
        assert not layer.unsaved, error
        np.testing.assert_array_equal(saving.stored(), np.asarray(layer.data[0]))
