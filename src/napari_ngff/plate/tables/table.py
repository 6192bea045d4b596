"""Tables of wells, fields or objects: rows that belong to wells of a plate."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError
from napari_ngff.plate.plate_layout import row_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from napari_ngff.plate.tables.conditions import ColumnCondition

WELL, FIELD, LABEL = "well", "field", "label"
"""Names of the columns that say where a row belongs, in every `WellTable`."""

ACQUISITION = "acquisition"
"""Name of the column with the names of acquisitions, for plates with several."""

AGGREGATIONS = ("mean", "median", "sum", "std", "count", "min", "max")
"""How many rows of a well become one value; `std` is that of a sample (n - 1)."""

CATEGORY = "most frequent"
"""The way in which several texts of a well become one."""

# The last ones are CellProfiler's.
WELLS: tuple[str, ...] = ("well", "well_name", "wellname", "well name", "well_id")
WELLS += ("wellid", "metadata_well", "image_metadata_well")
ROWS = ("row", "well_row", "wellrow", "row_name", "metadata_row")
COLUMNS: tuple[str, ...] = ("column", "col", "well_column", "wellcolumn", "well_col")
COLUMNS += ("column_name", "metadata_column", "metadata_col")
FIELDS = ("field", "path_in_well", "field_index", "fov", "site")
LABELS = ("label", "label_id", "labelid", "object_label")

NAME = re.compile(r"([A-Za-z]{1,2})0*(\d+)")
SEPARATORS = re.compile(r"[/\\_\s-]+")
# Some programs name rows of wells by numbers from 1 on.
ROW_NUMBERS = {row_letters(i): str(i + 1) for i in range(64)}
SHOWN = 12
"""Number of column names in a message."""


@dataclass(frozen=True, slots=True, eq=False)
class WellTable:
    """A table whose rows belong to wells.

    Attributes
    ----------
    name
        Of the file or the table.
    frame
        A pandas.DataFrame: `WELL` (`well_key`), where there are any `FIELD` (path of
        the image in its well, text) and `LABEL` (int64), and all other columns as they
        were read.
    region
        Name of the labels whose objects the rows are; "" where it is not said.
    without
        Well (`well_key`), field and acquisition of each image in which no object was
        found, and so has no row.
    """

    name: str
    frame: Any
    region: str = ""
    without: tuple[tuple[str, str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with values."""
        return tuple(c for c in self.frame.columns if c not in (WELL, FIELD, LABEL))

    @property
    def place_columns(self) -> tuple[str, ...]:
        """Those of `FIELD` and `LABEL` that the table has."""
        return tuple(c for c in (FIELD, LABEL) if c in self.frame.columns)

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """Names of the columns that hold numbers."""
        return tuple(c for c in self.columns if self.is_numeric(c))

    def is_numeric(self, column: str) -> bool:
        """Return whether a column holds numbers; true and false are 1 and 0."""
        return self.frame[column].dtype.kind in "biuf"

    @property
    def acquisition_column(self) -> str | None:
        """Name of the column with the acquisitions of rows; None for none."""
        return next((c for c in self.columns if c.lower() == ACQUISITION), None)

    def keep_columns(self, names: Collection[str | None]) -> WellTable:
        """Leave out all columns but some, and those that say where rows belong."""
        kept = {WELL, FIELD, LABEL, self.acquisition_column, *names}
        frame = self.frame[[column for column in self.frame if column in kept]]
        return replace(self, frame=frame)

    def rows_where(self, conditions: Sequence[ColumnCondition]) -> WellTable:
        """Keep the rows that meet all conditions.

        Raises
        ------
        ValueError
            Where a condition does not fit its column.
        """
        frame = self.frame
        for condition in conditions:
            frame = frame[condition.rows_meeting(frame)]
        # Images without an object meet no condition.
        return replace(self, frame=frame, without=() if conditions else self.without)

    def hide_acquisitions(self, names: Collection[str]) -> WellTable:
        """Leave out the rows of some acquisitions; those of none that is named stay."""
        column = self.acquisition_column
        if column is None or not names:
            return self
        frame = self.frame[~column_texts(self.frame[column]).isin(names)]
        without = tuple(place for place in self.without if place[2] not in names)
        return replace(self, frame=frame, without=without)

    def of_wells(self, keys: Collection[str]) -> WellTable:
        """Keep the rows of some wells, by `well_key`."""
        frame = self.frame[self.frame[WELL].isin(keys)]
        without = tuple(place for place in self.without if place[0] in keys)
        return replace(self, frame=frame, without=without)

    def of_field(self, well: str, field: str) -> WellTable:
        """Keep the rows of one image; if the table has no fields, those of its well.

        Parameters
        ----------
        well, field
            Paths, such as "B/03" and "0"; no well, "", where there are none.
        """
        rows = self.of_wells(known_as(well))
        if FIELD in rows.frame.columns:
            rows = replace(rows, frame=rows.frame[rows.frame[FIELD] == field])
        return rows

    def by_well(self, column: str, how: str) -> dict[str, float]:
        """Combine all rows of each well into one value.

        Missing values do not count. A well whose values are all missing is left out,
        but for `count`, which is 0 there.

        Parameters
        ----------
        column
            One of `columns`, for `count` also of text; or `LABEL`: the number of
            objects of each image.
        how
            One of `AGGREGATIONS`.

        Returns
        -------
        dict
            By `well_key`.

        Raises
        ------
        ValueError
            Where text is to be anything but counted.
        """
        if column == LABEL:
            return self._count_objects(how)
        if how != "count" and not self.is_numeric(column):
            msg = f"{column!r} is text: choose 'count'."
            raise ValueError(msg)
        # Sums of a narrow type may not fit into it, and booleans have none.
        values = self.frame[column]
        values = values if how == "count" else values.astype(float)
        return _combine(values.groupby(self.frame[WELL], observed=True), how)

    def _count_objects(self, how: str) -> dict[str, float]:
        """Combine the numbers of objects of the images of each well."""
        import pandas as pd

        places = [name for name in (WELL, FIELD) if name in self.frame.columns]
        # At several time points an object has several rows.
        found = self.frame.groupby(places, observed=True)[LABEL].nunique()
        wells = [str(well) for well in found.index.get_level_values(0)]
        wells += [well for well, _, _ in self.without]
        counts = [*found.tolist(), *[0] * len(self.without)]
        return _combine(pd.Series(counts, dtype=float).groupby(wells), how)

    def list_texts(self, column: str) -> tuple[str, ...]:
        """List the different values of a column as text, in no order."""
        texts = (_name_text(value) for value in self.frame[column].dropna().unique())
        return tuple(text for text in texts if text)

    def category_by_well(
        self, wells: Iterable[str], column: str
    ) -> dict[str, str | None]:
        """Return the most frequent text of each well, by its path.

        Of texts that are equally frequent the first in the alphabet; None for wells
        without any.
        """
        import pandas as pd

        # Numbers first: comparing a million texts keeps other threads waiting.
        codes, values = pd.factorize(self.frame[column])
        rows = self.frame[[WELL]].assign(code=codes)
        sizes = rows.groupby([WELL, "code"], observed=True).size()
        counts = sizes.reset_index(name="count")
        texts = [*map(_name_text, values), ""]  # a missing value has the code -1
        counts["text"] = [texts[code] for code in counts["code"]]
        counts = counts[counts["text"] != ""].groupby([WELL, "text"], observed=True)
        # Texts are in the order of the alphabet.
        sums = counts["count"].sum().reset_index()
        best = sums.sort_values("count", ascending=False, kind="stable")
        best = best.drop_duplicates(WELL)
        return self._of_paths(wells, dict(zip(best[WELL], best["text"], strict=True)))

    def describe_columns(self) -> tuple[tuple[str, str], ...]:
        """Summarise the rows, for people.

        Returns
        -------
        tuple
            Name and text of each column: its value, or the mean of numbers and the most
            frequent text of several rows.
        """
        return tuple(
            (name, self._summarize_values(self.frame[name])) for name in self.columns
        )

    def _summarize_values(self, values: Any) -> str:
        known = values.dropna()
        if not len(known):
            return "no value"
        if values.dtype.kind in "iuf" and len(values) > 1:
            return f"{known.astype(float).mean():.4g} (mean of {len(known):,})"
        if len(values) == 1:
            value = known.iloc[0]
            return f"{value:.6g}" if values.dtype.kind == "f" else _name_text(value)
        counts = known.astype(str).value_counts()
        if len(counts) == 1:
            return str(counts.index[0])
        return f"{counts.index[0]} ({counts.iloc[0]:,} of {len(known):,})"

    def wells_of(self, wells: Iterable[str]) -> dict[str, str]:
        """Find the wells of a plate that the rows belong to.

        Parameters
        ----------
        wells
            Paths, such as "B/03".

        Returns
        -------
        dict
            Path by `well_key`; keys of no well of the plate are not in it.
        """
        keys = {*self.frame[WELL].unique(), *(place[0] for place in self.without)}
        return {key: path for path in wells for key in known_as(path) if key in keys}

    def value_by_well(
        self, wells: Iterable[str], column: str, how: str
    ) -> dict[str, float | None]:
        """Return `by_well` by the paths of wells; None for a well without a value."""
        return self._of_paths(wells, self.by_well(column, how))

    def _of_paths(
        self, wells: Iterable[str], by_key: Mapping[str, Any]
    ) -> dict[str, Any]:
        paths = tuple(wells)
        found = {path: by_key.get(key) for key, path in self.wells_of(paths).items()}
        return {path: found.get(path) for path in paths}


