"""Labels of a file get their saver; what a killed process left is finished first."""

import subprocess
import sys

import numpy as np
from napari.components import ViewerModel

from napari_ngff.plugin import get_reader
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image

KILLED = """
import errno, os, signal, sys
import numpy as np
from napari_ngff.labels.saving.retype_array import retype_arrays
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.write import exchange
from napari_ngff.store.sources.folder_store import FolderTransaction

exchange._call_rename = lambda *_: errno.ENOSYS  # as on a network drive
rename = os.rename

def rename_and_die(old, new, *_, **__):
    rename(old, new)
    if new.endswith("/old"):
        os.kill(os.getpid(), signal.SIGKILL)

os.rename = rename_and_die
transaction = FolderTransaction(sys.argv[1])
source = transaction.source
arrays = [open_array(source, f"labels/nuclei/{i}") for i in range(2)]
retype_arrays(arrays, np.dtype("i8"), transaction)
"""


def nuclei_of(path):
    model = ViewerModel()
    for layer in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    return next(layer for layer in model.layers if layer.name.endswith("nuclei"))


def test_a_level_between_two_renames_comes_back_and_is_not_left_behind(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(64, 96))
    before = [np.asarray(level) for level in nuclei_of(path).data]
    command = [sys.executable, "-c", KILLED, str(path)]
    assert subprocess.run(command, check=False).returncode < 0
    assert not (path / "labels/nuclei/1").exists()

    layer = nuclei_of(path)
    assert "Open the labels again" in layer.read_only
    assert not layer.editable

    layer = nuclei_of(path)
    assert layer.read_only == ""
    assert layer.editable
    for level, wanted in zip(layer.data, before, strict=True):
        np.testing.assert_array_equal(np.asarray(level), wanted)
    assert not list(path.rglob(".*.aside"))
