"""Offers to undo the first strokes that a window saves into labels of others."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import (
    Notification,
    notification_manager,
    show_warning,
)

from napari_ngff.viewer.layers.label_owners import forget_save, note_save
from napari_ngff.viewer.services.notices import count_noun
from napari_ngff.viewer.services.settings import PLUGIN
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of, viewer_of

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.painting.paint import OMEZarrLabels


class UndoOffer(Notification):  # type: ignore[misc]
    """A notification with a button that undoes a save."""

    @property
    def source(self) -> str:
        """What napari shows beside the button; its own manager by default."""
        return PLUGIN


def offer_undo(layer: OMEZarrLabels, count: int) -> None:
    """Show how many voxels were changed in labels of others, and offer to undo that.

    Parameters
    ----------
    layer
        Was saved just now; its field is about to be left, maybe.
    count
        Of voxels.
    """
    viewer = viewer_of(layer)
    if viewer is None or layer.saver is None:
        return
    note_save(layer)
    browser = session_of(viewer).browser
    position = None if browser is None else browser.layers.position_of(layer)
    field = "" if browser is None else browser.title_of(layer)
    name = f"'{layer.name}' of {field}" if field else f"'{layer.name}'"
    place = layer.saver.journal.place
    undo = partial(_undo_saved, weakref.ref(viewer), place, position)
    text = (
        f"{count_noun(count, 'voxel')} of others' labels saved.\nAnother program made"
        f" {name}. Undo takes back all strokes there, and saves that."
    )
    actions = (("Undo", lambda _: undo()),)
    notification_manager.dispatch(UndoOffer(text, "warning", actions))


def _undo_saved(
    reference: weakref.ref[ViewerModel],
    place: tuple[str, str],
    position: Position | None,
) -> None:
    """Undo all strokes in some labels, and save that; shows their field if need be."""
    viewer = reference()
    if viewer is None or not Window.current.is_open(viewer):
        return
    browser = session_of(viewer).browser
    if browser is None or position is None or position == browser.position:
        _undo_shown(viewer, place)
        return

    def on_shown(_: Any) -> None:
        browser.position_changed.disconnect(on_shown)
        _undo_shown(viewer, place)

    browser.position_changed.connect(on_shown)
    browser.show_field(position.well, position.field)


def _undo_shown(viewer: ViewerModel, place: tuple[str, str]) -> None:
    """Undo all strokes in labels that are on screen, and save that."""
    layers = [x for x in viewer.layers if getattr(x, "saver", None) is not None]
    layer: Any = next((x for x in layers if x.saver.journal.place == place), None)
    if layer is None or not layer.undo_all():
        show_warning("Not undone.\nThe strokes are not kept any more. Erase them.")
        return
    forget_save(layer)
    layer.saver.save()
