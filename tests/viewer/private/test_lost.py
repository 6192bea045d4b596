"""Where napari lacks a private name, the user is told, and the rest works.

And what napari calls has the names of arguments that napari calls it by."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import SimpleNamespace

import napari
import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer
from napari.utils.notifications import notification_manager

import napari_ngff
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.testing import write_stack
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted_layers import as_layers
from napari_ngff.viewer.private import lost, slicing
from napari_ngff.viewer.private import napari_layers as private_layers
from napari_ngff.viewer.private import napari_window as private_window
from napari_ngff.viewer.reader import read_node
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming.streamed_values import ValueGuard


def classes_of_package():
    """Give all classes of the package that build on a class of napari."""
    found = {}
    for module in pkgutil.walk_packages(napari_ngff.__path__, "napari_ngff."):
        if module.name.rpartition(".")[2] == "__main__":
            continue
        for name, item in vars(importlib.import_module(module.name)).items():
            is_own = inspect.isclass(item) and item.__module__ == module.name
            if is_own and napari_bases(item):
                found[name] = item
    return found


def napari_bases(item):
    return [base for base in item.__mro__ if base.__module__.startswith("napari.")]


def names_of(function):
    """Give the names by which arguments can be passed, and whether any name can."""
    parameters = inspect.signature(function).parameters.values()
    kinds = inspect.Parameter
    names = [
        one.name
        for one in parameters
        if one.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    ]
    return names, any(one.kind is kinds.VAR_KEYWORD for one in parameters)


def replaced_methods():
    for name, item in sorted(classes_of_package().items()):
        for method, function in vars(item).items():
            # Python calls methods such as `__getitem__`, and by position.
            if not inspect.isfunction(function) or method.startswith("__"):
                continue
            for base in napari_bases(item):
                original = vars(base).get(method)
                if inspect.isfunction(original):
                    yield f"{name}.{method}", function, original
                    break


REPLACED = list(replaced_methods())


def test_methods_of_napari_are_replaced_somewhere():
    assert len(REPLACED) > 5


@pytest.mark.parametrize(
    ("function", "original"),
    [pytest.param(*pair, id=name) for name, *pair in REPLACED],
)
def test_a_replaced_method_has_the_names_of_its_arguments(function, original):
    names, takes_any = names_of(function)
    wanted, _ = names_of(original)
    assert takes_any or not set(wanted) - set(names)


@pytest.mark.parametrize("method", ["_get_value", "_get_value_ray"])
def test_values_of_streamed_images_too(method):
    ours = {"_get_value": "get_value", "_get_value_ray": "get_ray_value"}[method]
    wanted, _ = names_of(getattr(Image, method))
    names = names_of(getattr(ValueGuard, ours))[0]
    assert [name for name in names if name != "usual"] == wanted


def test_labels_under_the_mouse_in_3d(tmp_path):
    viewer = ViewerModel()
    path = write_stack(tmp_path / "s.ome.zarr", shape=(8, 48, 48))
    session_of(viewer).add(read_node(open_node(path)), str(path))
    viewer.dims.ndisplay = 3
    layer = viewer.layers["cells"]
    layer.visible = True
    middle = np.array(layer.extent.world).mean(axis=0)
    value = layer.get_value(
        middle,
        view_direction=np.array([1.0, 0, 0]),
        dims_displayed=[0, 1, 2],
        world=True,
    )
    assert value is not None


@pytest.fixture
def told():
    """Give the texts of all notifications; what was lost is forgotten at the end."""
    lost.find_lost.cache_clear()
    with notification_manager:
        before = len(notification_manager.records)
        yield lambda: [
            str(record.message) for record in notification_manager.records[before:]
        ]
    lost.lost.clear()
    lost.find_lost.cache_clear()


class Changed:
    """A layer, a viewer or anything else of a napari that was changed inside."""

    ndim, dtype, affine, multiscale = 3, np.dtype("u1"), "affine", True
    layers = mode = level_shapes = source = None


USES = {
    "hold_refresh": 1,
    "drawn_values": 1,
    "forget_thumbnail": 1,
    "is_blank": 1,
    "painted_axes": 1,
    "shown_axes": 1,
    "texture_type_of": 1,
    "tile_transform": 1,
    "world_transform": 1,
    "texture_values": 2,
    "replace_values": 3,
    "replace_requests": 2,
}


@pytest.mark.parametrize("name", USES)
def test_a_lost_name_of_layers_is_told_once(name, told):
    use = getattr(private_layers, name)
    for _ in range(3):
        use(*[Changed()] * USES[name])
    (text,) = told()
    first, second = text.split("\n")
    assert first.endswith(".")
    assert f"napari {napari.__version__} has changed" in second


def test_axes_are_guessed_where_napari_hides_them(told):
    assert private_layers.shown_axes(Changed()) == [1, 2]


def test_a_window_of_another_napari_is_told(told):
    assert private_window.qt_window_of(SimpleNamespace(window=Changed())) is None
    assert private_window.qt_viewer_of(ViewerModel()) is None
    assert len(told()) == 1


def test_a_module_that_is_gone_is_told(told):
    found = lost.import_private("napari.layers._gone:_Request", "Nothing is drawn.")
    assert type(found) is type
    assert told()[0].startswith("Nothing is drawn.")


def test_opening_by_the_user_is_found_by_what_calls(told):
    class Window:
        def _qt_open(self):
            return private_window.is_opened_by_user(viewer)

    viewer = SimpleNamespace(window=SimpleNamespace(_qt_viewer=Window()))
    assert Window()._qt_open()
    assert not private_window.is_opened_by_user(viewer)
    assert not told()
    changed = SimpleNamespace(window=SimpleNamespace(_qt_viewer=Changed()))
    assert not private_window.is_opened_by_user(changed)
    assert told()[0].startswith("Files are opened while the window waits.")


def test_another_way_of_slicing_is_told(told, monkeypatch):
    slicing.check_slicing.__wrapped__()
    assert not told()
    # The same, but not by the function that is known.
    monkeypatch.setattr(
        slicing.LabelsSlicing.__mro__[-3],
        "set_view_slice",
        lambda state: state._set_view_slice(),
    )
    slicing.check_slicing.__wrapped__()
    assert [text.split("\n")[0] for text in told()] == [slicing.READS]


def test_labels_are_shown_where_they_cannot_be_painted(told, monkeypatch, tmp_path):
    monkeypatch.setitem(lost._relied_on, OMEZarrLabels, ("_renamed_by_napari",))
    path = write_stack(tmp_path / "s.ome.zarr", shape=(2, 48, 48))
    viewer = ViewerModel()
    for data in as_layers(read_node(open_node(path))):
        viewer.add_layer(data if isinstance(data, Layer) else Layer.create(*data))
    labels = viewer.layers["cells"]
    assert type(labels) is Labels
    assert not labels.editable
    assert np.asarray(labels.data[0]).any()
    (text,) = told()
    assert text.startswith("Labels cannot be painted.")
    assert "_renamed_by_napari" in text
