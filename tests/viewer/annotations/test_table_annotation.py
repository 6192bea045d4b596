"""Measured tables as annotations: saved into their images, and read back."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pandas as pd
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.annotations.leaving import save_all
from napari_ngff.viewer.annotations.table_annotation import GONE, WRITES, list_tables
from napari_ngff.viewer.browsing.plate_tables import PlateTables
from napari_ngff.viewer.browsing.table_offers import (
    MeasureScope,
    TableOffer,
    TableOrigin,
)
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from plates import write_group, write_plate

WRITTEN = TableOffer(TableOrigin.IMAGES, "nuclei_measured")


@pytest.fixture(scope="module", params=[1, 2])
def original(request, tmp_path_factory):
    """One or two acquisitions; an image without objects, and some without labels."""
    root = write_plate(
        tmp_path_factory.mktemp("measured") / "p.ome.zarr",
        grid=(2, 2),
        fields=2,
        shape=(2, 8, 8),
        levels=1,
        acquisitions=request.param,
        labelled=lambda well: () if well == "B/2" else ("nuclei", "cells"),
    )
    rng = np.random.default_rng(request.param)
    for number, path in enumerate(sorted(root.glob("*/*/*/labels/nuclei/0"))):
        array = zarr.open_array(path)
        array[:] = 0 if number == 0 else rng.integers(0, 9, array.shape)
    return root


@pytest.fixture
def plate(original, tmp_path):
    return shutil.copytree(original, tmp_path / "p.ome.zarr")


def browse(plate):
    tables = PlateTables(session_of(ViewerModel()).browse(open_node(str(plate))))
    tables.said = []
    tables.message_sent.connect(tables.said.append)
    tables.find_tables()
    return tables


@pytest.fixture
def told(monkeypatch):
    """What the window tells."""
    texts = []
    monkeypatch.setattr(Window, "show_passing", lambda _, text: texts.append(text))
    return texts


def unsaved(tables):
    return session_of(tables.browser.layers.viewer).annotations.list_savable()


def maps(tables):
    """Return the values of the wells for each column, and each way to combine rows."""
    found, chosen = {}, tables.joined.chosen
    for column in [x for x in tables.joined.list_columns() if x.offer == chosen]:
        tables.color_by(column)
        for way in tables.joined.list_ways():
            tables.color_by(column, way)
            values = tables.view.coloring.values
            found[column.name, way] = dict(values)
    return found


def test_what_is_saved_into_the_images_gives_the_same_map(plate):
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    expected, rows = maps(tables), tables.table
    assert expected["label", "sum"]["B/2"] is None
    (table,) = unsaved(tables)
    assert not table.asks_for_file
    save_all(table.owner)
    assert unsaved(tables) == []
    assert WRITTEN in tables.joined.offers
    again = browse(plate)
    assert WRITTEN in again.joined.offers
    again.choose_table(WRITTEN)
    assert maps(again) == expected
    assert again.table.region == "nuclei"
    assert sorted(again.table.without) == sorted(rows.without)
    pd.testing.assert_frame_equal(
        again.table.frame, rows.frame, check_categorical=False
    )
    assert again.table.columns == rows.columns


@pytest.mark.parametrize("seed", range(2))
def test_a_save_writes_the_fields_that_were_measured_again(plate, told, seed):
    rng, tables = random.Random(seed), browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    tables.save_in_plate()
    files = {p: p.read_bytes() for p in plate.rglob("*") if p.is_file()}
    places = sorted(p.parents[2] for p in plate.glob("*/*/*/labels/nuclei/0"))
    places = [place.parent if place.name == "labels" else place for place in places]
    painted = rng.sample(places, 2)
    for place in painted:
        array = zarr.open_array(place / "labels/nuclei/0")
        array[0, 0:2] = 77
    tables.measure_labels("nuclei", MeasureScope.ALL)
    tables.save_in_plate()
    assert told[-1] == "Saved: nuclei_measured.\n2 images changed."
    changed = {
        p
        for p in plate.rglob("*")
        if p.is_file() and files.get(p) != p.read_bytes() and "labels" not in p.parts
    }
    assert changed == {x / "tables/nuclei_measured/table.csv" for x in painted}
    tables.choose_table(WRITTEN)
    frame = tables.table.frame
    assert (frame["label"] == 77).sum() == 2


def test_another_measurement_of_a_field_keeps_the_tables_of_the_others(plate):
    tables = browse(plate)
    tables.browser.show_field("A/2", "0")
    tables.measure_labels("nuclei", MeasureScope.FIELD)
    tables.save_in_plate()
    written = [p.parents[2] for p in plate.rglob("nuclei_measured/table.csv")]
    assert written == [plate / "A/2/0"]
    later = browse(plate)
    later.browser.show_field("A/2", "1")
    later.measure_labels("nuclei", MeasureScope.FIELD)
    later.save_in_plate()
    later.choose_table(WRITTEN)
    fields = set(map(tuple, later.table.frame[["well", "field"]].to_numpy()))
    assert fields == {("A/2", "0"), ("A/2", "1")}


class Asked(Window):
    """Answers the question for another name, and notes it."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def ask_name(self, viewer, text, name, check, title):
        self.asked.append((title, text, name))
        return self.answer and name


