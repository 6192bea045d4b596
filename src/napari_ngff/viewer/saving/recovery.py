"""Edits that were painted and not saved: offered, and put back where they belong."""

from __future__ import annotations

import datetime
import os
import re
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.layers.labels._labels_constants import Mode
from napari.utils.notifications import show_info, show_warning

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.journal import delete_journal, find_journals, read_journal
from napari_ngff.labels.kept_edits import (
    KeptEdits,
    address_text,
    find_kept_edits,
    place_text,
)
from napari_ngff.viewer import window_services
from napari_ngff.viewer.layer_plan import KEY, LayerOrigin, is_joined
from napari_ngff.viewer.notices import shorten_name
from napari_ngff.viewer.painting.label_target import TARGET
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import free_name, new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.saving.save_report import reported_journal
from napari_ngff.viewer.settings import last_tool, note_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from napari.components import ViewerModel
    from napari.layers import Image, Layer

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.journal import Journal
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.saving.layer_saver import LayerSaver

__all__ = [
    "EditRecovery",
    "describe_edits",
    "discard_journal",
    "file_of",
    "journals_of",
    "open_journal",
    "position_of",
]

TAKEN = "Another window has these edits now.\nThose of '{}' were left to it."

UNFIT = (
    "Not restored: {}.\nKept: {}. The edits were painted on {} pixels, and {} has {}."
    " Open {} to restore them."
)

CLOSED = "Not restored: {}.\nKept: {}. The image is not open; open {} to restore them."

BUSY = (
    "Not restored: {}.\nKept: {}. The layer has other edits; save or undo them, and"
    " open the image again."
)

FILE = re.compile(r"[^/\\]+\.(?:zarr|ozx|zip)\b", re.IGNORECASE)
"""Name of a hierarchy in a path or an address."""


def journals_of(saver: LayerSaver) -> list[Path]:
    """List journals of a layer's labels that nobody holds and that fit to it."""
    found = find_journals(*saver.journal.place)
    shape = saver.journal.canvas.shape
    # Others are of labels on other axes, or of another level.
    return [one for one in found if read_journal(one).shape == shape]


def open_journal(saver: LayerSaver, folder: Path) -> Journal:
    """Open a journal for a layer to take over; reads all of it, in any thread.

    Raises
    ------
    BlockingIOError
        Where another window has taken it over.
    OSError
        Where it cannot be read.
    """
    mine = saver.journal
    return reported_journal(*mine.place, mine.canvas, folder, subject=mine.subject)


def discard_journal(folder: Path, saver: LayerSaver | None = None) -> None:
    """Delete a journal, and blocks that its process left aside.

    Parameters
    ----------
    folder
        Of the journal.
    saver
        Of the same labels, where they are shown.

    Raises
    ------
    BlockingIOError
        Where another window has taken it over.
    """
    dead = delete_journal(folder).tokens
    writer = None if saver is None else saver.writer
    if writer is not None and dead:
        window_services.run_work(lambda: writer.sweep_leftovers(dead), lambda _: None)


def describe_edits(
    kept: KeptEdits, now: datetime.datetime | None = None, name: str = ""
) -> str:
    """Describe a journal: "2 edits of 'mitosis' (cells.ome.zarr, today 16:11)".

    With a `name`, of the field: "2 edits of 'a' (B3, field 2, p.zarr, today 16:11)".
    """
    now = now or datetime.datetime.now().astimezone()
    then = datetime.datetime.fromtimestamp(kept.time, now.tzinfo)
    days = (now.date() - then.date()).days
    day = {0: "today", 1: "yesterday"}.get(days, f"{then.day} {then:%b %Y}")
    file = file_of(kept.image or kept.place)
    file = f"{name}, {file.partition(' ')[0]}" if name else file
    place = f"{file}, {day} {then:%H:%M}"
    return f"{count_edits(kept)} ({place})"


def count_edits(kept: KeptEdits) -> str:
    """Say "2 edits of 'mitosis'"."""
    return f"{kept.count} edit{'s' * (kept.count != 1)} of '{shorten_name(kept.name)}'"


def file_of(address: str) -> str:
    """Name a hierarchy, and the path in it: "plate.ome.zarr A/1/0"."""
    matches = list(FILE.finditer(address))
    if not matches:
        return os.path.basename(address.rstrip("/\\")) or address
    inside = address[matches[-1].end() :].strip("/\\").replace("\\", "/")
    return f"{matches[-1][0]} {inside}".rstrip()


