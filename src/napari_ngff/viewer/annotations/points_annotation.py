"""Points on an image: a CSV for each layer, in a folder beside the image.

``cells.ome.zarr`` has ``cells.points/NAME.csv``, the field ``B/3/0`` of a plate
``plate.points/B/3/0/NAME.csv``. Columns are ``index``, one for each axis of the image
with its unit, such as ``y (micrometer)``, and the properties of the points.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from napari.layers import Points
from typing_extensions import override

from napari_ngff.store.hierarchy.location import POINTS_END
from napari_ngff.viewer.annotations.drawn_annotation import (
    DrawnAnnotation,
    axes_of,
    file_order,
    length_factors,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.viewer.annotations.annotations import Annotations

INDEX = "index"

CODE = r"[+-]?0\d.*"
"""Text that is no number, although it could be one, such as 01."""


class PointsAnnotation(DrawnAnnotation):
    """One layer of points on an image of ours."""

    folder_ending, file_ending, noun = POINTS_END, ".csv", "point"
    layer_type = Points

    @override
    def take_content(self) -> Callable[[], str]:
        layer = self.layer
        data, features = np.array(layer.data, float), layer.features.copy()
        points, columns = self.move_to_file(data), name_columns(self._axes)
        return lambda: dump_points(points, columns[-points.shape[1] :], features)

    @classmethod
    @override
    def parser(cls, image: Any) -> Callable[[str], Any]:
        columns = name_columns(axes_of(image))
        return lambda text: parse_points(text, columns)

    @classmethod
    @override
    def make(cls, owner: Annotations, image: Any, name: str, content: Any) -> Any:
        points, features = content
        count = points.shape[1]
        order = file_order(image)[-count:]
        places = points * length_factors(image)[order]
        voxels = (places - image.translate[order]) / image.scale[order]
        return cls.show_layer(owner, image, name, count, data=voxels, features=features)


def name_columns(axes: dict[str, str]) -> list[str]:
    """Name the columns of coordinates: axes with their units."""
    return [f"{name} ({unit})" if unit else name for name, unit in axes.items()]


def dump_points(points: Any, columns: list[str], features: pd.DataFrame) -> str:
    """Write points and their properties as CSV."""
    parts = pd.DataFrame(points, columns=columns), features.reset_index(drop=True)
    table = pd.concat(parts, axis=1)
    return str(table.to_csv(index_label=INDEX, lineterminator="\n"))


def parse_points(text: str, columns: list[str]) -> tuple[Any, pd.DataFrame]:
    """Read points and their properties from CSV.

    Raises
    ------
    ValueError
        Where the columns of coordinates are not those of the image.
    """
    header = next(csv.reader(io.StringIO(text)), [])
    # Points that lie on all sections lack the first axes.
    ends = [columns[first:] for first in range(len(columns))]
    names = next((x for x in ends if header[: 1 + len(x)] == [INDEX, *x]), None)
    if names is None:
        raise ValueError(f"its first columns are not {', '.join([INDEX, *columns])}.")
    frame, end = _read_rows(text, len(header)), 1 + len(names)
    frame.columns = pd.Index(header)
    points = frame.iloc[:, 1:end].to_numpy(float)
    return points, frame.iloc[:, end:]


def _read_rows(text: str, count: int) -> pd.DataFrame:
    """Read the rows of a CSV; words such as NA and codes such as 01 stay text."""
    options: Any = {"header": None, "skiprows": 1, "names": [*range(count)]}
    frame = pd.read_csv(io.StringIO(text), float_precision="round_trip", **options)
    options |= {"dtype": str, "keep_default_na": False, "na_values": [""]}
    texts = pd.read_csv(io.StringIO(text), **options)
    words = [
        column
        for column in frame
        if frame[column].dtype.kind not in "biuf"
        or texts[column].str.fullmatch(CODE).any()
    ]
    frame[words] = texts[words]
    return frame
