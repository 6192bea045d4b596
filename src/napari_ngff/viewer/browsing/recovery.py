"""Offers unsaved edits of earlier sessions, and restores them into their labels."""

from __future__ import annotations

import weakref
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_warning

from napari_ngff.labels.journal import INTERVAL, Journal
from napari_ngff.labels.kept_edits import (
    KeptEdits,
    address_text,
    find_kept_edits,
    place_text,
)
from napari_ngff.store.hierarchy.node import Node
from napari_ngff.viewer.annotations.file_annotation import FileAnnotation, StoredFile
from napari_ngff.viewer.annotations.file_journal import (
    KeptFile,
    delete_kept_file,
    find_kept_files,
)
from napari_ngff.viewer.annotations.restored_layers import (
    discard_journal,
    find_image,
    find_labels,
    make_labels,
    open_journal,
    open_saved,
    order_levels,
    place_opened,
    rasterise_levels,
    show_restored,
    size_text,
)
from napari_ngff.viewer.browsing.positions import Position, inline_title
from napari_ngff.viewer.layers.label_owners import TARGET, image_file
from napari_ngff.viewer.painting.brush import PAINTING
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.plans.layer_plan import is_joined, layer_kind, origin_of
from napari_ngff.viewer.private.napari_window import calling_all_listeners, is_in_window
from napari_ngff.viewer.services.notices import (
    BUSY,
    CLOSED,
    LEFT,
    NOTHING_KEPT,
    REMOVED,
    TAKEN,
    UNFIT,
    UNREADABLE,
    count_edits,
    file_of,
    notice_text,
    shorten_name,
)
from napari_ngff.viewer.services.settings import note_tool
from napari_ngff.viewer.services.window import (
    DISCARD,
    RESTORE,
    Signal,
    Window,
    call_guarded,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from napari.layers import Image, Layer

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.viewer.annotations.annotations import Annotations
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.saving.layer_saver import LayerSaver


GONE = "Its image was left meanwhile."

UNKNOWN = "A newer release has kept it: restore it with that one."

LAST_BLOCK = 5.0
"""Seconds in which a save that was stopped can write its last block."""


class EditRecovery:
    """Offers kept edits of the images that a viewer shows.

    Images that are opened together lead to one question, found in a worker. Edits that
    the user leaves undecided are offered when their image is opened or browsed again.

    Parameters
    ----------
    annotations
        Of the viewer where layers are added.
    """

    places_changed = Signal()
    """Emitted when `waiting_places` has changed."""

    def __init__(self, annotations: Annotations) -> None:
        self._annotations, self._viewer = annotations, annotations.viewer
        self._nodes: dict[str, Node] = {}
        self._removed: list[weakref.ref[OMEZarrLabels]] = []
        self._places: set[str] = set()
        self._begun = self._asking = self._requested = False
        self._answered: set[Path] = set()
        self._told: set[str] = set()
        self._waiting: tuple[KeptEdits, ...] = ()
        # To be restored when one comes there: folders of journals, titles of images.
        self._wanted: dict[Path, str] = {}
        self._restoring: set[Path] = set()
        self._restored: list[KeptEdits] = []
        self._browser: Browser | None = None
        self._tool: dict[str, Any] = {}

    @property
    def waiting_places(self) -> tuple[str, ...]:
        """Titles of images whose edits are restored when the user goes there."""
        return tuple(dict.fromkeys(self._wanted.values()))

    def _set_wanted(self, wanted: dict[Path, str]) -> None:
        self._wanted = wanted
        self.places_changed.emit()

    # What is looked for.

    def notice_layer(self, layer: Layer) -> None:
        """Search edits of the image or the labels of a layer that was just added."""
        origin = origin_of(layer)
        if origin is not None:
            # What joins many images is browsed, and looked for as a whole.
            if origin.picture is None or not is_joined(origin.picture):
                self.find_edits([origin.node])
        elif layer.metadata.get(TARGET) is not None and layer.saver is not None:
            self.find_edits([], [place_text(*layer.saver.journal.place)])
        elif layer_kind(layer) == "image":
            self.find_edits([], filter(None, [image_file(layer)]))
        saver = getattr(layer, "saver", None)
        if saver is not None:
            saver.dirty_changed.connect(self._note_tool, unique=True)

    def notice_removed(self, layer: OMEZarrLabels) -> None:
        """Report edits of a layer that is removed without a question.

        As by napari's *Convert to Image*, or by code. They are in its journal.
        """
        name, removed = shorten_name(layer.name), weakref.ref(layer)

        def report_kept() -> None:
            left = removed()
            if not Window.current.can_ask(self._viewer):
                return
            if left is not None and is_in_window(left):
                return  # added again, as when it is moved to another window
            self._removed.append(removed)
            Window.current.show_passing(REMOVED.format(name))

        Window.current.run_after(INTERVAL, report_kept)

    def _list_removed(self) -> list[LayerSaver]:
        """List the savers of removed layers, of which Python may still keep some."""
        removed = [reference() for reference in self._removed]
        self._removed.clear()
        left = [x for x in removed if x is not None and not is_in_window(x)]
        savers = [layer.saver for layer in left if layer.saver is not None]
        for saver in savers:
            saver.keep_journal()
        return savers

    def _note_tool(self, is_dirty: bool) -> None:
        """Save the tool of the first stroke, to be selected when it is restored."""
        layer = self._viewer.layers.selection.active
        if (
            is_dirty
            and isinstance(layer, OMEZarrLabels)
            # A restore makes labels dirty before a tool is selected.
            and layer.mode in PAINTING
            and layer.describe_tool() != self._tool
        ):
            self._tool = layer.describe_tool()
            Window.current.run_work(partial(note_tool, self._tool), lambda _: None)

    def watch_browser(self, browser: Browser) -> None:
        """Search edits of all images of a browser, now and at each new position."""
        if self._browser is not browser:
            self._browser = browser
            self._set_wanted({})  # those of another plate are offered with it again
            browser.position_changed.connect(self._restore_waiting)
        self.find_edits([browser.node])

    def offer_again(self) -> None:
        """Offer the edits of all open images, also those that were left for later."""
        self._requested = True
        for layer in self._viewer.layers:
            self.notice_layer(layer)
        if self._browser is not None:
            self.find_edits([self._browser.node])
        if not self._begun:
            self._offer_edits([])

    def find_edits(self, nodes: Iterable[Node], places: Iterable[str] = ()) -> None:
        """Search edits of groups, together with all others that are added by then."""
        # Without a window no one could answer: the edits stay in their journals.
        if not Window.current.can_ask(self._viewer):
            return
        self._nodes |= {str(node): node for node in nodes}
        self._places |= set(places)
        if not self._begun and not self._asking and (self._nodes or self._places):
            self._begun = True
            # By way of a worker, so that all layers of one file have been added when
            # the search starts.
            Window.current.run_work(lambda: None, self._start_search)

    def _start_search(self, _: Any = None) -> None:
        self._begun = False
        nodes, places = tuple(self._nodes.values()), tuple(self._places)
        self._nodes, self._places = {}, set()
        # Edits of the last question are left out once, in the search that follows it.
        answered, self._answered = self._answered, set()
        unreadable: list[str] = []

        def offer_found(found: list[KeptEdits]) -> None:
            told = set() if self._requested else self._told
            new = [text for text in unreadable if text not in told]
            self._told.update(new)
            if new:
                show_warning(notice_text(new, UNREADABLE))
                self._requested = False
            self._offer_edits([x for x in found if x.folder not in answered])

        Window.current.run_work(
            partial(_find_edits, self._list_removed(), nodes, places, unreadable),
            offer_found,
        )

    def _offer_edits(self, offered: Sequence[KeptEdits]) -> None:
        if self._asking:
            return
        requested, self._requested = self._requested, False
        if requested and not offered:
            Window.current.show_passing(NOTHING_KEPT)
        for kept in [kept for kept in offered if kept.folder in self._wanted]:
            # The user chose to restore these earlier, when another image was on screen:
            # no second question.
            if self._restore_edits(kept):
                self._set_wanted(
                    {k: v for k, v in self._wanted.items() if k != kept.folder}
                )
        offered = [kept for kept in offered if kept.folder not in self._wanted]
        offered = [kept for kept in offered if kept.folder not in self._restoring]
        if not offered:
            return
        self._asking = True
        try:
            # A dialog with an event loop of its own: layers may be added while it is
            # open.
            answer, chosen = Window.current.offer_edits(self._viewer, offered)
        finally:
            self._asking = False
        # What was opened meanwhile is of the same opening: no second question for it.
        again = bool(self._nodes or self._places)
        self._answered = {kept.folder for kept in offered} if again else set()
        if answer == RESTORE:
            self.restore_edits(chosen)
        elif answer == DISCARD:
            for kept in chosen:
                self._discard_edits(kept)
        else:
            name = shorten_name(offered[0].name)
            more = f" and {len(offered) - 1} more" if len(offered) > 1 else ""
            text = LEFT.format(name, f"{count_edits(offered[0])}{more}")
            Window.current.show_passing(text)
        self.find_edits([])

    def _discard_edits(self, kept: KeptEdits) -> None:
        try:
            if isinstance(kept, KeptFile):
                delete_kept_file(kept.folder)
                return
            layer = find_labels(self._viewer, kept.place)
            discard_journal(kept.folder, None if layer is None else layer.saver)
        # Another process holds or has restored them since they were found.
        except (BlockingIOError, FileNotFoundError):
            show_warning(TAKEN.format(kept.name))

    # Putting edits back.

    def restore_edits(self, chosen: Sequence[KeptEdits]) -> None:
        """Restore edits into their labels, which are made visible and selected.

        If their image is one of a browser's, it is shown first; of several images the
        first one, and the others when the user goes there.
        """
        browser = self._browser
        elsewhere = [kept for kept in chosen if not self._restore_edits(kept)]
        places = [(kept, position_of(browser, kept.image)) for kept in elsewhere]
        for kept in [kept for kept, position in places if position is None]:
            where = file_of(kept.image or kept.place)
            show_warning(
                CLOSED.format(shorten_name(kept.name), count_edits(kept), where)
            )
        reached = [(kept, field) for kept, field in places if field is not None]
        if browser is None or not reached:
            return
        # One position can be shown at a time: that of the first edits.
        first, position = reached[0]
        self._waiting = tuple(kept for kept, field in reached if field == position)
        others = len({kept.image for kept, _ in reached}) - 1
        self._set_wanted(
            {
                kept.folder: inline_title(browser.name_field(field))
                for kept, field in reached
                if field != position
            }
        )
        if others:
            titles = self.waiting_places
            more = titles[0] if others == 1 else f"{others} other images"
            Window.current.show_passing(
                f"Restoring {shorten_name(first.name)}.\n"
                f"It is in {file_of(first.image)}."
                f" Edits of {more} are restored when you go there."
            )
        browser.show_field(position.well, position.field)

    def _restore_waiting(self, position: Position | None) -> None:
        """Restore edits that wait for the image on screen, and offer its other ones."""
        browser = self._browser
        waiting, self._waiting = self._waiting, ()
        if browser is None or position is None:
            return
        for kept in waiting:
            self._restore_edits(kept)
        self._answered |= {kept.folder for kept in waiting}
        for layer in self._viewer.layers:
            if browser.layers.owns_layer(layer):
                self.notice_layer(layer)

    def _restore_edits(self, kept: KeptEdits) -> bool:
        """Restore edits if their labels or image are on screen.

        Returns whether they are. If restoring fails, the reason is shown.
        """
        image = find_image(self._viewer, kept.image)
        if isinstance(kept, KeptFile):
            return self._restore_file(image, kept)
        layer = find_labels(self._viewer, kept.place)
        if layer is not None:
            self._restore_into(layer, layer, kept)
            return True
        if image is None or self._is_beside(kept):
            return False
        self._restoring.add(kept.folder)
        # Their layer may have been removed: they are still in the file then.
        Window.current.run_work(
            partial(open_saved, origin_of(image), kept.place),
            partial(self._restore_opened, kept),
            partial(self._report_failure, kept),
        )
        return True

    def _is_beside(self, kept: KeptEdits) -> bool:
        """Return whether the field is only seen beside that which was asked for."""
        browser = self._browser
        place, shown = position_of(browser, kept.image), browser and browser.position
        return bool(
            place and shown and place != replace(shown, acquisition=place.acquisition)
        )

    def _restore_file(self, image: Image | None, kept: KeptFile) -> bool:
        """Restore an annotation that has a file of its own; a worker parses it.

        Returns whether its image is on screen, or need not be.
        """
        known = (x for x in self._annotations.kinds if issubclass(x, FileAnnotation))
        kind = {x.__name__: x for x in known}.get(kept.kind)
        place, browser = position_of(self._browser, kept.image), self._browser
        if image is None and not (kind and kind.goes_aside and place):
            return False
        if kind is None or kept.content is None:
            self._report_failure(kept, ValueError(UNKNOWN))
            return True
        self._restoring.add(kept.folder)
        Window.current.run_work(
            partial(_read_kept, kind, kept, image or (browser and browser.node)),
            partial(self._restore_parsed, kind, kept),
            partial(self._report_failure, kept),
        )
        return True

    def _restore_parsed(
        self, kind: type[FileAnnotation], kept: KeptFile, read: tuple[Any, ...]
    ) -> None:
        self._restoring.discard(kept.folder)
        node, content, files = read
        image = find_image(self._viewer, kept.image) or node
        if image is None:
            self._report_failure(kept, ValueError(GONE))
            return
        try:
            kind.restore(self._annotations, image, kept, content)
            kind.open_files(self._annotations, image, files)
        except (BlockingIOError, FileNotFoundError):
            show_warning(TAKEN.format(kept.name))
        except Exception as error:  # noqa: BLE001  whatever the text makes of it
            self._report_failure(kept, error)
        else:
            self._report_restored(kept)

    def _report_restored(self, *kept: KeptEdits) -> None:
        """Tell at once what was restored, when nothing more is being restored."""
        self._restored += kept
        if self._restoring or not self._restored:
            return
        (first, *others), self._restored = self._restored, []
        more = f" and {len(others)} more" if others else ""
        Window.current.show_passing(
            f"Restored: {shorten_name(first.name)}.\n"
            f"{count_edits(first)}{more}. Press Ctrl+S to save."
        )

    def _is_left(self, kept: KeptEdits) -> bool:
        """Return whether another image is shown since edits were to be restored."""
        if find_labels(self._viewer, kept.place) is not None:
            return False
        return find_image(self._viewer, kept.image) is None or self._is_beside(kept)

    def _restore_opened(self, kept: KeptEdits, opened: Any) -> None:
        """Restore edits into labels that were read from the file, or into new ones."""
        self._restoring.discard(kept.folder)
        image = find_image(self._viewer, kept.image)
        if image is None or self._is_left(kept):
            opened = ValueError(GONE)
        if isinstance(opened, Exception):
            self._report_failure(kept, opened)
            return
        # Opened by the user in the meantime.
        layer = find_labels(self._viewer, kept.place)
        if layer is None and opened is not None:
            layer = place_opened(opened, image)
        target = make_labels(image, kept) if layer is None else layer
        self._restore_into(target, image, kept)

    def _restore_into(self, target: Any, base: Any, kept: KeptEdits) -> None:
        """Restore edits into a layer; None is one that no level of `base` fits."""
        # Over other edits there are no original blocks to put these on.
        if target is not None and target.canvas.log.end and kept.needs_originals:
            show_warning(BUSY.format(shorten_name(kept.name), count_edits(kept)))
            return
        if target is None or target.canvas.shape != kept.head.shape:
            image_size = size_text(tuple(base.level_shapes[0])[: base.ndim])
            what, where = count_edits(kept), file_of(kept.image or kept.place)
            size = size_text(kept.head.shape)
            name = shorten_name(kept.name)
            show_warning(UNFIT.format(name, what, size, where, image_size, where))
            return
        self._restoring.add(kept.folder)
        # The two levels that the window draws first; the others follow in a worker.
        order = order_levels(target.canvas, base.level_shapes[base.data_level])
        Window.current.run_work(
            partial(_try_to_open, target, kept, order[:2]),
            lambda opened: self._take_over(target, kept, opened, order[2:]),
            partial(self._report_failure, kept),
        )

    def _take_over(
        self,
        target: Any,
        kept: KeptEdits,
        opened: Any,
        levels: Sequence[int],
    ) -> None:
        """Give a layer the edits of an opened journal; show and select the layer.

        Parameters
        ----------
        opened
            As `_try_to_open` returns it.
        levels
            Levels on which the edits are not rasterised yet.
        """
        self._restoring.discard(kept.folder)
        if isinstance(opened, Exception):
            show_warning(TAKEN.format(kept.name))
            return
        journal, drawn = opened
        if self._is_left(kept):
            journal.close()
            self._report_failure(kept, ValueError(GONE))
            return
        try:
            with calling_all_listeners(call_guarded):
                target.saver.take_over(journal, drawn)
        except Exception as error:  # noqa: BLE001
            if journal is not target.saver.journal:
                journal.close()  # else the next try could not open it
            self._report_failure(kept, error)
            return
        show_restored(self._viewer, target, journal.content.classes)
        self._report_restored(kept)
        if drawn is not None:
            Window.current.run_work(
                partial(rasterise_levels, drawn, levels),
                lambda _: target.canvas.take_rasterised(drawn),
            )

    def _report_failure(self, kept: KeptEdits, error: Exception) -> None:
        self._restoring.discard(kept.folder)
        show_warning(
            f"Not restored: {shorten_name(kept.name)}.\n"
            f"Kept: {count_edits(kept)}. {error}"
        )
        self._report_restored()


def _find_edits(
    removed: Sequence[LayerSaver],
    nodes: Sequence[Node],
    places: Sequence[str],
    unreadable: list[str],
) -> list[KeptEdits]:
    """Find kept edits, also those of layers that were removed; in a worker."""
    for saver in removed:
        saver.wait_until_kept(LAST_BLOCK)
    tops = {*map(address_text, nodes), *places} - {""}
    found = find_kept_edits(nodes, places, unreadable)
    return [*found, *find_kept_files(tops, unreadable)]


def _read_kept(
    kind: type[FileAnnotation], kept: KeptFile, image: Any
) -> tuple[Node | None, Any, Sequence[StoredFile]]:
    """Parse what a journal has, in a worker.

    Parameters
    ----------
    image
        A layer of the image; or what is browsed, where the image is not on screen: it
        is returned then, with what its files have.
    """
    assert kept.content is not None
    if not isinstance(image, Node):
        return None, kind.parser(image)(kept.content.text), ()
    node = image.child(kept.image.removeprefix(address_text(image)).strip("/"))
    parse = kind.parser(node)
    return node, parse(kept.content.text), kind.read_parsed(node, parse)


def _try_to_open(
    layer: Any, kept: KeptEdits, levels: Sequence[int]
) -> tuple[Journal, Canvas | None] | Exception:
    """Open a journal, and rasterise its edits on some levels; in a worker."""
    try:
        journal = open_journal(layer.saver, kept.folder)
    except (BlockingIOError, FileNotFoundError) as error:
        return error
    with suppress(Exception):  # shown where they are drawn
        content, edits = journal.content, journal.content.edits_to_restore
        # Such edits look at the labels below, which a partial save has changed in the
        # file already: the pixels that they ask for are put back later.
        looks = any(edit.depends_on_labels for edit in edits)
        if not (content.needs_originals and looks):
            drawn = layer.canvas.copy_with(edits)
            rasterise_levels(drawn, levels)
            return journal, drawn
    return journal, None


def position_of(browser: Browser | None, image: str) -> Position | None:
    """Return the position of an image in a browser; None where it is not in it."""
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
