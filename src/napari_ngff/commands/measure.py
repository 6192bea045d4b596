"""The command ``napari-ngff measure``: labels measured into a table."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from napari_ngff.commands.command_line import (
    FAILED,
    add_command,
    add_path,
    add_scheduler,
    keeping_no_chunks,
    print_line,
    show_progress,
)
from napari_ngff.errors import OptionError
from napari_ngff.plate.results.object_classifier import PREDICTED, read_rule
from napari_ngff.plate.tables.files import WRITTEN, check_target, write_frame
from napari_ngff.plate.tables.measure_labels import FieldTask, KeptTables, measure
from napari_ngff.plate.tables.object_features import (
    COLUMNS,
    choose_columns,
    columns_needed,
)
from napari_ngff.store.hierarchy.node import open_node


def add_measure(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser of commands."""
    command = add_command(
        commands,
        "measure",
        "measure labels: size, place, intensities",
        run,
        description="Measures the labels of an image, a well, a plate or a collection.",
    )
    add_path(command)
    command.add_argument("--label", metavar="NAME", required=True, help="which labels")
    command.add_argument(
        "--out", metavar="FILE", required=True, help="table to write: .csv or .parquet"
    )
    command.add_argument(
        "--columns",
        metavar="NAMES",
        type=lambda text: text.split(","),
        default=(),
        help=f"more columns, with commas: {', '.join(COLUMNS)}, or names of some",
    )
    command.add_argument(
        "--resume",
        action="store_true",
        help="leave out fields that this command has measured before it was stopped",
    )
    command.add_argument(
        "--rule",
        metavar="FILE",
        help="also predict classes, by a rule that was saved on the page Classify",
    )
    add_scheduler(command)


def run(options: argparse.Namespace) -> int:
    """Measure; return the exit code, 1 if fields had to be left out."""
    # Before anything is measured, which may take hours.
    if Path(options.out).suffix.lower() not in WRITTEN:
        text = f"{options.out}: tables are written as {' or '.join(WRITTEN)}."
        raise OptionError(text, "out")
    names, key, add_classes = [*options.columns], [options.label], None
    if options.rule:
        rule = read_rule(options.rule)
        names += columns_needed(rule.columns)
        key.append(hashlib.sha256(rule.dump_text().encode()).hexdigest())
        add_classes = rule.add_classes
    task = FieldTask(choose_columns(names), add_classes)
    check_target(options.out)
    aside = Path(f"{options.out}.part")
    key += task.columns
    kept = KeptTables(aside, key, resume=options.resume)
    with keeping_no_chunks(), show_progress(" images") as goes_on:
        result = measure(
            open_node(options.path),
            options.label,
            scheduler=options.scheduler,
            goes_on=goes_on,
            task=task,
            kept=kept,
        )
    # None is only for who gives up, which nobody does here.
    assert result is not None
    write_frame(result.frame, options.out)
    aside.unlink(missing_ok=True)
    print(f"{result.rows_text} -> {options.out}")
    if PREDICTED in result.frame:
        counts = result.frame[PREDICTED].value_counts().items()
        print(f"predicted: {', '.join(f'{n:,} {name}' for name, n in counts)}")
    if result.size_note:
        print(result.size_note)
    if result.without:
        print(f"{result.without} images have no labels {options.label}")
    for problem in result.problems:
        print_line(f"left out: {problem}")
    return FAILED if result.problems else 0
