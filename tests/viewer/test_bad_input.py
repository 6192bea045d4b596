"""Broken, hostile and odd files: a clear message or the readable rest, never more."""

import contextlib
import json
import os
import shutil
import struct
import tempfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import napari.layers
import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.settings import get_settings
from napari.utils.notifications import notification_manager

from napari_ngff.cli import main
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.bridge.work_region import work_here
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.reader import get_reader, read_paths

VERSIONS = ("0.4", "0.5")


def document(folder, version="0.5"):
    return folder / ("zarr.json" if version == "0.5" else ".zattrs")


def write_group(folder, attributes, version="0.5"):
    """Write the attributes as given; of 0.5, those under "ome"."""
    folder.mkdir(parents=True, exist_ok=True)
    if version != "0.5":
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        document(folder, version).write_text(json.dumps(attributes))
        return
    home = {"version": "0.5", **attributes}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": home}}
    document(folder).write_text(json.dumps(group))


def multiscale(names="yx", paths=("0",), **more):
    types = {"t": "time", "c": "channel"}
    axes = [{"name": name, "type": types.get(name, "space")} for name in names]
    datasets = []
    for i, path in enumerate(paths):
        scale = [float(2**i) if name in "yx" else 1.0 for name in names]
        transform = {"type": "scale", "scale": scale}
        datasets.append({"path": path, "coordinateTransformations": [transform]})
    return {"axes": axes, "datasets": datasets, **more}


def write_image(folder, *levels, names=None, version="0.5", chunks=None, **more):
    """Write an image; levels at "0", "1"..., chunked 16 by 16."""
    names = names or "tczyx"[-levels[0].ndim :]
    paths = [str(i) for i in range(len(levels))]
    home = {"multiscales": [multiscale(names, paths)], **more}
    if version != "0.5":
        home["multiscales"][0]["version"] = version
    write_group(folder, home, version)
    for path, level in zip(paths, levels, strict=True):
        write_array(folder / path, level, version, chunks)
    return folder


def write_array(folder, data, version="0.5", chunks=None):
    array = zarr.create_array(
        str(folder),
        shape=data.shape,
        dtype=data.dtype,
        chunks=chunks or tuple(min(16, max(1, n)) for n in data.shape),
        zarr_format=3 if version == "0.5" else 2,
    )
    array[...] = data


def pixels(*shape, dtype="u2"):
    return np.arange(1, 1 + np.prod(shape, dtype=int)).astype(dtype).reshape(shape)


def data_of(layer, level=0):
    return np.asarray(layer.data[level] if layer.multiscale else layer.data)


def build(path):
    """Read, and make the layers as napari would."""
    return [napari.layers.Layer.create(*layer) for layer in read_paths(str(path))]


@pytest.fixture
def notes():
    """Give what is reported to the user from now on."""
    seen = len(notification_manager.records)
    return lambda: [str(r.message) for r in notification_manager.records[seen:]]


