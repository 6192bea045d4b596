"""Into 3D and back: section and camera of 2D stay as they were."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_ngff.labels.canvas import Canvas
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.bridge.view_volume import view_in_3d
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.session import session_of
from painting import pyramid
from plates import pixels, write_image, write_plate

SHAPE = 3, 20, 40, 60
COARSER = (3, 10, 20, 30), (3, 5, 10, 15)
PLACE = {"scale": (1, 4, 0.5, 0.5), "translate": (0, 3, 1, 2)}


@pytest.fixture
def viewer():
    """Show a stack in time at t 1 and z 14, closely, with the session of its layers."""
    viewer = ViewerModel()
    session_of(viewer)
    labels = np.random.default_rng(0).integers(0, 6, SHAPE).astype("u2")
    canvas = Canvas(pyramid(labels, COARSER))
    viewer.add_layer(OMEZarrLabels(canvas, name="nuclei", **PLACE))
    viewer.dims.current_step = (1, 14, 0, 0)
    viewer.scene.camera.center, viewer.scene.camera.zoom = (0, 7.5, 21), 9.5
    return viewer


def view_of(viewer):
    camera, dims = viewer.scene.camera, viewer.dims
    return dims.order, dims.point, camera.center, camera.zoom


def look_around(viewer):
    """Turn, move and zoom the camera, as one does in 3D."""
    camera = viewer.scene.camera
    camera.angles, camera.zoom = (10, 40, -20), camera.zoom * 3
    camera.center = (camera.center[0] - 17, camera.center[1] + 2, 5)


def there_and_back(viewer):
    viewer.dims.ndisplay = 3
    look_around(viewer)
    viewer.dims.ndisplay = 2


@pytest.mark.parametrize("synced", [True, False])
def test_section_and_camera_are_those_of_before(viewer, synced):
    viewer.scene.camera.synced = synced
    for step in (14, 2):
        viewer.dims.set_current_step(1, step)
        before = view_of(viewer)
        there_and_back(viewer)
        assert view_of(viewer) == before


def test_no_other_section_is_sliced_on_the_way(viewer):
    viewer.dims.ndisplay = 3
    look_around(viewer)
    points = []
    viewer.dims.events.point.connect(lambda: points.append(viewer.dims.point))
    viewer.dims.ndisplay = 2
    assert not points


def test_a_region_in_3d_leaves_them(viewer):
    (layer,) = viewer.layers
    before, steps = view_of(viewer), viewer.dims.current_step
    for level in (0, 2):
        view_in_3d(viewer, [layer], ((0, 3), (3, 9), (4, 20), (10, 50)), level)
        look_around(viewer)
        viewer.dims.ndisplay = 2
        assert view_of(viewer) == before
        assert viewer.dims.current_step == steps


def test_rolled_and_transposed_axes_stay(viewer):
    for change in (viewer.dims.roll, viewer.dims.transpose):
        change()
        viewer.dims.current_step = (2, 13, 33, 7)
        viewer.scene.camera.center, viewer.scene.camera.zoom = (0, 8, 9), 4.25
        before = view_of(viewer)
        there_and_back(viewer)
        assert view_of(viewer) == before


def test_layers_of_other_scales_move_nothing(viewer):
    fine = Image(
        np.zeros((40, 64, 64), "u1"), scale=(0.3, 0.2, 0.2), translate=(9, 0, 0)
    )
    viewer.add_layer(fine)
    viewer.dims.set_point(1, 31.7)
    before = view_of(viewer)
    there_and_back(viewer)
    assert view_of(viewer) == before


def test_sliders_that_the_user_moves_in_3d_stay_there(viewer):
    _, _, center, zoom = view_of(viewer)
    viewer.dims.ndisplay = 3
    viewer.dims.set_current_step(0, 2)
    look_around(viewer)
    viewer.dims.set_current_step(1, 5)  # by a script: it has no slider in 3D
    viewer.dims.ndisplay = 2
    assert viewer.dims.current_step[:2] == (2, 5)
    assert view_of(viewer)[2:] == (center, zoom)


def is_in_view(viewer, layer):
    """Return whether the middle of a layer is on the canvas."""
    camera, size = viewer.scene.camera, np.array(viewer.canvas.size)
    middle = layer.extent.world.mean(axis=0)[list(viewer.dims.displayed)]
    off = np.abs(middle - camera.center[-2:]) * camera.zoom
    return bool((off < size / 2).all())


def test_axes_that_the_user_rolls_in_3d_are_brought_in_view(viewer):
    viewer.scene.camera.center = (0, 500, 500)
    viewer.dims.ndisplay = 3
    viewer.dims.roll()
    look_around(viewer)
    order, point, *_ = view_of(viewer)
    viewer.dims.ndisplay = 2
    assert view_of(viewer)[:2] == (order, point)
    assert is_in_view(viewer, viewer.layers[0])


def test_other_layers_are_brought_in_view(viewer):
    viewer.dims.ndisplay = 3
    viewer.layers.clear()
    canvas = Canvas(pyramid(np.ones(SHAPE, "u2"), COARSER))
    far = viewer.add_layer(OMEZarrLabels(canvas, translate=(0, 0, 900, 900)))
    viewer.dims.ndisplay = 2
    assert is_in_view(viewer, far)


def test_a_viewer_that_began_in_3d_keeps_its_section():
    viewer = ViewerModel(ndisplay=3)
    session_of(viewer)
    canvas = Canvas(pyramid(np.ones(SHAPE, "u2"), COARSER))
    viewer.add_layer(OMEZarrLabels(canvas, **PLACE))
    viewer.dims.set_current_step(1, 4)
    look_around(viewer)
    viewer.dims.ndisplay = 2
    assert viewer.dims.current_step[1] == 4


def test_layers_of_others_alone_are_left_to_napari():
    viewer, plain = ViewerModel(), ViewerModel()
    session_of(viewer)
    for one in (viewer, plain):
        one.add_image(np.zeros((20, 40, 60), "u1"))
        one.dims.set_current_step(0, 14)
        there_and_back(one)
    assert view_of(viewer) == view_of(plain)
    assert viewer.dims.current_step[0] != 14


@pytest.fixture
def browser(tmp_path):
    """Show the first field of a plate of stacks at z 3, closely."""
    root = write_plate(tmp_path / "p", grid=(1, 1), fields=2, shape=(1, 16, 16))
    for field, corner in enumerate(((0, 0), (0, 16))):
        stack = pixels(field, (6, 16, 16))
        write_image(root / "A/1" / str(field), stack, 3, "zyx", corner=corner)
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.viewer_of_test = viewer
    browser.show_field("A/1", "0")
    viewer.dims.set_current_step(0, 3)
    viewer.scene.camera.center, viewer.scene.camera.zoom = (0, 2.5, 3.5), 42.0
    return browser


def test_the_next_field_of_a_plate_is_seen_at_the_same_place(browser):
    viewer = browser.viewer_of_test
    there_and_back(viewer)
    (layer,) = viewer.layers
    corner = np.array(layer.data_to_world((0, 0, 0)))
    viewer.dims.ndisplay = 3
    look_around(viewer)
    browser.show_field("A/1", "1")
    (layer,) = viewer.layers
    shift = np.array(layer.data_to_world((0, 0, 0))) - corner
    assert shift.tolist() == [0, 0, 8]
    viewer.dims.ndisplay = 2
    assert viewer.dims.current_step[0] == 3
    assert viewer.scene.camera.center == (0, 2.5, 11.5)
    assert viewer.scene.camera.zoom == 42
