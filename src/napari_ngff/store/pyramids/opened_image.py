"""Opens an image and its labels in as few round trips as their documents are deep."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.hierarchy.node import OpenedGroups
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources.read_ahead import call_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.pyramids.pyramid import OnError, Pyramid

NO_GROUPS = OpenedGroups((), ())


@dataclass(frozen=True, slots=True)
class OpenedImage:
    """An image with its labels.

    Attributes
    ----------
    pyramid
        Its arrays, or why they cannot be shown.
    labels
        The groups of its label images; none for a label image.
    label_pyramids
        Of each of them, or why it cannot be shown.
    """

    pyramid: Pyramid | Exception
    labels: OpenedGroups
    label_pyramids: tuple[Pyramid | Exception, ...]


def open_images(
    nodes: Sequence[Node], on_error: OnError | None = None
) -> list[OpenedImage]:
    """Open several images of one hierarchy, and their labels.

    `on_error` is called later with each chunk that cannot be read.
    """
    if not nodes:
        return []
    source = nodes[0].location.source
    calls = [partial(_open_image, node, on_error) for node in nodes]
    opened = call_at_once(source, calls)
    inner = [label for _, labels in opened for label in labels.nodes]
    pyramids = iter(open_pyramids(inner, on_error))
    return [
        OpenedImage(pyramid, labels, tuple(next(pyramids) for _ in labels.nodes))
        for pyramid, labels in opened
    ]


def open_with_labels(
    node: Node, on_error: OnError | None = None
) -> tuple[Pyramid | Exception, OpenedGroups]:
    """Open the arrays of an image, and the groups of its labels, without their arrays.

    Returns
    -------
    pyramid
        Or why it cannot be shown.
    labels
        As of `Node.labels`.
    """
    found: list[Pyramid | Exception] = []
    labels: list[OpenedGroups] = []
    # The list of labels lies as deep as the arrays of the image.
    calls = (
        lambda: found.append(_try_pyramid(node, on_error)),
        lambda: labels.append(node.labels()),
    )
    call_at_once(node.location.source, calls)
    return found[0], labels[0]


def _open_image(
    node: Node, on_error: OnError | None
) -> tuple[Pyramid | Exception, OpenedGroups]:
    image = node.metadata.image
    if image is not None and image.label is not None:
        return _try_pyramid(node, on_error), NO_GROUPS
    return open_with_labels(node, on_error)


def open_pyramids(
    nodes: Sequence[Node], on_error: OnError | None = None
) -> list[Pyramid | Exception]:
    """Open the arrays of several images; of one that cannot be shown, return why."""
    if not nodes:
        return []
    calls = [partial(_try_pyramid, node, on_error) for node in nodes]
    return call_at_once(nodes[0].location.source, calls)


def _try_pyramid(node: Node, on_error: OnError | None) -> Pyramid | Exception:
    try:
        return open_pyramid(node, on_error=on_error)
    except (OMEZarrError, OSError) as error:
        return error
