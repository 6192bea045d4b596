"""Deletes and renames label images in their files, until a window closes undoably."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from napari.utils.notifications import Notification
from napari.viewer import Viewer  # noqa: TC002  napari hands over what is of this type

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.field_states import TODO
from napari_ngff.labels.kept_edits import address_text, find_kept_edits
from napari_ngff.labels.places.label_location import name_problem
from napari_ngff.labels.places.listed_labels import delete_labels, rename_labels
from napari_ngff.viewer.annotations.file_journal import find_kept_files
from napari_ngff.viewer.annotations.object_class_annotation import find_classes
from napari_ngff.viewer.annotations.restored_layers import (
    find_image,
    find_labels,
    open_saved,
)
from napari_ngff.viewer.browsing.positions import key_of
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.painting.new_labels import is_shown, taken_names
from napari_ngff.viewer.painting.painted_layers import exchange_labels
from napari_ngff.viewer.plans.layer_plan import KEY, origin_of
from napari_ngff.viewer.services.window import Window, attempt_work
from napari_ngff.viewer.session import Session, all_viewers, session_of


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


def rename_selected(viewer: Viewer) -> None:
    """Rename the labels of the selected layer in their file, after a question."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    _rename_layer(viewer, viewer.layers.selection.active)


def _rename_layer(viewer: Any, layer: Any, name: str = "") -> None:
    """Rename labels, or say why they stay as they are; asks for the name if need be."""
    session, problem, image = session_of(viewer), _find_problem(layer), None
    if not problem:
        image = find_image(viewer, layer.saver.journal.subject.image)
        unsaved = [x.description for x in session.annotations.list_unsaved()]
        lacking = [] if image else ["The image of the labels is not on screen."]
        problem = next(iter((*unsaved, *lacking)), "")
    if problem:
        Window.current.show_messages((problem,), "Nothing is renamed.")
        return
    if not name:
        text = (
            f"New name of {session.name_image(layer)}, also in the tables about them."
            " Strokes until now can no longer be undone then."
        )
        check = partial(name_problem, taken=taken_names(image))
        old = layer.metadata[KEY].label_name
        name = Window.current.ask_name(viewer, text, old, check)
    if name:
        _rename_in_worker(viewer, layer, origin_of(image), name)


def _rename_in_worker(viewer: Any, layer: Any, image: Any, name: str) -> None:
    session, origin = session_of(viewer), layer.metadata[KEY]
    browser: Any = session.find_browsed()
    position = browser and browser.layers.position_of(layer)
    field = position and key_of(position)
    address, old = address_text(image.node), origin.label_name
    place = f"{address}/labels/{name}"

    def rename() -> Any:
        if find_kept_edits([image.node]) or find_kept_files({address}, []):
            msg = "Unsaved work on the image is kept, which may be about the labels."
            raise UnsupportedError(msg, remedy="Restore or discard it first.")
        noted = browser.states.read_states().all_states(old) if field else {}
        rename_labels(image.node, origin.node, name)
        if field in noted:
            browser.states.read_states().set_state(field, TODO, labels=old)
            browser.states.read_states().set_state(field, noted[field], labels=name)
        return open_saved(image, place)

    def show(opened: Any) -> None:
        layer.is_exchanging = False
        if not isinstance(opened, tuple):
            text = "The labels are not shown under another name."
            Window.current.show_messages((str(opened),), text)
        elif layer.metadata[KEY] is origin:  # else another field is on screen
            _show_renamed(session, layer, opened)
            Window.current.watch_labels(viewer, layer)
            undo = partial(_undo, weakref.ref(viewer), place, old)
            text = f"Renamed: {old} is {name} now."
            notice = Notification(text, "info", (("Undo", undo),))
            Window.current.show_offer(viewer, notice)

    layer.is_exchanging = True  # a stroke would be lost
    Window.current.run_work(partial(attempt_work, rename), show)


def _show_renamed(session: Session, layer: Any, opened: Any) -> None:
    """Let a layer show its labels under their new name."""
    is_locked, classes = layer.locked, find_classes(session.annotations, layer)
    layer.saver.keep_journal()  # else its edits would be those of the next such labels
    exchange_labels(layer, opened)
    layer.name, layer.locked = layer.metadata[KEY].label_name, is_locked
    session.annotations.attach(layer)
    if session.browser is not None:
        session.browser.layers.keep_layers([layer])
    if classes is not None:
        classes.labels = layer.name
        # Those in a file beside the image come into a table.
        classes.note_change()
        classes.save(quiet=True)


def _undo(window: Any, place: str, name: str, _: Any) -> None:
    viewer = window()
    if viewer is not None:
        _rename_layer(viewer, find_labels(viewer, place), name)


def _find_problem(layer: Any) -> str:
    """Say why the labels of a layer cannot be deleted or renamed; "" if they can."""
    origin, saver = origin_of(layer) if layer else None, getattr(layer, "saver", None)
    if origin is None or saver is None:
        return "Show and select labels that are in a file, and can be painted."
    if layer.unsaved or saver.running:
        return "The labels have unsaved changes. Save or undo them first."
    others = [x for each in all_viewers() for x in each.layers if x is not layer]
    if is_shown(others, saver.journal.place):
        return "Another layer shows the same labels. Remove it first."
    return ""
