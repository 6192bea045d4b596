"""Annotations that are one small file each beside their image, such as points."""

from __future__ import annotations

import copy as copying
import os
import re
import shutil
import weakref
from abc import abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from typing_extensions import override

from napari_ngff.errors import ConflictError, OMEZarrError, error_text
from napari_ngff.labels.journal import INTERVAL, LOCK
from napari_ngff.labels.kept_edits import address_text
from napari_ngff.labels.places.label_location import name_problem
from napari_ngff.labels.places.sidecar import choose_folder, folders_of
from napari_ngff.store.hierarchy.node import Node
from napari_ngff.store.sources.blob import Revision
from napari_ngff.store.write.file_lock import hold_if_possible, take_turn
from napari_ngff.store.write.replace_file import remove_file, replace_file
from napari_ngff.viewer.annotations.annotations import (
    Annotation,
    Annotations,
    AnnotationState,
    CopiedPart,
    ImageCopy,
)
from napari_ngff.viewer.annotations.file_journal import (
    FileJournal,
    KeptContent,
    KeptFile,
)
from napari_ngff.viewer.plans.layer_plan import is_joined, layer_kind, origin_of
from napari_ngff.viewer.services.notices import count_noun, last_part, shorten_name
from napari_ngff.viewer.services.window import Signal, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from psygnal import SignalInstance


NO_FILE_NAME = re.compile(r'[%/\\:*?"<>|\x00-\x1f]')
"""Characters that no file can have in its name on some system; they are quoted as in
an address, and "%" is, too."""

StoredFile = tuple[str, Any, "Revision | None"]
"""Path of a file, its bytes or what was parsed of them, and its revision."""

OlderFile = tuple[str, "Revision | None"]
"""Path of a file and its revision; "" and None where there is none."""


def image_node(layer: Any) -> Node | None:
    """Return the image that a layer shows a channel of; None for any other layer.

    It may be the image itself, which need not be on screen.
    """
    if isinstance(layer, Node):
        return layer
    origin = origin_of(layer)
    if origin is None or origin.picture is None or layer_kind(layer) != "image":
        return None
    view = origin.picture.view
    # An overview joins many images; the pixels of a bent one are those of no file.
    if is_joined(origin.picture) or origin.is_compared or (view and view.bent):
        return None
    return origin.node


def find_image_shown(owner: Annotations) -> Any:
    """Find the image that is drawn on: the one that is selected, or the topmost.

    Returns
    -------
    Layer or None
        A layer of it.
    """
    layers = [x for x in owner.viewer.layers if x.visible]
    images = [layer for layer in layers if image_node(layer) is not None]
    selected = owner.selected_before
    return selected if selected in images else next(reversed(images), None)


