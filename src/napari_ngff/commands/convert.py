"""The commands ``napari-ngff convert``, ``pack`` and ``unpack``, and ``rebuild``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from napari_ngff.api import pack, unpack
from napari_ngff.commands.command_line import (
    FAILED,
    add_command,
    add_overwrite,
    add_path,
    add_scheduler,
    keeping_no_chunks,
    print_line,
    report_value_errors,
    show_progress,
)
from napari_ngff.store.convert.conversion import convert
from napari_ngff.store.convert.rebuild_pyramid import METHODS, rebuild
from napari_ngff.store.hierarchy.location import note_beside

SHOWN = 20
"""Problems that are printed one by one."""

TEXTS = {
    "--chunks": ("AXES", "such as y=1024,x=1024"),
    "--shards": ("AXES", "such as y=4096,x=4096, or auto, or none"),
    "--codec": ("NAME", "zstd:5, blosc:lz4:5, gzip:6 or none"),
    "--crop": ("AXES", "part to keep, such as x=100:2000,t=0"),
    "--levels": ("LIST", "such as 0,2 or 1:"),
    "--channels": ("LIST", "indices or names, such as 0,DNA"),
    "--wells": ("LIST", "such as B*,C3"),
}
"""Options of a conversion that are texts: their form, and what they are."""


def add_convert(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser of commands."""
    command = add_command(
        commands,
        "convert",
        "write a copy: other version, chunks, or a part",
        run,
        description="Chunks are copied as they are where only metadata change.",
    )
    add_path(command, "source", "SOURCE")
    command.add_argument("target", metavar="TARGET", help="folder or .ozx to write")
    command.add_argument(
        "--to-version",
        metavar="VERSION",
        default="0.5",
        choices=("0.4", "0.5", "0.6"),
        help="0.4, 0.5 (default) or 0.6",
    )
    for option, (form, text) in TEXTS.items():
        command.add_argument(option, metavar=form, help=text)
    add_overwrite(command)
    command.add_argument(
        "--resume", action="store_true", help="continue a conversion that was stopped"
    )
    command.add_argument(
        "--unreadable",
        choices=("stop", "skip"),
        default="stop",
        help="what to do about chunks that cannot be read (stop)",
    )
    command.add_argument(
        "--follow-links",
        action="store_true",
        help="copy what links lead to outside of the folder",
    )
    add_scheduler(command)
    _add_rebuild(commands)


def _add_rebuild(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    command = add_command(
        commands,
        "rebuild",
        "make the coarser levels of an image again",
        run_rebuild,
        description="Coarser levels are made from the finest one, in the same file.",
    )
    command.add_argument("source", metavar="PATH", help="image or labels in a folder")
    command.add_argument(
        "--levels", type=int, metavar="N", help="number of levels, as before by default"
    )
    command.add_argument(
        "--method", choices=METHODS, help="mean for images, nearest or mode for labels"
    )
    add_scheduler(command)


def run_rebuild(options: argparse.Namespace) -> int:
    """Make coarser levels again; returns the exit code."""
    with report_value_errors(), show_progress(name="pixels") as progress:
        made = rebuild(
            options.source,
            levels=options.levels,
            method=options.method,
            scheduler=options.scheduler,
            progress=progress,
        )
    print(f"{options.source}: levels {', '.join(made) or 'none'}")
    return 0


def run(options: argparse.Namespace) -> int:
    """Convert; returns the exit code, 1 if something could not be read."""
    given = vars(options).copy()
    del given["run"]
    try:
        with (
            keeping_no_chunks(),
            report_value_errors(),
            show_progress(name="pixels") as progress,
        ):
            result = convert(
                given.pop("source"),
                given.pop("target"),
                progress=progress,
                **given,
            )
    except (OSError, KeyboardInterrupt) as error:
        # How to continue, which errors of the system have no place for.
        for note in getattr(error, "__notes__", ()):
            print_line(note)
        raise
    print(result.target)
    for note in result.notes:
        print_line(note)
    for problem in result.problems[:SHOWN]:
        print_line(f"left out: {problem}")
    if len(result.problems) > SHOWN:
        print_line(f"and {len(result.problems) - SHOWN} more")
    return FAILED if result.problems else 0


def add_pack(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands to a parser of commands."""
    packing = add_command(
        commands,
        "pack",
        "write a folder as one .ozx file",
        lambda options: _run_packing(pack, options),
        description="Chunks are copied as they are. The folder stays.",
    )
    _add_names(packing, "FOLDER", "OME-Zarr 0.5 or newer", "FILE", "NAME.ozx")
    unpacking = add_command(
        commands,
        "unpack",
        "write an .ozx file as a folder",
        lambda options: _run_packing(unpack, options),
        description="Each entry is compared with its checksum. The file stays.",
    )
    _add_names(unpacking, "FILE", ".ozx or zip file", "FOLDER", "NAME.ome.zarr")


def _add_names(
    command: argparse.ArgumentParser, source: str, text: str, target: str, name: str
) -> None:
    command.add_argument("source", metavar=source, help=text)
    usual = f"by default {name} beside it"
    command.add_argument("target", metavar=target, nargs="?", help=usual)
    add_overwrite(command)


def _run_packing(write: Callable[..., Path], options: argparse.Namespace) -> int:
    """Run one of the two; returns the exit code."""
    with report_value_errors(), show_progress() as progress:
        target = write(
            options.source,
            options.target,
            overwrite=options.overwrite,
            progress=progress,
        )
    # Whole, as `convert` does, also where a relative path was given.
    print(target.resolve())
    for note in note_beside(options.source):
        print_line(note)
    return 0
