"""The command ``napari-ngff merge``: labels of a sidecar into their image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.commands.command_line import (
    add_command,
    keeping_no_chunks,
    report_value_errors,
    show_progress,
)
from napari_ngff.labels.places.merge_sidecar import merge

if TYPE_CHECKING:
    import argparse


def add_merge(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser of commands."""
    command = add_command(
        commands,
        "merge",
        "copy the labels of a sidecar into their image",
        run,
        description="The image stays valid whenever this ends; run it again then.",
    )
    command.add_argument("sidecar", metavar="SIDECAR", help="its folder, or .ozx")
    command.add_argument(
        "image",
        metavar="IMAGE",
        nargs="?",
        help="folder of the image or plate; by default what the labels name",
    )
    command.add_argument(
        "--label",
        metavar="NAME",
        action="append",
        default=[],
        help="merge this one only; may be given several times",
    )
    command.add_argument("--name", help="another name for the only label image")
    command.add_argument(
        "--overwrite", action="store_true", help="replace labels of the same name"
    )
    command.add_argument(
        "--remove", action="store_true", help="remove merged labels from the sidecar"
    )


def run(options: argparse.Namespace) -> int:
    """Merge; returns the exit code."""
    with (
        keeping_no_chunks(),
        report_value_errors(),
        show_progress(" blocks") as goes_on,
    ):
        merged = merge(
            options.sidecar,
            options.image,
            labels=options.label,
            name=options.name,
            overwrite=options.overwrite,
            remove=options.remove,
            goes_on=goes_on,
        )
    if not merged:
        print(f"{options.sidecar} was merged and removed before.")
    for item in merged:
        target = item.location.path_of(item.name)
        print(f"{item.label} -> {item.location.source.name}/{target}")
    return 0