def refused(path, capsys, words=""):
    """Check that a path cannot be opened and that the user learns why."""
    with pytest.raises(OMEZarrError) as raised:
        read_paths(str(path))
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 1500
    assert words in message
    capsys.readouterr()
    assert main(["info", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("napari-ngff: ")
    assert printed.err.count("\n") == 1
    return message


def described(path, capsys):
    """Describe what can be opened on the command line."""
    capsys.readouterr()
    assert main(["info", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


@contextlib.contextmanager
def as_stranger():
    """Run as a user to whom permissions apply; root is not one."""
    if not hasattr(os, "setresuid"):
        pytest.skip("no user ids here")
    if os.getuid() != 0:
        yield
        return
    get_settings()  # napari reads them once, from a file that only root may read
    home = Path(os.environ["XDG_DATA_HOME"])
    for folder in (home, home.parent):
        folder.chmod(0o755)  # everybody may look for notes in his own
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


# -------- metadata that cannot be read --------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda raw: raw[: len(raw) // 2], id="truncated"),
        pytest.param(lambda raw: b"", id="nothing"),
        pytest.param(lambda raw: b"[" + raw + b"]", id="list"),
        pytest.param(lambda raw: b"null", id="null"),
        pytest.param(lambda raw: b"[" * 100_000, id="brackets"),
        pytest.param(
            lambda raw: b'{"attributes":' * 100_000 + b"1" + b"}" * 100_000, id="deep"
        ),
        pytest.param(lambda raw: raw.replace(b"0.5", b"\xff\xfe"), id="no-utf8"),
        pytest.param(lambda raw: b"\0" * 4096, id="zeros"),
        pytest.param(lambda raw: b'{"multiscales":' + b"9" * 9999 + b"}", id="number"),
    ],
)
def test_metadata_is_damaged(tmp_path, capsys, version, damage):
    root = write_image(tmp_path / "a.zarr", pixels(20, 20), version=version)
    raw = document(root, version).read_bytes()
    raw = raw.replace(b"space", b"0.5", 1)
    document(root, version).write_bytes(damage(raw))
    assert str(document(root, version)) in refused(root, capsys)
    # It looks like OME-Zarr: the reader is offered, and explains.
    assert get_reader(str(root)) is not None


@pytest.mark.parametrize(
    "attributes",
    [
        [],
        "text",
        None,
        {"ome": []},
        {"ome": {"version": "0.5", "multiscales": 7}},
        {"ome": {"version": "0.5", "multiscales": [[]]}},
        {"ome": {"version": "0.5", "plate": "no"}},
        {"ome": {"version": "0.5", "plate": {}}},
        {"ome": {"version": "0.5", "well": {"images": [None]}}},
        {"ome": {"version": "0.5", "labels": {}}},
        {"ome": {"version": "0.5", "labels": []}},
        {"ome": {"version": "0.5", "scene": []}},
        {"ome": {"version": "0.5", "scene": {"coordinateTransformations": 5}}},
        {"ome": {"version": "0.6", "scene": {"coordinateTransformations": [5]}}},
        {
            "ome": {
                "version": "0.6",
                "scene": {
                    "coordinateTransformations": [{"input": {"path": "a\x00\ud800"}}]
                },
            }
        },
        {"ome": {"version": "0.5", "series": [5]}},
        {"ome": {"version": "0.5", "bioformats2raw.layout": 3}},
    ],
)
def test_attributes_have_another_form(tmp_path, capsys, attributes):
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    document(folder).write_text(json.dumps(group))
    with pytest.raises(OMEZarrError) as raised:
        read_paths(str(folder))
    assert str(folder) in str(raised.value)
    assert main(["info", str(folder)]) in (0, 1)
    assert main(["tree", str(folder)]) in (0, 1)


def test_ten_megabytes_of_attributes_open(tmp_path, capsys):
    values = range(60_000, 80_000)
    properties = [{"label-value": v, "class": "x" * 400, "area": v} for v in values]
    colors = [{"label-value": v, "rgba": [v % 256, 0, 0, 255]} for v in values]
    info = {"colors": colors, "properties": properties}
    root = write_image(tmp_path / "a.zarr", pixels(20, 20), **{"image-label": info})
    assert document(root).stat().st_size > 9e6
    (layer,) = build(root)
    assert len(layer.features) == len(values)
    described(root, capsys)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.mkdir(), id="empty-folder"),
        pytest.param(lambda path: None, id="nothing"),
        pytest.param(lambda path: path.write_bytes(b"MZ" * 100), id="file"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty-file"),
        pytest.param(
            lambda path: path.symlink_to(path.with_name("gone")), id="broken-link"
        ),
        pytest.param(lambda path: path.symlink_to(path), id="link-to-itself"),
        pytest.param(
            lambda path: zarr.create_group(str(path)) and None, id="no-metadata"
        ),
        pytest.param(
            lambda path: (
                zarr.create_array(str(path), shape=(4, 4), dtype="u1") and None
            ),
            id="array",
        ),
    ],
)
@pytest.mark.parametrize("suffix", [".zarr", ".ozx", ""])
def test_no_ome_zarr_is_there(tmp_path, capsys, make, suffix):
    path = tmp_path / f"place{suffix}"
    make(path)
    assert "place" in refused(path, capsys)


@pytest.mark.parametrize("path", ["a" * 5000, "a/" * 3000, "a\0b", "\ud800", " ", "~"])
def test_names_that_no_file_can_have(capsys, path):
    with pytest.raises(OMEZarrError):
        read_paths(path)
    assert main(["info", path]) == 1


# -------- out of bounds --------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("climb", ["../secret", "x/../../secret", "{}", "..\\secret"])
def test_arrays_outside_of_the_image_are_not_read(
    tmp_path, capsys, notes, version, climb
):
    write_array(tmp_path / "secret", pixels(20, 20), version)
    path = climb.format(tmp_path / "secret")
    root = tmp_path / "a.zarr"
    write_group(root, {"multiscales": [multiscale(paths=[path])]}, version)
    with pytest.raises(OMEZarrError, match=r"a\.zarr"):
        read_paths(str(root))
    assert "path-" in described(root, capsys)
    # Beside a good one only the good one is shown.
    write_array(root / "0", pixels(20, 20) * 0 + 3, version)
    write_group(root, {"multiscales": [multiscale(paths=["0", path])]}, version)
    (layer,) = build(root)
    assert (data_of(layer) == 3).all()
    assert not layer.multiscale


