from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from napari_ngff.cli import main
from napari_ngff.viewer.samples import write_image, write_plate


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    where = tmp_path_factory.mktemp("check") / "cells.ome.zarr"
    return write_image(where, "0.5", shape=(1, 96, 128))


@pytest.fixture
def image(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "cells.ome.zarr"))


def edit(folder, change):
    file = folder / "zarr.json"
    document = json.loads(file.read_text())
    change(document["attributes"]["ome"])
    file.write_text(json.dumps(document))


def run(capsys, *arguments):
    code = main(["check", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_what_is_valid(capsys, image):
    code, out, err = run(capsys, image)
    assert (code, err) == (0, "")
    assert out == f"{image}\nvalid: 0 errors, 0 warnings\n"


def test_errors_are_grouped_by_place(capsys, image):
    edit(image, lambda c: c["multiscales"][0]["axes"].reverse())
    edit(image / "labels", lambda c: c["labels"].append("ghost"))
    code, out, _ = run(capsys, image)
    assert code == 1
    assert out.splitlines()[1] == "  (root)"
    assert "    error axes-order at ome/multiscales/0/axes: " in out
    assert "  labels/ghost\n    error label-missing: " in out
    assert out.splitlines()[-2].endswith("such as docs/check.md#axes-order.")
    assert out.splitlines()[-1].startswith("not valid: ")


def test_what_many_groups_have_is_described_once(capsys, tmp_path):
    wells = [f"{row}{column}" for row in "AB" for column in "123"]
    options = {"grid": (2, 3), "fields": 1, "shape": (32, 32), "wells": wells}
    plate = write_plate(tmp_path / "p.ome.zarr", **options)
    wells = sorted(plate.glob("[A-Z]/[0-9]"))
    for well in wells:
        edit(well / "0", lambda ome: ome["multiscales"][0].pop("type"))
    code, out, _ = run(capsys, plate)
    assert code == 0
    first, last = out.splitlines()[1:4], out.splitlines()[-1]
    assert first[0] == "  A/1/0"
    assert first[1].startswith("    warning multiscale-type-missing at ")
    assert first[2] == "      The same in A/2/0, A/3/0, B/1/0 and 2 more groups."
    assert last == "valid: 0 errors, 6 warnings"
    assert len(out.splitlines()) == 6


def test_warnings_count_when_strict(capsys, image):
    edit(image / "labels", lambda c: c["labels"].remove("cells"))
    assert run(capsys, image)[0] == 0
    assert "valid: 0 errors, 1 warning" in run(capsys, image)[1]
    code, out, _ = run(capsys, "--strict", image)
    assert (code, out.splitlines()[-1]) == (1, "not valid: 0 errors, 1 warning")


def test_json_is_one_verdict_for_each_path(capsys, image, tmp_path):
    edit(image / "labels", lambda c: c["labels"].append("ghost"))
    lone = tmp_path / "attributes.json"
    lone.write_text(json.dumps({"ome": {"version": "0.5", "labels": []}}))
    code, out, err = run(capsys, "--json", image, lone, tmp_path / "nothing")
    bad, good, missing = map(json.loads, out.splitlines())
    assert (code, err) == (0, "")
    assert good == {"valid": True, "message": None}
    assert bad["valid"] is missing["valid"] is False
    assert bad["message"].startswith("label-missing at labels/ghost: ")
    assert str(tmp_path / "nothing") in missing["message"]


def test_a_document_by_itself(capsys, tmp_path):
    file = tmp_path / "a.json"
    for content, code in (
        ('{"labels": ["a"]}', 0),
        ('{"labels": "a"}', 1),
        ('{"node_type": "group", "attributes": {"labels": ["a"]}}', 0),
        ('{"zarr_format": 3, "node_type": "group", "attributes": {}}', 1),
        ("[1]", 1),
    ):
        file.write_text(content)
        assert run(capsys, file)[0] == code
    file.write_text("{")
    code, out, err = run(capsys, file)
    assert (code, out) == (1, "")
    assert f"{file} is not valid JSON" in err


def test_what_cannot_be_read_does_not_stop_the_rest(capsys, image, tmp_path):
    code, out, err = run(capsys, tmp_path / "nothing", image)
    assert code == 1
    assert err.startswith("napari-ngff: ")
    assert "valid: 0 errors" in out


@pytest.mark.parametrize("arguments", [[], ["--fix", "axes-order", "x"], ["--json"]])
def test_a_wrong_call_is_exit_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(["check", *arguments])
    assert caught.value.code == 2
    assert "usage: napari-ngff check" in capsys.readouterr().err


def test_a_repair_that_makes_it_valid_leaves_nothing_behind(capsys, image):
    edit(image / "labels", lambda c: c["labels"].append("ghost"))
    files = {file for file in image.rglob("*") if file.is_file()}
    code, out, _ = run(capsys, "--fix", "label-missing", image)
    assert code == 0
    assert out.splitlines()[-1] == f"repaired {image / 'labels' / 'zarr.json'}"
    assert {file for file in image.rglob("*") if file.is_file()} == files
    assert run(capsys, "--strict", image)[0] == 0


def test_a_repair_of_what_stays_invalid_names_the_way_back(capsys, image):
    edit(image / "labels", lambda c: c["labels"].append("ghost"))
    edit(image, lambda c: c["multiscales"][0]["axes"].reverse())
    before = (image / "labels" / "zarr.json").read_bytes()
    code, out, _ = run(capsys, "--fix", "label-missing", image)
    kept = image / "labels" / "zarr.json.before-repair"
    assert code == 1
    assert f"; backup: {kept}" in out
    assert kept.read_bytes() == before


def test_several_repairs_at_once(capsys, tmp_path):
    path = write_plate(tmp_path / "p.zarr", "0.5", grid=(1, 1), shape=(64, 64))

    def forget(content):
        content["plate"]["wells"][0].pop("rowIndex")
        content["plate"].pop("version")

    edit(path, forget)
    fixes = ["--fix", "well-index-missing", "--fix", "plate-version-missing"]
    assert run(capsys, "--strict", *fixes, path)[0] == 0
    assert not list(path.rglob("*.before-repair"))


def test_an_archive_is_checked_and_not_repaired(capsys, tmp_path):
    path = write_plate(tmp_path / "p.ozx", "0.5", grid=(1, 1), shape=(64, 64))
    assert run(capsys, path)[0] == 0
    code, _, err = run(capsys, "--fix", "label-missing", path)
    assert code == 1
    assert "unpack it" in err
