"""The commands ``napari-ngff export`` and ``napari-ngff merge``, for labels."""

from __future__ import annotations

import argparse

from napari_ngff.commands.command_line import (
    WRONG_CALL,
    add_command,
    keeping_no_chunks,
    print_line,
    report_value_errors,
    show_progress,
)
from napari_ngff.errors import NotOMEZarrError, OptionError
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.label_classes import used_classes
from napari_ngff.labels.object_export import (
    axis_letters,
    save_boxes,
    save_outlines,
    unit_of_boxes,
)
from napari_ngff.labels.places.merge_sidecar import merge
from napari_ngff.metadata.units import to_micrometers
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.pyramids.pyramid import open_pyramid


def add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser of commands."""
    summary = "write outlines or boxes of labels for other programs"
    command = add_command(commands, "export", summary, run_export)
    command.add_argument("labels", metavar="LABELS", help="a label image")
    command.add_argument(
        "--geojson",
        metavar="FILE",
        help="outlines of all objects, as QuPath reads them",
    )
    command.add_argument(
        "--boxes",
        metavar="FILE",
        help="bounding boxes in micrometres (voxels without a unit), as CSV",
    )
    command.add_argument(
        "--level", type=int, default=0, metavar="N", help="of which level (0)"
    )


def run_export(options: argparse.Namespace) -> int:
    """Export; returns the exit code."""
    if not options.geojson and not options.boxes:
        print_line("give --geojson FILE or --boxes FILE")
        return WRONG_CALL
    node = open_node(options.labels)
    image = node.metadata.image
    if image is None or image.label is None:
        msg = f"{node} is not a label image."
        raise NotOMEZarrError(msg, remedy="Name one, such as IMAGE/labels/NAME.")
    pyramid = open_pyramid(node)
    # Exports read a canvas, as in the viewer; here it has no edits.
    canvas = Canvas(pyramid.levels)
    axes = axis_letters(pyramid.multiscale.axis_names)
    if not 0 <= options.level < len(canvas.levels):
        raise OptionError(f"{node} has no level {options.level}.", "level")
    with report_value_errors():
        level = canvas.levels[options.level]
        if options.geojson:
            count = save_outlines(
                options.geojson, level, axes, used_classes(image.label)
            )
            print(f"{count} outlines -> {options.geojson}")
        if options.boxes:
            # Boxes of any level are given by voxels of level 0.
            scale = pyramid.multiscale.levels[0].scale
            units = [axis.unit for axis in pyramid.multiscale.axes]
            pixel = [*map(to_micrometers, scale, units)]
            count = save_boxes(options.boxes, level, axes, pixel)
            unit = unit_of_boxes(axes, pixel)
            print(f"{count} boxes in {unit}s -> {options.boxes}")
    return 0


def add_merge(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser of commands."""
    command = add_command(
        commands,
        "merge",
        "copy the labels of a sidecar into their image",
        run_merge,
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


def run_merge(options: argparse.Namespace) -> int:
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