class EditRecovery:
    """Offers the edits that journals hold of what a viewer shows.

    One look for all that is opened together, in a worker, and one question. What the
    user does not decide on is offered at the next opening, and when a browser comes to
    its image again.

    Parameters
    ----------
    viewer
        Where layers are added.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = weakref.ref(viewer)
        self._nodes: dict[str, Node] = {}
        self._places: set[str] = set()
        self._begun = self._asking = False
        self._answered: set[Path] = set()
        self._waiting: tuple[KeptEdits, ...] = ()
        self._wanted: set[Path] = set()  # to be restored when one comes there
        self._restoring: set[Path] = set()
        self._browser: weakref.ref[Browser] | None = None
        self._tool: dict[str, Any] = {}

    # What is looked for.

    def notice_layer(self, layer: Layer) -> None:
        """Look for edits of the image or the labels of a layer that was just added."""
        origin = layer.metadata.get(KEY)
        if isinstance(origin, LayerOrigin):
            # What joins many images is browsed, and looked for as a whole.
            if origin.picture is None or not is_joined(origin.picture):
                self.find_edits([origin.node])
        elif layer.metadata.get(TARGET) is not None and layer.saver is not None:
            self.find_edits([], [place_text(*layer.saver.journal.place)])
        saver = getattr(layer, "saver", None)
        if saver is not None:
            saver.dirty_changed.connect(self._note_tool, unique=True)

    def _note_tool(self, is_dirty: bool) -> None:
        """Remember the tool of edits, for who restores them."""
        viewer = self._viewer()
        layer = None if viewer is None else viewer.layers.selection.active
        if (
            is_dirty
            and isinstance(layer, OMEZarrLabels)
            and layer.describe_tool() != self._tool
        ):
            self._tool = layer.describe_tool()
            window_services.run_work(partial(note_tool, self._tool), lambda _: None)

    def watch_browser(self, browser: Browser) -> None:
        """Look for edits of all that a browser can show, and of what it shows later."""
        older = None if self._browser is None else self._browser()
        if older is not browser:
            self._browser = weakref.ref(browser)
            browser.position_changed.connect(self._restore_waiting)
        self.find_edits([browser.node])

    def find_edits(self, nodes: Iterable[Node], places: Iterable[str] = ()) -> None:
        """Look for edits of groups, soon, with all else that is looked for by then."""
        viewer = self._viewer()
        if viewer is None or not window_services.can_ask(viewer):
            return
        self._nodes |= {str(node): node for node in nodes}
        self._places |= set(places)
        if not self._begun and not self._asking and (self._nodes or self._places):
            self._begun = True
            window_services.run_work(lambda: None, self._start_search)

    def _start_search(self, _: Any = None) -> None:
        self._begun = False
        nodes, places = tuple(self._nodes.values()), tuple(self._places)
        self._nodes, self._places = {}, set()
        answered, self._answered = self._answered, set()
        window_services.run_work(
            partial(find_kept_edits, nodes, places),
            lambda found: self._offer_edits(
                [x for x in found if x.folder not in answered]
            ),
        )

    def _offer_edits(self, found: Sequence[KeptEdits]) -> None:
        viewer = self._viewer()
        if viewer is None or self._asking:
            return
        for kept in [kept for kept in found if kept.folder in self._wanted]:
            if self._restore_edits(viewer, kept):
                self._wanted.discard(kept.folder)
        found = [kept for kept in found if kept.folder not in self._wanted]
        found = [kept for kept in found if kept.folder not in self._restoring]
        if not found:
            return
        self._asking = True
        try:
            answer, chosen = window_services.offer_edits(viewer, found)
        finally:
            self._asking = False
        # What was opened meanwhile is of the same opening: no second question for it.
        again = bool(self._nodes or self._places)
        self._answered = {kept.folder for kept in found} if again else set()
        if answer == window_services.RESTORE:
            self.restore_edits(chosen)
        elif answer == window_services.DISCARD:
            for kept in chosen:
                self._discard_edits(viewer, kept)
        self.find_edits([])

    def _discard_edits(self, viewer: ViewerModel, kept: KeptEdits) -> None:
        layer = _labels_of(viewer, kept)
        try:
            discard_journal(kept.folder, None if layer is None else layer.saver)
        except (BlockingIOError, FileNotFoundError):
            show_warning(TAKEN.format(kept.name))

    # Putting edits back.

    def restore_edits(self, chosen: Sequence[KeptEdits]) -> None:
        """Put edits back onto their labels, which are shown, visible and selected.

        Where their image is one of those that are browsed, it is shown first; of
        several such images, one.
        """
        viewer = self._viewer()
        if viewer is None:
            return
        away = [kept for kept in chosen if not self._restore_edits(viewer, kept)]
        browser = None if self._browser is None else self._browser()
        places = [(kept, position_of(browser, kept.image)) for kept in away]
        for kept in [kept for kept, position in places if position is None]:
            where = file_of(kept.image or kept.place)
            show_warning(
                CLOSED.format(shorten_name(kept.name), count_edits(kept), where)
            )
        reached = [(kept, at) for kept, at in places if at is not None]
        if browser is None or not reached:
            return
        first, position = reached[0]
        self._waiting = tuple(kept for kept, at in reached if at == position)
        left = len({kept.image for kept, _ in reached}) - 1
        self._wanted = {kept.folder for kept, at in reached if at != position}
        if left:
            more = f"{left} other image{'s' * (left != 1)}"
            show_info(
                f"Restoring {shorten_name(first.name)}.\n"
                f"It is in {file_of(first.image)}."
                f" Edits of {more} are restored when you go there."
            )
        browser.show_field(position.well, position.field)

    def _restore_waiting(self, position: Position | None) -> None:
        """Restore what waits for the image that is shown now, and offer the rest."""
        viewer = self._viewer()
        browser = None if self._browser is None else self._browser()
        waiting, self._waiting = self._waiting, ()
        if viewer is None or browser is None or position is None:
            return
        for kept in waiting:
            self._restore_edits(viewer, kept)
        self._answered |= {kept.folder for kept in waiting}
        for layer in viewer.layers:
            if browser.owns_layer(layer):
                self.notice_layer(layer)

    def _restore_edits(self, viewer: ViewerModel, kept: KeptEdits) -> bool:
        """Put edits back if their labels or image are shown; False where they are not.

        Where that fails, the user is shown why, and they are kept.
        """
        layer = _labels_of(viewer, kept)
        base = _image_of(viewer, kept) if layer is None else layer
        if base is None:
            return False
        if layer is not None and layer.canvas.log.end:
            show_warning(BUSY.format(shorten_name(kept.name), count_edits(kept)))
            return True
        shown: Any = _made_for(base, kept) if layer is None else layer
        if shown is None or shown.canvas.shape != kept.head.shape:
            there = _size_text(tuple(base.level_shapes[0])[: base.ndim])
            what, where = count_edits(kept), file_of(kept.image or kept.place)
            size = _size_text(kept.head.shape)
            name = shorten_name(kept.name)
            show_warning(UNFIT.format(name, what, size, where, there, where))
            return True
        self._restoring.add(kept.folder)
        order = _level_order(shown.canvas, base.level_shapes[base.data_level])
        window_services.run_work(
            partial(_try_to_open, shown, kept, order[:2]),
            lambda opened: self._take_over(viewer, shown, kept, opened, order[2:]),
        )
        return True

    def _take_over(
        self,
        viewer: ViewerModel,
        shown: Any,
        kept: KeptEdits,
        opened: Any,
        levels: Sequence[int],
    ) -> None:
        """Give a layer the edits of a journal that was opened; show and select it.

        Its edits are not rasterised yet on some levels.
        """
        self._restoring.discard(kept.folder)
        try:
            if isinstance(opened, Exception):
                raise opened
            journal, drawn = opened
            shown.saver.take_over(journal, drawn)
        except (BlockingIOError, FileNotFoundError):
            show_warning(TAKEN.format(kept.name))
            return
        except (OMEZarrError, OSError, ValueError, KeyError, TypeError) as error:
            show_warning(
                f"Not restored: {shorten_name(kept.name)}.\n"
                f"Kept: {count_edits(kept)}. {error}"
            )
            return
        if shown not in viewer.layers:
            viewer.add_layer(shown)
        if journal.content.classes:
            with suppress(ValueError):  # of a newer version
                classes_of_layer(shown).load_json(journal.content.classes)
        shown.visible = True
        viewer.layers.selection.active = shown
        _show_plane(viewer, shown)
        if shown.mode == Mode.PAN_ZOOM:
            shown.take_tool(last_tool())
        show_info(
            f"Restored: {shorten_name(kept.name)}.\n"
            f"{count_edits(kept)}. Press Ctrl+S to save."
        )
        if drawn is not None:
            window_services.run_work(
                partial(_rasterise_levels, drawn, levels),
                lambda _: shown.canvas.take_rasterised(drawn),
            )


def _try_to_open(
    layer: Any, kept: KeptEdits, levels: Sequence[int]
) -> tuple[Journal, Canvas | None] | Exception:
    """Open a journal, and rasterise its edits on some levels."""
    try:
        journal = open_journal(layer.saver, kept.folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return error
    edits = journal.content.edits
    if len(journal.before_images) and any(edit.depends_on_labels for edit in edits):
        return journal, None  # the pixels that they ask for are put back later
    try:
        drawn = layer.canvas.copy_with(edits)
        _rasterise_levels(drawn, levels)
    except (OverflowError, OMEZarrError, OSError):  # shown where they are drawn
        return journal, None
    return journal, drawn


def _show_plane(viewer: ViewerModel, layer: OMEZarrLabels) -> None:
    """Go to the section and the time of the last edit."""
    last = layer.canvas.log.last_edit
    fixed = dict(() if last is None else last.fixed)
    place = layer.data_to_world([fixed.get(axis, 0) for axis in range(layer.ndim)])
    first = viewer.dims.ndim - layer.ndim
    axes = [axis for axis in fixed if first + axis not in viewer.dims.displayed]
    viewer.dims.set_point([first + axis for axis in axes], [place[a] for a in axes])


def _rasterise_levels(drawn: Canvas, levels: Sequence[int]) -> None:
    for number in levels:
        drawn.rasterise_level(number)


def _level_order(canvas: Canvas, shape: Sequence[int]) -> list[int]:
    """List levels: that of a shape, the coarsest (of the thumbnail), and the rest."""
    numbers = [level.number for level in reversed(canvas.levels)]
    shown = [n for n in numbers if canvas.levels[n].shape == tuple(shape)]
    return list(dict.fromkeys([*shown, *numbers]))


def _labels_of(viewer: ViewerModel, kept: KeptEdits) -> Any:
    """Find the layer whose labels are those of a journal; None for none."""
    for layer in viewer.layers:
        saver = getattr(layer, "saver", None)
        place = "" if saver is None else place_text(*saver.journal.place)
        if isinstance(layer, OMEZarrLabels) and place == kept.place != "":
            return layer
    return None


def _image_of(viewer: ViewerModel, kept: KeptEdits) -> Any:
    """Find a layer of the image that the labels of a journal belong to."""
    for layer in viewer.layers:
        origin = layer.metadata.get(KEY)
        if layer._type_string != "image" or not isinstance(origin, LayerOrigin):
            continue
        joined = origin.picture is not None and is_joined(origin.picture)
        if kept.image and not joined and address_text(origin.node) == kept.image:
            return layer
    return None


def _made_for(image: Image, kept: KeptEdits) -> OMEZarrLabels | None:
    """Make new labels like those of a journal; None where none are of their shape."""
    subject = kept.head.subject
    levels = list(range(len(image.level_shapes)))
    # Of older journals the level is not known.
    wanted = [subject.level, *levels] if subject.level in levels else levels
    beside = os.path.dirname(kept.head.store)
    for level in dict.fromkeys(wanted):
        found = []
        for sidecar in (None, False, True, beside):
            made = _new_labels(image, subject.name, level, subject.dtype, sidecar)
            if made is None:
                continue
            if made.canvas.shape != kept.head.shape:
                break
            assert made.saver is not None
            if place_text(*made.saver.journal.place) == kept.place:
                return made
            found.append(made)
        if found:
            return found[0]
    return None


def _new_labels(
    image: Image, name: str, level: int, dtype: str, sidecar: bool | str | None
) -> OMEZarrLabels | None:
    try:
        taken = free_name(image, wish=name)
        return new_labels(
            image, taken, level=level, dtype=dtype or "uint16", sidecar=sidecar
        )
    except (OMEZarrError, OSError, ValueError):
        return None


def position_of(browser: Browser | None, image: str) -> Position | None:
    """Find where a browser shows an image; None where it does not."""
    from napari_ngff.viewer.browsing.positions import Position

    top = "" if browser is None else address_text(browser.node)
    if browser is None or not top or not image.startswith(f"{top}/"):
        return None
    inside = image[len(top) + 1 :]
    if not browser.map.wells:
        return Position(None, inside)
    for well in browser.map.wells:
        if inside.startswith(f"{well.path}/"):
            return Position(well.path, inside[len(well.path) + 1 :])
    return None


def _size_text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
