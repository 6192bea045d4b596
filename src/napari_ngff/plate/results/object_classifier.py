"""Learns the classes of objects by their measured columns, with scikit-learn.

A rule is kept as JSON that has what it was trained of: from that, the same versions of
the libraries train the same rule again.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.plate.tables.table import FIELD, LABEL, PLACES, WELL, WellTable
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

PREDICTED, PROBABILITY, MARGIN = "predicted", "probability", "margin"

# Columns that tell where an object is, or its number, and not what it looks like.
NO_FEATURE = re.compile(
    "centroid|location|position|bbox|_center_|number"
    f"|^([xyzt]|time|id|index|acquisition|{PROBABILITY})$",
    re.IGNORECASE,
)
NO_LEARNING = (
    "This needs the package scikit-learn. Run: pip install 'napari-ngff[classify]'"
)
PACKAGES = "napari-ngff", "scikit-learn", "numpy"
TREES, PARTS, CHUNK = 50, 5, 100_000
LEAST_FIELDS = 3  # with each class, so that whole fields are left out
ALONE = "are left out of training"
WITH_FIELD = "and all others of their field are left out of training"

# While a forest predicts, scikit-learn exchanges the warning filters of all threads:
# two threads would show warnings that are none, and so would its own threads.
ONE_THREAD = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class ObjectRule:
    """What was learned of the objects that a person has classified.

    Attributes
    ----------
    rows
        A pandas.DataFrame of these: `PLACES`, `CLASS` and `columns`, which are numbers.
    model
        A pipeline of scikit-learn.
    check
        What models find that were trained without some of the objects: how these were
        left out ("way"), how many get their class ("right"), and the number of objects
        by class and by the class that was found ("confusion"). {} for too few objects.
    """

    rows: Any
    columns: list[str]
    model: Any
    check: dict[str, Any]

    @property
    def description(self) -> str:
        """What it was trained by, and how well it finds classes, in whole sentences."""
        count, check = len(self.rows), self.check
        if not check:
            return f"Trained by {count:,} objects: too few to find out how well."
        share = f"{check['right']:,} ({100 * check['right'] // count} %)"
        given = f"{share} are given the same class when they {check['way']}."
        return f"Of {count:,} objects used to train, {given}"

    def predict(self, frame: Any, goes_on: Callable[[int, int], bool]) -> Any:
        """Find the class of all objects of a table, some at a time.

        Parameters
        ----------
        frame
            A pandas.DataFrame with a row for each object.
        goes_on
            Gets how many are done, and of how many; False gives up.

        Returns
        -------
        pandas.DataFrame or None
            For each row `PREDICTED`, `PROBABILITY`, and `MARGIN`: by how much that is
            more than the probability of the second class. None where it was given up.

        Raises
        ------
        ValueError
            Where the table lacks columns, or has no objects.
        """
        import pandas as pd

        numbers = frame.select_dtypes(["number", "bool"])
        lacking = ", ".join(x for x in self.columns if x not in numbers)
        if lacking:
            raise ValueError(f"The table has no numbers of {lacking}.")
        if not len(frame):
            raise ValueError("The table has no objects.")
        values, parts = _take_numbers(frame[self.columns]), []
        for start in range(0, len(values), CHUNK):
            if not goes_on(start, len(values)):
                return None
            with ONE_THREAD:
                parts.append(self.model.predict_proba(values[start : start + CHUNK]))
        shares = np.concatenate(parts)
        names = pd.Categorical.from_codes(shares.argmax(axis=1), self.model.classes_)
        second, first = np.partition(shares, [-2, -1], axis=1)[:, -2:].T
        found = {PREDICTED: names, PROBABILITY: first, MARGIN: first - second}
        return pd.DataFrame(found, index=frame.index)

    def add_classes(self, frame: Any) -> Any:
        """Return a table with `PREDICTED` and `PROBABILITY` of its objects.

        Raises
        ------
        ValueError
            Where the table lacks columns.
        """
        found = self.predict(frame, lambda done, total: True)
        # A text: parts of a table may have other classes.
        names = found[PREDICTED].astype(object)
        return frame.assign(**{PREDICTED: names, PROBABILITY: found[PROBABILITY]})

    def dump_text(self) -> str:
        """Write the rule as JSON, from which `read_rule` trains it again."""
        rows = self.rows.astype(object).where(self.rows.notna(), None)
        content = {
            "columns": self.columns,
            "classes": self.model.classes_.tolist(),
            "model": {name: repr(step) for name, step in self.model.steps},
            "versions": {name: version(name) for name in PACKAGES},
            "cross_validation": self.check,
            "rows": rows.to_dict("list"),
        }
        return json.dumps(content, indent=1)


def find_clicked(frame: Any, clicks: Any) -> Any:
    """Find the objects of a table that a person has classified.

    Parameters
    ----------
    frame
        A pandas.DataFrame with `PLACES`.
    clicks
        With `PLACES` and `CLASS`.

    Returns
    -------
    pandas.DataFrame
        With `PLACES`, `CLASS`, and the place of the row as "row".
    """
    some = frame[[*PLACES]].assign(row=range(len(frame)))
    some = some[some[LABEL].isin(clicks[LABEL])]
    return some.astype({WELL: str, FIELD: str}).merge(clicks, on=[*PLACES])


def join_clicks(table: WellTable, clicks: Any) -> Any:
    """Return what `train_rule` takes; see `find_clicked`."""
    names = [x for x in table.numeric_columns if not NO_FEATURE.search(x)]
    rows = find_clicked(table.frame, clicks)
    rows[names] = _take_numbers(table.frame[names].iloc[rows.pop("row")])
    return rows


def train_rule(rows: Any) -> ObjectRule:
    """Learn classes, and find out how well.

    Parameters
    ----------
    rows
        As of `ObjectRule`, in any order.

    Raises
    ------
    UnsupportedError
        Where scikit-learn is not installed.
    ValueError
        Where objects have fewer than two classes.
    """
    if find_spec("sklearn") is None:
        raise UnsupportedError(NO_LEARNING)
    from sklearn import ensemble, impute, model_selection, pipeline

    rows = rows.sort_values([*PLACES], kind="stable", ignore_index=True)
    columns = [name for name in rows if name not in (*PLACES, CLASS)]
    values, classes = rows[columns].to_numpy(), rows[CLASS].to_numpy(str)
    counts = Counter(classes.tolist())
    if len(counts) < 2:
        raise ValueError("Give objects of this table two classes first, or more.")
    model = pipeline.make_pipeline(
        impute.SimpleImputer(strategy="median", keep_empty_features=True),
        ensemble.RandomForestClassifier(TREES, random_state=0),
    )
    groups, way, check = rows[WELL] + "/" + rows[FIELD], WITH_FIELD, dict[str, Any]()
    count = int(groups.groupby(classes).nunique().min())
    if count < LEAST_FIELDS:
        groups, way, count = rows.index, ALONE, min(counts.values())
    if count > 1:
        number = min(count, PARTS)
        folds = model_selection.StratifiedGroupKFold(
            number, shuffle=True, random_state=0
        )
        splits = [x for x in folds.split(values, classes, groups) if len(x[1])]
        found = model_selection.cross_val_predict(model, values, classes, cv=splits)
        pairs = Counter(zip(classes.tolist(), found.tolist(), strict=True))
        check = {
            "way": way,
            "right": int((classes == found).sum()),
            "confusion": {
                a: {b: pairs[a, b] for b in sorted(counts)} for a in sorted(counts)
            },
        }
    return ObjectRule(rows, columns, model.fit(values, classes), check)


def read_rule(path: str) -> ObjectRule:
    """Train a rule again, from a file with what `ObjectRule.dump_text` wrote.

    Raises
    ------
    OSError
        Where it cannot be read.
    CorruptDataError
        Where it is something else.
    """
    import pandas as pd

    data = Path(path).read_bytes()
    try:
        content = parse_json(data)
        columns = content["columns"]
        rows = pd.DataFrame(content["rows"])[[*PLACES, CLASS, *columns]]
        return train_rule(rows.astype(dict.fromkeys(columns, float)))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"{path}: no rule of the page Classify was saved in this file."
        raise CorruptDataError(text) from error


def find_unsure(table: WellTable, margins: Any, seen: Any) -> int:
    """Find the row whose class is least sure, of fields where no object was seen.

    If there are no such fields, it is any object that was not seen.

    Parameters
    ----------
    margins
        Of `ObjectRule.predict`; the index is that of the table.
    seen
        A pandas.DataFrame with `PLACES`.

    Raises
    ------
    ValueError
        Where all objects were seen.
    """
    import pandas as pd

    left = table.frame[[*PLACES]]
    for names in ([WELL, FIELD], [*PLACES]):
        places, known = (pd.MultiIndex.from_frame(x[names]) for x in (left, seen))
        found = margins[left.index][~places.isin(known)]
        if len(found):
            return int(found.idxmin())
    raise ValueError("All objects were seen.")


def _take_numbers(frame: Any) -> Any:
    """Return numbers; those that the 32 bits of a forest cannot hold are missing."""
    values = frame.to_numpy(float, na_value=np.nan)
    return np.where(np.abs(values) < np.finfo(np.float32).max, values, np.nan)
