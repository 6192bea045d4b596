"""Fields that are shown beside the one on screen, for comparison."""

from __future__ import annotations

import itertools
import weakref
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.viewer.browsing.camera import CameraView, fit_camera
from napari_ngff.viewer.browsing.layer_swap import is_overview
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.browsing.preparation import (
    FieldResolver,
    PreparedFields,
    prepare_layers,
)
from napari_ngff.viewer.browsing.shown_fields import BrowsingState, ShownFields
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.plans.layer_plan import KEY, layer_kind, picture_of
from napari_ngff.viewer.services.latest_task import LayerChange, LayerTask
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.viewer.browsing.shown_layers import ShownLayers

COMPARED = "shown for comparison; open the field to paint."

GAP = 0.05
"""Gap between compared images, as part of their width."""

GROUND = "translucent_no_depth"
"""How the lowest layer is drawn: added to a light canvas, no channel could be seen.

Of what is opened napari does this itself."""

LINKED = {
    "image": ("visible", "contrast_limits", "colormap", "gamma", "opacity"),
    "labels": ("visible", "opacity", "contour"),
}
"""Attributes by type of layer that compared layers have in common with the field on
screen: what looks different is different."""

Wanted = tuple[str | None, str | None]
"""Path of a well, and of an image in it or None."""


