"""What is wanted, what failed, and what is shown."""

from __future__ import annotations

import pytest

from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.browsing.shown_fields import (
    BrowsingState,
    FieldEntry,
    FieldStep,
    ShownFields,
    WellStep,
)

HERE = ShownFields(("A/1",), Position("A/1", "0", 0))
NEXT = ShownFields(("A/2",), Position("A/2", "0", 0))


@pytest.fixture
def state():
    made = BrowsingState()
    made.shown = HERE
    return made


def test_quick_steps_add_up(state):
    state.wanted = state.start.add_move(FieldStep(1))
    state.wanted = state.start.add_move(WellStep(0, 1))
    assert state.wanted.position == HERE.position
    assert state.wanted.moves == (FieldStep(1), WellStep(0, 1))


def test_a_step_goes_on_from_the_field_that_failed(state):
    state.wanted = HERE.add_move(FieldStep(1))
    state.fail_wanted(NEXT)
    assert state.start == NEXT
    assert state.shown == HERE


def test_where_no_field_was_found_a_step_starts_from_the_shown_one(state):
    state.wanted = HERE.add_move(FieldStep(1))
    state.fail_wanted(None)
    assert state.start == HERE


def test_steps_start_from_no_overview(state):
    state.wanted = ShownFields(("A/1", "A/2"))
    assert state.start is None


def test_what_came_too_late_leaves_what_is_wanted_now(state):
    earlier, later = HERE.add_move(FieldStep(1)), HERE.add_move(FieldStep(-1))
    state.wanted = later
    state.finish_wanted(earlier)
    assert state.wanted is later


def test_a_choice_made_meanwhile_outlives_what_is_shown(state):
    asked = state.with_choices(ShownFields(position=Position("A/2", "")))
    state.acquisitions, state.labels = (1,), "nuclei"
    state.set_shown(asked, NEXT)
    assert (state.acquisitions, state.labels) == ((1,), "nuclei")
    assert state.shown.position == NEXT.position


def test_a_field_of_another_acquisition_is_chosen_with_it(state):
    state.acquisitions = (0,)
    asked = state.with_choices(ShownFields(position=Position("A/2", "3")))
    found = ShownFields(("A/2",), Position("A/2", "3", 1), (1,))
    state.set_shown(asked, found)
    assert state.acquisitions == (1,)


def test_only_what_was_named_has_a_name_before_it_is_found():
    entry = ShownFields(position=Position("A/2", "")).add_move(FieldEntry())
    assert entry.named_position == Position("A/2", "")
    assert entry.add_move(FieldStep(1)).named_position is None
    assert HERE.named_position == HERE.position
