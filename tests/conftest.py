"""No test touches the settings or the data of the person who runs it.

Nor, with `-n`, the display of another process: `run.py` starts one for each.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Nothing of an earlier test is found: no journals, no workers of its window.

    Labels that are painted and not saved leave a journal, also when a test ends.
    Reading in a window installs worker threads, and a place for messages, for good.
    """
    os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(dir=_home)
    frontend = sys.modules.get("napari_ngff.viewer.frontend")
    if frontend is not None:
        frontend._runner[:] = [frontend.run_here]
        frontend._later[:] = frontend._in_main[:] = [frontend.do_here]
        frontend._teller[:] = [frontend.tell_here]
        frontend._notifier[:] = [frontend.notify]
        frontend._problem_host[:] = frontend._drawing_hold[:] = []


@pytest.fixture(scope="session")
def quick_windows() -> Iterator[None]:
    """Spare each window what needs to be done only once in a process.

    A third of the time of a short test in a window: napari collects garbage whenever
    layers are cleared, reads the manifests of all plugins, and writes its settings at
    each change of them.
    """
    import napari._qt.qt_main_window  # noqa: F401
    from napari.settings import NapariSettings
    from npe2 import PluginManifest

    import napari_ngff.widgets  # noqa: F401

    discover = PluginManifest.discover

    @functools.cache
    def discover_once(paths: tuple[str, ...]) -> list:
        return list(discover(paths=paths))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            PluginManifest,
            "discover",
            lambda paths=(): iter(discover_once(tuple(paths))),
        )
        patch.setattr(NapariSettings, "_maybe_save", lambda *_, **__: None)
        gc.collect()
        gc.freeze()  # modules: nothing that a test makes
        yield
        gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no process waits for them alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