class PinnedFields:
    """The layers of each image that is pinned.

    Parameters
    ----------
    layers
        Of the field on screen, beside which they are shown.
    state
        Of the browser.
    resolver
        Reads fields.
    busy
        Called with True when reading begins, with False when it ends.
    changed
        Called when a field was pinned or removed.
    """

    def __init__(
        self,
        layers: ShownLayers,
        state: BrowsingState,
        resolver: FieldResolver,
        busy: Callable[[bool], None],
        changed: Callable[[], None],
    ) -> None:
        self._shown = layers
        self._state = state
        self._resolver = resolver
        self._busy = busy
        self._changed = changed
        self._task = LayerTask(busy)
        self._wanted: list[Wanted] = []
        # By channel, or by name of the labels.
        self._layers: dict[Position, dict[int | str, Layer]] = {}
        self._partners: weakref.WeakKeyDictionary[Layer, Layer]
        self._partners = weakref.WeakKeyDictionary()
        self._is_beside_overview = False
        self._before: CameraView | None = None
        self._fitted: CameraView | None = None

    def pinned_positions(self) -> tuple[Position, ...]:
        """Return the pinned fields, in the order in which they were pinned."""
        there = set(self._shown.viewer.layers)
        for position, layers in list(self._layers.items()):
            if layers and not there.intersection(layers.values()):
                del self._layers[position]  # the user has removed them
        return tuple(self._layers)

    def compared_corners(self) -> dict[Position, tuple[float, float]]:
        """Return the first corner, along y and x, of each image that is compared.

        With the image that is shown, which comes first; {} where nothing is pinned.
        """
        corners, images = {}, self._shown.image_layers()
        shown = self._state.shown.position
        if shown is not None and images and self.pinned_positions():
            # Row 0 is the corner with the least coordinates, of the whole layer.
            y, x = images[0].extent.world[0, -2:]
            corners[shown] = float(y), float(x)
        for position in self.pinned_positions():
            layers = self._layers_of(position).values()
            lows = [layer.extent.world[0, -2:] for layer in layers]
            if lows:  # else it is about to be there
                y, x = np.min(lows, axis=0)
                corners[position] = float(y), float(x)
        return corners

    def find_pinned(self, world: Sequence[float]) -> Position | None:
        """Find the pinned field at a world coordinate."""
        for position in self.pinned_positions():
            for layer in self._layers_of(position).values():
                low, high = layer.extent.world[:, -2:]
                if (low <= world[-2:]).all() and (world[-2:] <= high).all():
                    return position
        return None

    def _layers_of(self, position: Position) -> dict[int | str, Layer]:
        """Return the layers of a pinned field that the user has not removed."""
        layers = self._layers[position]
        return {
            key: layer
            for key, layer in layers.items()
            if layer in self._shown.viewer.layers
        }

    def cancel_reading(self) -> None:
        """Stop reading; pinned fields stay."""
        # Else the next pin would bring those back that the user has cancelled.
        self._wanted.clear()
        self._task.cancel()
        self._busy(False)

    def toggle_pin(self, well: str | None, field: str | None) -> None:
        """Pin a field to the right of all others, or remove it if it is pinned.

        Without a field: the field of the well that is like the one on screen, or all
        that are pinned of this well.
        """
        pinned = [p.field for p in self.pinned_positions() if p.well == well]
        fields = pinned if field is None and pinned else [field]
        # All that was asked for and is not there yet: none gives way to the next.
        self._wanted += [(well, each) for each in fields]
        self._task.start(self._change_pins(tuple(self._wanted)))

    def _change_pins(self, wanted: tuple[Wanted, ...]) -> LayerChange:
        """Read the wanted fields, and pin or remove them."""
        shown = self._state.with_choices(self._state.shown)
        read = partial(self._prepare_pins, wanted, shown)
        found, error = yield self._task.in_worker(read)
        if error is not None:
            text = error_text(error)
            Window.current.show_messages((text,), "Not compared: an image")
            return None
        # Pins that were asked for meanwhile wait for the next task.
        del self._wanted[: len(wanted)]
        return self._show_pins(*found, is_beside_field=shown.position is not None)

    def _prepare_pins(
        self, wanted: Sequence[Wanted], shown: ShownFields, _: Any
    ) -> tuple[list[tuple[Position, PreparedFields]], dict[Position, str]]:
        """Read fields, and why some cannot be read; in a worker."""
        pins, failed = [], {}
        for pin in wanted:
            try:
                pins.append(self._prepare_pin(pin, shown))
            except (OMEZarrError, OSError) as error:
                failed[Position(pin[0], pin[1] or "")] = str(error)
        return pins, failed

    def _show_pins(
        self,
        pins: Sequence[tuple[Position, PreparedFields]],
        failed: dict[Position, str],
        *,
        is_beside_field: bool,
    ) -> Iterator[None]:
        self._is_beside_overview = self._shows_overview()
        if self._is_beside_overview and is_beside_field:
            return  # as comparisons that were there already, it has ended
        before, view = self.pinned_positions(), self._note_view()
        for position, prepared in pins:
            yield from self._toggle_layers(position, prepared)
        if set(self.pinned_positions()).difference(before):
            # Of several pins only the first changes a view the user has chosen.
            self._before = self._before if before else view
            self._fit_camera()
        elif before:
            self._return_camera()
        self._resolver.notices.show_not_compared(failed)
        self._changed()

    def _fit_camera(self) -> None:
        """Bring all compared fields in view."""
        layers = [
            *self._shown.image_layers(),
            *itertools.chain(*(x.values() for x in self._layers.values())),
        ]
        corners = np.array([layer.extent.world[:, -2:] for layer in layers])
        fit_camera(
            self._shown.viewer, corners[:, 0].min(axis=0), corners[:, 1].max(axis=0)
        )
        self._fitted = self._note_view()

    def _note_view(self) -> CameraView | None:
        images = self._shown.image_layers()
        return CameraView.note_view(self._shown.viewer, images[0]) if images else None

    def _return_camera(self) -> None:
        """Look at the image as before the comparison, unless the user has moved."""
        images = self._shown.image_layers()
        if self._before is None or not images or self.pinned_positions():
            return
        # A camera that the user has moved since stays.
        if self._note_view() == self._fitted:
            self._before.apply_to(self._shown.viewer, images[0])
        self._before = self._fitted = None

    def _prepare_pin(
        self, wanted: Wanted, shown: ShownFields
    ) -> tuple[Position, PreparedFields]:
        resolver, name_field = self._resolver, self._resolver.notices.name_field
        (well, field), runs = wanted, shown.acquisitions
        position = groups = None
        if field is None and shown.position is not None:
            # Where that field cannot be read, the first that can be, as for a click.
            with suppress(OMEZarrError, OSError):
                position = resolver.route.find_alike(well, shown.position, runs)
                groups = resolver.open_field(name_field(position), position)
        if position is None or groups is None:
            position = resolver.route.find_entry(well, field, runs)
            groups = resolver.open_field(name_field(position), position)
        return position, prepare_layers(
            ShownFields(position=position), groups, estimate=False
        )

    def _toggle_layers(
        self, position: Position, prepared: PreparedFields
    ) -> Iterator[None]:
        if position in self.pinned_positions():
            self._remove_layers(position)
            return
        viewer, title = self._shown.viewer, self._resolver.notices.name_field(position)
        others = [layer.extent.world[:, -2:] for layer in viewer.layers]
        first = next(iter(self._shown.image_layers()), None)
        made = self._layers[position] = {}
        for (_, kind, key), data in prepared.layers.items():
            levels, keywords, name = data
            origin = replace(keywords["metadata"][KEY], is_compared=True)
            keywords = {**keywords, "metadata": {KEY: origin}}
            if kind == "labels":  # as channels are named: "B3 - field 1: nuclei"
                keywords["name"] = f"{title}: {keywords['name']}"
            # Two layers that save into one file would be in each other's way.
            layer = as_layer((levels, keywords, name), read_only=COMPARED)
            if not made:
                layer.blending = GROUND
            if others:
                top = others[0][0, 0] if first is None else first.extent.world[0, -2]
                move_beside(layer, float(top), max(float(x[1, 1]) for x in others))
            active = viewer.layers.selection.active
            viewer.layers.append(layer)
            if active is not None:
                viewer.layers.selection.active = active  # keys go on from there
            made[key] = layer
            self._shown.keep_layers([layer])
            self._share_look(key, layer)
            yield

    def _share_look(self, key: int | str, layer: Layer) -> None:
        """Link the look of a layer with that of its partner in the field on screen."""
        layers = self._shown.by_slot().items()
        leading = {slot[2]: x for slot, x in layers if slot[0] == 0}
        partner = leading.get(key)
        if picture_of(partner) is None:  # it stands for a channel that is not there
            partner = None
        former = self._partners.get(layer)
        if former is partner:
            return  # each link takes a millisecond
        if former is not None:
            # Else it would follow two layers, as after other acquisitions were chosen.
            self._shown.viewer.layers.unlink_layers([former, layer])
            del self._partners[layer]
        if partner is not None:
            link_looks(self._shown.viewer, partner, layer)
            self._partners[layer] = partner

    def follow_field(self) -> None:
        """Place all pinned fields to the right of the field on screen.

        Where an overview takes the place of a field, or a field that of an overview,
        the comparison ends: what is pinned would be out of view.
        """
        if self._shows_overview() != self._is_beside_overview:
            self.remove_all()
            return
        extents = [layer.extent.world[:, -2:] for layer in self._shown.image_layers()]
        if not extents:
            return
        top, edge = float(extents[0][0, 0]), max(float(x[1, 1]) for x in extents)
        for position in self.pinned_positions():
            layers = self._layers_of(position)
            for key, layer in layers.items():
                move_beside(layer, top, edge)
                self._share_look(key, layer)
            edge = max(float(layer.extent.world[1, -1]) for layer in layers.values())

    def _shows_overview(self) -> bool:
        # By the layers: `shown` is set only when all of a field is there.
        return any(is_overview(x.metadata) for x in self._shown.image_layers())

    def remove_all(self) -> None:
        """Remove all pinned fields."""
        for position in self.pinned_positions():
            self._remove_layers(position)
        self._return_camera()

    def _remove_layers(self, position: Position) -> None:
        layers, viewer = self._layers_of(position), self._shown.viewer
        del self._layers[position]
        for layer in layers.values():
            if layer in viewer.layers:
                viewer.layers.unlink_layers([layer])
                viewer.layers.remove(layer)
        if viewer.layers.selection.active is None:
            images = self._shown.image_layers()
            viewer.layers.selection.active = images[0] if images else None


def move_beside(layer: Layer, top: float, edge: float) -> None:
    """Put a layer to the right of an edge; a part of its width stays free.

    Parameters
    ----------
    top, edge
        World coordinates along y and x.
    """
    corner, far = layer.extent.world[:, -2:]
    move = np.zeros(layer.ndim)
    move[-2:] = top - corner[0], edge + GAP * (far[1] - corner[1]) - corner[1]
    if not np.allclose(move, 0):
        layer.translate = np.asarray(layer.translate) + move


def link_looks(viewer: ViewerModel, partner: Layer, layer: Layer) -> None:
    """Give a layer the look of its partner, now and whenever one of them changes."""
    if layer_kind(layer) == "image":
        layer.contrast_limits_range = partner.contrast_limits_range
    names = LINKED[layer_kind(layer)]
    for name in names:
        setattr(layer, name, getattr(partner, name))
    viewer.layers.link_layers([partner, layer], names)
