"""What a conversion visits: unlisted labels, unknown groups, scenes and tables."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

import napari_ngff
import scenes
from napari_ngff import convert
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.testing import write_image, write_plate

NEWER = {"0.4": "0.5", "0.5": "0.4"}

OLD = {"0.4": (".zgroup", ".zattrs"), "0.5": ("zarr.json",)}
"""Documents of groups of a version."""


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def pixels_of(path, name: str) -> np.ndarray:
    return np.asarray(zarr.open_group(str(path), mode="r")[name][...])


def change_attributes(group: Path, change) -> None:
    path = group / ".zattrs" if (group / ".zattrs").exists() else group / "zarr.json"
    document = json.loads(path.read_text())
    attributes = document if path.name == ".zattrs" else document["attributes"]
    change(attributes.get("ome", attributes))
    path.write_text(json.dumps(document))


# --- what no metadata names


@pytest.mark.parametrize("asked", [{}, {"codec": "gzip", "crop": "x=100:200"}])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_that_are_not_listed_are_copied(tmp_path, version, asked) -> None:
    source = write_image(tmp_path / "a.ome.zarr", version, shape=(300, 520))
    change_attributes(source / "labels", lambda ome: ome.update(labels=["nuclei"]))
    made = tmp_path / "made.ome.zarr"
    result = convert(source, made, to_version=NEWER[version], **asked)
    assert result.problems == ()
    assert files_below(made / "labels/cells") == files_below(source / "labels/cells")
    assert list(napari_ngff.open(made).labels) == ["nuclei"]
    # One that is listed and is not there is told, and the rest is made.
    change_attributes(
        source / "labels", lambda ome: ome.update(labels=["nuclei", "ghosts"])
    )
    result = convert(source, made, to_version=NEWER[version], overwrite=True, **asked)
    assert ["ghosts" in problem for problem in result.problems] == [True]


@pytest.mark.parametrize("to_version", ["0.4", "0.5"])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_that_are_shown_without_a_list_are_listed(
    tmp_path, version, to_version
) -> None:
    source = write_image(tmp_path / "a.ome.zarr", version, shape=(300, 520))
    change_attributes(source / "labels", lambda ome: ome.pop("labels"))
    (source / "labels" / "notes").mkdir()
    shown = sorted(napari_ngff.open(source).labels)
    assert shown == ["cells", "nuclei"]
    made = tmp_path / "made.ome.zarr"
    assert convert(source, made, to_version=to_version).problems == ()
    listed = open_node(made).child("labels").metadata.labels
    assert sorted(listed) == shown


@pytest.mark.default_cases(
    *(
        f"colored{case}-described{case}-{version}-{to_version}"
        for case in range(4)
        for at, version in enumerate(("0.4", "0.5"))
        for then, to_version in enumerate(("0.4", "0.5", "0.6"))
        if (case + at + then) % 2 == 0  # each with each version
    )
)
@pytest.mark.parametrize("to_version", ["0.4", "0.5", "0.6"])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize(
    ("colored", "described"), [([1, 2], [2, 5]), ([3.0], [1, 2]), ([1], [1]), ([], [4])]
)
def test_colours_and_properties_name_the_same_labels(
    tmp_path, version, to_version, colored, described
) -> None:
    def describe(ome) -> None:
        ome["image-label"]["colors"] = [
            {"label-value": value, "rgba": [9, 8, 7, 255]} for value in colored
        ]
        ome["image-label"]["properties"] = [
            {"label-value": value, "area": 5} for value in described
        ]

    source = write_image(tmp_path / "a.ome.zarr", version, shape=(300, 520))
    change_attributes(source / "labels" / "cells", describe)
    made = tmp_path / "made.ome.zarr"
    convert(source, made, to_version=to_version)
    label = open_node(made).child("labels/cells").attributes
    label = label.get("ome", label)["image-label"]
    colors, properties = (
        {entry["label-value"]: entry for entry in label[key]}
        for key in ("colors", "properties")
    )
    wanted = {*colored, *described}
    assert set(properties) == wanted
    assert set(colors) == (wanted if colored else set())
    assert all(colors[value]["rgba"] == [9, 8, 7, 255] for value in colored)
    assert all(properties[value]["area"] == 5 for value in described)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("to_version", ["0.4", "0.5"])
def test_links_that_state_identity_to_own_labels(
    tmp_path, to_version, backwards
) -> None:
    source = write_image(tmp_path / "a.ome.zarr", "0.6", shape=(300, 520))
    ends = [{"name": "intrinsic"}, {"name": "intrinsic", "path": "labels/cells"}]
    link = {"type": "identity", "input": ends[backwards], "output": ends[not backwards]}

    def state(ome) -> None:
        ome["multiscales"][0]["coordinateTransformations"] = [link]

    change_attributes(source, state)
    assert open_node(source).metadata.image.multiscales[0].links
    made = tmp_path / "made.ome.zarr"
    assert convert(source, made, to_version=to_version).problems == ()
    assert list(napari_ngff.open(made).labels) == list(napari_ngff.open(source).labels)
    # Labels that do not lie over their image cannot be stated.
    link |= {"type": "translation", "translation": [0, 5]}
    change_attributes(source, state)
    with pytest.raises(ValueError, match="links"):
        convert(source, tmp_path / "other.ome.zarr", to_version=to_version)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_unknown_groups_and_files_are_copied(tmp_path, version) -> None:
    plate = write_plate(tmp_path / "plate.ome.zarr", version, grid=(1, 1))
    unknown = ("mine", "A/mine", "A/1/mine", "A/1/0/mine", "A/1/0/labels/mine")
    for place in unknown:
        (plate / place / "deep").mkdir(parents=True)
        zarr.create_array(
            str(plate / place / "array"),
            data=np.arange(12).reshape(3, 4),
            chunks=(2, 2),
            zarr_format=3 if version == "0.4" else 2,
        )
        (plate / place / "deep/.hidden").write_bytes(bytes(range(256)))
        (plate / f"{place}.txt").write_text(place)
    made = tmp_path / "made.ome.zarr"
    result = convert(plate, made, to_version=NEWER[version])
    assert result.problems == ()
    for place in unknown:
        assert files_below(made / place) == files_below(plate / place)
        assert (made / f"{place}.txt").read_text() == place


def test_groups_between_are_converted(tmp_path) -> None:
    source = write_image(tmp_path / "a.ome.zarr", "0.4", shape=(300, 520))
    (source / "pixels").mkdir()
    (source / "pixels/.zgroup").write_text('{"zarr_format": 2}')
    (source / "pixels/.zattrs").write_text('{"mine": 1}')
    (source / "pixels/notes.txt").write_text("by hand")
    pixels = pixels_of(source, "0")
    for name in "012":
        (source / name).rename(source / "pixels" / name)

    def move(ome) -> None:
        for dataset in ome["multiscales"][0]["datasets"]:
            dataset["path"] = f"pixels/{dataset['path']}"

    change_attributes(source, move)
    made = tmp_path / "made.ome.zarr"
    convert(source, made)
    document = json.loads((made / "pixels/zarr.json").read_text())
    assert document["attributes"] == {"mine": 1}
    assert (made / "pixels/notes.txt").read_text() == "by hand"
    assert not (made / "pixels/.zgroup").exists()
    assert np.array_equal(pixels_of(made, "pixels/0"), pixels)
    assert napari_ngff.check(made) == []


def test_names_of_dimensions_are_added(tmp_path) -> None:
    source = write_image(tmp_path / "a.ome.zarr", "0.6", shape=(64, 64))
    path = source / "0/zarr.json"
    document = json.loads(path.read_text())
    del document["dimension_names"]
    path.write_text(json.dumps(document))
    made = tmp_path / "made.ome.zarr"
    convert(source, made, to_version="0.5")
    names = json.loads((made / "0/zarr.json").read_text())["dimension_names"]
    assert names == list(napari_ngff.open(made).axes)
    assert napari_ngff.check(made) == []


# --- scenes


@pytest.fixture
def scene(tmp_path) -> Path:
    """Two images, and fields of vectors between them."""
    folder = tmp_path / "scene.ome.zarr"
    scenes.registered_scene(folder)
    for name, first in (("a", 1), ("b", 5000)):
        scenes.image(folder / name, "yx", scenes.numbered(40, 40, first=first))
    ids = scenes.numbered(40, 40, dtype="u4")
    scenes.labelled(folder / "a", {"nuclei": ("yx", ids, {})})
    return folder


@pytest.mark.parametrize("asked", [{}, {"codec": "gzip"}, {"shards": "auto"}])
def test_a_scene_and_its_fields(scene, tmp_path, asked) -> None:
    made = tmp_path / "made.ome.zarr"
    result = convert(scene, made, to_version="0.6", **asked)
    assert result.problems == ()
    assert open_node(made).attributes == open_node(scene).attributes
    assert open_node(made).metadata.scene == open_node(scene).metadata.scene
    for name in ("a/0", "b/0", "a/labels/nuclei/0", "t/there", "t/back"):
        assert np.array_equal(pixels_of(made, name), pixels_of(scene, name))
    assert codes_of(made) == codes_of(scene)


def codes_of(path: Path) -> list:
    return [(where, problem.code) for where, problem in napari_ngff.check(path)]


def test_fields_of_vectors_are_not_cropped(scene, tmp_path) -> None:
    # In 0.6 a field is an image; those of drafts, as above, are arrays.
    vectors = pixels_of(scene, "t/there")
    shutil.rmtree(scene / "t/there")
    axes = [{"name": "v", "type": "displacement"}, *scenes.axes("yx")]
    scenes.image(scene / "t/there", "vyx", np.moveaxis(vectors, -1, 0))
    change_attributes(
        scene / "t/there",
        lambda ome: ome["multiscales"][0]["coordinateSystems"][0].update(axes=axes),
    )
    made = tmp_path / "made.ome.zarr"
    asked = {"crop": "x=4:20", "codec": "gzip", "levels": "0"}
    result = convert(scene, made, to_version="0.6", **asked)
    assert result.problems == ()
    assert pixels_of(made, "a/0").shape == (40, 16)
    found = pixels_of(made, "t/there/0")
    assert np.array_equal(found, np.moveaxis(vectors, -1, 0))
    assert np.array_equal(pixels_of(made, "t/back"), pixels_of(scene, "t/back"))


def test_older_versions_have_no_scenes(scene, tmp_path) -> None:
    for version in ("0.4", "0.5"):
        with pytest.raises(ValueError, match=f"{version} cannot state a scene"):
            convert(scene, tmp_path / "made.ome.zarr", to_version=version)
    assert [path.name for path in tmp_path.iterdir()] == [scene.name]


# --- tables


@pytest.mark.filterwarnings(
    "ignore:The 'future.infer_string' option:DeprecationWarning"
)
@pytest.mark.default_cases("csv-0.4", "json-0.5", "anndata-0.4")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("backend", ["csv", "json", "parquet", "anndata"])
def test_tables_of_ngio(tmp_path, version, backend) -> None:
    ngio = pytest.importorskip("ngio")
    pd = pytest.importorskip("pandas")
    if backend in ("parquet", "anndata"):
        pytest.importorskip({"parquet": "pyarrow"}.get(backend, backend))
    from napari_ngff.plate.tables.files import read_listed_table
    from napari_ngff.store.hierarchy.summary import list_tables

    source = write_plate(tmp_path / "plate.ome.zarr", version, grid=(1, 2))
    objects = pd.DataFrame({"label": [1, 5], "area": [3.5, 4.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = ngio.open_ome_zarr_container(str(source / "A/1/0"))
        features = ngio.tables.FeatureTable(objects, reference_label="nuclei")
        image.add_table("objects", features, backend=backend)
    made = tmp_path / "made.ome.zarr"
    convert(source, made, to_version=NEWER[version], codec="gzip")
    place = "A/1/0/tables"
    before, after = files_below(source / place), files_below(made / place)
    documents = ("zarr.json", ".zgroup", ".zattrs")
    kept = {k: v for k, v in before.items() if Path(k).name not in documents}
    assert kept.items() <= after.items()
    field = open_node(made).child("A/1/0")
    assert list_tables(field) == ("objects",)
    found = read_listed_table(field, "objects", {"well": "A/1", "field": "0"})
    assert found.frame["area"].tolist() == [3.5, 4.0]
    if backend == "anndata":  # its arrays stay as they are, which ngio does not find
        parts = {k: v for k, v in before.items() if k.startswith("objects/")}
        assert parts.items() <= after.items()
        return
    assert not [p for p in (made / place).rglob("*") if p.name in OLD[version]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = ngio.open_ome_zarr_container(str(made / "A/1/0"))
        table = image.get_table("objects").dataframe
    assert table["area"].tolist() == [3.5, 4.0]
