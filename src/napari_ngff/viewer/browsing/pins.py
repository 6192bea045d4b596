"""Images shown beside others for comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.viewer.painting.painted import as_layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.browsing.stage import Act

__all__ = ["Pins"]

GAP = 0.05
"""Between images, in their widths."""

LINKED = ("contrast_limits", "colormap", "gamma", "opacity")


class Pins:
    """The layers of each image that is pinned."""

    def __init__(self) -> None:
        self._layers: dict[Position, list[Layer]] = {}

    @property
    def positions(self) -> tuple[Position, ...]:
        """What is pinned, in the order in which it was."""
        return tuple(self._layers)

    def toggle(
        self,
        viewer: ViewerModel,
        position: Position,
        act: Act,
        images: Sequence[Layer],
    ) -> Iterator[None]:
        """Put an image to the right of all others, or take it away if it is there.

        Parameters
        ----------
        act
            What to show.
        images
            The layers, one per channel, with which its own share contrast and colour.
        """
        if position in self._layers:
            self._remove(viewer, self._layers.pop(position))
            return
        edge = viewer.layers.extent.world[1, -1] if len(viewer.layers) else None
        top = images[0].extent.world[0, -2] if images else 0.0
        made = []
        for (_, kind, channel), data in act.layers.items():
            levels, keywords, name = data
            layer = as_layer((levels, keywords, name))
            corner, far = layer.extent.world[:, -2:]
            gap = GAP * (far[1] - corner[1])
            move = np.zeros(layer.ndim)
            if edge is not None:
                move[-2:] = top - corner[0], edge + gap - corner[1]
            layer.translate = np.asarray(layer.translate) + move
            viewer.layers.append(layer)
            made.append(layer)
            self._layers[position] = made
            if kind == "image" and isinstance(channel, int) and channel < len(images):
                partner = images[channel]
                layer.contrast_limits_range = partner.contrast_limits_range
                for attribute in LINKED:
                    setattr(layer, attribute, getattr(partner, attribute))
                viewer.layers.link_layers([partner, layer], LINKED)
            yield

    def clear(self, viewer: ViewerModel) -> None:
        """Take all away."""
        for layers in self._layers.values():
            self._remove(viewer, layers)
        self._layers.clear()

    def _remove(self, viewer: ViewerModel, layers: Sequence[Layer]) -> None:
        for layer in layers:
            if layer in viewer.layers:
                viewer.layers.unlink_layers([layer])
                viewer.layers.remove(layer)
