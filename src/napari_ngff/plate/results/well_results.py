"""One value for each well and column, made of the rows of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.plate.tables.table import CATEGORY, FIELD, WELL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.plate.tables.table import WellTable

FIELDS = "number of fields"
"""Way in which rows become the number of their images."""


@dataclass(frozen=True, slots=True, eq=False)
class ResultColumn:
    """A column of results, and the rows of which its values are made.

    Attributes
    ----------
    title
        Its name, short.
    meaning
        A sentence that says what its values are of.
    rows
        The rows that count.
    name
        The column in these.
    way
        How the rows of a well become one value: one of `AGGREGATIONS`, `CATEGORY` or
        `FIELDS`.
    """

    title: str
    meaning: str
    rows: WellTable
    name: str
    way: str


def sum_up_wells(columns: Iterable[ResultColumn], wells: Sequence[str]) -> Any:
    """Make one value of the rows of each well, for each column.

    Parameters
    ----------
    wells
        Their paths, in the order of the result.

    Returns
    -------
    pandas.DataFrame
        With the paths as index. The column of a text is the most frequent one of the
        well; the one named by `name_share` has its share, where it is not the only one.
    """
    import pandas as pd

    values: dict[str, Any] = {}
    for column in columns:
        if column.way == FIELDS:
            values[column.title] = count_fields(column.rows)
        elif column.way != CATEGORY:
            values[column.title] = column.rows.by_well(column.name, column.way)
        else:
            shares = column.rows.text_shares(column.name)
            values[column.title] = {well: text for well, (text, _) in shares.items()}
            if not column.rows.has_lone_rows:
                share = {well: share for well, (_, share) in shares.items()}
                values[name_share(column.title)] = share
    series = {
        title: pd.Series(found, dtype=None if found else float).reindex(wells)
        for title, found in values.items()
    }
    return pd.DataFrame(series, index=pd.Index(wells, name=WELL))


def order_rows(values: Any, *, is_down: bool) -> Any:
    """Return the order of rows by the values of a column; those without one are last.

    Parameters
    ----------
    values
        An array: numbers, or text.
    """
    import pandas as pd

    known = np.flatnonzero(~pd.isna(values))
    ranks = values[known]
    ranks = ranks.astype(str) if ranks.dtype.kind == "O" else ranks
    known = known[np.argsort(ranks, kind="stable")]
    known = known[::-1] if is_down else known
    return np.concatenate([known, np.flatnonzero(pd.isna(values))])


def name_share(title: str) -> str:
    """Name the column with the share of the most frequent text of another column."""
    return f"{title}, share"


def count_fields(rows: WellTable) -> dict[str, float]:
    """Count the images of each well of which there are rows, or that have no object."""
    places = set(rows.frame[[WELL, FIELD]].drop_duplicates().itertuples(index=False))
    counts: dict[str, float] = {}
    for well, _ in {*map(tuple, places), *(place[:2] for place in rows.without)}:
        counts[well] = counts.get(well, 0.0) + 1.0
    return counts
