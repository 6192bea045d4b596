"""In a window: labels of a file that is not written to get a file of their own."""

import functools
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.samples import write_image
from napari_ngff.widgets.new_labels_form import show_new_labels


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    write_image(folder / "cells.ome.zarr", shape=(120, 140))
    return folder


@pytest.fixture
def folder(sample, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return shutil.copytree(sample, tmp_path / "images")


def opened(viewer, path):
    use_workers()
    viewer.open(str(path), plugin="napari-ngff")
    viewer.layers.selection.active = viewer.layers[0]
    pump(50)


@pytest.mark.long
def test_the_form_offers_the_image_and_files_beside_it(viewer, folder, tmp_path):
    opened(viewer, folder / "cells.ome.zarr")
    form = show_new_labels(viewer)
    assert form.where.value is False
    assert list(form.where.choices) == [False, True, ""]
    form.more.toggleButton().click()
    assert not form.folder.visible
    form.where.value = True
    form.create_labels()
    place = folder / "cells.labels.ome.zarr"
    layer = viewer.layers.selection.active
    layer.paint((20, 20), 4)
    assert layer.saver.save_now()
    label = open_node(place).child(layer.name)
    assert label.metadata.image.label.source == "../../cells.ome.zarr"

    form = show_new_labels(viewer)
    form.more.toggleButton().click()
    form.where.value = ""
    pump(50)
    assert form.folder.visible
    form.create_labels()
    assert form.status.value == "Choose the folder."
    form.folder.value = tmp_path / "mine"
    form.create_labels()
    layer = viewer.layers.selection.active
    layer.paint((20, 20), 4)
    assert layer.saver.save_now()
    assert len(list((tmp_path / "mine").iterdir())) == 1


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def address(folder):
    handler = functools.partial(Handler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/cells.ome.zarr"
        server.shutdown()
        thread.join()


@pytest.mark.long
def test_read_only_labels_are_copied_by_the_button(viewer, address):
    opened(viewer, address)
    form = show_new_labels(viewer)
    assert list(form.where.choices) == [True, ""]
    layer = viewer.layers["nuclei"]
    assert not layer.editable
    viewer.layers.selection.active = layer
    viewer.window._qt_viewer.controls.widgets[layer].saving.copy_button.click()
    until(lambda: viewer.layers["nuclei"] is not layer)
    made = viewer.layers["nuclei"]
    assert viewer.layers.selection.active is made
    assert made.editable
    made.paint((30, 30), 9)
    assert made.saver.save_now()
    names = [one.name for one in viewer.layers]
    viewer.layers.clear()
    opened(viewer, address)
    assert [one.name for one in viewer.layers] == names
    assert np.asarray(viewer.layers["nuclei"].data[0])[30, 30] == 9
