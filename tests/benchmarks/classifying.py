"""Times of classifying objects, beside scikit-learn alone: seconds, the best of three.

python tests/benchmarks/classifying.py [OBJECTS]
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from napari_ngff.plate.results.object_classifier import (
    TREES,
    find_unsure,
    join_clicks,
    train_rule,
)
from napari_ngff.plate.tables.table import make_table

CLICKS, COLUMNS = 500, 30


def make_objects(count):
    rng = np.random.default_rng(0)
    number = np.arange(count)
    frame = pd.DataFrame(rng.normal(size=(count, COLUMNS)))
    frame.columns = [f"feature {i}" for i in range(COLUMNS)]
    frame.insert(0, "label", number % 300 + 1)
    frame.insert(0, "field", (number // 300 % 9).astype(str))
    wells = number // 2700 % 384
    frame.insert(
        0, "well", [f"{'ABCDEFGHIJKLMNOP'[w // 24]}{w % 24 + 1}" for w in wells]
    )
    return make_table(frame, "objects")


def best(call):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def main():
    table = make_objects(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    rows = np.random.default_rng(1).choice(len(table), CLICKS, replace=False)
    clicks = table.frame.iloc[rows][["well", "field", "label"]].astype(
        {"well": str, "field": str}
    )
    kinds = table.frame["feature 0"].to_numpy()[rows] > 0
    clicks["class"] = np.where(kinds, "round", "long")
    joining, joined = best(lambda: join_clicks(table, clicks))
    training, rule = best(lambda: train_rule(joined))
    predicting, found = best(lambda: rule.predict(table.frame, lambda *_: True))
    finding, _ = best(lambda: find_unsure(table, found["margin"], clicks))
    values = joined[rule.columns].to_numpy()
    forest = RandomForestClassifier(TREES, random_state=0)
    model = make_pipeline(SimpleImputer(strategy="median"), forest)
    alone, _ = best(lambda: model.fit(values, joined["class"].to_numpy(str)))
    every = table.frame[rule.columns].to_numpy()
    predicting_alone, _ = best(lambda: model.predict_proba(every))
    print(f"{len(table):,} objects, {CLICKS} of them with a class, {COLUMNS} columns")
    print(f"find the rows of the classes   {joining:.2f}")
    print(f"train and cross-validate       {training:.2f}")
    print(f"  scikit-learn, training alone {alone:.2f}")
    print(f"predict all                    {predicting:.2f}")
    print(f"  scikit-learn alone           {predicting_alone:.2f}")
    print(f"find the least sure            {finding:.2f}")


if __name__ == "__main__":
    main()
