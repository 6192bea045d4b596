"""Private names of napari are in one package, and those of subclasses are listed."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path

import pytest

import napari_ngff
from napari_ngff.viewer.private import lost

SOURCE = Path(napari_ngff.__file__).parent
KNOWS_NAPARI = ("viewer", "widgets", "plugin.py", "cli.py", "__init__.py", "testing.py")
"""All else may not import napari, see `tests/test_layers.py`."""
OF_OTHERS = {
    "viewer/services/window.py": {"_emit_queue", "_slots"},
    "widgets/workers.py": {"_finished"},
}
"""Private names of psygnal, and of superqt."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


PLACES = [
    place
    for place in sorted(x.relative_to(SOURCE).as_posix() for x in SOURCE.rglob("*.py"))
    if place.startswith(KNOWS_NAPARI) and not place.startswith("viewer/private/")
]
"""The modules that may know napari, but for the package of private names."""


@cache
def read_modules() -> dict[str, ast.Module]:
    """Give the syntax trees of these modules."""
    return {
        place: ast.parse((SOURCE / place).read_text(encoding="utf-8"))
        for place in PLACES
    }


def defined_in(tree: ast.AST) -> set[str]:
    """Give the private names that a module, or a class, defines."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            names |= {node.attr} if is_own else set()
    return set(filter(is_private, names))


def classes_in(tree: ast.AST) -> dict[str, ast.ClassDef]:
    return {x.name: x for x in ast.walk(tree) if isinstance(x, ast.ClassDef)}


def listed_in(tree: ast.AST) -> set[str]:
    """Give the names that a module lists by `relies_on`; through constants as well."""
    names: set[str] = set()
    constants = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "relies_on":
            for part in node.args:
                is_name = isinstance(part, ast.Name)
                given = constants[part.id] if is_name else part
                names.update(ast.literal_eval(given).split())
    return names


def private_imports(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name) and node.id == "import_private":
            found.append("napari._by_import_private")
    private = (x for x in found if any(map(is_private, x.split("."))))
    return [name for name in private if name.split(".")[0] == "napari"]


def private_attributes(tree: ast.AST) -> list[tuple[str, bool]]:
    """Give private attributes that are used, and whether of ``self``."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            of_self = ast.unparse(node.value) in ("self", "super()", "cls")
            found.append((node.attr, of_self))
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            name = node.args[1]
            by_name = ast.unparse(node.func) in ("getattr", "setattr", "hasattr")
            if by_name and isinstance(name, ast.Constant) and is_private(name.value):
                found.append((name.value, False))
    return found


@cache
def all_classes() -> dict[str, ast.ClassDef]:
    found = {}
    for tree in read_modules().values():
        found.update(classes_in(tree))
    return found


@cache
def names_below(name: str) -> frozenset[str]:
    """Give private names that a class of ours, and its bases of ours, define."""
    found = all_classes().get(name)
    if found is None:
        return frozenset()
    bases = {ast.unparse(base).split(".")[-1] for base in found.bases} - {name}
    return frozenset(defined_in(found)).union(*map(names_below, bases))


def foreign_names(tree: ast.AST, place: str = "") -> list[str]:
    """List private names of napari that a module uses, and does not list."""
    own, listed = defined_in(tree) | OF_OTHERS.get(place, set()), listed_in(tree)
    inherited = {name for one in classes_in(tree) for name in names_below(one)}
    found = private_imports(tree)
    for name, of_self in private_attributes(tree):
        known = own | inherited | listed if of_self else own
        if name not in known or (name in listed and not of_self):
            found.append(name)
    return found


@pytest.mark.parametrize("place", PLACES)
def test_private_names_are_used_in_one_package(place: str) -> None:
    assert foreign_names(read_modules()[place], place) == []


@pytest.mark.parametrize(
    "text",
    [
        "import napari._qt.qt_viewer",
        "from napari.layers.labels._labels_constants import Mode",
        "from napari.layers.base.base import _LayerSlicingState",
        "def f():\n    from napari import _vispy",
        "def f(viewer): return viewer.window._qt_window",
        "def f(layer): return getattr(layer, '_slice', None)",
        "def f(layer): layer._source = 1",
        "class A(Labels):\n    def f(self): return self._slice",
        "class A(Labels):\n    def f(self): return super()._get_value(0)",
        "@relies_on('_slice')\nclass A(Labels): pass\ndef f(x): return x._slice",
        "import_private('napari.x:y', 'Nothing.')",
    ],
)
def test_private_names_are_found(text: str) -> None:
    assert foreign_names(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "from napari.layers import Labels",
        "from napari_ngff._own import _x",
        "class A:\n    def __init__(self): self._x = 1\ndef f(a): return a._x",
        "@relies_on('_slice')\nclass A(Labels):\n    def f(self): return self._slice",
        "NAMES = '_x _y'\n@relies_on(NAMES)\nclass A(B):\n    def f(self): self._x()",
        "def f(error): return error.__notes__",
    ],
)
def test_other_names_are_not(text: str) -> None:
    assert foreign_names(ast.parse(text)) == []


def own_classes() -> list[type]:
    """Give the classes of the package that build on a class of napari."""
    found = []
    for module in pkgutil.walk_packages(napari_ngff.__path__, "napari_ngff."):
        if module.name.rpartition(".")[2] != "__main__":
            members = vars(importlib.import_module(module.name)).values()
            found += [
                x for x in members if inspect.isclass(x) and is_own(x, module.name)
            ]
    return found


def is_own(kind: type, module: str) -> bool:
    return kind.__module__ == module and bool(napari_bases(kind))


def napari_bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__.startswith("napari.")]


@pytest.mark.parametrize("kind", own_classes(), ids=lambda kind: kind.__name__)
def test_subclasses_list_what_they_share_with_napari(kind: type) -> None:
    tree = ast.parse(Path(inspect.getfile(kind)).read_text(encoding="utf-8"))
    own = defined_in(classes_in(tree)[kind.__name__])
    listed = {x for one in kind.__mro__ for x in lost._relied_on.get(one, ())}
    bases = napari_bases(kind)
    shared = {x for x in own if any(lost.mentions(base, x) for base in bases)}
    assert shared <= listed


@pytest.mark.parametrize(
    "kind", [k for k in own_classes() if k in lost._relied_on], ids=lambda k: k.__name__
)
def test_this_napari_has_what_they_list_and_they_use_it(kind: type) -> None:
    assert lost.find_lost(kind) == []
    text = Path(inspect.getfile(kind)).read_text(encoding="utf-8")
    unused = [x for x in lost._relied_on[kind] if text.count(x) < 2]
    assert unused == []
