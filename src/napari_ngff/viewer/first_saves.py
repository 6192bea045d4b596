"""Offers to undo the first strokes that a window saves into labels of others."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_warning

from napari_ngff.viewer.browsing.plate_list import Offer
from napari_ngff.viewer.layers.label_owners import forget_save, note_save
from napari_ngff.viewer.services.notices import count_noun, last_part, shorten_name
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of, viewer_of

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.painting.paint import OMEZarrLabels


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
    save = FirstSave(
        weakref.ref(viewer),
        layer.saver.journal.place,
        name,
        str(browser.node) if browser is not None else "",
        position,
    )
    changed = count_noun(count, "voxel")
    save.offer_undo(
        f"{changed} of '{shorten_name(layer.name)}' changed.\n"
        f"Another program made {name}."
    )


@dataclass(frozen=True, slots=True)
class FirstSave:
    """A save into labels of others, which can be undone.

    Attributes
    ----------
    place
        Store and path of the labels.
    name
        Of the labels and their field, for the user.
    browsed, position
        The address of what was browsed, and the field; "" and None for no field.
    """

    viewer: weakref.ref[ViewerModel]
    place: tuple[str, str]
    name: str
    browsed: str
    position: Position | None

    def offer_undo(self, text: str) -> None:
        """Show a text with a button that undoes the save."""
        viewer = self.viewer()
        if viewer is not None:
            actions = (("Undo", lambda _: self.undo()),)
            Window.current.show_offer(viewer, Offer(text, "warning", actions))

    def undo(self) -> None:
        """Undo all strokes in the labels, and save that; shows their field if need be.

        While something else is browsed, the user is asked to show them.
        """
        viewer = self.viewer()
        if viewer is None or not Window.current.is_open(viewer):
            return
        browser, position = session_of(viewer).browser, self.position
        if (
            browser is None
            or position is None
            or position == browser.position
            or str(browser.node) != self.browsed
        ):
            self._undo_shown()
            return

        def on_busy(is_busy: bool) -> None:
            if not is_busy:  # the field is shown, or it cannot be
                browser.busy.disconnect(on_busy)
                self._undo_shown()

        browser.busy.connect(on_busy)
        browser.show_field(position.well, position.field)

    def _undo_shown(self) -> None:
        """Undo the strokes if a layer shows the labels."""
        layers: list[Any] = list(getattr(self.viewer(), "layers", ()))
        layers = [x for x in layers if getattr(x, "saver", None) is not None]
        layer = next((x for x in layers if x.saver.journal.place == self.place), None)
        if layer is None:
            shown = f"{self.name} in {last_part(self.place[0])}"
            self.offer_undo(f"Not undone.\nShow {shown} first, and press Undo again.")
        elif layer.undo_all():
            forget_save(layer)
            layer.saver.save()
            Window.current.show_passing(
                f"Undone.\nThe strokes in {self.name} are gone."
            )
        elif not layer.canvas.log.can_undo:  # else a notice has the reason
            show_warning("Not undone.\nThe strokes are not kept any more. Erase them.")
