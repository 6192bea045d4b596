"""What is painted is saved into the field on screen, and goes along to the next one."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.field_states import FieldStates
from napari_ngff.metadata.model import LabelKind
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.browsing.field_labels import label_name
from napari_ngff.viewer.browsing.pins import COMPARED
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels, save_labels
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import begin_annotation, session_of
from plates import write_plate

WELLS = ["A/1", "A/2", "B/1"]


@pytest.fixture
def root(tmp_path):
    return write_plate(
        tmp_path / "p.ome.zarr",
        grid=(2, 2),
        fields=2,
        shape=(1, 32, 32),
        wells=WELLS,
        labelled=lambda well: ("cells",) if well == "A/2" else (),
    )


@pytest.fixture
def viewer():
    return ViewerModel()


@pytest.fixture
def browser(viewer, root):
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1", "0")
    return browser


def add_labels(viewer, name="nuclei", **options):
    layer = viewer.add_layer(new_labels(viewer.layers[0], name, **options))
    layer.mode, layer.brush_size = "paint", 3
    return layer


def paint(layer, label, at=10):
    layer.selected_label = label
    layer.paint((0,) * (layer.ndim - 2) + (at, at), label)


def saved(root, field, name="nuclei"):
    return zarr.open_array(root / field / "labels" / name / "0", mode="r")[...]


def painted_layers(viewer):
    return [layer for layer in viewer.layers if isinstance(layer, OMEZarrLabels)]


def test_labels_go_along_and_each_stroke_is_saved_into_its_field(viewer, root, browser):
    layer = add_labels(viewer)
    classes_of_layer(layer).add_class("nucleus", 5)
    layer.contour, layer.opacity = 2, 0.4
    paint(layer, 5)
    browser.show_field("B/1")
    assert viewer.layers.selection.active is layer
    assert painted_layers(viewer) == [layer]
    assert not np.asarray(layer.data[0]).any()
    assert (saved(root, "A/1/0") == 5).sum() > 4
    look = layer.mode, layer.brush_size, layer.selected_label, layer.contour
    assert look == ("paint", 3, 5, 2)
    assert layer.opacity == 0.4
    assert [one.name for one in classes_of_layer(layer).items] == ["nucleus"]
    assert not (root / "B/1/0/labels").exists()

    paint(layer, 7, at=20)
    browser.show_field("A/1", "0")
    assert (saved(root, "B/1/0") == 7).any()
    assert not (saved(root, "B/1/0") == 5).any()
    assert not (saved(root, "A/1/0") == 7).any()
    assert (np.asarray(layer.data[0]) == 5).any()
    assert viewer.layers.selection.active is layer


def test_a_class_that_goes_along_takes_no_object_of_the_next_field(viewer, root):
    """Else the class "dead" would begin with object 600 of the second field."""
    for level in ("0", "1"):
        objects = zarr.open_array(root / "A/2/1/labels/cells" / level, mode="r+")
        objects[...] = 0
        objects[2, 2] = 3
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/2", "1")
    layer = viewer.layers["cells"]
    viewer.layers.selection.active, layer.mode = layer, "paint"
    classes_of_layer(layer).change_kind(LabelKind.CLASSES)
    added = classes_of_layer(layer).add_class("mitotic")
    assert added.value == 4
    paint(layer, 4)
    before = saved(root, "A/2/0", "cells")
    assert (before == 600).any()
    classes_of_layer(layer).add_class("dead", 600)
    browser.show_field("A/2", "0")
    layer = viewer.layers["cells"]
    classes = {item.name: item.value for item in classes_of_layer(layer).items}
    assert classes["mitotic"] == 4, "no pixel has it here"
    assert not (before == classes["dead"]).any()
    assert layer.selected_label == classes["dead"], "the class in hand"
    paint(layer, classes["dead"], at=20)
    browser.show_field("A/2", "1")
    changed = saved(root, "A/2/0", "cells") != before
    assert (saved(root, "A/2/0", "cells")[changed] == classes["dead"]).all()


def test_labels_in_a_sidecar_go_along_as_one_layer(viewer, root, browser):
    layer = add_labels(viewer, sidecar=True)
    paint(layer, 5)
    for field, label in (("0", 6), ("1", 7)):
        browser.show_field("B/1", field)
        assert painted_layers(viewer) == [layer]
        assert (label_name(layer), layer.name) == ("nuclei", "nuclei")
        assert not np.asarray(layer.data[0]).any()
        paint(layer, label)
    for well, field, label in (("A/1", "0", 5), ("B/1", "0", 6), ("B/1", "1", 7)):
        browser.show_field(well, field)
        (shown,) = painted_layers(viewer)
        assert np.unique(np.asarray(shown.data[0])).tolist() == [0, label]
    assert not (root / "A/1/0/labels").exists()


def test_labels_in_sidecars_are_continued_in_another_session(viewer, root, browser):
    layer = add_labels(viewer, sidecar=True)
    paint(layer, 5)
    browser.show_field("B/1", "0")
    paint(layer, 6)
    layer.saver.save_now()

    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1", "0")
    (layer,) = painted_layers(viewer)
    viewer.layers.selection.active, layer.mode = layer, "paint"
    browser.show_field("B/1", "0")
    assert painted_layers(viewer) == [layer]
    paint(layer, 7, at=20)
    layer.saver.save_now()
    browser.show_field("B/1", "1")
    paint(layer, 8)
    layer.saver.save_now()
    (group,) = (x for x in root.parent.iterdir() if x != root and x.is_dir())
    names = sorted(path.name for path in group.iterdir() if path.is_dir())
    assert names == ["A.1.0.nuclei", "B.1.0.nuclei", "B.1.1.nuclei"]
    pixels = zarr.open_array(group / "B.1.0.nuclei/0", mode="r")[...]
    assert np.unique(pixels).tolist() == [0, 6, 7]


def test_ctrl_s_in_a_field_without_a_stroke_writes_nothing(viewer, root, browser):
    layer = add_labels(viewer)
    paint(layer, 5)
    browser.show_field("B/1")
    save_labels(layer)
    assert layer.saver.note == "No changes"
    assert not (root / "B/1/0/labels").exists()
    paint(layer, 5)
    layer.undo()
    save_labels(layer)
    assert not (root / "B/1/0/labels").exists()
    layer.redo()
    save_labels(layer)
    assert (saved(root, "B/1/0") == 5).any()


def test_labels_of_the_same_name_in_the_next_field_are_shown(viewer, root, browser):
    before = saved(root, "A/2/0", "cells")
    layer = add_labels(viewer, "cells")
    paint(layer, 3)
    browser.show_field("A/2", "0")
    assert painted_layers(viewer) == [layer]
    np.testing.assert_array_equal(np.asarray(layer.data[0]), before)
    paint(layer, 300)
    layer.saver.save_now()
    assert (saved(root, "A/2/0", "cells") == 300).any()


def test_labels_come_back_after_an_overview(viewer, root, browser):
    layer = add_labels(viewer)
    paint(layer, 2)
    browser.show_mosaic()
    (over,) = painted_layers(viewer)
    assert over.read_only, "the overview shows what was saved"
    assert 2 in np.asarray(over.data[0])
    browser.show_field("B/1", "1")
    (back,) = painted_layers(viewer)
    assert label_name(back) == "nuclei"
    assert viewer.layers.selection.active is back
    assert (back.mode, back.brush_size) == ("paint", 3)
    paint(back, 2)
    back.saver.save_now()
    assert (saved(root, "B/1/1") == 2).any()


def test_labels_that_are_removed_do_not_come_back(viewer, browser):
    layer = add_labels(viewer)
    viewer.layers.remove(layer)
    browser.show_field("B/1")
    assert painted_layers(viewer) == []


def test_labels_that_are_only_looked_at_stay_in_their_field(viewer, root, browser):
    browser.show_field("A/2", "0")
    assert [label_name(layer) for layer in painted_layers(viewer)] == ["cells"]
    browser.show_field("B/1")
    assert painted_layers(viewer) == []
    assert not (root / "B/1/0/labels").exists()


def test_a_coarser_resolution_and_a_type_go_along(viewer, root, browser):
    layer = add_labels(viewer, level=1, dtype="uint32")
    paint(layer, 2, at=5)
    browser.show_field("B/1")
    assert layer.canvas.shape[-2:] == (16, 16)
    paint(layer, 2, at=5)
    layer.saver.save_now()
    assert saved(root, "B/1/0").shape == saved(root, "A/1/0").shape
    assert saved(root, "B/1/0").dtype == np.uint32


def test_labels_renamed_before_the_first_save_keep_their_name(viewer, root, browser):
    layer = add_labels(viewer)
    layer.name = "mitosis"
    paint(layer, 1)
    browser.show_field("B/1")
    paint(layer, 1)
    layer.saver.save_now()
    assert painted_layers(viewer) == [layer]
    assert (saved(root, "A/1/0", "mitosis") == 1).any()
    assert (saved(root, "B/1/0", "mitosis") == 1).any()


def test_the_user_is_asked_where_that_is_chosen(viewer, root, browser, monkeypatch):
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: False)
    asked, answers = [], [None, lambda: None]

    def settle(_, layers):
        # The images go away, too, with what belongs to them.
        asked.append([x.name for x in layers if x in painted_layers(viewer)])
        return answers.pop(0)

    monkeypatch.setattr(Window.current, "resolve_unsaved", settle)
    layer = add_labels(viewer)
    paint(layer, 1)
    browser.show_field("B/1")
    assert (asked, browser.position.well) == ([["nuclei"]], "A/1")
    assert (np.asarray(layer.data[0]) == 1).any()
    browser.show_field("B/1")
    assert browser.position.well == "B/1"
    assert len(asked) == 2


def test_a_field_with_saved_strokes_is_in_progress(viewer, root, browser):
    layer = add_labels(viewer)
    paint(layer, 1)
    layer.saver.save_now()
    assert browser.states.state_of("A/1/0") == "in progress"
    browser.states.set_state("A/1/0", "done")
    paint(layer, 1, at=20)
    browser.step_field(1)
    paint(layer, 1)
    browser.step_field(1)
    kept = FieldStates(open_node(root))
    states = [kept.state_of(key) for key in ("A/1/0", "A/1/1", "A/2/0")]
    assert states == ["done", "in progress", "to do"]


def test_layers_of_the_user_are_hidden_with_their_field(viewer, browser):
    lines = viewer.add_vectors([[[5, 5], [9, 9]]], name="lines")
    labels = viewer.add_labels(np.zeros((32, 32), int), name="plain")
    labels.mode = "paint"
    browser.show_field("B/1")
    assert not lines.visible
    assert not labels.visible
    active = viewer.layers.selection.active
    assert active is not None
    assert active._type_string == "image"
    browser.show_mosaic()
    assert not labels.visible
    browser.show_field("A/1", "0")
    assert lines.visible
    assert labels.visible


def test_a_copy_of_labels_is_hidden_with_its_field(viewer, root, browser):
    layer = add_labels(viewer)
    paint(layer, 3)
    layer.saver.save_now()
    copy = viewer.add_layer(type(layer).create(*layer.as_layer_data_tuple()))
    assert copy is not layer
    browser.show_field("B/1")
    assert not copy.visible
    assert viewer.layers.selection.active is not copy


def test_a_field_shown_for_comparison_is_not_painted(viewer, browser):
    browser.show_field("A/1", "1")
    browser.toggle_pin("A/2", "0")
    image, labels = viewer.layers[-2:]
    assert (labels.read_only, labels.editable, labels.saver) == (COMPARED, False, None)
    with pytest.raises(UnsupportedError, match="Open it to paint"):
        new_labels(image, "nuclei")
    browser.show_field("A/2", "0")
    mine = [layer for layer in painted_layers(viewer) if layer.editable]
    assert [label_name(layer) for layer in mine] == ["cells"]
    browser.toggle_pin("A/2", "0")
    assert painted_layers(viewer) == mine


def test_labels_stay_where_the_same_field_is_asked_for_again(viewer, root, browser):
    layer = add_labels(viewer)
    paint(layer, 3)
    browser.show_field("A/1", "0")
    assert painted_layers(viewer) == [layer]
    assert (np.asarray(layer.data[0]) == 3).any()
    paint(layer, 4, at=20)
    layer.saver.save_now()
    assert set(np.unique(saved(root, "A/1/0"))) == {0, 3, 4}


def test_saved_labels_are_shown_over_the_plate(viewer, root, browser):
    browser.choose_labels("nuclei")
    browser.show_mosaic()
    browser.show_field("A/1", "0")
    layer = add_labels(viewer)
    paint(layer, 3)
    color = layer.get_color(3)
    browser.show_mosaic()
    labels = viewer.layers["nuclei"]
    assert (np.asarray(labels.data[0]) == 3).any()
    np.testing.assert_allclose(labels.get_color(3), color, atol=0.01)


def test_labels_are_hidden_on_the_overview_and_visible_in_a_field(viewer, root):
    browser = session_of(viewer).browse(open_node(root))
    browser.choose_labels("cells")
    browser.show_mosaic()
    viewer.layers["cells"].visible = False
    browser.show_field("A/2", "0")
    assert viewer.layers["cells"].visible
    browser.show_mosaic()
    assert not viewer.layers["cells"].visible
    viewer.layers["cells"].visible = True
    browser.show_field("A/2", "1")
    viewer.layers["cells"].visible = False
    browser.show_mosaic()
    assert viewer.layers["cells"].visible
    browser.show_field("A/2", "1")
    assert not viewer.layers["cells"].visible


def test_labels_taken_off_the_overview_are_visible_in_a_field(viewer, root):
    browser = session_of(viewer).browse(open_node(root))
    browser.choose_labels("cells")
    browser.show_mosaic()
    viewer.layers["cells"].visible = False
    browser.choose_labels(None)
    assert "cells" not in viewer.layers
    browser.show_field("A/2", "0")
    assert viewer.layers["cells"].visible
    viewer.layers["cells"].visible = False
    browser.show_mosaic()
    assert "cells" not in viewer.layers
    browser.show_field("A/2", "1")
    assert not viewer.layers["cells"].visible


@pytest.mark.parametrize(("name", "wells"), [("cells", ["A/2"]), ("nuclei", WELLS)])
def test_locked_labels_are_locked_in_all_fields(viewer, root, name, wells):
    """Those of others, which some fields have, and own ones, which are made in each."""
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field(wells[0], "0")
    if name == "nuclei":
        paint(add_labels(viewer), 5)
    layer = next(x for x in painted_layers(viewer) if x.name == name)
    viewer.layers.selection.active = layer
    layer.locked = True
    for well in wells:
        for field in ("1", "0"):
            browser.show_field(well, field)
            shown = [x for x in painted_layers(viewer) if x.name == name]
            assert all(x.locked and not x.editable for x in shown)
            for one in shown:
                one.mode = "paint"
                assert one.mode == "pan_zoom"
                paint(one, 9)
                assert all(edit.label != 9 for edit in one.canvas.edits)
    browser.show_mosaic()
    browser.show_field(wells[0], "0")
    (layer,) = [x for x in painted_layers(viewer) if x.name == name]
    assert layer.locked
    layer.locked = False
    browser.show_field(wells[0], "1")
    assert not any(x.locked for x in painted_layers(viewer))
    found = {str(r.message).partition("\n")[0] for r in notification_manager.records}
    assert "Not painted: the labels are locked." in found
    notification_manager.records.clear()


def is_armed(viewer):
    """Return whether a click on the canvas would paint labels."""
    active = viewer.layers.selection.active
    return isinstance(active, OMEZarrLabels) and active.mode == "paint"


@pytest.mark.default_cases(
    "empty points-False-False",
    "points-True-True",
    "shapes-False-False",
    "image-False-False",
)
@pytest.mark.parametrize("is_round", [False, True])
@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("kind", ["empty points", "points", "shapes", "image"])
def test_labels_that_nobody_selected_have_no_brush(
    viewer, root, browser, kind, in_file, is_round
):
    annotation = begin_annotation(viewer, "nuclei") if is_round else None
    layer = viewer.layers["nuclei"] if is_round else add_labels(viewer)
    paint(layer, 5)
    for field in ("1", "0") if in_file else ():
        browser.show_field("A/1", field)
        paint(layer, 5)
        layer.saver.save_now()
    assert is_armed(viewer)
    if kind == "image":
        viewer.layers.selection.active = viewer.layers[0]
    else:
        data = [[0] * (layer.ndim - 2) + [y, 9] for y in (9, 12)]
        add = viewer.add_shapes if kind == "shapes" else viewer.add_points
        extra = add(None if kind == "empty points" else data, ndim=layer.ndim)
        viewer.layers.selection.active = extra
    for field in "1", "0", "1":
        browser.show_field("A/1", field)
        assert viewer.layers.selection.active is not None
        assert not is_armed(viewer)
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active, layer.mode = layer, "paint"
    browser.show_field("A/1", "0")
    assert is_armed(viewer)
    if annotation is not None:
        annotation.close()
