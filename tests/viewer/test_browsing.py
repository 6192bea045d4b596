from __future__ import annotations

import gc
import json
import shutil
import weakref

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from choices import unpin_all
from journals import discard_edits, journals_of
from napari_ngff import open_node
from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.model import GroupKind
from napari_ngff.plate import mosaic
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer import reader
from napari_ngff.viewer.browsing import layer_slots
from napari_ngff.viewer.browsing.camera import is_fitted
from napari_ngff.viewer.browsing.images_to_label import image_choices
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.browsing.recovery import open_journal
from napari_ngff.viewer.layers.node_contents import open_contents
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted_layers import OVERVIEW
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.reader import find_browsable
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import begin_annotation, session_of
from plates import (
    mark_own,
    move_images,
    pixels,
    write_group,
    write_image,
    write_plate,
)


@pytest.fixture
def viewer():
    return ViewerModel()


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return write_plate(
        tmp_path_factory.mktemp("browsing") / "p",
        grid=(3, 4),
        fields=4,
        shape=(2, 16, 16),
        wells=[f"{r}/{c}" for r in "ABC" for c in "1234" if f"{r}{c}" != "B3"],
        labelled=lambda well: ("cells",) if well[0] != "C" else (),
    )


@pytest.fixture
def root(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "p")


@pytest.fixture
def own_root(root):
    """The same with labels that were made here."""
    for path in root.rglob("labels/*/zarr.json"):
        mark_own(path)
    return root


@pytest.fixture
def reported(monkeypatch):
    messages = []
    monkeypatch.setattr(
        Window,
        "show_messages",
        staticmethod(
            lambda found, result: messages.extend([result, *found] if found else [])
        ),
    )
    return messages


def browse(viewer, root):
    return session_of(viewer).browse(open_node(root))


def shown(viewer):
    return [np.asarray(layer.data[0]) for layer in viewer.layers]


def stored(root, path, level=0):
    return zarr.open_array(root / path / str(level), mode="r")[...]


def test_the_map_is_there_after_one_read(root, viewer, monkeypatch):
    read = FolderStore.read
    keys = []

    def counted(self, key, *arguments):
        keys.append(key)
        return read(self, key, *arguments)

    monkeypatch.setattr(FolderStore, "read", counted)
    browser = browse(viewer, root)
    assert len(browser.map.wells) == 11
    assert [a.id for a in browser.acquisitions] == [0]
    assert browser.kind is GroupKind.PLATE
    assert keys == ["zarr.json"]
    assert not viewer.layers


def test_the_mosaic_shows_all_wells_or_some(root, viewer):
    browser = browse(viewer, root)
    browser.show_mosaic()
    assert [layer.name for layer in viewer.layers] == [
        "Tiny: channel 0",
        "Tiny: channel 1",
    ]
    assert viewer.layers[0].data.shape == (96, 128)
    assert len(browser.shown_wells) == 11
    browser.show_mosaic(["C/2", "C/4"])
    assert viewer.layers[0].data.shape == (32, 96)
    assert browser.shown_wells == ("C/2", "C/4")
    np.testing.assert_array_equal(shown(viewer)[1][16:, 80:], stored(root, "C/4/3")[1])
    # In the world it stays where it is on the plate; voxels are 0.5 micrometers.
    assert tuple(viewer.layers[0].translate) == (32.0, 16.0)


