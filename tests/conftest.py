"""No test touches the settings or the data of the person who runs it.

Nor, with `-n`, the display of another process: `run.py` starts one for each.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

# Before anything imports napari, which reads its settings once.
_home = Path(tempfile.mkdtemp(prefix="napari-ngff-tests-"))
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["NAPARI_CONFIG"] = str(_home / "settings.yaml")
for _kind in ("CONFIG", "DATA", "STATE"):
    os.environ[f"XDG_{_kind}_HOME"] = str(_home / _kind.lower())

_worker = os.environ.get("PYTEST_XDIST_WORKER", "")  # gw0, gw1, ...
_displays = os.environ.get("TEST_DISPLAYS", "").split()
if _worker and _displays:
    os.environ["DISPLAY"] = _displays[int(_worker[2:]) % len(_displays)]

# What is slow on a busy machine is not wrong.
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("patient", settings.default, **_patient)
settings.load_profile("patient")


def pytest_runtest_setup() -> None:
    """Work is done at once, whatever window another test had.

    Reading in a window installs worker threads for good.
    """
    frontend = sys.modules.get("napari_ngff.viewer.frontend")
    if frontend is not None:
        frontend._runner[:] = [frontend.run_here]
        frontend._later[:] = [frontend.do_here]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no process waits for them alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
