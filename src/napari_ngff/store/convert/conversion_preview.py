"""Looks at a conversion before it starts, and runs it: copies, packs or unpacks.

A folder that becomes one file, or the reverse, without any other change is packed or
unpacked; everything else is converted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.errors import (
    AccessError,
    ConflictError,
    OMEZarrError,
    UnsupportedError,
    error_text,
)
from napari_ngff.store.convert.conversion import (
    ConversionResult,
    ConversionRun,
    ConversionStep,
    convert_hierarchy,
    find_unfinished,
    fit_request,
)
from napari_ngff.store.convert.conversion_estimate import (
    ConversionEstimate,
    estimate_conversion,
    free_bytes,
)
from napari_ngff.store.convert.source_facts import note_beside
from napari_ngff.store.hierarchy.node import open_node_at
from napari_ngff.store.limits import size_text
from napari_ngff.store.sources.folder_source import local_folder
from napari_ngff.store.sources.server_logins import find_login, set_login
from napari_ngff.store.sources.zip_source import ZipSource
from napari_ngff.store.write.new_hierarchy import SINGLE
from napari_ngff.store.write.partial_folder import PartialFolder, Unfinished
from napari_ngff.store.write.zip_packing import list_files, pack_hierarchy
from napari_ngff.store.write.zip_unpacking import unpack_hierarchy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.store.convert.convert_words import ConvertWords
    from napari_ngff.store.convert.source_facts import SourceFacts
    from napari_ngff.store.hierarchy.location import Location
    from napari_ngff.store.sources.server_logins import AddressSecrets

__all__ = [
    "ConversionCall",
    "ConversionPreview",
    "ConversionWay",
    "discard_unfinished",
    "find_option",
    "preview_conversion",
    "run_conversion",
]

RESUME = "Resume continues"


class ConversionWay(Enum):
    """How a conversion is done, as a sentence for a person."""

    CONVERT = "Writes a copy."
    PACK = "Packs the folder into one file; chunks are copied as they are."
    UNPACK = "Unpacks the file into a folder; every part is checked."


@dataclass(frozen=True, slots=True)
class ConversionPreview:
    """What a conversion will do.

    Attributes
    ----------
    mistakes
        What has to be changed before it can start: text by name of the field, "" for
        what belongs to none.
    way
        How it is done.
    estimate
        None where there are mistakes.
    unfinished
        What an earlier conversion to the same target left.
    free
        Free bytes on the disk of the target; None where that is not known.
    is_single
        Whether it becomes one file.
    """

    mistakes: dict[str, str] = field(default_factory=dict)
    way: ConversionWay = ConversionWay.CONVERT
    estimate: ConversionEstimate | None = None
    unfinished: Unfinished = Unfinished.NOTHING
    free: int | None = None
    is_single: bool = False

    @property
    def text(self) -> str:
        """The estimate, in sentences for a person."""
        if self.estimate is None:
            return ""
        return " ".join(self._sentences())

    @property
    def is_tight(self) -> bool:
        """Return whether the disk may be too full."""
        estimate = self.estimate
        if estimate is None or self.free is None:
            return False
        written = estimate.nbytes if estimate.read is None else estimate.read
        # What is converted into one file is a folder first.
        is_twice = self.is_single and self.way is ConversionWay.CONVERT
        return written * (2 if is_twice else 1) > self.free

    def _sentences(self) -> Iterable[str]:
        estimate = self.estimate
        assert estimate is not None
        if self.way is not ConversionWay.CONVERT:
            yield self.way.value
        elif not estimate.encoded:
            yield "Chunks are copied as they are."
        elif estimate.encoded < estimate.nbytes:
            yield "Some chunks are encoded again."
        else:
            yield "All chunks are encoded again."
        pixels = f" ({size_text(estimate.nbytes)} of pixels)" if estimate.nbytes else ""
        if estimate.read is None:
            yield f"Reads {size_text(estimate.nbytes)} of pixels at most."
        else:
            yield f"Reads about {size_text(estimate.read)}{pixels}."
        files = f"up to {estimate.files:,} files"
        if self.way is ConversionWay.PACK:
            files = "1 file"
        elif self.is_single:
            files += ", and packs them into one"
        yield f"Writes {files}."
        if self.free is not None:
            yield f"Free on that disk: {size_text(self.free)}."
        if self.is_tight:
            yield "That may not be enough."
        if estimate.problems:
            count = len(estimate.problems)
            yield f"Cannot be read: {count:,} parts, such as {estimate.problems[0]}"


def find_option(error: Exception) -> str:
    """Return the field to which an error belongs; "" for none."""
    option = getattr(error, "option", "")
    if not option and isinstance(error, FileExistsError):
        return "target"
    return str(option)


def preview_conversion(
    words: ConvertWords,
    facts: SourceFacts,
    goes_on: Callable[[int], bool] = lambda count: True,
) -> ConversionPreview:
    """Check a conversion and estimate it; writes nothing.

    Parameters
    ----------
    words
        What is asked for.
    facts
        Of its source.
    goes_on
        Called with the number of arrays or files that are counted; False stops.
    """
    mistakes = words.find_mistakes()
    if mistakes:
        return ConversionPreview(mistakes)
    try:
        target = words.find_target()
        _require_free(target)
    except (OMEZarrError, OSError) as error:
        return ConversionPreview({"target": error_text(error)})
    try:
        request = words.read_request()
        request = fit_request(facts.node, target, request)
        way = choose_way(words, facts, target)
        unfinished = Unfinished.NOTHING
        if way is ConversionWay.CONVERT:
            unfinished = find_unfinished(facts.node, target, request, skips=words.skips)
            estimate = estimate_conversion(facts.node, request, goes_on)
        else:
            estimate = _count_files(facts, goes_on)
    except (OMEZarrError, OSError, ValueError) as error:
        return ConversionPreview({find_option(error): error_text(error)})
    if unfinished is Unfinished.RUNNING:
        msg = "Another process is converting to this name. Wait until it has ended."
        return ConversionPreview({"target": msg})
    single = Path(target).suffix.lower() == SINGLE
    free = free_bytes(target)
    return ConversionPreview({}, way, estimate, unfinished, free, single)


def _require_free(target: Path | str) -> None:
    """Refuse a target that exists, cannot be written or is in another zarr."""
    if not isinstance(target, Path):
        return
    if os.path.lexists(target):
        msg = f"{target.name} already exists in that folder."
        raise ConflictError(msg, remedy="Choose another name.")
    for folder in target.parents:
        if any((folder / name).exists() for name in ("zarr.json", ".zgroup")):
            msg = f"{target.name} would be inside of {folder}, which is a zarr."
            raise UnsupportedError(msg, remedy="Choose another folder.")
    there = next((one for one in target.parents if one.exists()), None)
    if there is None or not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        msg = f"No permission to write in {there or target.parent}."
        raise AccessError(msg, remedy="Choose another folder.")


def choose_way(
    words: ConvertWords, facts: SourceFacts, target: Path | str
) -> ConversionWay:
    """Choose whether a source is packed, unpacked or converted."""
    node = facts.node
    source = node.location.source
    alike = words.to_version == facts.version and words.changes_nothing
    if not alike or node.location.path or not isinstance(target, Path):
        return ConversionWay.CONVERT
    single = target.suffix.lower() == SINGLE
    if single and local_folder(source) is not None and node.zarr_format == 3:
        return ConversionWay.PACK
    # A zip file may hold another version than its root says; unpacking keeps all.
    if not single and isinstance(source, ZipSource) and source.is_local:
        return ConversionWay.UNPACK
    return ConversionWay.CONVERT


def _count_files(
    facts: SourceFacts, goes_on: Callable[[int], bool]
) -> ConversionEstimate:
    """Count what is packed or unpacked."""
    source = facts.node.location.source
    folder = local_folder(source)
    count = size = 0
    sizes: Iterable[int]
    if folder is not None:
        sizes = (size for _, _, size in list_files(folder))
    else:
        assert isinstance(source, ZipSource)
        found = map(source.find_revision, source.list_keys(""))
        sizes = (one.size for one in found if one is not None)
    for each in sizes:
        count, size = count + 1, size + each
        if not goes_on(count):
            break
    return ConversionEstimate(1, count, 0, size)


@dataclass(frozen=True, slots=True)
class ConversionCall:
    """All that another process needs for a conversion.

    Attributes
    ----------
    words
        What is asked for.
    location
        Of its source, with the secrets of its address.
    way
        How it is done.
    resume
        Whether to continue what was stopped.
    login
        For the server of the target.
    """

    words: ConvertWords
    location: Location
    way: ConversionWay
    resume: bool = False
    login: AddressSecrets | None = None

    @classmethod
    def of_words(
        cls, words: ConvertWords, facts: SourceFacts, *, resume: bool = False
    ) -> ConversionCall:
        """Make the call of what is asked for."""
        target = words.find_target()
        login = None if isinstance(target, Path) else find_login(target)
        way = choose_way(words, facts, target)
        return cls(words, facts.node.location, way, resume, login)


def run_conversion(
    call: ConversionCall, follow: Callable[[ConversionStep], None]
) -> ConversionResult:
    """Convert, pack or unpack.

    Parameters
    ----------
    call
        What to do.
    follow
        Called often with what is done; an error that it raises stops, and leaves
        nothing that opens as an image.

    Raises
    ------
    ValueError, OMEZarrError, OSError
        As `napari_ngff.convert`, `napari_ngff.pack` and `napari_ngff.unpack`.
    """
    words, way, source = call.words, call.way, call.location.source.name
    target = words.find_target()
    if call.login is not None:
        set_login(str(target), call.login)
    if way is ConversionWay.CONVERT:
        run = ConversionRun(
            resume=call.resume, skips=words.skips, follow=follow, how_to_resume=RESUME
        )
        # Read again: it may have changed since it was chosen.
        node = open_node_at(call.location)
        return convert_hierarchy(node, target, words.read_request(), run)

    def note_bytes(done: int, total: int) -> None:
        follow(ConversionStep(way.name.lower(), done, total))

    write = pack_hierarchy if way is ConversionWay.PACK else unpack_hierarchy
    # Called once before the first byte: listing many files takes time.
    note_bytes(0, 0)
    written = write(source, target, progress=note_bytes)
    return ConversionResult(written, 1, 0, notes=note_beside(source))


def discard_unfinished(words: ConvertWords) -> None:
    """Remove what a conversion that was stopped has left beside its target.

    Raises
    ------
    ConflictError
        Where a process works on it.
    UnsupportedError
        Where the target is an address that cannot be written.
    """
    folder = PartialFolder(words.find_target(), {}, overwrite=False, resume=False)
    folder.discard()
