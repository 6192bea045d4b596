"""Plugins of others on layers of an OME-Zarr, or on a region where they need arrays.

Skipped without them, unless REQUIRE_PLUGINS is set, as `.ci/run` does. pyproject.toml
says which versions.
"""

from __future__ import annotations

import importlib
import os
import warnings

import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels, Shapes

from napari_ngff.labels.canvas import Canvas
from napari_ngff.plugin import get_reader
from napari_ngff.viewer.bridge.merge_result import merge
from napari_ngff.viewer.bridge.work_region import WORK, work_here
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image
from painting import pyramid

SHAPE = 3, 240, 320
COARSER = (3, 120, 160), (3, 60, 80)
REGION = (1, 2), (30, 210), (40, 300)
PLACE = {"scale": (1.0, 0.5, 0.5), "translate": (0.0, 7.0, -3.0)}


def plugin(name):
    # They import much that warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if os.environ.get("REQUIRE_PLUGINS"):
            return importlib.import_module(name)
        return pytest.importorskip(name)


@pytest.fixture
def image():
    """Bright discs on a dark ground, of several levels."""
    y, x = np.mgrid[: SHAPE[1], : SHAPE[2]]
    random = np.random.default_rng(0)
    pixels = random.normal(100, 5, SHAPE)
    for top in range(40, 220, 50):
        for left in range(50, 300, 50):
            pixels += 400 * (np.hypot(y - top, x - left) < 12)
    levels = [one.pixels for one in pyramid(pixels.astype("u2"), COARSER)]
    return Image(levels, multiscale=True, name="discs", **PLACE)


@pytest.fixture
def labels():
    canvas = Canvas(pyramid(np.zeros(SHAPE, "u4"), COARSER))
    return OMEZarrLabels(canvas, name="found", **PLACE)


def merged(result, work, labels):
    """Merge what a plugin returned; the labels are its pixels, and nothing else."""
    found = np.asarray(result)
    assert found.shape == work.data.shape
    assert found.max() > 0
    merge(Labels(found), labels, "overwrite", like=work)
    expected = np.zeros(SHAPE, "u4")
    expected[tuple(slice(*span) for span in REGION)] = found
    np.testing.assert_array_equal(np.asarray(labels.canvas.levels[0]), expected)
    labels.undo()
    assert not np.asarray(labels.canvas.levels[0]).any()
    labels.redo()
    return found


@pytest.mark.filterwarnings("ignore")
def test_voronoi_otsu_labelling(image, labels):
    blobs = plugin("napari_segment_blobs_and_things_with_membranes")
    work = work_here(image, REGION)
    found = merged(blobs.voronoi_otsu_labeling(work.data, 3, 1), work, labels)
    assert found.max() == 20
    # Of several levels it takes the coarsest, and planes for one volume.
    whole = blobs.voronoi_otsu_labeling(image.data, 3, 1)
    assert np.asarray(whole).shape == COARSER[-1]


@pytest.mark.filterwarnings("ignore")
def test_watershed_of_simpleitk(image, labels):
    itk = plugin("napari_simpleitk_image_processing")
    work = work_here(image, REGION)
    merged(itk.watershed_otsu_labeling(work.data.astype(float), 3, 1, 10), work, labels)
    with pytest.raises(TypeError):
        itk.threshold_otsu(image.data)


@pytest.mark.filterwarnings("ignore")
def test_region_properties(image, labels):
    plugin("napari_skimage_regionprops")
    from napari_skimage_regionprops._regionprops import regionprops_table

    plane = np.zeros(SHAPE, "u4")
    plane[1, 60:80, 70:100] = 4
    labels.data_setitem(np.nonzero(plane), plane[plane > 0])
    with pytest.raises(ValueError, match="shapes must match"):
        regionprops_table(image.data, labels.data)
    intensity, region = work_here(image, REGION), work_here(labels, REGION)
    table = regionprops_table(intensity.data, region.data)
    assert list(table["label"]) == [4]
    assert list(table["area"]) == [600]
    expected = np.asarray(image.data[0])[1, 60:80, 70:100].mean()
    assert table["mean_intensity"][0] == pytest.approx(expected)
    # What it paints of each object is an image, and lies where the region is.
    assert region.metadata[WORK].box == REGION


@pytest.fixture
def file(tmp_path):
    return write_image(tmp_path / "a.ome.zarr", "0.5", shape=(2, 301, 350))


@pytest.fixture
def viewer(file):
    """Layers of a file of several levels; nothing of its labels is in memory."""
    model = ViewerModel()
    for layer in layers_of(file):
        model.add_layer(layer)
    return model


def layers_of(file):
    opened = get_reader(str(file))(str(file))
    return [as_layer(one) if isinstance(one, tuple) else one for one in opened]


def saved_features(file, name):
    """Read the table of a label image again; its index are the labels."""
    layer = next(one for one in layers_of(file) if one.name == name)
    return layer.features.set_index("index")


