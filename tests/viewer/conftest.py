"""No window here: work is done at once, whatever other tests of the process had."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave worker threads to tests of windows, which may have made an application."""
    monkeypatch.setattr("napari_ngff.plugin.use_workers", lambda: None)
