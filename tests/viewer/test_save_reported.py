"""What is reported to the user of a save."""

import re
from dataclasses import replace

import pytest

from napari_ngff.errors import NameTakenError
from napari_ngff.labels.saving.save_run import SaveOutcome
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.viewer.saving import save_report as save_report
from napari_ngff.viewer.saving.save_report import SaveReporter, SaveResult
from napari_ngff.viewer.services.notices import MOST_IN_LINE

PROBLEM = Problem(
    "axis-missing", Severity.ERROR, "labels/a:multiscales", "No axes.", "Not shown."
)


@pytest.fixture
def reported(monkeypatch):
    messages = []
    for name in ("show_error", "show_warning"):

        def show(text, name=name):
            messages.append((name, text))

        monkeypatch.setattr(save_report, name, show)
    return messages


def check_first_line(text):
    """Result first, in what a notification shows: no path, and no more than that."""
    first = text.partition("\n")[0]
    assert len(first) <= 40
    assert "/" not in first


def test_a_save_stands_in_the_controls_and_is_no_message(reported):
    note = SaveReporter().report_save("nuclei", SaveResult(SaveOutcome(312)))
    assert re.fullmatch(r"Saved \d\d:\d\d", note.text)
    assert note.detail == "312 chunks written."
    assert reported == []


def test_one_chunk_is_no_chunks(reported):
    assert (
        SaveReporter().report_save("a", SaveResult(SaveOutcome(1))).detail
        == "1 chunk written."
    )
    SaveReporter().report_save(
        "a", SaveResult(SaveOutcome(1, refused=("0/1 is damaged.",)))
    )
    assert reported[-1][1].startswith("Not saved: 1 chunk.\n")


def test_new_problems_are_reported_with_code_and_consequence(reported):
    note = SaveReporter().report_save(
        "nuclei", SaveResult(SaveOutcome(3, problems=(PROBLEM,)))
    )
    ((kind, text),) = reported
    assert kind == "show_warning"
    check_first_line(text)
    for part in ("axis-missing", "labels/a:multiscales", "No axes.", "Not shown."):
        assert part in text
    assert note.text.startswith("Saved")


@pytest.mark.parametrize("name", ["a", "mitotic figures of the second reading"])
def test_failures_begin_with_the_result(reported, name):
    path = "/a/very/long/path/to/cells.ome.zarr"
    results = (
        SaveResult(error=OSError(28, "No space left on device", path)),
        SaveResult(SaveOutcome(1, refused=(f"{path}/0/1 is damaged.",) * 10_000)),
        SaveResult(SaveOutcome(1), unsaid=OSError(13, "Permission denied", path)),
    )
    for result in results:
        SaveReporter().report_save(name, result)
        _, text = reported.pop()
        check_first_line(text)
        assert text.startswith("Not saved: ")
        assert "Your edits are kept. Fix the problem and save again." in text
        assert path in text


@pytest.mark.parametrize("text", [PROBLEM.text, "A rule of the format. " * 40])
def test_many_problems_are_no_flood(reported, text):
    problems = (replace(PROBLEM, text=text),) * 40
    SaveReporter().report_save("nuclei", SaveResult(SaveOutcome(3, problems=problems)))
    ((_, shown),) = reported
    assert shown.count("axis-missing") == 5
    assert "... and 35 more" in shown
    # Else it is higher than the canvas, where napari shows nothing of it.
    assert sum(1 + len(line) // MOST_IN_LINE for line in shown.splitlines()) < 40


def test_conflicts_and_other_refusals_say_what_to_do(reported):
    refused = tuple(f"0/{i} was changed by another program." for i in range(9))
    note = SaveReporter().report_save(
        "a", SaveResult(SaveOutcome(1, refused=refused, conflict=True))
    )
    assert "shown with your edits on top" in reported[0][1]
    assert "All others of 'a' were saved." in reported[0][1]
    assert note.text.endswith(" except 9 chunks")
    nothing = SaveOutcome(0, refused=refused, conflict=True)
    note = SaveReporter().report_save("a", SaveResult(nothing))
    assert note.text.startswith("Not saved ")
    assert "All others" not in reported.pop()[1]
    SaveReporter().report_save("a", SaveResult(SaveOutcome(1, refused=refused)))
    assert "Fix the problem and save again." in reported[1][1]


def test_colours_that_were_not_saved_are_reported(reported):
    SaveReporter().report_save(
        "a", SaveResult(SaveOutcome(1), unsaid=OSError("Disk is full."))
    )
    assert reported[0][1].startswith(
        "Not saved: colours, properties.\na: Disk is full. "
    )


def test_a_taken_name_is_reported_with_what_to_do(reported):
    error = NameTakenError("There is a already. a-2 is free.", "a", "a-2")
    note = SaveReporter().report_save("a", SaveResult(error=error))
    kind, text = reported[0]
    assert kind == "show_error"
    assert "a-2 is free. Rename the layer and save again." in text
    assert note.text.startswith("Not saved")


def test_what_nobody_asked_for_is_reported_once_and_only_if_it_fails(reported):
    reporter = SaveReporter()
    failed = SaveResult(error=OSError("Disk is full."))
    for result in (SaveResult(SaveOutcome(3)), failed, failed):
        reporter.report_save("a", result, quiet=True)
    assert len(reported) == 1
    reporter.report_save("a", failed)  # who asks is told
    assert len(reported) == 2
    reporter.report_save("a", SaveResult(SaveOutcome(3)), quiet=True)
    reporter.report_save("a", failed, quiet=True)
    assert len(reported) == 3
