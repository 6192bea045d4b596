"""The command ``napari-ngff``: info, tree, check, merge, export, view, demo.

Exit codes: 0 done, 1 it could not be read or is not valid, 2 the call was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from napari_ngff import __version__
from napari_ngff.commands.check import add_check
from napari_ngff.commands.export import add_export
from napari_ngff.commands.measure import add_measure
from napari_ngff.commands.merge import add_merge
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.node import Node, open_node
from napari_ngff.store.summary import branches, summary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from napari_ngff.metadata.model import JSON

__all__ = ["main"]

SETTLED, PATIENCE = 1.0, 20.0
"""Seconds before a picture is taken of a window, at least and at most."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    code: int | None = None
    try:
        code = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # what reads our output, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OMEZarrError, OSError) as error:
        print(f"napari-ngff: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="napari-ngff", description="Look at OME-Zarr from the command line."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    info = commands.add_parser("info", help="say what something is, and its problems")
    info.add_argument("path", metavar="PATH", help="folder, group in it, .ozx or URL")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(run=_info)

    tree = commands.add_parser("tree", help="list the groups below, as metadata names")
    tree.add_argument("path", metavar="PATH", help="folder, group in it, .ozx or URL")
    tree.add_argument(
        "--depth", type=int, default=3, metavar="N", help="levels of groups (3)"
    )
    tree.set_defaults(run=_tree)

    add_check(commands)
    add_merge(commands)
    add_measure(commands)
    add_export(commands)

    view = commands.add_parser("view", help="open in napari")
    view.add_argument("paths", metavar="PATH", nargs="+")
    view.add_argument("--screenshot", metavar="FILE", help="save a picture and close")
    view.set_defaults(run=_view)

    demo = commands.add_parser("demo", help="make a sample plate and open it in napari")
    demo.add_argument("folder", metavar="DIR", help="where to put it")
    demo.add_argument("--screenshot", metavar="FILE", help="save a picture and close")
    demo.set_defaults(run=_demo)
    return parser


def _info(options: argparse.Namespace) -> None:
    found = summary(open_node(options.path))
    print(json.dumps(found, indent=2) if options.json else "\n".join(_lines(found)))


def _lines(found: JSON) -> list[str]:
    version = f"OME-Zarr {found['version']}" if found["version"] else "OME-Zarr"
    lines = [
        f"{found['path']}",
        f"{found['kind'] or 'group'}, {version}, zarr format {found['zarr_format']}",
    ]
    if "image" in found:
        lines += _image_lines(found["image"])
    if "plate" in found:
        plate = found["plate"]
        size = f"{len(plate['rows'])} rows x {len(plate['columns'])} columns"
        lines.append(f"plate    {plate['name']}: {size}, {plate['wells']} wells")
    if "well" in found:
        fields = ", ".join(field["path"] for field in found["well"]["fields"])
        lines.append(f"fields   {fields}")
    if "images" in found:
        lines.append(f"images   {len(found['images'])}: {', '.join(found['images'])}")
    systems = found.get("systems", found.get("image", {}).get("systems", ()))
    if found["kind"] == "scene" or len(systems) > 1:
        lines.append(f"systems  {', '.join(systems) or 'none of its own'}")
    if "labels" in found:
        lines.append(f"labels   {', '.join(found['labels']) or 'none'}")
    lines.append(f"problems {len(found['problems']) or 'none'}")
    for problem in found["problems"]:
        place = f"{problem['severity']} {problem['code']} at {problem['where']}"
        text = f"{problem['text']} {problem['consequence']}"
        lines.append(f"  {place.rstrip(':')}: {text}".rstrip())
    return lines


def _image_lines(image: JSON) -> list[str]:
    if "error" in image:
        return [f"image    {image['error']}"]
    axes = image["axes"]
    sizes = (
        f"{axis['name']} {size:g} {axis['unit'] or ''}".strip()
        for axis, size in zip(axes, image["physical_size"], strict=True)
    )
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
        shown = f"{window.get('start')} to {window.get('end')}" if window else "auto"
        name = channel["label"] or f"channel {i}"
        lines.append(f"channel  {name}: #{channel['color'] or '------'}, {shown}")
    return lines


def _tree(options: argparse.Namespace) -> None:
    node = open_node(options.path)
    print(f"{node}  {_title(node)}")
    _print_branches(node, options.depth, "")


def _print_branches(node: Node, depth: int, indent: str) -> None:
    if depth < 1:
        return
    for path in branches(node):
        found = node.children([path])
        for problem in found.problems:
            print(f"{indent}  {path}  ! {problem.text}")
        for child in found.nodes:
            print(f"{indent}  {path}  {_title(child)}")
            _print_branches(child, depth - 1, f"{indent}  ")


def _title(node: Node) -> str:
    image = node.metadata.image
    if image is None:
        return str(node.kind or "group")
    multiscale = image.multiscales[0]
    axes = "".join(multiscale.axis_names)
    return f"{node.kind}, {axes}, {len(multiscale.levels)} levels"


def _view(options: argparse.Namespace) -> None:
    # A wrong path shall be told before a window opens.
    for path in options.paths:
        open_node(path)
    _show(options.paths, options.screenshot)


def _demo(options: argparse.Namespace) -> None:
    from pathlib import Path

    from napari_ngff.viewer.samples import write_plate

    path = Path(options.folder) / "plate.ome.zarr"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_plate(path, "0.5")
    print(f"Sample plate: {path}")
    _show([str(path)], options.screenshot)


def _show(paths: Sequence[str | Path], screenshot: str | None) -> None:
    try:
        import napari
    except ImportError as error:
        msg = "napari is not installed. Run: pip install 'napari-ngff[all]'"
        raise OMEZarrError(msg) from error
    viewer: Any = napari.Viewer()
    for path in paths:
        viewer.open(path, plugin="napari-ngff")
    if screenshot is None:
        napari.run()
        return
    viewer.window.resize(1400, 900)
    _wait(viewer)
    viewer.reset_view()  # the browser beside a plate takes some of the room
    _wait(viewer)
    viewer.screenshot(screenshot, canvas_only=False, flash=False)
    viewer.close()
    print(f"Screenshot: {screenshot}")


def _wait(viewer: Any) -> None:
    """Let the wells of a plate come in, for some seconds at most."""
    from qtpy.QtWidgets import QApplication

    from napari_ngff.viewer.session import session_of

    begun = time.monotonic()
    while time.monotonic() < begun + PATIENCE:
        QApplication.processEvents()
        time.sleep(0.01)
        browser = session_of(viewer).browser
        drawn = browser is None or not browser.is_drawing
        if drawn and time.monotonic() > begun + SETTLED:
            return


if __name__ == "__main__":
    sys.exit(main())
