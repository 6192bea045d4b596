"""Labels of images that cannot be written: painted, saved, found again, merged."""

import functools
import os
import shutil
import threading
import warnings
from collections import Counter
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.utils import notifications

from buckets import bucket_server
from journals import journals_of
from judges import read_by_ome_zarr, validate_models, validate_yaozarrs
from napari_ngff.cli import main
from napari_ngff.labels.places.sidecar import sidecar_folder
from napari_ngff.plugin import get_reader
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.annotations import sidecars
from napari_ngff.viewer.annotations.sidecars import edit_copy
from napari_ngff.viewer.browsing.recovery import open_journal
from napari_ngff.viewer.composing.write_layers import propose_target
from napari_ngff.viewer.layers.label_owners import TARGET
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.session import session_of

VERSIONS = ["0.4", "0.5", "0.6"]
LOOK = ("name", "visible", "opacity", "blending")


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def send_head(self):
        self.server.asked.append(self.path)
        return super().send_head()

    def list_directory(self, path):
        self.send_error(404)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for version in VERSIONS:
        write_image(folder / f"{version}.ome.zarr", version, shape=(2, 101, 150))
    write_plate(folder / "plate.ome.zarr", grid=(1, 2), shape=(64, 64))
    return folder


@pytest.fixture(scope="module")
def server(samples):
    handler = functools.partial(Handler, directory=samples)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def reported(monkeypatch):
    messages = []
    for name in ("show_error", "show_warning", "show_info"):
        monkeypatch.setattr(notifications, name, messages.append)
        monkeypatch.setattr(sidecars, name, messages.append, raising=False)
    return messages


def url(server, name):
    return f"http://127.0.0.1:{server.server_port}/{name}"


def opened(path):
    model = ViewerModel()
    for layer in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    return model