def _combine(groups: Any, how: str) -> dict[str, float]:
    # `min_count`: the sum of nothing but missing values is missing, not 0.
    by_key = groups.sum(min_count=1) if how == "sum" else groups.agg(how)
    return {str(key): float(value) for key, value in by_key.dropna().items()}


def well_key(name: str) -> str:
    """Return the name of a well in the form in which tables are joined.

    "B3", "b03", "B/3", "B-03" and "B_3" are all "B/3".
    """
    parts = SEPARATORS.split(name.strip())
    if len(parts) == 1:
        match = NAME.fullmatch(parts[0])
        if match is None:
            return name.strip().upper()
        parts = [match[1], match[2]]
    # "0" is a name, too, and would be nothing without its zeros.
    return "/".join(part.upper().lstrip("0") or "0" for part in parts)


def known_as(path: str) -> tuple[str, ...]:
    """Return the keys of a well: its name, and with its row as a number from 1 on."""
    key = well_key(path)
    row, _, column = key.partition("/")
    number = ROW_NUMBERS.get(row)
    return (key,) if number is None else (key, f"{number}/{column}")


def make_table(
    frame: Any, name: str, place: Mapping[str, str] | None = None, region: str = ""
) -> WellTable:
    """Find the well of each row of a frame.

    Columns of places are known by their usual names ("well", or "row" and "column";
    "field", "label"), in either case. Rows without a well are left out.

    Parameters
    ----------
    frame
        A pandas.DataFrame.
    name
        For messages, and for people.
    place
        `WELL` and `FIELD` of all rows, if they are known from elsewhere; "" for the
        images of a collection, which are in no well.
    region
        As in `WellTable`.

    Raises
    ------
    CorruptDataError
        Where no column names wells, or labels are no integers.
    """
    place = place or {}
    frame = frame.set_axis(
        _number_names([str(c).strip() for c in frame.columns]), axis=1
    )
    # Reversed, so that of names that differ in case the first one wins.
    names = {column.lower(): column for column in reversed(list(frame.columns))}
    known = {WELL: place.get(WELL), FIELD: place.get(FIELD)}
    result: dict[str, Any] = {}
    used = []
    well, row, column = (
        _first_present(names, usual) for usual in (WELLS, ROWS, COLUMNS)
    )
    # What is known counts more than a column, which may hold names of another plate.
    if known[WELL] is not None:
        result[WELL] = well_key(known[WELL] or "")
    elif well is not None:
        result[WELL] = _apply_once(column_texts(frame[well]), well_key)
        used.append(well)
    elif row is not None and column is not None:
        pairs = column_texts(frame[row]) + "/" + column_texts(frame[column])
        # Without the half of a name a row is in no well.
        is_whole = ~(pairs.str.startswith("/") | pairs.str.endswith("/"))
        result[WELL] = _apply_once(pairs.where(is_whole, ""), well_key)
        used += [row, column]
    else:
        raise CorruptDataError(_no_wells(name, list(frame.columns)))
    field, label = _first_present(names, FIELDS), _first_present(names, LABELS)
    if known[FIELD] is not None:
        result[FIELD] = known[FIELD]
    elif field is not None:
        result[FIELD] = column_texts(frame[field])
        used.append(field)
    if label is not None and _has_numbers(frame[label]):
        result[LABEL] = _label_integers(frame[label], label, name)
        used.append(label)
    # Columns of places are taken out of the values, under any of their names.
    values = frame.drop(columns=[c for c in used if c in frame.columns])
    values = values.drop(columns=[c for c in result if c in values.columns])
    if LABEL in values.columns:  # text, see `WellTable`
        values = values.rename(columns={LABEL: f"{LABEL} (text)"})
    joined = values.assign(**result)[[*result, *values.columns]]
    if known[WELL] is None:
        joined = joined[joined[WELL] != ""].reset_index(drop=True)
    # Categories: a plate has few wells and fields, and numbers are compared quickly.
    types = {name: "category" for name in (WELL, FIELD) if name in joined.columns}
    types |= {name: "boolean" for name in values.columns if is_truth(joined[name])}
    return WellTable(name, joined.astype(types), region)