def test_labels_beside_a_compared_field_are_let_go_of(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    browser.toggle_pin("A/2")
    labels = weakref.ref(viewer.layers["cells"])
    assert labels().editable
    browser.show_field("C/1")
    assert "cells" not in viewer.layers
    gc.collect()
    assert labels() is None


@pytest.mark.parametrize("chosen", ["cells", "nuclei", "spots"])
def test_labels_lie_in_the_order_of_the_field_after_an_overview(
    tmp_path, viewer, chosen
):
    names = ["cells", "nuclei", "spots"]
    root = write_plate(tmp_path / "p", grid=(1, 2), labelled=lambda _: names)
    browser = browse(viewer, root)
    browser.choose_labels(chosen)
    browser.show_mosaic()
    (labels,) = (x for x in viewer.layers if x._type_string == "labels")
    assert (labels.name, labels.visible) == (chosen, True), "as was asked for"
    browser.show_field("A/1")
    assert [x.name for x in viewer.layers if x._type_string == "labels"] == names


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_an_overview_shows_float_labels_rounded(root, viewer, reported, dtype):
    masks = {}
    for field in sorted(root.glob("[AB]/[12]/[0-3]")):
        shutil.rmtree(field / "labels/cells")
        mask = np.zeros((16, 16), dtype)
        mask[2:9, 3:9] = len(masks) + 1.4
        mask[0, 0] = np.nan
        write_image(field / "labels/cells", mask, 3, axes="yx", label={})
        masks[field.relative_to(root).as_posix()] = mask
    browser = browse(viewer, root)
    browser.choose_labels("cells")
    browser.show_mosaic(["A/1", "A/2", "B/1"])
    labels = viewer.layers["cells"]
    (note,) = (line for line in reported if "not integers" in line)
    assert f"float{8 * int(dtype[1])}, not integers. It is shown rounded" in note
    found = np.asarray(labels.data[0])
    assert found.dtype.kind == "i"
    assert found.shape[-2:] == (64, 64)
    expected = np.zeros((64, 64), int)
    for path, mask in masks.items():
        row, column, field = path.split("/")
        if path.startswith("B/2"):
            continue
        top = 32 * (row == "B") + 16 * (int(field) // 2)
        left = 32 * (int(column) - 1) + 16 * (int(field) % 2)
        cell = np.rint(np.nan_to_num(mask)).astype(int)
        expected[top : top + 16, left : left + 16] = cell
    np.testing.assert_array_equal(found.reshape(64, 64), expected)
    # To be painted, a field is shown, and there its labels are copied.
    with pytest.raises(UnsupportedError, match="overview"):
        new_labels(viewer.layers[0], "mine")
    assert not labels.editable
    assert labels.read_only == OVERVIEW
    browser.show_field("A/1")
    assert "floating point" in viewer.layers["cells"].read_only


def test_fields_are_exchanged_under_the_same_layers(root, viewer):
    browser = browse(viewer, root)
    positions = []
    browser.position_changed.connect(positions.append)
    browser.show_mosaic()
    layers = list(viewer.layers)
    layers[0].contrast_limits = (3, 77)
    layers[0].colormap = "magma"
    layers[1].visible = False
    browser.show_field("A/2")
    viewer.scene.camera.zoom = 33
    browser.step_field(1)
    assert list(viewer.layers)[:2] == layers
    assert tuple(layers[0].contrast_limits) == (3, 77)
    assert layers[0].colormap.name == "magma"
    assert not layers[1].visible
    assert viewer.scene.camera.zoom == 33
    for channel in (0, 1):
        field = stored(root, "A/2/1")[channel]
        np.testing.assert_array_equal(shown(viewer)[channel], field)
    labels = viewer.layers[2]
    np.testing.assert_array_equal(shown(viewer)[2], stored(root, "A/2/1/labels/cells"))
    assert isinstance(labels, OMEZarrLabels)
    assert labels.editable
    assert positions == [None, Position("A/2", "0", 0), Position("A/2", "1", 0)]
    assert browser.name_field(browser.position) == "A2 - field 1"


def test_layers_are_called_by_what_they_show(root, viewer, monkeypatch):
    monkeypatch.setattr(reader, "current_viewer", lambda: viewer)
    session = session_of(viewer)
    session.add(reader.read_node(open_node(root / "A" / "2")), str(root))
    first, second = list(viewer.layers)[:2]
    assert (first.name, second.name) == ("A2: channel 0", "A2: channel 1")
    second.name = "mine"
    session.browser.show_mosaic(["A/1"])
    assert (first.name, second.name) == ("Tiny: channel 0", "mine")
    session.browser.show_field("A/2")
    assert list(viewer.layers)[:2] == [first, second]
    assert (first.name, second.name) == ("Tiny: channel 0", "mine")


def test_a_layer_is_active_when_labels_have_gone(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    images = list(viewer.layers)[:2]
    for leave in (lambda: browser.show_field("C/1"), browser.show_mosaic):
        browser.show_field("A/1")
        viewer.layers.selection.active = viewer.layers["cells"]
        leave()
        assert "cells" not in viewer.layers
        assert viewer.layers.selection.active is images[0]


def test_the_first_field_selects_own_labels_as_an_image_does(own_root, viewer):
    browser = browse(viewer, own_root)
    browser.choose_labels("cells")
    browser.show_mosaic()
    channels = list(viewer.layers)[:2]
    viewer.layers.selection.active = channels[0]
    browser.show_field("A/1")
    assert viewer.layers.selection.active is viewer.layers["cells"]
    viewer.layers.selection.active = channels[0]
    for leave in (lambda: browser.show_field("A/2"), browser.show_mosaic):
        leave()
        browser.show_field("A/1")
        assert viewer.layers.selection.active is channels[0], "the user's choice"


def test_labels_of_others_are_selected_in_no_field(root, viewer):
    browser = browse(viewer, root)
    browser.choose_labels("cells")
    for show in (browser.show_mosaic, lambda: browser.show_field("A/1")) * 2:
        show()
        assert viewer.layers.selection.active is viewer.layers[0]
    viewer.layers.selection.clear()
    browser.show_field("A/2")
    assert viewer.layers.selection.active is not viewer.layers["cells"]
    viewer.layers.selection.active = viewer.layers["cells"]
    browser.show_field("A/1")
    assert viewer.layers.selection.active is viewer.layers["cells"], "by the user"
    assert viewer.layers["cells"].mode == "pan_zoom"


def test_a_channel_that_the_user_selected_stays_in_the_first_field(root, viewer):
    browser = browse(viewer, root)
    browser.choose_labels("cells")
    browser.show_mosaic()
    chosen = viewer.layers[1]
    viewer.layers.selection.active = chosen
    browser.show_field("A/1")
    assert viewer.layers.selection.active is chosen


def test_the_camera_follows_a_field_to_its_place(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1", "0")
    viewer.scene.camera.center = (0, 1.0, 2.0)
    browser.show_field("A/1", "3")
    assert tuple(viewer.layers[0].translate) == (8, 8)
    assert viewer.scene.camera.center == (0, 9.0, 10.0)


def test_wells_and_fields_are_browsed_over_gaps_and_borders(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("B/2", "3")
    browser.step_well(0, 1)
    assert browser.position == Position("B/4", "3", 0)
    browser.step_well(0, 1)
    assert browser.position == Position("B/4", "3", 0)
    browser.step_well(1, 0)
    assert browser.position == Position("C/4", "3", 0)
    browser.step_field(1)
    assert browser.position == Position("A/1", "0", 0)
    browser.step_field(-1)
    assert browser.position == Position("C/4", "3", 0)
    # Wells of row C have no labels.
    assert len(viewer.layers) == 2


def test_a_field_with_fewer_channels_leaves_the_others_empty(root, viewer):
    shutil.rmtree(root / "A/2/1")
    write_image(root / "A/2/1", pixels(3, (1, 12, 20)), 3)
    browser = browse(viewer, root)
    browser.show_field("A/2", "0")
    before = list(viewer.layers)[:2]
    browser.show_field("A/2", "1")
    assert list(viewer.layers) == before
    np.testing.assert_array_equal(shown(viewer)[0], pixels(3, (1, 12, 20))[0])
    assert shown(viewer)[1].shape == (12, 20)
    assert not shown(viewer)[1].any()
    browser.show_field("A/2", "0")
    np.testing.assert_array_equal(shown(viewer)[1], stored(root, "A/2/0")[1])


def test_a_field_with_more_axes_gets_layers_of_its_own_in_the_same_place(root, viewer):
    shutil.rmtree(root / "A/2/1")
    data = pixels(3, (2, 3, 16, 16))
    write_image(root / "A/2/1", data, 3, "czyx")
    browser = browse(viewer, root)
    browser.show_field("A/2", "0")
    names = [layer.name for layer in viewer.layers][:2]
    browser.show_field("A/2", "1")
    assert [layer.name for layer in viewer.layers] == names
    np.testing.assert_array_equal(shown(viewer)[1], data[1])


def test_slider_positions_stay(viewer, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1)
    for path in ("A/1/0", "A/2/0"):
        shutil.rmtree(root / path)
        write_image(root / path, pixels(len(path), (3, 2, 16, 16)), 3, "tzyx")
    browser = browse(viewer, root)
    browser.show_field("A/1")
    viewer.dims.set_current_step(0, 2)
    viewer.dims.set_current_step(1, 1)
    browser.step_well(0, 1)
    assert viewer.dims.current_step[:2] == (2, 1)


def test_broken_wells_are_reported_and_stop_nothing(root, viewer, reported):
    (root / "A/1/zarr.json").write_text("{")
    shutil.rmtree(root / "A/2")
    browser = browse(viewer, root)
    changes = []
    browser.wells_changed.connect(lambda: changes.append(dict(browser.problems)))
    browser.show_mosaic()
    assert set(changes[-1]) == {"A/1", "A/2"}
    before = shown(viewer)
    browser.show_field("A/1")
    assert "A/1" in reported[-1]
    assert browser.position is None
    np.testing.assert_array_equal(shown(viewer)[0], before[0])
    browser.show_field("A/3", "nothing")
    assert "nothing" in reported[-1]


def test_a_well_is_shown_though_its_first_field_is_broken(root, viewer, reported):
    (root / "B/2/0/zarr.json").write_text("{")
    browser = browse(viewer, root)
    browser.show_field("B/2")
    assert browser.position == Position("B/2", "1", 0)
    assert reported[0] == "Not readable: B2, field 0"
    assert "B/2/0" in reported[1]
    reported.clear()
    browser.show_field("A/1")
    browser.show_field("B/2")
    assert not reported, "once is enough"
    browser.show_field("B/2", "0")
    assert "B/2/0" in reported[-1]
    for field in "123":
        shutil.rmtree(root / "B/2" / field)
    browse(viewer, root).show_field("B/2")
    assert len(reported) == 4, "two messages of a result and a reason"


def test_edits_are_settled_before_their_field_goes(root, viewer, monkeypatch):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    labels = viewer.layers["cells"]
    labels.selected_label, labels.brush_size, labels.opacity = 77, 5, 0.3
    viewer.layers.selection.active, labels.mode = labels, "paint"
    labels.paint((4, 4), 77)
    asked = []
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: False)
    with monkeypatch.context() as patched:
        patched.setattr(
            Window.current,
            "resolve_unsaved",
            # The images go away, too, with what belongs to them.
            lambda _, layers: asked.append([x for x in layers if hasattr(x, "saver")]),
        )
        browser.step_field(1)
    assert asked == [[labels]]
    assert browser.position == Position("A/1", "0", 0)
    assert viewer.layers["cells"] is labels

    before = labels.saver
    browser.step_field(1)
    assert browser.position == Position("A/1", "1", 0)
    assert viewer.layers["cells"] is labels
    assert (labels.selected_label, labels.brush_size, labels.opacity) == (77, 5, 0.3)
    assert labels.mode == "paint"
    assert not labels.unsaved
    np.testing.assert_array_equal(
        np.asarray(labels.data[0]), stored(root, "A/1/1/labels/cells")
    )
    labels.undo()
    labels.paint((2, 2), 5)
    before.save_now()
    labels.saver.save_now()
    assert stored(root, "A/1/1/labels/cells")[2, 2] == 5
    np.testing.assert_array_equal(
        stored(root, "A/1/0/labels/cells"), stored(root, "A/1/0")[0]
    )
    # The edits that were left are offered again where they were made.
    browser.step_field(-1)
    (found,) = journals_of(labels.saver)
    labels.saver.take_over(open_journal(labels.saver, found))
    assert labels.data[0][4, 4] == 77
    discard_edits(labels.saver)


def test_a_field_is_left_when_the_save_that_is_running_has_ended(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    labels = viewer.layers["cells"]
    labels.selected_label, labels.brush_size, labels.opacity = 77, 5, 0.3
    saver = labels.saver
    waiting = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Window.current, "run", lambda *job: waiting.append(job))
        saver.save()
    assert saver.running
    browser.step_field(1)
    assert browser.position == Position("A/1", "0", 0)
    ((work, done),) = waiting
    done(work())
    assert browser.position == Position("A/1", "1", 0)
    assert viewer.layers["cells"] is labels
    assert (labels.selected_label, labels.brush_size, labels.opacity) == (77, 5, 0.3)
    assert viewer.layers.index(labels) == 2


def test_labels_saved_in_any_field_are_offered_when_the_plate_is_opened_again(
    tmp_path, viewer
):
    plate = write_plate(tmp_path / "plate.ome.zarr", fields=2)
    browse(viewer, plate).show_field("A/2", "1")
    labels = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    labels.paint((4, 4), 5)
    labels.saver.save()
    again = browse(ViewerModel(), plate)
    assert "mine" in again.label_names()
    (tmp_path / "plate.ome.zarr.annotation.json").write_text("damaged")
    assert again.label_names() == ()


def test_labels_of_a_name_are_shown_over_the_plate(root, viewer):
    browser = browse(viewer, root)
    browser.show_mosaic()
    assert browser.label_names() == ("cells",)
    browser.choose_labels("cells")
    labels = viewer.layers["cells"]
    picture = np.asarray(labels.data[0])
    assert not labels.editable
    assert not picture[64:].any()
    np.testing.assert_array_equal(picture[:16, :16], stored(root, "A/1/0/labels/cells"))
    browser.choose_labels(None)
    assert [layer._type_string for layer in viewer.layers] == ["image"] * 2


def test_acquisitions_are_shown_one_by_one_or_together(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 2), acquisitions=2, shape=(1, 8, 8))
    browser = browse(viewer, root)
    assert browser.chosen_acquisitions == (0,)
    browser.show_mosaic()
    (first,) = viewer.layers
    browser.choose_acquisitions([1])
    assert list(viewer.layers) == [first]
    np.testing.assert_array_equal(shown(viewer)[0][:8, :8], stored(root, "A/1/4")[0])
    browser.choose_acquisitions([0, 1])
    assert viewer.layers[0] is first
    # The layer that was there stays that of its acquisition.
    both = ["round 1, Tiny", "round 0, Tiny"]
    assert [layer.name for layer in viewer.layers] == both
    browser.choose_acquisitions([1])
    assert list(viewer.layers) == [first]
    browser.show_field("A/2")
    assert browser.position == Position("A/2", "4", 1)
    browser.choose_acquisitions([0])
    assert browser.position == Position("A/2", "0", 0)
    fields = browser.fields_of("A/2").fields
    assert [f.corner for f in fields[:4]] == [f.corner for f in fields[4:]]
    assert fields[3].corner == (4, 4)


def test_an_overview_of_labels_has_the_colours_of_their_classes(tmp_path, viewer):
    root = write_plate(
        tmp_path / "p",
        grid=(1, 2),
        shape=(1, 8, 8),
        labelled=lambda _: ("cells", "objects"),
    )
    for document in root.glob("A/*/*/labels/*/zarr.json"):
        content = json.loads(document.read_text())
        properties = {"label-value": 5, "class-name": "mitotic", "class-order": 0}
        content["attributes"]["ome"]["image-label"] = {
            "colors": [{"label-value": v, "rgba": [9, 8, v, 255]} for v in (5, 6)],
            "properties": [properties] if document.parent.name == "cells" else [],
        }
        document.write_text(json.dumps(content))
    browser = browse(viewer, root)
    browser.show_mosaic()
    colors = {}
    for name in ("cells", "objects"):
        browser.choose_labels(name)
        colors[name] = viewer.layers[name].colormap.map(np.array([5, 6])) * 255
    np.testing.assert_allclose(colors["cells"][0], (9, 8, 5, 255), atol=1)
    # Object 6 of one field is another one in the next.
    assert not np.allclose(colors["cells"][1], (9, 8, 6, 255), atol=1)
    assert not np.allclose(colors["objects"][0], (9, 8, 5, 255), atol=1)


def test_acquisitions_lie_over_each_other_in_an_overview(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 2), acquisitions=2, shape=(1, 8, 8))
    second = [root / "A" / str(w) / str(k) for w in (1, 2) for k in range(4, 8)]
    # One field to the right, so that half of the places are the same.
    move_images(second, (0, 4))
    browser = browse(viewer, root)
    browser.choose_acquisitions([0, 1])
    browser.show_mosaic()
    first, other = shown(viewer)
    assert first.shape == other.shape == (16, 48)
    assert len({layer.extent.world.tobytes() for layer in viewer.layers}) == 1
    for well in (1, 2):
        begin = (well - 1) * 24
        np.testing.assert_array_equal(
            first[:8, begin : begin + 8], stored(root, f"A/{well}/0")[0]
        )
        assert not first[:, begin + 16 : begin + 24].any()
        np.testing.assert_array_equal(
            other[:8, begin + 8 : begin + 16], stored(root, f"A/{well}/4")[0]
        )
        assert not other[:, begin : begin + 8].any()
    # In the second well, where only the second acquisition has a field.
    assert browser.position_at((1, (24 + 18) / 2)) == Position("A/2", "5", 1)
    fields = {f.position.field: f.corner for f in browser.fields_of("A/1").fields}
    assert (fields["1"], fields["4"], fields["5"]) == ((0, 4), (0, 4), (0, 8))


def test_acquisitions_of_other_magnifications_fill_the_same_cells(tmp_path, viewer):
    root = write_plate(
        tmp_path / "p", grid=(1, 2), acquisitions=2, fields=1, shape=(1, 8, 8)
    )
    move_images([root / "A" / str(w) / "1" for w in (1, 2)], (0, 0), scale=2)
    browser = browse(viewer, root)
    browser.choose_acquisitions([0, 1])
    browser.show_mosaic()
    first, other = shown(viewer)
    # 8 voxels of 1 micrometer, or 16 of 0.5: the second well begins there.
    np.testing.assert_array_equal(first[:8, 16:24], stored(root, "A/2/0")[0])
    np.testing.assert_array_equal(other[:, 8:], stored(root, "A/2/1")[0])


def test_a_well_without_an_acquisition_has_a_cell_of_the_same_size(tmp_path, viewer):
    root = write_plate(
        tmp_path / "p", grid=(1, 3), acquisitions=2, fields=1, shape=(1, 8, 8)
    )
    # The first well has two fields of the first acquisition, and none of the second.
    document = json.loads((root / "A/1/zarr.json").read_text())
    for image in document["attributes"]["ome"]["well"]["images"]:
        image["acquisition"] = 0
    (root / "A/1/zarr.json").write_text(json.dumps(document))
    move_images([root / "A/1/1"], (0, 4))
    browser = browse(viewer, root)
    browser.choose_acquisitions([0, 1])
    browser.show_mosaic()
    first, other = shown(viewer)
    np.testing.assert_array_equal(first[:8, 8:16], stored(root, "A/1/1")[0])
    np.testing.assert_array_equal(first[:8, 32:40], stored(root, "A/3/0")[0])
    np.testing.assert_array_equal(other[:8, 32:40], stored(root, "A/3/1")[0])
    assert not other[:, :16].any()


def test_another_acquisition_leaves_the_selection(tmp_path, viewer):
    root = write_plate(
        tmp_path / "p",
        grid=(1, 2),
        acquisitions=2,
        shape=(1, 8, 8),
        labelled=lambda well: ("cells",),
    )
    browser = browse(viewer, root)
    browser.show_field("A/1")
    labels = viewer.layers["cells"]
    viewer.layers.selection.active = labels
    labels.mode = "paint"
    browser.choose_acquisitions([0, 1])
    assert len(viewer.layers) == 3, "no labels of a field that was not asked for"
    assert viewer.layers.selection.active is labels
    assert labels.mode == "paint"


def test_a_well_without_the_chosen_acquisition_says_so(tmp_path, viewer, monkeypatch):
    root = write_plate(
        tmp_path / "p", grid=(1, 2), acquisitions=2, fields=1, shape=(1, 8, 8)
    )
    document = json.loads((root / "A/2/zarr.json").read_text())
    document["attributes"]["ome"]["well"]["images"].pop()
    (root / "A/2/zarr.json").write_text(json.dumps(document))
    reported = []
    monkeypatch.setattr(
        Window, "show_messages", staticmethod(lambda *a: a[0] and reported.append(a))
    )
    browser = browse(viewer, root)
    browser.choose_acquisitions([1])
    browser.show_field("A/1")
    assert reported == []
    for _ in range(2):
        browser.show_field("A/2")
        assert browser.position == Position("A/2", "0", 0)
    ((reasons, result),) = reported
    assert result == "Shown: A2, field 0, round 0"
    assert reasons == ("This well has no image of the chosen acquisition.",)
    # Back to the acquisition that was chosen.
    browser.show_field("A/1")
    assert browser.position == Position("A/1", "1", 1)


def stored_labels(root, name):
    return sorted(str(p.relative_to(root)) for p in root.glob(f"*/*/*/labels/{name}"))


def test_labels_belong_to_the_field_that_was_asked_for(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 1), acquisitions=2, shape=(1, 8, 8))
    browser = browse(viewer, root)
    browser.show_field("A/1", "1")
    labels = viewer.add_layer(new_labels(viewer.layers[0], "phases"))
    labels.mode = "paint"
    labels.paint((2, 2), 1)
    browser.choose_acquisitions([0, 1])
    assert browser.position == Position("A/1", "1", 0)
    assert viewer.layers.index("phases") == 2, "over both images"
    # The same place of the other acquisition, by its own number.
    browser.show_field("A/1", "5")
    assert browser.position == Position("A/1", "5", 1)
    labels = viewer.layers.selection.active
    assert browser.title_of(labels) == "A1 - field 5 - round 1"
    visible = [x for x in viewer.layers if x._type_string == "labels" and x.visible]
    assert visible == [labels]
    labels.paint((4, 4), 2)
    assert labels.saver.save_now()
    assert stored_labels(root, "phases") == [
        "A/1/1/labels/phases",
        "A/1/5/labels/phases",
    ]
    assert set(np.unique(stored(root, "A/1/5/labels/phases"))) == {0, 2}
    # The status names the image of the selected layer, not that of the caption.
    assert [x for x in viewer.layers if x._type_string == "labels"] == [labels]
    below = viewer.layers["round 0, Tiny"]
    for layer, title in ((below, "field 1 - round 0"), (labels, "field 5 - round 1")):
        viewer.layers.selection.active = layer
        assert str(viewer.status).count("A1 - field") == 1
        assert f"A1 - {title}  " in str(viewer.status)
    # The labels of that field are the ones of a round of annotation.
    found = begin_annotation(viewer, "phases")
    assert found.layer is labels
    # Steps stay in the acquisition that was asked for.
    browser.step_field(1)
    assert browser.position == Position("A/1", "6", 1)


def test_another_acquisition_below_leaves_labels_where_they_are(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 1), acquisitions=2, shape=(1, 8, 8))
    browser = browse(viewer, root)
    browser.choose_acquisitions([1])
    browser.show_field("A/1", "6")
    image = viewer.layers[0]
    labels = viewer.add_layer(new_labels(image, "mine"))
    labels.paint((2, 2), 1)
    viewer.layers.selection.active = labels
    browser.choose_acquisitions([0, 1])
    assert browser.position == Position("A/1", "6", 1)
    assert viewer.layers.selection.active is labels
    labels.paint((3, 3), 1)
    assert labels.saver.save_now()
    assert stored_labels(root, "mine") == ["A/1/6/labels/mine"]
    # Each image stays the layer of its acquisition, and neither covers the other.
    assert browser.title_of(image) == "A1 - field 6 - round 1"
    (other,) = [x for x in viewer.layers if x is not image and x is not labels]
    assert browser.title_of(other) == "A1 - field 2 - round 0"
    assert other.blending == "additive"
    assert viewer.layers.index(labels) == 2
    names = [name for name, _ in image_choices(viewer.layers, browser)]
    assert names == ["A1 - field 6 - round 1"], "the field that was asked for"
    browser.show_field("A/1", "2")
    assert browser.title_of(image) == "A1 - field 6 - round 1"


