"""Ctrl+S that is pressed again while something is being saved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import zarr

from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.plate.tables.table import WellTable
from napari_ngff.viewer.annotations.object_class_annotation import begin_classes
from napari_ngff.viewer.annotations.table_annotation import TableAnnotation
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.saving import save_report
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from recovering import be_asked, idle, image_of, opened, waiting


@pytest.fixture
def path(tmp_path):
    return write_image(tmp_path / "in" / "cells.ome.zarr", shape=(64, 80))


@pytest.fixture
def viewer(path, tmp_path, monkeypatch):
    be_asked(tmp_path / "data", monkeypatch)
    return opened(path, monkeypatch)


def press_save(viewer):
    chosen = session_of(viewer).annotations.choose_to_save(None)
    assert chosen is not None, "napari asks where to save the image"
    for annotation in chosen:
        annotation.save()


def stored(path):
    return zarr.open_array(path / "labels/nuclei/0", mode="r")[:]


class Painting:
    """Strokes in labels."""

    def __init__(self, viewer):
        self.layer = viewer.layers["nuclei"]

    def change(self, number):
        self.layer.paint((10 * number, 20), 70 + number)

    def is_saved(self, path, number):
        return (stored(path) == 70 + number).any()


class Drawing:
    """Points."""

    def __init__(self, viewer):
        self.layer = viewer.add_points(ndim=2, scale=image_of(viewer).scale)

    def change(self, number):
        self.layer.add([number, 20])

    def is_saved(self, path, number):
        (file,) = path.parent.glob("cells.points/*.csv")
        return len(pd.read_csv(file)) >= number


class Classifying:
    """Classes of objects."""

    def __init__(self, viewer):
        owner = session_of(viewer).annotations
        self.classes = begin_classes(owner, viewer.layers["nuclei"])
        self.classes.add_class("round")

    def change(self, number):
        self.classes.classify(number, "round")

    def is_saved(self, path, number):
        (file,) = path.glob("tables/nuclei_classes/table.csv")
        return number in pd.read_csv(file)["label"].to_numpy()


KINDS = (Painting, Drawing, Classifying)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_second_key_saves_what_was_changed_meanwhile(viewer, path, kind, goes_on):
    work = kind(viewer)
    idle()
    work.change(1)
    press_save(viewer)
    if goes_on:
        work.change(2)
    begun = len(waiting)
    press_save(viewer)
    assert len(waiting) == begun, "nothing begins beside a save"
    idle()
    assert work.is_saved(path, 1 + goes_on)
    assert session_of(viewer).annotations.list_unsaved() == []


def test_a_second_key_starts_nothing_without_a_change(viewer, monkeypatch):
    begun, save = [], LabelWriter.save
    monkeypatch.setattr(
        LabelWriter, "save", lambda *given: begun.append(1) or save(*given)
    )
    Painting(viewer).change(1)
    for _ in range(3):
        press_save(viewer)
    idle()
    assert begun == [1]


def test_a_second_key_writes_over_nothing_that_was_refused(
    viewer, path, monkeypatch, reported
):
    monkeypatch.setattr(save_report, "show_warning", reported.append)
    work = Painting(viewer)
    work.change(1)
    np.asarray(work.layer.data[0])  # seen, as in a window
    other = opened(path, monkeypatch).layers["nuclei"]
    other.paint((40, 40), 99)
    assert other.saver.save_now()
    theirs = stored(path)
    press_save(viewer)
    press_save(viewer)
    idle()
    assert (stored(path) == theirs).all(), "the person has not looked at it"
    assert len(reported) == 1
    press_save(viewer)
    idle()
    assert set(np.unique(stored(path))) >= {71, 99}


def test_a_second_key_tells_of_a_failure_once(viewer, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    told = []
    monkeypatch.setattr(save_report, "show_error", told.append)
    monkeypatch.setattr(LabelWriter, "save", fail)
    Painting(viewer).change(1)
    press_save(viewer)
    press_save(viewer)
    idle()
    assert len(told) == 1


def test_a_second_key_asks_for_no_second_file(viewer, tmp_path, monkeypatch):
    asked = []

    def ask(*_):
        asked.append(tmp_path / "measured.csv")
        return str(asked[0])

    monkeypatch.setattr(Window, "ask_table_file", ask)
    frame = pd.DataFrame({"well": [""], "label": [1], "area": [1.0]})
    owner, table = session_of(viewer).annotations, WellTable("nuclei", frame)
    TableAnnotation(owner, "nuclei", "cells.ome.zarr", table)
    press_save(viewer)
    press_save(viewer)
    idle()
    assert len(asked) == 1
    assert asked[0].exists()


def test_a_key_while_an_image_is_selected_waits_for_labels(viewer):
    """All is in the file, but the save has not ended: napari is not to ask."""
    work = Painting(viewer)
    work.change(1)
    press_save(viewer)
    work.layer.undo()
    assert not work.layer.unsaved
    press_save(viewer)
    idle()
    assert not work.layer.saver.running
