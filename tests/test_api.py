"""The public names: what scripts import, and what `open` gives them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr

import napari_ngff
from judges import container, ngio
from napari_ngff.testing import write_image, write_plate

ROOT = Path(__file__).parents[1]
NAMES = """
AccessError ChunkError Collection ConflictError CorruptDataError Image
LabelImage LoginNeededError Node NodeNotFoundError NotOMEZarrError OMEZarrError
Plate Problem Pyramid Reference ServerError UnsupportedError Well __version__
check convert edit_copy intrinsic_of label_region measure merge merge_sidecar
new_labels open open_node open_pyramid open_systems pack read_layers rebuild
save save_alignment session_of unpack view_in_3d work_here work_size write
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_image(folder / "cells.ome.zarr")
    write_plate(folder / "plate.ome.zarr", grid=(2, 2), fields=2, shape=(64, 64))
    return folder


def test_these_are_the_public_names():
    assert sorted(napari_ngff.__all__) == NAMES.split()
    assert sorted(dir(napari_ngff)) == NAMES.split()
    for name in NAMES.split():
        assert getattr(napari_ngff, name) is not None
    with pytest.raises(AttributeError, match="'open_all'"):
        _ = napari_ngff.open_all


def test_docs_import_public_names_only():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    blocks = re.compile(r"^```py\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    inner = {
        (page.name, line.strip())
        for page in pages
        for block in blocks.findall(page.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if re.match(r"\s*(from|import) napari_ngff\.(?!testing\b)", line)
    }
    assert not inner


def test_opening_loads_neither_napari_nor_qt_nor_what_only_few_need(folder):
    script = (
        "import sys, napari_ngff\n"
        f"image = napari_ngff.open({str(folder / 'cells.ome.zarr')!r})\n"
        "assert image.levels[-1][..., :9, :9].__array__().max() > 0\n"
        "print([m for m in ('dask.array', 'zarr') if m in sys.modules])\n"
        "assert image.levels[-1].max().compute() > 0\n"
        "print([m for m in ('napari', 'qtpy', 'vispy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]", "[]"]


def test_an_image_gives_levels_as_dask_arrays(folder):
    image = napari_ngff.open(folder / "cells.ome.zarr")
    assert type(image) is napari_ngff.Image
    path = folder / "cells.ome.zarr"
    group = zarr.open_group(path, mode="r")
    assert image.axes == ("t", "c", "y", "x")
    for index, level in enumerate(image.levels):
        assert isinstance(level, da.Array)
        assert np.array_equal(level.compute(), group[str(index)][...])
        assert len(image.scales[index]) == len(image.translations[index]) == level.ndim
    assert [channel.label for channel in image.channels]
    assert image.problems == ()
    assert image.version == "0.5"
    assert repr(image) == f"<Image {path}>"


def test_labels_have_properties_and_colours(folder):
    labels = napari_ngff.open(folder / "cells.ome.zarr").labels
    nuclei = labels["nuclei"]
    assert type(nuclei) is napari_ngff.LabelImage
    stored = zarr.open_array(folder / "cells.ome.zarr/labels/nuclei/0", mode="r")[...]
    assert np.array_equal(nuclei.levels[0].compute(), stored)
    again = napari_ngff.open(folder / "cells.ome.zarr/labels/nuclei")
    assert type(again) is napari_ngff.LabelImage
    assert again.colors == nuclei.colors
    listed = napari_ngff.open(folder / "cells.ome.zarr/labels")
    assert type(listed) is napari_ngff.Collection
    assert "nuclei" in listed.images
    assert np.array_equal(listed.images["nuclei"].levels[0].compute(), stored)


def test_a_plate_gives_wells_and_fields(folder):
    plate = napari_ngff.open(folder / "plate.ome.zarr")
    assert type(plate) is napari_ngff.Plate
    assert len(plate.wells) == len(plate.rows) * len(plate.columns) == 4
    path = next(iter(plate.wells))
    well = plate.wells[path]
    assert list(well.fields) == ["0", "1"]
    pixels = well.fields["1"].levels[0]
    stored = zarr.open_array(folder / f"plate.ome.zarr/{path}/1/0", mode="r")[...]
    assert np.array_equal(pixels.compute(), stored)
    with pytest.raises(KeyError):
        plate.wells["Z/99"]
    assert type(napari_ngff.open(folder / "plate.ome.zarr" / path)) is napari_ngff.Well


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (["A/1"], ["A/1"]),
        (["A/2/0"], ["A/2/0"]),
        (["A/1/1", "A/2"], ["A/1/1", "A/2"]),
        (["B", "A/1/0"], ["A/1/0", "B/1", "B/2"]),
    ],
)
def test_a_loop_leaves_out_what_is_listed_and_not_there(
    tmp_path, version, gone, expected
):
    path = write_plate(
        tmp_path / "p.ome.zarr", version, grid=(2, 2), fields=2, shape=(16, 16)
    )
    every = [f"{row}/{column}/{n}" for row in "AB" for column in "12" for n in "01"]
    for one in gone:
        shutil.rmtree(path / one)
    plate = napari_ngff.open(path)
    for _ in range(2):
        found = [
            f"{well}/{field}"
            for well, opened in plate.wells.items()
            for field, image in opened.fields.items()
            if image.levels[-1].shape
        ]
        there = [one for one in every if not one.startswith(tuple(gone))]
        assert found == there
        assert len(plate.wells) == 4
        named = [problem.where.strip(":") for problem in plate.problems]
        assert sorted(named) == sorted(expected)
    assert len(list(plate.wells.values())) == len(dict(plate.wells.items()))


