"""Boxes of labels for other programs: their columns name the unit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import zarr

from napari_ngff import read_layers
from napari_ngff.cli import main
from napari_ngff.viewer.bridge.handover import export_boxes

MICROMETERS = {
    "micrometer": 1,
    "um": 1,
    "Microns": 1,
    "nm": 1e-3,
    "Å": 1e-4,
    "picometer": 1e-6,
    "mm": 1e3,
    "millimetres": 1e3,
    "inch": 25400,
    "meter": 1e6,
}
UNKNOWN = [None, "furlong", "second", "pixel"]


def write_labels(path, units, scale, names="zyx"):
    pixels = np.zeros((4, 40, 50), "u2")
    pixels[1:3, 10:35, 14:18] = 7
    pixels[0, 3, 2] = 70
    group = zarr.open_group(path, mode="w", zarr_format=3)
    group.create_array("0", data=pixels)
    axes = [{"name": name, "type": "space"} for name in names]
    axes = [
        axis | ({} if unit is None else {"unit": unit})
        for axis, unit in zip(axes, units, strict=True)
    ]
    step = {"type": "scale", "scale": scale}
    datasets = [{"path": "0", "coordinateTransformations": [step]}]
    multiscales = [{"axes": axes, "datasets": datasets}]
    ome = {"version": "0.5", "multiscales": multiscales, "image-label": {}}
    group.attrs["ome"] = ome
    return path


def boxes_of(path, target, capsys):
    """Export by the command and by the layer of the window; both have to agree."""
    assert main(["export", str(path), "--boxes", str(target)]) == 0
    said = capsys.readouterr().out
    frame = pd.read_csv(target)
    (layer,) = read_layers(path)
    report = export_boxes(layer, str(target))
    pd.testing.assert_frame_equal(pd.read_csv(target), frame)
    return frame, said, report


@pytest.mark.parametrize("unit", MICROMETERS)
@pytest.mark.parametrize("names", ["zyx", ["Z", "Y", "X"], ["depth", "rows", "cols"]])
def test_lengths_are_micrometres(tmp_path, capsys, unit, names):
    size = 0.5 / MICROMETERS[unit]
    path = write_labels(tmp_path / "a.zarr", [unit] * 3, [4 * size, size, size], names)
    frame, said, report = boxes_of(path, tmp_path / "b.csv", capsys)
    row = frame.set_index("label").loc[7]
    starts = [row[f"{axis}_micrometer"] for axis in "zyx"]
    lengths = [row[f"len_{axis}_micrometer"] for axis in "zyx"]
    np.testing.assert_allclose(starts, [2, 5, 7])
    np.testing.assert_allclose(lengths, [4, 12.5, 2])
    assert "2 boxes in micrometers" in said
    assert "2, in micrometers" in report


@pytest.mark.parametrize("signs", [(-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, -1)])
def test_lengths_are_positive_where_voxels_count_downwards(tmp_path, capsys, signs):
    scale = np.multiply(signs, [2, 0.5, 0.5]).tolist()
    path = write_labels(tmp_path / "a.zarr", ["micrometer"] * 3, scale)
    frame, *_ = boxes_of(path, tmp_path / "b.csv", capsys)
    row = frame.set_index("label").loc[7]
    assert [row[f"{axis}_micrometer"] for axis in "zyx"] == [2, 5, 7]
    assert [row[f"len_{axis}_micrometer"] for axis in "zyx"] == [4, 12.5, 2]
    assert main(["info", str(path)]) == 0
    size = "size     z 8 micrometer, y 20 micrometer, x 25 micrometer"
    assert size in capsys.readouterr().out


@pytest.mark.parametrize("unit", UNKNOWN)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_unknown_unit_is_never_a_micrometre(tmp_path, capsys, unit, axis):
    units = ["micrometer"] * 3
    units[axis] = unit
    path = write_labels(tmp_path / "a.zarr", units, [2, 0.5, 0.5])
    frame, said, report = boxes_of(path, tmp_path / "b.csv", capsys)
    assert not [name for name in frame.columns if "micrometer" in name]
    row = frame.set_index("label").loc[7]
    assert [row[f"{axis}_voxel"] for axis in "zyx"] == [1, 10, 14]
    assert [row[f"len_{axis}_voxel"] for axis in "zyx"] == [2, 25, 4]
    assert "2 boxes in voxels" in said
    assert "2, in voxels" in report
