"""Tables of wells, fields or objects: rows that belong to wells of a plate."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import CorruptDataError, OMEZarrError, may_pass
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.plate_layout import row_letters
from napari_ngff.store.sources.read_ahead import call_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from napari_ngff.metadata.model import WellField
    from napari_ngff.plate.tables.conditions import ColumnCondition
    from napari_ngff.store.hierarchy.node import Node


WELL, FIELD, LABEL = "well", "field", "label"
"""Names of the columns that say where a row belongs, in every `WellTable`."""

PLACES = (WELL, FIELD, LABEL)
"""These columns, in their order."""

ACQUISITION = "acquisition"
"""Name of the column with the names of acquisitions, for plates with several."""

AGGREGATIONS = ("mean", "median", "sum", "std", "count", "min", "max")
"""How many rows of a well become one value; `std` is that of a sample (n - 1)."""

CATEGORY = "most frequent"
"""The way in which several texts of a well become one."""

SHARE = "share of "
"""Begins a way in which texts become a number, in percent: "share of mitotic"."""

# The last ones are CellProfiler's.
WELLS = (
    "well",
    "well_name",
    "wellname",
    "well name",
    "well_id",
    "wellid",
    "metadata_well",
    "image_metadata_well",
)
ROWS = ("row", "well_row", "wellrow", "row_name", "metadata_row")
COLUMNS = (
    "column",
    "col",
    "well_column",
    "wellcolumn",
    "well_col",
    "column_name",
    "metadata_column",
    "metadata_col",
)
FIELDS = ("field", "path_in_well", "field_index", "fov", "site")
LABELS = (
    "label",
    "label_id",
    "labelid",
    "object_label",
    "objectnumber",
    "object_number",
    "number_object_number",
)

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
        A pandas.DataFrame: `WELL` (`well_key`, or its path on a plate: `place_on`),
        where there are any `FIELD` (path of the image in its well, text) and `LABEL`
        (int64), and all other columns as they were read.
    region
        Name of the labels whose objects the rows are; "" where it is not said.
    without
        Well, field and acquisition of each image in which no object was found, and so
        has no row.
    names
        Of the wells of the plate, by their paths; none before `place_on`.
    """

    name: str
    frame: Any
    region: str = ""
    without: tuple[tuple[str, str, str], ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with values."""
        return tuple(c for c in self.frame.columns if c not in PLACES)

    @property
    def place_columns(self) -> tuple[str, ...]:
        """Those of `FIELD` and `LABEL` that the table has."""
        return tuple(c for c in (FIELD, LABEL) if c in self.frame.columns)

    @property
    def has_lone_rows(self) -> bool:
        """Whether each well has one row at most."""
        wells = self.frame[WELL]
        # The first rows of many tell it at once.
        return bool(wells.iloc[:1000].is_unique and wells.is_unique)

    @property
    def row_noun(self) -> str:
        """What rows are: "objects", "images", or "rows" of wells."""
        counted = "objects" if LABEL in self.place_columns else "images"
        return counted if self.place_columns else "rows"

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

    def place_on(self, names: Mapping[str, str]) -> WellTable:
        """Name the wells of a plate by their paths; others keep their keys.

        Parameters
        ----------
        names
            Of the wells, by their paths, such as "B/03".
        """
        known = {key: path for path in names for key in known_as(path)}
        wells = self.frame[WELL].map(lambda key: known.get(key, key))
        frame = self.frame.assign(**{WELL: wells.astype("category")})
        without = tuple((known.get(key, key), x, run) for key, x, run in self.without)
        return replace(self, frame=frame, without=without, names=names)

    def list_others(self) -> tuple[str, ...]:
        """List the keys of wells that are not on the plate."""
        wells = self.frame[WELL].unique()
        return tuple(well for well in wells if well and well not in self.names)

    def to_frame(self) -> Any:
        """Return the rows as other programs get them, with wells as "B03"."""
        wells = self.frame[WELL].map(lambda path: self.names.get(path, path))
        frame = self.frame.assign(**{WELL: wells})
        return frame if (frame[WELL] != "").any() else frame.drop(columns=WELL)

    def describe_fields(self) -> str:
        """Say of how many fields each well has rows: "4 fields", "1 to 4 fields"."""
        places = self.frame[[WELL, FIELD]].drop_duplicates()
        known = {*places.itertuples(index=False, name=None)}
        known |= {place[:2] for place in self.without}
        counts = sorted(Counter(well for well, _ in known).values()) or [0]
        numbers = " to ".join(f"{x:,}" for x in dict.fromkeys((counts[0], counts[-1])))
        return f"{numbers} field{'s' * (counts[-1] != 1)}"

    def list_images(self) -> dict[str, Any]:
        """Part the rows by their images: path of an image on the plate -> its rows.

        Images without an object have a table without rows.
        """
        paths = self.frame[WELL].astype(str)
        if FIELD in self.frame:
            paths = paths + "/" + self.frame[FIELD].astype(str)
        places = [WELL, FIELD, self.acquisition_column]
        rows = self.frame.drop(columns=places, errors="ignore")
        empty = [f"{well}/{field}".strip("/") for well, field, _ in self.without]
        groups = rows.groupby(paths.str.strip("/")).indices
        found = {str(path): rows.iloc[groups[path]] for path in groups}
        return dict.fromkeys(empty, rows.iloc[:0]) | found or {"": rows}

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

    def of_wells(self, wells: Collection[str]) -> WellTable:
        """Keep the rows of some wells."""
        frame = self.frame[self.frame[WELL].isin(wells)]
        without = tuple(place for place in self.without if place[0] in wells)
        return replace(self, frame=frame, without=without)

    def regroup(self, groups: Any) -> WellTable:
        """Put rows into groups instead of wells.

        Parameters
        ----------
        groups
            A pandas.Series with the group of each well, by its path; rows of others
            are of none.
        """
        return replace(
            self, frame=self.frame.assign(**{WELL: self.frame[WELL].map(groups)})
        )

    def of_field(self, well: str, field: str) -> WellTable:
        """Keep the rows of one image; if the table has no fields, those of its well.

        Parameters
        ----------
        well, field
            Paths, such as "B/03" and "0"; no well, "", where there are none.
        """
        frame = self.frame[self.frame[WELL] == well]
        if FIELD in frame.columns:
            frame = frame[frame[FIELD] == field]
        return replace(self, frame=frame)

    def list_wells(self) -> set[str]:
        """List the wells that rows belong to, and images without an object."""
        return {*self.frame[WELL].unique(), *(place[0] for place in self.without)}

    def by_well(self, column: str, how: str) -> dict[str, float]:
        """Combine all rows of each well into one value.

        Missing values do not count. A well whose values are all missing is left out,
        but for `count`, which is 0 there.

        Parameters
        ----------
        column
            One of `columns`, or `LABEL`: the number of objects of each image.
        how
            One of `AGGREGATIONS`; of text `count`, or `SHARE` and one of `list_texts`.

        Raises
        ------
        ValueError
            Where text is to be anything else.
        """
        values = self.combine_rows([column], how)[column].dropna()
        found: dict[str, float] = values.astype(float).to_dict()
        return found

    def combine_rows(self, columns: list[str], how: str) -> Any:
        """Combine columns in one way; a pandas.DataFrame by wells, see `by_well`."""
        import pandas as pd

        frame, wells = self.frame, self.frame[WELL]
        if columns == [LABEL]:
            places = [WELL] + [FIELD] * (FIELD in frame)
            images = frame.groupby(places, observed=True)
            # At several time points an object has several rows.
            found = 1.0 * (images.size() if how == "count" else images[LABEL].nunique())
            none = pd.Series(0, [place[0] for place in self.without], float)
            values = pd.concat([found.droplevel(places[1:]), none]).to_frame(LABEL)
            wells = values.index
        elif how.startswith(SHARE):
            texts, text = frame[columns].apply(text_categories), how.removeprefix(SHARE)
            values = (100.0 * (texts == text)).where(texts.notna())
            how = "mean"
        else:
            values = frame[columns]
            texts = [column for column in columns if not self.is_numeric(column)]
            if texts and how != "count":
                raise ValueError(f"{texts[0]!r} is text: choose 'count'.")
            # Sums of a narrow type may not fit into it, and booleans have none.
            if how != "count" and (values.dtypes != np.float64).any():
                values = values.astype(float)
        groups = values.groupby(wells, observed=True)
        # `min_count`: the sum of nothing but missing values is missing, not 0.
        return groups.sum(min_count=1) if how == "sum" else groups.agg(how)

    def list_texts(self, column: str) -> list[str]:
        """List the different texts of a column, the most frequent ones first."""
        return list(text_categories(self.frame[column]).value_counts().index)

    def count_texts(self, column: str) -> Any:
        """Find the most frequent "text" of each well, and its "share" of all known.

        Of texts that are equally frequent it is the first in the order of letters.
        """
        texts = text_categories(self.frame[column])
        sizes = texts.groupby([self.frame[WELL], texts], observed=True).size()
        wells = sizes.groupby(level=0, observed=True)
        best = wells.idxmax()
        found = wells.max().to_frame("share").div(wells.sum(), axis=0)
        return found.assign(text=[text for _, text in best.tolist()])

    def describe_columns(self) -> tuple[tuple[str, str], ...]:
        """Summarise the rows, for people.

        Returns
        -------
        tuple
            Name and text of each column: its value, or the mean of numbers and the most
            frequent text of several rows.
        """
        return tuple((name, _summarize(self.frame[name])) for name in self.columns)


def _summarize(values: Any) -> str:
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
    titles: list[str] = []
    for title in map(str.strip, map(str, frame.columns)):
        # A repeated name gets a number, as of pandas.
        others = (f"{title}.{number}" for number in count(1))
        titles.append(next(n for n in chain([title], others) if n not in titles))
    frame = frame.set_axis(titles, axis=1)
    # Reversed, so that of names that differ in case the first one wins.
    names = {title.lower(): title for title in reversed(titles)}
    well, row, column, site, label = (
        next((names[name] for name in usual if name in names), None)
        for usual in (WELLS, ROWS, COLUMNS, FIELDS, LABELS)
    )
    wells = [names[name] for name in WELLS if name in names]
    # OMERO has the id of each well in its database beside the name.
    named = (
        x
        for x in wells[1:] and wells
        if any(is_well_name(str(y)) for y in frame[x].unique())
    )
    well = next(named, well)
    result, used = dict[str, Any](place), [site, well]
    # What is known counts more than a column, which may hold names of another plate.
    if WELL in place:
        result[WELL], used = well_key(place[WELL]), [site]
    elif well is not None:
        result[WELL] = column_texts(frame[well], well_key)
    elif row is not None and column is not None:
        pairs = column_texts(frame[row]) + "/" + column_texts(frame[column])
        # Without the half of a name a row is in no well.
        is_whole = ~(pairs.str.startswith("/") | pairs.str.endswith("/"))
        result[WELL] = column_texts(pairs.where(is_whole, ""), well_key)
        used = [site, row, column]
    else:
        raise CorruptDataError(_no_wells(name, titles))
    if site is not None and FIELD not in place:
        result[FIELD] = column_texts(frame[site])
    ids = None if label is None else _label_integers(frame[label], name)
    if ids is not None:
        result[LABEL] = ids
        used.append(label)
    # Columns of places are taken out of the values, under any of their names.
    values = frame.drop(columns={*used, *result} & {*titles})
    if LABEL in values.columns:  # text, see `WellTable`
        values = values.rename(columns={LABEL: f"{LABEL} (text)"})
    joined = values.assign(**result)
    joined = joined[sorted(result, key=PLACES.index) + list(values.columns)]
    if WELL not in place:
        joined = joined[joined[WELL] != ""].reset_index(drop=True)
    # Categories: a plate has few wells and fields, and numbers are compared quickly.
    types = {place: "category" for place in (WELL, FIELD) if place in joined.columns}
    types |= {title: "boolean" for title in values.columns if is_truth(joined[title])}
    return WellTable(name, joined.astype(types), region)


def is_well_name(text: str) -> bool:
    """Return whether a text is the name of a well, such as "B3", "b03" or "B/3"."""
    return re.fullmatch(r"[A-Z]{1,2}/\d+", well_key(text)) is not None


def column_texts(column: Any, step: Callable[[str], str] = str) -> Any:
    """Convert a column to text, and that by a function, once for each value."""
    texts = column.astype("category").map(lambda value: step(_name_text(value)))
    return texts.astype(object).fillna("")


def text_categories(column: Any) -> Any:
    """Convert a column to categories of text; missing values and "" are missing."""
    import pandas as pd

    values = column.astype("category").cat.remove_unused_categories().cat
    names = [_name_text(value) or None for value in values.categories]
    texts = pd.Series(names, dtype=object).astype("category").cat
    # Missing values have the code -1, which is the last one.
    codes = np.append(texts.codes, -1)[values.codes]
    found = pd.Categorical.from_codes(codes, texts.categories)
    return pd.Series(found, column.index, name=column.name)


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


def _label_integers(column: Any, name: str) -> Any:
    """Convert ids of labels to integers; None for words, such as names of treatments.

    Raises
    ------
    CorruptDataError
        Where one is missing or no integer.
    """
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    if len(numbers) and numbers.isna().all():
        return None
    if numbers.isna().any() or (numbers % 1 != 0).any():
        text = f"the column {column.name!r} has to hold the ids of labels: integers."
        raise CorruptDataError(f"{name}: {text}")
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


SITES = ("metadata_site", "metadata_field", "metadata_fov")
"""Names of columns whose values are fields if the plate has the same ones."""


def read_acquisitions(
    node: Node, wells: Iterable[str | None]
) -> dict[tuple[str | None, str], str]:
    """Read the name of the acquisition of each image, by its well and field.

    "" of an image of none. Wells that are damaged are left out.

    Raises
    ------
    OMEZarrError, OSError
        Where a server does not give a well: its rows would count as of no acquisition.
    """
    plate, screen = node.metadata.plate, PlateContents(node)
    names = plate.acquisition_names if plate is not None else {}
    listed = tuple(dict.fromkeys(wells))

    def list_fields(well: str | None) -> tuple[WellField, ...]:
        try:
            return screen.list_fields(well)
        except (OMEZarrError, OSError) as error:
            if may_pass(error):
                raise
            return ()

    calls = [partial(list_fields, well) for well in listed]
    fields = call_at_once(node.location.source, calls)
    return {
        (well, field.path): names.get(field.acquisition, "")
        for well, found in zip(listed, fields, strict=True)
        for field in found
    }


def locate_rows(node: Node, table: WellTable) -> WellTable:
    """Add the acquisition of each row, and make a column of sites one of fields.

    Wells of the table are paths: see `WellTable.place_on`.

    Sites are fields only if wells have just these: many files count sites from 1 on.
    """
    import pandas as pd

    plate, frame = node.metadata.plate, table.frame
    columns = {name.lower(): name for name in reversed(table.columns)}
    site = next((columns[name] for name in SITES if name in columns), None)
    asks_run = ACQUISITION not in columns and plate and plate.acquisition_names
    has_field = FIELD in frame.columns
    if plate is None or not (asks_run if has_field else site is not None):
        return table
    wells = [well for well in frame[WELL].unique() if well in table.names]
    runs = read_acquisitions(node, wells)
    if not has_field and site is not None:
        fields = column_texts(frame[site])
        places = pd.MultiIndex.from_arrays([frame[WELL], fields]).unique()
        stated = {place for place in places if place[0] in table.names}
        names = {field for _, field in runs}
        if not stated <= set(runs) or {field for _, field in stated} != names:
            return table
        frame = frame.drop(columns=site)
        frame.insert(1, FIELD, fields.astype("category"))
    if asks_run:
        places = pd.MultiIndex.from_frame(frame[[WELL, FIELD]])
        frame = frame.assign(**{ACQUISITION: places.map(runs).fillna("")})
    return replace(table, frame=frame)
