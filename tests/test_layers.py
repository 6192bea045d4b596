"""The architecture, as rules on imports: lower layers do not know higher ones."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
# From the lowest up. Those of one layer do not know each other.
LAYERS = (
    ("addresses", "installed"),
    ("errors",),
    ("metadata",),
    ("store",),
    ("plate", "labels"),
    ("api",),
    ("viewer",),
    ("widgets",),
    ("__init__", "testing"),  # the public names
    ("commands",),
    ("plugin", "cli"),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
VIEWER_LAYERS = (
    ("private",),
    ("services",),
    ("plans",),
    ("streaming",),
    ("layers",),
    ("saving",),
    ("painting",),
    ("annotations",),
    ("browsing",),
    ("session",),
    (
        "reader",
        "first_saves",
        "labels_in_file",
        "bridge",
        "composing",
        "inspecting",
        "results",
    ),
    ("converting", "samples"),
)
"""The same within ``viewer``: its folders, and the modules beside them."""
VIEWER_RANK = {name: rank for rank, names in enumerate(VIEWER_LAYERS) for name in names}
QT = ("qtpy", "superqt", "magicgui", "PyQt5", "PyQt6", "PySide2", "PySide6")
QT_IN_NAPARI = ("napari.qt", "napari._qt", "napari_ngff.viewer.private.visuals")
LONGEST = 600
ONE_PLACE = {
    "fsync": r"\bos\.(?:fsync|fdatasync)\(",
    "file_lock": r"\b(?:fcntl\.flock|msvcrt\.locking|fcntl\.lockf)\(",
    "exchange": r"\b(?:renameat2|renamex_np)\(",
    "replace_file": r"\bos\.replace\(|\btempfile\.\w+\(|\bos\.O_(?:EXCL|TMPFILE)\b",
    "writer_token": r"\"\.(?:aside|part|tmp)\b",
}
"""Module of ``store/write`` -> calls, of each of which there is one in the package."""
DURABLE = re.compile(
    r"\bos\.(?:fsync|fdatasync|replace|rename|link)\b|\b(?:fcntl|msvcrt|tempfile)\b"
).findall
"""What flushes, names, locks or makes files that nobody reads yet."""
WRITES = {
    "labels/journal.py": "appends to a journal, which it holds",
    "store/disk_cache.py": "writes aside, by `replace_when_done`",
}
"""Modules that open files to write them, beside those of ``store/write``: others change
what windows share by `SharedDocument`, and replace what they make by `replace_file`."""
KIND = r"\b(?:(?:Folder|Archive|Remote|Zarr)Store|\w+Transaction)\b"
KINDS = re.compile(
    rf"isinstance\([^()]*{KIND}[^()]*\)|\"s3://\"|source\.name\.startswith\("
    r"|\"://\" (?:not )?in (?:str\()?(?:node|source)|\bis_bucket\("
).findall
"""Questions of what kind a store is; its traits and methods answer all others."""
MAKES_KINDS = {
    "store/hierarchy/location.py": "has the table of kinds",
    "store/write/new_hierarchy.py": "makes new ones, also of what an archive has",
}
"""Modules that name a kind, beside those of ``store/sources``. Who made a folder, or
found it beside something else, opens it."""


@functools.cache
def imported(text: str) -> tuple[str, ...]:
    """Dotted names that a module imports, anywhere in it, types included."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = f"{'.' * node.level}{node.module}"
            names += [f"{start}.{alias.name}" for alias in node.names]
    return tuple(names)


def writes(call: ast.Call) -> bool:
    """Whether a call writes into a file."""
    name = ast.unparse(call.func)
    if re.search(r"\.(write_text|write_bytes|touch)$|^json\.dump$", name):
        return True
    if not re.search(r"(^|\.)open$", name):
        return False
    # `Path.open` has the mode first.
    values = [*call.args[name == "open" :], *(word.value for word in call.keywords)]
    modes = [n.value for n in values if isinstance(n, ast.Constant)]
    return any(re.fullmatch(r"(?=.*[wax+])[rwaxbt+]+", str(mode)) for mode in modes)


