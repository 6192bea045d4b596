"""Colours and features of a layer of labels, in the form in which a file has them.

Saving adds and changes, and never removes: a colour or a column that a layer lacks may
have been hidden by a plugin or a script, and stays in the file.
"""

from __future__ import annotations

import json
import math
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.label_classes import LabelClass, classes_of, with_classes
from napari_ngff.metadata.model import JSON, KIND, LabelInfo, LabelKind
from napari_ngff.viewer.services.window import Signal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari.layers import Labels


INDEX = "index"
"""Column of the label values, by which napari finds the row of a label."""

JOINED = "ome-zarr-joined"
"""Where a layer's ``metadata`` names the features that are of a table, not its own."""

SHOWN = 3
"""Labels that a message names."""

MANY = 5000
"""Rows of a table above which it counts as changed whenever it is set: comparing it
would hold the window."""

Color = tuple[int, int, int, int]


class LayerDescription:
    """Colours and properties of a layer, against those of its file.

    Parameters
    ----------
    layer
        Of labels.
    info
        Colours and properties in the file.
    """

    changed_turned = Signal()
    """Emitted when `is_changed` becomes another value."""

    classes_conflicted = Signal(object)
    """Emitted after a save with the class here and the class in the file, for each
    label that another program made another class; see `find_class_conflicts`."""

    def __init__(self, layer: Labels, info: LabelInfo | None) -> None:
        self._layer = weakref.ref(layer)
        self.info = info or LabelInfo()
        self._changed = False
        self._version = 0
        layer.events.colormap.connect(self._on_change)
        layer.events.features.connect(self._on_change)

    @property
    def is_changed(self) -> bool:
        """Return whether colours or properties were changed since they were saved.

        Set to False, the present state counts as unchanged; the next save writes it
        anyway.
        """
        return self._changed

    @is_changed.setter
    def is_changed(self, changed: bool) -> None:
        before, self._changed = self._changed, changed
        if changed != before:
            self.changed_turned.emit()

    def _on_change(self, event: Any = None) -> None:
        """Set `is_changed` by comparison, since napari's events come without changes.

        A large table is not compared.
        """
        self._version += 1
        layer = self._layer()
        if self.is_changed or layer is None:
            return
        snapshot = self.take_snapshot()
        # A click on "shuffle colors" needs no look at the features.
        if event is not None and event.type == "colormap" and snapshot.classes is None:
            self.is_changed = (
                colors_of(snapshot.colors, self.info.colors) != self.info.colors
            )
        else:
            many = max(len(snapshot.features), len(self.info.properties)) > MANY
            self.is_changed = (
                many
                or snapshot.join_with(self.info) != self.info
                or bool(snapshot.unsaved_features)
            )

    def mark_changed(self) -> None:
        """Mark the description as changed, without comparing."""
        self._version += 1
        self.is_changed = True

    def take_snapshot(self) -> DescriptionSnapshot:
        """Copy the present colours and features; in the main thread."""
        layer = self._layer()
        assert layer is not None
        table = getattr(layer.colormap, "color_dict", None)
        colors = None if table is None else dict(table)
        # Columns of a table that is only shown: they belong to a file of their own.
        joined = list(layer.metadata.get(JOINED, ()))
        features = layer.features.drop(columns=joined, errors="ignore")
        kind = LabelKind.parse(layer.metadata.get(KIND))
        classes = getattr(layer, "classes", None)
        return DescriptionSnapshot(colors, features, classes, kind, self._version)

    def note_saved(self, info: LabelInfo, saved: DescriptionSnapshot | None) -> None:
        """Note what the file has after a save of a snapshot."""
        self.info = info
        self.is_changed = False
        # Changed while it was saved: compare with what the file has now.
        if saved is None or saved.version != self._version:
            self._on_change()


@dataclass(frozen=True, slots=True, eq=False)
class DescriptionSnapshot:
    """Colours, features and classes of a layer at one moment.

    Attributes
    ----------
    colors
        Label value -> red, green, blue, alpha, each 0-1; None for other labels. None
        where the layer has no colours of its own.
    features
        A pandas.DataFrame.
    classes
        Named labels, which override colours and features; None where they are as in
        the file.
    kind
        None where it is as in the file.
    version
        Equal as long as nothing is changed.
    """

    colors: dict[int | None, Any] | None
    features: Any
    classes: tuple[LabelClass, ...] | None = None
    kind: LabelKind | None = None
    version: int = 0

    @property
    def unsaved_features(self) -> tuple[str, ...]:
        """What of the features cannot be properties; see `unsaved_features`."""
        return unsaved_features(self.features)

    def join_with(self, before: LabelInfo) -> LabelInfo:
        """Return the description of the file with the changes of the layer."""
        info = replace(
            before,
            colors=colors_of(self.colors, before.colors),
            properties=properties_of(self.features, before.properties),
            kind=self.kind or before.kind,
        )
        if self.classes is None:
            return info
        # The features lack the names of removed classes already.
        kept = {item.value for item in self.classes}
        gone = {item.value for item in classes_of(before)} - kept
        colors = {v: rgba for v, rgba in info.colors.items() if v not in gone}
        return with_classes(replace(info, colors=colors), self.classes)


