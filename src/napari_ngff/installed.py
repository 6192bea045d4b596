"""What is installed: the lines that belong to a report of a problem."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version

BINDINGS = "PyQt6", "PySide6"


def describe_installation() -> str:
    """List releases of Python, the system and the packages, without names of files."""
    names = {"napari-ngff", *BINDINGS}
    for line in requires("napari-ngff") or ():
        names.update(re.findall(r"^[\w.-]+", line))
    lines = [f"Python {platform.python_version()}, {platform.platform()}"]
    for name in sorted(names, key=str.lower):
        with suppress(PackageNotFoundError):
            lines.append(f"{name} {version(name)}")
    return "\n".join(lines)