def test_a_plate_that_is_opened_again_shows_no_field(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 2), shape=(1, 8, 8))
    browser = browse(viewer, root)
    browser.show_field("A/2", "1")
    viewer.layers.clear()
    again = browse(viewer, root)
    again.adopt_mosaics(open_contents(open_node(root)).groups)
    assert again.position is None
    assert again.shown_wells == ("A/1", "A/2")


def test_no_edit_lands_between_two_fields(tmp_path, viewer, monkeypatch):
    root = write_plate(tmp_path / "p", grid=(1, 1), fields=3, shape=(1, 8, 8))
    browser = browse(viewer, root)
    browser.show_field("A/1", "0")
    labels = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    labels.paint((2, 2), 1)
    labels.paint((4, 4), 1)
    labels.undo()
    assert labels.saver.save_now()
    before = stored(root, "A/1/0/labels/mine")
    refused, exchange = [], layer_slots.LayerSlots._exchange_layers
    monkeypatch.setattr(Window, "show_passing", staticmethod(refused.append))

    def exchange_and_edit(*arguments):
        labels.paint((6, 6), 7)
        labels.fill((0, 0), 7)
        labels.undo()
        labels.redo()
        yield from exchange(*arguments)

    monkeypatch.setattr(layer_slots.LayerSlots, "_exchange_layers", exchange_and_edit)
    browser.show_field("A/1", "1")
    monkeypatch.undo()
    assert len(refused) == 4
    words = [text.split(":")[0] for text in refused]
    assert words == ["Not painted", "Not painted", "Not undone", "Not redone"]
    assert not labels.unsaved
    browser.show_field("A/1", "0")
    np.testing.assert_array_equal(stored(root, "A/1/0/labels/mine"), before)
    assert stored_labels(root, "mine") == ["A/1/0/labels/mine"]
    assert not labels.unsaved