class FileAnnotation(Annotation):
    """An annotation with a file of its own; a subclass says what is in the file.

    It calls `note_change` when the user has changed something.

    Attributes
    ----------
    folder_ending, file_ending
        Of the folder beside the image, and of the file in it.
    noun
        What is counted, such as "point".
    keeps_empty
        Whether the file stays where nothing is counted.
    is_aside
        Whether it was begun while its image was not on screen: it stays unsaved until
        it is saved, whatever is shown.
    goes_aside
        Whether it can be restored while its image is not on screen.
    """

    folder_ending: ClassVar[str]
    file_ending: ClassVar[str]
    noun: ClassVar[str]
    keeps_empty = is_aside = goes_aside = False

    done = Signal()
    """Emitted when a save has ended."""

    def __init__(self, owner: Annotations, node: Node, layer: Any = None) -> None:
        super().__init__(owner, layer)
        self.node = node
        self._path = ""
        self._revision: Revision | None = None
        self._changes = self._saved_changes = 0
        self._running = self._restored = self._waiting = self._again = False
        self._failure = ""
        self._journal = _new_journal(self)

    # What a subclass has to say.

    @abstractmethod
    def count(self) -> int:
        """Return how many things there are; a file of none is deleted."""

    @abstractmethod
    def take_content(self) -> Callable[[], str]:
        """Return a function that a worker calls for what the file is to be."""

    @classmethod
    def parser(cls, image: Any) -> Callable[[str], Any]:
        """Return a function that a worker calls for what `make` gets of a file.

        Parameters
        ----------
        image
            A layer of the image.
        """
        return str

    @classmethod
    @abstractmethod
    def make(cls, owner: Annotations, image: Any, name: str, content: Any) -> Any:
        """Make the annotation of an image of which there is a file.

        Parameters
        ----------
        image
            A layer of the image.
        content
            What `parser` made of the text of the file.
        """

    # Reading.

    @classmethod
    @override
    def attach(cls, owner: Annotations, layer: Any) -> None:
        node, reference = image_node(layer), weakref.ref(layer)
        if node is None or not all(x.is_aside for x in cls.of_image(owner, node)):
            return
        # One channel reads for all of them.
        layers, address = owner.viewer.layers, str(node)
        if layer is not next(x for x in layers if str(image_node(x)) == address):
            return

        def show_files(files: Sequence[StoredFile]) -> None:
            image = reference()
            # Another field may be on screen, or another channel was faster.
            if image is None or image_node(image) is not node:
                return
            cls.open_files(owner, image, files)

        if folders_of(node, cls.folder_ending):
            read = partial(cls.read_parsed, node, cls.parser(layer))
            Window.current.run_work(read, show_files)

    @classmethod
    def read_parsed(cls, node: Node, parse: Callable[[str], Any]) -> list[StoredFile]:
        """Read and parse the files of an image, in a worker; an error is content."""
        found = []
        for path, data, revision in cls.read_stored(node):
            try:
                content = parse(data.decode()) if isinstance(data, bytes) else data
            except (ValueError, KeyError) as error:
                content = error
            found.append((path, content, revision))
        return found

    @classmethod
    def open_files(
        cls, owner: Annotations, image: Any, files: Sequence[StoredFile]
    ) -> None:
        """Show what files have, but for those that were restored meanwhile."""
        node = image_node(image)
        begun = [] if node is None else [x._path for x in cls.of_image(owner, node)]
        for file in files:
            if file[0] not in begun:
                cls._open_file(owner, image, file)

    @classmethod
    def read_stored(cls, node: Node) -> list[StoredFile]:
        """Read the files of an image, in a worker."""
        return _read_files(folders_of(node, cls.folder_ending), cls.file_ending)

    @classmethod
    def of_image(cls, owner: Annotations, node: Node) -> list[Any]:
        """List the annotations of this kind that an image has in a viewer."""
        address = str(node)
        return [x for x in owner if type(x) is cls and str(x.node) == address]

    @classmethod
    def _open_file(cls, owner: Annotations, image: Any, file: StoredFile) -> Any:
        path, content, revision = file
        name = unquote(os.path.basename(path).removesuffix(cls.file_ending))
        try:
            if isinstance(content, Exception):
                raise content
            made = cls.make(owner, image, name, content)
        except (ValueError, KeyError) as error:
            report_unreadable(path, error)
            return None
        made.note_file((path, revision))
        return made

    @classmethod
    def restore(
        cls, owner: Annotations, image: Any, kept: KeptFile, content: Any
    ) -> None:
        """Show what a process that ended has left, as unsaved.

        Parameters
        ----------
        image
            A layer of the image.
        kept
            A journal of this kind.
        content
            What `parser` made of its text.
        """
        head, node = kept.content, image_node(image)
        assert head is not None
        with hold_if_possible(kept.folder / LOCK):
            for shown in () if node is None else cls.of_image(owner, node):
                # An image has one of each name without a layer.
                is_it = shown.layer is None and shown.name == head.name
                if is_it or shown._path == head.path != "":
                    shown.remove_shown()
            made = cls.make(owner, image, head.name, content)
            # Of before the crash: what others saved since is a conflict of the next
            # save.
            made._path = head.path if head.revision else ""
            size, stamp, number = head.revision or (0, 0, 0)
            made._revision = Revision(size, stamp, number) if head.revision else None
            made._restored = True
            made.note_change()
            if made.may_keep():
                shutil.rmtree(kept.folder, ignore_errors=True)

    # Changes.

    @property
    @override
    def image(self) -> str:
        title = "" if self.layer is None else self.owner.title_of(self.layer)
        return title or last_part(address_text(self.node))

    @property
    @override
    def state(self) -> AnnotationState:
        # Unsaved after a change, unless there is nothing and there was no file.
        is_changed = self._changes != self._saved_changes
        return AnnotationState(
            is_changed and bool(self._path or self.count()),
            self._running,
            restored=self._restored,
            subject=self.node,
            version=self._changes,
        )

    def note_change(self, _: Any = None) -> None:
        """Note a change by the user; the journal has it half a second later."""
        self._changes += 1
        if self._journal.is_closed:
            self._journal = _new_journal(self)
        self._journal.wanted = True
        self.owner.note_change()
        if not self._waiting:
            self._waiting = True
            Window.current.run_after(INTERVAL, self._keep_soon)

    def _keep_soon(self) -> None:
        self._waiting = False
        if self.unsaved and not self._journal.is_closed:
            work = partial(self._write_kept, self._journal, self._take_kept())
            Window.current.run_work(work, lambda _: None, self._report_not_kept)

    def _write_kept(
        self, journal: FileJournal, make: Callable[[], KeptContent]
    ) -> None:
        if self._changes != self._saved_changes:  # else it was saved meanwhile
            journal.write(make())

    def _report_not_kept(self, error: Exception) -> None:
        text = f"Not kept for later: {self.name}.\n{error_text(error)}"
        Window.current.notify(text)

    def _take_kept(self) -> Callable[[], KeptContent]:
        """Return a function that makes what the journal is to have."""
        revision = tuple(self._revision.numbers) if self._revision else ()
        place = self._path
        kind, count, encode = type(self).__name__, self.count(), self.take_content()
        image, name, noun = address_text(self.node), self.name, self.noun
        return lambda: KeptContent(
            kind, name, image, place, revision, count, noun, encode()
        )

    @override
    def may_keep(self) -> bool:
        try:
            self._journal.write(self._take_kept()())
        except (OSError, ValueError) as error:
            self._report_not_kept(error)
            return False
        return True

    @override
    def plan_leave(self, *, keep: bool) -> None:
        self._journal.wanted = keep

    @override
    def leave(self, *, keep: bool) -> None:
        self.note_unchanged()
        self._journal.wanted = keep
        self._journal.close()

    def note_removed(self) -> None:
        """Close the journal of a layer that was removed without a question."""
        if self.unsaved and self._journal.wanted:
            self.may_keep()
        self._journal.close()

    @override
    def note_written(self) -> None:
        self.note_unchanged()
        self._journal.clear()

    def note_file(self, file: OlderFile) -> None:
        """Note which file has it, as it was read or written."""
        self._path, self._revision = file

    def note_unchanged(self) -> None:
        """Note that a file has it as it is now."""
        self._saved_changes = self._changes

    def list_channels(self) -> list[Any]:
        """List the layers that show its image."""
        address, layers = str(self.node), self.owner.viewer.layers
        return [layer for layer in layers if str(image_node(layer)) == address]

    @override
    def goes_with(self, layers: Iterable[Any]) -> bool:
        if self.layer is not None:
            return super().goes_with(layers)
        # With the last channel of its image.
        channels, leaving = self.list_channels(), list(layers)
        return bool(channels) and all(layer in leaving for layer in channels)

    @override
    def follow_field(self) -> None:
        # What was left is in its journal, also if the same field is shown again.
        stays = self.list_channels() or (self.is_aside and self.unsaved)
        if self._journal.is_closed or not stays:
            self.remove_shown()

    def remove_shown(self) -> None:
        """Remove the layer; what has none is followed no longer."""
        layers, layer = self.owner.viewer.layers, self.layer
        if layer is None:
            self.owner.remove(self)
            self.note_removed()
        elif layer in layers:
            layers.remove(layer)

    # Saving.

    @property
    @override
    def ended(self) -> Sequence[SignalInstance]:
        return (self.done,)

    def find_target(self) -> str:
        """Return the file for the present name: where it was read, if that goes.

        Raises
        ------
        ValueError
            Where no file can have the name.
        OMEZarrError
            Where there is no place for the file.
        """
        name = self._name_file()
        # First the one where it was read, unless that is in the image.
        read = Path(self._path).parent
        return str(choose_folder(self.node, self.folder_ending, read) / name)

    def _name_file(self) -> str:
        stem = NO_FILE_NAME.sub(lambda found: f"%{ord(found[0]):02X}", self.name)
        problem = name_problem(stem)
        if problem:
            raise ValueError(f"{problem} Rename the layer.")
        return f"{stem}{self.file_ending}"

    @override
    def plan_copy(self, copy: ImageCopy) -> CopiedPart | str | None:
        if not self.count():
            return None
        if str(self.node) != str(copy.node) or not copy.axes:
            return "the new file has not its image, or other axes"
        twin = copying.copy(self)
        twin.follow_copy(copy)
        name, encode = self._name_file(), twin.take_content()
        return CopiedPart(
            f"{self.noun}s '{self.name}'",
            lambda _: {name: encode().encode()},
            beside=self.folder_ending,
            layer=self.layer,
        )

    def follow_copy(self, copy: ImageCopy) -> None:
        """Have coordinates from now on that are those in a copy of the image."""

    def write_stored(
        self, path: str, encode: Callable[[], str], older: OlderFile
    ) -> OlderFile:
        """Write what a file is to be, in a worker; see `write_file`."""
        return write_file(path, encode, older)

    @override
    def save(self, *, quiet: bool = False) -> None:
        # Changes that were made since it began are saved next.
        self._again = self._running
        if self._running or not self.unsaved:
            return
        self._running, changes, count = True, self._changes, self.count()
        older = self._path, self._revision

        def finish(file: OlderFile) -> None:
            self.note_file(file)
            self._saved_changes, self._restored, self._failure = changes, False, ""
            if not self.unsaved:
                self._journal.clear()
            self._end_save([] if quiet else [(count, file[0])])
            if self._again:
                self.save(quiet=quiet)

        def fail(error: Exception) -> None:
            text = f"Not saved: {shorten_name(self.name)}.\n{error_text(error)}"
            is_known, self._failure = self._failure == text, text
            if not (quiet and is_known):
                Window.current.notify(text)
            self._end_save([])

        try:
            keeps = count or self.keeps_empty
            encode = self.take_content() if keeps else lambda: ""
            write = partial(self.write_stored, self.find_target(), encode, older)
        except (ValueError, OMEZarrError) as error:
            fail(error)
        else:
            Window.current.run_work(write, finish, fail)

    def _end_save(self, saved: Sequence[tuple[int, str]]) -> None:
        """Tell what was saved, in one sentence for all that have this name."""
        self._running, key = False, (type(self), self.name)
        files = [*self.owner.saved_files.pop(key, ()), *saved]
        if any(x.running for x in self.owner if (type(x), x.name) == key):
            self.owner.saved_files[key] = files
        elif files:
            counts, paths = zip(*files, strict=True)
            number, what = len({*paths}), "field" if self.owner.browsed else "image"
            place = paths[0] if number == 1 else count_noun(number, what)
            content = f"{count_noun(sum(counts), self.noun)} in {place}."
            text = f"Saved: {shorten_name(self.name)}.\n{content}"
            Window.current.show_passing(text)
        self.owner.note_change()
        self.done.emit()


