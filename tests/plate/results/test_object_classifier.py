"""Rules that classify objects: as scikit-learn, the same again from their file."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.plate.results import object_classifier
from napari_ngff.plate.results.object_classifier import (
    TREES,
    find_unsure,
    join_clicks,
    read_rule,
    train_rule,
)
from napari_ngff.plate.tables.table import make_table


def make_objects(fields=6, objects=20, seed=0):
    """A table of objects of two kinds, and the kind of each."""
    rng = np.random.default_rng(seed)
    count = fields * objects
    kinds = rng.integers(0, 2, count)
    frame = pd.DataFrame(
        {
            "well": [f"A{1 + i // objects // 2}" for i in range(count)],
            "field": [str(i // objects % 2) for i in range(count)],
            "label": np.tile(np.arange(1, objects + 1), fields),
            "area": rng.normal(50 + 30 * kinds, 12),
            "solidity": rng.normal(0.8 - 0.1 * kinds, 0.05),
            "centroid_y": rng.random(count),
            "Location_Center_X": rng.random(count),
            "t": 0,
            "drug": "x",
        }
    )
    return make_table(frame, "objects"), np.array(["round", "long"])[kinds]


def click(table, kinds, rows):
    frame = table.frame.iloc[rows][["well", "field", "label"]]
    clicks = frame.astype({"well": str, "field": str})
    return clicks.assign(**{"class": kinds[rows]}).reset_index(drop=True)


def go_on(count, total):
    return True


@pytest.mark.default_cases("6")
@pytest.mark.parametrize("fields", [6, 2])
def test_a_rule_is_that_of_scikit_learn(fields):
    table, kinds = make_objects(fields)
    rows = np.random.default_rng(1).permutation(len(table))[:30]
    clicks = click(table, kinds, rows)
    rule = train_rule(join_clicks(table, clicks))
    assert rule.columns == ["area", "solidity"]
    used = rule.rows
    values, classes = used[rule.columns].to_numpy(), used["class"].to_numpy(str)
    forest = RandomForestClassifier(TREES, random_state=0)
    by_field = fields > 2
    groups = used["well"] + "/" + used["field"] if by_field else used.index
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=0)
    found = cross_val_predict(forest, values, classes, groups=groups, cv=folds)
    right = np.sum(found == classes)
    share = f"{right} ({100 * right // 30} %) are given the same class when they"
    way = "and all others of their field are" if by_field else "are"
    assert rule.description == (
        f"Of 30 objects used to train, {share} {way} left out of training."
    )
    confused = np.sum((classes == "long") & (found == "round"))
    assert rule.check["confusion"]["long"]["round"] == confused
    forest.fit(values, classes)
    predicted = rule.predict(table.frame, go_on)
    shares = forest.predict_proba(table.frame[rule.columns].to_numpy())
    np.testing.assert_array_equal(predicted["probability"], shares.max(axis=1))
    assert (predicted["predicted"] == forest.classes_[shares.argmax(axis=1)]).all()
    again = train_rule(join_clicks(table, clicks.sample(frac=1, random_state=3)))
    assert again.dump_text() == rule.dump_text()


def test_a_rule_is_the_same_again_from_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(object_classifier, "CHUNK", 7)
    table, kinds = make_objects()
    table.frame.loc[::5, "area"] = np.nan
    table.frame.loc[1, "area"] = np.inf
    table.frame.loc[3, "solidity"] = 1e300
    rule = train_rule(join_clicks(table, click(table, kinds, np.arange(0, 120, 3))))
    text = rule.dump_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    file = tmp_path / "rule.json"
    file.write_text(text)
    again = read_rule(str(file))
    before, after = (each.predict(table.frame, go_on) for each in (rule, again))
    pd.testing.assert_frame_equal(before, after)
    assert again.dump_text() == text
    content = json.loads(text)
    assert {*content["versions"]} == {"napari-ngff", "scikit-learn", "numpy"}
    assert content["rows"]["well"][0] == "A/1"
    for broken in ("", "[]", '{"columns": []}', text.replace('"rows"', '"lines"')):
        file.write_text(broken)
        with pytest.raises(CorruptDataError, match=r"rule\.json: no rule of the page"):
            read_rule(str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CorruptDataError, match="no rule of the page"):
        read_rule(str(file))


def test_what_cannot_be_learned_or_predicted_is_told(monkeypatch):
    table, kinds = make_objects()
    one = click(table, np.array(["round"] * len(kinds)), np.arange(9))
    with pytest.raises(ValueError, match="two classes"):
        train_rule(join_clicks(table, one))
    rows = np.array([np.argmax(kinds == name) for name in ("round", "long")])
    few = click(table, kinds, rows)
    rule = train_rule(join_clicks(table, few))
    assert rule.check == {}
    assert "2 objects: too few to find out how well" in rule.description
    assert rule.predict(table.frame, lambda count, total: False) is None
    other = table.frame.drop(columns="area")
    with pytest.raises(ValueError, match="The table has no numbers of area"):
        rule.predict(other, go_on)
    with pytest.raises(ValueError, match="The table has no objects"):
        rule.predict(table.frame.head(0), go_on)
    monkeypatch.setattr(object_classifier, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"napari-ngff\[classify\]"):
        train_rule(join_clicks(table, few))


def test_the_least_sure_object_is_in_a_field_that_nobody_has_seen():
    table, kinds = make_objects(3, 4)
    margins = pd.Series(np.arange(12.0))
    seen = click(table, kinds, np.array([0, 5]))
    assert find_unsure(table, margins, seen) == 8
    seen = click(table, kinds, np.array([0, 4, 8]))
    assert find_unsure(table, margins, seen) == 1
    with pytest.raises(ValueError, match="seen"):
        find_unsure(table, margins, click(table, kinds, np.arange(12)))
