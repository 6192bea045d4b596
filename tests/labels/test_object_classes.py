"""Classes of objects: a list, and which object has which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.labels.class_colors import PALETTE
from napari_ngff.labels.object_classes import ClassChanges, ObjectClasses, parse_list


def classes_of(*names, **objects):
    made = ObjectClasses()
    for name in names:
        made = made.with_class(name)
    for label, name in objects.items():
        made = made.with_objects({int(label.strip("o")): name})
    return made


def test_an_object_has_one_class_and_may_lose_it():
    made = classes_of("round", "long", o7="round", o9="long")
    changed = made.with_objects({7: "long"}).with_objects({9: ""})
    assert dict(made.class_of) == {7: "round", 9: "long"}
    assert dict(changed.class_of) == {7: "long"}


def test_new_classes_have_the_colours_of_the_palette_in_turn():
    made = classes_of("a", "b", "c")
    assert tuple(item.color for item in made.classes) == PALETTE[:3]


@pytest.mark.parametrize("name", ["", "round"])
def test_a_class_has_a_name_of_its_own(name):
    with pytest.raises(ValueError, match=r"name|already"):
        classes_of("round").with_class(name)


def test_number_keys_mean_the_same_where_another_image_has_another_order():
    here = classes_of("long", "round", o1="round")
    there = classes_of("round", "long", "broken")
    assert here.put_first(there.classes).names == ["round", "long", "broken"]


def test_text_is_read_as_it_was_written():
    classes = classes_of("mitosis, late", "ä").classes
    made = ClassChanges("nuclei", classes, {7: "ä", 9: ""})
    assert ClassChanges.parse_text(made()) == made


def test_only_objects_that_were_changed_here_get_another_class_in_the_file():
    stored = classes_of("round", "broken", o1="round", o2="broken", o3="round")
    here = ClassChanges("a", classes_of("long", "round").classes, {1: "long", 3: ""})
    merged = here.merge_into(stored)
    assert dict(merged.class_of) == {1: "long", 2: "broken"}
    assert merged.names == ["long", "round", "broken"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"labels": "a", "classes": 3}', "7"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        ClassChanges.parse_text(text)


@pytest.mark.parametrize("rows", [None, 3, [3], [{}], [{"name": 3}], [{"name": ""}]])
def test_a_list_that_makes_no_sense_has_no_classes(rows):
    assert parse_list(rows) == ()


@pytest.mark.parametrize("color", [None, "red", [1, 2], [0, 0, 0, 300], [0.5] * 4])
def test_a_class_without_a_colour_gets_one(color):
    (item,) = parse_list([{"name": "a", "color": color}])
    assert item.color in PALETTE


def test_classes_that_only_objects_have_are_listed():
    made = ObjectClasses().with_objects({3: "b", 4: "a", 5: "b"})
    assert made.with_all_named().names == ["b", "a"]


NAMES = st.sampled_from("abcde")
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "name": NAMES,
        "color": st.sampled_from([(1, 2, 3, 255), (4, 5, 6, 7)]),
        "locked": st.booleans(),
        "hidden": st.booleans(),
    },
)
STEPS = st.lists(
    st.tuples(st.integers(1, 3), NAMES | st.just(""))
    | st.tuples(NAMES, PARTS | st.none()),
    max_size=8,
)


@given(known=st.dictionaries(st.integers(1, 3), st.sampled_from("abc")), steps=STEPS)
def test_the_file_gets_what_was_edited_here_and_keeps_all_else(known, steps):
    """Whatever was renamed, recoloured, removed and classified before the save."""
    stored = classes_of("a", "b", "c").with_objects(known)
    here, objects, edited = stored, {}, {}
    for what, change in steps:
        if isinstance(what, int):
            if change in ("", *here.names):
                here = here.with_objects({what: change})
                objects[what] = change
            continue
        if what not in here.names:
            continue
        name = what if change is None else change.get("name", what)
        if name != what and name in here.names:
            continue
        had = here.class_of.only(what)
        changed = had if name != what or change is None else ()
        objects |= dict.fromkeys(changed, "" if change is None else name)
        edited |= dict.fromkeys((what, name))
        here = (
            here.without_class(what)
            if change is None
            else here.with_parts(what, **change)
        )
    text = ClassChanges("a", here.classes, objects, tuple(edited))()
    changes = ClassChanges.parse_text(text)
    merged = changes.merge_into(stored)
    assert merged.classes == here.classes
    assert dict(merged.class_of) == dict(here.class_of)
    # Another window gave an object a class of an older name, and recoloured classes.
    red = (255, 0, 0, 255)
    other = stored.with_objects({9: "b"})
    for name in other.names:
        other = other.with_parts(name, color=red)
    merged = changes.merge_into(other)
    assert merged.class_of[9] == "b"
    for item in merged.classes:
        if item.name in stored.names and item.name not in edited:
            assert item.color == red
        elif item.name in here.names:
            assert item in here.classes


@pytest.mark.parametrize("name", ["", "long"])
def test_a_class_is_not_renamed_to_what_another_one_is_called(name):
    with pytest.raises(ValueError, match=r"name|already"):
        classes_of("round", "long").with_parts("round", name=name)


def test_marks_of_classes_are_read_as_far_as_they_make_sense():
    rows = [
        {"name": "a", "locked": True, "hidden": 1},
        {"name": "b", "locked": "yes", "hidden": True},
    ]
    found = [(item.locked, item.hidden) for item in parse_list(rows)]
    assert found == [(True, False), (False, True)]