def painted(path, name="mine", **options):
    model = opened(path)
    layer = new_labels(model.layers[0], name, **options)
    model.add_layer(layer)
    shape = np.array(layer.data.shape)
    layer.brush_size = 21
    layer.paint(tuple((shape // 4).tolist()), 3)
    layer.paint(tuple((shape * 2 // 3).tolist()), 300)
    assert layer.saver.save_now()
    return layer


def whole(layer):
    return np.asarray(layer.data[0])


@pytest.fixture
def bucket(samples):
    """A server with the samples in a bucket."""
    with bucket_server() as files:
        files.mkdir("cells")
        files.put(samples, "cells")
        yield files


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_labels_of_an_image_in_a_bucket_are_there_again(
    bucket, version, reported, samples, monkeypatch
):
    # The server has no users: what one who may only read is told.
    monkeypatch.setattr(RemoteStore, "writable", False)
    address = f"s3://cells/{version}.ome.zarr"
    model, own = opened(address), opened(samples / f"{version}.ome.zarr")
    for layer, twin in zip(model.layers, own.layers, strict=True):
        np.testing.assert_array_equal(whole(layer), whole(twin))
    nuclei = model.layers["nuclei"]
    assert f"{address} cannot be written" in nuclei.read_only
    assert "Edit a copy" in nuclei.read_only
    check_there_again(address, version)


@pytest.mark.long
@pytest.mark.slow
def test_labels_in_a_bucket_are_saved_there(bucket, reported, samples):
    model = opened("s3://cells/0.5.ome.zarr")
    nuclei = model.layers["nuclei"]
    assert not nuclei.read_only
    nuclei.paint((0, 5, 5), 9)
    assert nuclei.saver.save_now()
    again = opened("s3://cells/0.5.ome.zarr").layers["nuclei"]
    np.testing.assert_array_equal(whole(again), whole(nuclei))
    new = painted("s3://cells/0.5.ome.zarr")
    again = opened("s3://cells/0.5.ome.zarr").layers["mine"]
    np.testing.assert_array_equal(whole(again), whole(new))
    assert bucket.exists("cells/0.5.ome.zarr/labels/mine/zarr.json")


@pytest.mark.default_cases("0.5")
@pytest.mark.parametrize("version", VERSIONS)
def test_labels_of_a_remote_image_are_there_again(server, version, reported):
    check_there_again(url(server, f"{version}.ome.zarr"), version)


def check_there_again(address, version):
    layer = painted(address)
    place = Path(layer.metadata[TARGET].home.source.name)
    assert place.parent == sidecar_folder()
    label = open_node(place).child("mine")
    assert label.metadata.version == version
    assert label.metadata.image.label.source == address
    assert main(["check", str(place)]) == 0
    model = opened(address)
    again = model.layers["mine"]
    np.testing.assert_array_equal(whole(again), whole(layer))
    np.testing.assert_allclose(again.scale, layer.scale)
    np.testing.assert_allclose(again.translate, layer.translate)
    assert again.units == layer.units
    # It goes on as labels of any folder.
    again.paint((0, 5, 5), 9)
    assert again.saver.save_now()
    assert zarr.open_array(f"{place}/mine/0", mode="r")[0, 5, 5] == 9
    again.undo()
    assert again.saver.save_now()
    np.testing.assert_array_equal(whole(opened(address).layers["mine"]), whole(layer))


def test_own_labels_of_a_remote_image_are_shown_and_selected(server, reported):
    address = url(server, "0.5.ome.zarr")
    painted(address, "first")
    place = next(sidecar_folder().iterdir())
    for file in (place / "first").rglob("*"):
        os.utime(file, (1e9, 1e9))
    painted(address, "second")
    viewer = ViewerModel()
    session_of(viewer).add(read_paths(address), address)
    labels = [layer for layer in viewer.layers if hasattr(layer, "saver")]
    assert {"nuclei", "cells", "first", "second"} == {one.name for one in labels}
    assert [one.name for one in labels if one.visible] == ["second"]
    assert viewer.layers.selection.active.name == "second"


def test_looking_for_a_sidecar_asks_the_server_nothing(server, reported):
    address = url(server, "0.5.ome.zarr")
    opened(address)
    server.asked.clear()
    opened(address)
    before = Counter(server.asked)
    painted(address)
    server.asked.clear()
    opened(address)
    # Less than before: the server's labels are hidden, so their pixels are not read.
    assert not Counter(server.asked) - before


def test_opening_writes_nothing(samples, server, tmp_path):
    path = shutil.copytree(samples / "0.5.ome.zarr", tmp_path / "cells.ome.zarr")
    before = sorted(tmp_path.rglob("*"))
    for place in (path, url(server, "0.5.ome.zarr"), url(server, "plate.ome.zarr")):
        opened(place)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_other_libraries_open_it(samples, tmp_path, version, reported):
    path = shutil.copytree(samples / f"{version}.ome.zarr", tmp_path / "a.ome.zarr")
    layer = painted(path, sidecar=True)
    place = tmp_path / "a.labels.ome.zarr"
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()].count(place.name) == 1
    assert not (path / "labels/mine").exists()
    assert main(["check", str(place)]) == 0
    if version == "0.6":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for group in (place, place / "mine"):
            validate_models(group, version)
        # A list of labels states no version in 0.4, by which yaozarrs would go.
        validate_yaozarrs(place / "mine" if version == "0.4" else place)
        found = read_by_ome_zarr(place)
    np.testing.assert_array_equal(found["mine"][0], whole(layer))
    # By the path of the source it even finds the image.
    assert found["a.ome.zarr"][-1].shape


def test_read_only_labels_say_why_and_become_a_copy(server, reported):
    address = url(server, "0.5.ome.zarr")
    model = opened(address)
    layer = model.layers["nuclei"]
    layer.visible, layer.selected_label = True, 5
    status = layer.get_status((0, 0, 0))["coordinates"]
    assert f"read-only: {address} cannot be written" in status
    assert "Edit a copy" in status
    before, index = whole(layer), model.layers.index(layer)
    look = {name: getattr(layer, name) for name in LOOK}
    copy = edit_copy(model, layer)
    made = model.layers["nuclei"]
    assert made is copy.made
    assert layer not in model.layers
    assert model.layers.index(made) == index
    assert made.editable
    assert made.selected_label == 5
    assert {name: getattr(made, name) for name in LOOK} == look
    assert made.colormap.color_dict.keys() == layer.colormap.color_dict.keys()
    np.testing.assert_allclose(made.scale, layer.scale)
    np.testing.assert_array_equal(whole(made), before)
    assert reported[-1].startswith("Ready to paint: nuclei\n")
    made.paint((0, 50, 50), 77)
    assert made.saver.save_now()
    names = [layer.name for layer in model.layers]
    again = opened(address)
    assert [layer.name for layer in again.layers] == names
    np.testing.assert_array_equal(whole(again.layers["nuclei"]), whole(made))
    assert any("not as in the image" in message for message in reported)
    (place,) = sidecar_folder().iterdir()
    assert main(["check", str(place)]) == 0
    # A copy of them is for the user, who does not look among the sidecars.
    layers = [again.layers["nuclei"]]
    assert propose_target(layers, "/elsewhere") == "/elsewhere/nuclei"


def test_a_copy_is_refused_where_it_makes_no_sense(samples, server, tmp_path, reported):
    address = url(server, "0.5.ome.zarr")
    model = opened(address)
    copy = edit_copy(model, model.layers["cells"], limit=1000)
    assert copy.made is None
    assert "in new labels" in reported[-1]
    assert model.layers["cells"].read_only.startswith("http")
    assert edit_copy(model, model.layers[0]) is None
    assert "is not a label image" in reported[-1]
    plate = opened(url(server, "plate.ome.zarr"))
    assert edit_copy(plate, plate.layers["nuclei"]) is None
    path = shutil.copytree(samples / "0.5.ome.zarr", tmp_path / "a.ome.zarr")
    local = opened(path)
    assert edit_copy(local, local.layers["nuclei"]) is None
    assert "where it is" in reported[-1]
    assert not sidecar_folder().exists()


def test_removing_the_layer_stops_the_copy(server, reported, monkeypatch):
    from napari_ngff.viewer.services.window import Window

    model = opened(url(server, "0.5.ome.zarr"))
    layer = model.layers["nuclei"]
    waiting = []
    monkeypatch.setattr(Window.current, "run", lambda *task: waiting.append(task))
    copy = edit_copy(model, layer)
    model.layers.remove(layer)
    ((work, done),) = waiting
    done(work())
    assert copy.made is None
    assert not list(sidecar_folder().rglob("*"))


def test_an_archive_and_a_field_of_a_plate(samples, tmp_path, reported):
    pack_hierarchy(samples / "0.5.ome.zarr", tmp_path / "cells.ozx")
    layer = painted(tmp_path / "cells.ozx", sidecar=True)
    assert (tmp_path / "cells.ozx.labels.ome.zarr" / "mine").is_dir()
    again = opened(tmp_path / "cells.ozx").layers["mine"]
    np.testing.assert_array_equal(whole(again), whole(layer))
    plate = shutil.copytree(samples / "plate.ome.zarr", tmp_path / "plate.ome.zarr")
    field = next(p.parent for p in sorted(plate.rglob("labels")))
    layer = painted(field, sidecar=True)
    np.testing.assert_array_equal(whole(opened(field).layers["mine"]), whole(layer))
    others = [p.parent for p in sorted(plate.rglob("labels")) if p.parent != field]
    assert "mine" not in [one.name for one in opened(others[0]).layers]
    before = whole(layer)
    assert main(["merge", str(tmp_path / "plate.labels.ome.zarr"), "--remove"]) == 0
    np.testing.assert_array_equal(whole(opened(field).layers["mine"]), before)
    assert main(["check", str(plate)]) == 0


def test_a_folder_of_the_users_and_names_that_are_taken(samples, tmp_path, reported):
    path = shutil.copytree(samples / "0.5.ome.zarr", tmp_path / "a.ome.zarr")
    chosen = tmp_path / "mine"
    layer = painted(path, sidecar=chosen)
    assert Path(layer.metadata[TARGET].home.source.name).parent == chosen
    model = opened(path)
    assert "mine" in model.layers
    for taken in ("mine", "nuclei"):
        with pytest.raises(ValueError, match="already"):
            new_labels(model.layers[0], taken, sidecar=chosen)
    second = new_labels(model.layers[0], sidecar=True)
    model.add_layer(second)
    second.name = "other"  # renamed before it is saved
    second.paint((0, 9, 9), 1)
    assert second.saver.save_now()
    (place,) = chosen.iterdir()  # the one that there was
    assert {"mine", "other"} <= set(os.listdir(place))
    assert {"mine", "other"} <= {one.name for one in opened(path).layers}


def test_what_was_not_saved_is_recovered(server, reported):
    address = url(server, "0.5.ome.zarr")
    painted(address)
    first = opened(address).layers["mine"]
    first.paint((1, 40, 40), 8)
    wanted = whole(first)
    first.saver.journal.close()  # as when napari ends
    again = opened(address).layers["mine"]
    (folder,) = journals_of(again.saver)
    again.saver.take_over(open_journal(again.saver, folder))
    np.testing.assert_array_equal(whole(again), wanted)
    assert again.saver.save_now()
    np.testing.assert_array_equal(whole(opened(address).layers["mine"]), wanted)
