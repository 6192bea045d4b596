"""The manifest: valid, complete, and one file."""

from __future__ import annotations

from pathlib import Path

import pytest
from napari._app_model.constants import MenuId
from npe2 import PluginManifest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def manifest() -> PluginManifest:
    """The manifest as written; loading it validates it against npe2's schema."""
    return PluginManifest.from_file(ROOT / "napari.yaml")


def test_package_links_to_the_one_manifest() -> None:
    # A checkout without symbolic links holds git's text stub "../../napari.yaml".
    linked = ROOT / "src" / "napari_ngff" / "napari.yaml"
    assert linked.read_bytes() == (ROOT / "napari.yaml").read_bytes()


def test_names(manifest: PluginManifest) -> None:
    assert (manifest.name, manifest.display_name) == ("napari-ngff", "OME-Zarr")


def test_commands_belong_to_the_plugin_and_import(manifest: PluginManifest) -> None:
    commands = manifest.contributions.commands or []
    assert commands
    assert [c.id for c in commands if not c.id.startswith("napari-ngff.")] == []
    manifest.validate_imports()


def test_contributions_name_existing_commands(manifest: PluginManifest) -> None:
    contributions = manifest.contributions
    commands = {command.id for command in contributions.commands or []}
    used = {
        contribution.command
        for kind in ("readers", "writers", "widgets", "sample_data")
        for contribution in getattr(contributions, kind) or []
        if hasattr(contribution, "command")
    }
    used |= {
        item.command
        for items in (contributions.menus or {}).values()
        for item in items
        if hasattr(item, "command")
    }
    assert used <= commands


def test_reader_claims_ome_zarr(manifest: PluginManifest) -> None:
    readers = manifest.contributions.readers or []
    patterns = {p for reader in readers for p in reader.filename_patterns}
    assert {"*.zarr*", "*.ozx", "*.zip"} <= patterns
    assert all(reader.accepts_directories for reader in readers)


def test_menus_are_those_that_napari_shows(manifest: PluginManifest) -> None:
    # napari drops items of unknown menus without a word.
    known = {menu.value for menu in MenuId.contributables()}
    known |= {submenu.id for submenu in manifest.contributions.submenus or []}
    used = {
        name if name.startswith("napari") else f"napari/{name}"
        for name in manifest.contributions.menus or {}
    }
    assert used <= known
