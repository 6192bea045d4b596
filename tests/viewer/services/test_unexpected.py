"""Whatever is raised wherever: work ends, what failed is shown, the next try works."""

from __future__ import annotations

import gc
import shutil

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from journals import discard_edits
from napari_ngff import open_node, read_layers
from napari_ngff.labels.kept_edits import find_kept_edits
from napari_ngff.metadata.model import GroupKind
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.converting.conversion_task import ConversionTask
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.plans.layer_plan import origin_of
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Signal, Window, going_on
from napari_ngff.viewer.session import session_of
from patience import until
from plates import mark_own, write_plate
from raising import each_failing

BROWSING = (
    "viewer/browsing/browser.py",
    "viewer/browsing/shown_layers.py",
    "viewer/browsing/browsed_node.py",
    "viewer/browsing/layer_slots.py",
    "viewer/browsing/layer_swap.py",
    "viewer/browsing/field_labels.py",
    "viewer/browsing/shown_fields.py",
    "viewer/services/latest_task.py",
    "viewer/painting/canvas_labels.py",
    "viewer/painting/painted_layers.py",
)

RESTORING = ("viewer/browsing/recovery.py", "viewer/annotations/restored_layers.py")

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

    def run_here(work, done):
        with going_on():
            done(work())

    monkeypatch.setattr(Window.current, "run", run_here)
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


class Browsing:
    """A plate whose fields are shown in turns."""

    def __init__(self, root, well):
        self.root, self.there = root, Position(well, "1", 0)
        self.viewer, self.count = ViewerModel(), 0
        self.browser = session_of(self.viewer).browse(open_node(root))
        self.go_back()

    def go_back(self):
        """Show the first field, and paint on its labels."""
        self.browser.show_field("A/1", "0")
        self.paint()
        notification_manager.records.clear()

    def go_there(self):
        with going_on():  # as a slot of a button
            self.browser.show_field(self.there.well, self.there.field)

    def paint(self):
        self.count += 1
        for layer in self.labels():
            layer.paint((8, 1 + self.count % 14), 7)

    def labels(self):
        return [layer for layer in self.viewer.layers if hasattr(layer, "saver")]

    def check(self):
        """Picture, labels, title and place of saving are of one field."""
        position = self.browser.position
        place = f"{position.well}/{position.field}"
        title = self.browser.name_field(position)
        assert self.viewer.canvas.overlays.text.text == title
        for layer in self.viewer.layers:
            path = origin_of(layer).node.location.path
            assert path == place or path.startswith(f"{place}/labels/")
            stored = zarr.open_array(self.root / path / "0", mode="r")[...]
            if layer in self.labels():
                assert layer.saver.journal.place[1] == path
                assert not layer.is_exchanging
            else:
                stored = stored[origin_of(layer).channel]
            np.testing.assert_array_equal(np.asarray(layer.data[0]), stored)

    def check_strokes(self):
        """A stroke is saved into the labels that are seen."""
        self.paint()
        for layer in self.labels():
            layer.saver.save()
        self.check()


@pytest.mark.default_cases("B/1")
@pytest.mark.parametrize("well", ["A/2", "B/1"])
def test_a_field_is_exchanged_whole_whatever_fails(tmp_path, told, every, well):
    root = write_plate(
        tmp_path / "p",
        grid=(2, 2),
        fields=2,
        shape=(2, 16, 16),
        labelled=lambda well: ("cells",) if well[0] == "A" else ("others",),
    )
    for path in root.rglob("labels/*/zarr.json"):
        mark_own(path)
    browsing = Browsing(root, well)
    acts, layers = (browsing.go_back, browsing.go_there), []
    for error in each_failing(BROWSING, *acts, 5 * every):
        browsing.check_strokes()
        assert told or error is None, error
        browsing.go_there()
        assert browsing.browser.position == browsing.there, error
        layers.append(len(browsing.viewer.layers))
        assert layers[-1] == layers[0], error
        browsing.check()


class Restoring:
    """Edits that were kept, and are restored again and again."""

    def __init__(self, path):
        self.path, self.viewer = path, None

    def show(self):
        if self.viewer is not None:
            for layer in list(self.viewer.layers):
                if getattr(layer, "saver", None) is not None:
                    layer.saver.keep_journal()
                self.viewer.layers.remove(layer)
        self.viewer = ViewerModel()
        session_of(self.viewer)
        for layer in read_layers(self.path):
            self.viewer.add_layer(layer)

    def paint(self):
        """Leave one stroke, and open the image again."""
        if self.viewer is not None:
            discard_edits(self.labels().saver)
        self.show()
        self.labels().paint((8, 9), 7)
        self.pixels = np.asarray(self.labels().data[0])
        self.show()
        notification_manager.records.clear()

    def labels(self):
        return self.viewer.layers["nuclei"]

    def restore(self):
        kept = find_kept_edits([open_node(self.path)])
        with going_on():  # as a slot of a button
            session_of(self.viewer).recovery.restore_edits(kept)

    @property
    def is_restored(self):
        return np.array_equal(np.asarray(self.labels().data[0]), self.pixels)


def test_edits_are_restored_by_the_next_try_whatever_fails(tmp_path, told, every):
    path = write_image(tmp_path / "cells.ome.zarr", shape=(32, 32))
    restoring = Restoring(path)
    acts = restoring.paint, restoring.restore
    for error in each_failing(RESTORING, *acts, 3 * every):
        assert told or error is None, error
        if not restoring.is_restored:
            restoring.restore()
        assert restoring.is_restored, error
        restoring.show()  # kept again, as it is not saved
        restoring.restore()
        assert restoring.is_restored, error


def test_a_journal_that_cannot_be_restored_is_kept(tmp_path, told, monkeypatch):
    restoring = Restoring(write_image(tmp_path / "cells.ome.zarr", shape=(32, 32)))
    restoring.paint()

    def fail(*_):
        raise LookupError("restored")

    with monkeypatch.context() as patched:
        patched.setattr(type(restoring.labels()), "restore_edits", fail)
        restoring.restore()
    restoring.labels().saver.save()  # says why it cannot, and loses nothing
    restoring.viewer.layers.remove(restoring.labels())
    restoring.show()
    restoring.restore()
    assert restoring.is_restored


CONVERTING = (
    "viewer/converting/conversion_task.py",
    "viewer/services/child_process.py",
)


# A process that did not begin, and a pipe that was not closed in time.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_conversion_ends_whatever_fails_and_the_next_one_works(tmp_path, told, every):
    source = write_image(tmp_path / "cells.ome.zarr", shape=(16, 16))
    made, task = tmp_path / "made.ome.zarr", ConversionTask()

    def forget():
        notification_manager.records.clear()
        shutil.rmtree(made, ignore_errors=True)

    def convert():
        with going_on():  # as a slot of a button
            task.start(str(source), str(made), {"levels": "0"})
        until(lambda: task.job is None)

    for error in each_failing(CONVERTING, forget, convert, 10 * every):
        is_done = task.status == "Done: made.ome.zarr."
        assert is_done or told or str(error) in task.status, error
        assert not task.status.startswith("Reading"), error
        forget()
        convert()
        assert task.status == "Done: made.ome.zarr.", error
        assert open_node(made).kind is GroupKind.IMAGE, error
    gc.collect()  # here, where the warning is expected, and not in a later test