def report_unreadable(path: str, error: Exception) -> None:
    """Show that a file of an annotation cannot be read."""
    text = f"{path}: {error_text(error)}"
    short = f"Not readable: {shorten_name(last_part(path))}"
    Window.current.show_messages((text,), short)


def _new_journal(annotation: FileAnnotation) -> FileJournal:
    journal = FileJournal()
    # Also at the end of the process, and where the layer was dropped by a script.
    weakref.finalize(annotation, journal.close)
    return journal


def _read_files(folders: Sequence[Path], ending: str) -> list[StoredFile]:
    """Read the files of an image; of one name, that in the user's data."""
    found: dict[str, StoredFile] = {}
    for folder in folders:
        for path in sorted(folder.glob(f"*{ending}")):
            revision = Revision.of_file(str(path))
            found[path.name] = str(path), path.read_bytes(), revision
    return list(found.values())


def write_file(path: str, encode: Callable[[], str], older: OlderFile) -> OlderFile:
    """Replace or delete a file, if it is as it was; in a worker.

    Parameters
    ----------
    encode
        Gives the text of the file; "" for no file.
    older
        File and revision that were read or written last. Of another name, it is
        deleted.

    Raises
    ------
    ConflictError
        Where another program has changed the file, or made one of that name.
    OSError
        Where it cannot be written.
    """
    before = older[1] if older[0] == path else None
    data, folder = encode().encode(), os.path.dirname(path)
    if data:
        os.makedirs(folder, exist_ok=True)
    # Where folders cannot be locked, a file that is refused is there for a moment.
    with take_turn(folder):
        is_written = Revision.of_file(path) == before
        if is_written and data:
            is_written = replace_file(path, data, before)
        elif is_written and before is not None:
            remove_file(path)
    # Whoever replaces it at this very moment is asked about by the next save.
    after = Revision.of_file(path)
    if not is_written or (after and Path(path).read_bytes() != data):
        msg = f"Another window or program has changed {path}."
        remedy = "Rename the layer to save it beside, or open the image again."
        if before is None:
            msg, remedy = f"There is {path} already.", "Rename the layer."
        raise ConflictError(msg, remedy=remedy)
    if older[0] and before is None and Revision.of_file(older[0]) == older[1]:
        remove_file(older[0])  # of the name before
    return path if data else "", after
