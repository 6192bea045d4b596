"""Files of other programs: we read them, paint and save; they read them back.

Each program runs in an environment of its own, which takes minutes the first time. So
this runs with INTEROP=1 only; INTEROP=fresh makes all environments anew, and -k iohub
runs one program. Each result becomes a row of docs/interoperability.md.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Labels

from interop import result_table
from interop.programs import PROGRAMS, NotInstalledError, answer_of, install
from interop.scripts.common import described
from napari_ngff.plugin import get_reader
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.plans.layer_plan import KEY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("INTEROP"),
        reason="makes an environment for each program: set INTEROP=1",
    ),
]

MINE = "painted"
DOCUMENTS = "zarr.json", ".zattrs", ".zgroup", ".zarray", ".zmetadata"
COARSE = 4
"""A stroke need not show at levels that are reduced by more."""


@pytest.fixture(autouse=True)
def no_workers(monkeypatch):
    monkeypatch.setattr("napari_ngff.plugin.use_workers", lambda: None)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_files_of_a_program_are_read_painted_and_read_back(program, tmp_path):
    with result_table.row(program) as row:
        try:
            python = install(program)
        except NotInstalledError as reason:
            row.notes = f"Not installed: {reason}"
            pytest.skip(row.notes)
        folder = tmp_path / "files"
        written = answer_of(python, program, "write", folder)
        before = answer_of(python, program, "read", folder)
        assert before["images"].keys() == written["images"].keys()
        row.version = written["version"]
        row.writes = kinds_written(folder, written)
        opened = open_all(folder, before["images"])
        assert_shown(opened, written["images"], before["images"])
        assert_plates_open(folder, written)
        row.read = f"yes, {sum(map(len, before['images'].values()))} levels"
        files = files_of(folder)
        painted, beside = paint_all(folder, opened)
        after = answer_of(python, program, "read", folder)
        assert after["images"].keys() == before["images"].keys() | painted.keys()
        for group in before["images"].keys() - painted.keys():
            assert after["images"][group] == before["images"][group]
        assert_judged(before, after)
        assert_kept(files, files_of(folder), painted)
        again = open_all(folder, after["images"])
        saved = {group: levels_of(again[group]) for group in beside}
        assert_shown(again, {}, {**after["images"], **saved})
        for group, levels in {**painted, **beside}.items():
            assert_painted(levels, arrays_of(again[group]))
        row.read_back = "yes; new labels are in a sidecar" if beside else "yes"
        row.judge = after["judge"]
        if before["refused"]:
            own = ", ".join(before["refused"])
            row.notes = f"It refuses {own} of the program, before and after."


def open_all(folder, groups):
    """Open each image that is not shown with another; path of a group -> its layers."""
    shown = {}
    for group in sorted(groups):
        if group in shown:
            continue
        model = ViewerModel()
        path = str(folder / group)
        for data in get_reader(path)(path):
            layer = as_layer(data) if isinstance(data, tuple) else data
            model.add_layer(layer)
            shown.setdefault(group_of(folder, layer), []).append(layer)
    return shown


def group_of(folder, layer):
    """Return the path of the group that a layer shows."""
    location = layer.metadata[KEY].node.location
    return (Path(location.source.name) / location.path).relative_to(folder).as_posix()


def levels_of(layers):
    """Describe the levels of an image as the scripts do."""
    return as_json(map(described, arrays_of(layers)))


def arrays_of(layers):
    """Join the channels of an image to the arrays that are in the file."""
    picture = layers[0].metadata[KEY].picture
    axis = picture.pyramid.multiscale.channel_axis
    levels = []
    for number, source in enumerate(picture.pyramid.levels):
        parts = [
            in_file_order(one.data[number] if one.multiscale else one.data, layers[0])
            for one in layers
        ]
        whole = parts[0] if axis is None else np.stack(parts, axis)
        levels.append(whole.reshape(source.shape))
    return levels


def in_file_order(level, image):
    """Return pixels with the axes of the file of an image: of xyz, layers have zyx."""
    pixels, names = np.asarray(level), list(image.axis_labels)
    axes = [x.name for x in image.metadata[KEY].picture.pyramid.multiscale.axes]
    order = [names.index(name) for name in axes if name in names]
    return pixels.transpose(order) if len(order) == pixels.ndim else pixels


def as_json(value):
    return json.loads(json.dumps(list(value)))


def assert_shown(opened, written, read):
    """Compare every voxel of every level."""
    assert opened.keys() == read.keys()
    for group, layers in opened.items():
        levels = levels_of(layers)
        assert levels == read[group], group
        assert levels[:1] == written.get(group, levels[:1]), group


def assert_plates_open(folder, written):
    for plate in written["plates"]:
        node = open_node(folder / plate)
        wells = [well.path for well in node.metadata.plate.wells]
        fields = [
            f"{plate}/{well.location.path.removeprefix(f'{node.location.path}/')}/"
            f"{field.path}"
            for well in node.children(wells).nodes
            for field in well.metadata.well.fields
        ]
        assert set(fields) <= written["images"].keys()
        assert fields
        path = str(folder / plate)
        assert get_reader(path)(path)


def kinds_written(folder, written):
    """Name the versions, and what there is of each."""
    versions = {open_node(folder / path).metadata.version for path in written["images"]}
    kinds = ["image"]
    if any("/labels/" in path for path in written["images"]):
        kinds.append("labels")
    if written["plates"]:
        kinds.append("plate")
    return f"{', '.join(sorted(versions))}: {', '.join(kinds)}"


def paint_all(folder, opened):
    """Paint and save each label image, and new labels for each image.

    Returns
    -------
    inside, beside
        By the path of what was painted: the finest level now, and all levels before.
        Those in a sidecar are in the second.
    """
    inside, beside = {}, {}
    for group, layers in opened.items():
        first = layers[0]
        if isinstance(first, Labels):
            old = arrays_of(layers)
            stroke(first, 7)
            inside[group] = np.asarray(first.data[0]).reshape(old[0].shape), old
            continue
        labels = new_labels(first, MINE)
        old = [np.zeros_like(in_file_order(level, first)) for level in labels.data]
        stroke(labels, 300)
        place = group_of(folder, labels)
        where = inside if place == f"{group}/labels/{MINE}" else beside
        where[place] = in_file_order(labels.data[0], first), old
    return inside, beside


def stroke(labels, value):
    """Paint a short stroke over the middle, in all of up to three axes, and save."""
    middle = np.array(labels.data[0].shape) // 2
    labels.brush_size = 9
    labels.n_edit_dimensions = min(labels.ndim, 3)
    for shift in range(0, 12, 4):
        labels.paint((*middle[:-1], middle[-1] + shift), value)
    assert np.asarray(labels.data[0])[tuple(middle)] == value
    assert labels.saver.save_now(), labels.saver.note


def assert_painted(levels, saved):
    """The finest level is what was painted; others changed only below the stroke."""
    finest, old = levels
    np.testing.assert_array_equal(saved[0], finest)
    changed = np.argwhere(finest != old[0])
    assert len(saved) == len(old)
    for before, after in zip(old, saved, strict=True):
        factor = np.divide(finest.shape, before.shape)
        first = np.floor(changed.min(0) / factor - 1).clip(0).astype(int)
        last = np.ceil((changed.max(0) + 1) / factor + 1).astype(int)
        box = tuple(map(slice, first, last))
        if factor.max() <= COARSE:
            assert (after[box] != before[box]).any()
        rest = after.copy()
        rest[box] = before[box]
        np.testing.assert_array_equal(rest, before)


def files_of(folder):
    """Read all files: metadata as they are, of others the bytes; path -> content."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".ozx":
            content = path.read_bytes()
            is_document = path.name in DOCUMENTS
            name = path.relative_to(folder).as_posix()
            found[name] = json.loads(content) if is_document else content
    return found


def assert_kept(before, after, painted):
    """Only painted labels, lists of labels, and copies of these in a parent changed.

    And what was in their metadata is still there.
    """
    for name, content in before.items():
        if after.get(name) == content:
            continue
        group = Path(name).parent
        is_painted = any(group.is_relative_to(path) for path in painted)
        if Path(name).name in DOCUMENTS:
            copied = "consolidated_metadata" in content or name.endswith(".zmetadata")
            assert is_painted or copied or group.name == "labels", name
            assert contains(after[name], content), name
        else:
            assert is_painted, name


def contains(whole, part):
    """Return whether metadata holds all that other metadata does."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            contains(whole.get(key), value) for key, value in part.items()
        )
    if isinstance(part, list) and isinstance(whole, list):
        return len(whole) >= len(part) and all(map(contains, whole, part))
    return whole == part


def assert_judged(before, after):
    """The program's validator refuses nothing that it did not refuse before."""
    assert {
        path: said
        for path, said in after["refused"].items()
        if path not in before["refused"]
    } == {}