def is_well_name(text: str) -> bool:
    """Return whether a text is the name of a well, such as "B3", "b03" or "B/3"."""
    return re.fullmatch(r"[A-Z]{1,2}/\d+", well_key(text)) is not None


def _number_names(names: list[str]) -> list[str]:
    """Add numbers to repeated names, as pandas does."""
    unique: list[str] = []
    for name in names:
        others = (f"{name}.{number}" for number in count(1))
        unique.append(next(n for n in chain([name], others) if n not in unique))
    return unique


def _first_present(names: Mapping[str, str], usual: Iterable[str]) -> str | None:
    return next((names[name] for name in usual if name in names), None)


def column_texts(column: Any) -> Any:
    """Convert a column of names to text; see `_name_text`."""
    return _apply_once(column, _name_text)


def _apply_once(column: Any, step: Callable[[Any], str]) -> Any:
    """Apply a function to a column, once for each different value."""
    import numpy as np
    import pandas as pd

    codes, values = pd.factorize(column, use_na_sentinel=False)
    results = np.array([step(value) for value in values], dtype=object)
    return pd.Series(results[codes], index=column.index, dtype=object)


def _name_text(value: Any) -> str:
    """Convert a name to text: 3 for 3.0, "" for a missing value."""
    if isinstance(value, float):
        # NaN is the one float that does not equal itself.
        if value != value:
            return ""
        return str(int(value)) if value.is_integer() else str(value)
    import pandas as pd

    # Of pandas, NumPy and Arrow, each of which have their own missing values.
    return "" if pd.isna(value) is True else str(value).strip()


