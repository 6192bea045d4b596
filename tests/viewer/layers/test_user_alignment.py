"""Positions that the user gave layers are saved, and found again on opening."""

import json
import stat

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.layers import Layer

from napari_ngff import UnsupportedError, open_node
from napari_ngff.errors import AccessError
from napari_ngff.metadata.model import Reference
from napari_ngff.metadata.parse import parse_attributes
from napari_ngff.plugin import get_reader
from napari_ngff.store.sources import folder_store
from napari_ngff.store.write import replace_file
from napari_ngff.viewer import reader
from napari_ngff.viewer.layers.move_layers import move_layers
from napari_ngff.viewer.layers.user_alignment import save_alignment
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of

PIXELS = np.arange(2 * 4 * 5, dtype="u2").reshape(2, 4, 5)
TURN = np.array([[0.8, 0.6, 3.0], [-0.6, 0.8, -7.0], [0, 0, 1]])


@pytest.fixture(autouse=True)
def messages(monkeypatch):
    reported = []
    monkeypatch.setattr(reader, "show_left_out", reported.extend)
    return reported


def axes():
    kinds = {"c": {"type": "channel"}}
    space = {"type": "space", "unit": "micrometer"}
    return [{"name": n} | kinds.get(n, space) for n in "cyx"]


def write(folder, version, **more):
    folder.mkdir(parents=True, exist_ok=True)
    steps = [
        {"type": "scale", "scale": [1, 0.5, 0.25]},
        {"type": "translation", "translation": [0, 10, 20]},
    ]
    multiscale = {"name": "kept", "metadata": {"by": "somebody"}} | more
    if version == "0.6":
        ends = {"input": {"path": "0"}, "output": {"name": "physical"}}
        whole = {"type": "sequence", "transformations": steps} | ends
        multiscale["coordinateSystems"] = [{"name": "physical", "axes": axes()}]
        steps = [whole]
    else:
        multiscale["axes"] = axes()
    multiscale["datasets"] = [{"path": "0", "coordinateTransformations": steps}]
    if version == "0.4":
        content = {"multiscales": [multiscale | {"version": "0.4"}], "mine": [1]}
        (folder / ".zattrs").write_text(json.dumps(content, indent=4))
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
    else:
        ome = {"version": version, "multiscales": [multiscale], "mine": [1]}
        document = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {"ome": ome, "theirs": {"a": None}},
        }
        (folder / "zarr.json").write_text(json.dumps(document, indent=4))
    zarr_format = 2 if version == "0.4" else 3
    zarr.create_array(
        folder / "0", data=PIXELS, zarr_format=zarr_format, overwrite=True
    )
    return folder


def ome_of(folder):
    path = folder / "zarr.json"
    if not path.exists():
        return json.loads((folder / ".zattrs").read_text())
    return json.loads(path.read_text())["attributes"]["ome"]


def opened(folder):
    return [Layer.create(*data) for data in reader.read_paths(str(folder))]


def worlds(layer):
    """World coordinates of all pixels, in the order of their values."""
    data = np.asarray(layer.data)
    where = layer._data_to_world(np.argwhere(np.ones(data.shape)))
    return where[np.argsort(data.ravel())]


def test_a_turned_layer_is_a_system_of_its_image(tmp_path):
    folder = write(tmp_path / "a.zarr", "0.6")
    before = json.loads((folder / "zarr.json").read_text())
    layer = opened(folder)[1]
    layer.affine = TURN
    assert save_alignment(layer, "aligned") == str(folder / "zarr.json")

    after = json.loads((folder / "zarr.json").read_text())
    multiscale = after["attributes"]["ome"]["multiscales"][0]
    link = multiscale.pop("coordinateTransformations")[0]
    added = multiscale["coordinateSystems"].pop()
    assert after == before
    assert added == {"name": "aligned", "axes": axes()}
    assert link["input"] == {"name": "physical"}
    assert link["output"] == {"name": "aligned"}
    assert parse_attributes(
        json.loads((folder / "zarr.json").read_text())["attributes"], 3
    ) == (open_node(folder).metadata)
    assert open_node(folder).metadata.problems == ()
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["zarr.json"]

    again = opened(folder)[1]
    assert not np.allclose(worlds(again), worlds(layer))
    assert move_layers([again], Reference(name="aligned")) == ()
    np.testing.assert_allclose(worlds(again), worlds(layer))


