"""What a person asks a conversion to do, in the words of the command line.

>>> ConvertWords(crop="x=5:2").find_mistakes()
{'crop': "The range '5:2' is empty."}
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.store.convert.conversion import find_target, read_request
from napari_ngff.store.convert.selection import Selection, Storage
from napari_ngff.store.data_folder import is_in_data_folder
from napari_ngff.store.hierarchy.location import is_url
from napari_ngff.store.write.new_hierarchy import SINGLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.store.convert.conversion import ConvertOptions
    from napari_ngff.store.convert.conversion_plan import ConversionRequest
    from napari_ngff.store.convert.source_facts import SourceFacts

__all__ = ["CODECS", "ConvertWords", "propose_target", "propose_version"]

CODECS = ("zstd:5", "zstd:1", "blosc:lz4:5", "gzip:6", "none")
"""Codecs to choose from; others can be typed."""

ENDINGS = (".zarr", SINGLE)

PARSERS: dict[str, Callable[[str], object]] = {
    "chunks": lambda text: Storage.from_words(chunks=text),
    "shards": lambda text: Storage.from_words(shards=text),
    "codec": lambda text: Storage.from_words(codec=text),
    "crop": lambda text: Selection.from_words(crop=text),
    "levels": lambda text: Selection.from_words(levels=text),
    "channels": lambda text: Selection.from_words(channels=text),
    "wells": lambda text: Selection.from_words(wells=text),
}
"""Reads the text of each option; raises a ValueError where it has another form."""


@dataclass(frozen=True, slots=True)
class ConvertWords:
    """The texts of a conversion; "" for what is not asked for.

    Attributes
    ----------
    source, target
        Paths or addresses.
    to_version, chunks, shards, codec, crop, levels, channels, wells, unreadable
        As the options of ``napari-ngff convert``.
    """

    source: str = ""
    target: str = ""
    to_version: str = "0.5"
    chunks: str = ""
    shards: str = ""
    codec: str = ""
    crop: str = ""
    levels: str = ""
    channels: str = ""
    wells: str = ""
    unreadable: str = "stop"

    @property
    def options(self) -> ConvertOptions:
        """Options of `napari_ngff.convert`."""
        return {
            "to_version": self.to_version,
            "chunks": self.chunks or None,
            "shards": self.shards or None,
            "codec": self.codec or None,
            "crop": self.crop or None,
            "levels": self.levels or None,
            "channels": self.channels or None,
            "wells": self.wells or None,
            "unreadable": self.unreadable,
        }

    @property
    def changes_nothing(self) -> bool:
        """Return whether nothing but the version is asked for."""
        return not any(getattr(self, name) for name in PARSERS)

    @property
    def skips(self) -> bool:
        """Return whether chunks that cannot be read are left out."""
        return self.unreadable == "skip"

    def find_mistakes(self) -> dict[str, str]:
        """Return what is wrong with each text by itself; reads no file."""
        mistakes = {}
        for name, parse in PARSERS.items():
            text: str = getattr(self, name)
            try:
                if text:
                    parse(text)
            except ValueError as error:
                mistakes[name] = str(error)
        if not self.source.strip():
            mistakes["source"] = "Choose a folder or file, or type an address."
        if not self.target.strip():
            mistakes["target"] = "Choose a folder and a name."
        return mistakes

    def read_request(self) -> ConversionRequest:
        """Read what is asked for.

        Raises
        ------
        ValueError
            Where something has another form.
        """
        return read_request(self.options)

    def find_target(self) -> Path | str:
        """Return the path of the target, with an ending, or its address.

        Raises
        ------
        UnsupportedError
            Where it is an address that cannot be written.
        """
        text = self.target.strip()
        if not is_url(text):
            text = os.path.abspath(os.path.expanduser(text))
            if not text.lower().endswith(ENDINGS):
                text += ".ome.zarr"
        return find_target(text)


def propose_version(facts: SourceFacts) -> str:
    """Return the version to convert to: the newest one that loses nothing."""
    return facts.version if facts.version[:3] == "0.6" else "0.5"


def propose_target(facts: SourceFacts) -> str:
    """Return a free name beside the source, or in the home folder.

    There if the source is on a server or in the data folder. What is in an archive
    becomes a folder; anything else a copy of its kind.
    """
    location = facts.node.location
    name = location.full_name.replace("/", "-") or "converted"
    folder = Path.home()
    # Sidecars are in a folder where nobody looks for a copy.
    if not (is_url(location.source.name) or is_in_data_folder(location.source.name)):
        folder = Path(location.source.name).absolute().parent
    endings = ["", "-converted", *(f"-converted-{n}" for n in range(2, 100))]
    names = (f"{name}{ending}.ome.zarr" for ending in endings)
    free = (folder / each for each in names if not os.path.lexists(folder / each))
    return str(next(free, folder / f"{name}.ome.zarr"))