def test_the_image_of_the_field_asked_for_is_selected_and_labelled(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 1), acquisitions=2, shape=(1, 8, 8))
    browser = browse(viewer, root)
    browser.show_field("A/1", "1")
    browser.choose_acquisitions([0, 1])
    first, second = viewer.layers["round 0, Tiny"], viewer.layers["round 1, Tiny"]
    assert viewer.layers.selection.active is first
    browser.show_field("A/1", "5")
    assert viewer.layers.selection.active is second
    # A layer that the user selects stays so while fields of one acquisition are shown.
    viewer.layers.selection.active = first
    browser.step_field(1)
    assert browser.position == Position("A/1", "6", 1)
    assert viewer.layers.selection.active is first
    ((name, image),) = image_choices(viewer.layers, browser)
    assert (name, image) == ("A1 - field 6 - round 1", second)


def test_acquisitions_stay_chosen_where_the_user_cancels(tmp_path, viewer, monkeypatch):
    root = write_plate(tmp_path / "p", grid=(1, 1), acquisitions=2, shape=(1, 8, 8))
    browser = browse(viewer, root)
    browser.show_field("A/1", "1")
    browser.choose_acquisitions([0, 1])
    labels = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    labels.paint((2, 2), 1)
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: False)
    monkeypatch.setattr(Window.current, "resolve_unsaved", lambda *_: None)
    changed = []
    browser.layers_changed.connect(lambda: changed.append(browser.chosen_acquisitions))
    browser.choose_acquisitions([1])
    assert browser.position == Position("A/1", "1", 0)
    assert browser.chosen_acquisitions == (0, 1)
    assert changed[-1] == (0, 1)
    # Nor does a step that follows take what was cancelled.
    browser.choose_acquisitions([1])
    browser.step_field(1)
    assert browser.position == Position("A/1", "1", 0)
    assert browser.chosen_acquisitions == (0, 1)
    monkeypatch.setattr(Window.current, "resolve_unsaved", lambda *_: lambda: None)
    browser.choose_acquisitions([1])
    assert browser.position == Position("A/1", "5", 1)
    assert browser.chosen_acquisitions == (1,)


