"""What users read is in plain English; see docs/design/009-words-of-the-code.md."""

from __future__ import annotations

import ast
import re
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
    ],
)
def test_such_words_are_found(text):
    assert WORDS.search(text)


@pytest.mark.parametrize("text", ["There is no image.", "It is no longer used."])
def test_plain_words_are_left(text):
    assert not WORDS.search(text)
