"""Count what has to be known for two tasks, for comparison over time.

    python tests/support/count_nouns.py [CHECKOUT]

*To change how a chunk is read*: the classes and aliases of types of ``store`` that the
modules name which read it. *To add a kind of store*: the files that name a kind, or ask
for one, beside those that are the kind.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

READING = ("region_read", "stored_objects", "chunked_array")
"""Modules that read a chunk of any store."""

KINDS = r"(?:Folder|Zip|Archive|Remote|Zarr)(?:Store|Source)|StoreSource"

ASKS = re.compile(
    rf"isinstance\([^()]*\b(?:{KINDS})\b|\b(?:is_bucket|local_folder)\("
    r"|(?<!def )\bis_remote\(|startswith\(\"(?:s3|http)[^\"]*\"\)"
    rf"|\"://\" (?:not )?in|[^ ]import .*(?:{KINDS.replace('Folder|', '')})\b"
)
"""A question of kind; or a kind is imported, other than a folder that is at hand."""

OF_KINDS = re.compile(
    r"store/sources/|store/write/(?:\w+_transaction|begin)|addresses|data_link"
)


def nouns_of(tree: ast.Module) -> set[str]:
    """List the classes and aliases of ``store`` that a module defines or imports."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
            case ast.ImportFrom(module=str(module)) if ".store." in module:
                found.update(alias.name for alias in node.names)
    return {name for name in found if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)}


def count(root: Path) -> dict[str, set[str]]:
    """Find the nouns of the first task, and the files of the second."""
    package = root / "src" / "napari_ngff"
    texts = {
        path.relative_to(package).as_posix(): path.read_text(encoding="utf-8")
        for path in package.rglob("*.py")
    }
    reading = [text for path, text in texts.items() if Path(path).stem in READING]
    nouns = set().union(*(nouns_of(ast.parse(text)) for text in reading))
    asking = {
        path
        for path, text in texts.items()
        if ASKS.search(text) and not OF_KINDS.match(path)
    }
    return {"change how a chunk is read": nouns, "add a kind of store": asking}


def main() -> None:
    """Print both, with what they are."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for task, found in count(root).items():
        sys.stdout.write(f"{task}: {len(found)}\n  {', '.join(sorted(found))}\n")


if __name__ == "__main__":
    main()
