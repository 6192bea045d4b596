from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_ngff.cli import main
from napari_ngff.errors import CorruptDataError
from napari_ngff.labels import field_states
from napari_ngff.labels.field_states import STATES, FieldStates
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.samples import write_plate
from plates import write_group


@pytest.fixture
def plate(tmp_path):
    path = tmp_path / "screen.ome.zarr"
    write_plate(path, grid=(1, 2), fields=1, shape=(32, 32))
    return path


def snapshot(folder):
    found = {}
    for place, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[path] = file.read()
    return found


def test_states_are_kept_beside_the_plate_and_the_plate_is_untouched(plate):
    before = snapshot(plate)
    one = FieldStates(open_node(str(plate)))
    assert one.state_of("A/1/0") == "to do"
    assert not os.path.exists(one.path)
    one.set_state("A/1/0", "done")
    one.set_state("A/2/0", "flagged")
    assert os.path.dirname(one.path) == str(plate.parent)
    again = FieldStates(open_node(str(plate)))
    assert (again.state_of("A/1/0"), again.state_of("A/2/0")) == ("done", "flagged")
    assert snapshot(plate) == before
    with open(one.path) as file:
        assert list(json.load(file)) == ["format", "version", "fields"]


def test_two_people_lose_nothing_of_each_other(plate):
    node = open_node(str(plate))
    one, other = FieldStates(node), FieldStates(node)
    one.set_state("A/1/0", "done")
    other.set_state("A/2/0", "in progress")
    assert FieldStates(node).count_states(["A/1/0", "A/2/0", "A/3/0"]) == {
        "to do": 1,
        "in progress": 1,
        "done": 1,
        "flagged": 0,
    }


def test_a_field_that_another_finished_is_not_begun_again(plate):
    node = open_node(str(plate))
    one, other = FieldStates(node), FieldStates(node)
    other.set_state("A/1/0", "done")
    one.set_state("A/1/0", "in progress", "to do")
    assert one.state_of("A/1/0") == FieldStates(node).state_of("A/1/0") == "done"
    one.set_state("A/1/0", "in progress", "done")
    assert FieldStates(node).state_of("A/1/0") == "in progress"


def test_the_next_to_do_goes_around(plate):
    found = FieldStates(open_node(str(plate)))
    fields = ["a", "b", "c", "d"]
    found.set_state("b", "done")
    found.set_state("d", "flagged")
    assert found.next_to_do(fields) == "a"
    assert found.next_to_do(fields, "a") == "c"
    assert found.next_to_do(fields, "c") == "a"
    for field in fields:
        found.set_state(field, "done")
    assert found.next_to_do(fields, "b") is None


def test_a_plate_that_cannot_be_written_beside_has_its_states_at_home(
    plate, monkeypatch
):
    access = os.access
    monkeypatch.setattr(
        field_states.os,
        "access",
        lambda p, m: str(p) != str(plate.parent) and access(p, m),
    )
    one = FieldStates(open_node(str(plate)))
    one.set_state("A/1/0", "done")
    assert str(plate.parent) not in one.path
    assert FieldStates(open_node(str(plate))).state_of("A/1/0") == "done"
    assert not list(plate.parent.glob("*.json"))


def test_another_file_of_that_name_stays(plate):
    path = FieldStates(open_node(str(plate))).path
    deep = "[" * 200_000
    for text in ("[1]", '{"format": "x", "fields": {}}', "{", deep):
        with open(path, "w") as file:
            file.write(text)
        with pytest.raises(CorruptDataError, match="Move it away"):
            FieldStates(open_node(str(plate)))
        with open(path) as file:
            assert file.read() == text