def shift_second(root):
    """Move the fields of the second acquisition by one to the right."""
    for field in range(4, 8):
        document = json.loads((root / f"A/1/{field}/zarr.json").read_text())
        (image,) = document["attributes"]["ome"]["multiscales"]
        width = 8 * image["datasets"][0]["coordinateTransformations"][0]["scale"][-1]
        for level in image["datasets"]:
            level["coordinateTransformations"][1]["translation"][-1] += width
        (root / f"A/1/{field}/zarr.json").write_text(json.dumps(document))


def test_no_image_covers_that_of_the_field_asked_for(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 1), acquisitions=2, shape=(1, 8, 8))
    shift_second(root)
    browser = browse(viewer, root)
    browser.show_field("A/1", "0")  # which the second acquisition does not have
    browser.choose_acquisitions([0, 1])
    browser.show_field("A/1", "4")
    second = viewer.layers["round 1, Tiny"]
    second.blending = "translucent"
    browser.show_field("A/1", "1")  # the same place
    assert list(viewer.layers) == [viewer.layers["round 0, Tiny"], second]
    assert second.visible
    assert second.blending == "additive"
    # What the user chooses then holds while the acquisition is the same.
    second.blending = "minimum"
    browser.show_field("A/1", "3")
    assert second.blending == "minimum"