def colors_of(
    table: Mapping[int | None, Any] | None, before: dict[int, Color]
) -> dict[int, Color]:
    """Return the colours of the file with those of a layer's colormap.

    See `DescriptionSnapshot.colors`. Labels without a colour of their own are not in
    the table.
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
    """Convert colours of 0-1 into bytes."""
    if not colors:
        return []
    rounded = np.rint(255 * np.clip(np.array(colors, float), 0, 1)).astype(int)
    return [(r, g, b, a) for r, g, b, a in rounded.tolist()]


def properties_of(features: Any, before: dict[int, JSON]) -> dict[int, JSON]:
    """Convert a table of features into properties; see `label_features`.

    A missing value removes the key from the label where the column is there. Values
    that are equal stay as the file has them, 3 rather than 3.0. What `unsaved_features`
    names stays as the file has it, too.

    Parameters
    ----------
    features
        A pandas.DataFrame. Labels are in a column `INDEX`, else in one "label" of whole
        numbers; without either the row is the label value, as napari has it.
    """
    key, labels = _find_labels(features)
    properties = {value: dict(row) for value, row in before.items()}
    names = [name for name in features.columns if name != key]
    columns = {str(name): list(features[name]) for name in names}
    # Rows of no label, such as those that joining tables has added, are NaN.
    known = labels.notna() & ~labels.duplicated(keep=False)
    values = labels.tolist()
    for index in known.to_numpy().nonzero()[0].tolist() if columns else ():
        value = int(values[index])
        row = properties.get(value, {})
        for name, column in columns.items():
            with suppress(ValueError):
                _put_property(row, name, _to_json(column[index]))
        if row:
            properties[value] = row
    return properties


def unsaved_features(features: Any) -> tuple[str, ...]:
    """Name what of a table of features cannot be properties, for people."""
    key, labels = _find_labels(features)
    reasons = []
    repeated = labels[labels.duplicated(keep=False) & labels.notna()].unique()
    if len(repeated):
        some = ", ".join(str(int(label)) for label in repeated[:SHOWN])
        more = f" and {len(repeated) - SHOWN:,} more" if len(repeated) > SHOWN else ""
        reasons.append(f"several rows for one label (label {some}{more})")
    for name in features.columns:
        try:
            for value in features[name] if name != key else ():
                _to_json(value)
        except ValueError as error:
            reasons.append(f"{error} in column {str(name)!r}")
    return tuple(reasons)


def _find_labels(features: Any) -> tuple[Any, Any]:
    """Find the column of label values, and the values; NaN for rows of no label.

    Returns
    -------
    name, labels
        Name of the column, None for the numbers of the rows; a pandas.Series.
    """
    import pandas as pd

    titles = {str(name).lower(): name for name in reversed(list(features.columns))}
    for title in (title for title in (INDEX, "label") if title in titles):
        labels = pd.to_numeric(features[titles[title]], errors="coerce")
        # The usual column is as it should be; the rest would take a millisecond.
        if labels.dtype.kind in "iu" and len(labels):
            return titles[title], labels
        whole = labels.notna() & (labels % 1 == 0)
        if title == INDEX or (whole.any() and (whole | labels.isna()).all()):
            return titles[title], labels.where(whole)
    return None, pd.Series(range(len(features)), features.index)


def _put_property(row: JSON, key: str, new: Any) -> None:
    """Set one property, if it differs from that of the file."""
    if new is None:
        if row.get(key) is not None:
            del row[key]
    elif (
        key not in row
        or row[key] != new
        # In Python True == 1, in JSON they are different.
        or isinstance(row[key], bool) != isinstance(new, bool)
    ):
        row[key] = new


def _is_missing(value: Any) -> bool:
    """Return whether a cell of a table is empty: None, NaN, pandas.NA, NaT."""
    import pandas as pd

    missing = pd.isna(value)
    return isinstance(missing, bool | np.bool_) and bool(missing)


def _to_json(value: Any) -> Any:
    """Convert a cell into what JSON takes; dates as text of ISO 8601, empty ones None.

    Raises
    ------
    ValueError
        Where JSON has no such value.
    """
    is_number = isinstance(value, np.generic) and value.dtype.kind in "biuf"
    plain = value.item() if is_number else value
    if isinstance(plain, str | bool | int):
        return plain
    if _is_missing(plain):
        return None
    if isinstance(plain, date):
        return plain.isoformat()
    what = "infinity" if isinstance(plain, float) else type(plain).__name__
    try:
        if not isinstance(plain, float):
            json.dumps(plain, allow_nan=False)
        elif not math.isfinite(plain):
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(f"{what}, which JSON does not have,") from None
    return plain
