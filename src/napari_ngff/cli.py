"""The command ``napari-ngff``: info, tree, check, merge, measure and others.

Exit codes: 0 done, 1 it could not be read or is not valid, 2 the call was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from napari_ngff import __version__
from napari_ngff.addresses import is_url
from napari_ngff.commands.check import add_check
from napari_ngff.commands.command_line import (
    FAILED,
    add_command,
    add_path,
    report_failure,
)
from napari_ngff.commands.convert import add_convert, add_pack
from napari_ngff.commands.labels import add_export, add_merge
from napari_ngff.commands.measure import add_measure
from napari_ngff.errors import NotOMEZarrError, OMEZarrError, beyond_limits
from napari_ngff.installed import describe_installation
from napari_ngff.metadata.model import JSON, Acquisition
from napari_ngff.store.hierarchy.node import Node, open_node, read_node
from napari_ngff.store.hierarchy.summary import (
    list_branches,
    list_tables,
    summarize_node,
)

WINDOW = 1400, 900
"""Width and height of the window where the screen has room, in pixels."""

SETTLED, PATIENCE = 1.0, 20.0
"""Least and most seconds to wait before a screenshot of the window."""


DRIFT = "level-misplaced"
"""Code of a problem that all coarser levels may have: it is listed once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _make_parser().parse_args(arguments)
    code: int | None = None
    try:
        with beyond_limits():
            code = options.run(options)
        # Here, where a closed pipe is caught; at the end of the process it would be
        # printed.
        sys.stdout.flush()
    except BrokenPipeError:
        # What reads our output, such as `head`, has enough. Python flushes once more at
        # its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OMEZarrError, OSError) as error:
        return report_failure(error)
    # Without the traceback that Python prints.
    except KeyboardInterrupt:
        return FAILED
    return code or 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="napari-ngff", description="Look at OME-Zarr from the command line."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    summary = "show what a path holds, and its problems"
    info = add_command(commands, "info", summary, _print_info)
    add_path(info)
    info.add_argument("--json", action="store_true", help="print JSON")

    summary = "list the groups below, as metadata names"
    tree = add_command(commands, "tree", summary, _print_tree)
    add_path(tree)
    tree.add_argument(
        "--depth", type=int, default=3, metavar="N", help="levels of groups (3)"
    )

    add_check(commands)
    add_merge(commands)
    add_measure(commands)
    add_export(commands)
    add_convert(commands)
    add_pack(commands)

    summary = "list the installed releases, for the report of a problem"
    add_command(commands, "report", summary, _print_installation)

    view = add_command(commands, "view", "open in napari", _open_in_viewer)
    view.add_argument("paths", metavar="PATH", nargs="+")
    summary = "make a sample plate and open it in napari"
    demo = add_command(commands, "demo", summary, _open_demo)
    demo.add_argument("folder", metavar="DIR", help="where to put it")
    for command in (view, demo):
        command.add_argument(
            "--screenshot", metavar="FILE", help="save a screenshot and close"
        )
    return parser


def _print_installation(_: argparse.Namespace) -> None:
    print(describe_installation())


def _print_info(options: argparse.Namespace) -> None:
    try:
        node = open_node(options.path)
    except NotOMEZarrError:
        # Folders of images that no metadata lists can be opened in napari, too.
        from napari_ngff.store.hierarchy.image_folder import (
            find_first_image,
            image_folder,
        )

        folder = image_folder(options.path)
        if folder is None or find_first_image(folder) is None or options.json:
            raise
        names = folder.metadata.series or ()
        print(f"{options.path}\nfolder of {len(names)} images, as napari lists")
        print("\n".join(f"  {name}" for name in names))
        with suppress(OMEZarrError):  # a plain folder is no group
            tables = list_tables(read_node(folder.location))
            if tables:
                print(f"tables   {', '.join(tables)}")
        return
    summary = summarize_node(node)
    text = (
        json.dumps(summary, indent=2)
        if options.json
        else "\n".join(_summary_lines(summary))
    )
    print(text)


