"""No window here: work is done at once, whatever other tests of the process had."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_workers(around: pytest.MonkeyPatch) -> None:
    """Leave worker threads to tests of windows, which may have made an application."""
    around.setattr("napari_ngff.plugin.use_workers", lambda: None)


@pytest.fixture
def reported(around: pytest.MonkeyPatch) -> list[str]:
    """Give what is reported to the user of saves."""
    messages: list[str] = []
    for name in ("show_error", "show_warning"):
        around.setattr(f"napari_ngff.viewer.saving.save_report.{name}", messages.append)
    return messages
