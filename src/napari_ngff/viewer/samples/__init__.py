"""Sample data, drawn: a time series, a stack and a plate as OME-Zarr.

Any version from 0.1 to 0.6, as a folder or, from 0.5 on, as one ``.ozx`` file. All of
it is written aside and then renamed, so that a sample is there wholly or not at all.
"""

from __future__ import annotations

import math
from importlib.metadata import version as installed
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Unpack

import platformdirs

from napari_ngff.metadata.dump import dump_plate, dump_well
from napari_ngff.metadata.model import (
    Acquisition,
    PlateMetadata,
    WellField,
    WellMetadata,
    WellReference,
)
from napari_ngff.viewer.samples.drawing import Population, draw_cells, draw_frames
from napari_ngff.viewer.samples.sink import SampleOptions, open_sink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = [
    "SampleOptions",
    "cells_path",
    "plate_path",
    "stack_path",
    "write_image",
    "write_plate",
    "write_stack",
]


def write_image(
    where: str | Path,
    version: str = "0.5",
    *,
    shape: tuple[int, ...] = (4, 768, 1024),
    **options: Unpack[SampleOptions],
) -> Path:
    """Write a time series of drifting cells: DNA, actin, mitochondria and two labels.

    Parameters
    ----------
    where
        Folder or ``.ozx`` file to write.
    version
        "0.1" to "0.6".
    shape
        Size in pixels, "tyx" or "yx"; the image has the axes "tcyx" or "cyx", in 0.1
        and 0.2 "tczyx". uint16, 0.325 micrometer and 5 minutes apart.
    **options
        See `SampleOptions`.

    Returns
    -------
    Path
        `where`.

    Raises
    ------
    FileExistsError
        Where something is there and ``overwrite`` is not set.
    ValueError
        Where there is no such version, or it cannot be an ``.ozx`` file or sharded.
    """
    size, seed = shape[-2:], options.get("seed", 1)
    place = {"y": (0.325, 0.0), "x": (0.325, 0.0)}
    with open_sink(where, version, options) as sink:
        if len(shape) == 2:
            picture = draw_cells(size, Population(), seed)
        else:
            picture = draw_frames(shape[0], size, Population(), seed)
            place = {"t": (300.0, 0.0), **place}
        sink.write_picture("", picture, place, "Cells")
    return Path(where)


def write_stack(
    where: str | Path,
    version: str = "0.5",
    *,
    shape: tuple[int, int, int] = (32, 320, 320),
    **options: Unpack[SampleOptions],
) -> Path:
    """Write a ball of cells: DNA and membranes in optical sections, and two labels.

    Parameters and errors are those of `write_image`; `shape` is "zyx" and the image
    "czyx", of voxels of 1 by 0.325 by 0.325 micrometer (z is not reduced).
    """
    cells = Population(min(shape[1:]) / 26, fibres=0)  # 13 across
    place = {"z": (1.0, 0.0), "y": (0.325, 0.0), "x": (0.325, 0.0)}
    with open_sink(where, version, options) as sink:
        picture = draw_cells(shape, cells, options.get("seed", 1), depth=1 / 0.325)
        sink.write_picture("", picture, place, "Spheroid")
    return Path(where)


