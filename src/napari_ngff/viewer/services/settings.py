"""Preferences of the plugin.

napari shows them on the page *OME-Zarr* of its dialog, made from ``configurations`` of
the manifest, and keeps them in a file beside its own settings (napari 0.9).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from napari.settings import get_plugin_settings, get_settings

from napari_ngff.addresses import MARK, public_address
from napari_ngff.plate.previews.preview_cache import clear_previews
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.disk_cache import DiskCache, cache_folder
from napari_ngff.store.sources.kept_chunks import KeptChunks, keep_chunks
from napari_ngff.store.write.shared_document import SharedDocument
from napari_ngff.viewer.services.window import GuardedSignal, Window

PLUGIN = "napari-ngff"

READER_PATTERNS = ("*.zarr*", "*.ozx")
"""``*.zarr`` never matches a folder, to whose path napari adds a slash; ``*.zarr*``
matches folders, addresses and zip files (napari 0.9)."""

OFFERED, TOOL, ADDRESSES = "default-reader-offered", "last-tool", "recent-addresses"
"""Names of notes in the user's data."""

MOST_ADDRESSES = 12
"""Addresses that are remembered."""

DEFAULTS: Final[dict[str, Any]] = {
    "version": "0.5",
    "shards": False,
    "autosave": 0,
    "moving_on": True,
    "volume_memory": 0,
    "disk_cache": 1024,
    "disk_cache_private": False,
}
"""Defaults as in the manifest, for a napari in which the plugin is disabled."""

VIEWING: Final = ("volume_memory", "disk_cache", "disk_cache_private")
"""Those of the second group of the page, *Viewing*; the others are in *Saving*."""

changed: Final = GuardedSignal((str, object), name="changed")
"""Emitted with the name of a preference, a key of `DEFAULTS`, and its new value,
wherever it was changed."""

_followed: list[Any] = []


def is_default_reader() -> bool:
    """Return whether napari opens OME-Zarr with this plugin without asking."""
    chosen = get_settings().plugins.extension2reader
    return all(chosen.get(pattern) == PLUGIN for pattern in READER_PATTERNS)


def make_default_reader() -> None:
    """Make this plugin the default reader; other patterns keep their readers."""
    plugins = get_settings().plugins
    plugins.extension2reader = {
        **plugins.extension2reader,
        **dict.fromkeys(READER_PATTERNS, PLUGIN),
    }


def is_default_offered() -> bool:
    """Return whether the user was asked to make this plugin the default reader."""
    return bool(read_note(OFFERED))


def note_default_offered() -> None:
    """Remember that the user was asked, so that it happens once."""
    change_note(OFFERED, lambda _: True)


def last_tool() -> dict[str, Any]:
    """Return the tool and the brush of the last painting; {} for none."""
    tool = read_note(TOOL)
    return tool if isinstance(tool, dict) else {}


def note_tool(tool: dict[str, Any]) -> None:
    """Remember the tool and the brush, also for the next start of napari."""
    change_note(TOOL, lambda _: tool)


def recent_addresses() -> list[str]:
    """Return the addresses that were opened last, the newest first."""
    return _list_addresses(read_note(ADDRESSES))


def _list_addresses(content: Any) -> list[str]:
    found = content if isinstance(content, list) else []
    # Public once more: anyone may edit the file.
    addresses = [public_address(one) for one in found if isinstance(one, str)]
    return list(dict.fromkeys(addresses))[:MOST_ADDRESSES]


def note_address(address: str) -> None:
    """Remember an address that was opened, without its login and query."""
    public = public_address(address).rstrip("/")
    if MARK not in public:
        return
    change_note(
        ADDRESSES, lambda known: _list_addresses([public, *_list_addresses(known)])
    )


def forget_addresses() -> None:
    """Forget which addresses were opened."""
    change_note(ADDRESSES, lambda _: [])


def _note_document(name: str) -> SharedDocument:
    return SharedDocument(data_folder() / f"{name}.json", replaceable=True)


def read_note(name: str) -> Any:
    """Read a small note in the user's data; None where there is none."""
    with suppress(OSError):
        return _note_document(name).read()
    return None


def change_note(name: str, edit: Callable[[Any], Any]) -> None:
    """Change a small note in the user's data."""
    with suppress(OSError):  # at worst it is not remembered
        _note_document(name).change(edit)


def version_to_write() -> str:
    """Return the version of OME-Zarr of new files: "0.4", "0.5" or "0.6"."""
    return str(_get_setting("version"))


def shards_to_write() -> bool:
    """Return whether new files of 0.5 or newer join chunks into shards."""
    return bool(_get_setting("shards"))


def autosave_minutes() -> int:
    """Return the minutes between two saves of labels with edits; 0 for never."""
    return int(_get_setting("autosave"))


def saves_when_moving_on() -> bool:
    """Return whether labels are saved without asking before another field is shown."""
    return bool(_get_setting("moving_on"))


def volume_memory() -> int:
    """Return the MiB that volumes in 3D may take; 0 for what the graphics suggests."""
    return int(_get_setting("volume_memory"))


def _clear_caches() -> None:
    """Delete all chunks of servers and thumbnails that are kept on this disk."""
    clear_previews()
    _disk_cache(0).clear()


def apply_disk_cache() -> None:
    """Keep chunks of servers as the preferences say."""
    limit = int(_get_setting("disk_cache")) << 20
    keeps_private = bool(_get_setting("disk_cache_private"))
    chunks = KeptChunks(_disk_cache(limit), keeps_private=keeps_private)
    keep_chunks(chunks if limit else None)


def _disk_cache(limit: int) -> DiskCache:
    return DiskCache(cache_folder("chunks"), ".chunk", limit)


def letter_size() -> int:
    """Return the size of letters in napari's window, in points."""
    return int(get_settings().appearance.font_size)


def letter_event() -> Any:
    """Return napari's event of a change of the size of letters."""
    return get_settings().appearance.events.font_size


def _get_setting(name: str) -> Any:
    group = _settings_group(name)
    return DEFAULTS[name] if group is None else getattr(group, name)


def _settings_group(name: str) -> Any:
    """Return the plugin's group of settings that has one, with changes followed.

    None if the plugin is disabled.
    """
    try:
        settings = get_plugin_settings(PLUGIN)
    except KeyError:
        return None
    groups = settings.saving, settings.viewing
    # napari makes others when plugins are enabled or disabled.
    if not _followed or _followed[0] is not groups[0]:
        _followed[:] = groups
        # The dialog of the preferences sends one event for all, without names: so the
        # events of each are followed.
        for group in groups:
            for emitter in group.events.emitters.values():
                emitter.connect(_emit_change)
    return groups[name in VIEWING]


def _emit_change(event: Any) -> None:
    if event.type in ("disk_cache", "disk_cache_private"):
        apply_disk_cache()
        if event.type == "disk_cache" and not event.value:
            Window.current.run_work(_clear_caches, lambda _: None)
    changed.emit(event.type, event.value)