def test_saving_again_replaces_what_was_saved(tmp_path):
    folder = write(tmp_path / "a.zarr", "0.6")
    layer = opened(folder)[0]
    layer.affine = TURN
    save_alignment(layer, "aligned")
    layer.affine = np.eye(3)
    layer.translate = (11, 22)
    save_alignment(layer, "aligned")
    (multiscale,) = ome_of(folder)["multiscales"]
    (link,) = multiscale["coordinateTransformations"]
    assert (link["type"], link["translation"]) == ("translation", [0, 1, 2])
    assert len(multiscale["coordinateSystems"]) == 2


def test_a_layer_in_another_system_is_saved_from_the_intrinsic_one(tmp_path):
    folder = write(tmp_path / "a.zarr", "0.6")
    layer = opened(folder)[0]
    layer.affine = TURN
    save_alignment(layer, "first")
    layer = opened(folder)[0]
    move_layers([layer], Reference(name="first"))
    layer.affine = TURN @ np.asarray(layer.affine)
    save_alignment(layer, "second")
    again = opened(folder)[0]
    move_layers([again], Reference(name="second"))
    np.testing.assert_allclose(worlds(again), worlds(layer))


def test_names_of_other_systems_are_not_taken(tmp_path):
    folder = write(tmp_path / "a.zarr", "0.6")
    layer = opened(folder)[0]
    layer.affine = TURN
    save_alignment(layer, "first")
    text = (folder / "zarr.json").read_text()
    document = json.loads(text)
    (multiscale,) = document["attributes"]["ome"]["multiscales"]
    multiscale["coordinateTransformations"][0]["input"]["name"] = "elsewhere"
    (folder / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match="another name"):
        save_alignment(layer, "first")
    for name in ("physical", " "):
        with pytest.raises(UnsupportedError, match=r"name|one\."):
            save_alignment(layer, name)
    assert json.loads((folder / "zarr.json").read_text()) == document


def test_a_scene_states_where_its_images_lie(tmp_path):
    world = {"name": "world", "axes": axes()}
    to_world = {
        "type": "identity",
        "input": {"path": "a", "name": "physical"},
        "output": {"name": "world"},
        "note": "kept",
    }
    write(tmp_path / "b", "0.6")
    to_world_b = to_world | {"input": {"path": "b", "name": "physical"}}
    scene = {
        "coordinateSystems": [world],
        "coordinateTransformations": [to_world, to_world_b],
    }
    ome = {"version": "0.6", "scene": scene}
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    write(tmp_path / "a", "0.6")
    layers = {layer.name: layer for layer in opened(tmp_path)}
    first = layers["a: channel 0"]
    first.affine = TURN
    save_alignment(first, "world", open_node(tmp_path))
    save_alignment(first, "new", open_node(tmp_path))
    scene = ome_of(tmp_path)["scene"]
    assert [s["name"] for s in scene["coordinateSystems"]] == ["world", "new"]
    assert [t["type"] for t in scene["coordinateTransformations"]] == [
        "affine",
        "identity",
        "affine",
    ]
    again = {layer.name: layer for layer in opened(tmp_path)}
    np.testing.assert_allclose(worlds(again["a: channel 0"]), worlds(first))
    np.testing.assert_allclose(
        worlds(again["b: channel 0"]), worlds(layers["b: channel 0"])
    )


