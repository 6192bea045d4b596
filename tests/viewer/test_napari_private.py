"""What napari calls has the names of arguments that napari calls it by."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

import napari_ngff
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.testing import write_stack
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
    assert names_of(getattr(ValueGuard, ours))[0] == wanted


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