@pytest.mark.parametrize("climb", ["../../secret", "{}"])
def test_labels_wells_and_fields_outside_are_not_read(tmp_path, climb):
    secret = write_image(tmp_path / "secret", pixels(20, 20))
    path = climb.format(secret)
    root = write_image(tmp_path / "a.zarr", pixels(20, 20))
    write_group(root / "labels", {"labels": [path]})
    assert [layer.name for layer in build(root)] == ["a"]
    write_group(tmp_path / "well.zarr", {"well": {"images": [{"path": path}]}})
    with pytest.raises(OMEZarrError):
        read_paths(str(tmp_path / "well.zarr"))
    wells = [{"path": path, "rowIndex": 0, "columnIndex": 0}]
    plate = {"rows": [{"name": "A"}], "columns": [{"name": "1"}], "wells": wells}
    write_group(tmp_path / "plate.zarr", {"plate": plate})
    with pytest.raises(OMEZarrError):
        read_paths(str(tmp_path / "plate.zarr"))
    ends = {"input": {"path": path, "name": "a"}, "output": {"name": "b"}}
    scene = {"coordinateTransformations": [ends]}
    write_group(tmp_path / "scene.zarr", {"version": "0.6", "scene": scene})
    with pytest.raises(OMEZarrError):
        read_paths(str(tmp_path / "scene.zarr"))


@pytest.mark.parametrize("source", ["../../../secret", "\0", "\ud800", "a" * 5000, ""])
def test_source_of_a_label_that_leads_nowhere(tmp_path, source):
    write_image(tmp_path / "secret", pixels(20, 20))
    info = {"source": {"image": source}}
    root = write_image(tmp_path / "a.zarr", pixels(20, 20), **{"image-label": info})
    (layer,) = build(root)
    np.testing.assert_array_equal(data_of(layer), pixels(20, 20))


# -------- archives --------


def zip_with(path, compressed, claimed):
    """Write an archive whose zarr.json is a deflate stream that claims a size."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zarr.json", compressed)
    raw = bytearray(path.read_bytes())
    central = raw.index(b"PK\x01\x02")
    for at in (8, central + 10):
        struct.pack_into("<H", raw, at, zipfile.ZIP_DEFLATED)
    for at in (22, central + 24):
        struct.pack_into("<I", raw, at, claimed)
    path.write_bytes(raw)


def encrypt(path, name):
    """Set the flag of one entry that says that it is encrypted."""
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo(name).header_offset
    raw = bytearray(path.read_bytes())
    raw[place + 6] |= 1
    at = raw.index(b"PK\x01\x02")
    while raw[at + 46 : at + 46 + len(name)] != name.encode():
        at = raw.index(b"PK\x01\x02", at + 1)
    raw[at + 8] |= 1
    path.write_bytes(raw)


@pytest.fixture
def archive(tmp_path):
    """An archive of an image of four chunks, and two label images."""
    root = write_image(tmp_path / "a.zarr", pixels(32, 32), pixels(16, 16))
    write_group(root / "labels", {"labels": ["cells", "nuclei"]})
    for name in ("cells", "nuclei"):
        levels = pixels(32, 32), pixels(16, 16)
        write_image(root / "labels" / name, *levels, **{"image-label": {}})
    return pack_hierarchy(root, tmp_path / "a.ozx")


def test_one_encrypted_chunk_leaves_the_rest_of_an_archive(archive, notes, capsys):
    encrypt(archive, "0/c/0/1")
    layers = build(archive)
    assert [layer.name for layer in layers] == ["a", "cells", "nuclei"]
    expected = pixels(32, 32)
    expected[:16, 16:] = 0
    np.testing.assert_array_equal(data_of(layers[0]), expected)
    np.testing.assert_array_equal(data_of(layers[0], 1), pixels(16, 16))
    np.testing.assert_array_equal(data_of(layers[1]), pixels(32, 32))
    assert any("0/c/0/1" in note and "encrypted" in note for note in notes())
    assert main(["info", str(archive)]) == 0
    capsys.readouterr()
    main(["check", str(archive)])
    assert "Traceback" not in capsys.readouterr().out


def test_one_encrypted_document_leaves_the_rest_of_an_archive(archive, notes, capsys):
    encrypt(archive, "labels/cells/zarr.json")
    layers = build(archive)
    assert [layer.name for layer in layers] == ["a", "nuclei"]
    np.testing.assert_array_equal(data_of(layers[0]), pixels(32, 32))
    np.testing.assert_array_equal(data_of(layers[1]), pixels(32, 32))
    assert any("labels/cells" in note and "encrypted" in note for note in notes())
    assert main(["check", str(archive)]) == 1
    printed = capsys.readouterr().out
    assert "node-unreadable" in printed
    assert "encrypted" in printed


def test_labels_of_an_archive_with_an_encrypted_entry_stay_unsaved(archive, reported):
    encrypt(archive, "0/c/0/1")
    before = archive.read_bytes()
    opened = get_reader(str(archive))(str(archive))
    layers = [as_layer(one) if isinstance(one, tuple) else one for one in opened]
    layers[1].paint((3, 3), 7)
    assert not layers[1].saver.save_now()
    assert layers[1].unsaved
    assert any("encrypted" in str(message) for message in reported)
    assert archive.read_bytes() == before


@pytest.mark.parametrize("claimed", [1200 << 20, 100])
def test_zip_bomb_is_not_inflated(tmp_path, capsys, claimed):
    # After a full flush the deflate stream of a megabyte may be repeated.
    deflate = zlib.compressobj(wbits=-15)
    deflate.compress(b"")
    block = deflate.compress(b" " * 2**20) + deflate.flush(zlib.Z_FULL_FLUSH)
    zip_with(tmp_path / "a.ozx", block * 1200 + deflate.flush(), claimed)
    tracemalloc.start()
    try:
        refused(tmp_path / "a.ozx", capsys, "a.ozx")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_cut_archives(tmp_path, capsys, keep):
    root = write_image(tmp_path / "a.zarr", pixels(40, 40))
    path = tmp_path / "a.ozx"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(root.rglob("*"), key=lambda f: f.name != "zarr.json"):
            if file.is_file():
                archive.write(file, file.relative_to(root).as_posix())
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep)])
    refused(path, capsys, "a.ozx")


# -------- not allowed --------


@pytest.fixture
def open_path():
    """Give a folder that others may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize("closed", ["", "zarr.json", "0", "0/zarr.json"])