def handmade(path: str, text: str) -> list[str]:
    """How a module writes files, or reads documents, by itself."""
    found = []
    if not path.startswith("store/write/") and path not in WRITES:
        calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
        found += [f"writes: {ast.unparse(call)}" for call in calls if writes(call)]
    if path != "store/limits.py":
        # It bounds no depth.
        found += re.findall(r"\bjson\.loads?\(", text)
    return found


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(
        name == package or name.startswith(f"{package}.") for package in packages
    )


def upward_in_viewer(path: str, name: str) -> list[str]:
    """What a module of ``viewer`` imports from beside or above its own folder."""
    if not (path.startswith("viewer/") and within(name, ("napari_ngff.viewer",))):
        return []
    own, other = path.split("/")[1].removesuffix(".py"), [*name.split("."), ""][2]
    if other == own or VIEWER_RANK.get(other, len(VIEWER_RANK)) < VIEWER_RANK[own]:
        return []
    return [f"viewer/{own} imports {other or 'all of viewer'}"]


def violations(path: str, text: str) -> list[str]:
    """What a module, `path` below ``napari_ngff``, does against the architecture."""
    found = handmade(path, text)
    own = path.split("/")[0].removesuffix(".py")
    for name in imported(text):
        if name.startswith("."):
            found.append(f"imports {name} relatively")
        if within(name, ("napari_ngff",)):
            other = [*name.split("."), ""][1]
            other = other if other in RANK else "__init__"
            if other != own and RANK[other] >= RANK[own]:
                found.append(f"{own} imports {other}")
        found += upward_in_viewer(path, name)
        if within(name, (*QT, *QT_IN_NAPARI)) and RANK[own] < RANK["widgets"]:
            found.append(f"{own} imports Qt: {name}")
        if within(name, ("napari", "vispy")) and RANK[own] < RANK["viewer"]:
            found.append(f"{own} imports napari: {name}")
    if not path.startswith("store/write/"):
        found += [f"names {name} outside store/write" for name in DURABLE(text)]
    if not path.startswith("store/sources/") and path not in MAKES_KINDS:
        found += [f"asks for a kind of store: {call}" for call in KINDS(text)]
        made = re.compile(r"\b(?:Archive|Remote|Zarr)Store$|\.open_zip$").search
        found += [f"names a kind: {name}" for name in imported(text) if made(name)]
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
        ("metadata/parse.py", "import napari_ngff.store.hierarchy.node"),
        ("metadata/parse.py", "from napari_ngff import store"),
        ("store/hierarchy/node.py", "from napari_ngff import open_node"),
        (
            "store/hierarchy/node.py",
            "def f():\n    from napari_ngff.plate import layout",
        ),
        (
            "store/hierarchy/node.py",
            "if TYPE_CHECKING:\n    from napari_ngff.labels import edits",
        ),
        ("labels/canvas.py", "from napari_ngff.plate.plate_layout import Layout"),
        ("plate/plate_layout.py", "from napari_ngff.labels.edits import Edit"),
        (
            "viewer/session.py",
            "from napari_ngff.widgets.browser.browser_dock import Browser",
        ),
        ("viewer/private/lost.py", "import napari_ngff.viewer.services.window"),
        (
            "viewer/saving/layer_saver.py",
            "if TYPE_CHECKING:\n    from napari_ngff.viewer.painting import paint",
        ),
        (
            "viewer/painting/paint.py",
            "def f():\n    from napari_ngff.viewer.session import session_of",
        ),
        ("viewer/browsing/browser.py", "from napari_ngff.viewer import session"),
        ("viewer/browsing/browser.py", "from napari_ngff import viewer"),
        ("viewer/reader.py", "from napari_ngff.viewer.bridge.work_region import WORK"),
        ("widgets/browser/browser_dock.py", "from napari_ngff.cli import main"),
        ("commands/check.py", "from napari_ngff.cli import main"),
        ("cli.py", "from napari_ngff.plugin import read"),
        ("plugin.py", "from napari_ngff.cli import main"),
        ("widgets/browser/browser_dock.py", "from .annotate import Annotate"),
        ("labels/canvas.py", "from napari.layers import Labels"),
        ("store/hierarchy/node.py", "import napari.utils"),
        ("plate/previews/preview.py", "from qtpy.QtCore import QTimer"),
        ("metadata/parse.py", "import PyQt6"),
        ("viewer/session.py", "from napari.qt.threading import thread_worker"),
        ("viewer/session.py", "from napari import qt"),
        ("viewer/layers/image_layers.py", "from magicgui import magicgui"),
        (
            "viewer/layers/image_layers.py",
            "from superqt.utils import ensure_main_thread",
        ),
        ("widgets/browser/browser_dock.py", "\n" * (LONGEST + 1)),
        ("store/sources/zip_directory.py", "import tempfile"),
        ("labels/journal.py", "def f(a, b):\n    os.replace(a, b)"),
        ("store/node.py", "def f(a):\n    os.fsync(a)"),
        ("labels/label_writer.py", "isinstance(source, FolderStore)"),
        (
            "store/check/repair.py",
            "isinstance(node.source, ArchiveStore | FolderStore)",
        ),
        ("store/pyramids/pyramid.py", 'source.name.startswith("http")'),
        ("store/convert/work_unit.py", "if is_bucket(unit.target): pass"),
        ("store/convert/work_unit.py", 'root.startswith("s3://")'),
        ("store/hierarchy/summary.py", 'if "://" in str(node): pass'),
        (
            "store/check/visit_groups.py",
            "from napari_ngff.store.sources.archive_store import ArchiveStore",
        ),
        ("labels/field_states.py", "Path(a).write_text(b)"),
        ("viewer/services/settings.py", "note.touch()"),
        ("labels/field_states.py", "with open(a, 'w', encoding='utf-8') as b: pass"),
        ("viewer/services/settings.py", "a.open('r+b')"),
        ("viewer/services/settings.py", "json.dump(a, b)"),
        ("store/hierarchy/node.py", "open(a, mode='xb')"),
        ("store/write/replace_tree.py", "json.load(file)"),
        ("metadata/parse.py", "json.loads(text)"),
    ],
)
def test_violation_is_seen(path: str, text: str) -> None:
    assert len(violations(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "store/hierarchy/node.py",
            "from napari_ngff.store.store import Store",
        ),
        ("labels/canvas.py", "from napari_ngff.errors import OMEZarrError"),
        ("viewer/session.py", "from napari.layers import Labels"),
        ("viewer/painting/paint.py", "from napari_ngff.viewer.painting import brush"),
        ("viewer/painting/paint.py", "from napari_ngff.viewer.layers import contrast"),
        (
            "widgets/browser/browser_dock.py",
            "from napari.qt.threading import thread_worker",
        ),
        ("cli.py", "from napari_ngff import __version__"),
        ("store/write/fsync.py", "def f(a):\n    os.fsync(a)"),
        ("store/hierarchy/location.py", "isinstance(source, FolderStore)"),
        (
            "labels/places/sidecar.py",
            "from napari_ngff.store.sources.folder_store import FolderStore",
        ),
        ("errors.py", "import naparison, qtpython"),
        (
            "viewer/services/settings.py",
            "open(a), b.open('r'), a.open('rb'), self._write_text(b)",
        ),
        ("store/write/fsync.py", "open(a, 'wb')"),
        ("errors.py", "\n" * LONGEST),
    ],
)
def test_right_imports_pass(path: str, text: str) -> None:
    assert violations(path, text) == []