def is_truth(column: Any) -> bool:
    """Return whether a column holds only true, false and missing values."""
    from pandas.api.types import infer_dtype

    kind = infer_dtype(column, skipna=True) if column.dtype == object else ""
    return bool(kind == "boolean")


def _has_numbers(column: Any) -> bool:
    """Return whether a column holds any number; a name or a treatment is no id."""
    import pandas as pd

    return not len(column) or bool(pd.to_numeric(column, errors="coerce").notna().any())


def _label_integers(column: Any, label: str, name: str) -> Any:
    """Convert ids of labels to integers.

    Raises
    ------
    CorruptDataError
        Where one is missing or no integer.
    """
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.isna().any() or (numbers % 1 != 0).any():
        msg = f"{name}: the column {label!r} has to hold the ids of labels: integers."
        raise CorruptDataError(msg)
    # Ids above stay uint64, as arrays of labels may have them.
    fits = numbers.dtype != "uint64" or not len(numbers) or numbers.max() < 2**63
    return numbers.astype("int64") if fits else numbers


def _no_wells(name: str, columns: list[str]) -> str:
    listed = ", ".join(repr(column) for column in columns[:SHOWN])
    more = f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else ""
    return (
        f"{name}: no column names wells; there are {listed or 'none'}{more}. Give it a"
        " column 'well' (B3, B03, B/3), or 'row' and 'column'."
    )