def test_no_permission(open_path, capsys, closed):
    root = write_image(open_path / "a.zarr", pixels(20, 20))
    read_paths(str(root))  # imports what it needs
    (root / closed).chmod(0)
    try:
        with as_stranger():
            with pytest.raises(OMEZarrError, match=r"[Pp]ermission") as raised:
                read_paths(str(root))
            # Of an image without pixels at least the metadata is shown.
            assert main(["info", str(root)]) == int("0" not in closed)
    finally:
        (root / closed).chmod(0o755)
    assert str(root / closed) in str(raised.value)
    assert "ermission" in "".join(capsys.readouterr())


def test_no_permission_for_a_chunk(open_path, notes):
    root = write_image(open_path / "a.zarr", pixels(20, 20))
    (root / "0/c/0/0").chmod(0)
    with as_stranger():
        (layer,) = build(root)
        shown = data_of(layer)
    assert (shown[:16, :16] == 0).all()
    np.testing.assert_array_equal(shown[:, 16:], pixels(20, 20)[:, 16:])
    (note,) = notes()
    assert "ermission" in note


# -------- broken while open --------


@pytest.mark.parametrize("version", VERSIONS)
def test_folder_is_deleted_while_open(tmp_path, notes, version):
    data = pixels(5, 40, 40)
    root = write_image(
        tmp_path / "a.zarr",
        data,
        data[:, ::2, ::2],
        names="zyx",
        version=version,
        chunks=(1, 16, 16),
    )
    viewer = ViewerModel()
    for layer in read_paths(str(root)):
        viewer.add_layer(napari.layers.Layer.create(*layer))
    viewer.dims.set_current_step(0, 0)
    assert notes() == []
    shutil.rmtree(root)
    for step in range(1, 5):
        viewer.dims.set_current_step(0, step)
    assert viewer.layers[0].get_value((4.0, 3.0, 3.0), world=True) is not None
    assert str(root) in notes()[0]
    assert len(notes()) <= 2


def damaged_chunk(root, version):
    chunk = root / ("0/c/0/1/0" if version == "0.5" else "0/0.1.0")
    assert chunk.exists()
    chunk.write_bytes(b"\x07garbage" * 9)
    return chunk


