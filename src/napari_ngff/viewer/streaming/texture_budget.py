"""How much of the memory of the graphics card volumes in 3D may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.private.napari_window import graphics_limits
from napari_ngff.viewer.services import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

SIDE = 2048
"""Voxels per axis that a texture of three axes holds on most machines."""

UNKNOWN = 512 << 20
"""Bytes of all volumes where the graphics reports no memory."""

LEAST, MOST = 256 << 20, 2 << 30
"""Bytes between which the budget is chosen by what the graphics reports."""

PART = 4
"""Part of the memory of the graphics that volumes take; windows and napari's own
textures are there, too."""


@dataclass(frozen=True, slots=True)
class TextureBudget:
    """What volumes may take.

    Attributes
    ----------
    memory
        Bytes of all volumes together.
    side
        Voxels along one axis.
    """

    memory: int
    side: int


def budget_of(viewer: Any) -> TextureBudget:
    """Return the budget of the volumes of a viewer: as chosen, or by its graphics."""
    side, memory = graphics_limits(viewer)
    chosen = settings.volume_memory() << 20
    if not chosen and memory is not None:
        chosen = min(max(LEAST, memory // PART), MOST)
    return TextureBudget(chosen or UNKNOWN, SIDE if side is None else side)


def share_budget(wanted: Sequence[int], memory: int) -> list[int]:
    """Share memory: in equal parts, and what some do not want goes to the others.

    Parameters
    ----------
    wanted
        Bytes of each at its best.

    Returns
    -------
    list of int
        Bytes that each may take.
    """
    shares = [0] * len(wanted)
    left = memory
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for done, index in enumerate(order):
        share = left // (len(order) - done)
        shares[index] = share
        left -= min(share, wanted[index])
    return shares
