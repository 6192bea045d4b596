"""New labels, painted and saved, as other libraries read them."""

import json
import shutil
import warnings

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from judges import container, read_by_ome_zarr, validate_models, validate_yaozarrs
from napari_ngff.cli import main
from napari_ngff.errors import UnsupportedError
from napari_ngff.labels import create_labels
from napari_ngff.plugin import get_reader
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import save_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image, write_plate, write_stack

VERSIONS = ["0.4", "0.5", "0.6"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for version in VERSIONS:
        write_image(folder / f"{version}.ome.zarr", version, shape=(2, 101, 150))
    write_stack(folder / "stack.ome.zarr", shape=(5, 64, 77))
    write_plate(folder / "plate.ome.zarr", grid=(1, 2), shape=(64, 64))
    write_image(folder / "old.ome.zarr", "0.3", shape=(64, 64))
    return folder


@pytest.fixture
def copy(samples, tmp_path):
    return lambda name: shutil.copytree(samples / name, tmp_path / name)


def layers_of(path):
    model = ViewerModel()
    for layer in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    return model


def painted(path, name="mine", **options):
    """Paint something on new labels for the first image of a place."""
    model = layers_of(path)
    layer = new_labels(model.layers[0], name, **options)
    model.add_layer(layer)
    shape = np.array(layer.data.shape)
    first = tuple((shape // 4).tolist())
    layer.brush_size = 21
    layer.selected_label = 3
    layer.paint(first, 3)
    layer.paint(tuple((shape * 2 // 3).tolist()), 300)
    return layer


def found(path, name="mine"):
    node = open_node(path).child(f"labels/{name}")
    multiscale = node.metadata.image.multiscales[0]
    where = f"{node.location.source.name}/{node.location.path}"
    arrays = [
        zarr.open_array(f"{where}/{one.path}", mode="r")[:] for one in multiscale.levels
    ]
    return multiscale, arrays


@pytest.mark.default_cases("0.4", "0.6")
@pytest.mark.parametrize("version", VERSIONS)
def test_labels_are_valid_and_hold_what_was_painted(copy, version, reported, capsys):
    path = copy(f"{version}.ome.zarr")
    before = open_node(path)
    layer = painted(path)
    assert layer.saver.save_now(), reported
    multiscale, arrays = found(path)
    whole = np.asarray(layer.data[0])
    np.testing.assert_array_equal(arrays[0], whole)
    assert set(np.unique(whole)) == {0, 3, 300}
    image = before.metadata.image.multiscales[0]
    assert len(arrays) == len(image.levels)
    assert multiscale.method == "mode"
    assert multiscale.axis_names == ("t", "y", "x")
    kept = [0, 2, 3]
    for mine, theirs in zip(multiscale.levels, image.levels, strict=True):
        np.testing.assert_allclose(mine.scale, [theirs.scale[i] for i in kept])
        np.testing.assert_allclose(
            mine.translation, [theirs.translation[i] for i in kept]
        )
    node = open_node(path)
    names = [label.name for label in node.labels().nodes]
    assert names == ["nuclei", "cells", "mine"]
    assert main(["check", str(path)]) == 0
    # It opens again, and the next save is incremental.
    again = layers_of(path).layers["mine"]
    assert (np.asarray(again.data[0]) == whole).all()
    again.paint((0, 5, 5), 9)
    assert again.saver.save_now()
    assert (found(path)[1][0][0, 5, 5]) == 9
    assert not list(path.rglob("*.aside"))


@pytest.mark.parametrize("version", VERSIONS)
def test_other_libraries_agree(copy, version, reported):
    path = copy(f"{version}.ome.zarr")
    layer = painted(path)
    assert layer.saver.save_now(), reported
    whole = np.asarray(layer.data[0])
    label = path / "labels/mine"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if version != "0.6":
            validate_models(label, version)
            validate_yaozarrs(path)
            assert (read_by_ome_zarr(label)["mine"][0] == whole).all()
            by_ngio = container(path)
            assert "mine" in by_ngio.list_labels()
            assert (by_ngio.get_label("mine").get_array() == whole).all()


def test_fields_of_plates_get_labels(copy, reported):
    path = copy("plate.ome.zarr")
    field = next(p.parent for p in path.rglob("labels"))
    layer = painted(field)
    assert layer.saver.save_now(), reported
    np.testing.assert_array_equal(found(field)[1][0], np.asarray(layer.data[0]))
    assert main(["check", str(path)]) == 0


def test_a_plate_overview_refuses_labels(copy):
    path = copy("plate.ome.zarr")
    for overview in (path, path / "A", path / "A/1"):
        with pytest.raises(UnsupportedError, match=r"^Labels on a plate overview can"):
            painted(overview)


def test_a_stack_and_its_finest_level(copy, reported):
    path = copy("stack.ome.zarr")
    layer = painted(path, level=1)
    assert layer.saver.save_now(), reported
    multiscale, arrays = found(path)
    image = open_node(path).metadata.image.multiscales[0]
    assert len(arrays) == len(image.levels)
    np.testing.assert_array_equal(arrays[0], np.asarray(layer.data[0]))
    np.testing.assert_allclose(multiscale.levels[0].scale, image.levels[1].scale[1:])
    assert main(["check", str(path)]) == 0


def test_a_taken_name_is_refused_and_a_free_one_offered(copy, reported):
    path = copy("0.5.ome.zarr")
    first, second = painted(path), painted(path)
    assert first.saver.save_now(), reported
    before = found(path)[1][0]
    assert not second.saver.save_now()
    assert "mine-2 is free" in reported[-1]
    assert "Rename the layer" in reported[-1]
    assert second.unsaved
    assert (found(path)[1][0] == before).all()
    second.name = "mine [1]"  # by napari, since there is another
    assert not second.saver.save_now()
    second.name = "mine-2"
    assert second.saver.save_now(), reported
    whole = np.asarray(second.data[0])
    np.testing.assert_array_equal(found(path, "mine-2")[1][0], whole)
    assert len([n.name for n in open_node(path).labels().nodes]) == 4


def test_labels_of_older_versions_go_to_a_sidecar(copy, reported, tmp_path):
    path = copy("old.ome.zarr")
    layer = painted(path)
    assert layer.saver.save_now(), reported
    assert not (path / "labels/mine").exists()
    assert main(["check", str(tmp_path / "old.labels.ome.zarr")]) == 0
    again = layers_of(path).layers["mine"]
    np.testing.assert_array_equal(np.asarray(again.data[0]), np.asarray(layer.data[0]))


@pytest.mark.parametrize("sidecar", [False, True])
def test_strokes_outside_of_the_image_alone_are_not_saved(copy, tmp_path, sidecar):
    path = copy("0.5.ome.zarr")
    model = layers_of(path)
    layer = new_labels(model.layers[0], "mine", sidecar=sidecar)
    model.add_layer(layer)
    layer.paint((0, -50, -50), 3)
    save_labels(layer)
    assert layer.saver.note == "No changes"
    assert not (path / "labels/mine").exists()
    assert not list(tmp_path.glob("*.labels.ome.zarr"))
    layer.paint((0, 20, 20), 3)
    save_labels(layer)
    assert (path / "labels/mine").exists() != sidecar
    assert layer.saver.note.startswith("Saved ")


def test_in_the_image_older_versions_are_advised_to_convert(copy):
    path = copy("old.ome.zarr")
    with pytest.raises(UnsupportedError, match=r"Convert it to 0\.4 or newer"):
        painted(path, sidecar=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_list_keeps_what_others_wrote(copy, version, reported):
    path = copy(f"{version}.ome.zarr")
    name = ".zattrs" if version == "0.4" else "zarr.json"
    document = path / "labels" / name
    content = json.loads(document.read_text())
    content["mine too"] = {"a": 1}
    document.write_text(json.dumps(content))
    assert painted(path).saver.save_now(), reported
    after = json.loads(document.read_text())
    home = after if version == "0.4" else after["attributes"]["ome"]
    assert home["labels"] == ["nuclei", "cells", "mine"]
    assert after["mine too"] == {"a": 1}


def test_the_first_labels_of_an_image_make_the_list(copy, reported):
    for version in VERSIONS:
        path = copy(f"{version}.ome.zarr")
        shutil.rmtree(path / "labels")
        assert painted(path).saver.save_now(), reported
        assert [n.name for n in open_node(path).labels().nodes] == ["mine"]
        assert main(["check", str(path)]) == 0


def test_an_interrupted_creation_is_no_label_and_does_not_hinder(
    copy, reported, monkeypatch
):
    path = copy("0.5.ome.zarr")

    def fail(self, _info):
        self.tree._lock.close()  # as the system does for a process that ends
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(create_labels.NewLabels, "register", fail)
    layer = painted(path)
    assert not layer.saver.save_now()
    assert layer.unsaved
    assert [n.name for n in open_node(path).labels().nodes] == ["nuclei", "cells"]
    monkeypatch.undo()
    other = painted(path)  # as after a crash: nobody knows of the first
    assert other.saver.save_now(), reported
    np.testing.assert_array_equal(found(path)[1][0], np.asarray(other.data[0]))


def scales_only(path, shape=(1000, 1003), levels=5):
    """Write an image whose levels state a scale and no translation, as many do."""
    pixels = np.zeros(shape, np.uint8)
    pixels[640:656, 320:336] = 200  # one voxel of level 4
    datasets = []
    for k in range(levels):
        part = pixels[:: 2**k, :: 2**k]
        zarr.create_array(path / str(k), data=part, dimension_names=["y", "x"])
        steps = [{"type": "scale", "scale": [0.5 * 2**k, 0.25 * 2**k]}]
        datasets.append({"path": str(k), "coordinateTransformations": steps})
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
    content = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    document = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"ome": content},
    }
    (path / "zarr.json").write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("left_out", ["2", "1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_labels_have_as_many_levels_as_their_image_states(
    copy, version, left_out, reported, capsys
):
    path = copy(f"{version}.ome.zarr")
    stated = len(open_node(path).metadata.image.multiscales[0].levels)
    shutil.rmtree(path / left_out)
    layer = painted(path)
    save_labels(layer)
    multiscale, arrays = found(path)
    assert len(multiscale.levels) == stated
    assert all((array == 300).any() for array in arrays)
    main(["check", str(path / "labels" / "mine")])
    assert "0 errors" in capsys.readouterr().out


def test_labels_of_a_coarse_level_stay_on_what_they_were_painted_on(tmp_path, reported):
    path = scales_only(tmp_path / "a.ome.zarr")
    model = layers_of(path)
    layer = new_labels(model.layers[0], "mine", level=4)
    model.add_layer(layer)
    spot = model.layers[0].data_to_world((647.5, 327.5))
    voxel = layer.world_to_data(spot)
    np.testing.assert_allclose(voxel, [40, 20], atol=1e-6)
    layer.brush_size = 1
    layer.paint((40, 20), 3)
    assert layer.saver.save_now(), reported
    again = layers_of(path).layers["mine"]
    np.testing.assert_allclose(again.data_to_world((40, 20)), spot)
    np.testing.assert_allclose(
        again.data_to_world((40, 20)), layer.data_to_world((40, 20))
    )
    assert np.asarray(again.data[0])[40, 20] == 3
    level = found(path)[0].levels[0]
    np.testing.assert_allclose(level.scale, [8, 4])
    np.testing.assert_allclose(level.translation, [3.75, 1.875])
    assert main(["check", str(path)]) == 0


def test_labels_of_a_level_that_a_flat_image_lacks(tmp_path, reported):
    path = scales_only(tmp_path / "a.ome.zarr", (1500, 1501), levels=1)
    layer = painted(path, level=1)
    assert layer.saver.save_now(), reported
    level = found(path)[0].levels[0]
    np.testing.assert_allclose(level.scale, [1, 0.5], rtol=1e-2)
    again = layers_of(path).layers["mine"]
    np.testing.assert_allclose(again.data_to_world((7, 9)), layer.data_to_world((7, 9)))


@pytest.mark.parametrize("dtype", ["bool", "complex64"])
def test_labels_of_an_image_that_is_shown_as_other_numbers(tmp_path, reported, dtype):
    path = scales_only(tmp_path / "a.ome.zarr", (64, 65), levels=2)
    for k in range(2):
        shutil.rmtree(path / str(k))
        pixels = (np.arange(64 * 65).reshape(64, 65) % 3)[:: 2**k, :: 2**k]
        zarr.create_array(
            path / str(k), data=pixels.astype(dtype), dimension_names=["y", "x"]
        )
    shown = np.asarray(layers_of(path).layers[0].data[0])
    assert shown.dtype == {"bool": "uint8", "complex64": "float32"}[dtype]
    assert shown[0, :4].tolist() == ([0, 1, 1, 0] if dtype == "bool" else [0, 1, 2, 0])
    layer = painted(path)
    assert layer.saver.save_now(), reported
    whole = np.asarray(layer.data[0])
    assert whole.any()
    np.testing.assert_array_equal(found(path)[1][0], whole)