def test_a_system_that_was_saved_can_be_shown_at_once(tmp_path):
    world = {"name": "world", "axes": axes()}
    links = [
        {
            "type": "identity",
            "input": {"path": name, "name": "physical"},
            "output": {"name": "world"},
        }
        for name in "ab"
    ]
    scene = {"coordinateSystems": [world], "coordinateTransformations": links}
    ome = {"version": "0.6", "scene": scene}
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    for name in "ab":
        write(tmp_path / name, "0.6")
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    viewer = ViewerModel()
    for layer in opened(tmp_path):
        viewer.add_layer(layer)
    session = session_of(viewer)
    first = viewer.layers["a: channel 0"]
    first.affine = TURN
    session.save_transform(first, "aligned", open_node(tmp_path))
    session.save_transform(first, "own")
    before = worlds(first)
    systems = session.systems()
    assert systems[Reference(name="world")] == ()
    # b has a way there, too: through the system in which both lie.
    for system in (Reference(name="aligned"), Reference("a", "own")):
        assert system in systems
        session.show_system(system)
        np.testing.assert_allclose(worlds(first), before)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_older_versions_keep_a_scale_and_a_translation(tmp_path, version):
    shared = [
        {"type": "scale", "scale": [1, 2, 2]},
        {"type": "translation", "translation": [0, 1, 1]},
    ]
    folder = write(tmp_path / "a.zarr", version, coordinateTransformations=shared)
    before = ome_of(folder)
    layer = opened(folder)[0]
    layer.affine = np.array([[2, 0, 5], [0, 4, 6], [0, 0, 1]])
    save_alignment(layer, "")
    np.testing.assert_allclose(worlds(opened(folder)[0]), worlds(layer))
    after = ome_of(folder)
    assert after["multiscales"][0].pop("coordinateTransformations") == [
        {"type": "scale", "scale": [1, 4, 8]},
        {"type": "translation", "translation": [0, 7, 10]},
    ]
    del before["multiscales"][0]["coordinateTransformations"]
    assert after == before


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_layer_that_is_saved_twice_is_not_moved_twice(tmp_path, version):
    shared = [{"type": "scale", "scale": [1, 2, 2]}]
    folder = write(tmp_path / "a.zarr", version, coordinateTransformations=shared)
    layer = opened(folder)[0]
    for affine in (
        [[2, 0, 5], [0, 4, 6], [0, 0, 1]],
        [[1, 0, 7], [0, 3, 8], [0, 0, 1]],
    ):
        layer.affine = np.array(affine)
        for _ in range(2):
            save_alignment(layer, "")
            np.testing.assert_allclose(worlds(opened(folder)[0]), worlds(layer))


@pytest.mark.parametrize("affine", [TURN, np.diag([-1.0, 1, 1])])
def test_older_versions_refuse_the_rest(tmp_path, affine):
    folder = write(tmp_path / "a.zarr", "0.5")
    before = (folder / "zarr.json").read_bytes()
    layer = opened(folder)[0]
    layer.affine = affine
    with pytest.raises(UnsupportedError, match=r"0\.5.*scale and a translation"):
        save_alignment(layer, "aligned")
    assert (folder / "zarr.json").read_bytes() == before


def test_labels_and_foreign_layers_are_refused(tmp_path):
    folder = write(tmp_path / "a.zarr", "0.6")
    write(folder / "labels" / "n", "0.6")
    for path, key, value in (
        ("labels/n", "image-label", {}),
        ("labels", "labels", ["n"]),
    ):
        document = {"zarr_format": 3, "node_type": "group"}
        place = folder / path / "zarr.json"
        if place.exists():
            document = json.loads(place.read_text())
        attributes = document.setdefault("attributes", {"ome": {"version": "0.6"}})
        attributes["ome"][key] = value
        place.write_text(json.dumps(document))
    label = opened(folder)[-1]
    with pytest.raises(UnsupportedError, match="follows its image"):
        save_alignment(label, "aligned")
    with pytest.raises(UnsupportedError, match="not opened"):
        save_alignment(Layer.create(np.zeros((3, 3)), {}, "image"), "aligned")


