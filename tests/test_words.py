"""What users read is in plain English; see docs/design/009-words-of-the-code.md."""

from __future__ import annotations

import ast
import functools
import io
import keyword
import re
import tokenize
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "napari_ngff"
ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

SKIPPED = re.compile(
    r"""^```.*?^```      # code
    | ^<!--.*?<!--       # tables that benchmarks write
    | "[^"\n]*"          # sentences of the specification
    | `[^`\n]*` | \*[^*\n]*\* | \]\([^)]*\)  # names and links""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)

FORBIDDEN = {
    "mend": "fix",
    "walk": "browse",
    "tell": "show, report",
    "told": "shown, reported",
    "say": "show, state",
    "said": "shown, stated",
    "picture": "image, overview, screenshot",
    "anew": "again",
    "whoever": "who",
    "nobody": "no one",
    "somebody": "another person or program",
    "lie": "is",
    "lain": "been",
    "by itself": "automatically",
    "what is": "name the thing",
    "what was": "name the thing",
    "what are": "name the things",
    "all else": "everything else",
    "all the same": "anyway",
    "there already": "already exists",
    "go on": "continue",
    "goes on": "continues",
    "went on": "continued",
    "mere": "only",
    "plain layer": "layer in memory, or name the layers",
    "plain label": "name the layers",
}
"""Words that users do not read, and what to write instead."""

NOT_A = r"(?<!there )(?:is|are) no(?! longer\b)"
"""As in "x is no image", for which plain English has "x is not an image"."""

WORDS = re.compile(
    r"\b("
    + "|".join([NOT_A, *(f"{word}(?:s|ed|ing)?" for word in FORBIDDEN)])
    + r")\b",
    re.IGNORECASE,
)


def texts(path):
    """Give the strings of a module with their lines, but for docstrings and keys."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in documented:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def test_no_text_of_the_interface_has_a_forbidden_word():
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {match[0]!r} in {text!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in texts(path)
        for match in WORDS.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_forbidden_word(page):
    text = page.read_text(encoding="utf-8")
    text = SKIPPED.sub(lambda skipped: "\n" * skipped[0].count("\n"), text)
    found = [
        f"{page.name}:{number}: {match[0]!r} in {line!r}"
        for number, line in enumerate(text.splitlines(), 1)
        for match in WORDS.finditer(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "It lies beside.",
        "This was told.",
        "what is shown",
        "It is no image.",
        "goes on",
        "points and plain labels",
    ],
)
def test_such_words_are_found(text):
    assert WORDS.search(text)


@pytest.mark.parametrize("text", ["There is no image.", "It is no longer used."])
def test_plain_words_are_left(text):
    assert not WORDS.search(text)


CODE = re.compile(r"`([^`\n]+)`")
"""What a page sets in the type of code."""

MODULE = re.compile(r"[\w./-]+\.py(?!\w)")

GUIDES = [ROOT / "docs/contributing.md", *sorted((ROOT / "docs/design").glob("*.md"))]

PROPOSED = {"strings.py"}
"""Files of an option that was not chosen."""


def defined_names(path):
    """Names that a module defines: classes, their members, functions, constants."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
    return names


def missing_modules(text):
    """Paths of modules in a text of which the repository has no file."""
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    ends = [f"/{path.as_posix()}" for path in files]
    return [
        name
        for code in CODE.findall(text)
        for name in MODULE.findall(code)
        if name not in PROPOSED
        and not (ROOT / name).is_file()
        and not any(end.endswith(f"/{name}") for end in ends)
    ]


def missing_names(row):
    """Names in the last column of a row of terms that its modules do not define."""
    codes = CODE.findall(row.strip().strip("|").split("|")[-1])
    paths = [SOURCE / code for code in codes if code.endswith(".py")]
    defined = set().union(*(defined_names(path) for path in paths if path.is_file()))
    names = [code for code in codes if re.fullmatch(r"[A-Za-z_][\w.]*\w", code)]
    return [
        name
        for name in names
        if not name.endswith(".py") and not set(name.split(".")) <= defined
    ]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_modules_that_a_guide_names_exist(page):
    assert missing_modules(page.read_text(encoding="utf-8")) == []


def test_words_of_the_code_are_in_the_modules_beside_them():
    text = (ROOT / "docs/design/009-words-of-the-code.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 50
    assert [name for row in rows for name in missing_names(row)] == []


def test_names_that_are_gone_are_found():
    path = "`labels/canvas.py`"
    assert missing_modules("`labels/canvass.py` and " + path) == ["labels/canvass.py"]
    assert missing_names(f"| canvas | a pyramid | `Canvas.no_such` in {path} |")
    assert missing_names(f"| canvas | a pyramid | `Canvas` in {path} |") == []


MENTION = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)")
"""A name in a docstring or a comment."""

FOREIGN = {"_cat_file", "HTTPFileSystem", "compute_multiscale_level", "inline_array"}
"""Names of other packages in comments, which no module uses."""


def used_names(tree):
    """Names that a module defines, imports, uses, or has as a text."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.alias(name=name):
                names.update(name.split("."))
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                names.add(name)
            case ast.keyword(arg=str(name)) | ast.Constant(value=str(name)):
                names.add(name)
    return names


def mentioned_names(text):
    """Give the names in the docstrings and comments of a module, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or token.string.startswith('"""'):
            for name in MENTION.findall(token.string):
                yield token.start[0], name


MODULES = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


@functools.cache
def known_names():
    """Names that docstrings and comments may mention; found by the tests alone."""
    return FOREIGN.union(
        keyword.kwlist,
        *(used_names(ast.parse(text)) for text in MODULES.values()),
        *(path.relative_to(SOURCE.parent).with_suffix("").parts for path in MODULES),
    )


@pytest.mark.parametrize(
    "package", sorted({path.parent for path in MODULES}), ids=lambda path: path.name
)
def test_names_in_docstrings_and_comments_exist(package):
    assert [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in sorted(package.glob("*.py"))
        for line, name in mentioned_names(MODULES[path])
        if not set(name.split(".")) <= known_names()
    ] == []


def test_a_name_that_is_gone_is_seen():
    text = 'def f():\n    """See `no_such_thing`."""  # and `Canvas`\n'
    assert [name for _, name in mentioned_names(text)] == ["no_such_thing", "Canvas"]
    assert "no_such_thing" not in known_names()