@pytest.fixture
def cells(viewer):
    """Its cells, with a stroke that is not saved, and a row for each value."""
    layer = viewer.layers["cells"]
    layer.paint((0, 20, 20), 77)
    rows = np.arange(1, 78)
    layer.features = pd.DataFrame({"index": rows, "label": rows, "area": rows / 2})
    viewer.layers.selection = {layer}
    return layer


def whole(layer):
    level = layer.canvas.levels[0]
    return level.read(tuple((0, size) for size in level.shape))


@pytest.mark.filterwarnings("ignore")
def test_clusters_plotter(viewer, cells, file, qtbot):
    plugin("napari_clusters_plotter")
    from napari_clusters_plotter import PlotterWidget
    from napari_clusters_plotter._new_plotter_widget import _export_cluster_to_layer
    from napari_clusters_plotter._utilities import _get_unique_values

    pixels = whole(cells)
    np.testing.assert_array_equal(_get_unique_values(cells), np.unique(pixels))
    # It moves the camera to an object by this.
    np.testing.assert_array_equal(cells.data == 77, pixels == 77)
    widget = PlotterWidget(viewer)
    qtbot.addWidget(widget)
    assert list(widget.layers) == [cells]
    chosen = cells.features["label"].isin([3, 34]).to_numpy()
    cells.features["MANUAL_CLUSTER_ID"] = pd.Categorical(chosen.astype(int))
    # Its plot (biaplotter 0.4.3) colours nothing until this box is ticked. It takes
    # rows for labels in their order: behind a gap, as before 77, it takes other ones.
    widget.plotting_widget.show_color_overlay = True
    widget.plotting_widget.active_artist.color_indices = chosen.astype(int)
    widget._update_layer_colors(use_color_indices=True)
    colors = [tuple(cells.get_color(value)) for value in (3, 34, 2)]
    assert colors[0] == colors[1] != colors[2]
    found = _export_cluster_to_layer(cells, chosen)
    expected = np.select([pixels == 3, pixels == 34], [1, 2])
    np.testing.assert_array_equal(np.asarray(found.data), expected)
    assert list(found.features["original_label"]) == [3, 34]
    assert cells.saver.save_now()
    table = saved_features(file, "cells")
    assert table["MANUAL_CLUSTER_ID"][[2, 3, 34]].tolist() == [0, 1, 1]


@pytest.mark.filterwarnings("ignore")
def test_crop(viewer, cells):
    crop = plugin("napari_crop._function")
    corners = [(0, 10, 12), (0, 10, 60), (0, 90, 60), (0, 90, 12)]
    box = Shapes([np.array(corners)], shape_type="rectangle", scale=cells.scale)
    ((found, kwargs, kind),) = crop.crop_region(cells, box)
    expected = whole(cells)[:, 10:91, 12:61]
    assert kind == "labels"
    assert (expected == 77).any()
    np.testing.assert_array_equal(np.asarray(found), expected)
    place = np.multiply((0, 10, 12), cells.scale) + cells.translate
    np.testing.assert_allclose(kwargs["translate"], place)
    # Images of several levels, of whatever reader, it cannot crop.
    image = viewer.layers[0]
    with pytest.raises(TypeError):
        crop.crop_region(image, box)
    work = work_here(image, ((0, 2), (5, 105), (0, 80)))
    box.translate = work.translate
    ((found, _, _),) = crop.crop_region(work, box)
    assert found.shape[-2:] == expected.shape[-2:]


@pytest.mark.filterwarnings("ignore")
def test_feature_classifier(viewer, cells, file, qtbot):
    plugin("napari_feature_classifier")
    from napari_feature_classifier.annotator_widget import LabelAnnotator

    # On the layer it colours objects; the value under a click has a level beside it.
    viewer.layers.selection.active = cells
    widget = LabelAnnotator(viewer)
    qtbot.addWidget(widget.native)
    shown = viewer.layers["Annotations"]
    np.testing.assert_array_equal(np.asarray(shown.data[0]), whole(cells))
    assert cells.features["annotations"].isna().all()
    widget.close()
    viewer.layers.remove(shown)
    # On a region objects are annotated by a click.
    work = work_here(cells, ((0, 1), (0, 100), (0, 120)))
    viewer.add_layer(work)
    viewer.layers.selection.active = work
    widget = LabelAnnotator(viewer)
    qtbot.addWidget(widget.native)
    place = np.argwhere(np.asarray(work.data) == 77)[0]

    class Click:
        position = tuple(place * work.scale + work.translate)
        button = 1

    widget.set_class_n(None, 2)
    widget.toggle_label(work, Click())
    rows = work.features.set_index("label")["annotations"]
    assert rows[77] == 2
    assert rows.drop(77).isna().all()
    shown = viewer.layers["Annotations"]
    assert tuple(shown.get_color(77)) != tuple(shown.get_color(1))
    widget.close()
    # Classes for the objects of the layer are saved with it.
    named = cells.features.drop(columns="annotations")
    cells.features = named.assign(annotation=named["label"].map(rows))
    assert cells.saver.save_now()
    assert saved_features(file, "cells")["annotation"][77] == 2