@pytest.mark.parametrize("answer", [True, False])
def test_the_table_of_another_program_stays(plate, monkeypatch, told, answer):
    folder = plate / "A/2/0/tables"
    write_group(folder, {"tables": ["nuclei_measured"]}, 3)
    write_group(folder / "nuclei_measured", {"backend": "csv"}, 3)
    (folder / "nuclei_measured/table.csv").write_text("label,x\n3,1.50\n")
    before = {p: p.read_bytes() for p in (folder / "nuclei_measured").iterdir()}
    monkeypatch.setattr(Window, "current", Asked(answer))
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    (table,) = unsaved(tables)
    table.save(quiet=True)
    assert Window.current.asked == []
    assert table.state.asks_name, "nothing saves it unasked from now on"
    with pytest.raises(OMEZarrError, match="Not saved: measured table of nuclei"):
        save_all(table.owner)
    tables.save_in_plate()
    (asked,) = Window.current.asked
    assert asked[0] == "Name of the table"
    image = plate / "A/2/0"
    assert asked[1].startswith(
        f"Another program has written nuclei_measured in {image}."
    )
    assert {p: p.read_bytes() for p in before} == before
    assert (
        TableOffer(TableOrigin.IMAGES, "nuclei_measured2") in tables.joined.offers
    ) == answer
    assert bool(unsaved(tables)) != answer
    if answer:  # the next save takes the same name
        tables.measure_labels("nuclei", MeasureScope.ALL)
        tables.save_in_plate()
        assert told[-1] == "Saved: nuclei_measured2.\n0 images changed."


def test_cancel_keeps_the_table_unsaved(plate, told):
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    (table,) = unsaved(tables)

    seen = []

    def cancel():
        if table.running:
            seen.append(table.fraction)
            if len(seen) == 3:
                table.cancel()

    table.owner.changed.connect(cancel)
    tables.save_in_plate()
    table.owner.changed.disconnect(cancel)
    images = len(set(table.table.list_images()))
    assert seen == [number / images for number in range(3)]
    assert len(list(plate.rglob("nuclei_measured/table.csv"))) == 2
    assert told[-1].startswith("Not saved in all images: nuclei_measured.")
    assert WRITTEN not in tables.joined.offers
    assert unsaved(tables) == [table]
    table.save()
    assert unsaved(tables) == []
    count = len(list(plate.rglob("nuclei_measured/table.csv")))
    assert told[-1] == f"Saved: nuclei_measured.\n{count - 2} images changed."