def test_every_module_has_a_layer() -> None:
    names = {path.stem for path in (SOURCE / "napari_ngff").glob("*.py")}
    names |= {path.name for path in (SOURCE / "napari_ngff").iterdir() if path.is_dir()}
    assert names - {"__pycache__"} <= set(RANK)


def test_everything_in_the_viewer_has_a_layer() -> None:
    """Also in the table of docs/design/021, in the same order."""
    viewer = SOURCE / "napari_ngff/viewer"
    # A folder that was moved may be left with compiled modules alone.
    names = {path.relative_to(viewer).parts[0] for path in viewer.rglob("*.py")}
    assert {name.removesuffix(".py") for name in names} - {"__init__"} == set(
        VIEWER_RANK
    )
    guide = GUIDE.read_text(encoding="utf-8")
    _, _, section = guide.partition("## Folders of `viewer/`")
    rows = re.findall(r"^\| (`.+?`) \| .+ \|$", section.partition("\n## ")[0], re.M)
    listed = [tuple(re.findall(r"`(\w+)(?:/|\.py)`", row)) for row in rows]
    assert listed == list(VIEWER_LAYERS)


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
        for name in imported(module.read_text(encoding="utf-8"))
    }
    foreign = names - {"napari_ngff"} - sys.stdlib_module_names
    assert {
        name
        for name in foreign
        if not declared & {d.lower() for d in distributions.get(name, [name])}
    } == set()