def _summary_lines(summary: JSON) -> list[str]:
    version = f"OME-Zarr {summary['version']}" if summary["version"] else "OME-Zarr"
    kind, zarr_format = summary["kind"] or "group", summary["zarr_format"]
    lines = [f"{summary['path']}", f"{kind}, {version}, zarr format {zarr_format}"]
    if "image" in summary:
        lines += _image_lines(summary["image"])
    if "plate" in summary:
        plate = summary["plate"]
        size = f"{len(plate['rows'])} rows x {len(plate['columns'])} columns"
        lines.append(f"plate    {plate['name']}: {size}, {plate['wells']} wells")
        runs = [Acquisition(**described).title for described in plate["acquisitions"]]
        lines += [f"acquisitions  {', '.join(runs)}"] if len(runs) > 1 else []
    if "well" in summary:
        fields = ", ".join(field["path"] for field in summary["well"]["fields"])
        lines.append(f"fields   {fields}")
    if "images" in summary:
        lines.append(
            f"images   {len(summary['images'])}: {', '.join(summary['images'])}"
        )
    # One system is the image's own, which needs no line.
    systems = summary.get("systems", summary.get("image", {}).get("systems", ()))
    if summary["kind"] == "scene" or len(systems) > 1:
        lines.append(f"systems  {', '.join(systems) or 'none of its own'}")
    if "labels" in summary:
        lines.append(f"labels   {', '.join(summary['labels']) or 'none'}")
    if "tables" in summary:
        lines.append(f"tables   {', '.join(summary['tables'])}")
    return lines + _problem_lines(summary)


def _problem_lines(summary: JSON) -> list[str]:
    """List the problems; of those that all levels have, the worst once."""
    problems = list(summary["problems"])
    unread = [summary["image"]["error"]] if "error" in summary.get("image", {}) else []
    drifts = [p for p in problems if p["code"] == DRIFT]
    others = [p for p in problems if p["code"] != DRIFT]
    count = len(others) + len(unread) + bool(drifts)
    lines = [f"problems {count or 'none'}"]
    lines += [f"  error image-unreadable: {text}" for text in unread]
    # The last level is the coarsest, and the one that lies off most.
    for problem in others + drifts[-1:]:
        heading = f"{problem['severity']} {problem['code']} at {problem['where']}"
        text = f"{problem['text']} {problem['consequence']}"
        if problem["code"] == DRIFT and len(drifts) > 1:
            text += f" (levels: {len(drifts)})"
        lines.append(f"  {heading.rstrip(':')}: {text}".rstrip())
    return lines


def _image_lines(image: JSON) -> list[str]:
    if "error" in image:
        return []
    axes = image["axes"]
    finest = image["levels"][0]
    sizes = []
    for i, axis in enumerate(axes):
        size = f"{image['physical_size'][i]:g}"
        # Frames and the time between them: a length in seconds says little.
        if axis["type"] == "time":
            size = f"{finest['shape'][i]} x {abs(finest['scale'][i]):g}"
        sizes.append(f"{axis['name']} {size} {axis['unit'] or ''}".strip())
    names = "".join(axis["name"] for axis in axes)
    lines = [f"axes     {names}", f"size     {', '.join(sizes)}"]
    for level in image["levels"]:
        shape = " x ".join(str(size) for size in level["shape"])
        chunks = "x".join(str(size) for size in level["chunks"])
        shards = level["shards"]
        units = f" in shards {'x'.join(map(str, shards))}" if shards else ""
        codecs = ", ".join(level["codecs"])
        lines.append(
            f"level    {level['path']}: {shape} {level['dtype']}, chunks"
            f" {chunks}{units}, {codecs}"
        )
    for i, channel in enumerate(image["channels"]):
        window = channel["window"] or {}
        limits = f"{window.get('start')} to {window.get('end')}" if window else "auto"
        name = channel["label"] or f"channel {i}"
        lines.append(f"channel  {name}: #{channel['color'] or '------'}, {limits}")
    return lines


def _print_tree(options: argparse.Namespace) -> None:
    node = open_node(options.path)
    print(f"{node}  {_node_title(node)}")
    _print_branches(node, options.depth, "")