@pytest.mark.parametrize("version", VERSIONS)
def test_corrupt_chunk_is_named_once_and_the_rest_is_right(tmp_path, notes, version):
    data = pixels(2, 40, 40)
    root = write_image(
        tmp_path / "a.zarr", data, names="zyx", version=version, chunks=(1, 16, 16)
    )
    chunk = damaged_chunk(root, version)
    viewer = ViewerModel()
    for layer in read_paths(str(root)):
        viewer.add_layer(napari.layers.Layer.create(*layer))
    viewer.dims.set_current_step(0, 0)
    data[0, 16:32, :16] = 0
    for _ in range(2):
        np.testing.assert_array_equal(data_of(viewer.layers[0]), data)
    viewer.dims.set_current_step(0, 1)
    (note,) = notes()
    assert str(chunk) in note


def test_unreadable_codec(tmp_path, capsys):
    root = write_image(tmp_path / "a.zarr", pixels(20, 20), pixels(10, 10))
    path = root / "0/zarr.json"
    array = json.loads(path.read_text())
    array["codecs"] = [{"name": "example.magic", "configuration": {"level": 3}}]
    path.write_text(json.dumps(array))
    (layer,) = build(root)  # the coarser level is left
    np.testing.assert_array_equal(data_of(layer), pixels(10, 10))
    assert "example.magic" in described(root, capsys)
    shutil.rmtree(root / "1")
    with pytest.raises(OMEZarrError, match=r"example\.magic"):
        read_paths(str(root))


# -------- odd arrays --------


@pytest.mark.parametrize("last", [3, 4])
def test_a_last_axis_of_three_or_four_is_no_colour(tmp_path, last):
    image = pixels(40, 50, last)
    root = write_image(tmp_path / "a.zarr", image, image[::2, ::2], names="zyx")
    (layer,) = build(root)
    assert not layer.rgb
    assert layer.ndim == 3
    np.testing.assert_array_equal(data_of(layer), image)
    part = work_here(layer, ((0, 40), (0, 50), (0, last)))
    assert not part.rgb
    np.testing.assert_array_equal(np.asarray(part.data), image)


def test_float_labels_are_shown_rounded(tmp_path, notes):
    root = write_image(tmp_path / "a.zarr", pixels(20, 20))
    write_group(root / "labels", {"labels": ["cells", "nuclei"]})
    floats = pixels(20, 20, dtype="f4")
    write_image(root / "labels/cells", floats, **{"image-label": {}})
    write_image(root / "labels/nuclei", pixels(20, 20), **{"image-label": {}})
    layers = build(root)
    assert [layer.name for layer in layers] == ["a", "cells", "nuclei"]
    np.testing.assert_array_equal(data_of(layers[1]), pixels(20, 20))
    (note,) = notes()
    assert "cells" in note
    assert "float32" in note


def test_complex_image_shows_magnitude(tmp_path):
    data = pixels(20, 20) * (3 + 4j)
    (layer,) = build(write_image(tmp_path / "a.zarr", data.astype("c8")))
    np.testing.assert_allclose(data_of(layer), 5 * pixels(20, 20), rtol=1e-6)


def test_sizes_that_grow_along_the_levels(tmp_path, capsys):
    levels = [pixels(10, 10), pixels(20, 20), pixels(5, 40)]
    home = multiscale(paths="012")
    for dataset, size in zip(home["datasets"], (2.0, 1.0, 4.0), strict=True):
        dataset["coordinateTransformations"][0]["scale"] = [size, size]
    root = write_image(tmp_path / "a.zarr", *levels, multiscales=[home])
    (layer,) = build(root)
    assert [level.shape for level in layer.data] == [(20, 20), (10, 10)]
    # The place of the finest one is its own, not that of the first listed.
    np.testing.assert_allclose(layer.scale, (1, 1))
    printed = described(root, capsys)
    assert "levels-unordered" in printed
    assert "level-grows" in printed


def test_levels_that_grow_though_their_voxels_do_are_left_out(tmp_path, capsys, notes):
    """As coarser levels padded to whole chunks are."""
    levels = [pixels(10, 10), pixels(20, 20), pixels(5, 40)]
    root = write_image(tmp_path / "a.zarr", *levels)
    (layer,) = build(root)
    np.testing.assert_array_equal(data_of(layer), pixels(10, 10))
    np.testing.assert_allclose(layer.scale, (1, 1))
    (note,) = notes()
    assert note.startswith("Opened with 2 notes.")
    assert "(20, 20) grows against the finer level's (10, 10)" in note
    printed = described(root, capsys)
    assert printed.count("level-grows") == 2
    assert "levels-unordered" not in printed


