"""What a user chooses in a dialog or a menu, where that has no window in a test."""

from __future__ import annotations

from napari_ngff.viewer.services import settings


def set_preference(name, value):
    """Set a preference of the plugin; raises ValueError where that is not allowed."""
    setattr(settings._settings_group(name), name, value)


def unpin_all(browser):
    """Remove all fields that are shown for comparison."""
    browser._pins.remove_all()
    browser.layers_changed.emit()
