"""Deletes label images from their files; until a window closes they can come back."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from napari.utils.notifications import Notification
from napari.viewer import Viewer  # noqa: TC002  napari hands over what is of this type

from napari_ngff.labels.places.delete_labels import delete_labels
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.painting.new_labels import is_shown
from napari_ngff.viewer.plans.layer_plan import KEY, origin_of
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import all_viewers, session_of


def delete_selected(viewer: Viewer) -> None:
    """Delete the labels of the selected layer from their file, after a question.

    Their layer goes with them, and comes back with them if their image is on screen.
    """
    viewer = getattr(viewer, "__wrapped__", viewer)
    layer: Any = viewer.layers.selection.active
    problem, reference = _find_problem(layer), weakref.ref(viewer)
    if problem:
        Window.current.show_messages((problem,), "Nothing is deleted.")
        return
    label, name = layer.metadata[KEY].node, session_of(viewer).name_image(layer)

    def show_again(back: str) -> None:
        if not str(label).endswith(f"/{back}"):
            text = "There are labels of this name again, which stay. Open the image"
            Window.current.notify(
                f"Put back as {back}: {name}.\n{text} again to see both."
            )
            return
        layers: Any = getattr(reference(), "layers", ())
        # A browser shows them when one comes to their field again.
        if image_address(layer) in map(image_address, layers):
            layers.append(layer)

    def offer(way_back: Any) -> None:
        undo, finish = way_back
        viewer.layers.remove(layer)
        weakref.finalize(viewer, finish)
        actions = (("Undo", lambda _: Window.current.run_work(undo, show_again)),)
        notice = Notification(f"Deleted: {name}.", "info", actions)
        Window.current.show_offer(viewer, notice)

    text = (
        f"Delete {name}, in {label}? Tables about them stay. Until this window is"
        " closed, or new labels are saved under their name, Undo in the message that"
        " follows puts them back."
    )
    if Window.current.confirm(viewer, text, "Delete"):
        Window.current.run_work(partial(delete_labels, label), offer)


def _find_problem(layer: Any) -> str:
    """Say why the labels of a layer cannot be deleted; "" where they can."""
    origin, saver = origin_of(layer) if layer else None, getattr(layer, "saver", None)
    if origin is None or saver is None:
        return "Select labels that are in a file, and can be painted."
    if layer.unsaved or saver.running:
        return "The labels have unsaved changes. Save or undo them first."
    others = [x for each in all_viewers() for x in each.layers if x is not layer]
    if is_shown(others, saver.journal.place):
        return "Another layer shows the same labels. Remove it first."
    return ""