def test_a_kill_leaves_the_old_document(tmp_path, monkeypatch):
    folder = write(tmp_path / "a.zarr", "0.6")
    before = (folder / "zarr.json").read_bytes()
    layer = opened(folder)[0]

    def killed(*paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(replace_file, "exchange_paths", killed)
    with pytest.raises(KeyboardInterrupt):
        save_alignment(layer, "aligned")
    assert (folder / "zarr.json").read_bytes() == before
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["zarr.json"]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_no_unfinished_file_stays_after_a_full_disk(tmp_path, monkeypatch, version):
    folder = tmp_path / "cells.ome.zarr"
    write_image(folder, shape=(1, 64, 64), version=version)
    before = sorted(path for path in folder.rglob("*"))
    layer = opened(folder)[0]
    layer.affine = np.diag([1.0, 2, 2, 1])
    flush_file, calls = folder_store.flush_file, []

    def fail_once(path):
        calls.append(path)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        flush_file(path)

    monkeypatch.setattr(folder_store, "flush_file", fail_once)
    with pytest.raises(OSError, match="No space"):
        save_alignment(layer, "")
    assert sorted(path for path in folder.rglob("*")) == before
    save_alignment(layer, "")
    again = opened(folder)[0]
    np.testing.assert_allclose(corners(again), corners(layer))


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_nothing_is_moved_where_labels_in_another_file_cannot_be(
    tmp_path, monkeypatch, version
):
    """Else the next save would not move them: the image is in its place already."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "cells.ome.zarr"
    write_image(folder, shape=(1, 64, 64), version=version)
    image = opened(folder)[0]
    model = ViewerModel()
    model.add_layer(image)
    model.add_layer(aside := new_labels(image, "aside", sidecar=True))
    aside.data_setitem((np.array([0]), np.array([1]), np.array([1])), 5)
    assert aside.saver.save_now()
    before = ome_of(folder)
    image.affine = np.array([[1, 0, 0, 0], [0, 1, 0, 50], [0, 0, 1, 20], [0, 0, 0, 1]])

    def fill_disk(path, *arguments, flush):
        if str(folder) not in path:
            raise OSError(28, "No space left on device")
        return replace_file.write_aside(path, *arguments, flush=flush)

    with monkeypatch.context() as patched:
        patched.setattr(folder_store, "write_aside", fill_disk)
        with pytest.raises(OSError, match="No space"):
            session_of(model).save_transform(image, "")
    assert ome_of(folder) == before
    session_of(model).save_transform(image, "")
    again = {layer.name: layer for layer in opened(folder)}
    np.testing.assert_allclose(corners(again[image.name]), corners(image))
    np.testing.assert_allclose(corners(again["aside"]), corners(image))


def test_a_shift_does_not_change_the_size_of_a_voxel_in_the_file(tmp_path):
    folder = tmp_path / "cells.ome.zarr"
    write_image(folder, shape=(1, 64, 64), version="0.4")
    image = opened(folder)[0]
    image.affine = np.array(
        [[1, 0, 0, 0], [0, 1, 0, 50], [0, 0, 1, 20.1], [0, 0, 0, 1]]
    )
    save_alignment(image, "")
    scale, translation = ome_of(folder)["multiscales"][0]["coordinateTransformations"]
    assert scale["scale"] == [1, 1, 1, 1]
    np.testing.assert_allclose(translation["translation"], [0, 0, 50, 20.1])


def test_labels_without_axes_are_named_and_nothing_is_moved(tmp_path):
    folder = tmp_path / "cells.ome.zarr"
    write_image(folder, shape=(1, 64, 64), version="0.4")
    document = folder / "labels/cells/.zattrs"
    content = json.loads(document.read_text())
    del content["multiscales"][0]["axes"]
    document.write_text(json.dumps(content))
    before = ome_of(folder)
    image = opened(folder)[0]
    image.translate = (0, 5, 5)
    with pytest.raises(UnsupportedError, match=r"labels/cells .* no axes"):
        save_alignment(image, "")
    assert ome_of(folder) == before


def test_folders_that_cannot_be_written_say_so(tmp_path, monkeypatch):
    folder = write(tmp_path / "a.zarr", "0.6")
    layer = opened(folder)[0]
    (folder / "zarr.json").chmod(0o640)
    save_alignment(layer, "aligned")
    assert stat.S_IMODE((folder / "zarr.json").stat().st_mode) == 0o640

    def refused(*args, **keywords):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folder_store, "replace_file", refused)
    with pytest.raises(AccessError, match="owner"):
        save_alignment(layer, "elsewhere")


@pytest.mark.default_cases("0.4")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_are_moved_with_their_image_where_they_state_a_position(
    tmp_path, monkeypatch, version
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "cells.ome.zarr"
    write_image(folder, shape=(1, 64, 64), version=version)
    model = ViewerModel()

    def open_all():
        model.layers.clear()
        for layer in get_reader(str(folder))(str(folder)):
            model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
        return model.layers[0]

    def corner(layer, at=(0, 0, 0)):
        return layer.data_to_world(at)

    image = open_all()
    aside = new_labels(image, "aside", sidecar=True)
    model.add_layer(aside)
    aside.data_setitem((np.array([0]), np.array([1]), np.array([1])), 5)
    assert aside.saver.save_now()
    unsaved = new_labels(image, "unsaved")
    model.add_layer(unsaved)
    image = open_all()
    model.add_layer(unsaved := new_labels(image, "unsaved"))
    unsaved.data_setitem((np.array([0]), np.array([2]), np.array([2])), 7)
    shift = np.eye(image.ndim + 1)
    shift[1, -1], shift[2, 2] = 50, 3
    image.affine = shift
    for _ in range(2):  # saved twice, moved once
        session_of(model).save_transform(image, "")
    seen = {layer.name: corner(layer) for layer in model.layers}
    assert unsaved.saver.save_now()
    for at in ((0, 0, 0), (0, 3, 5)):
        wanted = corner(image, at)
        open_all()
        assert len(model.layers) > 4
        for layer in model.layers:
            np.testing.assert_allclose(corner(layer, at), wanted, err_msg=layer.name)
    for layer in model.layers:
        np.testing.assert_allclose(corner(layer), seen[layer.name])


def corners(layer, last=(0, 3, 5)):
    return [layer.data_to_world(at) for at in ((0, 0, 0), last)]


def move(layer, along, scale=1.0):
    step = np.diag([1, scale, scale, 1.0])
    step[1:3, -1] = along
    layer.affine = step @ layer.affine.affine_matrix


@pytest.mark.default_cases("0.5")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_each_saved_position_moves_all_layers_of_the_image(tmp_path, version):
    """As the file is opened again, so it is seen, however often it was moved."""
    folder = tmp_path / "cells.ome.zarr"
    write_image(folder, shape=(1, 64, 64), version=version)

    def open_all():
        model = ViewerModel()
        for layer in get_reader(str(folder))(str(folder)):
            model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
        return model

    def save(layer):
        session_of(model).save_transform(layer, "")
        check()

    def check():
        for other in open_all().layers:
            wanted = corners(other)
            name = other.name
            np.testing.assert_allclose(
                corners(model.layers[name]), wanted, err_msg=name
            )

    def move(layer, along, scale=1.0):
        step = np.diag([1, scale, scale, 1.0])
        step[1:3, -1] = along
        layer.affine = step @ layer.affine.affine_matrix

    model = open_all()
    first, second = model.layers[0], model.layers[1]
    # By the mouse, twice; then by the scale, which napari has apart from it.
    move(first, (20, 50))
    save(first)
    move(first, (20, 20), scale=2)
    save(first)
    first.scale = np.array(first.scale) * (1, 2, 3)
    save(first)
    # Another channel has the position of the image, too.
    move(second, (-7, 9))
    save(second)
    # All at once, as layers that are selected together.
    for layer in model.layers:
        move(layer, (1, 2))
    save(first)
    # New labels, made while the image was moved, at a coarser level.
    move(first, (5, 5))
    model.add_layer(unsaved := new_labels(first, "unsaved", level=1))
    move(first, (6, 7))
    save(first)
    unsaved.data_setitem((np.array([0]), np.array([2]), np.array([2])), 7)
    seen = corners(unsaved)
    assert unsaved.saver.save_now()
    check()
    np.testing.assert_allclose(corners(open_all().layers["unsaved"]), seen)


def value_at(layer, point):
    """Value of the voxel that is seen at a point of the world."""
    index = np.round(layer.world_to_data(point)).astype(int)
    return int(np.asarray(layer.data[0][tuple(index)]))


@pytest.mark.default_cases("True")
@pytest.mark.parametrize("edited", [True, False])
def test_all_layers_of_an_image_are_shown_in_a_system_that_was_saved(tmp_path, edited):
    """A stroke over the moved image is saved in the rows of the image under it."""
    folder = tmp_path / "cells.ome.zarr"
    write_image(folder, shape=(1, 64, 64), version="0.6")
    model = ViewerModel()
    for layer in get_reader(str(folder))(str(folder)):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    image, labels = model.layers[0], model.layers["nuclei"]
    model.add_layer(unsaved := new_labels(image, "unsaved"))
    if edited:
        for layer in (labels, unsaved):
            layer.data_setitem((np.array([0]), np.array([9]), np.array([30])), 7)
    voxels = [(0, 9, 30), (0, 40, 13), (0, 22, 55)]
    start = [image.data_to_world(voxel) for voxel in voxels]
    before = {
        layer.name: [value_at(layer, point) for point in start]
        for layer in model.layers
    }
    assert len({*before["nuclei"]} | {*before[image.name]}) > 3
    session = session_of(model)
    turn = np.array([[1, 0, 0, 0], [0, 0.8, 0.6, 3], [0, -0.6, 0.8, 90], [0, 0, 0, 1]])

    def check(count):
        """All layers are seen where the image was turned to so many times."""
        moved = np.linalg.matrix_power(turn, count)
        points = [(moved @ (*point, 1))[:-1] for point in start]
        for layer in model.layers:
            found = [value_at(layer, point) for point in points]
            assert found == before[layer.name], (layer.name, count)

    # By 37° each: from the second on, images have y before x.
    for name, count in (("one", 1), ("two", 2), ("two", 3), ("two", 4), ("five", 5)):
        image.affine = turn @ image.affine.affine_matrix
        model.layers.selection.active = image
        path, left = session.save_transform(image, name)
        assert (path, left) == (str(folder / "zarr.json"), ())
        assert model.layers.selection.active is image
        check(count)
        assert {session.system_of(x) for x in model.layers} == {Reference("", name)}
    for name, count in (("intrinsic", 0), ("two", 4), ("one", 1), ("five", 5)):
        assert session.show_system(Reference("", name)) == ()
        check(count)
    labels, unsaved = model.layers["nuclei"], model.layers["unsaved"]
    for layer in (labels, unsaved):
        point = (*(np.linalg.matrix_power(turn, 5) @ (*start[2], 1))[:-1],)
        index = np.round(layer.world_to_data(point)).astype(int)
        layer.data_setitem(tuple(np.array([i]) for i in index), 9)
        assert layer.saver.save_now()
        saved = zarr.open_array(folder / "labels" / layer.name / "0")
        assert saved[voxels[2]] == 9
    before["nuclei"][2] = before["unsaved"][2] = 9
    for name, count in (("intrinsic", 0), ("two", 4)):
        assert session.show_system(Reference("", name)) == ()
        check(count)


def spoil(folder, damages):
    """Put unusable multiscales before the one that is there; return their number."""
    path = folder / ".zattrs" if (folder / ".zattrs").exists() else folder / "zarr.json"
    document = json.loads(path.read_text())
    ome = document if path.name == ".zattrs" else document["attributes"]["ome"]
    (good,) = ome["multiscales"]
    broken = {
        "outside": good | {"datasets": [{"path": "../0"}]},
        "empty": good | {"datasets": []},
        "null": None,
        "text": "0",
    }
    ome["multiscales"] = [*(broken[each] for each in damages), good, broken["empty"]]
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("version", ["0.4", "0.5", "0.6"])
@pytest.mark.parametrize(
    "damages", [["outside"], ["empty", "outside"], ["null"], ["text", "empty"], []]
)
def test_a_position_is_saved_into_the_multiscale_that_is_shown(
    tmp_path, version, damages
):
    folder = write(tmp_path / "a.zarr", version)
    spoil(folder, damages)
    before = ome_of(folder)["multiscales"]
    layer = opened(folder)[0]
    layer.affine = np.array([[2, 0, 5], [0, 4, 6], [0, 0, 1]])
    save_alignment(layer, "aligned")
    after = ome_of(folder)["multiscales"]
    shown = len(damages)
    assert after[:shown] == before[:shown]
    assert after[shown + 1 :] == before[shown + 1 :]
    model = ViewerModel()
    model.add_layer(opened(folder)[0])
    for system in session_of(model).systems():
        if system.name == "aligned":
            session_of(model).show_system(system)
    np.testing.assert_allclose(worlds(model.layers[0]), worlds(layer))


@pytest.mark.default_cases("damages0-0.4", "damages1-0.5", "damages2-0.4")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("damages", [["empty"], ["null", "outside"], []])
def test_labels_with_unusable_multiscales_move_with_their_image(
    tmp_path, version, damages
):
    folder = tmp_path / "cells.ome.zarr"
    write_image(folder, shape=(1, 64, 64), version=version)
    spoil(folder / "labels" / "cells", damages)
    layers = {layer.name: layer for layer in opened(folder)}
    image = next(iter(layers.values()))
    move(image, (20, 50))
    save_alignment(image, "")
    again = {layer.name: layer for layer in opened(folder)}
    assert len(again) == len(layers) > 1
    for layer in again.values():
        np.testing.assert_allclose(corners(layer), corners(image))
