"""What a layer says of its labels, as their file can state it: colours, features.

Saving adds and changes, and never removes: a colour or a column that a layer lacks may
have been hidden by a plugin or a script, and stays in the file.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from psygnal import Signal

from napari_ngff.labels.label_classes import with_classes
from napari_ngff.metadata.model import LabelInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari.layers import Labels

    from napari_ngff.labels.label_classes import LabelClass
    from napari_ngff.metadata.model import JSON

__all__ = [
    "JOINED",
    "DescriptionSnapshot",
    "LayerDescription",
    "colors_of",
    "properties_of",
]

INDEX = "index"
"""Column of the label values, by which napari finds the row of a label."""

JOINED = "ome-zarr-joined"
"""Where a layer's ``metadata`` names the features that are of a table, not its own."""

MANY = 5000
"""A table of more rows that was set again counts as changed without a look."""

Color = tuple[int, int, int, int]


class LayerDescription:
    """Colours and properties of a layer, against those of its file.

    Parameters
    ----------
    layer
        Of labels.
    info
        What the file says.
    """

    changed_turned = Signal()
    """Emitted when `changed` has."""

    def __init__(self, layer: Labels, info: LabelInfo | None) -> None:
        self._layer = weakref.ref(layer)
        self.info = info or LabelInfo()
        self._changed = False
        self._version = self._said = 0
        layer.events.colormap.connect(self._on_change)
        layer.events.features.connect(self._on_change)

    @property
    def is_changed(self) -> bool:
        """Whether the layer was given others since they were saved."""
        return self._changed

    @is_changed.setter
    def is_changed(self, changed: bool) -> None:
        before, self._changed = self._changed, changed
        if changed != before:
            self.changed_turned.emit()

    def _on_change(self, event: Any = None) -> None:
        """Compare, as napari tells of changes that are none; but not a large table."""
        self._version += 1
        layer = self._layer()
        if self.is_changed or layer is None:
            return
        said = self.take_snapshot()
        if event is not None and event.type == "colormap" and said.classes is None:
            self.is_changed = (
                colors_of(said.colors, self.info.colors) != self.info.colors
            )
        else:
            many = max(len(said.features), len(self.info.properties)) > MANY
            self.is_changed = many or said.join_with(self.info) != self.info

    def mark_changed(self) -> None:
        """Take it that the layer says something else now."""
        self._version += 1
        self.is_changed = True

    def ignore_change(self) -> None:
        """Take what the layer says now as no change: the next save writes it, too."""
        self.is_changed = False

    def take_snapshot(self) -> DescriptionSnapshot:
        """Take what the layer says now; in the main thread."""
        layer = self._layer()
        assert layer is not None
        self._said = self._version
        table = getattr(layer.colormap, "color_dict", None)
        colors = None if table is None else dict(table)
        joined = list(layer.metadata.get(JOINED, ()))
        features = layer.features.drop(columns=joined, errors="ignore")
        return DescriptionSnapshot(colors, features, getattr(layer, "classes", None))

    def note_saved(self, info: LabelInfo) -> None:
        """Take note of what the file says now: what was said last."""
        self.info = info
        self.is_changed = False
        if self._said != self._version:
            self._on_change()


@dataclass(frozen=True, slots=True, eq=False)
class DescriptionSnapshot:
    """What a layer said at one moment.

    Attributes
    ----------
    colors
        Label value -> red, green, blue, alpha, each 0-1; None for other labels. None
        where the layer has no colours of its own.
    features
        A pandas.DataFrame.
    classes
        What is said of them counts more; None where they are as in the file.
    """

    colors: dict[int | None, Any] | None
    features: Any
    classes: tuple[LabelClass, ...] | None = None

    def join_with(self, before: LabelInfo) -> LabelInfo:
        """Join it with what the file says."""
        info = replace(
            before,
            colors=colors_of(self.colors, before.colors),
            properties=properties_of(self.features, before.properties),
        )
        return info if self.classes is None else with_classes(info, self.classes)


def colors_of(
    table: Mapping[int | None, Any] | None, before: dict[int, Color]
) -> dict[int, Color]:
    """Find the colours that somebody chose; see `Said.colors`.

    Labels that have none of their own are not in the table.
    """
    colors = dict(before)
    if table is None:
        return colors
    values = [value for value in table if value is not None]
    for value, rgba in zip(
        values, _color_bytes([table[v] for v in values]), strict=True
    ):
        # napari adds that itself to a colormap that lacks it.
        if value == 0 and rgba == (0, 0, 0, 0):
            continue
        if rgba != before.get(value):
            colors[int(value)] = rgba
    return colors


def _color_bytes(colors: list[Any]) -> list[Color]:
    """Turn colours of 0-1 into the bytes of a file."""
    if not colors:
        return []
    rounded = np.rint(255 * np.clip(np.array(colors, float), 0, 1)).astype(int)
    return [(r, g, b, a) for r, g, b, a in rounded.tolist()]


def properties_of(features: Any, before: dict[int, JSON]) -> dict[int, JSON]:
    """Read the properties out of a table; see `label_features`.

    A missing value removes the key from the label where the column is there. Values
    that are equal stay as the file has them, 3 rather than 3.0.

    Parameters
    ----------
    features
        A pandas.DataFrame. Without a column `INDEX` the row is the label value, as
        napari has it.
    """
    columns = {str(name): name for name in features.columns if name != INDEX}
    labels = features[INDEX] if INDEX in features.columns else range(len(features))
    values = {key: list(features[name]) for key, name in columns.items()}
    properties = {value: dict(row) for value, row in before.items()}
    for place, label in enumerate(labels if columns else ()):
        if _is_missing(label) or int(label) != label:
            continue
        value = int(label)
        row = properties.get(value, {})
        for key, column in values.items():
            _put_property(row, key, _to_plain(column[place]))
        if row:
            properties[value] = row
    return properties


def _put_property(row: JSON, key: str, new: Any) -> None:
    """Set one property where it is another than that of the file."""
    if _is_missing(new):
        if row.get(key) is not None:
            del row[key]
    elif (
        key not in row
        or row[key] != new
        or isinstance(row[key], bool) != isinstance(new, bool)
    ):
        row[key] = new


def _is_missing(value: Any) -> bool:
    """Tell a hole in a table: None, NaN, pandas.NA, NaT."""
    import pandas as pd

    missing = pd.isna(value)
    return isinstance(missing, bool | np.bool_) and bool(missing)


def _to_plain(value: Any) -> Any:
    """Turn a scalar of numpy into one of Python."""
    return value.item() if isinstance(value, np.generic) else value