def test_older_tables_are_saved_and_their_images_are_named(plate, told):
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    (table,) = unsaved(tables)
    tables.browser.show_field("A/2", "1")
    labels = tables.browser.layers.viewer.layers["nuclei"]
    labels.paint((1, 1), 55)
    assert table in unsaved(tables)
    rows, images = table.table.frame, table.table.list_images()
    save_all(table.owner)
    assert told[-1].endswith(
        "It was measured before the latest strokes in A2, field 1."
    )
    assert len(list(plate.rglob("nuclei_measured/table.csv"))) == len(images)
    tables.choose_table(WRITTEN)
    assert len(tables.table) == len(rows)


def test_a_table_that_a_file_has_is_still_written_into_the_images(plate, tmp_path):
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    tables.save_table(str(tmp_path / "all.csv"))
    assert unsaved(tables) == []
    assert not list(plate.rglob("nuclei_measured"))
    tables.save_in_plate()
    assert WRITTEN in tables.joined.offers
    images = tables.table.list_images()
    assert len(list(plate.rglob("nuclei_measured/table.csv"))) == len(images)


def rename(image, number):
    """Rename labels as a program does that knows of no tables."""
    (image / "labels/nuclei").rename(image / f"labels/renamed{number}")


@pytest.mark.parametrize("is_saved_before", [False, True])
def test_images_whose_labels_are_gone_get_no_table(
    plate, told, monkeypatch, is_saved_before
):
    warned = []
    monkeypatch.setattr(Window, "show_messages", lambda _, *given: warned.append(given))
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    if is_saved_before:
        tables.save_in_plate()
        tables.measure_labels("nuclei", MeasureScope.ALL)
        warned.clear()
    images = sorted({p.parents[1] for p in plate.glob("*/*/*/labels/nuclei")})
    before = {p: p.read_bytes() for p in images[1].rglob("tables/**/*") if p.is_file()}
    rename(images[1], 1)
    tables.save_in_plate()
    after = {p: p.read_bytes() for p in images[1].rglob("tables/**/*") if p.is_file()}
    assert after == before
    assert len(list(plate.rglob("nuclei_measured/table.csv"))) == (
        len(images) - (not is_saved_before)
    )
    assert told[-1].startswith("Saved: nuclei_measured.")
    path = images[1].relative_to(plate).as_posix()
    assert warned == [((path,), GONE)]


def test_a_table_stays_unsaved_if_all_labels_are_gone(plate, told, monkeypatch):
    failures = []
    monkeypatch.setattr(
        "napari_ngff.viewer.annotations.table_annotation.show_error", failures.append
    )
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    for number, labels in enumerate(sorted(plate.glob("*/*/*/labels/nuclei"))):
        rename(labels.parents[1], number)
    tables.save_in_plate()
    assert "were renamed or deleted." in failures[0]
    assert "Measure again." in failures[0]
    assert told == []
    assert not list(plate.rglob("nuclei_measured"))
    assert len(unsaved(tables)) == 1


@pytest.mark.parametrize("why", ["", "read-only."])
def test_ctrl_s_saves_also_what_needs_a_file(plate, monkeypatch, tmp_path, why):
    monkeypatch.setattr(FolderStore, "why_not_written", lambda *_: why)
    tables = browse(plate)
    assert (
        tables.why_not_saved
        == "Choose a table that was measured, or loaded for a plate."
    )
    tables.measure_labels("nuclei", MeasureScope.ALL)
    (table,) = list_tables(session_of(tables.browser.layers.viewer).annotations)
    assert table.asks_for_file == bool(why)
    assert tables.why_not_saved == why
    assert unsaved(tables) == [table]
    assert tables.note.endswith(f"Ctrl+S asks for a file: {why}" if why else WRITES)
    path = tmp_path / "nuclei.csv"
    monkeypatch.setattr(Window, "ask_table_file", lambda *_: str(path))
    (chosen,) = table.owner.choose_to_save(None)
    chosen.save()
    assert path.exists() == bool(why)
    assert unsaved(tables) == []
    assert "Ctrl+S" not in tables.note
