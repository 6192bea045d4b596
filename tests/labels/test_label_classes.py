from __future__ import annotations

from dataclasses import replace

import pytest

from napari_ngff.labels.class_colors import PALETTE
from napari_ngff.labels.label_classes import (
    LabelClass,
    classes_of,
    dump_classes,
    load_classes,
    with_classes,
    with_classes_in_use,
)
from napari_ngff.metadata.model import MOST_CLASSES, LabelInfo

RED, BLUE = (255, 0, 0, 255), (0, 0, 255, 128)
FILE = LabelInfo(
    {0: (1, 2, 3, 4), 3: RED, 9: BLUE},
    {
        3: {"napari-ngff:class-name": "tumour", "area": 4},
        4: {"napari-ngff:class-name": "stroma"},
        9: {"area": 1},
    },
)


def test_classes_are_read_from_properties_and_colours():
    tumour, stroma = classes_of(FILE)
    assert tumour == LabelClass(3, "tumour", RED)
    assert (stroma.value, stroma.name, stroma.color) == (4, "stroma", PALETTE[0])


def test_stating_what_is_there_changes_no_meaning():
    classes = (
        LabelClass(4, "stroma", BLUE, locked=True),
        LabelClass(3, "tumour", RED, hidden=True),
    )
    info = with_classes(FILE, classes)
    assert classes_of(info) == classes
    assert with_classes(info, classes) == info
    assert info.properties[3]["area"] == 4
    assert info.properties[9] == {"area": 1}
    assert info.colors == {**FILE.colors, 4: BLUE}


def test_what_is_no_class_any_more_keeps_what_others_wrote():
    info = with_classes(FILE, ())
    assert info.properties == {3: {"area": 4}, 9: {"area": 1}}
    assert info.colors == {0: (1, 2, 3, 4), 9: BLUE}


def test_nonsense_of_others_is_no_class():
    info = LabelInfo(
        {},
        {
            0: {"napari-ngff:class-name": "background"},
            1: {"napari-ngff:class-name": 5},
            2: {
                "napari-ngff:class-name": "a",
                "class-state": "?",
                "napari-ngff:class-locked": 1,
                "napari-ngff:class-order": [],
            },
        },
    )
    assert classes_of(info) == (LabelClass(2, "a", PALETTE[0]),)
    cell = {"napari-ngff:class-name": "cell"}
    objects = dict.fromkeys(range(1, MOST_CLASSES + 2), cell)
    assert classes_of(LabelInfo({}, objects)) == ()
    assert with_classes(LabelInfo({}, objects), ()).properties == objects


def test_classes_in_use_keep_their_keys_and_their_colours():
    one, two, three, four = (
        LabelClass(value, name, PALETTE[value]) for value, name in enumerate("abcd", 1)
    )
    joined = with_classes_in_use([two, four], [one, two, three, four])
    assert [item.name for item in joined] == ["a", "b", "c", "d"]
    assert joined[2] == LabelClass(3, "c", PALETTE[3])
    # A label that means another class there is free, and so is its colour.
    other = LabelClass(2, "x", two.color)
    joined = with_classes_in_use([other], [one, two])
    assert [(item.value, item.name) for item in joined] == [
        (1, "a"),
        (3, "b"),
        (2, "x"),
    ]
    assert len({item.color for item in joined}) == 3


def test_classes_in_use_stay_locked_and_hidden_in_the_next_field():
    here, there = (LabelClass(1, name, PALETTE[0]) for name in "aa")
    for before, after in ((True, False), (False, True)):
        (joined,) = with_classes_in_use(
            [replace(there, locked=after, hidden=after)],
            [replace(here, locked=before, hidden=before)],
        )
        assert joined.locked, "a lock of either field protects"
        assert joined.hidden is before, "seen as in the field before"


def test_a_renamed_class_gets_no_colour_of_a_class_that_follows_it():
    one, two, three = (
        LabelClass(value, name, PALETTE[value - 1])
        for value, name in enumerate("abc", 1)
    )
    renamed = replace(one, name="A")
    joined = with_classes_in_use([one, two], [renamed, two, three])
    assert [item.name for item in joined] == ["A", "a", "b", "c"]
    assert len({item.color for item in joined}) == len(joined)


def test_a_list_goes_to_other_images():
    classes = classes_of(FILE)
    assert load_classes(dump_classes(classes)) == classes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Not JSON"),
        ("[" * 200_000, "Not JSON: it is nested too deeply"),
        ("[]", "Not a list of classes"),
        ('{"format": "napari-ngff-classes", "classes": 5}', '"classes" is 5'),
        ('{"format": "napari-ngff-classes", "classes": [5]}', "needs"),
        ('{"format": "napari-ngff-classes", "classes": [{"value": 1}]}', "needs"),
        (
            (
                '{"format": "napari-ngff-classes", "classes":'
                ' [{"value": 0, "name": "a", "color": [0, 0, 0, 0]}]}'
            ),
            "background",
        ),
        (
            (
                '{"format": "napari-ngff-classes", "classes":'
                ' [{"value": 1, "name": "a", "color": [0, 0, 0, 0]},'
                ' {"value": 1, "name": "b", "color": [0, 0, 0, 0]}]}'
            ),
            "same value",
        ),
    ],
)
def test_something_else_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        load_classes(text)


def test_a_state_that_an_earlier_version_wrote_stays_in_the_file():
    info = LabelInfo({}, {2: {"napari-ngff:class-name": "a", "class-state": "done"}})
    assert with_classes(info, classes_of(info)).properties[2]["class-state"] == "done"
