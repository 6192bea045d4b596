"""Samples are valid OME-Zarr of their version, and their labels fit their pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from judges import validate_models, validate_yaozarrs
from napari_ngff import open_node
from napari_ngff.metadata.version import VERSIONS
from napari_ngff.viewer.samples import (
    cells_path,
    stack_path,
    write_image,
    write_plate,
    write_stack,
)


def attributes(group: zarr.Group):
    return group.attrs.get("ome", group.attrs.asdict())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image(tmp_path_factory.mktemp("image") / "x.zarr", shape=(2, 160, 200))


@pytest.fixture(scope="module")
def plate(tmp_path_factory: pytest.TempPathFactory) -> zarr.Group:
    where = tmp_path_factory.mktemp("plate") / "x.zarr"
    write_plate(where, "0.5", grid=(2, 3), shape=(80, 96))
    return zarr.open_group(where, mode="r")


@pytest.mark.parametrize("version", VERSIONS)
def test_image_of_any_version(tmp_path: Path, version: str):
    where = write_image(tmp_path / "x.zarr", version, shape=(2, 64, 72), chunk=48)
    group = zarr.open_group(where, mode="r")
    old = version <= "0.4"
    assert group.metadata.zarr_format == (2 if old else 3)
    letters = "tczyx" if version <= "0.2" else "tcyx"
    sizes = {"t": 2, "c": 3, "z": 1, "y": 64, "x": 72}
    assert group["0"].shape == tuple(sizes[a] for a in letters)
    assert group["2"].shape[-2:] == (16, 18)
    assert group["labels/nuclei/0"].shape[-2:] == (64, 72)
    if old:
        chunk = "1.2.0.1.1" if version == "0.1" else "/".join("12011"[: len(letters)])
        chunk = chunk if version <= "0.2" else "1/2/1/1"
        assert (where / "0" / chunk).is_file()
    else:
        assert group["0"].metadata.dimension_names == tuple(letters)
        assert group["labels/cells/0"].metadata.dimension_names == ("t", "y", "x")


@pytest.mark.parametrize("write", [write_image, write_stack, write_plate])
def test_options_that_there_are_not_are_refused(tmp_path: Path, write):
    with pytest.raises(TypeError, match="no option channels, seeds"):
        write(tmp_path / "x.zarr", seeds=3, channels=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.default_cases("stack-0.5", "plate-0.1", "plate-0.4", "plate-0.6")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["stack", "plate"])
def test_schemas_accept_every_group(tmp_path: Path, version: str, kind: str):
    judge = pytest.importorskip("ngff_zarr.validate").validate
    where = tmp_path / "x.zarr"
    if kind == "stack":
        write_stack(where, version, shape=(4, 48, 48))
    else:
        write_plate(where, version, grid=(1, 2), fields=1, shape=(48, 48))
    seen = set()
    name = ".zattrs" if version <= "0.4" else "zarr.json"
    for path in where.rglob(name):
        document = json.loads(path.read_bytes())
        document = document if version <= "0.4" else document["attributes"]
        keys = set(document.get("ome", document))
        for key, schema in (("multiscales", "image"), ("plate",) * 2, ("well",) * 2):
            if key in keys:
                judge(document, version, schema, strict=version >= "0.4")
                seen.add(schema)
        if "image-label" in keys and version >= "0.4":
            judge(document, version, "label", strict=True)
            seen.add("label")
    expected = {"image"} if kind == "stack" else {"image", "plate", "well"}
    assert seen >= expected | ({"label"} if version >= "0.4" else set())


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_whole_stores_are_valid(tmp_path: Path, version: str):
    for where in (
        write_image(tmp_path / "image.zarr", version, shape=(64, 64)),
        write_stack(tmp_path / "stack.zarr", version, shape=(4, 48, 48)),
        write_plate(
            tmp_path / "plate.zarr", version, grid=(1, 2), fields=1, shape=(48, 48)
        ),
    ):
        validate_yaozarrs(where)
        validate_models(where, version)


def test_nuclei_lie_in_their_cells_and_are_bright(image: Path):
    group = zarr.open_group(image, mode="r")
    cells, nuclei = group["labels/cells/0"][:], group["labels/nuclei/0"][:]
    inside = nuclei > 0
    assert len(np.unique(nuclei)) > 5
    np.testing.assert_array_equal(cells[inside], nuclei[inside])
    dna, actin = group["0"][:, 0].astype(float), group["0"][:, 1].astype(float)
    assert dna[inside].mean() > 8 * dna[cells == 0].mean()
    assert actin[cells > 0].mean() > 3 * actin[cells == 0].mean()


def test_every_label_has_color_class_and_area(image: Path):
    for name in ("nuclei", "cells"):
        label = zarr.open_group(image / "labels" / name, mode="r")
        block = attributes(label)["image-label"]
        values = np.unique(label["0"][:])
        values = values[values > 0].tolist()
        assert [entry["label-value"] for entry in block["colors"]] == values
        assert [entry["label-value"] for entry in block["properties"]] == values
        assert all(entry["area"] > 0 for entry in block["properties"])
        assert "interphase" in {entry["class"] for entry in block["properties"]}


def test_nuclei_have_no_color_of_a_channel(image: Path):
    """Over the channel of nuclei such labels would not be seen."""
    metadata = open_node(image).metadata.image
    labels = open_node(image / "labels/nuclei").metadata.image.label
    channels = [channel.color for channel in metadata.omero.channels]
    for *color, _ in set(labels.colors.values()):
        for other in channels:
            assert max(abs(a - b) for a, b in zip(color, other, strict=True)) > 100


def test_cells_drift_and_keep_their_values(image: Path):
    first, second = zarr.open_group(image, mode="r")["labels/cells/0"][:]
    interior = np.setdiff1d(first[1:-1, 1:-1], [*first[0], *first[-1], 0])
    interior = np.setdiff1d(interior, [*first[:, 0], *first[:, -1]])
    moves = [
        np.linalg.norm(
            np.argwhere(first == n).mean(0) - np.argwhere(second == n).mean(0)
        )
        for n in interior
    ]
    assert 1 < np.median(moves) < 8


def test_textures_move_with_their_cells(image: Path):
    group = zarr.open_group(image, mode="r")
    nuclei, threads = group["labels/nuclei/0"][:], group["0"][:, 2].astype(float)
    likeness = []
    for value in np.intersect1d(*nuclei)[1:]:
        middles = [np.argwhere(plane == value).mean(0) for plane in nuclei]
        corners = np.round(middles).astype(int) - 24
        if (corners < 0).any() or (corners > np.array(threads.shape[1:]) - 48).any():
            continue
        parts = [
            plane[y : y + 48, x : x + 48].ravel()
            for plane, (y, x) in zip(threads, corners, strict=True)
        ]
        likeness.append(np.corrcoef(*parts)[0, 1])
    assert len(likeness) > 3
    assert np.median(likeness) > 0.75


@pytest.mark.parametrize("seed", range(4))
def test_small_samples_show_cells(tmp_path: Path, seed: int):
    for where in (
        write_image(tmp_path / "image.zarr", shape=(32, 32), seed=seed),
        write_stack(tmp_path / "stack.zarr", shape=(2, 96, 96), seed=seed),
    ):
        for name in ("cells", "nuclei"):
            assert zarr.open_group(where, mode="r")[f"labels/{name}/0"][:].any()


def test_levels_lie_on_each_other(image: Path):
    multiscale = attributes(zarr.open_group(image, mode="r"))["multiscales"][0]
    for k, level in enumerate(multiscale["datasets"]):
        scale, *rest = level["coordinateTransformations"]
        assert scale["scale"][-1] == pytest.approx(0.325 * 2**k)
        offset = rest[0]["translation"][-1] if rest else 0
        assert offset == pytest.approx(0.325 * (2**k - 1) / 2)


def test_coarse_levels_are_mean_and_mode(image: Path):
    group = zarr.open_group(image, mode="r")
    fine = group["0"][0, 0, :2, :2]
    assert group["1"][0, 0, 0, 0] == pytest.approx(fine.mean(), abs=0.6)
    fine, coarse = (group[f"labels/cells/{k}"][0] for k in range(2))
    blocks = fine.reshape(80, 2, 100, 2).swapaxes(1, 2).reshape(80, 100, 4)
    votes = (blocks[..., None] == blocks[..., None, :]).sum(-1)
    mode = (blocks == coarse[..., None]) & (votes == votes.max(-1, keepdims=True))
    assert mode.any(-1).all()


def test_same_seed_same_pixels(tmp_path: Path):
    a, b, c = (
        write_image(tmp_path / f"{k}.zarr", shape=(40, 40), seed=seed)
        for k, seed in enumerate((5, 5, 6))
    )
    pixels = [zarr.open_group(path, mode="r")["0"][:] for path in (a, b, c)]
    np.testing.assert_array_equal(pixels[0], pixels[1])
    assert (pixels[0] != pixels[2]).any()


def test_stack_is_anisotropic_and_dims_with_depth(tmp_path: Path):
    where = write_stack(tmp_path / "x.zarr", shape=(12, 64, 64))
    group = zarr.open_group(where, mode="r")
    level = attributes(group)["multiscales"][0]["datasets"][0]
    assert level["coordinateTransformations"][0]["scale"] == [1, 1, 0.325, 0.325]
    dna, nuclei = group["0"][0].astype(float), group["labels/nuclei/0"][:]
    top, bottom = (dna[half][nuclei[half] > 0].mean() for half in np.s_[:6, 6:])
    assert top > 1.2 * bottom


def test_plate_misses_two_wells_and_says_so(plate: zarr.Group):
    wells = attributes(plate)["plate"]["wells"]
    paths = [well["path"] for well in wells]
    assert paths == ["A/1", "A/2", "A/3", "B/1", "B/3"]
    assert "2" not in plate["B"]
    assert attributes(plate)["plate"]["acquisitions"][0]["id"] == 0


def test_every_field_has_labels_and_its_place(plate: zarr.Group):
    for k, place in enumerate((0, 96 * 0.65)):
        group = plate[f"A/3/{k}"]
        steps = attributes(group)["multiscales"][0]["datasets"][0]
        offset = steps["coordinateTransformations"][1:]
        assert (offset[0]["translation"][-1] if offset else 0) == pytest.approx(place)
        assert attributes(group["labels"])["labels"] == ["nuclei", "cells"]
        cells, nuclei = (group[f"labels/{name}/0"][:] for name in ("cells", "nuclei"))
        assert nuclei.shape == (80, 96)
        np.testing.assert_array_equal(cells[nuclei > 0], nuclei[nuclei > 0])
        assert len(np.unique(cells)) == cells.max() + 1


def test_fields_of_a_well_join_without_a_seam(plate: zarr.Group):
    left, right = (plate[f"A/1/{k}/0"][1].astype(float) for k in range(2))
    seam = np.abs(left[:, -1] - right[:, 0]).mean()
    assert seam < 1.5 * np.abs(np.diff(left, axis=1)).mean()


def test_a_dose_kills(tmp_path: Path):
    where = write_plate(tmp_path / "x.zarr", grid=(4, 2), fields=1, wells=["D1", "D2"])
    group = zarr.open_group(where, mode="r")
    low, high = (group[f"D/{k}/0/labels/cells/0"][:].max() for k in (1, 2))
    assert low > 2 * high


def test_other_compounds_dissolve_fibres_and_arrest_mitosis(tmp_path: Path):
    wells = ["B1", "B2", "C1", "C2"]
    where = write_plate(tmp_path / "x.zarr", grid=(3, 2), fields=1, wells=wells)
    group = zarr.open_group(where, mode="r")

    def actin(well: str) -> float:
        field = group[f"{well}/0"]
        entries = attributes(field["labels/cells"])["image-label"]["properties"]
        normal = [e["label-value"] for e in entries if e["class"] == "interphase"]
        inside = np.isin(field["labels/cells/0"][:], normal)
        return field["0"][1][inside].std()

    def mitotic(well: str) -> float:
        labels = attributes(group[f"{well}/0/labels/cells"])["image-label"]
        classes = [entry["class"] for entry in labels["properties"]]
        return classes.count("mitotic") / len(classes)

    assert actin("B/2") < 0.9 * actin("B/1")
    assert mitotic("C/2") > 0.4 > 0.2 > mitotic("C/1")


def test_unknown_wells_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="no well Z9"):
        write_plate(tmp_path / "x.zarr", wells=["A1", "Z9"])


@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_single_file(tmp_path: Path, version: str):
    where = write_image(tmp_path / "x.ozx", version, shape=(96, 96), chunk=32)
    with zarr.storage.ZipStore(where, mode="r") as store:
        group = zarr.open_group(store, mode="r")
        assert attributes(group)["version"] == version
        assert group["0"].chunks == (1, 32, 32)
        assert group["0"].shards == (1, 96, 96)
        assert group["0"][0].max() > 1000
    assert [path.name for path in tmp_path.iterdir()] == ["x.ozx"]


@pytest.mark.parametrize(
    ("name", "options"), [("x.ozx", {}), ("x.zarr", {"shards": True})]
)
def test_zarr_v2_is_neither_one_file_nor_sharded(tmp_path: Path, name: str, options):
    with pytest.raises(ValueError, match=r"write 0\.5 or newer"):
        write_image(tmp_path / name, "0.4", shape=(32, 32), **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x.zarr", "x.ozx"])
def test_nothing_is_overwritten_unless_asked_to(tmp_path: Path, name: str):
    where = write_image(tmp_path / name, shape=(32, 32))
    with pytest.raises(FileExistsError, match="already exists"):
        write_image(where, shape=(32, 32))
    write_image(where, "0.6", shape=(32, 32), overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    text = where.read_bytes() if name == "x.ozx" else (where / "zarr.json").read_bytes()
    assert b"coordinateSystems" in text


def test_a_failure_leaves_what_was_there(tmp_path: Path):
    where = write_image(tmp_path / "x.zarr", shape=(32, 32))
    with pytest.raises(ValueError, match=r"\w"):
        write_image(where, shape=(32, 32), chunk=-2, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x.zarr"]
    assert zarr.open_group(where, mode="r")["0"].shape == (3, 32, 32)


@pytest.mark.long
def test_ready_samples_are_generated_once(tmp_path: Path):
    path = stack_path(tmp_path)
    before = path.stat().st_mtime_ns
    assert stack_path(tmp_path) == path
    assert path.stat().st_mtime_ns == before
    assert cells_path(tmp_path) != path
    assert zarr.open_group(path, mode="r")["0"].ndim == 4


def test_rows_of_large_plates_are_named_on(tmp_path: Path):
    where = write_plate(
        tmp_path / "x.zarr", grid=(32, 48), fields=1, shape=(16, 16), wells=["AF48"]
    )
    assert (where / "AF" / "48" / "0").is_dir()