def test_a_field_of_one_acquisition_alone_gets_labels(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 1), acquisitions=2, shape=(1, 8, 8))
    shift_second(root)
    browser = browse(viewer, root)
    browser.show_field("A/1", "1")
    browser.choose_acquisitions([0, 1])
    browser.show_field("A/1", "5")
    assert not viewer.layers["round 0, Tiny"].visible
    ((name, image),) = image_choices(viewer.layers, browser)
    assert name == "A1 - field 5 - round 1"
    labels = viewer.add_layer(new_labels(image, "alone"))
    labels.paint((2, 2), 1)
    assert labels.saver.save_now()
    assert stored_labels(root, "alone") == ["A/1/5/labels/alone"]


def test_fields_of_several_acquisitions_have_their_names(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 1), acquisitions=2, fields=2)
    titles = [field.title for field in browse(viewer, root).fields_of("A/1").fields]
    assert titles == [
        "field 0 - round 0",
        "field 1 - round 0",
        "field 2 - round 1",
        "field 3 - round 1",
    ]


def test_fields_of_two_acquisitions_are_paired_by_place(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(1, 1), acquisitions=2, shape=(1, 8, 8))
    move_images([root / "A" / "1" / str(k) for k in range(4, 8)], (0, 4))
    browser = browse(viewer, root)
    browser.choose_acquisitions([0, 1])
    browser.show_field("A/1", "1")
    pictures = shown(viewer)
    np.testing.assert_array_equal(pictures[0], stored(root, "A/1/1")[0])
    np.testing.assert_array_equal(pictures[1], stored(root, "A/1/4")[0])
    # Nothing of the second acquisition lies there.
    browser.show_field("A/1", "0")
    assert [layer.name for layer in viewer.layers if layer.visible] == ["round 0, Tiny"]
    # Of the first acquisition, nothing lies where the last field of the second does.
    browser.choose_acquisitions([1])
    browser.show_field("A/1", "6")
    browser.choose_acquisitions([0])
    assert browser.position == Position("A/1", "3", 0)


@pytest.mark.parametrize("inner", ["", "A", "A/2"])
def test_the_first_acquisition_is_shown_of_what_is_dropped(
    tmp_path, viewer, monkeypatch, inner
):
    root = write_plate(tmp_path / "p", grid=(1, 2), acquisitions=2, shape=(1, 8, 8))
    monkeypatch.setattr(reader, "current_viewer", lambda: viewer)
    session = session_of(viewer)
    session.add(reader.read_node(open_node(root / inner)), str(root))
    (picture,) = shown(viewer)
    wells = ["A/2"] if inner == "A/2" else ["A/1", "A/2"]
    fields = [[stored(root, f"{w}/{k}")[0] for k in range(4)] for w in wells]
    expected = [np.block([[f[0], f[1]], [f[2], f[3]]]) for f in fields]
    np.testing.assert_array_equal(picture, np.hstack(expected))
    assert session.browser.chosen_acquisitions == (0,)


def test_fields_of_no_acquisition_are_shown_together(tmp_path, viewer, monkeypatch):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2, shape=(1, 8, 8))
    document = json.loads((root / "zarr.json").read_text())
    document["attributes"]["ome"]["plate"]["acquisitions"] = [{"id": 5}, {"id": 6}]
    (root / "zarr.json").write_text(json.dumps(document))
    monkeypatch.setattr(reader, "current_viewer", lambda: viewer)
    session_of(viewer).add(reader.read_node(open_node(root)), str(root))
    browser = session_of(viewer).browser
    assert shown(viewer)[0].shape == (8, 32)
    assert browser.chosen_acquisitions == ()
    browser.show_mosaic()
    assert shown(viewer)[0].shape == (8, 32)