def test_a_zarr_group_is_opened(folder):
    group = zarr.open_group(folder / "cells.ome.zarr", mode="r")
    image = napari_ngff.open(group)
    coarsest = group[str(len(image.levels) - 1)][...]
    assert np.array_equal(image.levels[-1].compute(), coarsest)


def test_nothing_there_is_an_error(tmp_path):
    with pytest.raises(napari_ngff.NodeNotFoundError):
        napari_ngff.open(tmp_path / "missing.ome.zarr")


def test_layers_are_those_that_napari_would_show(folder):
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

    layers = napari_ngff.read_layers(folder / "cells.ome.zarr")
    assert any(isinstance(layer, OMEZarrLabels) for layer in layers)
    assert layers[0].multiscale


@pytest.mark.long
def test_types_are_seen_by_a_type_checker(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(
        "import napari_ngff\n"
        "from napari_ngff import Image, Plate, check\n"
        "opened = napari_ngff.open('cells.ome.zarr')\n"
        "if isinstance(opened, Plate):\n"
        "    opened = opened.wells['A/1'].fields['0']\n"
        "assert isinstance(opened, Image)\n"
        "names: tuple[str, ...] = opened.axes\n"
        "texts: list[str] = [problem.text for _, problem in check('cells.ome.zarr')]\n"
        "reveal_type(opened.scales)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "tuple[tuple[float, ...], ...]" in done.stdout, done.stdout
    assert "error" not in done.stdout, done.stdout


@pytest.fixture(scope="module")
def annotated(tmp_path_factory):
    """An image with what people have made of it: by this package, and by ngio."""
    import pandas as pd

    top = tmp_path_factory.mktemp("annotated")
    folder = write_image(top / "cells.ome.zarr")
    frame = pd.DataFrame({"label": [1, 2, 5], "area": [3.5, 4.0, 9.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = container(folder)
        for backend in ("csv", "parquet", "json", "anndata"):
            table = ngio.tables.FeatureTable(frame, reference_label="nuclei")
            image.add_table(f"of {backend}", table, backend=backend)
        rois = image.build_image_roi_table("whole")
        image.add_table("rois", rois, backend="csv")
        masks = image.build_masking_roi_table("nuclei")
        image.add_table("masks", masks, backend="csv")
    (top / "cells.points").mkdir()
    (top / "cells.points/a%2Fb.csv").write_text("y,x\n1,2\n")
    (top / "cells.shapes").mkdir()
    (top / "cells.shapes/cells.geojson").write_text("{}")
    return folder


def test_tables_have_the_index_that_ngio_gives_them(annotated):
    image, judge = napari_ngff.open(annotated), container(annotated)
    names = ["of csv", "of parquet", "of json", "of anndata", "rois", "masks"]
    assert list(image.tables) == names
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = judge.get_table(name).dataframe
        found = image.tables[name]
        assert found.index.name == expected.index.name
        assert list(found.index) == list(expected.index)
        assert set(found.columns) == set(expected.columns)
    with pytest.raises(KeyError):
        image.tables["none"]


def test_a_damaged_table_says_so_when_it_is_asked_for(annotated, tmp_path):
    folder = shutil.copytree(annotated, tmp_path / "damaged.ome.zarr")
    (file,) = (folder / "tables/of csv").glob("*.csv")
    file.unlink()
    image = napari_ngff.open(folder)
    assert len(image.tables) == 6
    with pytest.raises(napari_ngff.CorruptDataError, match="of csv has no file"):
        image.tables["of csv"]


def test_annotations_of_an_image_are_listed(annotated):
    found = napari_ngff.open(annotated).annotations
    named = [(one.kind, one.name) for one in found]
    labels = [("labels", name) for name in napari_ngff.open(annotated).labels]
    assert labels
    assert named == [
        *labels,
        ("points", "a/b"),
        ("shapes", "cells"),
        ("regions", "rois"),
        ("regions", "masks"),
    ]
    assert all(Path(one.path).exists() for one in found)


def test_regions_beside_an_image_are_listed_in_place_of_its_own(annotated, tmp_path):
    folder = shutil.copytree(annotated, tmp_path / "cells.ome.zarr")
    beside = tmp_path / "cells.regions/rois.json"
    beside.parent.mkdir()
    beside.write_text("{}")
    found = napari_ngff.open(folder).annotations
    regions = {one.name: one.path for one in found if one.kind == "regions"}
    assert regions == {"rois": str(beside), "masks": f"{folder}/tables/masks"}
