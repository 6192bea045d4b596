"""Preferences: what they are at first, where they are kept, who is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from napari_ngff.viewer import settings


@pytest.fixture(autouse=True)
def as_at_first():
    yield
    settings.set_version_to_write("0.5")
    settings.set_shards_to_write(False)
    settings.set_autosave_minutes(0)


def test_defaults_are_those_of_the_manifest():
    manifest = yaml.safe_load(
        (Path(__file__).parents[2] / "napari.yaml").read_text(encoding="utf-8")
    )
    stated = manifest["contributions"]["configurations"]["saving"]["properties"]
    assert {key: one["default"] for key, one in stated.items()} == settings.DEFAULTS
    assert settings.version_to_write() == "0.5"
    assert settings.shards_to_write() is False
    assert settings.autosave_minutes() == 0


def test_choices_are_kept_in_a_file_of_their_own():
    settings.set_version_to_write("0.6")
    settings.set_autosave_minutes(7)
    assert settings.version_to_write() == "0.6"
    own = Path(os.environ["NAPARI_CONFIG"]).parent / "napari-ngff.yaml"
    assert yaml.safe_load(own.read_text())["saving"] == {
        "version": "0.6",
        "autosave": 7,
    }


@pytest.mark.parametrize("version", ["0.3", "0.7", ""])
def test_other_versions_are_refused(version):
    with pytest.raises(ValueError, match="enum"):
        settings.set_version_to_write(version)
    assert settings.version_to_write() == "0.5"


@pytest.mark.parametrize("minutes", [-1, 121])
def test_other_minutes_are_refused(minutes):
    with pytest.raises(ValueError, match="autosave"):
        settings.set_autosave_minutes(minutes)


def test_whoever_listens_is_told_of_changes_in_the_dialog():
    from napari.settings import get_plugin_settings

    settings.autosave_minutes()
    told = []
    settings.changed.connect(lambda *what: told.append(what))
    try:
        get_plugin_settings("napari-ngff").saving.autosave = 5
    finally:
        settings.changed.disconnect()
    assert told == [("autosave", 5)]


def test_after_plugins_changed_it_is_still_told():
    from napari.settings import _clear_plugin_settings_cache

    settings.autosave_minutes()
    _clear_plugin_settings_cache()
    told = []
    settings.changed.connect(lambda *what: told.append(what))
    try:
        settings.set_autosave_minutes(9)
    finally:
        settings.changed.disconnect()
    assert told == [("autosave", 9)]