def write_plate(
    where: str | Path,
    version: str = "0.5",
    *,
    grid: tuple[int, int] = (4, 6),
    fields: int = 2,
    shape: tuple[int, int] = (256, 256),
    wells: Collection[str] | None = None,
    **options: Unpack[SampleOptions],
) -> Path:
    """Write a screening plate: a compound per row, a dose per column.

    Row A is the control; B dissolves the actin fibres, C arrests mitosis, D kills;
    further rows start over. The fields of a well join without a seam and say so in
    their translations (0.4 and newer).

    Parameters
    ----------
    where, version
        As for `write_image`.
    grid
        Numbers of rows (A to Z, AA...) and columns (1...).
    fields
        Per well.
    shape
        Of a field in pixels, "yx"; images are "cyx", 0.65 micrometer.
    wells
        Names such as "A1" of those to write; all but two if None.
    **options
        See `SampleOptions`.

    Raises
    ------
    FileExistsError, ValueError
        As for `write_image`; also where a name of `wells` is not on the plate.
    """
    plate = design_plate(grid, fields, wells)
    well = WellMetadata(tuple(WellField(str(k), 0) for k in range(fields)))
    across = math.ceil(math.sqrt(fields))
    size = math.ceil(fields / across) * shape[0], across * shape[1]
    with open_sink(where, version, options) as sink:
        sink.create_group("", dump_plate(plate, version))
        for row in sorted({place.row for place in plate.wells}):
            sink.create_group(plate.rows[row], {})
        for number, spot in enumerate(plate.wells):
            sink.create_group(spot.path, dump_well(well, version))
            cells = treat_population(spot.row, spot.column / max(1, grid[1] - 1))
            whole = draw_cells(size, cells, options.get("seed", 1) * 1000 + number)
            for k in range(fields):
                corner = k // across * shape[0], k % across * shape[1]
                picture = whole.cut_part(corner, shape)
                place = {n: (0.65, c * 0.65) for n, c in zip("yx", corner, strict=True)}
                name = f"{spot.path.replace('/', '')} field {k}"
                sink.write_picture(f"{spot.path}/{k}", picture, place, name)
    return Path(where)


def cells_path(folder: Path | None = None) -> Path:
    """Path of a ready `write_image`, written on the first call.

    `folder` is that of this version in the user's cache if None.
    """
    return write_once("cells.ome.zarr", write_image, folder)


def stack_path(folder: Path | None = None) -> Path:
    """Path of a ready `write_stack`; see `cells_path`."""
    return write_once("spheroid.ome.zarr", write_stack, folder)


def plate_path(folder: Path | None = None) -> Path:
    """Path of a ready `write_plate`; see `cells_path`."""
    return write_once("plate.ome.zarr", write_plate, folder)


def write_once(name: str, write: Callable[[Path], Path], folder: Path | None) -> Path:
    """Write a sample into the cache unless it is there, and return its path."""
    if folder is None:
        cache = platformdirs.user_cache_path("napari-ngff", appauthor=False)
        folder = cache / installed("napari-ngff")
    path = folder / name
    try:
        write(path)
    except OSError:  # there already, or another process is faster
        if not path.exists():
            raise
    return path


def treat_population(row: int, dose: float) -> Population:
    """Return what a dose (0 to 1) of the compound of a row leaves of the cells."""
    healthy = {"radius": 19.0, "density": 0.9, "mitotic": 0.04, "apoptotic": 0.015}
    effects: tuple[dict[str, float], ...] = (
        {},
        {"density": 0.9 - 0.2 * dose, "fibres": 1 - 0.95 * dose},
        {"density": 0.9 - 0.3 * dose, "mitotic": 0.04 + 0.6 * dose},
        {
            "density": 0.9 - 0.72 * dose,
            "apoptotic": 0.015 + 0.5 * dose,
            "mitochondria": 1 - 0.6 * dose,
        },
    )
    return Population(**(healthy | effects[row % 4]))


def design_plate(
    grid: tuple[int, int], fields: int, wanted: Collection[str] | None
) -> PlateMetadata:
    """Name the rows and columns, and choose the wells."""
    letters = (*ascii_uppercase, *(f"A{a}" for a in ascii_uppercase))
    rows = letters[: grid[0]]
    columns = tuple(str(k + 1) for k in range(grid[1]))
    known = {
        row + column: WellReference(f"{row}/{column}", r, c)
        for r, row in enumerate(rows)
        for c, column in enumerate(columns)
    }
    if wanted is None:
        wanted = known.keys() - ({"B2", "C5"} if len(known) > 4 else set())
    unknown = sorted(set(wanted) - known.keys())
    if unknown:
        raise ValueError(f"There is no well {', '.join(unknown)} on a plate of {grid}.")
    wells = tuple(well for name, well in known.items() if name in wanted)
    runs = (Acquisition(0, "24 h"),)
    return PlateMetadata("Dose response", rows, columns, wells, runs, fields)
