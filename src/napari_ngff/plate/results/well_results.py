"""One value for each well and column, made of the rows of tables; compared to controls.

Sources of the formulae:

- Z': Zhang, Chung & Oldenburg (1999), J. Biomol. Screen. 4, 67-73,
  doi:10.1177/108705719900400206.
- Robust z-scores, and 1.4826 MAD as standard deviation: Birmingham et al. (2009), Nat.
  Methods 6, 569-575, doi:10.1038/nmeth.1351.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.plate.tables.table import CATEGORY, LABEL, WELL, WellTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

PERCENT, Z_SCORE = "% of control", "robust z-score"
"""How values are compared to negative controls; see `compare_to_controls`."""

NORMAL_MAD = 1.4826
"""Standard deviation of a normal distribution whose median deviation is 1."""


@dataclass(frozen=True, slots=True, eq=False)
class ResultColumn:
    """A column of results, and the rows of which its values are made.

    Attributes
    ----------
    title
        Its name, short.
    meaning
        Sentences that state what its values are of.
    rows
        The rows that count.
    name
        The column in these.
    way
        How the rows of a well become one value: one of `AGGREGATIONS`, or `CATEGORY`.
    is_number_of_images
        Whether it only says of how many images a table is.
    """

    title: str
    meaning: str
    rows: WellTable
    name: str
    way: str
    is_number_of_images: bool = False


def sum_up_rows(columns: Sequence[ResultColumn], wells: Sequence[Any]) -> Any:
    """Make one value of the rows of each well, for each column.

    Parameters
    ----------
    wells
        Their paths, in the order of the result.

    Returns
    -------
    pandas.DataFrame
        With the paths as index. Of texts it has the most frequent one of the well, and
        where wells have several rows its percentage in a column of its own, at the end.
    """
    import pandas as pd

    parts, shares = list[Any](), dict[str, Any]()
    index = pd.Index(wells, name=WELL)

    def align(found: Any) -> Any:
        """Bring all columns into the order of the result at once."""
        return found.set_axis(found.index.astype(index.dtype)).reindex(index)

    together: dict[Any, dict[str, str]] = {}
    for column in columns:
        if column.way != CATEGORY:
            # Columns of a table in one pass; what is named twice is combined twice.
            key = column.rows, column.way, column.name == LABEL
            together.setdefault(key, {})[column.title] = column.name
            continue
        texts = align(column.rows.count_texts(column.name))
        parts.append(texts["text"].astype(object).rename(column.title))
        if column.rows.place_columns or not column.rows.has_lone_rows:
            shares[name_share(column.title)] = 100 * texts["share"]
    for (rows, way, _), names in together.items():
        found = align(rows.combine_rows([*dict.fromkeys(names.values())], way))
        parts += [found[name].rename(title) for title, name in names.items()]
    values = {each.name: each for each in parts}
    values = {column.title: values[column.title] for column in columns}
    return pd.DataFrame({**values, **shares}, index=index)


def name_share(title: str) -> str:
    """Name the column with the percentage of the most frequent text of another one."""
    return f"{title}, %"


def name_mean(title: str) -> str:
    """Name the column with the mean of the values of the wells of a condition."""
    return f"{title}, mean of wells"


def group_wells(
    frame: Any, columns: Iterable[ResultColumn], keys: Sequence[str], measured: Any
) -> tuple[Any, Any]:
    """Make one row of all wells of each condition; without `keys` one of each well.

    Numbers are the mean of the values of the wells, which are the repetitions of an
    experiment; texts are the most frequent of all rows of these wells.

    Parameters
    ----------
    frame, columns
        See `sum_up_rows`.
    keys
        Titles of the columns that state the condition. Wells without a value in them
        are a condition, too.
    measured
        Which wells have rows that count: they are the number of wells.

    Returns
    -------
    frame
        A row for each condition; first `keys`, and the number of wells.
    rows
        The number of the row of each well, by its path.
    """
    import pandas as pd

    if not keys:
        rows = pd.Series(range(len(frame)), frame.index)
        return frame.reset_index(drop=True), rows
    groups = frame.groupby(list(keys), dropna=False)
    rows = groups.ngroup()
    texts = [
        replace(column, rows=column.rows.regroup(rows))
        for column in columns
        if column.way == CATEGORY and column.title not in keys
    ]
    found = groups.mean(numeric_only=True).rename(columns=name_mean).reset_index()
    found.insert(
        len(keys),
        "number of wells",
        measured[rows.index].groupby(rows).sum().to_numpy(),
    )
    return found.join(sum_up_rows(texts, found.index)), rows


def compare_to_controls(
    frame: Any, how: str, is_negative: Any, plates: Any, apart: Collection[str] = ()
) -> Any:
    """Express numbers of wells by those of the negative controls of their plate.

    With the median m of the controls, and their median absolute deviation MAD,
    `PERCENT` is 100 x / m, and `Z_SCORE` is (x - m) / (1.4826 MAD).

    Parameters
    ----------
    frame
        See `sum_up_rows`. Columns of which m, or the MAD, is 0 or missing on all plates
        stay as they are, such as doses; the names of the others end with `how`, and
        they have no values on plates where it is so.
    is_negative
        Which wells are controls.
    plates
        A pandas.Series with the title of the plate of each well.
    apart
        Other columns that stay as they are.
    """
    numbers = frame.select_dtypes("number").drop(columns=[*apart])

    def find_middle(values: Any) -> Any:
        """Find the median of the controls of the plate of each well."""
        found = values[is_negative].groupby(plates).median()
        return found.reindex(plates).set_axis(values.index)

    unit = middle = find_middle(numbers)
    values = 100 * numbers
    if how != PERCENT:
        unit = NORMAL_MAD * find_middle((numbers - middle).abs())
        values = numbers - middle
    is_known = unit.notna() & (unit != 0)
    known = [title for title in numbers if is_known[title].any()]
    values = (values / unit).where(is_known)
    frame = frame.assign(**{title: values[title] for title in known})
    return frame.rename(columns={title: f"{title}, {how}" for title in known})


def find_z_primes(
    frame: Any, is_negative: Any, is_positive: Any, plates: Any
) -> dict[str, str]:
    """Compute how well a column parts the controls of each plate, the best one first.

    The worst plate of a column counts for the order; `plates`: see
    `compare_to_controls`.

    Z' = 1 - 3 (sd+ + sd-) / |mean+ - mean-|, with standard deviations of samples; above
    0.5 an assay is taken for excellent.
    """
    numbers = frame.select_dtypes("number")
    low, high = (
        numbers[x].groupby(plates, sort=False) for x in (is_negative, is_positive)
    )
    primes = 1 - 3 * (low.std() + high.std()) / (high.mean() - low.mean()).abs()
    primes = primes.where(np.isfinite(primes))
    worst = primes.min().dropna().sort_values(ascending=False, kind="stable")
    return {
        title: ", ".join(
            f"{prime:.2f}" + f" ({plate})" * bool(plate)
            for plate, prime in primes[title].dropna().items()
        )
        for title in worst.index
    }


def join_conditions(rows: WellTable, conditions: Any) -> Any:
    """Return rows as other programs get them, with the conditions of their wells.

    Parameters
    ----------
    conditions
        A pandas.DataFrame with the paths of wells as index.
    """
    joined = conditions.reindex(rows.frame[WELL]).set_axis(rows.frame.index)
    return rows.to_frame().join(joined, rsuffix=" of the well")
