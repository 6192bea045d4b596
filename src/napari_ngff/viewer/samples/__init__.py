"""Sample data, drawn: a time series, a stack and a plate as OME-Zarr.

Any version from 0.1 to 0.6, as a folder or, from 0.5 on, as one ``.ozx`` file. All of
it is written aside and then renamed, so that a sample is there wholly or not at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from colorsys import hsv_to_rgb
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version as installed
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from napari_ngff.metadata.dump import (
    dump_image,
    dump_labels,
    dump_plate,
    dump_well,
)
from napari_ngff.metadata.model import (
    JSON,
    Acquisition,
    Axis,
    Channel,
    ContrastWindow,
    ImageMetadata,
    LabelInfo,
    Multiscale,
    Omero,
    PlateMetadata,
    WellField,
    WellMetadata,
    WellReference,
)
from napari_ngff.metadata.version import VERSIONS, Version
from napari_ngff.store.arrays.array_document import group_documents
from napari_ngff.store.arrays.lazy_array import PlainSource
from napari_ngff.store.disk_cache import cache_folder
from napari_ngff.store.pyramids.pyramid_writer import PyramidPlan, open_pyramid_writer
from napari_ngff.store.write.new_hierarchy import NewHierarchy, is_single
from napari_ngff.viewer.samples.drawing import (
    CellPicture,
    Population,
    draw_cells,
    draw_frames,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "SampleOptions",
    "cells_path",
    "plate_path",
    "stack_path",
    "write_image",
    "write_plate",
    "write_stack",
]


Place = Mapping[str, tuple[float, float]]
TYPES = {"t": "time", "c": "channel"}
UNITS = {"t": "second", "z": "micrometer", "y": "micrometer", "x": "micrometer"}
CHANNELS = (  # label, colour, and the grey value shown at full brightness
    ("DNA", (64, 115, 255), 3900),
    ("Actin", (25, 255, 64), 3000),
    ("Mitochondria", (255, 38, 140), 2900),
)
BALL_CHANNELS = ("DNA", (64, 115, 255), 2800), ("Membrane", (25, 255, 64), 1700)
ALPHA = 100  # of label colours, out of 255: the picture stays visible below
KIND_COLORS = {  # none like that of a channel, also where it lies over DNA
    "interphase": (255, 225, 0),
    "mitotic": (255, 255, 255),
    "apoptotic": (255, 74, 0),
}
NUCLEUS_ALPHA = 255


class SampleOptions(TypedDict, total=False):
    """What every sample takes.

    Attributes
    ----------
    seed
        Same seed, same sample; 1 by default.
    chunk
        Side of a chunk along y and x in pixels, even; 256 by default.
    shards
        Whether to shard, up to four chunks by four; by default in ``.ozx`` files only
        (a SHOULD of RFC-9). Needs 0.5 or newer.
    overwrite
        Whether to replace what is there; False by default.
    """

    seed: int
    chunk: int
    shards: bool
    overwrite: bool


@dataclass(frozen=True, slots=True)
class SampleSink:
    """A new hierarchy; see `SampleOptions`."""

    draft: NewHierarchy
    version: Version
    chunk: int
    shards: bool

    def create_group(self, path: str, attributes: JSON) -> None:
        """Create the group at `path`, relative to the root ("" for itself)."""
        for name, text in group_documents(attributes, self.version).items():
            self.draft.put(f"{path}/{name}".lstrip("/"), text)

    def write_picture(
        self,
        path: str,
        picture: CellPicture,
        place: Place,
        name: str,
    ) -> None:
        """Write an image with its labels "nuclei" and "cells" into the group at `path`.

        `place` has the axes of the labels, with the size of a pixel and the position of
        pixel 0 in micrometer or second; stated from 0.4 on.
        """
        picture, axes = picture.number_cells(), "".join(place)
        colored = f"tc{axes[1:]}" if axes.startswith("t") else f"c{axes}"
        image = ImageMetadata((), describe_channels(name, picture, colored))
        self._write_image(path, name, picture.channels, colored, place, image)
        labels = {"nuclei": picture.nuclei, "cells": picture.cells}
        self.create_group(f"{path}/labels", dump_labels(labels, self.version))
        for key, values in labels.items():
            info = describe_labels(key, values, picture.kinds, place)
            image = ImageMetadata((), label=info)
            self._write_image(f"{path}/labels/{key}", key, values, axes, place, image)

    def _write_image(
        self,
        path: str,
        name: str,
        pixels: NDArray[Any],
        axes: str,
        place: Place,
        image: ImageMetadata,
    ) -> None:
        """Write a pyramid and the metadata of `image`, which has no multiscale yet."""
        if not self.version.has_axes:  # 5D only
            missing = [i for i, letter in enumerate("tczyx") if letter not in axes]
            pixels, axes = np.expand_dims(pixels, missing), "tczyx"
        is_label = image.label is not None
        units = UNITS if self.version.has_transformations else {}
        kinds = tuple(Axis(n, TYPES.get(n, "space"), units.get(n)) for n in axes)
        stated = place if units else {}
        scale, start = zip(*(stated.get(n, (1.0, 0.0)) for n in axes), strict=True)
        form = pixels.shape, kinds, scale, (1,) * pixels.ndim
        plan = PyramidPlan.choose_shapes(*form, sharded=self.shards)
        if len(plan.shapes) < 3:
            plan = PyramidPlan.choose_shapes(*form, sharded=self.shards, levels=3)
        sides = {"z": 16, "y": self.chunk, "x": self.chunk}
        chunk = tuple(sides.get(letter, 1) for letter in axes)
        plan = replace(plan, chunk=chunk, tile=chunk)
        levels = plan.place_levels(scale, start)
        method = "mode" if is_label else "mean"
        image = replace(image, multiscales=(Multiscale(name, kinds, levels, method),))
        self.create_group(path, dump_image(image, self.version))
        open_pyramid_writer(
            self.draft, path, plan, kinds, pixels.dtype, self.version, is_label=is_label
        ).write_levels(PlainSource(pixels))
        if self.version.has_axis_names_only:
            # 0.3: "the axes values MUST be repeated in the field _ARRAY_DIMENSIONS".
            names = json.dumps({"_ARRAY_DIMENSIONS": list(axes)}).encode()
            for level in levels:
                self.draft.put(f"{path}/{level.path}/.zattrs".lstrip("/"), names)


@contextmanager
def open_sink(
    where: str | Path, version: str, options: SampleOptions
) -> Iterator[SampleSink]:
    """Write a hierarchy aside, and put it at `where` when all of it is there.

    Errors are those of `write_image`.
    """
    if unknown := options.keys() - SampleOptions.__annotations__.keys():
        raise TypeError(f"Samples have no option {', '.join(sorted(unknown))}.")
    single = is_single(where)
    shards, chunk = options.get("shards", single), options.get("chunk", 256)
    if version not in VERSIONS:
        raise ValueError(f"{version!r} is none of the versions {', '.join(VERSIONS)}.")
    if Version(version).zarr_format == 2 and (single or shards):
        what = "an .ozx file" if single else "sharded"
        raise ValueError(f"OME-Zarr {version} cannot be {what}: write 0.5 or newer.")
    if chunk % 2:
        raise ValueError(f"The side of a chunk must be even, not {chunk}.")
    with NewHierarchy(where, overwrite=options.get("overwrite", False)) as draft:
        yield SampleSink(draft, Version(version), chunk, shards)


def describe_channels(name: str, picture: CellPicture, axes: str) -> Omero:
    """Return names, colours and contrast; the first plane to show is the middle one."""
    sizes = dict(zip(axes, picture.channels.shape, strict=True))
    looks = BALL_CHANNELS if "z" in axes else CHANNELS
    channels = [
        Channel(label, color, ContrastWindow(115, end, 0, 65535), active=True)
        for label, color, end in looks[: sizes["c"]]
    ]
    return Omero(name, tuple(channels), default_t=0, default_z=sizes.get("z", 0) // 2)


def describe_labels(
    name: str,
    values: NDArray[np.int32],
    kinds: Mapping[int, str],
    place: Place,
) -> LabelInfo:
    """Return class and mean size of each label, and a colour: nuclei by their class."""
    frames = values if "t" in place else values[None]
    length = max(kinds, default=0) + 1
    counts = np.array([np.bincount(one.ravel(), minlength=length) for one in frames])
    pixel = math.prod(size for axis, (size, _) in place.items() if axis != "t")
    sizes = counts.sum(0) * pixel / np.maximum(1, (counts > 0).sum(0))
    key = "volume" if "z" in place else "area"
    colors: dict[int, tuple[int, int, int, int]] = {}
    properties: dict[int, JSON] = {}
    for value, kind in kinds.items():
        if not sizes[value]:
            continue
        # The golden angle keeps hues of neighbouring values apart.
        vivid = hsv_to_rgb(value * 0.381966 % 1, 0.65, 255)
        red, green, blue = KIND_COLORS[kind] if name == "nuclei" else map(round, vivid)
        alpha = NUCLEUS_ALPHA if name == "nuclei" else ALPHA
        colors[value] = red, green, blue, alpha
        properties[value] = {"class": kind, key: round(float(sizes[value]), 2)}
    return LabelInfo(colors, properties)


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
        folder = cache_folder(installed("napari-ngff"))
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
