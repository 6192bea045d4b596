"""Colours of very many labels: napari's direct colormap, from tables of numpy.

napari 0.9 makes what it draws out of ``DirectLabelColormap.color_dict`` value by value,
after each change: half a second of its main thread for 10^5 labels. `LabelColors`
answers from arrays instead. What it overrides here, and nowhere else, is private to
napari and called by its layer of labels, its thumbnail and its canvas alone:
``_data_to_texture``, ``_map_without_cache``, ``_num_unique_colors``, ``_clear_cache``
and ``_values_mapping_to_minimum_values_set`` (napari 0.9.0 to 0.9.2; tests compare it
with napari's own colours, pixel by pixel).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from napari.utils.colormaps import CyclicLabelColormap, DirectLabelColormap

from napari_ngff.viewer.private.lost import relies_on

NEAR = 1 << 20
"""Labels from 0 to below this have their row in a table, which is fastest."""


def as_int64(labels: Iterable[int]) -> np.ndarray:
    """Convert labels to signed integers of the same 64 bits."""
    listed, half = list(labels), 1 << 63
    with suppress(OverflowError):
        return np.array(listed, np.int64)
    return np.array([(label + half) % (2 * half) - half for label in listed], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ColorTable:
    """The colours of labels, as arrays.

    Attributes
    ----------
    cycle
        Number of `colors` after the first that labels without a colour of their own
        use in turn.
    values
        Labels with a colour of their own; see `as_int64`.
    colors
        Red, green, blue, alpha, each 0-1, "rc" (row, part): of the background, of the
        cycle, then of each of `values`.
    near
        Row of `colors` of each label from 0 on.
    far, far_rows
        Those of `values` that `near` has not, sorted, and their rows of `colors`.
    """

    cycle: int
    values: np.ndarray
    colors: np.ndarray
    near: np.ndarray
    far: np.ndarray
    far_rows: np.ndarray

    @classmethod
    def from_colors(
        cls, usual: np.ndarray, values: np.ndarray, own_colors: np.ndarray
    ) -> Self:
        """Make a table.

        Parameters
        ----------
        usual
            Colours "rc" of the background, and of the cycle.
        values, own_colors
            Labels, each once, and their own colours "rc".
        """
        return cls.from_groups(usual, values, np.arange(len(values)), own_colors)

    @classmethod
    def from_groups(
        cls, usual: np.ndarray, values: np.ndarray, groups: Any, colors: np.ndarray
    ) -> Self:
        """Make a table in which labels share their colours.

        Parameters
        ----------
        usual, values
            See `from_colors`.
        groups
            Number of the colour of each of `values`.
        colors
            Their colours "rc".
        """
        cycle, first = len(usual) - 1, len(usual)
        rows = first + groups
        kind = _texture_type(first + len(colors))
        near = np.zeros(NEAR, kind)
        # Rows 1 to `cycle` again and again, as napari's cyclic colours; 0 is the
        # background.
        turn = np.arange(1, first).astype(kind)
        near[1:] = np.tile(turn, NEAR // cycle + 1)[: NEAR - 1]
        is_near = (values >= 0) & (values < NEAR)
        near[values[is_near]] = rows[is_near]
        order = np.argsort(values[~is_near])
        far, far_rows = values[~is_near][order], rows[~is_near][order]
        colors = np.concatenate([usual, colors]).astype(np.float32)
        return cls(cycle, values, colors, near, far, far_rows)

    def rows_of(self, values: np.ndarray) -> Any:
        """Find the row of `colors` of each label, in the type of the texture."""
        outside = values >= NEAR
        if values.dtype.kind == "i":
            outside |= values < 0
        # Labels outside of the table get their rows below.
        numbers = self.near.take(values.astype(np.intp, copy=False), mode="clip")
        if not outside.any():
            return numbers
        signed = values.dtype.kind == "i"
        # In 64 bits, so that subtracting 1 cannot wrap around in a narrow type.
        rest = values[outside].astype(np.int64 if signed else np.uint64)
        rows = ((rest - 1) % self.cycle + 1).astype(np.intp)
        if len(self.far):
            keys = rest.view(np.int64)
            far_index = np.searchsorted(self.far, keys)
            far_index = np.minimum(far_index, len(self.far) - 1)
            is_listed = self.far[far_index] == keys
            rows[is_listed] = self.far_rows[far_index[is_listed]]
        numbers[outside] = rows
        return numbers

    def row_of(self, value: int) -> int:
        """Return the row of `colors` of one label."""
        return int(self.rows_of(np.array([value]))[0])

    def with_changes(self, changes: Mapping[int, Any]) -> Self:
        """Make the table in which some labels have other colours, or the usual one."""
        kept = ~np.isin(self.values, as_int64(changes))
        new = {value: color for value, color in changes.items() if color is not None}
        own_colors = self.colors[self.rows_of(self.values).astype(np.intp)]
        return self.from_colors(
            self.colors[: self.cycle + 1],
            np.concatenate([self.values[kept], as_int64(new)]),
            np.concatenate(
                [own_colors[kept], np.array([*new.values()]).reshape(-1, 4)]
            ),
        )


class ColorRows(dict[Any, Any]):
    """Colours by number, for napari's ``build_textures_from_dict``: all in one item.

    It asks for the length, and sets ``data[key % n, key // n] = value`` per item.
    """

    def __init__(self, colors: np.ndarray) -> None:
        super().__init__()
        self._colors = colors

    def __len__(self) -> int:
        return len(self._colors)

    def items(self) -> Any:
        """Return one item: all numbers, and all colours."""
        return [(np.arange(len(self)), self._colors)]


@relies_on(
    "_clear_cache _data_to_texture _map_without_cache _num_unique_colors",
    "_values_mapping_to_minimum_values_set",
)
class LabelColors(DirectLabelColormap):  # type: ignore[misc]
    """Own colours of listed labels, and of all others napari's usual ones.

    ``color_dict`` holds those that are listed, as in napari's; make another colormap
    by `recolor_labels` rather than changing it.
    """

    _usual: np.ndarray | None = None
    _table: ColorTable | None = None

    @classmethod
    def from_listed(
        cls,
        listed: Mapping[int | None, Any],
        usual: np.ndarray | None = None,
        table: ColorTable | None = None,
    ) -> Self:
        """Make a colormap; what is given needs no check, as napari's checks take long.

        Parameters
        ----------
        listed
            Label value -> red, green, blue, alpha, each 0-1.
        usual
            See `ColorTable.from_colors`; by default all others have the colour of None.
        table
            Of the same colours, where it is there already.
        """
        other = listed.get(None, np.zeros(4))
        colormap = cls(color_dict={None: other, 0: np.zeros(4)})
        colormap.color_dict.update(listed)
        colormap._usual, colormap._table = usual, table
        return colormap

    @property
    def usual(self) -> np.ndarray:
        """Colours "rc" of the background, and of labels that are not listed."""
        if self._usual is None:
            return np.array([np.zeros(4), self.default_color], np.float32)
        return self._usual

    @property
    def table(self) -> ColorTable:
        """The same as arrays."""
        if self._table is None:
            values = [v for v in self.color_dict if v is not None]
            listed = np.array([self.color_dict[v] for v in values], np.float32)
            self._table = ColorTable.from_colors(
                self.usual, as_int64(values), listed.reshape(-1, 4)
            )
        return self._table

    def map(self, values: Any) -> Any:
        """Return the colours of labels, as napari's does."""
        if isinstance(values, int | np.integer):
            if self.use_selection and values != self.selection:
                return np.zeros(4)
            return self.table.colors[self.table.row_of(int(values))]
        values = np.asarray(values)
        if values.dtype.kind not in "iu":
            raise TypeError("DirectLabelColormap can only be used with int")
        colors = self._map_without_cache(values)
        if self.use_selection:
            colors[values != self.selection] = 0
        return colors

    # What napari calls.

    @property
    def _num_unique_colors(self) -> int:
        # napari counts two more, for labels without colour and the background.
        return len(self.table.colors) - 2

    def _clear_cache(self) -> None:
        super()._clear_cache()
        self._table = None

    def _map_without_cache(self, values: Any) -> Any:
        return self.table.colors[self.table.rows_of(values).astype(np.intp)]

    def _data_to_texture(self, values: Any) -> Any:
        # Of 8 and 16 bits napari sends the values themselves: its shader has the
        # colours.
        if values.dtype.itemsize <= 2:
            return super()._data_to_texture(values)
        if not self.use_selection:
            rows = self.table.rows_of(np.atleast_1d(values))
        else:
            # Two rows, as `_values_mapping_to_minimum_values_set` has them.
            kind = self.table.near.dtype
            rows = np.atleast_1d(values == self.selection).astype(kind)
        return rows.reshape(np.shape(values))[()]

    def _values_mapping_to_minimum_values_set(
        self, apply_selection: bool = True
    ) -> tuple[dict[int | None, int], dict[int, Any]]:
        if self.use_selection and apply_selection:
            color = self.table.colors[self.table.row_of(self.selection)]
            return {self.selection: 1, None: 0}, {0: np.zeros(4), 1: color}
        return {}, ColorRows(self.table.colors)


def recolor_labels(colormap: Any, changes: Mapping[int, Any]) -> Any:
    """Make a colormap in which some labels have other colours.

    Parameters
    ----------
    colormap
        Any of a layer of labels.
    changes
        Label value -> red, green, blue, alpha, each 0-1; None for the usual colour.

    Returns
    -------
    LabelColors
        Or `colormap`, where that has these colours already.
    """
    cyclic = isinstance(colormap, CyclicLabelColormap)
    before = {0: np.zeros(4)} if cyclic else colormap.color_dict
    changed = {
        value: color
        for value, color in changes.items()
        if (color is None) != (value not in before)
        or (color is not None and not np.array_equal(before[value], color))
    }
    if not (changed or cyclic):
        return colormap
    listed = dict(before)
    for value, color in changed.items():
        listed.pop(value, None)
        if color is not None:
            listed[value] = np.asarray(color, np.float32)
    usual = table = None
    if isinstance(colormap, LabelColors):
        usual = colormap._usual
        table = colormap.table.with_changes(changed)
    elif cyclic:
        usual = colormap.colors.astype(np.float32)
        usual[0] = 0
    made = LabelColors.from_listed(listed, usual, table)
    made.selection, made.use_selection = colormap.selection, colormap.use_selection
    return made


def color_groups(
    colormap: Any, labels: np.ndarray, groups: Any, colors: Any, rest: Any
) -> Any:
    """Make a colormap that shows labels in colours which are not their own.

    Their own ones stay in its ``color_dict``, which is what a file gets.

    Parameters
    ----------
    colormap
        Any of a layer of labels.
    labels, groups
        Each label once, and the number of its colour.
    colors
        Red, green, blue, alpha, each 0-1, "rc".
    rest
        Colour of all other labels.
    """
    usual = np.array([np.zeros(4), rest], np.float32)
    table = ColorTable.from_groups(usual, labels, groups, colors)
    return _draw_table(colormap, table)


def hide_labels(colormap: Any, labels: Iterable[int]) -> Any:
    """Make a colormap that does not show some labels; else as `color_groups`."""
    hidden = dict.fromkeys(labels, np.zeros(4))
    if not hidden:
        return colormap
    drawn = recolor_labels(colormap, dict([*hidden.items()][:1]))
    return _draw_table(colormap, drawn.table.with_changes(hidden))


def _draw_table(colormap: Any, table: ColorTable) -> LabelColors:
    """Make a colormap that draws a table, and has the own colours of another one."""
    cyclic = isinstance(colormap, CyclicLabelColormap)
    own = {0: np.zeros(4)} if cyclic else colormap.color_dict
    made = LabelColors.from_listed(own, table.colors[: table.cycle + 1], table)
    made.selection, made.use_selection = colormap.selection, colormap.use_selection
    return made


def _texture_type(count: int) -> Any:
    """Return the type in which napari hands so many colours to the graphics card."""
    if count <= np.iinfo(np.uint8).max:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16 if count <= np.iinfo(np.uint16).max else np.float32)