def test_all_that_tests_and_benchmarks_import_is_there() -> None:
    """Also inside functions, and in files that only a release runs."""
    root = SOURCE.parent
    texts = [*root.glob("tests/**/*.py"), *root.glob("docs/**/*.py")]
    named = {name for text in texts for name in imported(text.read_text())}
    missing = []
    for name in sorted(named):
        if within(name, ("napari_ngff",)) and "." in name:
            module, _, attribute = name.rpartition(".")
            try:
                if not hasattr(importlib.import_module(module), attribute):
                    importlib.import_module(name)
            except ImportError:
                missing.append(name)
    assert missing == []


def name_of(module: Path) -> str:
    """Dotted name of a module."""
    parts = module.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def graph(texts: dict[str, str]) -> dict[str, set[str]]:
    """List what modules import of each other, types included, by dotted name."""
    found = {}
    for own, text in texts.items():
        names = set(imported(text))
        names |= {name.rpartition(".")[0] for name in names}
        found[own] = (names & texts.keys()) - {own}
    return found


def circles(modules: dict[str, set[str]]) -> list[set[str]]:
    """Find the largest sets of modules that import each other in circles."""
    reached = {}
    for start in modules:
        left, seen = list(modules[start]), set()
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left.extend(modules[name])
        reached[start] = seen
    found: list[set[str]] = []
    for name, seen in reached.items():
        if name in seen and not any(name in circle for circle in found):
            found.append({other for other in seen if name in reached[other]})
    return found


TEXTS = {name_of(path): path.read_text(encoding="utf-8") for path in MODULES}


def test_all_that_ci_runs_is_there() -> None:
    """A stage whose failure fails nothing would stop without a word."""
    text = (SOURCE.parent / ".ci" / "run").read_text()
    paths = set(re.findall(r"\btests/[\w/*.]+", text))
    assert len(paths) >= 4, paths
    missing = [path for path in paths if not list(SOURCE.parent.glob(path))]
    assert missing == []


def test_no_module_imports_itself_by_others() -> None:
    assert circles(graph(TEXTS)) == []


def test_what_reads_and_writes_bytes_knows_no_groups() -> None:
    """Within the store: bytes and arrays are below groups, and these below the rest."""
    store = "napari_ngff.store"
    lower = tuple(f"{store}.{name}" for name in ("sources", "write", "arrays"))
    higher = tuple(
        f"{store}.{name}" for name in ("hierarchy", "pyramids", "check", "convert")
    )
    upwards = {
        (own, name)
        for own, names in graph(TEXTS).items()
        if within(own, lower)
        for name in names
        if within(name, higher)
    }
    assert upwards == set()


def test_circle_is_seen() -> None:
    texts = {
        "a": "from b import f",
        "b": "def f():\n    import c",
        "c": "if TYPE_CHECKING:\n    import a",
        "d": "import a, b, c",
    }
    assert circles(graph(texts)) == [{"a", "b", "c"}]
    texts["c"] = ""
    assert circles(graph(texts)) == []


def test_no_class_has_the_name_of_another() -> None:
    places: dict[str, list[str]] = {}
    for name, text in TEXTS.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


SMALL = 60
"""Lines below which a module is worth no file, if only one other imports it."""

SMALL_LEFT = {"napari_ngff.store.write.exchange"}


