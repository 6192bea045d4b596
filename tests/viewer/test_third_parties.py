"""Plugins of others, which know plain arrays only, on a region of an OME-Zarr.

Skipped without them, unless REQUIRE_PLUGINS is set, as `.ci/run` does. pyproject.toml
says which versions.
"""

from __future__ import annotations

import importlib
import os
import warnings

import numpy as np
import pytest
from napari.layers import Image, Labels

from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.bridge.merging import merge
from napari_ngff.viewer.bridge.work import WORK, work_here
from napari_ngff.viewer.painting.paint import OMEZarrLabels
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
    merge(Labels(found), labels, like=work)
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
