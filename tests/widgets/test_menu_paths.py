"""Each path of menus in the documentation and in messages leads to an item."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from napari.settings import get_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCE = ROOT / "src" / "napari_ngff"
STEP = " ▸ "

PATH = re.compile(r"\*([^*`|]*▸[^*`|]*)\*")
"""As pages write one: in italics, perhaps on two lines."""

SUBMENUS = {"File ▸ Open Sample ▸ OME-Zarr", "Layers ▸ Visualize"}
"""Paths to a menu, where the text names or counts its items."""

OWN_MENUS = {
    "Measure ▸ nuclei in all fields",
    "Save ▸ Save into the plate",
    "Save ▸ Save as a file…",
    "Save ▸ Forget conditions.csv",
}
"""Of buttons in our docks."""


def plain(title):
    """A title as pages write it: without its key, and the name of the plugin."""
    title = title.replace("&", "").removesuffix(" (OME-Zarr)")
    return title.replace("...", "…")


def paths_of(menu, above=""):
    """All paths below a menu, each with whether it is a menu itself."""
    for action in menu.actions():
        path = above + plain(action.text())
        yield path, action.menu() is not None
        if action.menu() is not None:
            yield from paths_of(action.menu(), path + STEP)


def preference_paths():
    """The pages of the preferences, and the options on each."""
    for field in type(get_settings()).model_fields.values():
        page = f"Preferences{STEP}{field.title}"
        yield page
        for option in getattr(field.annotation, "model_fields", {}).values():
            yield f"{page}{STEP}{option.title}"
    manifest = yaml.safe_load((ROOT / "napari.yaml").read_text(encoding="utf-8"))
    page = f"Preferences{STEP}{manifest['display_name']}"
    yield page
    for part in manifest["contributions"]["configurations"].values():
        for option in part["properties"].values():
            yield f"{page}{STEP}{option['title'].removesuffix(' in MiB')}"


@pytest.fixture
def known(viewer):
    """Paths that a page may state."""
    found = dict(paths_of(viewer.window._qt_window.menuBar()))
    assert found["File"]
    assert not found["File ▸ IO Utilities ▸ Open URL…"]
    leaves = {path for path, is_menu in found.items() if not is_menu}
    assert found.keys() - leaves >= SUBMENUS
    preferences = set(preference_paths())
    preferences |= {f"File{STEP}{path}" for path in preferences}
    return leaves | preferences | SUBMENUS | OWN_MENUS


def stated_on_pages():
    for page in PAGES:
        for path in PATH.findall(page.read_text(encoding="utf-8")):
            yield page.name, " ".join(path.split())


def stated_in_messages():
    """Texts from a menu on, since no sign shows where a path ends."""
    for module in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = " ".join(node.value.replace("...", "…").split())
                for found in re.finditer(
                    r"(File|View|Layers|(?<!▸ )Preferences) ▸", text
                ):
                    yield module.name, text[found.start() :]


def test_pages_name_items_that_exist(known):
    stated = list(stated_on_pages())
    assert len(stated) > 30
    assert [one for one in stated if one[1] not in known] == []


def test_messages_name_items_that_exist(known):
    stated = list(stated_in_messages())
    assert len(stated) > 5
    wrong = [(name, text) for name, text in stated if not text.startswith(tuple(known))]
    assert wrong == []
