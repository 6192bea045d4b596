"""The architecture, as rules on imports: lower layers do not know higher ones."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[1] / "src"
# From the lowest up. Those of one layer do not know each other.
LAYERS = (
    ("errors",),
    ("metadata",),
    ("store",),
    ("plate", "labels"),
    ("__init__",),  # the public names
    ("viewer",),
    ("widgets",),
    ("commands",),
    ("plugin", "cli"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
QT = ("qtpy", "superqt", "magicgui", "PyQt5", "PyQt6", "PySide2", "PySide6")
QT_IN_NAPARI = ("napari.qt", "napari._qt")
LONGEST = 400


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a module imports, anywhere in it, types included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level
            yield from (f"{relative}{node.module}.{alias.name}" for alias in node.names)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(
        name == package or name.startswith(f"{package}.") for package in packages
    )


def violations(path: str, text: str) -> list[str]:
    """What a module, `path` below ``napari_ngff``, does against the architecture."""
    found = []
    own = path.split("/")[0].removesuffix(".py")
    for name in imported(ast.parse(text)):
        if name.startswith("."):
            found.append(f"imports {name} relatively")
        if within(name, ("napari_ngff",)):
            other = [*name.split("."), ""][1]
            other = other if other in RANK else "__init__"
            if other != own and RANK[other] >= RANK[own]:
                found.append(f"{own} imports {other}")
        if within(name, (*QT, *QT_IN_NAPARI)) and RANK[own] < RANK["widgets"]:
            found.append(f"{own} imports Qt: {name}")
        if within(name, ("napari", "vispy")) and RANK[own] < RANK["viewer"]:
            found.append(f"{own} imports napari: {name}")
    if len(text.splitlines()) > LONGEST:
        found.append(f"is longer than {LONGEST} lines")
    return found


MODULES = sorted((SOURCE / "napari_ngff").rglob("*.py"))


@pytest.mark.parametrize(
    "module", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix()
)
def test_module_keeps_to_its_layer(module: Path) -> None:
    path = module.relative_to(SOURCE / "napari_ngff").as_posix()
    assert violations(path, module.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("errors.py", "from napari_ngff.metadata.model import Problem"),
        ("metadata/parse.py", "import napari_ngff.store.node"),
        ("metadata/parse.py", "from napari_ngff import store"),
        ("store/node.py", "from napari_ngff import open_node"),
        ("store/node.py", "def f():\n    from napari_ngff.plate import layout"),
        (
            "store/node.py",
            "if TYPE_CHECKING:\n    from napari_ngff.labels import edits",
        ),
        ("labels/canvas.py", "from napari_ngff.plate.layout import Layout"),
        ("plate/layout.py", "from napari_ngff.labels.edits import Edit"),
        ("viewer/session.py", "from napari_ngff.widgets.browser.dock import Browser"),
        ("widgets/browser/dock.py", "from napari_ngff.cli import main"),
        ("commands/check.py", "from napari_ngff.cli import main"),
        ("cli.py", "from napari_ngff.plugin import read"),
        ("plugin.py", "from napari_ngff.cli import main"),
        ("widgets/browser/dock.py", "from .annotate import Annotate"),
        ("labels/canvas.py", "from napari.layers import Labels"),
        ("store/node.py", "import napari.utils"),
        ("plate/previews/preview.py", "from qtpy.QtCore import QTimer"),
        ("metadata/parse.py", "import PyQt6"),
        ("viewer/session.py", "from napari.qt.threading import thread_worker"),
        ("viewer/session.py", "from napari import qt"),
        ("viewer/layers.py", "from magicgui import magicgui"),
        ("viewer/layers.py", "from superqt.utils import ensure_main_thread"),
        ("widgets/browser/dock.py", "\n" * (LONGEST + 1)),
    ],
)
def test_violation_is_seen(path: str, text: str) -> None:
    assert len(violations(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("store/node.py", "from napari_ngff.store.source import Source"),
        ("labels/canvas.py", "from napari_ngff.errors import OMEZarrError"),
        ("viewer/session.py", "from napari.layers import Labels"),
        ("widgets/browser/dock.py", "from napari.qt.threading import thread_worker"),
        ("cli.py", "from napari_ngff import __version__"),
        ("errors.py", "import naparison, qtpython"),
        ("errors.py", "\n" * LONGEST),
    ],
)
def test_right_imports_pass(path: str, text: str) -> None:
    assert violations(path, text) == []


def test_every_module_has_a_layer() -> None:
    names = {path.stem for path in (SOURCE / "napari_ngff").glob("*.py")}
    names |= {path.name for path in (SOURCE / "napari_ngff").iterdir() if path.is_dir()}
    assert names - {"__pycache__"} <= set(RANK)


def test_every_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = {
        re.match(r"[\w-]+", requirement)[0].lower()
        for requirement in chain(project["dependencies"], *extras)
    }
    distributions = packages_distributions()
    names = {
        name.split(".")[0]
        for module in MODULES
        for name in imported(ast.parse(module.read_text(encoding="utf-8")))
    }
    foreign = names - {"napari_ngff"} - sys.stdlib_module_names
    assert {
        name
        for name in foreign
        if not declared & {d.lower() for d in distributions.get(name, [name])}
    } == set()


def test_import_loads_no_gui() -> None:
    code = (
        "import sys, napari_ngff\n"
        f"print(sorted({{'napari', *{QT!r}}} & sys.modules.keys()))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
