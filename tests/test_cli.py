from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import zarr
from PIL import Image

import plates
from napari_ngff import __version__
from napari_ngff.cli import main
from napari_ngff.viewer.samples import write_image, write_plate


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    where = tmp_path_factory.mktemp("cli") / "cells.ome.zarr"
    return write_image(where, "0.4", shape=(2, 300, 400))


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    where = tmp_path_factory.mktemp("cli") / "plate.ozx"
    return write_plate(where, "0.5", grid=(2, 2), shape=(64, 64))


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_info_shows_a_person_what_it_is(capsys, image):
    code, out, err = run(capsys, "info", image)
    assert (code, err) == (0, "")
    assert "image, OME-Zarr 0.4, zarr format 2" in out
    assert "axes     tcyx" in out
    assert "y 97.5 micrometer, x 130 micrometer" in out
    assert "level    0: 2 x 3 x 300 x 400 uint16, chunks 1x1x256x256, blosc" in out
    assert "DNA: #" in out
    assert "labels   nuclei, cells" in out
    assert "problems none" in out


def test_info_as_json(capsys, image):
    code, out, _ = run(capsys, "info", "--json", image)
    found = json.loads(out)
    assert code == 0
    assert (found["kind"], found["version"]) == ("image", "0.4")
    assert found["image"]["levels"][1]["shape"] == [2, 3, 150, 200]
    assert found["labels"] == ["nuclei", "cells"]


def test_info_of_the_parts_of_a_plate(capsys, plate):
    assert "2 rows x 2 columns, 4 wells" in run(capsys, "info", plate)[1]
    assert "fields   0, 1" in run(capsys, "info", plate / "A/1")[1]
    assert "label, OME-Zarr 0.5" in run(capsys, "info", plate / "A/1/0/labels/cells")[1]
    assert "labels   nuclei, cells" in run(capsys, "info", plate / "A/1/0/labels")[1]


@pytest.mark.parametrize("place", ["", "A/1", "A/1/0"])
def test_info_lists_tables(capsys, tmp_path, place):
    """As ngio lists them; also where the list is damaged."""
    plates.write_plate(tmp_path / "p", grid=(1, 1), fields=1)
    tables = tmp_path / "p" / place / "tables"
    group = {"zarr_format": 3, "node_type": "group"}
    tables.mkdir()
    listed = group | {"attributes": {"tables": ["nuclei", "rois"]}}
    (tables / "zarr.json").write_text(json.dumps(listed))
    code, out, _ = run(capsys, "info", tmp_path / "p" / place)
    assert (code, "tables   nuclei, rois" in out.splitlines()) == (0, True)
    (tables / "zarr.json").write_text("{")
    code, out, _ = run(capsys, "info", tmp_path / "p" / place)
    assert code == 0
    assert f"node-unreadable at {place}/tables".replace("at /", "at ") in out


def test_info_lists_tables_of_spatialdata(capsys, image, tmp_path):
    for place in ("", "images", "tables", "tables/cells"):
        zarr.open_group(tmp_path / "s.zarr" / place, mode="a")
    shutil.copytree(image, tmp_path / "s.zarr/images/slide")
    code, out, _ = run(capsys, "info", tmp_path / "s.zarr")
    assert code == 0
    assert out.splitlines()[1:] == [
        "folder of 1 images, as napari lists",
        "  images/slide",
        "tables   cells",
    ]


def test_info_names_several_acquisitions(capsys, plate, tmp_path):
    several = plates.write_plate(tmp_path / "days.ome.zarr", fields=1, acquisitions=2)
    assert "acquisitions  round 0, round 1" in run(capsys, "info", several)[1]
    assert "acquisitions" not in run(capsys, "info", plate)[1]


def test_info_lists_problems_with_their_consequence(capsys, image):
    (image / "2").rename(image / "gone")
    try:
        code, out, _ = run(capsys, "info", image)
    finally:
        (image / "gone").rename(image / "2")
    assert code == 0
    assert "problems 1" in out
    assert "error level-unreadable at 2: " in out
    assert "It is left out." in out


def test_tree_goes_by_metadata_and_to_the_depth(capsys, plate):
    _, out, _ = run(capsys, "tree", plate)
    lines = out.splitlines()
    assert lines[0].endswith("plate.ozx  plate")
    assert lines[1] == "  A/1  well"
    assert lines[2] == "    0  image, cyx, 3 levels"
    assert lines[3] == "      labels/nuclei  label, yx, 3 levels"
    assert len(run(capsys, "tree", "--depth", 1, plate)[1].splitlines()) == 5


def test_tree_marks_what_cannot_be_read(capsys, image):
    document = image / "labels" / "cells" / ".zattrs"
    text = document.read_text()
    document.write_text("{")
    try:
        code, out, err = run(capsys, "tree", image)
    finally:
        document.write_text(text)
    assert (code, err) == (0, "")
    assert "labels/cells  ! " in out


@pytest.mark.parametrize("command", ["info", "tree", "view"])
def test_what_cannot_be_read_is_one_line_and_exit_code_1(capsys, tmp_path, command):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / ".zattrs").write_text('{"multiscales": [')
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "a.zarr"):
        code, out, err = run(capsys, command, path)
        assert (code, out) == (1, "")
        assert err.startswith("napari-ngff: ")
        assert err.count("\n") == 1
        assert str(path) in err


