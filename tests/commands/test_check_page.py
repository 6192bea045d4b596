"""The page about checking names every code that there is, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.store.check.repair import REPAIRS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "napari_ngff"
PAGE = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (\S+)\n\n(.+)$", PAGE, re.MULTILINE))

MAKERS = {
    "Problem",
    "FormatRule",
    "NamedPart",
    "report_error",
    "report_warning",
    "add_problem",
    "add_warning",
    "_level_problem",
}
"""Calls that make problems: the code is among their first two arguments."""

READ_ONLY = {"reference-empty"}
"""What rules say in other words; tests of the parser have it as a part of others."""


def made(module: Path) -> set[str]:
    """Codes of the problems that a module makes."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            texts = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
            if name in MAKERS and texts and isinstance(texts[0], str):
                found.add(texts[0])
    return {code for code in found if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", code)}


@pytest.fixture(scope="module")
def codes():
    return {
        code
        for folder in ("metadata", "store")
        for module in (SOURCE / folder).rglob("*.py")
        for code in made(module)
    }


def test_the_codes_are_found(codes):
    assert len(codes) > 100
    assert {"axes-order", "label-missing", "ozx-root-nested", "transform-input"} < codes


def test_the_page_names_every_code_and_no_other(codes):
    assert ENTRIES.keys() - codes == set()
    assert codes - ENTRIES.keys() == set()


@pytest.mark.parametrize("code", ENTRIES)
def test_a_problem_names_the_heading_of_its_code(code):
    page, _, heading = Problem(code, Severity.ERROR, "", "").page.partition("#")
    assert f"\n### {heading}\n" in (ROOT / page).read_text(encoding="utf-8")
    assert re.match("(Error|Warning)[ .;].* ", ENTRIES[code])


def test_every_code_is_made_by_a_test(codes):
    texts = [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__)
    ]
    made_by_tests = {c for c in codes if any(f'"{c}"' in text for text in texts)}
    assert codes - made_by_tests <= READ_ONLY


def test_the_page_names_every_repair():
    repaired = {code for code, text in ENTRIES.items() if "`--fix`" in text}
    assert repaired == REPAIRS.keys()