def test_no_small_module_is_of_use_to_one_other_alone() -> None:
    users = [name for names in graph(TEXTS).values() for name in names]
    found = {
        name_of(path)
        for path in MODULES
        if path.name != "__init__.py"
        and len(TEXTS[name_of(path)].splitlines()) < SMALL
        and users.count(name_of(path)) == 1
    }
    assert found - SMALL_LEFT == set()


@pytest.mark.parametrize("module", TEXTS)
def test_every_inner_function_is_used(module: str) -> None:
    """One that is not used shows a name that was lost in a renaming."""
    unused = []
    for outer in ast.walk(ast.parse(TEXTS[module])):
        if not isinstance(outer, ast.FunctionDef):
            continue
        inner = [
            node.name
            for node in outer.body
            if isinstance(node, ast.FunctionDef) and not node.decorator_list
        ]
        if inner:
            names = {node.id for node in ast.walk(outer) if isinstance(node, ast.Name)}
            unused += [f"{outer.name}: {name}" for name in inner if name not in names]
    assert unused == []


TESTS = Path(__file__).parent
GUIDE = TESTS.parent / "docs/design/021-map-of-the-code.md"


def test_tests_lie_where_their_modules_do() -> None:
    """A file named after a module is in the folder of that module; names are unique."""
    folders: dict[str, set[str]] = {}
    for path in MODULES:
        folder = path.parent.relative_to(SOURCE / "napari_ngff").as_posix()
        folders.setdefault(path.name, set()).add(folder)
    shared = {name for name, where in folders.items() if len(where) > 1}
    assert shared == {"__init__.py"}
    files = [path for path in TESTS.rglob("test_*.py") if path.parent != TESTS]
    assert len({path.name for path in files}) == len(files)
    misplaced = [
        path
        for path in files
        if (name := path.name.removeprefix("test_")) in folders
        and path.parent.relative_to(TESTS).as_posix() not in folders[name]
    ]
    assert misplaced == []


def test_the_guide_names_the_tests_of_every_module() -> None:
    """Modules without a test file of their name have a line in docs/design/021."""
    guide = GUIDE.read_text(encoding="utf-8")
    _, _, section = guide.partition("## Where tests are")
    rows = re.findall(r"^\| `(\S+)` \| (.+) \|$", section.partition("\n## ")[0], re.M)
    named = {path.name for path in TESTS.rglob("test_*.py")}
    untested = {
        path.parent.relative_to(SOURCE / "napari_ngff").as_posix()
        for path in MODULES
        if path.name != "__init__.py" and f"test_{path.name}" not in named
    } - {"."}
    assert {folder for folder, _ in rows} == untested
    for _, files in rows:
        for name in re.findall(r"`(\S+?)`", files):
            assert (TESTS.parent / name).is_file(), name


def test_the_guide_lists_all_modules() -> None:
    """The last table of places in docs/design/021 has each module."""
    guide = GUIDE.read_text(encoding="utf-8")
    _, _, section = guide.partition("## All modules")
    rows = re.findall(r"^\| `(\S+)/` \| (.+) \|$", section.partition("\n## ")[0], re.M)
    listed = {
        f"{folder}/{name}" for folder, names in rows for name in names.split(", ")
    }
    top = SOURCE / "napari_ngff"
    wanted = {
        path.relative_to(top if path.parent != top else SOURCE).as_posix()[:-3]
        for path in MODULES
        if not path.name.startswith("__")
    }
    assert listed - wanted == set(), "moved or removed"
    assert wanted - listed == set(), "new"


def calls_of(pattern: str) -> list[tuple[str, str]]:
    """Module and call, for each place in the package."""
    return [
        (n, call) for n, text in TEXTS.items() for call in re.findall(pattern, text)
    ]


@pytest.mark.parametrize("module", ONE_PLACE)
def test_what_makes_a_write_durable_is_in_one_place(module: str) -> None:
    found = calls_of(ONE_PLACE[module])
    assert {name for name, _ in found} == {f"napari_ngff.store.write.{module}"}
    assert len({call for _, call in found}) == len(found)


def test_import_loads_no_gui() -> None:
    code = (
        "import sys, napari_ngff\n"
        f"print(sorted({{'napari', *{QT!r}}} & sys.modules.keys()))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
