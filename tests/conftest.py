"""No test touches the settings or the data of the person who runs it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# Before anything imports napari, which reads its settings once.
_home = Path(tempfile.mkdtemp(prefix="napari-ngff-tests-"))
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["NAPARI_CONFIG"] = str(_home / "settings.yaml")
for _kind in ("CONFIG", "DATA", "STATE"):
    os.environ[f"XDG_{_kind}_HOME"] = str(_home / _kind.lower())
