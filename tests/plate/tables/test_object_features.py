"""Shape and texture of objects equal scikit-image, whatever blocks, axes and sizes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from skimage.feature import graycoprops
from skimage.measure import label, regionprops

from napari_ngff import measure, open_node
from napari_ngff.cli import main
from napari_ngff.errors import OptionError
from napari_ngff.plate.results.object_classifier import train_rule
from napari_ngff.plate.tables import labelled_image, object_features
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.plate.tables.measure_labels import FieldTask
from napari_ngff.plate.tables.measure_labels import measure as measure_node
from napari_ngff.plate.tables.object_features import COLUMNS, choose_columns
from napari_ngff.plate.tables.table import FIELD, PLACES, WELL
from plates import SPACING, write_group, write_image, write_plate

SHAPE, TEXTURE = COLUMNS.values()
RNG = np.random.default_rng(3)


def draw_objects(shape):
    """Objects of all sizes: round ones, a line, a single voxel, one with a hole, one
    in two pieces, and one that is longer than any block."""
    data = np.zeros(shape, "u8")
    planes = data.reshape(-1, *shape[-2:])
    z, y, x = np.indices(planes.shape)
    for number, size in enumerate((2, 3, 5, 7)):
        middle = 12 * number + 9
        away = (z - len(planes) // 2) ** 2 + (y - middle) ** 2 * 0.6 + (x - 20) ** 2
        planes[away < size**2] = 10 + number
    planes[:, 45, 20] = 0
    planes[0, :, :2] = 2**40
    planes[:, 0, 5:] = 3
    planes[:, -1, -1] = 4
    planes[-1, 5:30, 4] = planes[-1, 5:30, 7] = 5
    return data


def write_objects(folder, labels, pixels, axes, planes=None):
    write_image(folder, pixels, 3, axes, 1, planes=planes)
    write_group(folder / "labels", {"labels": ["nuclei"]}, 3)
    flat = axes.replace("c", "")
    inner = {a: p for a, p in (planes or {}).items() if a in flat}
    write_image(folder / "labels/nuclei", labels, 3, flat, 1, label={}, planes=inner)
    return open_node(folder)


def expected(labels, channels, spacing):
    """What scikit-image says, object by object; textures by a loop over neighbours."""
    ids, numbers = np.unique(labels, return_inverse=True)
    numbers = numbers.reshape(labels.shape)
    rows = []
    for region in regionprops(numbers, spacing=spacing):
        row = {"label": ids[region.label]}
        for name in SHAPE:
            is_flat = labels.ndim == 2
            if is_flat or name not in object_features.PLANES_ONLY:
                title = name if is_flat else name.replace("area", "volume")
                try:
                    row[title] = region[name]
                # Nothing in volumes without a hull, of which it warns.
                except (ValueError, NotImplementedError, UserWarning):
                    row[title] = np.nan
        for i, pixels in enumerate(channels):
            values = pixels[region.slice].astype(float)
            row[f"std_{i}"] = values[region.image].std()
            if is_flat:
                found = describe_neighbours(values, region.image)
                row |= {f"{name}_{i}": value for name, value in found.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def describe_neighbours(values, inside):
    low, high = values[inside].min(), values[inside].max()
    grays = np.floor((values - low) / ((high - low) or 1) * 16).clip(0, 15).astype(int)
    counts = np.zeros((16, 16, 1, 1), "u4")
    for dy, dx in ((0, 1), (1, 1), (1, 0), (1, -1)):
        for y, x in np.argwhere(inside):
            at = y + dy, x + dx
            is_there = all(0 <= p < n for p, n in zip(at, inside.shape, strict=True))
            if is_there and inside[at]:
                counts[grays[y, x], grays[at]] += 1
                counts[grays[at], grays[y, x]] += 1
    if not counts.any():
        return dict.fromkeys(TEXTURE[1:], np.nan)
    return {name: graycoprops(counts, name)[0, 0] for name in TEXTURE[1:]}


@pytest.mark.parametrize("block", [1 << 20, 700])
@pytest.mark.parametrize(
    ("shape", "step"),
    [((60, 70), None), ((60, 71), ("y", 0.8)), ((9, 58, 40), ("z", 2.0))],
)
def test_columns_equal_scikit_image(tmp_path, monkeypatch, shape, step, block):
    monkeypatch.setattr(labelled_image, "BLOCK", block)
    labels, axes = draw_objects(shape), "czyx"[-len(shape) :]
    axes = f"c{axes.removeprefix('c')}"
    pixels = RNG.integers(0, 3000, (2, *shape)).astype("u2")
    planes = {step[0]: (step[1], 0.0)} if step else {}
    node = write_objects(tmp_path / "a", labels, pixels, axes, planes)
    spacing = [dict([step] if step else []).get(a, SPACING) for a in axes[1:]]
    if step and step[0] == "z":
        spacing = [2.0, SPACING, SPACING]
    found = measure_node(node, "nuclei", task=FieldTask(choose_columns(COLUMNS)))
    wanted = expected(labels, pixels, spacing)
    if len(set(spacing)) > 1 and len(shape) == 2:
        wanted = wanted.drop(columns="perimeter")
        assert "pixels that are not square: perimeter." in found.size_note
    if len(shape) == 3:
        assert "of volumes: eccentricity, perimeter, contrast" in found.size_note
    names = ["label", *wanted.columns.drop("label")]
    frame = found.frame[names]
    assert len(found.frame.columns.intersection([*SHAPE, *TEXTURE])) <= len(SHAPE)
    pd.testing.assert_frame_equal(
        frame, wanted, check_dtype=False, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("value", [5, np.nan])
def test_pixels_without_contrast_have_no_made_up_texture(tmp_path, value):
    labels = label(RNG.random((20, 20)) > 0.6).astype("u2")
    pixels = np.full((1, 20, 20), value, "f4")
    node = write_objects(tmp_path / "a", labels, pixels, "cyx")
    found = measure_node(node, "nuclei", task=FieldTask(choose_columns(["texture"])))
    frame = found.frame
    if np.isnan(value):
        assert frame[["std_0", "contrast_0", "energy_0"]].isna().all(axis=None)
    else:
        assert (frame["std_0"] == 0).all()
        has_pair = frame["energy_0"].notna()
        assert (frame["energy_0"][has_pair] == 1).all()
        assert not has_pair[frame["voxels"] == 1].any()


def test_time_points_and_too_large_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(object_features, "LARGEST", 300)
    labels = np.zeros((3, 30, 40), "u2")
    labels[0, 2:8, 2:9] = labels[2, 2:5, 2:5] = 7
    labels[2, 8:28, 8:38] = 9
    pixels = RNG.integers(0, 99, (3, 1, 30, 40)).astype("u2")
    node = write_objects(tmp_path / "a", labels, pixels, "tcyx")
    found = measure_node(node, "nuclei", task=FieldTask(("extent", "std")))
    rows = found.frame[["t", "label", "extent", "std_0"]].to_numpy()
    stds = pixels[0, 0, 2:8, 2:9].std(), pixels[2, 0, 2:5, 2:5].std()
    wanted = [[0, 7, 1, stds[0]], [2, 7, 1, stds[1]], [2, 9, np.nan, np.nan]]
    np.testing.assert_allclose(rows, wanted)
    assert "more than 300 voxels have no values of extent, std." in found.size_note


def test_a_plate_by_the_command(tmp_path, capsys):
    plate = write_plate(tmp_path / "p", labelled=lambda _: ["nuclei"])
    out = tmp_path / "a.csv"
    call = ["measure", str(plate), "--label", "nuclei", "--out", str(out), "--columns"]
    assert main([*call, "solidity,texture"]) == 0
    columns = pd.read_csv(out).columns
    assert [*columns[-6:]] == ["solidity", *(f"{name}_0" for name in TEXTURE)]
    assert main([*call, "roundness"]) == 2
    assert "no column 'roundness'; there are shape, texture, area_convex" in (
        capsys.readouterr().err
    )
    with pytest.raises(OptionError):
        measure(str(plate), "nuclei", columns=["shapes"])
    assert "solidity" in measure(str(plate), "nuclei", columns=["shape"]).frame


def make_rule(call, out, columns):
    """Measure by the command, and learn of half of the objects; save the rule."""
    assert main([*call, "--columns", "shape,texture"]) == 0
    measured = pd.read_csv(out, dtype={FIELD: str})
    clicked = measured.assign(**{CLASS: np.where(measured.index % 2, "a", "b")})
    rule = train_rule(clicked[[*PLACES, CLASS, *columns]])
    file = out.with_name("rule.json")
    file.write_text(rule.dump_text())
    return rule, file, measured


def test_a_plate_is_measured_and_predicted_by_a_rule(tmp_path, capsys):
    plate = write_plate(tmp_path / "p", labelled=lambda _: ["nuclei"])
    out = tmp_path / "a.csv"
    call = ["measure", str(plate), "--label", "nuclei", "--out", str(out)]
    rule, file, measured = make_rule(call, out, ["voxels", "mean_0", "extent", "std_0"])
    capsys.readouterr()
    assert main([*call, "--rule", str(file)]) == 0
    found = pd.read_csv(out, dtype={FIELD: str})
    count = (found["predicted"] == "a").sum()
    assert f"{count:,} a" in capsys.readouterr().out
    # The columns that the rule needs are measured without being asked for.
    extra = ["extent", "std_0", "predicted", "probability"]
    assert [*found.columns[-4:]] == extra
    same = found.columns[:-2]
    pd.testing.assert_frame_equal(found[same], measured[same])
    expected = rule.predict(measured, lambda *_: True)
    assert found["predicted"].to_list() == expected["predicted"].to_list()
    np.testing.assert_allclose(found["probability"], expected["probability"])
    file.write_text(rule.dump_text().replace('"mean_0"', '"mean_DNA"'))
    capsys.readouterr()
    assert main([*call, "--rule", str(file)]) == 1
    message = "24 images: no predicted classes. The table has no numbers of mean_DNA."
    assert message in capsys.readouterr().err
    pd.testing.assert_frame_equal(
        pd.read_csv(out, dtype={FIELD: str}), found.drop(columns=extra[2:])
    )


def test_an_image_is_predicted_by_a_rule(tmp_path, capsys):
    plate = write_plate(tmp_path / "p", labelled=lambda _: ["nuclei"])
    out = tmp_path / "a.csv"
    call = ["measure", str(plate), "--label", "nuclei", "--out", str(out)]
    rule, file, measured = make_rule(call, out, ["area", "solidity"])
    image = str(plate / "A/1/0")
    call = ["measure", image, "--label", "nuclei", "--out", str(out)]
    assert main([*call, "--rule", str(file)]) == 0
    of_field = measured[(measured[WELL] == "A1") & (measured[FIELD] == "0")]
    expected = rule.predict(of_field, lambda *_: True)["predicted"]
    assert pd.read_csv(out)["predicted"].to_list() == expected.to_list()
    file.write_text(rule.dump_text().replace('"area"', '"mean_DNA"'))
    assert main([*call, "--rule", str(file)]) == 1
    assert "no numbers of mean_DNA" in capsys.readouterr().err
    assert "predicted" not in pd.read_csv(out)
