"""A plate as a pipeline leaves it: a segmentation with numbers, and uneven wells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from plates import write_group, write_image

WELLS = {
    "A/1": (1, 48, 48),
    "A/2": (3, 48, 48),
    "B/1": (1, 32, 72),
    "B/2": None,  # listed, and not there
    "C/1": (1, 48, 48),
}
"""Depth, height and width of the fields of each well."""

FIELDS = [
    f"{well}/{field}" for well, shape in WELLS.items() if shape for field in range(2)
]
"""Those of the first acquisition; each well has two more of the second."""

SPACING = 12
"""Voxels between two nuclei, which are squares of half of that."""


def nuclei_of(shape):
    """Nuclei on a grid, numbered from 1, in all planes."""
    labels = np.zeros(shape, "u4")
    for number, (y, x) in enumerate(nucleus_corners(shape), 1):
        labels[:, y : y + SPACING // 2, x : x + SPACING // 2] = number
    return labels


def nucleus_corners(shape):
    ys, xs = (range(3, size - SPACING // 2, SPACING) for size in shape[-2:])
    return [(y, x) for y in ys for x in xs]


def write_pipeline_plate(root, zarr_format=2):
    """Write the plate; returns its folder."""
    root = Path(root)
    rows = sorted({well[0] for well in WELLS})
    stated = {"version": "0.4"} if zarr_format == 2 else {}
    plate = {
        **stated,
        "name": "Screen",
        "rows": [{"name": row} for row in rows],
        "columns": [{"name": "1"}, {"name": "2"}],
        "wells": [
            {
                "path": well,
                "rowIndex": rows.index(well[0]),
                "columnIndex": int(well[2]) - 1,
            }
            for well in WELLS
        ],
        "acquisitions": [{"id": 0, "name": "day1"}, {"id": 1, "name": "day2"}],
    }
    write_group(root, {"plate": plate}, zarr_format)
    for well, shape in WELLS.items():
        if shape is None:
            continue
        images = [{"path": str(n), "acquisition": n // 2} for n in range(4)]
        write_group(root / well, {"well": {**stated, "images": images}}, zarr_format)
        for number in range(4):
            _write_field(root / well / str(number), shape, number, zarr_format)
    return root


def _write_field(folder, shape, number, zarr_format):
    nuclei = nuclei_of(shape)
    pixels = np.stack([nuclei > 0, nuclei % 5]).astype("u2") * 100 + number
    write_image(folder, pixels, zarr_format, "czyx")
    values = range(1, int(nuclei.max()) + 1)
    label = {
        "source": {"image": "../../"},
        "colors": [{"label-value": v, "rgba": [v % 255, 90, 200, 255]} for v in values],
        "properties": [{"label-value": v, "area": 36 * shape[0]} for v in values],
    }
    write_group(folder / "labels", {"labels": ["nuclei"]}, zarr_format)
    write_image(folder / "labels/nuclei", nuclei, zarr_format, "zyx", label=label)
    write_group(folder / "tables", {"tables": ["nuclei"]}, zarr_format)
    table = {
        "type": "feature_table",
        "table_version": "1",
        "backend": "csv",
        "index_key": "label",
        "index_type": "int",
        "region": {"path": "../labels/nuclei"},
    }
    write_group(folder / "tables/nuclei", table, zarr_format)
    rows = "\n".join(f"{v},{36 * shape[0]}" for v in values)
    (folder / "tables/nuclei/table.csv").write_text(f"label,area\n{rows}\n")


def bytes_of(root, part="nuclei"):
    """Read all files of the pipeline, by their path: below a folder of this name."""
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(Path(root).rglob("*"))
        if path.is_file() and part in path.relative_to(root).parts
    }
    assert found
    return found


def source_of(root, field):
    """Read the attributes of the nuclei of a field."""
    folder = Path(root) / field / "labels/nuclei"
    name = ".zattrs" if (folder / ".zattrs").exists() else "zarr.json"
    return json.loads((folder / name).read_text())
