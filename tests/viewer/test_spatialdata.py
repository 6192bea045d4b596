"""Stores of SpatialData: where their images lie, and what can be chosen."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer

from napari_ngff.errors import NotOMEZarrError, UnsupportedError
from napari_ngff.metadata.model import Reference
from napari_ngff.viewer import reader
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.session import session_of
from spatialdata_store import CYX, alternative, write_store

SHEAR = [[1, 0, 0, 0], [0, 1, 0.5, 5], [0, 0, 1, 7]]


def opened(folder):
    viewer = ViewerModel()
    for data in reader.read_paths(str(folder)):
        viewer.add_layer(Layer.create(*data))
    return viewer


def corner(viewer):
    """Return where the voxel (10, 20) of the first layer lies."""
    return viewer.layers[0].data_to_world((10, 20))


def test_several_systems_are_alternatives_that_can_be_chosen(tmp_path):
    viewer = opened(write_store(tmp_path / "a.zarr") / "images/im")
    np.testing.assert_allclose(corner(viewer), [5, 10])
    session = session_of(viewer)
    names = [system.name for system in session.systems()]
    assert names == ["cyx", "global", "aligned"]
    place = "images/im"
    assert session.show_system(Reference(place, "aligned")) == ()
    np.testing.assert_allclose(corner(viewer), [2, 4])
    assert session.show_system(Reference(place, "cyx")) == ()
    np.testing.assert_allclose(corner(viewer), [10, 20])


def test_global_comes_first_wherever_it_is_listed(tmp_path):
    steps = [
        {"type": "scale", "scale": [1.0, 0.5, 0.5]},
        {"type": "translation", "translation": [0.0, 3.0, 4.0]},
    ]
    ways = [
        alternative(CYX, "aligned", type="scale", scale=[1.0, 0.2, 0.2]),
        alternative(CYX, "global", type="sequence", transformations=steps),
    ]
    viewer = opened(write_store(tmp_path / "a.zarr", ways) / "images/im")
    np.testing.assert_allclose(corner(viewer), [8, 14])


@pytest.mark.parametrize("others", [(), ("aligned",)])
def test_an_affine_alternative_is_applied(tmp_path, others):
    ways = [alternative(CYX, "global", type="affine", affine=SHEAR)]
    ways += [alternative(CYX, name, type="identity") for name in others]
    viewer = opened(write_store(tmp_path / "a.zarr", ways) / "images/im")
    np.testing.assert_allclose(corner(viewer), [25, 27])


def test_one_system_is_the_size_of_a_voxel(tmp_path):
    ways = [alternative(CYX, "global", type="scale", scale=[1.0, 0.5, 0.5])]
    store = write_store(tmp_path / "a.zarr", ways)
    viewer = opened(store / "images/im")
    np.testing.assert_allclose(viewer.layers[0].scale, [0.5, 0.5])
    viewer = opened(store / "labels/cells")
    np.testing.assert_allclose(corner(viewer), [5, 10])


def test_labels_alone_lie_in_their_first_system(tmp_path):
    store = write_store(tmp_path / "a.zarr")
    document = store / "labels/cells/zarr.json"
    before = '[{"type": "scale", "scale": [0.5, 0.5]'
    after = '[{"type": "affine", "affine": [[1, 0.5, 3], [0, 1, 0]]'
    assert before in document.read_text()
    document.write_text(document.read_text().replace(before, after))
    np.testing.assert_allclose(corner(opened(store / "labels/cells")), [23, 20])


def test_transformations_of_spatialdata_are_not_overwritten(tmp_path):
    store = write_store(tmp_path / "a.zarr")
    before = (store / "images/im/zarr.json").read_bytes()
    viewer = opened(store / "images/im")
    viewer.layers[0].translate = [3, 4]
    with pytest.raises(UnsupportedError, match="element of SpatialData"):
        session_of(viewer).save_transform(viewer.layers[0], "mine")
    assert (store / "images/im/zarr.json").read_bytes() == before


def test_the_images_of_a_store_are_named(tmp_path):
    store = write_store(tmp_path / "a.zarr")
    with pytest.raises(NotOMEZarrError, match=r"in it: images/im, labels/cells\.$"):
        reader.read_paths(str(store))
    with pytest.raises(NotOMEZarrError, match=r"in it: im\.$"):
        reader.read_paths(str(store / "images"))


def test_labels_of_an_element_go_beside_the_store(tmp_path):
    """spatialdata refuses a whole store for a group that it does not know in it."""
    store = write_store(tmp_path / "a.zarr")
    before = sorted(store.rglob("*"))
    viewer = opened(store / "images/im")
    labels = new_labels(viewer.layers[0], "mine")
    labels.paint((10, 20), 5)
    assert labels.saver.save_now()
    assert sorted(store.rglob("*")) == before
    assert (tmp_path / "a.zarr.labels.ome.zarr").is_dir()
    with pytest.raises(UnsupportedError, match="Keep them in a sidecar"):
        new_labels(viewer.layers[0], "other", sidecar=False)
    again = opened(store / "images/im")
    mine = again.layers["mine"]
    assert np.asarray(mine.data[0])[10, 20] == 5
    np.testing.assert_allclose(mine.data_to_world((10, 20)), (5, 10))