def _print_branches(node: Node, depth: int, indent: str) -> None:
    if depth < 1:
        return
    # One by one, so that each is printed when it is read.
    for path in list_branches(node):
        children = node.children([path])
        for problem in children.problems:
            print(f"{indent}  {path}  ! {problem.text}")
        for child in children.nodes:
            print(f"{indent}  {path}  {_node_title(child)}")
            _print_branches(child, depth - 1, f"{indent}  ")


def _node_title(node: Node) -> str:
    image = node.metadata.image
    if image is None:
        return str(node.kind or "group")
    multiscale = image.multiscales[0]
    axes = "".join(multiscale.axis_names)
    return f"{node.kind}, {axes}, {len(multiscale.levels)} levels"


def _open_in_viewer(options: argparse.Namespace) -> None:
    # A wrong path shall be reported before a window opens.
    for path in options.paths:
        open_node(path)
    _show_paths(options.paths, options.screenshot)


def _open_demo(options: argparse.Namespace) -> None:
    from napari_ngff.viewer.samples import write_plate

    path = Path(options.folder) / "plate.ome.zarr"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_plate(path, "0.5")
    print(f"Sample plate: {path}")
    _show_paths([str(path)], options.screenshot, _show_first_field)


def _show_first_field(viewer: Any) -> None:
    """Begin with the cells of one field; the plate is beside it, as a map."""
    from napari_ngff.viewer.session import session_of

    browser = session_of(viewer).browser
    if browser is not None:
        browser.show_field(browser.map.wells[0].path)


def _show_paths(
    paths: Sequence[str | Path],
    screenshot: str | None,
    begin: Callable[[Any], None] | None = None,
) -> None:
    try:
        import napari
    except ImportError as error:
        msg = "napari is not installed. Run: pip install 'napari-ngff[all]'"
        raise OMEZarrError(msg) from error
    viewer: Any = napari.Viewer()
    _fit_window(viewer)
    for path in paths:
        if os.path.exists(path) or is_url(path):
            viewer.open(path, plugin="napari-ngff")
        # Inside an archive: napari refuses paths that are no files or folders.
        else:
            _add_layers(viewer, str(path))
    if begin is not None:
        begin(viewer)
    if screenshot is None:
        napari.run()
        return
    _wait_until_drawn(viewer)
    # The browser beside a plate, which opens meanwhile, takes some of the room.
    viewer.reset_view()
    _wait_until_drawn(viewer)
    viewer.screenshot(screenshot, canvas_only=False, flash=False)
    viewer.close()
    print(f"Screenshot: {screenshot}")


def _fit_window(viewer: Any) -> None:
    """Give the window its size; on a smaller screen it fills the screen."""
    from napari_ngff.viewer.private.napari_window import qt_window_of

    window = qt_window_of(viewer)
    room = window.screen().availableGeometry()
    width, height = min(WINDOW[0], room.width()), min(WINDOW[1], room.height())
    viewer.window.resize(width, height)
    if (width, height) != WINDOW:
        window.showMaximized()


def _add_layers(viewer: Any, path: str) -> None:
    """Add the layers of a place that napari does not take for a path."""
    from napari.layers import Layer

    from napari_ngff.viewer.painting.painted_layers import as_layers
    from napari_ngff.viewer.reader import read_paths
    from napari_ngff.widgets.installation import install_widgets

    install_widgets()
    for data in as_layers(read_paths(path)):
        layer = data if isinstance(data, Layer) else Layer.create(*data)
        viewer.add_layer(layer)


def _wait_until_drawn(viewer: Any) -> None:
    """Let wells and remote pixels come in, for some seconds at most."""
    from qtpy.QtWidgets import QApplication

    from napari_ngff.viewer.session import session_of
    from napari_ngff.viewer.streaming.streamed_levels import are_pixels_coming

    begun = time.monotonic()
    while time.monotonic() < begun + PATIENCE:
        # napari's event loop does not run yet.
        QApplication.processEvents()
        time.sleep(0.01)
        browser = session_of(viewer).browser
        drawn = browser is None or not browser.is_drawing
        if drawn and not are_pixels_coming() and time.monotonic() > begun + SETTLED:
            return


if __name__ == "__main__":
    sys.exit(main())
