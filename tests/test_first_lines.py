"""The first line of each notification fits into what napari shows without a click."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from napari_ngff.viewer.services.notices import MOST_IN_LINE, SHORT

SOURCE = Path(__file__).parents[1] / "src" / "napari_ngff"

SHOWS = {
    "show_info": 0,
    "show_warning": 0,
    "show_error": 0,
    "Window.current.show_messages": 1,
    "Window.current.show_passing": 0,
    "reading.add_note": 0,
    "notice_text": 1,
}
"""Functions that show a notification, and which argument begins with its first line."""

NUMBER = 6
"""Letters of a count: "12,345"."""

PASSED_ON = ("text", "self._text", "result")
"""Names of texts that were given to one of these functions before."""

MADE = ("failure_text(", "notice_text(")
"""Functions that make texts: the one makes a first line that also says what comes next,
the arguments of the other are checked themselves."""


def width(node):
    """Letters of what is put into a text; None where there is no limit."""
    match node:
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="shorten_name"))):
            return SHORT
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="count_noun"))):
            return NUMBER + len(" problems")
        case ast.FormattedValue(value=ast.Name(id="count" | "what")):
            return NUMBER + len(" problems")
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="len"))):
            return NUMBER
        case ast.FormattedValue(format_spec=ast.JoinedStr()):
            return NUMBER
    return None


def first_lines(node, constants):
    """Give the longest first line that an expression can be, "?" for no limit."""
    match node:
        case ast.Constant(value=str(text)):
            yield text.partition("\n")[0]
        case ast.JoinedStr(values=parts):
            line = ""
            for part in parts:
                if isinstance(part, ast.Constant):
                    line += part.value
                else:
                    letters = width(part)
                    line += "?" * (1000 if letters is None else letters)
                if "\n" in line:
                    break
            yield line.partition("\n")[0]
        case ast.Name(id=name) if name in constants:
            for value in constants[name]:
                yield from first_lines(value, constants)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            for line in first_lines(text, constants):
                yield line.replace("{}", "?" * SHORT)
        case _:
            yield "?" * 1000


def add_constants(tree, constants, names=None):
    """Collect the values of names of a module, or of some of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if names is None or name in names:
                constants.setdefault(name, []).append(node.value)


def notices(path):
    """Give the first lines of the notifications of a module, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {}
    add_constants(tree, constants)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("notices"):
            texts = SOURCE.parent / f"{node.module.replace('.', '/')}.py"
            names = {alias.name for alias in node.names}
            add_constants(ast.parse(texts.read_text("utf-8")), constants, names)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        at = SHOWS.get(name)
        given = node.args[at : at + 1] if at is not None else []
        text = ast.unparse(given[0]) if given else "text"
        if text in PASSED_ON or text.startswith(MADE):
            continue
        for line in first_lines(given[0], constants):
            yield node.lineno, line


@pytest.mark.parametrize("folder", ["viewer", "widgets", "plugin.py"])
def test_first_lines_are_short(folder):
    top = SOURCE / folder
    paths = [top] if top.is_file() else sorted(top.rglob("*.py"))
    found = [(path, *notice) for path in paths for notice in notices(path)]
    assert found
    assert [
        f"{path.relative_to(SOURCE)}:{number}: {line[:60]!r}"
        for path, number, line in found
        if len(line) > MOST_IN_LINE
    ] == []
