"""All public cases of all versions through the command itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conformance import CASES, CORPORA, DIFFERENT, MISSING
from napari_ngff.cli import main

pytestmark = pytest.mark.skipif(not CORPORA.is_dir(), reason=MISSING)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of attributes for each case, as the protocol has it."""
    folder = tmp_path_factory.mktemp("cases")
    found = [folder / f"{number}.json" for number in range(len(CASES))]
    for file, (_, attributes, _, _) in zip(found, CASES, strict=True):
        file.write_text(json.dumps(attributes))
    return found


def verdicts(capsys, files, *options):
    code = main(["check", "--json", *options, *map(str, files)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert all(verdict.keys() == {"valid", "message"} for verdict in found)
    return found


@pytest.mark.parametrize("strict", [False, True], ids=["spec", "strict"])
def test_every_case_through_the_command(capsys, files, strict):
    chosen = [(file, *case) for file, case in zip(files, CASES, strict=True)]
    chosen = [case for case in chosen if case[3] is strict]
    assert len(chosen) == (42 if strict else 325)
    options = ["--strict"] if strict else []
    found = verdicts(capsys, [case[0] for case in chosen], *options)
    for (_, name, _, _, valid), verdict in zip(chosen, found, strict=True):
        expected = valid and not (strict and name in DIFFERENT)
        assert verdict["valid"] is expected, (name, verdict["message"])
        assert (verdict["message"] is None) is expected
        if valid and not expected:
            assert all(code in verdict["message"] for code in DIFFERENT[name])


def test_cases_for_strict_schemas_break_no_must(capsys, files):
    chosen = [f for f, (_, _, _, valid) in zip(files, CASES, strict=True) if valid]
    assert all(verdict["valid"] for verdict in verdicts(capsys, chosen))


def test_one_case_in_a_process_of_its_own(files):
    command = [sys.executable, "-m", "napari_ngff.cli", "check", "--json", files[0]]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == {"valid": CASES[0][3], "message": None}
