"""Tables of wells: names, conditions, aggregation; files, and what ngio writes."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from napari_ngff import open_node
from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.plate.tables.conditions import (
    ColumnCondition,
    parse_filter,
)
from napari_ngff.plate.tables.files import (
    check_target,
    read_listed_table,
    read_tables,
    write_frame,
)
from napari_ngff.plate.tables.table import AGGREGATIONS, make_table, well_key
from napari_ngff.store.hierarchy.summary import list_tables
from plates import write_plate


def table(**columns):
    return make_table(pd.DataFrame(columns), "test")


def by_path(found, wells, column, how="mean"):
    """Values of the wells of a plate; None where there is none."""
    values = found.place_on(dict.fromkeys(wells, "")).by_well(column, how)
    return {well: values.get(well) for well in wells}


@pytest.mark.parametrize("name", ["B3", "b03", "B/3", " B-03", "B_3", "b/03", "B 3"])
def test_wells_have_one_key(name):
    assert well_key(name) == "B/3"


def test_wells_of_large_plates_and_odd_ones():
    assert well_key("AF048") == "AF/48"
    assert well_key("1/2") == "1/2"
    assert well_key("blank") == "BLANK"


def test_wells_are_found_by_any_spelling():
    found = table(Well=["b3", "A01", "H12", None], dose=[1.0, 2.0, 3.0, 4.0])
    assert len(found) == 3
    assert found.columns == ("dose",)
    wells = ["A/1", "A/2", "B/03"]
    assert by_path(found, wells, "dose", "mean") == {
        "A/1": 2.0,
        "A/2": None,
        "B/03": 1.0,
    }


def test_rows_and_columns_make_wells():
    letters = table(row=["A", "B"], Column=[1.0, 3.0], dose=[1, 2])
    placed = letters.place_on({"A/1": "A1", "B/03": "B3"})
    assert placed.frame["well"].tolist() == ["A/1", "B/03"]
    assert placed.list_others() == ()
    assert letters.place_on({"A/1": "A1"}).list_others() == ("B/3",)
    numbers = table(Row=[1, 2], Col=["01", "03"], dose=[1, 2])
    assert by_path(numbers, ["A/1", "B/3"], "dose", "sum") == {"A/1": 1, "B/3": 2}


def test_a_plate_whose_rows_are_numbers():
    found = table(row=[1, 2], column=[1, 1], dose=[1, 2])
    assert by_path(found, ["1/1", "2/1"], "dose", "max") == {"1/1": 1, "2/1": 2}


def test_missing_columns_are_named():
    with pytest.raises(CorruptDataError, match=r"test: no column.*'dose', 'row'"):
        table(dose=[1], row=["A"])
    with pytest.raises(CorruptDataError, match="'label' has to hold"):
        table(well=["A1"], label=[1.5])


def test_fields_and_labels():
    found = table(well=["A1"] * 3, field=[0, 0, 1], label=[1, 2, 1], area=[5, 6, 7])
    assert found.columns == ("area",)
    part = found.of_field("A/1", "0").frame
    assert part["label"].tolist() == [1, 2]
    assert part["area"].tolist() == [5, 6]
    assert len(found.of_field("A/2", "0")) == 0


def test_labels_that_are_words_are_values():
    found = table(well=["A1", "A2"], Label=["control", "treated"], dose=[1, 2])
    assert found.columns == ("Label", "dose")
    kept = found.rows_where(parse_filter("label = treated", found.columns)[1])
    assert kept.frame["well"].tolist() == ["A/2"]
    lower = table(well=["A1", "A2"], label=["control", None])
    assert lower.columns == ("label (text)",)


def test_aggregation_is_that_of_numpy():
    values = {"A/1": [3.0, 1.0, np.nan, 2.5], "B/1": [7.0], "C/1": [np.nan]}
    wells = [well for well, rows in values.items() for _ in rows]
    found = table(well=wells, x=[v for rows in values.values() for v in rows])
    known = {k: np.array(v)[~np.isnan(v)] for k, v in values.items()}
    expected = {
        how: {k: getattr(np, how)(v) for k, v in known.items() if len(v)}
        for how in ("mean", "median", "sum", "min", "max")
    }
    expected["std"] = {"A/1": np.std(known["A/1"], ddof=1)}
    expected["count"] = {"A/1": 3, "B/1": 1, "C/1": 0}
    assert set(expected) == set(AGGREGATIONS)
    for how, wanted in expected.items():
        assert found.by_well("x", how) == pytest.approx(wanted)


def test_text_is_counted_and_nothing_else():
    found = table(well=["A1", "A1", "B1"], drug=["x", "y", None])
    assert found.by_well("drug", "count") == {"A/1": 2, "B/1": 0}
    with pytest.raises(ValueError, match="'drug' is text"):
        found.by_well("drug", "mean")


@pytest.mark.parametrize(
    "hits", [[True, False, True, False], [True, False, True, None]]
)
def test_true_and_false_are_numbers(hits):
    found = table(well=["A1", "A1", "B1", "C1"], hit=hits)
    assert found.numeric_columns == ("hit",)
    missing = {} if hits[3] is None else {"C/1": 0}
    assert found.by_well("hit", "mean") == {"A/1": 0.5, "B/1": 1, **missing}
    assert found.by_well("hit", "median") == {"A/1": 0.5, "B/1": 1, **missing}
    assert found.by_well("hit", "count")["C/1"] == (hits[3] is not None)
    for text in ("hit = true", "hit=1", "hit > 0", "hit != no", "hit contains tru"):
        kept = found.rows_where(parse_filter(text, found.columns)[1])
        assert kept.frame["well"].tolist() == ["A/1", "B/1"], text


@pytest.mark.parametrize("kind", ["i8", "u8", "f8", "Int64"])
def test_whole_numbers_are_compared_exactly(kind):
    days = pd.Series([20261121, 20261122, 20261123]).astype(kind)
    found = table(well=["A1", "A2", "A3"], day=days)
    wanted = {"=": "2", "!=": "13", "<": "1", "<=": "12", ">": "3", ">=": "23"}
    for operator, wells in wanted.items():
        conditions = parse_filter(f"day {operator} 20261122", found.columns)[1]
        kept = found.rows_where(conditions).frame["well"]
        assert "".join(well[-1] for well in kept) == wells, operator


def test_large_ids_are_compared_exactly():
    found = table(
        well=["A1"] * 2, label=np.array([2**63 + 5, 2**63 + 6], "u8"), n=[1, 2]
    )
    kept = found.rows_where(parse_filter(f"label = {2**63 + 5}", ["label"])[1])
    assert kept.frame["n"].tolist() == [1]


DATES = [
    ("= 2026-11-22", "23"),
    ("!= 2026-11-22", "14"),
    ("< 2026-11-22", "1"),
    ("<= 2026-11-22", "123"),
    ("> 2026-11-22", "4"),
    (">= 2026-11-22", "234"),
    (">= 2026-11-22T10:00", "34"),
    ("= 2026-11-22t10:00", "3"),
    ("< 2026-11-22 10:00:30", "12"),
    (">= 2026-11-22T00:00", "234"),
    ("> '2026-11-22 00:00'", "34"),
    ("contains 22t10", "3"),
]


@pytest.mark.parametrize(("test", "wells"), DATES)
@pytest.mark.parametrize("zone", ["", "Z", "+01:00"])
@pytest.mark.parametrize("fraction", ["", ".123456"])
def test_dates_have_an_order(test, wells, zone, fraction):
    days = ["2026-11-21T23:59:59", "2026-11-22T00:00", "2026-11-22T10:00:30"]
    days = [f"{day}{fraction if day.count(':') == 2 else ''}{zone}" for day in days]
    days.append("2027-01-01" if not zone else f"2027-01-01T00:00{zone}")
    found = table(well=["A1", "A2", "A3", "A4", "A5"], day=[*days, None])
    kept = found.rows_where(parse_filter(f"day {test}", found.columns)[1]).frame["well"]
    assert "".join(well[-1] for well in kept) == wells


@pytest.mark.parametrize("zones", [("Z", "+00:00", "+00"), ("+01", "+01:00", "+0100")])
@pytest.mark.parametrize("test", ["= 2026-11-22T10:00", "<= 2026-11-22T10:00{}"])
def test_time_zones_are_one_however_they_are_written(zones, test):
    days = [f"2026-11-22T10:00{zone}" for zone in zones]
    found = table(well=["A1", "A2", "A3"], day=days)
    for zone in zones:
        _, conditions = parse_filter(f"day {test.format(zone)}", found.columns)
        assert len(found.rows_where(conditions)) == 3


def test_days_of_files(tmp_path):
    frame = pd.DataFrame(
        {"well": ["A1", "A2", "A3"], "day": ["2026-11-21", "2026-11-22", "2026-12-01"]}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame["day"] = pd.to_datetime(frame["day"])
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    frame["day"] = frame["day"].dt.date
    frame.to_parquet(tmp_path / "b.parquet", index=False)
    for name in ("a.csv", "a.parquet", "b.parquet"):
        found = read_tables(tmp_path / name)[0]
        for text, count in {"day >= 2026-11-22": 2, "day = 2026-11-22": 1}.items():
            kept = found.rows_where(parse_filter(text, found.columns)[1])
            assert len(kept) == count, (name, text)


def test_infinity_is_beyond_all_numbers():
    found = table(well=["A1", "A2", "A3"], x=[1.5, np.inf, -np.inf])
    for text, wells in {"x = inf": ["A/2"], "x < 2.5": ["A/1", "A/3"]}.items():
        kept = found.rows_where(parse_filter(text, found.columns)[1])
        assert kept.frame["well"].tolist() == wells


CASES = [
    ("area > 200", [2]),
    ("area >= 200 and drug = X", [1]),
    ("AREA<201", [0, 1, 3]),
    ("dose = 0.1", [0, 2]),
    ("dose != 0.1", [1]),
    ("dose <= 0.1", [0, 2]),
    ("drug contains y & area > 1", [2, 3]),
    ('"mean area" > 1.5', [1, 2]),
    ("mean area > 1.5 AND drug != x", [2]),
    ('drug = "y and z"', [3]),
    ("drug = 'y and z'", [3]),
    ("'mean area' > 1.5 and drug != 'x'", [2]),
    ("drug != x", [2, 3]),
    ("drug contains 5'", []),
    ("Drug = 5'-x and drug = 3'-x", []),
    ("", [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("text", "rows"), CASES)
def test_conditions(text, rows):
    found = make_table(
        pd.DataFrame(
            {
                "well": ["A1", "A2", "A3", "A4"],
                "area": [100, 200, 300, 2],
                "dose": np.array([0.1, 0.5, 0.1, np.nan], "f4"),
                "drug": ["x", "X", "Y", "y and z"],
                "mean area": [1.0, 2.0, 3.0, np.nan],
                "row number": [0, 1, 2, 3],
            }
        ),
        "test",
    )
    kept = found.rows_where(parse_filter(text, found.columns)[1])
    assert kept.frame["row number"].tolist() == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("are > 2", r"no column 'are'. Did you mean area\?$"),
        ("size > 2", "no column 'size'; there are area, drug, day.$"),
        ("area >", "'area >' has no value"),
        ("area > x", "holds numbers, and 'x' is none"),
        ("drug > x", "holds text; it has no order for '>'.$"),
        ("drug > 2026-11-22", "all written as 2026-11-22 or"),
        ("day > 22.11.2026", "all written as 2026-11-22 or"),
        ("day > 2026-11-22T10:00Z", "in one time zone"),
    ],
)
def test_wrong_conditions_say_why(text, message):
    found = table(well=["A1"], area=[1], drug=["x"], day=["2026-11-22"])
    with pytest.raises(ValueError, match=message):
        found.rows_where(parse_filter(text, found.columns)[1])


def test_missing_text_meets_no_test():
    found = table(well=["A1", "A2", "A3"], drug=["x", None, np.nan])
    for text, count in {"drug = x": 1, "drug != x": 0, "drug != y": 1}.items():
        assert len(found.rows_where(parse_filter(text, found.columns)[1])) == count, (
            text
        )
    assert len(found.rows_where(parse_filter("drug contains n", found.columns)[1])) == 0


def test_columns_that_differ_in_case_are_both_found():
    found = table(well=["A1"], dose=[1], Dose=[2])
    assert parse_filter("Dose = 2", found.columns)[1][0].column == "Dose"
    assert parse_filter("dose = 1", found.columns)[1][0].column == "dose"
    assert parse_filter("DOSE = 1", found.columns)[1][0].column == "dose"


def test_a_line_is_cut_at_and():
    words, tests = parse_filter('a > 1 AND B* &"x and y"=2', ["a", "x and y"])
    assert words == ["B*"]
    assert tests == [
        ColumnCondition("a", ">", "1"),
        ColumnCondition("x and y", "=", "2"),
    ]
    assert parse_filter("a = 5'-x and b == 3'-y", "ab")[1] == [
        ColumnCondition("a", "=", "5'-x"),
        ColumnCondition("b", "=", "3'-y"),
    ]
    words, tests = parse_filter("a = 'x and y' & b", "ab")
    assert (words, tests) == (["b"], [ColumnCondition("a", "=", "x and y")])
    assert parse_filter("", "ab") == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "well,dose\nA1,0.5\nB2,\n",
        "\ufeffwell;dose\r\nA1;0,5\r\nB2;\r\n",
        "row\tcolumn\tdose\nA\t1\t0.5\nB\t2\t\n",
        "well\tdose\nA1\t0,5\nB2\t\n",
        "well\tdose\r\nA1\t0,5\r\nB2\t\r\n".encode("utf-16"),
        "sep=;\r\nwell;dose\r\nA1;0,5\r\nB2;\r\n",
        '"sep=|"\n\nwell|dose\nA1|0.5\nB2|\n',
        '"well";"a, b, c, d";"dose"\n"A1";"x";"0,5"\n"B2";"y";\n',
        "well,dose\nA1,0.5,\nB2,,\n",
        "well,dose\nA1,0.5,,\nB2,,,\n",
        "well\tdose\n1\tA1\t0.5\n2\tB2\tNA\n",
    ],
)
def test_files_of_any_spreadsheet(tmp_path, text):
    path = tmp_path / "conditions.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = read_tables(path)[0]
    assert found.name == "conditions"
    assert by_path(found, ["A/1", "B/2"], "dose", "mean") == {
        "A/1": 0.5,
        "B/2": None,
    }


WORDS = ["None", "NA", "N/A", "n/a", "null", "NULL", "nan", "NaN", "<NA>", "#N/A"]


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_a_value_too_many_shifts_nothing(tmp_path_factory, data):
    """A row is in its well, or the file is refused and its line named."""
    names = data.draw(st.permutations(["well", "source", "dose", "row", "label"]))
    names = names[: data.draw(st.integers(2, 5))]
    assume("well" in names)
    separator = data.draw(st.sampled_from(",;\t"))
    count = data.draw(st.integers(1, 5))
    values = {
        "well": [f"A{n + 1}" for n in range(count)],
        "source": [f"H{n + 1}" for n in range(count)],
        "dose": [str(n + 0.5) for n in range(count)],
        "row": [str(n + 1) for n in range(count)],
        "label": [str(n + 1) for n in range(count)],
    }
    remarks = data.draw(
        st.lists(
            st.sampled_from([(), ("",), (" ", ""), ("checked",), ("1", "x")]),
            min_size=count,
            max_size=count,
        )
    )
    lines = [names]
    for n, remark in enumerate(remarks):
        lines.append([*(values[name][n] for name in names), *remark])
    path = tmp_path_factory.mktemp("shift") / "a.csv"
    path.write_text("\n".join(separator.join(line) for line in lines) + "\n")
    wrong = [n for n, remark in enumerate(remarks) if any(r.strip() for r in remark)]
    if wrong:
        with pytest.raises(CorruptDataError, match=f"line {wrong[0] + 2} has"):
            read_tables(path)[0]
        return
    frame = read_tables(path)[0].frame
    assert frame["well"].tolist() == [f"A/{n + 1}" for n in range(count)]
    for name in set(names) - {"well"}:
        assert [str(value) for value in frame[name]] == values[name]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("separator", [",", ";"])
def test_words_of_a_text_column_stay(tmp_path, word, separator):
    lines = [
        ["well", "compound", "dose", "hit", "only"],
        ["A1", word, "0.5", "True", word],
        ["A2", "taxol", word, word, word],
        ["A3", "", "1.5", "False", word],
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(separator.join(line) for line in lines))
    found = read_tables(path)[0]
    wells = ["A/1", "A/2", "A/3"]
    assert dict(found.count_texts("compound")["text"]) == {"A/1": word, "A/2": "taxol"}
    assert {*found.count_texts("only")["text"]} == {word}
    kept = found.rows_where(parse_filter(f"compound = {word}", found.columns)[1])
    assert kept.frame["well"].tolist() == ["A/1"]
    # Among numbers and truth values it is a missing one.
    assert by_path(found, wells, "dose", "mean") == {
        "A/1": 0.5,
        "A/2": None,
        "A/3": 1.5,
    }
    assert by_path(found, wells, "hit", "mean") == {
        "A/1": 1,
        "A/2": None,
        "A/3": 0,
    }


def test_numbers_of_rows_in_front_have_to_count_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("well\tdose\n1\tA1\t0.5\nA2\t1.5\n")
    with pytest.raises(CorruptDataError, match="line 3 has 2 values"):
        read_tables(path)[0]
    path.write_text("well\tdose\n1\t0.5\tchecked\n")
    with pytest.raises(CorruptDataError, match="line 2 has 3 values"):
        read_tables(path)[0]


def test_columns_of_one_name_are_distinguished(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("well,dose,dose ,dose\nA1,1,2,3\n")
    found = read_tables(path)[0]
    assert found.columns == found.numeric_columns
    assert [found.by_well(c, "sum") for c in found.columns] == [
        {"A/1": 1},
        {"A/1": 2},
        {"A/1": 3},
    ]


def test_a_long_column_has_one_type(tmp_path):
    path = tmp_path / "long.csv"
    rows = [f"A1,{i}" for i in range(300_000)]
    path.write_text("\n".join(["well,mark", *rows, "A1,none"]))
    marks = read_tables(path)[0].frame["mark"]
    assert {type(mark) for mark in marks} == {str}
    assert marks.iloc[0] == "0"


def test_what_is_no_table(tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    with pytest.raises(CorruptDataError, match=r"empty\.csv is not a table"):
        read_tables(empty)[0]


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_frame_is_written_whole(tmp_path, name):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"well": ["A01", "B02"], "area": [1.5, 2.25]})
    (tmp_path / name).write_text("older")
    write_frame(frame, tmp_path / name)
    assert read_tables(tmp_path / name)[0].by_well("area", "sum") == {
        "A/1": 1.5,
        "B/2": 2.25,
    }
    assert [path.name for path in tmp_path.iterdir()] == [name]


# anndata 0.13 asks for an option that pandas 3.1 tells is going.
@pytest.mark.filterwarnings(
    "ignore:The 'future.infer_string' option:DeprecationWarning"
)
@pytest.mark.parametrize("backend", ["csv", "json", "parquet", "anndata"])
def test_tables_of_ngio(tmp_path, backend):
    ngio = pytest.importorskip("ngio")
    if backend in ("parquet", "anndata"):
        pytest.importorskip({"parquet": "pyarrow"}.get(backend, backend))
    where = write_plate(tmp_path / "a.ome.zarr", grid=(1, 2), fields=1)
    conditions = pd.DataFrame(
        {
            "row": ["A", "A"],
            "column": ["1", "2"],
            "path_in_well": ["0", "0"],
            "drug": ["x", "y"],
            "dose": [0.5, None],
        }
    )
    objects = pd.DataFrame({"label": [1, 5], "area": [3.5, 4.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ngio.open_ome_zarr_plate(str(where)).add_table(
            "conditions", ngio.tables.ConditionTable(conditions), backend=backend
        )
        image = ngio.open_ome_zarr_container(str(where / "A" / "1" / "0"))
        features = ngio.tables.FeatureTable(objects, reference_label="nuclei")
        image.add_table("objects", features, backend=backend)
    node = open_node(str(where))
    assert list_tables(node) == ("conditions",)
    found = read_listed_table(node, "conditions")
    assert set(found.columns) == {"drug", "dose"}
    assert by_path(found, ["A/1", "A/2"], "dose", "mean") == {
        "A/1": 0.5,
        "A/2": None,
    }
    field = node.child("A/1/0")
    found = read_listed_table(field, "objects", {"well": "A/1", "field": "0"})
    assert found.region == "nuclei"
    assert found.frame["label"].tolist() == [1, 5]
    assert found.frame["area"].tolist() == [3.5, 4.0]
    assert found.columns == ("area",)
    assert list_tables(node.child("A/2/0")) == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none/out.csv", "there is no folder"),
        ("taken.csv", "it is a folder"),
        ("shut/out.csv", "Permission denied"),
        ("out.xlsx", r"written as \.csv or \.parquet"),
        ("out", r"written as \.csv or \.parquet"),
    ],
)
def test_where_no_table_can_be_is_reported_at_once(tmp_path, name, message):
    (tmp_path / "taken.csv").mkdir()
    (tmp_path / "shut").mkdir(mode=0o555)
    if name.startswith("shut") and os.access(tmp_path / "shut", os.W_OK):
        pytest.skip("this user may write everywhere")
    before = sorted(tmp_path.rglob("*"))
    for step in (
        check_target,
        lambda path: write_frame(pd.DataFrame({"a": [1]}), path),
    ):
        with pytest.raises((OSError, UnsupportedError), match=message) as caught:
            step(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_parquet_cannot_hold_leaves_the_older_file(tmp_path):
    pytest.importorskip("pyarrow")
    out = tmp_path / "out.parquet"
    out.write_text("older")
    with pytest.raises(UnsupportedError, match="Save it as CSV"):
        write_frame(pd.DataFrame({"mixed": ["x", 1]}), out)
    assert out.read_text() == "older"
    assert list(tmp_path.iterdir()) == [out]


OLD = 'raise ImportError("zarr-python major version > 2 is not supported")'
"""As anndata 0.11 ends with zarr-python 3."""


def test_an_old_anndata_is_named_with_what_to_do(tmp_path):
    old = tmp_path / "packages"
    (old / "anndata").mkdir(parents=True)
    (old / "anndata/__init__.py").write_text(OLD)
    (old / "anndata-0.11.4.dist-info").mkdir()
    text = "Metadata-Version: 2.1\nName: anndata\nVersion: 0.11.4\n"
    (old / "anndata-0.11.4.dist-info/METADATA").write_text(text)
    folder = tmp_path / "table"
    for name in ("", "obs", "var", "X"):
        zarr.open_group(folder / name, mode="a")
    code = (
        "import sys\n"
        "from napari_ngff.plate.tables.decode_table import decode_anndata\n"
        "from napari_ngff.store.sources.folder_store import FolderStore\n"
        "decode_anndata(FolderStore(sys.argv[1]), '', 'cells')\n"
    )
    paths = os.pathsep.join([str(old), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert "UnsupportedError: anndata 0.11.4 does not read the table cells" in last
    assert last.endswith("Run: pip install -U anndata")
