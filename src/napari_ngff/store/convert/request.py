"""What a conversion is asked to do: which part it keeps, and how arrays are stored.

>>> read_request({"crop": "x=100:2000,t=0"}).crop
(('x', 100, 2000), ('t', 0, 1))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypedDict

from napari_ngff.errors import OptionError
from napari_ngff.metadata.version import V0_4, V0_5, V0_6, Version

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON, PlateMetadata, WellReference

TARGETS = (V0_4, V0_5, V0_6)
"""Versions that a conversion writes."""

UNREADABLE = ("stop", "skip")

Words = str | Sequence[Any]
"""Numbers or names: a list, or a text with commas."""

NUMBER = re.compile(r"\d+")
SPAN = re.compile(r"(\d*):(\d*)")

LEVELS_OF_CODEC = {"zstd": (-7, 22), "gzip": (0, 9), "blosc": (0, 9)}
"""Least and highest level of compression."""

PACKERS = ("zstd", "lz4", "lz4hc", "blosclz", "zlib")
"""Compressors inside of blosc."""

USUAL_LEVEL = {"zstd": 1, "gzip": 5, "blosc": 1}


def split_words(given: Words) -> tuple[str, ...]:
    """Split a text at its commas; a list stays one of texts."""
    items = given.split(",") if isinstance(given, str) else given
    words = tuple(str(item).strip() for item in items)
    if not words or not all(words):
        raise ValueError(f"{given!r} has an empty entry.")
    return words


def _read_span(word: str) -> tuple[int, int | None]:
    """Read ``5`` as 5 to 6, ``5:9``, ``5:`` and ``:9``."""
    if NUMBER.fullmatch(word):
        return int(word), int(word) + 1
    span = SPAN.fullmatch(word)
    if span is None:
        raise ValueError(f"{word!r} is neither a number nor a range such as 5:9.")
    start, stop = int(span[1] or 0), int(span[2]) if span[2] else None
    if stop is not None and stop <= start:
        raise ValueError(f"The range {word!r} is empty.")
    return start, stop


def _by_axis(given: str | Mapping[str, Any]) -> dict[str, str]:
    """Split ``x=1,y=2`` by axis."""
    if isinstance(given, str):
        pairs = [word.partition("=") for word in split_words(given)]
        if not all(mark and name.strip() for name, mark, _ in pairs):
            raise ValueError(f"{given!r} is not of the form x=100,y=200.")
        named = {name.strip(): value.strip() for name, _, value in pairs}
        if len(named) != len(pairs):
            raise ValueError(f"{given!r} names an axis twice.")
        return named
    texts = {}
    for name, value in given.items():
        whole = isinstance(value, slice)
        span = (value.start, value.stop) if whole else value
        if isinstance(span, Sequence) and not isinstance(span, str):
            ends = ["" if end is None else str(end) for end in span]
            texts[str(name)] = ":".join(ends)
        else:
            texts[str(name)] = str(value)
    return texts


class ConvertOptions(TypedDict, total=False):
    """What a conversion is asked to do; see `napari_ngff.convert`."""

    to_version: str
    chunks: str | Mapping[str, int] | None
    shards: str | Mapping[str, int] | None
    codec: str | None
    crop: str | Mapping[str, Any] | None
    levels: Words | None
    channels: Words | None
    wells: Words | None
    overwrite: bool
    resume: bool | None
    unreadable: str
    follow_links: bool


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """What a conversion is asked to do: which part is kept, and how it is stored.

    Attributes
    ----------
    version
        Of the result.
    chunks, shards
        Axis and length in voxels; axes that are not named keep theirs.
    auto_shards
        Whether to choose shards; None where nothing is said, and archives get them.
    codec
        A compressor of Zarr v3 with its configuration, {} for none, None to keep it.
    adds_shards
        Whether to choose shards where chunks need not be decoded for that.
    crop
        Axis, first voxel and the one after the last (None for the end), in voxels of
        level 0 of each image.
    levels
        Numbers and ranges of levels, 0 for the finest; None for all.
    channels
        Indices of channels, or their names; None for all.
    wells
        Names of wells with ``*`` and ``?``; None for all.
    """

    version: Version = V0_5
    chunks: tuple[tuple[str, int], ...] = ()
    shards: tuple[tuple[str, int], ...] = ()
    auto_shards: bool | None = None
    codec: JSON | None = None
    adds_shards: bool = False
    crop: tuple[tuple[str, int, int | None], ...] = ()
    levels: tuple[tuple[int, int | None], ...] | None = None
    channels: tuple[str, ...] | None = None
    wells: tuple[str, ...] | None = None

    @property
    def changes_arrays(self) -> bool:
        """Return whether arrays are to be stored otherwise."""
        return bool(
            self.chunks or self.shards or self.auto_shards or self.codec is not None
        )

    def without_selection(self) -> ConversionRequest:
        """Return the request for a part of which all is kept."""
        return replace(self, crop=(), levels=None, channels=None, wells=None)

    def has_level(self, number: int) -> bool:
        """Return whether a level is kept."""
        return self.levels is None or any(
            start <= number and (stop is None or number < stop)
            for start, stop in self.levels
        )

    def has_well(self, plate: PlateMetadata, well: WellReference) -> bool:
        """Return whether a well is kept; B3 and B03 mean the same."""
        if self.wells is None:
            return True
        row, column = plate.rows[well.row], plate.columns[well.column]
        names = {f"{row}{column}", f"{row}{column.lstrip('0')}", well.path}
        if column.isdecimal():
            names.add(f"{row}{int(column):02}")
        return any(fnmatchcase(n, pattern) for n in names for pattern in self.wells)

    def find_channels(self, labels: Sequence[str | None], count: int) -> list[int]:
        """Return the indices of the channels that are kept.

        Raises
        ------
        OptionError
            Where there is no such channel.
        """
        if self.channels is None:
            return list(range(count))
        found = []
        for word in self.channels:
            if word in labels:
                found.append(labels.index(word))
            elif NUMBER.fullmatch(word) and int(word) < count:
                found.append(int(word))
            else:
                named = ", ".join(label for label in labels if label)
                raise OptionError(
                    f"There is no channel {word!r} of {count}"
                    f"{f' ({named})' if named else ''}.",
                    "channels",
                )
        if len(set(found)) != len(found):
            text = f"The channels {', '.join(self.channels)} are repeated."
            raise OptionError(text, "channels")
        return found


def _read_lengths(given: str | Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    lengths = []
    for name, value in _by_axis(given).items():
        if not NUMBER.fullmatch(value) or not int(value):
            raise ValueError(f"{name}={value} is not a length in voxels.")
        lengths.append((name, int(value)))
    return tuple(lengths)


def _read_codec(text: str) -> JSON:
    """Read ``none``, ``zstd``, ``zstd:5``, ``gzip:6`` or ``blosc:lz4:5``."""
    name, *rest = text.lower().split(":")
    if name == "none" and not rest:
        return {}
    packer = "zstd"
    if name == "blosc" and rest and rest[0] in PACKERS:
        packer = rest.pop(0)
    if name not in LEVELS_OF_CODEC or len(rest) > 1:
        raise ValueError(
            f"Unknown codec {text!r}. Use none, zstd, zstd:LEVEL, gzip:LEVEL,"
            f" blosc:LEVEL or blosc:NAME:LEVEL with one of {', '.join(PACKERS)}."
        )
    least, most = LEVELS_OF_CODEC[name]
    try:
        level = int(rest[0]) if rest else USUAL_LEVEL[name]
    except ValueError:
        level = most + 1
    if not least <= level <= most:
        raise ValueError(f"The level of {name} is a number from {least} to {most}.")
    if name == "zstd":
        return {"name": name, "configuration": {"level": level, "checksum": False}}
    if name == "gzip":
        return {"name": name, "configuration": {"level": level}}
    settings = {"cname": packer, "clevel": level, "shuffle": "shuffle", "blocksize": 0}
    return {"name": name, "configuration": settings}


def _read_crop(
    given: str | Mapping[str, Any],
) -> tuple[tuple[str, int, int | None], ...]:
    return tuple((name, *_read_span(word)) for name, word in _by_axis(given).items())


def _read_levels(given: Words) -> tuple[tuple[int, int | None], ...]:
    return tuple(map(_read_span, split_words(given)))


READERS: dict[str, Callable[[Any], Any]] = {
    "chunks": _read_lengths,
    "shards": _read_lengths,
    "codec": _read_codec,
    "crop": _read_crop,
    "levels": _read_levels,
    "channels": split_words,
    "wells": split_words,
}
"""What reads the words of an option."""


def read_request(options: ConvertOptions) -> ConversionRequest:
    """Read what is asked for.

    Raises
    ------
    TypeError
        Where there is no such option.
    OptionError
        Where one has another form.
    """
    unknown = sorted(options.keys() - ConvertOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"convert() has no option {', '.join(unknown)}.")
    version = options.get("to_version", V0_5)
    if version not in TARGETS:
        raise OptionError(
            f"Cannot convert to OME-Zarr {version!r}: choose one of"
            f" {', '.join(TARGETS)}.",
            "to_version",
        )
    if options.get("unreadable", "stop") not in UNREADABLE:
        text = f"Unreadable chunks: choose one of {', '.join(UNREADABLE)}."
        raise OptionError(text, "unreadable")
    given: JSON = dict(options)
    auto = None
    if given.get("shards") in ("auto", "none"):
        auto = given.pop("shards") == "auto"
    read: JSON = {}
    for option, reader in READERS.items():
        try:
            if given.get(option) is not None:
                read[option] = reader(given[option])
        except ValueError as error:
            raise OptionError(str(error), option) from None
    return ConversionRequest(Version(version), auto_shards=auto, **read)
