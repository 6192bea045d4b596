"""What the user is told of a save."""

import re

import pytest

from napari_ngff.errors import NameTakenError
from napari_ngff.labels.saving.progress import Outcome
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.viewer.saving import report as save_report
from napari_ngff.viewer.saving.report import Reporter, SaveResult

PROBLEM = Problem(
    "axis-missing", Severity.ERROR, "labels/a:multiscales", "No axes.", "Not shown."
)


@pytest.fixture
def told(monkeypatch):
    messages = []
    for name in ("show_error", "show_warning", "show_info"):

        def show(text, name=name):
            messages.append((name, text))

        monkeypatch.setattr(save_report, name, show)
    return messages


def test_a_save_is_told_with_the_time_and_its_blocks(told):
    note = Reporter().report("nuclei", SaveResult(Outcome(312)))
    assert re.fullmatch(r"saved \d\d:\d\d - 312 blocks", note)
    assert told == [("show_info", f"nuclei: {note}")]


def test_one_block_is_no_blocks(told):
    assert Reporter().report("a", SaveResult(Outcome(1))).endswith(" - 1 block")
    Reporter().report("a", SaveResult(Outcome(1, refused=("0/1 is damaged.",))))
    assert "1 block was not saved" in told[-1][1]


def test_new_problems_are_told_with_code_and_consequence(told):
    note = Reporter().report("nuclei", SaveResult(Outcome(3, problems=(PROBLEM,))))
    ((kind, text),) = told
    assert kind == "show_warning"
    for part in ("axis-missing", "labels/a:multiscales", "No axes.", "Not shown."):
        assert part in text
    assert note.startswith("saved")


def test_many_problems_are_no_flood(told):
    Reporter().report("nuclei", SaveResult(Outcome(3, problems=(PROBLEM,) * 40)))
    assert told[0][1].count("axis-missing") == 5
    assert "... and 35 more" in told[0][1]


def test_conflicts_and_other_refusals_say_what_to_do(told):
    refused = tuple(f"0/{i} was changed by another program." for i in range(9))
    note = Reporter().report(
        "a", SaveResult(Outcome(1, refused=refused, conflict=True))
    )
    assert "read again, and your edits lie on top" in told[0][1]
    assert note.endswith("all but 9 blocks")
    Reporter().report("a", SaveResult(Outcome(1, refused=refused)))
    assert "when the cause is mended" in told[1][1]


def test_colours_that_were_not_saved_are_told(told):
    Reporter().report("a", SaveResult(Outcome(1), unsaid=OSError("Disk is full.")))
    assert "Colours and properties were not saved: Disk is full." in told[0][1]


def test_a_taken_name_is_told_with_what_to_do(told):
    error = NameTakenError("There is a already. a-2 is free.", "a", "a-2")
    note = Reporter().report("a", SaveResult(error=error))
    kind, text = told[0]
    assert kind == "show_error"
    assert "a-2 is free. Rename the layer, and save again." in text
    assert note.startswith("not saved")


def test_what_nobody_asked_for_is_told_once_and_only_if_it_fails(told):
    reporter = Reporter()
    failed = SaveResult(error=OSError("Disk is full."))
    for result in (SaveResult(Outcome(3)), failed, failed):
        reporter.report("a", result, quiet=True)
    assert len(told) == 1
    reporter.report("a", failed)  # who asks is told
    assert len(told) == 2
    reporter.report("a", SaveResult(Outcome(3)), quiet=True)
    reporter.report("a", failed, quiet=True)
    assert len(told) == 3
