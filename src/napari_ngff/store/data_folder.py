"""The folder of what the user must not lose: journals, sidecars, notes.

What can be made again is in a cache; see `napari_ngff.store.disk_cache`.
"""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path


def data_folder() -> Path:
    """Return the folder, which need not exist yet."""
    return user_data_path("napari-ngff", appauthor=False)


def is_in_data_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is in the folder, as that of labels in a sidecar may be."""
    return Path(path).absolute().is_relative_to(data_folder().absolute())
