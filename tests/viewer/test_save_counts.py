"""What a person reads of a save before it and after it: the same number of chunks."""

import re
import shutil

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff.plugin import get_reader
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.annotations.save_state import SaveWatch
from napari_ngff.viewer.layers.label_colors import recolor_labels
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image

RED = np.array([1.0, 0, 0, 1])


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "cells.ome.zarr"
    write_image(path, shape=(1, 1200, 1200))
    return path


@pytest.fixture
def folder(sample, tmp_path):
    return shutil.copytree(sample, tmp_path / "cells.ome.zarr")


@pytest.fixture(params=["folder", "archive"])
def layer(request, folder, tmp_path):
    if request.param == "folder":
        return opened(folder)
    archive = tmp_path / "cells.ozx"
    pack_hierarchy(folder, archive)
    return opened(archive)


def opened(folder, name="nuclei"):
    model = ViewerModel()
    for layer in get_reader(str(folder))(str(folder)):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    return model.layers[name]


def paint(layer, *corners):
    layer.data_setitem(tuple(np.array([(0, *one) for one in corners]).T), 77)


def look(watch):
    watch.read_state()  # counts
    state = watch.read_state()
    # Behind what is to be saved stands the last save.
    return f"{state.text}: {state.detail}".partition(" to save.")[0]


def save(layer, **options):
    layer.saver.save(**options)
    note = f"{layer.saver.note}: {layer.saver.detail}"
    return re.sub(r"\d\d:\d\d", "NOW", note)


def test_as_many_blocks_are_saved_as_were_changed(layer):
    watch = SaveWatch(layer, lambda: None)
    assert look(watch) == "No changes: "
    paint(layer, (5, 5), (5, 1000), (1000, 5))
    assert look(watch) == "Unsaved changes: 3 chunks"
    assert save(layer) == "Saved NOW: 3 chunks written."
    paint(layer, (5, 6))
    assert look(watch) == "Unsaved changes: 1 chunk"
    assert save(layer) == "Saved NOW: 1 chunk written."


def test_what_is_taken_back_is_counted_alike(layer):
    watch = SaveWatch(layer, lambda: None)
    paint(layer, (5, 5), (5, 1000), (1000, 5))
    save(layer)
    layer.undo()
    assert look(watch) == "Unsaved changes: 3 chunks"
    assert save(layer) == "Saved NOW: 3 chunks written."


def test_edits_that_change_no_voxel_are_counted_alike(layer):
    watch = SaveWatch(layer, lambda: None)
    paint(layer, (5, 5))
    save(layer)
    paint(layer, (5, 5))
    assert look(watch) == "Unsaved changes: 1 chunk"
    assert save(layer) == "Saved NOW: 1 chunk written."


def test_with_nothing_to_save_the_last_time_stays(layer, monkeypatch):
    assert save(layer) == "No changes: Nothing to save."
    paint(layer, (5, 5))
    monkeypatch.setattr("time.strftime", lambda _: "14:03")
    layer.saver.save()
    monkeypatch.setattr("time.strftime", lambda _: "20:11")
    for _ in range(2):
        layer.saver.save()
        assert layer.saver.note == "Saved 14:03"
    assert look(SaveWatch(layer, lambda: None)) == "Saved 14:03: 1 chunk written."


def test_colours_and_properties_are_named(layer):
    layer.colormap = recolor_labels(layer.colormap, {5: RED})
    assert save(layer) == "Saved NOW: Colours written."
    table = layer.features.copy()
    table["score"] = 1.5
    layer.features = table
    assert save(layer) == "Saved NOW: Properties written."
    layer.colormap = recolor_labels(layer.colormap, {6: RED})
    # napari tells nobody of a cell.
    layer.features.loc[0, "score"] = 2.5
    assert save(layer) == "Saved NOW: Colours and properties written."
    assert save(layer) == "Saved NOW: Colours and properties written."


def test_a_cancelled_save_counts_what_it_wrote_and_the_next_one_the_rest(folder):
    layer = opened(folder)
    watch = SaveWatch(layer, lambda: None)
    paint(layer, *((y, x) for y in (5, 600, 1100) for x in (5, 600, 1100)))
    total = int(look(watch).split()[2])
    saver, plain = layer.saver, layer.saver._report_progress

    def progress(level, done, total):
        plain(level, done, total)
        if done == 4:
            saver.cancel()

    saver._report_progress = progress
    found = re.fullmatch(r"Cancelled NOW: (\d+) chunks written\. The .*", save(layer))
    done = int(found[1])
    assert 4 <= done < total
    assert look(watch) == f"Unsaved changes: {total - done} chunks"
    saver._report_progress = plain
    assert save(layer) == f"Saved NOW: {total - done} chunks written."
    stored = zarr.open_array(folder / "labels" / "nuclei" / "0", mode="r")[:]
    np.testing.assert_array_equal(stored, np.asarray(layer.data[0]))


def test_an_archive_has_no_block_of_a_cancelled_save_and_all_of_the_next(
    folder, tmp_path
):
    archive = tmp_path / "cells.ozx"
    pack_hierarchy(folder, archive)
    layer = opened(archive)
    paint(layer, (5, 5), (5, 1000), (1000, 5))
    saver, plain = layer.saver, layer.saver._report_progress

    def progress(level, done, total):
        plain(level, done, total)
        if level == -1:
            saver.cancel()

    saver._report_progress = progress
    assert save(layer) == "Cancelled NOW: The next save writes the rest."
    saver._report_progress = plain
    assert save(layer) == "Saved NOW: 3 chunks written."


def test_new_labels_are_counted_alike(folder):
    layer = new_labels(opened(folder, 0), "mine")
    watch = SaveWatch(layer, lambda: None)
    paint(layer, (5, 5), (5, 1000), (1000, 5))
    assert look(watch) == "Unsaved changes: 3 chunks"
    assert save(layer) == "Saved NOW: 3 chunks written."