def test_pins_stand_beside_and_share_the_contrast(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    browser.toggle_pin("C/4", "2")
    beside = viewer.layers[-2:]
    assert browser.pinned_fields == (Position("C/4", "2", 0),)
    np.testing.assert_array_equal(shown(viewer)[-1], stored(root, "C/4/2")[1])
    edge = viewer.layers[0].extent.world[1, -1]
    assert all(layer.extent.world[0, -1] > edge for layer in beside)
    viewer.layers[0].contrast_limits = (1, 9)
    assert tuple(beside[0].contrast_limits) == (1, 9)
    browser.step_field(1)
    assert list(viewer.layers[-2:]) == list(beside)
    browser.toggle_pin("C/4", "2")
    assert browser.pinned_fields == ()
    assert len(viewer.layers) == 3


def test_a_well_is_compared_at_the_field_on_screen(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1", "2")
    browser.toggle_pin("C/4")
    assert browser.pinned_fields == (Position("C/4", "2", 0),)
    assert [name for name, _ in browser.compared_corners()] == ["A1", "C4"]
    browser.show_field("A/1", "1")
    names = [name for name, _ in browser.compared_corners()]
    assert names == ["A1 - field 1", "C4 - field 2"], "fields of other numbers"
    browser.toggle_pin("C/4")
    assert browser.pinned_fields == (), "again removes it, whatever field is on screen"
    browser.toggle_pin("C/4")
    assert browser.pinned_fields == (Position("C/4", "1", 0),)
    unpin_all(browser)
    browser.show_field("C/4", "1")
    browser.toggle_pin("A/1")
    assert "A1 - field 1: cells" in [layer.name for layer in viewer.layers]


def test_keys_go_on_browsing_when_an_image_is_pinned(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    own, count = viewer.layers.selection.active, len(viewer.layers)
    browser.toggle_pin("A/2")
    assert len(viewer.layers) == 2 * count
    assert viewer.layers.selection.active is own
    viewer.layers.selection.active = viewer.layers[-1]
    browser.toggle_pin("A/2")
    assert browser.layers.owns_layer(viewer.layers.selection.active)


def test_what_is_pinned_comes_in_view(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    before = viewer.scene.camera.zoom
    browser.toggle_pin("A/2")
    # Side by side they are some twice as wide.
    assert 0.4 * before < viewer.scene.camera.zoom < 0.6 * before
    middle = viewer.layers.extent.world[:, -1].mean()
    assert viewer.scene.camera.center[-1] == pytest.approx(middle)
    browser.toggle_pin("A/2")
    assert viewer.scene.camera.zoom == pytest.approx(before), "alone again"


def test_a_comparison_ends_with_an_overview(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/2")
    alone, own = viewer.scene.camera.zoom, list(viewer.layers)
    browser.toggle_pin("A/1")
    browser.show_mosaic()
    assert browser.pinned_fields == ()
    assert set(viewer.layers) <= set(own), "none is left out of view"
    browser.show_field("A/2")
    assert viewer.scene.camera.zoom == pytest.approx(alone, rel=0.1)


def test_compared_fields_look_alike(root, viewer):
    """A well whose labels are hidden would be taken for one without objects."""
    browser = browse(viewer, root)
    browser.show_field("A/1")
    _, second, nuclei = viewer.layers
    second.visible = False
    nuclei.visible, nuclei.opacity, nuclei.contour = True, 0.4, 2
    browser.toggle_pin("A/2")
    beside = viewer.layers[3:]
    look = [(x.visible, x.opacity) for x in viewer.layers]
    assert look[3:] == look[:3]
    assert beside[2].contour == 2
    second.visible, nuclei.visible = True, False
    assert [x.visible for x in beside] == [True, True, False]
    beside[2].visible = True
    browser.step_field(1)
    nuclei = viewer.layers[2]
    assert nuclei.visible
    nuclei.visible = False
    assert not beside[2].visible, "also with the labels of the next field"


def test_what_is_pinned_is_seen_on_a_light_canvas(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    count = len(viewer.layers)
    browser.toggle_pin("A/2")
    first, second = viewer.layers[count : count + 2]
    assert (first.blending, second.blending) == ("translucent_no_depth", "additive")


def test_the_status_names_the_next_field_whatever_is_selected(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    for selected in (list(viewer.layers), [], list(viewer.layers)[:1]):
        viewer.layers.selection = selected
        browser.step_field(1)
        assert viewer.status == f"{browser.name_field(browser.position)}  Ready"
    browser.show_mosaic()
    assert viewer.status == "Ready"


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("was_in", [None, "C/2"])
def test_steps_begin_at_the_first_well_of_an_overview(root, viewer, step, was_in):
    browser = browse(viewer, root)
    if was_in is not None:
        browser.show_field(was_in)
    browser.show_mosaic()
    browser.step_field(step)
    assert browser.position.well == "A/1"
    browser.show_mosaic(["A/2", "C/1"])
    browser.step_field(step)
    assert browser.position.well == "A/2"
    # Where the view was moved, it is the well in the middle.
    browser.show_mosaic()
    browser.zoom_to("C/1")
    browser.step_field(step)
    assert browser.position.well == "C/1"


def test_a_view_moved_while_an_overview_is_read_again_stays(root, viewer, monkeypatch):
    browser = browse(viewer, root)
    browser.show_mosaic()
    browser.zoom_to("A/1")
    browser.show_mosaic()
    assert is_fitted(viewer)
    resolve = browser.resolver.resolve_fields

    def move_before(*arguments):
        browser.zoom_to("C/1")
        return resolve(*arguments)

    monkeypatch.setattr(browser.resolver, "resolve_fields", move_before)
    browser.show_mosaic()
    assert browser.layers.find_middle_well() == "C/1"
    assert not is_fitted(viewer)


def test_what_is_pinned_is_not_taken_for_what_was_opened(root, viewer, monkeypatch):
    monkeypatch.setattr(reader, "current_viewer", lambda: viewer)
    session = session_of(viewer)
    session.add(reader.read_node(open_node(root)), str(root))
    # In a long session memory is used again: what is new lies where an opened one lay.
    place = id(viewer.layers[0].metadata[KEY].picture)
    browser = session.browser
    browser.show_field("C/1")
    own = list(viewer.layers)
    monkeypatch.setattr(layer_slots, "id", lambda _: place, raising=False)
    browser.toggle_pin("A/2")
    assert not any(map(browser.layers.owns_layer, viewer.layers[len(own) :]))
    unpin_all(browser)
    assert list(viewer.layers) == own


def test_where_the_cursor_is_stands_on_the_canvas_and_in_the_status(root, viewer):
    browser = browse(viewer, root)
    browser.show_mosaic()
    place = viewer.layers[0].data_to_world((20, 20))
    assert browser.position_at(place) == Position("A/1", "3", 0)
    assert browser.position_at((-5, 0)) is None
    viewer.cursor.position = place
    for callback in viewer.mouse_move_callbacks:
        callback(viewer, None)
    overlay = viewer.canvas.overlays.text
    assert overlay.visible
    assert overlay.text == "A1 - field 3"
    for is_over, title in ((True, "A1 - field 3  "), (False, "")):
        viewer.mouse_over_canvas, viewer.status = is_over, "something"
        assert viewer.status == f"{title}something"
    browser.show_field("C/1")
    assert overlay.text == "C1 - field 0"
    browser.close()
    assert not overlay.visible


@pytest.mark.parametrize("plane", [0, 1, 3, 6])
def test_the_caption_names_a_well_that_lacks_the_plane_on_screen(
    pristine_deep, viewer, plane
):
    browser = browse(viewer, pristine_deep)
    browser.show_mosaic()
    viewer.dims.set_point(0, 0)
    overlay = viewer.canvas.overlays.text
    for well, depth in DEPTHS.items():
        y, x = "AB".index(well[0]) * 32 + 9, (int(well[2]) - 1) * 32 + 9
        viewer.cursor.position = viewer.layers[0].data_to_world((0, y, x))
        for callback in viewer.mouse_move_callbacks:
            callback(viewer, None)
        name = f"{well.replace('/', '')} - field 0"
        assert overlay.text == name
        # By the slider, while the cursor rests.
        viewer.dims.set_current_step(0, plane)
        planes = "1 plane" if depth == 1 else f"{depth} planes"
        missed = f"{name}: {planes}; plane {plane + 1} is shown"
        assert overlay.text == (missed if plane >= depth else name)
        viewer.dims.set_current_step(0, 0)
    assert overlay.text == name
    browser.show_field("B/1")
    assert overlay.text == "B1 - field 0"


def test_keys_browse_unless_another_layer_is_selected(root, viewer):
    browser = browse(viewer, root)
    browser.show_field("A/1")
    viewer.layers.selection.active = viewer.layers[0]
    keys = {str(key): action for key, action in viewer.keymap.items()}
    for key in ("Right", "Down", "."):
        keys[key](viewer)
    assert browser.position == Position("B/2", "1", 0)
    other = viewer.add_image(np.zeros((5, 16, 16)))
    viewer.layers.selection.active = other
    keys["Right"](viewer)
    assert browser.position == Position("B/2", "1", 0)
    assert viewer.dims.current_step[0] == 1


def test_a_well_found_larger_gets_the_room_it_needs(tmp_path, viewer):
    root = write_plate(tmp_path / "p", grid=(5, 5), fields=1, shape=(1, 8, 8))
    shutil.rmtree(root / "E/5/0")
    write_image(root / "E/5/0", pixels(9, (1, 12, 8), "u4") + 70000, 3)
    browser = browse(viewer, root)
    browser.show_mosaic()
    (layer,) = viewer.layers
    # Drawing the plate for the first time has found it.
    assert layer.data.shape == (60, 40)
    assert layer.data.dtype == np.uint32
    np.testing.assert_array_equal(
        shown(viewer)[0][48:, 32:], pixels(9, (12, 8), "u4") + 70000
    )
    assert not browser.problems  # it is all there now


def test_a_well_found_deeper_gets_the_planes_it_has(tmp_path, viewer):
    root = write_plate(
        tmp_path / "p",
        grid=(5, 5),
        fields=1,
        shape=(2, 8, 8),
        labelled=lambda well: ("cells",),
    )
    stack = pixels(9, (2, 3, 8, 8))
    shutil.rmtree(root / "E/5/0")
    write_image(root / "E/5/0", stack, 3, "czyx")
    browser = browse(viewer, root)
    browser.choose_labels("cells")
    browser.show_mosaic()
    first, second, cells = viewer.layers
    assert first.data.shape == second.data.shape == (3, 40, 40)
    for layer, channel in zip((first, second), stack, strict=True):
        np.testing.assert_array_equal(np.asarray(layer.data[0])[:, 32:, 32:], channel)
    flat = stored(root, "A/1/0")
    np.testing.assert_array_equal(np.asarray(first.data[0])[0, :8, :8], flat[0])
    assert cells.ndim == 3  # on the axes of the image
    assert not browser.problems
    browser.show_field("A/1", "0")
    assert {layer.ndim for layer in viewer.layers} == {2}
    browser.show_field("E/5", "0")
    assert {layer.ndim for layer in viewer.layers} == {3}


DEPTHS = {"A/1": 2, "A/2": 4, "B/1": 1, "B/2": 7}


@pytest.fixture(scope="module")
def pristine_deep(tmp_path_factory):
    """A plate whose wells have their own depths, images and labels alike."""
    root = write_plate(tmp_path_factory.mktemp("deep") / "p", grid=(2, 2), fields=1)
    for number, (well, depth) in enumerate(DEPTHS.items()):
        shutil.rmtree(root / well / "0")
        stack = pixels(number, (1, depth, 32, 32))
        write_image(root / well / "0", stack, 3, "czyx", 3, labels=("cells", "nuclei"))
        mark_own(root / well / "0/labels/cells/zarr.json")
    return root


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("read_first", [0, 16])
def test_an_overview_shows_labels_of_each_well_to_its_own_depth(
    pristine_deep, viewer, level, read_first, tmp_path, monkeypatch
):
    monkeypatch.setattr(mosaic, "ALL_READ", read_first)
    root = shutil.copytree(pristine_deep, tmp_path / "p")

    def assert_whole(name):
        # napari draws the level that fits the window; others are not even open then.
        viewer.layers[name].data_level = level
        browser.show_mosaic()
        assert viewer.dims.nsteps[0] == max(DEPTHS.values())
        for number in range(3):
            drawn, side = np.asarray(viewer.layers[name].data[number]), 32 >> number
            for well, depth in DEPTHS.items():
                y, x = "AB".index(well[0]) * side, (int(well[2]) - 1) * side
                part = drawn[:, y : y + side, x : x + side]
                labels = stored(root, f"{well}/0/labels/{name}", number)
                np.testing.assert_array_equal(part[:depth], labels, well)
                assert not part[depth:].any()
        assert not browser.problems

    browser = browse(viewer, root)
    browser.show_mosaic()
    browser.choose_labels("nuclei")
    assert_whole("nuclei")
    # What was saved is opened anew.
    browser.show_field("B/2", "0")
    labels = viewer.layers["cells"]
    labels.paint((5, 3, 3), 9)
    assert labels.saver.save_now()
    browser.show_mosaic()
    browser.choose_labels("cells")
    assert_whole("cells")
    assert stored(root, "B/2/0/labels/cells")[5, 3, 3] == 9


def test_a_second_plate_takes_over(root, viewer, tmp_path):
    first = browse(viewer, root)
    assert browse(viewer, root) is first
    second = browse(viewer, write_plate(tmp_path / "q", grid=(1, 1)))
    assert session_of(viewer).browser is second
    assert len(viewer.mouse_move_callbacks) == 1


@pytest.mark.parametrize(
    ("path", "walked", "wells"),
    [
        ("", "", None),
        ("A/2", "", ("A/2",)),
        ("B", "", ("B/1", "B/2", "B/4")),
        ("A/2/0", None, None),
        ("A/2/0/labels", None, None),
    ],
)
def test_what_is_browsed_when_something_is_dropped(root, path, walked, wells):
    node = open_node(root / path)
    found = find_browsable(node)
    if walked is None:
        assert found is None
    else:
        assert found[0].location.path == walked
        assert found[1] == wells


def test_a_well_alone_and_a_collection_are_browsed(root, viewer, tmp_path):
    well = shutil.copytree(root / "A/1", tmp_path / "well")
    browser = browse(viewer, well)
    assert browser.map.wells == ()
    browser.show_mosaic()
    assert viewer.layers[0].data.shape == (32, 32)
    browser.show_field(None)
    browser.step_field(-1)
    assert browser.position == Position(None, "3", 0)

    group = tmp_path / "slides"
    write_group(group, {"bioformats2raw.layout": 3}, 3)
    for i in range(3):
        write_image(group / str(i), pixels(i, (1, 8 + i, 8)), 3)
    browser = browse(viewer, group)
    assert [f.position.field for f in browser.fields_of(None).fields] == ["0", "1", "2"]
    browser.show_field(None, "1")
    assert browser.name_field(browser.position) == "image 1"
    browser.step_field(1)
    assert shown(viewer)[-1].shape == (10, 8)


def test_a_plate_of_bioformats2raw_is_a_plate(tmp_path, viewer):
    root = write_plate(tmp_path / "p", 2, grid=(2, 2))
    document = json.loads((root / ".zattrs").read_text())
    document["bioformats2raw.layout"] = 3
    (root / ".zattrs").write_text(json.dumps(document))
    write_group(root / "OME", {"series": ["A/1/0", "A/1/1"]}, 2)
    browser = browse(viewer, root)
    assert browser.kind is GroupKind.PLATE
    browser.show_mosaic()
    assert viewer.layers[0].data.shape == (32, 32)
