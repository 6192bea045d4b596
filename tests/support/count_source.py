"""Count statements and functions of the source, by folder.

    python tests/support/count_source.py [CHECKOUT]

A statement is a node of Python's syntax tree, so that a line that is joined or broken
changes nothing; a docstring counts as one.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def count_source(root: Path) -> dict[str, Counter[str]]:
    """Count the statements, functions and files of each folder below ``src``."""
    package = root / "src" / "napari_ngff"
    found: dict[str, Counter[str]] = {}
    for path in sorted(package.rglob("*.py")):
        folder = path.relative_to(package).parent.as_posix()
        counts = found.setdefault(folder, Counter())
        counts["files"] += 1
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            counts["statements"] += isinstance(node, ast.stmt)
            counts["functions"] += isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef)
            )
    return found


def main() -> None:
    """Print a line for each folder, and the sum."""
    found = count_source(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    total = sum(found.values(), Counter())
    for folder, counts in [*found.items(), ("all", total)]:
        numbers = (counts[name] for name in ("statements", "functions", "files"))
        sys.stdout.write("{:>8,} {:>6,} {:>4}  {}\n".format(*numbers, folder))


if __name__ == "__main__":
    sys.stdout.write("statem.  func. files  folder\n")
    main()