def test_the_file_disturbs_nobody(plate, capsys):
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    def looked_at():
        """What others make of the plate and of the folder it is in."""
        assert main(["check", "--strict", str(plate)]) == 0, capsys.readouterr().out
        reported = capsys.readouterr().out
        first = next(iter(Reader(parse_url(str(plate)))()))
        kinds = [type(spec).__name__ for spec in first.specs]
        return (
            reported,
            kinds,
            [level.shape for level in first.data],
            first.metadata["name"],
        )

    before = looked_at()
    one = FieldStates(open_node(str(plate)))
    for state in ("in progress", "done"):
        one.set_state("A/1/0", state)
        assert FieldStates(open_node(str(plate))).state_of("A/1/0") == state
    assert looked_at() == before
    with open(one.path) as file:
        kept = json.load(file)["fields"]
    assert kept["A/1/0"]["state"] == "done"
    assert datetime.fromisoformat(kept["A/1/0"]["when"]).tzinfo is not None


def test_states_that_several_threads_note_are_all_kept(plate):
    node = open_node(plate)
    known = FieldStates(node)
    fields = [f"A/1/{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda field: known.set_state(field, "done"), fields))
    assert (
        known.all_states()
        == FieldStates(node).all_states()
        == dict.fromkeys(fields, "done")
    )


FIELDS = ["A/1/0", "A/1/1", "A/2/0"]
NOTES = st.lists(
    st.tuples(
        st.sampled_from(FIELDS),
        st.sampled_from(STATES),
        st.sampled_from(["", "pheno", "fast"]),
        st.sampled_from([None, *STATES]),
        st.booleans(),
    ),
    max_size=20,
)


@settings(max_examples=60)
@given(notes=NOTES)
def test_states_are_those_of_labels(tmp_path_factory, notes):
    """Whichever window notes them; without a name they hold for all labels."""
    path = tmp_path_factory.mktemp("states") / "p.ome.zarr"
    write_group(path, {"plate": {}}, 3)
    node = open_node(path)
    windows = [FieldStates(node), FieldStates(node)]
    expected = {name: {} for name in ("", "pheno", "fast")}

    def state_of(field, name):
        return expected[name].get(field, expected[""].get(field, "to do"))

    for field, state, name, only_from, other in notes:
        windows[other].set_state(field, state, only_from, name)
        if only_from in (None, state_of(field, name)):
            expected[name][field] = state
    for states in (FieldStates(node),):
        for name in ("pheno", "fast"):
            found = {field: states.state_of(field, name) for field in FIELDS}
            assert found == {field: state_of(field, name) for field in FIELDS}
            counted = list(found.values())
            assert states.count_states(FIELDS, name) == {
                state: counted.count(state) for state in STATES
            }
            todo = [field for field in FIELDS if found[field] == "to do"]
            assert states.next_to_do(FIELDS, labels=name) == next(iter(todo), None)


def test_a_file_of_before_is_read_and_its_states_stay(plate):
    """They are of all labels, until a field gets one of its own; and stay readable."""
    path = FieldStates(open_node(str(plate))).path
    when = "2026-01-31T12:00:00+00:00"
    fields = {"A/1/0": {"state": "done", "when": when}}
    before = {"format": "napari-ngff-annotation", "version": 1, "fields": fields}
    with open(path, "w") as file:
        json.dump(before, file)
    states = FieldStates(open_node(str(plate)))
    assert states.state_of("A/1/0", "pheno") == states.state_of("A/1/0") == "done"
    states.set_state("A/1/0", "flagged", labels="fast")
    again = FieldStates(open_node(str(plate)))
    assert again.state_of("A/1/0", "pheno") == "done"
    assert again.state_of("A/1/0", "fast") == again.state_of("A/1/0") == "flagged"
    assert again.newest_labels == "fast"
    with open(path) as file:
        content = json.load(file)
    # An earlier version reads the newest state of each field.
    assert content["fields"]["A/1/0"]["state"] == "flagged"
    with open(path, "w") as file:
        json.dump({key: content[key] for key in before}, file)
    assert FieldStates(open_node(str(plate))).state_of("A/1/0", "pheno") == "flagged"