def test_labels_say_which_levels_a_save_leaves(tmp_path, notes, reported):
    root = write_image(tmp_path / "a.zarr", pixels(20, 40), pixels(10, 20))
    write_group(root / "labels", {"labels": ["cells"]})
    padded = np.zeros((32, 32), "u2")
    info = {"image-label": {}}
    write_image(root / "labels/cells", pixels(20, 40), padded, **info)
    opened = get_reader(str(root))(str(root))
    layers = [as_layer(one) if isinstance(one, tuple) else one for one in opened]
    assert any(
        "labels/cells: level 1 is left out. Saving labels does not change" in note
        for note in notes()
    )
    layers[1].paint((15, 30), 9)
    assert layers[1].saver.save_now(), reported
    found = [zarr.open_array(root / f"labels/cells/{k}")[...] for k in (0, 1)]
    assert found[0][15, 30] == 9
    assert not found[1].any()


@pytest.mark.parametrize("shape", [(7,), (), (0, 5), (3, 0, 5)])
def test_arrays_that_are_no_picture(tmp_path, capsys, shape):
    data = pixels(*shape)
    names = "tczyx"[5 - len(shape) :]
    refused_by_reader = write_image(tmp_path / "a.zarr", data, names=names)
    with pytest.raises(OMEZarrError):
        read_paths(str(refused_by_reader))
    assert main(["info", str(refused_by_reader)]) == 0
    assert "image" in capsys.readouterr().out


def test_six_axes(tmp_path):
    data = pixels(2, 2, 2, 2, 20, 20)
    (layer, _) = build(write_image(tmp_path / "a.zarr", data, names="atczyx"))
    assert layer.axis_labels == tuple("atzyx")
    np.testing.assert_array_equal(data_of(layer), data[:, :, 0])


@pytest.mark.parametrize("dtype", ["S4", "M8[s]", "V3"])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_types_that_are_no_numbers(tmp_path, dtype):
    data = np.zeros((20, 20), dtype)
    root = write_image(tmp_path / "a.zarr", data, version="0.4")
    with pytest.raises(OMEZarrError, match=r"cannot be shown|No level"):
        read_paths(str(root))


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">u2"]
)
def test_types_that_are_numbers(tmp_path, dtype):
    data = (pixels(20, 20) % 2).astype(dtype)
    data[3, 3] = 1
    (layer,) = build(write_image(tmp_path / "a.zarr", data, version="0.4"))
    np.testing.assert_array_equal(data_of(layer), data.astype(layer.dtype))


def test_values_that_are_no_numbers(tmp_path):
    data = np.full((20, 20), np.nan, "f4")
    data[0, 0], data[0, 1] = np.inf, -np.inf
    viewer = ViewerModel()
    for layer in read_paths(str(write_image(tmp_path / "a.zarr", data))):
        viewer.add_layer(napari.layers.Layer.create(*layer))
    low, high = viewer.layers[0].contrast_limits
    assert low < high


# -------- odd settings --------

TWO = {"names": "cyx"}


def channel(**more):
    window = {"start": 10, "end": 200, "min": 0, "max": 255}
    return {"label": "DNA", "color": "00FF00", "active": True, "window": window} | more


@pytest.mark.parametrize(
    ("channels", "count"),
    [
        ([], 2),
        ([channel()], 2),
        ([channel()] * 5, 2),
        ([channel(), {}], 2),
        ([{}, channel(color=None)], 2),
        ([channel(color="no colour"), channel(color=5)], 2),
        ([channel(color=""), channel(label="")], 2),
        ([None, 7], 2),
        ({}, 2),
        ("no list", 2),
        ([channel(active=False)] * 2, 2),
        ([channel(inverted=True), channel(active="yes")], 2),
    ],
)
def test_channels_that_do_not_fit(tmp_path, channels, count):
    data = pixels(2, 20, 20)
    omero = {"channels": channels}
    layers = build(write_image(tmp_path / "a.zarr", data, names="cyx", omero=omero))
    assert len(layers) == count
    for i, layer in enumerate(layers):
        np.testing.assert_array_equal(data_of(layer), data[i])
    assert any(layer.visible for layer in layers)
    assert len({layer.name for layer in layers}) in (1, count)


