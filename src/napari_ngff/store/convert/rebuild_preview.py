"""Looks at a rebuilding of a pyramid before it starts, and runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.store.convert.conversion import ConversionStep
from napari_ngff.store.convert.conversion_estimate import free_bytes
from napari_ngff.store.convert.conversion_preview import find_option
from napari_ngff.store.convert.rebuild_pyramid import plan_rebuild, rebuild_pyramid
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.limits import size_text
from napari_ngff.store.sources.folder_source import local_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from napari_ngff.store.convert.rebuild_pyramid import RebuildPlan

__all__ = [
    "RebuildPreview",
    "RebuildWords",
    "preview_rebuild",
    "run_rebuild",
]


@dataclass(frozen=True, slots=True)
class RebuildWords:
    """What a person asks for, as `napari_ngff.rebuild` takes it.

    Attributes
    ----------
    source
        Path of an image, or of labels.
    levels
        Number of levels, the finest included; 0 for as many as before.
    method
        "mean", "mode" or "nearest"; "" for the usual one.
    """

    source: str = ""
    levels: int = 0
    method: str = ""


@dataclass(frozen=True, slots=True)
class RebuildPreview:
    """What it comes to.

    Attributes
    ----------
    mistakes
        What has to be changed before: text by name of the field, "" for none of them.
    text
        The estimate, in sentences.
    place
        Of the image: the root of its hierarchy, and its path in there.
    is_label
        Whether it is a label image.
    """

    mistakes: dict[str, str]
    text: str = ""
    place: tuple[str, str] = ("", "")
    is_label: bool = False


def preview_rebuild(words: RebuildWords) -> RebuildPreview:
    """Check what is asked for and estimate it; writes nothing."""
    if not words.source.strip():
        return RebuildPreview({"source": "Choose an image, or labels, in a folder."})
    try:
        node = open_node(words.source.strip())
    except (OMEZarrError, OSError) as error:
        return RebuildPreview({"source": error_text(error)})
    location = node.location
    place = location.source.name, location.path
    image = node.metadata.image
    is_label = image is not None and image.label is not None
    try:
        plan = plan_rebuild(node, words.levels or None, words.method or None)
    except (OMEZarrError, OSError, ValueError) as error:
        option = find_option(error)
        if image is None or local_folder(location.source) is None:
            option = "source"
        return RebuildPreview({option: error_text(error)}, "", place, is_label)
    return RebuildPreview({}, " ".join(_sentences(plan)), place, is_label)


def _sentences(plan: RebuildPlan) -> Iterator[str]:
    count = len(plan.levels) + 1
    if plan.levels:
        shapes = [" x ".join(map(str, level.shape)) for level in plan.levels]
        yield f"Makes level {', level '.join(_numbered(shapes))} by {plan.method}."
    else:
        yield "Only the finest level stays."
    if plan.labels:
        names = ", ".join(label.node.name for label in plan.labels)
        yield f"The labels {names} get {count} level{'' if count == 1 else 's'}, too."
    if plan.levels:
        chunks = f"up to {plan.files:,} chunks"
        yield f"Reads {size_text(plan.read)} of pixels, and writes {chunks}."
    root = local_folder(plan.node.location.source)
    free = None if root is None else free_bytes(Path(root))
    if free is not None:
        yield f"Free on that disk: {size_text(free)}."
        if plan.nbytes > free:
            yield "That may not be enough."


def _numbered(shapes: list[str]) -> list[str]:
    return [f"{number} ({shape})" for number, shape in enumerate(shapes, 1)]


def run_rebuild(
    words: RebuildWords, follow: Callable[[ConversionStep], None]
) -> tuple[str, ...]:
    """Make the coarser levels again; returns their paths.

    Parameters
    ----------
    words
        What is asked for.
    follow
        Called with what is done; an error that it raises stops, and the image stays
        valid.

    Raises
    ------
    ValueError, OMEZarrError, OSError
        As `napari_ngff.rebuild`.
    """

    def note_bytes(done: int, total: int) -> None:
        follow(ConversionStep("rebuild", done, total))

    return rebuild_pyramid(
        open_node(words.source),
        levels=words.levels or None,
        method=words.method or None,
        progress=note_bytes,
    )