@pytest.mark.parametrize(
    "arguments", [[], ["paint"], ["info"], ["tree", "--depth", "x"]]
)
def test_a_wrong_call_is_exit_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: napari-ngff" in capsys.readouterr().err


def test_the_command_is_installed():
    command = [sys.executable, "-m", "napari_ngff", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == __version__


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("inside", ["", "A/1/0", "A/1/0/labels/cells"])
@pytest.mark.parametrize("suffix", [".ozx", ".zip"])
def test_a_place_in_an_archive_is_viewed(plate, tmp_path, suffix, inside):
    archive = shutil.copy(plate, tmp_path / f"plate{suffix}")
    out = tmp_path / "screen.png"
    command = [sys.executable, "-m", "napari_ngff.cli", "view"]
    found = subprocess.run(
        [*command, os.path.join(archive, inside).rstrip("/"), "--screenshot", str(out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert out.exists()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb")
def test_the_window_is_no_larger_than_the_screen(plate, tmp_path):
    out, into = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(into), "-screen", "0", "1280x800x24"],
        pass_fds=[into],
        stderr=subprocess.DEVNULL,
    )
    os.close(into)
    try:
        with open(out) as number:
            display = f":{number.readline().strip()}"
        picture = tmp_path / "screen.png"
        command = [sys.executable, "-m", "napari_ngff.cli", "view", str(plate)]
        subprocess.run(
            [*command, "--screenshot", str(picture)],
            env=os.environ | {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb"},
            check=True,
            timeout=120,
        )
    finally:
        server.terminate()
        server.wait()
    with Image.open(picture) as shown:
        assert shown.size == (1280, 800)


def test_a_reader_that_stops_is_no_error(plate):
    command = [sys.executable, "-m", "napari_ngff.cli", "tree", str(plate)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        program.stdout.close()
        assert program.wait() == 0
        assert program.stderr.read() == b""


def test_info_and_tree_of_a_scene(capsys, tmp_path):
    for name in ("a", "b"):
        write_image(tmp_path / name, "0.6", shape=(1, 64, 64))
    axes = [{"name": name, "type": "space"} for name in "yx"]
    shift = {"type": "identity", "output": {"name": "world"}}
    scene = {
        "coordinateSystems": [{"name": "world", "axes": axes}],
        "coordinateTransformations": [
            shift | {"input": {"path": name, "name": "intrinsic"}} for name in "ab"
        ],
    }
    attributes = {"ome": {"version": "0.6", "scene": scene}}
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    out = run(capsys, "info", tmp_path)[1]
    assert "images   2: a, b\nsystems  world\n" in out
    tree = run(capsys, "tree", tmp_path)[1]
    assert "  a  image" in tree
    assert "    labels/cells  label" in tree


def test_info_counts_an_image_without_pixels_as_a_problem(capsys, image, tmp_path):
    copy = shutil.copytree(image, tmp_path / "no-levels.ome.zarr")
    for level in "0123456":
        shutil.rmtree(copy / level, ignore_errors=True)
    out = run(capsys, "info", copy)[1]
    assert "problems none" not in out
    assert "error image-unreadable" in out


def test_info_lists_misplaced_levels_once_with_the_word_of_check(
    capsys, image, tmp_path
):
    copy = shutil.copytree(image, tmp_path / "shifted.ome.zarr")
    document = json.loads((copy / ".zattrs").read_text())
    for level in document["multiscales"][0]["datasets"][1:]:
        level["coordinateTransformations"][1]["translation"][-1] += 100
    (copy / ".zattrs").write_text(json.dumps(document))
    out = run(capsys, "info", copy)[1]
    assert out.count("level-misplaced") == 1
    assert "problems 1\n  warning level-misplaced" in out
    checked = run(capsys, "check", copy)[1]
    assert checked.count("warning level-misplaced") > 1


def test_info_lists_a_folder_as_the_window_does(capsys, image, tmp_path):
    shutil.copytree(image, tmp_path / "a.ome.zarr")
    code, out, _ = run(capsys, "info", tmp_path)
    assert code == 0
    assert "folder of 1 images" in out
    assert "  a.ome.zarr" in out


def test_info_gives_times_as_frames(capsys, image):
    assert "size     t 2 x " in run(capsys, "info", image)[1]


@pytest.mark.parametrize("version", ["0.x", "1.0-dev", None])
@pytest.mark.parametrize(
    "content",
    [
        {"type": "collection", "nodes": [{"type": "multiscale", "path": "./0"}]},
        {"type": "multiscale", "name": "a"},
        {"nodes": []},
    ],
)
def test_drafts_of_1_0_are_refused(tmp_path, capsys, content, version):
    stated = {} if version is None else {"version": version}
    attributes = {"ome": stated | content}
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (folder / "zarr.json").write_text(json.dumps(group))
    alone = tmp_path / "collection.json"
    alone.write_text(json.dumps(attributes))
    copy = tmp_path / "b.zarr"
    calls = [["info", folder], ["check", folder], ["check", alone], ["tree", folder]]
    for call in [*calls, ["convert", folder, copy]]:
        assert main(list(map(str, call))) == 1, call
        written = " ".join("".join(capsys.readouterr()).split())
        assert "draft of OME-Zarr 1.0" in written
        assert "not supported" in written
    assert not copy.exists()