@pytest.mark.parametrize(
    "window",
    [
        {"start": 200, "end": 10, "min": 0, "max": 255},
        {"start": 5, "end": 5, "min": 0, "max": 255},
        {"start": 0, "end": 300, "min": 10, "max": 20},
        {"start": 0, "end": 1e400, "min": 0, "max": 255},
        {"start": "0", "end": [], "min": None, "max": 255},
        {"start": 0, "end": 100, "min": 50, "max": 50},
        {"start": 0, "end": 100},
        {"min": 0, "max": 100},
        {"start": -1e38, "end": 1e38, "min": -1e38, "max": 1e38},
        {"start": 1, "end": 1.0000000000000002},
        {},
        [],
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_contrast_that_makes_no_sense(tmp_path, window, dtype):
    omero = {"channels": [channel(window=window)]}
    root = write_image(tmp_path / "a.zarr", pixels(20, 20, dtype=dtype), omero=omero)
    viewer = ViewerModel()
    for layer in read_paths(str(root)):
        viewer.add_layer(napari.layers.Layer.create(*layer))
    layer = viewer.layers[0]
    low, high = layer.contrast_limits
    assert np.isfinite([low, high]).all()
    assert low < high
    assert layer.contrast_limits_range[0] <= low < high
    assert high <= layer.contrast_limits_range[1]


@pytest.mark.parametrize(
    "unit", ["a.u.", "smoot", "", 5, None, "µm", "pixel", "meters"]
)
def test_unknown_units(tmp_path, unit):
    root = tmp_path / "a.zarr"
    home = multiscale()
    home["axes"][0]["unit"] = unit
    home["axes"][1]["unit"] = "micrometer"
    write_group(root, {"multiscales": [home]})
    write_array(root / "0", pixels(20, 20))
    (layer,) = build(root)
    assert str(layer.units[1]) == "micrometer"
    # What people write is read; what has no meaning is no unit.
    known = dict.fromkeys(["µm", "meters"], "micrometer")
    assert str(layer.units[0]) == known.get(unit, "pixel")
    assert layer.scale[0] / layer.scale[1] == (1e6 if unit == "meters" else 1)


@pytest.mark.parametrize(
    "transformations",
    [
        [{"type": "scale", "scale": [0, 0]}],
        [{"type": "scale", "scale": [-0.5, 0.5]}],
        [{"type": "scale", "scale": [1e-320, 1]}],
        [{"type": "scale", "scale": [1e300, 1]}] * 3,
        [{"type": "scale", "scale": [1]}],
        [{"type": "scale", "scale": [1, 2, 3, 4]}],
        [{"type": "scale", "scale": ["1", None]}],
        [{"type": "scale", "path": "scales"}],
        [{"type": "translation", "translation": [1e308, 1]}] * 2,
        [{"type": "affine", "affine": [[1, 0, 0], [0, 1, 0]]}],
        [{"type": "sequence", "transformations": [{"type": "scale", "scale": [2, 2]}]}],
        [None, 5, []],
        {},
        "none",
    ],
)
def test_odd_transformations(tmp_path, transformations):
    root = tmp_path / "a.zarr"
    home = multiscale(paths=["0", "1"])
    home["datasets"][0]["coordinateTransformations"] = transformations
    write_group(root, {"multiscales": [home]})
    write_array(root / "0", pixels(20, 20))
    write_array(root / "1", pixels(10, 10))
    (layer,) = build(root)
    np.testing.assert_array_equal(data_of(layer), pixels(20, 20))
    viewer = ViewerModel()
    viewer.add_layer(layer)
    assert np.isfinite(layer.scale).all()
    assert np.all(layer.scale)
    assert np.isfinite(layer.extent.world).all()


def test_axes_of_the_same_name(tmp_path):
    root = tmp_path / "a.zarr"
    write_group(root, {"multiscales": [multiscale("xxx")]})
    write_array(root / "0", pixels(3, 20, 20))
    (layer,) = build(root)
    assert len(set(layer.axis_labels)) == 3


def test_two_channel_axes(tmp_path):
    root = tmp_path / "a.zarr"
    home = multiscale("ccyx")
    home["axes"][1]["name"] = "d"
    write_group(root, {"multiscales": [home]})
    data = pixels(2, 3, 20, 20)
    write_array(root / "0", data)
    layers = build(root)
    for i, layer in enumerate(layers):
        np.testing.assert_array_equal(data_of(layer), data[i])
    assert len(layers) == 2


# -------- odd hierarchies --------


def test_missing_label_is_named_and_the_rest_is_shown(tmp_path, capsys, notes):
    root = write_image(tmp_path / "a.zarr", pixels(20, 20))
    write_group(root / "labels", {"labels": ["gone", "cells"]})
    write_image(root / "labels/cells", pixels(20, 20), **{"image-label": {}})
    assert [layer.name for layer in build(root)] == ["a", "cells"]
    (note,) = notes()
    listed = "gone is listed in a.zarr/labels but does not exist."
    assert f"{listed} Remove it from the list, or restore it." in note
    assert "labels/gone" in described(root, capsys)


def test_broken_label_is_named_and_the_rest_is_shown(tmp_path, notes):
    root = write_image(tmp_path / "a.zarr", pixels(20, 20))
    write_group(root / "labels", {"labels": ["bad", "worse", "cells"]})
    (root / "labels/bad").mkdir()
    document(root / "labels/bad").write_text("{")
    write_group(root / "labels/worse", {"multiscales": [multiscale()]})
    write_image(root / "labels/cells", pixels(20, 20), **{"image-label": {}})
    assert [layer.name for layer in build(root)] == ["a", "cells"]
    (note,) = notes()
    assert "labels/bad" in note
    assert "labels/worse" in note


def test_labels_list_that_is_broken(tmp_path, notes):
    root = write_image(tmp_path / "a.zarr", pixels(20, 20))
    (root / "labels").mkdir()
    document(root / "labels").write_text("[")
    assert [layer.name for layer in build(root)] == ["a"]
    assert "labels" in notes()[0]


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3", "0.4"])
def test_unlisted_labels(tmp_path, version):
    data = pixels(1, 1, 1, 20, 20)
    root = write_image(tmp_path / "a.zarr", data, names="tczyx", version=version)
    write_group(root / "labels", {"labels": ["cells"]}, version)
    for name in ("cells", "more"):
        info = {"image-label": {"version": version}}
        write_image(root / "labels" / name, data, version=version, **info)
    (root / "labels/notes.txt").write_text("no label")
    (root / "labels/empty").mkdir()
    names = [layer.name for layer in build(root)]
    # "This list SHOULD ... unlisted groups MAY be labels", until 0.4.
    assert names == ["a", "cells", *(["more"] if version != "0.4" else [])]


def write_plate(root, there, listed, version="0.5"):
    wells = [
        {"path": name, "rowIndex": "AB".index(name[0]), "columnIndex": int(name[2]) - 1}
        for name in listed
    ]
    plate = {
        "rows": [{"name": "A"}, {"name": "B"}],
        "columns": [{"name": "1"}, {"name": "2"}],
        "wells": wells,
    }
    write_group(root, {"plate": plate}, version)
    for i, name in enumerate(there):
        write_group(root / name, {"well": {"images": [{"path": "0"}]}}, version)
        data = np.full((20, 20), i + 1, "u2")
        write_image(root / name / "0", data, version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_missing_wells_stay_empty(tmp_path, capsys, version):
    listed = ("A/1", "A/2", "B/1", "B/2")
    write_plate(tmp_path / "p.zarr", ("A/2", "B/1"), listed, version)
    (layer,) = build(tmp_path / "p.zarr")
    assert data_of(layer)[::20, ::20].tolist() == [[0, 1], [2, 0]]
    described(tmp_path / "p.zarr", capsys)


def test_damaged_wells_stay_empty_and_the_first_is_named(tmp_path, notes):
    listed = ("A/1", "A/2", "B/1", "B/2")
    root = tmp_path / "p.zarr"
    write_plate(root, listed, listed)
    (root / "A/2/0/0/zarr.json").write_text("{")
    (root / "B/1/0/0/zarr.json").write_text("{")
    (layer,) = build(root)
    assert data_of(layer)[::20, ::20].tolist() == [[1, 0], [0, 4]]
    (note,) = notes()
    assert "p.zarr/A/2 cannot be read" in note
    assert f"{root}/A/2" in note.splitlines()  # whole, in the details


def test_no_well_is_there(tmp_path, capsys):
    write_plate(tmp_path / "p.zarr", (), ("A/1", "B/2"))
    with pytest.raises(OMEZarrError, match=r"A/1"):
        read_paths(str(tmp_path / "p.zarr"))
    described(tmp_path / "p.zarr", capsys)


def test_fields_of_other_sizes_and_types(tmp_path):
    root = tmp_path / "w.zarr"
    images = [{"path": str(i)} for i in range(4)]
    write_group(root, {"well": {"images": images}})
    write_image(root / "0", np.full((20, 20), 1, "u2"))
    write_image(root / "1", np.full((10, 30), 2, "u2"))
    write_image(root / "2", np.full((20, 20), 3, "u1"))
    write_image(root / "3", np.full((2, 20, 20), 4, "u2"), names="zyx")
    (layer,) = build(root)
    shown = data_of(layer)
    assert set(np.unique(shown)) >= {1, 2, 3}


def test_collection_with_a_broken_image(tmp_path, notes):
    root = tmp_path / "c.zarr"
    write_group(root, {"bioformats2raw.layout": 3})
    write_group(root / "OME", {"series": ["0", "1", "gone"]})
    write_image(root / "0", pixels(20, 20))
    (root / "1").mkdir()
    document(root / "1").write_text('{"zarr_format": 3,')
    (layer,) = build(root)
    np.testing.assert_array_equal(data_of(layer), pixels(20, 20))
    (note,) = notes()
    assert "gone" in note
