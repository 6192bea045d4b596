"""A round of annotation through a plate, and what is left on the disk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from choices import set_preference
from napari_ngff.labels.field_states import FieldStates
from napari_ngff.labels.label_classes import (
    LabelClass,
    classes_of,
    kind_of,
    with_classes,
)
from napari_ngff.labels.label_metadata import read_label_info, write_label_info
from napari_ngff.metadata.model import LabelKind
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.browsing.annotation import labels_in_hand
from napari_ngff.viewer.browsing.field_labels import label_name
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import begin_annotation, session_of
from plates import write_group, write_image, write_plate


@pytest.fixture
def root(tmp_path):
    return write_plate(
        tmp_path / "p.ome.zarr",
        grid=(2, 2),
        fields=2,
        shape=(1, 32, 32),
        wells=["A/1", "A/2", "B/1"],
        labelled=lambda well: ("cells",) if well == "A/2" else (),
    )


@pytest.fixture
def viewer():
    return ViewerModel()


def begin(viewer, root, name="cells"):
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1", "0")
    return begin_annotation(viewer, name)


def paint(found, label, at=10):
    layer = found.layer
    layer.paint((0,) * (layer.ndim - 2) + (at, at), label)


def test_labels_and_classes_are_in_every_field_and_on_the_disk(viewer, root):
    found = begin(viewer, root)
    assert found.fields == ("A/1/0", "A/1/1", "A/2/0", "A/2/1", "B/1/0", "B/1/1")
    classes = classes_of_layer(found.layer)
    for name in ("nucleus", "debris", "dividing"):
        classes.add_class(name)
    classes.select_class(classes.items[1].value)
    found.layer.brush_size = 7
    for number, _ in enumerate(found.fields, 1):
        # In one well another program made the labels of this name: objects.
        is_own = not found.current_key.startswith("A/2")
        names = ["nucleus", "debris", "dividing"] if is_own else []
        assert [c.name for c in classes_of_layer(found.layer).items] == names
        assert (found.layer.selected_label == 2) == is_own
        assert found.layer.brush_size == 7
        assert (viewer.layers.selection.active is found.layer) == is_own
        assert (found.layer.mode == "paint") == is_own
        paint(found, number + 50)
        found.browser.step_field(1)
    assert found.current_key == "A/1/0"
    assert len([x for x in viewer.layers if x.name.startswith("cells")]) == 1
    for number, field in enumerate(found.fields, 1):
        stored = zarr.open_array(root / field / "labels" / "cells" / "0", mode="r")[...]
        assert (stored == number + 50).any()
        info = read_label_info(open_node(root / field / "labels" / "cells"))
        is_own = not field.startswith("A/2")
        names = ["nucleus", "debris", "dividing"] if is_own else []
        assert [item.name for item in classes_of(info)] == names
        assert kind_of(info) == ("classes" if is_own else "objects")
    assert found.progress == {"to do": 0, "in progress": 6, "done": 0, "flagged": 0}


@pytest.mark.default_cases("chosen0", "chosen3")
@pytest.mark.parametrize("chosen", [(0,), (1,), (0, 1), (1, 0), ()])
def test_a_round_counts_the_fields_that_it_goes_through(viewer, tmp_path, chosen):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2, acquisitions=2)
    browser = session_of(viewer).browse(open_node(root))
    browser.choose_acquisitions(chosen)
    browser.show_field("A/1")
    found = begin_annotation(viewer, "cells")
    seen = []
    while found.current_key not in seen:
        seen.append(found.current_key)
        found.set_state("done")
        browser.step_field(1)
    assert found.fields == tuple(seen)
    assert found.progress["done"] == len(seen) == (4 if chosen else 8)
    if chosen:
        browser.choose_acquisitions((1 - chosen[0],))
        assert found.progress["to do"] == len(found.fields) == 4
        assert set(found.fields).isdisjoint(seen)
        # The map counts the same fields.
        assert browser.count_states(browser.chosen_acquisitions) == {}
        browser.choose_acquisitions(chosen)
    counted = browser.count_states(browser.chosen_acquisitions)
    numbers = {(states.counts["done"], states.total) for states in counted.values()}
    assert numbers == {(2, 2 * len(chosen)) if chosen else (4, 4)}


@pytest.mark.parametrize("saves", [True, False])
def test_a_field_that_is_done_is_saved(viewer, root, saves):
    set_preference("moving_on", saves)
    found = begin(viewer, root)
    paint(found, 7)
    found.switch_state("flagged")
    assert found.layer.unsaved, "somebody has to look at it first"
    found.switch_state("done")
    assert found.layer.unsaved != saves
    assert found.state == "done"
    set_preference("moving_on", True)
    found.browser.step_field(1)
    assert FieldStates(open_node(root)).state_of("A/1/0") == "done"
    stored = zarr.open_array(root / "A/1/0/labels/cells/0", mode="r")
    assert (stored[...] == 7).any()


def stored_classes(root, field):
    """Names by label of the classes of a field on the disk."""
    info = read_label_info(open_node(root / field / "labels" / "kinds"))
    return {item.value: item.name for item in classes_of(info)}


def test_a_class_is_renamed_in_all_fields(viewer, root):
    """Else the same class had two names over the plate, and was measured as two."""
    found = begin(viewer, root, "kinds")
    classes = classes_of_layer(found.layer)
    for name in ("mitotic", "debris"):
        classes.add_class(name)
    for _ in range(4):
        paint(found, 1)
        found.browser.step_field(1)
    found.browser.show_field("A/1", "0")
    (root / "A/1/1/labels/kinds/zarr.json").write_text("{")
    before = found.fields[2:4]
    classes_of_layer(found.layer).change_class(1, name="Mphase")
    asked = []
    names = "mitotic", "Mphase"
    result = found.browser.rename_class(
        "kinds", names, lambda *at: not asked.append(at)
    )
    assert [(p.well, p.field) for p in result.changed] == [("A/2", "0"), ("A/2", "1")]
    assert [(p.well, p.field) for p in result.failures] == [("A/1", "1")]
    assert asked == [(number, 5) for number in range(5)]
    for field in before:
        assert stored_classes(root, field) == {1: "Mphase", 2: "debris"}
    assert stored_classes(root, "A/1/0") == {1: "mitotic", 2: "debris"}, "until saved"
    found.go_to_field("A/2/0")
    assert stored_classes(root, "A/1/0") == {1: "Mphase", 2: "debris"}
    assert [c.name for c in classes_of_layer(found.layer).items] == ["Mphase", "debris"]
    # Again there is nothing to do, and a field with both names keeps them.
    classes_of_layer(found.layer).add_class("mitotic")
    paint(found, 3)
    found.browser.step_field(1)
    result = found.browser.rename_class("kinds", names, lambda *_: True)
    assert (result.changed, [p.well for p in result.unchanged]) == ([], ["A/2"])
    cancelled = found.browser.rename_class(
        "kinds", ("debris", "dust"), lambda *_: False
    )
    assert cancelled.changed == []
    assert "debris" in stored_classes(root, "A/2/0").values()


def test_locks_hold_in_fields_whose_classes_nobody_asked_for(viewer, root):
    found = begin(viewer, root, "kinds")
    classes_of_layer(found.layer).add_class("debris")
    found.browser.step_field(1)
    paint(found, 1)
    classes_of_layer(found.layer).change_class(1, locked=True)
    found.browser.step_field(-1)
    paint(found, 5)
    classes_of_layer(found.layer).change_class(1, locked=False)
    found.browser.step_field(1)
    session_of(viewer).browser.close()

    again = ViewerModel()
    browser = session_of(again).browse(open_node(root))
    for field, spared in (("0", ()), ("1", (1,))):
        browser.show_field("A/1", field)
        (layer,) = [x for x in again.layers if x.name == "kinds"]
        assert layer.spared == spared


def test_a_class_is_renamed_although_another_window_has_strokes_there(viewer, root):
    found = begin(viewer, root, "kinds")
    classes_of_layer(found.layer).add_class("mitotic")
    for _ in range(2):
        paint(found, 1)
        found.browser.step_field(1)
    found.browser.show_field("A/1", "0")
    other = ViewerModel()
    session_of(other).browse(open_node(root)).show_field("A/1", "1")
    second = begin_annotation(other, "kinds")
    paint(second, 1, at=20)
    classes_of_layer(second.layer).add_class("debris")
    classes_of_layer(found.layer).change_class(1, name="Mphase")
    found.browser.rename_class("kinds", ("mitotic", "Mphase"), lambda *_: True)
    assert second.layer.saver.save_now()
    stated = stored_classes(root, "A/1/1")
    assert stated[1] == "Mphase"
    assert "debris" in stated.values()
    stored = zarr.open_array(root / "A/1/1/labels/kinds/0", mode="r")[...]
    assert stored[..., 20, 20] == stored[..., 10, 10] == 1


def test_another_day_a_new_field_has_the_classes_of_the_others(viewer, root):
    found = begin(viewer, root)
    classes = classes_of_layer(found.layer)
    for name in ("nucleus", "debris"):
        classes.add_class(name)
    paint(found, 1)
    found.browser.step_field(1)
    session_of(viewer).browser.close()
    again = ViewerModel()
    session_of(again).browse(open_node(root))
    found = begin_annotation(again, "cells")
    assert found.current_key == "A/1/1"
    classes = classes_of_layer(found.layer)
    assert [c.name for c in classes.items] == ["nucleus", "debris"]
    assert found.layer.selected_label == 1
    assert not found.layer.unsaved
    found.browser.show_field("B/1", "0")
    assert [c.name for c in classes_of_layer(found.layer).items] == [
        "nucleus",
        "debris",
    ]


def test_another_day_the_labels_of_before_are_continued_from_the_overview(viewer, root):
    found = begin(viewer, root, "phenotypes")
    classes_of_layer(found.layer).add_class("nucleus")
    paint(found, 1)
    found.browser.step_field(1)
    assert found.browser.labels == "phenotypes", "overviews show what was saved"
    session_of(viewer).browser.close()
    again = ViewerModel()
    session_of(again).browse(open_node(root))
    found = begin_annotation(again)
    assert (found.name, found.current_key) == ("phenotypes", "A/1/1")
    assert label_name(found.layer) == "phenotypes"
    assert [c.name for c in classes_of_layer(found.layer).items] == ["nucleus"]


def test_a_first_round_without_a_name_makes_labels_of_its_own(viewer, root):
    session_of(viewer).browse(open_node(root))
    found = begin_annotation(viewer)
    assert (found.name, label_name(found.layer)) == ("labels", "labels")


def test_the_classes_in_the_file_of_a_field_stay(viewer, root):
    found = begin(viewer, root)
    classes = classes_of_layer(found.layer)
    for name in ("interphase", "mitotic"):
        classes.add_class(name)
    paint(found, 1)
    found.go_to_field("A/1/1")
    classes = classes_of_layer(found.layer)
    for value in (1, 2):
        classes.remove_class(value)
    classes.add_class("mitotic", 1)
    classes.add_class("dead", 3)
    paint(found, 1)
    classes.select_class(1)
    classes.draw_over(1)
    found.go_to_field("A/1/0")
    text = str(notification_manager.records[-1].message)
    assert text.startswith("Other classes in this field.\nLabel 1 is 'interphase' here")
    notification_manager.records.clear()
    classes = classes_of_layer(found.layer)
    assert {c.value: c.name for c in classes.items} == {
        1: "interphase",
        2: "mitotic",
        3: "dead",
    }
    assert classes.selected.name == "mitotic", "what was in hand, by its label here"
    assert found.layer.only_over == 2, "the class that is painted over, too"
    classes.draw_over(None)
    assert not found.layer.unsaved
    paint(found, 2, at=20)
    found.go_to_field("A/1/1")
    info = read_label_info(open_node(root / "A/1/0/labels/cells"))
    names = [info.properties[value]["napari-ngff:class-name"] for value in (1, 2, 3)]
    assert names == ["interphase", "mitotic", "dead"]
    classes = classes_of_layer(found.layer)
    assert {c.value: c.name for c in classes.items} == {
        1: "mitotic",
        3: "dead",
        4: "interphase",
    }


def test_a_class_that_one_field_lacks_keeps_its_key(viewer, root):
    found = begin(viewer, root)
    classes = classes_of_layer(found.layer)
    for name in ("interphase", "mitotic", "debris"):
        classes.add_class(name)
    paint(found, 1)
    found.go_to_field("A/1/1")
    classes = classes_of_layer(found.layer)
    paint(found, 1)
    classes.remove_class(2)
    found.go_to_field("A/1/0")
    notification_manager.records.clear()
    found.go_to_field("A/1/1")
    names = [item.name for item in classes_of_layer(found.layer).items]
    assert names == ["interphase", "mitotic", "debris"]
    assert not notification_manager.records
    # An order of the file stays, and is reported.
    classes = classes_of_layer(found.layer)
    classes.move_class(3, 0)
    found.go_to_field("A/1/0")
    (record,) = notification_manager.records
    text = "Key 1 is 'interphase' here and 'debris' in the field before."
    assert text in str(record.message)
    notification_manager.records.clear()


def test_nothing_is_written_of_a_field_that_is_only_looked_at(viewer, root):
    found = begin(viewer, root)
    classes_of_layer(found.layer).add_class("nucleus")
    for _ in found.fields:
        found.browser.step_field(1)
    assert not (root / "A/1/0/labels").exists()
    assert not (root / "B/1/1/labels").exists()
    assert found.progress["to do"] == 6


def test_classes_without_a_stroke_go_along_until_they_are_saved(viewer, root):
    found = begin(viewer, root)
    classes_of_layer(found.layer).add_class("nucleus")
    first = found.layer.saver.journal
    found.browser.step_field(1)
    # In one place: it is kept, or asked about, with the field on screen.
    assert not first.folder.exists()
    assert found.layer.unsaved
    assert found.layer.saver.save_now()
    assert not found.layer.unsaved
    info = read_label_info(open_node(str(root)).child("A/1/1/labels/cells"))
    assert info.properties[1]["napari-ngff:class-name"] == "nucleus"
    found.browser.step_field(1)
    assert not found.layer.unsaved


def test_states_are_kept_and_lead_to_what_is_to_do(viewer, root):
    found = begin(viewer, root)
    reported = []
    found.changed.connect(lambda: reported.append(found.state))
    found.set_state("done")
    assert reported == ["done"]
    found.next_to_do()
    assert found.current_key == "A/1/1"
    found.set_state("flagged")
    found.go_to_field("B/1/1")
    found.set_state("done")
    found.next_to_do()
    assert found.current_key == "A/2/0"
    counted = found.browser.count_states()
    assert {w: (dict(s.counts), s.total) for w, s in counted.items()} == {
        "A/1": ({"done": 1, "flagged": 1}, 2),
        "B/1": ({"done": 1}, 2),
    }
    assert counted["A/1"].text == "2 fields: 1 done, 1 flagged"
    again = FieldStates(open_node(root))
    assert again.state_of("A/1/1") == "flagged"
    # What was painted before stays in sight when one comes back.
    paint(found, 77)
    found.go_to_field("A/1/0")
    found.go_to_field("A/2/0")
    assert (np.asarray(found.layer.data[0]) == 77).any()


def test_a_field_that_cannot_be_saved_is_not_left(viewer, root, monkeypatch):
    found = begin(viewer, root)
    warned = []
    monkeypatch.setattr(
        Window, "show_messages", staticmethod(lambda _, result: warned.append(result))
    )
    paint(found, 3)
    layer = found.layer
    monkeypatch.setattr(
        layer.saver, "_create", lambda _: (_ for _ in ()).throw(OSError("disk full"))
    )
    found.browser.step_field(1)
    assert found.current_key == "A/1/0"
    assert found.layer is layer
    assert (np.asarray(layer.data[0]) == 3).any()
    assert warned == ["Labels not saved: the field stays."]


def test_labels_that_were_made_before_are_those_of_the_round(viewer, root):
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1", "0")
    mine = viewer.add_layer(new_labels(viewer.layers[0], "phenotypes"))
    classes_of_layer(mine).add_class("nucleus")
    found = begin_annotation(viewer, "phenotypes")
    assert found.layer is mine
    assert sum(x.name.startswith("phenotypes") for x in viewer.layers) == 1
    paint(found, 1)
    found.browser.step_field(1)
    assert [c.name for c in classes_of_layer(found.layer).items] == ["nucleus"]
    assert sum(x.name.startswith("phenotypes") for x in viewer.layers) == 1
    stored = zarr.open_array(root / "A/1/0/labels/phenotypes/0", mode="r")[...]
    assert (stored == 1).any()


def test_a_broken_well_is_left_out(viewer, root):
    (root / "A" / "2" / "zarr.json").write_text("{")
    found = begin(viewer, root)
    assert found.fields == ("A/1/0", "A/1/1", "B/1/0", "B/1/1")


def test_it_needs_something_to_show(viewer):
    with pytest.raises(ValueError, match="Open a plate"):
        begin_annotation(viewer, "cells")


def make_others(root, field, names):
    """Write labels of another program into a field."""
    for name in names:
        labels = root / field / "labels"
        write_group(labels, {"labels": list(names)}, 3)
        write_image(labels / name, np.ones((32, 32), "u4"), 3, "yx", label={})


@pytest.mark.parametrize(
    ("names", "expected"),
    [((), "labels"), (("labels",), "labels-2"), (("labels-2", "labels"), "labels-3")],
)
def test_a_first_round_takes_no_name_of_labels_of_others(viewer, root, names, expected):
    make_others(root, "A/1/1", names)
    session_of(viewer).browse(open_node(root))
    found = begin_annotation(viewer)
    assert (found.name, label_name(found.layer)) == (expected, expected)
    assert viewer.layers.selection.active is found.layer


def test_a_round_goes_on_with_own_labels_beside_newer_ones_of_others(viewer, root):
    found = begin(viewer, root, "pheno")
    classes_of_layer(found.layer).add_class("nucleus")
    paint(found, 1)
    found.browser.step_field(1)
    session_of(viewer).browser.close()
    before = (root / "A/1/0/labels/zarr.json").read_bytes()
    make_others(root, "A/1/0", ["zz"])
    (root / "A/1/0/labels/zarr.json").write_bytes(
        before.replace(b'"pheno"', b'"pheno", "zz"')
    )
    again = ViewerModel()
    session_of(again).browse(open_node(root)).show_field("A/1", "0")
    assert label_name(again.layers.selection.active) in (None, "pheno")
    again.layers.selection.active = next(x for x in again.layers if x.name == "zz")
    assert labels_in_hand(again) == "", "only looked at"
    found = begin_annotation(again, labels_in_hand(again))
    assert found.name == "pheno"
    assert label_name(again.layers.selection.active) == "pheno"
    other = next(x for x in again.layers if x.name == "zz")
    again.layers.selection.active = other
    other.visible, other.mode = True, "fill"
    assert labels_in_hand(again) == "zz", "the user chose a tool"


def test_two_questions_are_tracked_apart(viewer, root):
    """Strokes in a second set of labels leave the states of the first."""
    found = begin(viewer, root, "pheno")
    for _ in range(2):
        paint(found, 1)
        found.browser.step_field(1)
    found.go_to_field("A/1/0")
    found.set_state("done")
    second = begin_annotation(viewer, "fast")
    assert second.progress == {"to do": 6, "in progress": 0, "done": 0, "flagged": 0}
    second.go_to_field("B/1/0")
    paint(second, 2)
    second.go_to_field("A/1/0")
    assert second.progress["in progress"] == 1
    assert second.state == "to do"
    second.set_state("flagged")
    second.next_to_do()
    assert second.current_key == "A/1/1"
    assert second.browser.count_states()["A/1"].counts == {"flagged": 1}
    first = begin_annotation(viewer, "pheno")
    assert first.progress == {"to do": 4, "in progress": 1, "done": 1, "flagged": 0}
    first.next_to_do()
    assert first.current_key == "A/2/0"
    first.next_to_do()
    first.next_to_do()
    assert first.current_key == "B/1/0", "begun for the other labels alone"
    # Another day each goes on by itself, first with what was annotated last.
    session_of(viewer).browser.close()
    again = ViewerModel()
    session_of(again).browse(open_node(root))
    assert begin_annotation(again).name == "fast"


def test_a_correction_in_labels_of_others_annotates_no_field(tmp_path):
    """Nor does it take the place of the labels that are annotated, on the map."""
    root = write_plate(
        tmp_path / "p", grid=(1, 2), fields=1, labelled=lambda well: ("nuclei",)
    )
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1")
    mine = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    mine.paint((2, 2), 5)
    mine.saver.save_now()
    nuclei = viewer.layers["nuclei"]
    nuclei.paint((4, 4), 9)
    nuclei.saver.save_now()
    browser.show_field("A/2")
    viewer.layers["nuclei"].paint((4, 4), 9)
    viewer.layers["nuclei"].saver.save_now()
    assert browser.states.shown_labels == "mine"
    assert list(browser.states.list_begun()) == ["A/1"]


@pytest.mark.parametrize("own", [False, True])
def test_labels_are_selected_again_after_fields_that_lack_them(tmp_path, own):
    root = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(1, 4),
        fields=1,
        shape=(1, 32, 32),
        labelled=lambda well: ("cells",) * (not own and well in ("A/1", "A/4")),
    )
    for well in ("A/1", "A/4") if own else ():
        viewer = ViewerModel()
        session_of(viewer).browse(open_node(root)).show_field(well, "0")
        layer = viewer.add_layer(new_labels(viewer.layers[0], "cells"))
        layer.paint((0,) * (layer.ndim - 2) + (5, 5), 7)
        assert layer.saver.save_now()
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1", "0")
    viewer.layers.selection.active = viewer.layers["cells"]
    for well in ("A/2", "A/3"):
        browser.show_field(well, "0")
        assert "cells" not in viewer.layers
        assert viewer.layers.selection.active is viewer.layers[0]
    browser.show_field("A/4", "0")
    assert viewer.layers.selection.active is viewer.layers["cells"]
    assert viewer.layers["cells"].mode == "pan_zoom"


def test_a_tool_in_hand_on_other_labels_stays_there_from_field_to_field(tmp_path):
    root = write_plate(
        tmp_path / "p", grid=(1, 3), fields=1, labelled=lambda well: ("nuclei",)
    )
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1")
    viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    annotation = begin_annotation(viewer, "mine")
    viewer.layers.selection.active = viewer.layers["nuclei"]
    viewer.layers["nuclei"].mode = "paint"
    browser.show_field("A/2")
    active = viewer.layers.selection.active
    assert (active.name, active.mode) == ("nuclei", "paint")
    assert active.saver.journal.place[1] == "A/2/0/labels/nuclei"
    viewer.layers["nuclei"].mode = "pan_zoom"
    browser.show_field("A/3")
    assert viewer.layers.selection.active.name == "mine"
    annotation.close()


def write_kind(root, field, kind, classes=()):
    node = open_node(root / field / "labels" / "cells")
    info = with_classes(replace(read_label_info(node), kind=kind), classes)
    write_label_info(node, info)


@pytest.mark.parametrize("rounds", [True, False])
def test_no_stroke_of_a_class_lands_in_an_object(viewer, tmp_path, rounds):
    """Where a field has objects under the name that are classes in the one before."""
    root = write_plate(
        tmp_path / "p",
        grid=(1, 2),
        fields=1,
        shape=(1, 32, 32),
        labelled=lambda well: ("cells",),
    )
    classes = (LabelClass(1, "a", (255, 0, 0, 255)), LabelClass(2, "b", (0, 0, 9, 255)))
    write_kind(root, "A/1/0", LabelKind.CLASSES, classes)
    write_kind(root, "A/2/0", LabelKind.OBJECTS)
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1")
    layer = viewer.layers.selection.active = viewer.layers["cells"]
    if rounds:
        begin_annotation(viewer, "cells")
    layer.mode, layer.selected_label = "paint", 2
    layer.paint((10, 10), 2)
    browser.show_field("A/2")
    layer = viewer.layers["cells"]
    held = classes_of_layer(layer)
    assert (held.kind, held.items) == ("objects", ())
    objects = set(np.unique(np.asarray(layer.data[0])).tolist())
    assert layer.mode == "pan_zoom"
    assert layer.selected_label not in objects
    assert "not in the one before" in notification_manager.records[-1].message
    layer.mode = "paint"
    browser.show_field("A/1")
    held = classes_of_layer(viewer.layers["cells"])
    assert [item.name for item in held.items] == ["a", "b"]
    # The tool and the class of the last field of this kind.
    assert (viewer.layers["cells"].mode, held.selected) == ("paint", held.items[1])
    stored = read_label_info(open_node(root / "A/2/0/labels/cells"))
    assert (stored.kind, classes_of(stored)) == ("objects", ())
