"""Preferences: what they are at first, where they are kept, who is notified."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from choices import set_preference
from napari_ngff.plate.previews.preview_cache import preview_folder
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.disk_cache import DiskCache
from napari_ngff.store.sources.kept_chunks import keep_chunks, kept_chunks_of
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.viewer.services import settings

apply_disk_cache = settings.apply_disk_cache
"""Tests of others do nothing in its place."""


@pytest.fixture(autouse=True)
def as_at_first():
    yield
    set_preference("version", "0.5")
    set_preference("shards", False)
    set_preference("autosave", 0)
    set_preference("volume_memory", 0)
    set_preference("disk_cache", 1024)
    set_preference("disk_cache_private", False)


def test_defaults_are_those_of_the_manifest():
    manifest = yaml.safe_load(
        (Path(__file__).parents[3] / "napari.yaml").read_text(encoding="utf-8")
    )
    groups = manifest["contributions"]["configurations"]
    stated = groups["saving"]["properties"] | groups["viewing"]["properties"]
    assert {key: one["default"] for key, one in stated.items()} == settings.DEFAULTS
    assert tuple(groups["viewing"]["properties"]) == settings.VIEWING
    assert settings.version_to_write() == "0.5"
    assert settings.shards_to_write() is False
    assert settings.autosave_minutes() == 0


def test_choices_are_kept_in_a_file_of_their_own():
    set_preference("version", "0.6")
    set_preference("autosave", 7)
    assert settings.version_to_write() == "0.6"
    own = Path(os.environ["NAPARI_CONFIG"]).parent / "napari-ngff.yaml"
    assert yaml.safe_load(own.read_text())["saving"] == {
        "version": "0.6",
        "autosave": 7,
    }


@pytest.mark.parametrize("version", ["0.3", "0.7", ""])
def test_other_versions_are_refused(version):
    with pytest.raises(ValueError, match="enum"):
        set_preference("version", version)
    assert settings.version_to_write() == "0.5"


@pytest.mark.parametrize("minutes", [-1, 121])
def test_other_minutes_are_refused(minutes):
    with pytest.raises(ValueError, match="autosave"):
        set_preference("autosave", minutes)


@pytest.mark.parametrize("mebibytes", [-1, 65537])
def test_other_sizes_of_volumes_are_refused(mebibytes):
    with pytest.raises(ValueError, match="volume_memory"):
        set_preference("volume_memory", mebibytes)
    assert settings.volume_memory() == 0


def test_listeners_hear_of_the_second_group_too():
    from napari.settings import get_plugin_settings

    settings.volume_memory()
    reported = []
    settings.changed.connect(lambda *what: reported.append(what))
    try:
        get_plugin_settings("napari-ngff").viewing.volume_memory = 300
    finally:
        settings.changed.disconnect()
    assert reported == [("volume_memory", 300)]
    assert settings.volume_memory() == 300


def test_after_plugins_changed_it_is_still_reported():
    from napari.settings import _clear_plugin_settings_cache

    settings.autosave_minutes()
    _clear_plugin_settings_cache()
    reported = []
    settings.changed.connect(lambda *what: reported.append(what))
    try:
        set_preference("autosave", 9)
    finally:
        settings.changed.disconnect()
    assert reported == [("autosave", 9)]


def test_the_last_addresses_are_kept_without_secrets():
    assert settings.recent_addresses() == []
    settings.note_address("/home/me/a.zarr")
    settings.note_address("https://me:S3cret@host/a.zarr?X-Amz-Signature=S3cret")
    settings.note_address("s3://bucket/b.zarr/")
    settings.note_address("https://host/a.zarr?sig=S3cret#S3cret")
    assert settings.recent_addresses() == ["https://host/a.zarr", "s3://bucket/b.zarr"]
    assert "S3cret" not in (data_folder() / "recent-addresses.json").read_text()
    for number in range(20):
        settings.note_address(f"https://host/{number}.zarr")
    kept = settings.recent_addresses()
    assert kept[0] == "https://host/19.zarr"
    assert len(kept) == settings.MOST_ADDRESSES
    settings.forget_addresses()
    assert settings.recent_addresses() == []


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', '[3, "https://h/a.zarr?sig=1"]'])
def test_a_damaged_list_of_addresses_is_read_as_far_as_possible(text):
    settings.note_address("https://host/a.zarr")
    (data_folder() / "recent-addresses.json").write_text(text)
    wanted = ["https://h/a.zarr"] if "sig" in text else []
    assert settings.recent_addresses() == wanted
    settings.note_address("https://host/b.zarr")
    assert settings.recent_addresses() == ["https://host/b.zarr", *wanted]


@pytest.mark.parametrize("text", ["", "[1]", "[" * 200_000, '"paint"'])
def test_a_damaged_note_of_the_tool_counts_as_none(text):
    settings.note_tool({"mode": "paint"})
    (data_folder() / "last-tool.json").write_text(text)
    assert settings.last_tool() == {}
    settings.note_tool({"mode": "erase"})
    assert settings.last_tool() == {"mode": "erase"}


def test_chunks_are_kept_as_the_preferences_say(monkeypatch, tmp_path):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    monkeypatch.setattr(settings, "apply_disk_cache", apply_disk_cache)
    monkeypatch.setattr(settings, "cache_folder", lambda name: tmp_path / name)
    public, private = (
        RemoteStore(f"http://127.0.0.1:1/a.zarr{query}").access
        for query in ("", "?token=secret")
    )

    def kept():
        return [
            kept_chunks_of(access, "0/0") is not None for access in (public, private)
        ]

    try:
        settings.apply_disk_cache()
        assert kept() == [True, False]
        set_preference("disk_cache", 10)
        set_preference("disk_cache_private", True)
        assert kept() == [True, True]
        assert kept_chunks_of(public, "0/0")._files.limit == 10 << 20
        set_preference("disk_cache", 0)
        assert kept() == [False, False]
    finally:
        keep_chunks(None)


def test_a_limit_of_nothing_deletes_chunks_and_thumbnails(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "cache_folder", lambda name: tmp_path / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    DiskCache(tmp_path / "chunks", ".chunk", 1000).keep("a", bytes(100))
    thumbnail = preview_folder() / "a.preview"
    thumbnail.parent.mkdir(parents=True, exist_ok=True)
    thumbnail.write_bytes(bytes(10))
    try:
        set_preference("disk_cache", 0)
        assert list((tmp_path / "chunks").iterdir()) == []
        assert not thumbnail.exists()
    finally:
        set_preference("disk_cache", 1024)


@pytest.mark.parametrize("mebibytes", [-1, 2**20 + 1])
def test_other_sizes_of_the_cache_are_refused(mebibytes):
    with pytest.raises(ValueError, match="disk_cache"):
        set_preference("disk_cache", mebibytes)
