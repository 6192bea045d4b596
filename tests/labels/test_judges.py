"""Labels that are saved into and new ones, judged and read by other libraries."""

import json
import warnings
from functools import partial

import numpy as np
import pytest
import zarr

from judges import container, read_by_ome_zarr, validate_models, validate_yaozarrs
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.create_labels import METHOD, create_labels
from napari_ngff.labels.label_classes import LabelClass, with_classes
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.metadata.model import LabelInfo, LabelKind, Severity
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.lazy_array import BlankArray
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.folder_store import FolderStore
from saving import edit, levels_of, read_levels, write_image

SHAPES = ((120, 150), (60, 75), (30, 38))
CHUNKS = (16, 24)
VERSIONS = ["0.4", "0.5", "0.6"]


@pytest.fixture(params=VERSIONS, scope="module")
def version(request):
    return request.param


@pytest.fixture
def image(version, tmp_path):
    """Write an image of zeros with labels named other."""
    return write_image(tmp_path / "a.ome.zarr", SHAPES, CHUNKS, version)


def version_of(image):
    return open_node(image).metadata.version


def paint(canvas, count=9):
    for number in range(count):
        canvas.begin_step()
        canvas.add_edit(edit(number, 4, SHAPES[0]))
        canvas.close_step()


def change(image):
    """Save edits into the labels that are there."""
    source = FolderStore(str(image))
    arrays = [open_array(source, f"labels/other/{level}") for level in range(3)]
    canvas = Canvas([LevelSource(array) for array in arrays])
    paint(canvas)
    return LabelWriter(canvas, BeforeImages(), "mode"), "other"


def widen(image):
    writer, name = change(image)
    writer.canvas.change_dtype(np.dtype("u4"))
    return writer, name


def create(image):
    """Make new labels, of classes."""
    classes = (
        LabelClass(1, "nucleus", (230, 159, 0, 255)),
        LabelClass(2, "debris", (0, 114, 178, 255), locked=True, hidden=True),
    )
    info = with_classes(LabelInfo(kind=LabelKind.CLASSES), classes)
    canvas = Canvas([BlankArray(shape, CHUNKS, np.dtype("u2")) for shape in SHAPES])
    paint(canvas)
    made = create_labels(open_node(image), "new", canvas.dtype)
    files = made.arrays, (0, 1)
    register = partial(made.register, info)
    writer = LabelWriter(canvas, BeforeImages(), METHOD, made.ratios, files, register)
    return writer, "new"


def consolidated(image):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no part of Zarr v3 yet
        zarr.consolidate_metadata(image)


def others(image, name):
    """All files but those of one label image and of what lists it."""
    changed = {"labels/zarr.json", "labels/.zattrs"}
    own = (f"labels/{name}", f"labels/.{name}.")
    return {
        key: path.read_bytes()
        for path in image.rglob("*")
        if path.is_file()
        and not (key := path.relative_to(image).as_posix()).startswith(own)
        and key not in changed
    }


@pytest.fixture(params=[change, widen, create], scope="module")
def saved(request, version, tmp_path_factory):
    """Save once for all who read: the image, the name of its labels and the pixels."""
    folder = tmp_path_factory.mktemp("saved") / "a.ome.zarr"
    image = write_image(folder, SHAPES, CHUNKS, version)
    writer, name = request.param(image)
    before = others(image, name)
    outcome = writer.save()
    assert (outcome.refused, outcome.problems) == ((), ())
    assert outcome.blocks
    assert not writer.has_unsaved
    assert others(image, name) == before
    return image, name, writer.canvas.read(0, tuple((0, n) for n in SHAPES[0]))


def test_our_own_rules_find_no_error(saved):
    image, _, _ = saved
    found = [problem for _, problem in check_hierarchy(open_node(image), pixels=True)]
    assert [p for p in found if p.severity is Severity.ERROR] == []


def test_zarr_reads_every_level(saved):
    image, name, pixels = saved
    levels = levels_of(pixels, SHAPES[1:], "mode")
    for got, want in zip(read_levels(image / "labels" / name, 3), levels, strict=True):
        np.testing.assert_array_equal(got, want)


def test_schemas_accept_it(saved):
    image, name, _ = saved
    from ngff_zarr.validate import validate

    version = version_of(image)
    file = ".zattrs" if version == "0.4" else "zarr.json"
    document = json.loads((image / "labels" / name / file).read_bytes())
    attributes = document if version == "0.4" else document["attributes"]
    for schema in ("label", "image"):
        validate(attributes, version[:3], schema)


@pytest.mark.filterwarnings("ignore")
def test_other_libraries_accept_and_read_it(saved):
    image, name, pixels = saved
    version = version_of(image)
    if version.startswith("0.6"):
        pytest.skip("they do not know this version")
    validate_models(image / "labels" / name, version)
    validate_yaozarrs(image)
    found = read_by_ome_zarr(image)[name]
    for level, want in enumerate(levels_of(pixels, SHAPES[1:], "mode")):
        np.testing.assert_array_equal(found[level], want)
    by_ngio = container(image)
    assert sorted(by_ngio.list_labels()) == sorted({"other", name})
    np.testing.assert_array_equal(by_ngio.get_label(name).get_array(), pixels)


@pytest.mark.default_cases("0.6-change", "0.5-widen", "0.4-create")
@pytest.mark.parametrize("make", [change, widen, create])
def test_consolidated_metadata_are_true(image, make):
    consolidated(image)
    writer, name = make(image)
    writer.save()
    pixels = writer.canvas.read(0, tuple((0, n) for n in SHAPES[0]))
    root = zarr.open_group(image, mode="r", use_consolidated=True)
    found = root[f"labels/{name}/0"]
    assert found.dtype == writer.arrays[0].dtype
    np.testing.assert_array_equal(found[...], pixels)
    labels = root["labels"].attrs
    listed = labels.get("labels") or labels["ome"]["labels"]
    assert sorted(listed) == sorted({"other", name})
