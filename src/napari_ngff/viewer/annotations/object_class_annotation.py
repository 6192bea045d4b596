"""Classes of the objects of a label image, as an annotation of its image.

They are in a table of the image, see `object_class_table`. Where the image cannot be
written, ``cells.ome.zarr`` has ``cells.classes/NAME.json`` beside it, or in the user's
data.
"""

from __future__ import annotations

import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from typing_extensions import override

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.labels.object_classes import (
    ClassChanges,
    ObjectClass,
    ObjectClasses,
)
from napari_ngff.store.hierarchy.location import CLASSES_END
from napari_ngff.viewer.annotations.annotations import CopiedPart
from napari_ngff.viewer.annotations.file_annotation import (
    FileAnnotation,
    OlderFile,
    StoredFile,
    image_node,
)
from napari_ngff.viewer.annotations.object_class_table import (
    dump_copied_classes,
    is_writable,
    list_class_tables,
    read_class_table,
    write_classes,
)
from napari_ngff.viewer.layers.label_owners import image_address, place_of_labels
from napari_ngff.viewer.painting.canvas_labels import CanvasLabels
from napari_ngff.viewer.services.notices import last_part, shorten_name
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations, ImageCopy
    from napari_ngff.viewer.annotations.file_journal import KeptFile

NO_CLASS = (0.55, 0.55, 0.55, 1.0)
"""Colour of objects without a class, while others have that of their class."""

NO_IMAGE = "Show the image or the field of these labels first: classes belong to it."

_in_use: weakref.WeakKeyDictionary[Annotations, tuple[ObjectClass, ...]] = (
    weakref.WeakKeyDictionary()
)
"""The classes that were used last: a number key means the same in the next field."""


class ObjectClassAnnotation(FileAnnotation):
    """The classes of the objects of one label image.

    Attributes
    ----------
    labels
        Name of the label image.
    classes
        The classes, and which object has which.
    """

    folder_ending, file_ending, noun = CLASSES_END, ".json", "object"

    keeps_empty = True

    def __init__(self, owner: Annotations, node: Node, labels: str) -> None:
        super().__init__(owner, node)
        self.labels, self._top = labels, f"{node}/tables/"
        self.classes = ObjectClasses(_in_use.get(owner, ()))
        # Label of an object -> number of its last change.
        self._changed: dict[int, int] = {}
        self._undo: list[tuple[int, str]] = []
        # Name that a class had -> number of that change.
        self._older: dict[str, int] = {}
        # What the image has since the last save.
        self._written: ObjectClasses | None = None
        self.done.connect(self._show_written)

    @property
    @override
    def name(self) -> str:
        return self.labels

    @property
    @override
    def title(self) -> str:
        return f"classes of '{self.labels}' of {self.image}"

    # Changes.

    def add_class(self, name: str) -> None:
        """Add a class; it is saved with the first object that has it.

        Raises
        ------
        ValueError
            Where the name is empty or there is such a class.
        """
        self.classes = self.classes.with_class(name)
        self._note_classes()

    def rename_class(self, name: str, new_name: str) -> None:
        """Give a class another name, for all its objects.

        Raises
        ------
        ValueError
            Where the new name is empty or another class has it.
        """
        before, number = self.classes, self._changes + 1
        self.classes = before.with_name(name, new_name)
        renamed = [label for label, x in before.class_of.items() if x == name]
        self._changed |= dict.fromkeys(renamed, number)
        self._older[name] = number
        self._undo = [(n, new_name if x == name else x) for n, x in self._undo]
        self._note_classes()

    def classify(self, label: int, name: str) -> None:
        """Give an object a class; "" for none."""
        self._undo.append((label, self.classes.class_of.get(label, "")))
        self._change_object(label, name)

    @property
    def can_undo(self) -> bool:
        """Whether an object got a class here that can be taken back."""
        return bool(self._undo)

    def undo(self) -> tuple[int, str]:
        """Take the last class back that an object got.

        Returns
        -------
        label, name
            Of the object, and of the class that it has again; "" for none.
        """
        label, name = self._undo.pop()
        self._change_object(label, name)
        return label, name

    def _change_object(self, label: int, name: str) -> None:
        self.classes = self.classes.with_object(label, name)
        # First: whoever is told asks at once what is unsaved.
        self._changed[label] = self._changes + 1
        self._note_classes()

    def _note_classes(self) -> None:
        _in_use[self.owner] = self.classes.classes
        self.note_change()

    # The file.

    @override
    def count(self) -> int:
        return len(self._list_changed())

    def _list_changed(self) -> dict[int, str]:
        """List the objects whose class no file has."""
        class_of, saved = self.classes.class_of, self._saved_changes
        changed = [x for x, number in self._changed.items() if number > saved]
        return {label: class_of.get(label, "") for label in changed}

    @override
    def take_content(self) -> Callable[[], str]:
        objects = self._list_changed()
        if not self._path.startswith(self._top):
            objects |= self.classes.class_of  # no table has any of them
        return self._describe(objects).dump_text

    def _describe(self, objects: dict[int, str]) -> ClassChanges:
        """Describe the changes that no file has, with the classes of objects."""
        saved = self._saved_changes
        older = (name for name, number in self._older.items() if number > saved)
        return ClassChanges(self.labels, self.classes.classes, objects, tuple(older))

    def _take_stored(self, stored: ObjectClasses) -> None:
        """Show what a file has, but for what was changed since."""
        self.classes = self._describe(self._list_changed()).merge_into(stored)
        self.owner.note_change()

    def _show_written(self) -> None:
        written, self._written = self._written, None
        if written is not None:
            self._take_stored(written)

    @classmethod
    @override
    def attach(cls, owner: Annotations, layer: Any) -> None:
        super().attach(owner, layer)
        if isinstance(layer, CanvasLabels):
            used, reference = layer.canvas.used, weakref.ref(layer)
            used.highest_classified = partial(_find_highest, owner, reference)

    @classmethod
    @override
    def open_files(
        cls, owner: Annotations, image: Any, files: Sequence[StoredFile]
    ) -> None:
        node = image_node(image)
        begun = {} if node is None else {x.name: x for x in cls.of_image(owner, node)}
        for file in files:
            made = cls._open_file(owner, image, file)
            if made is None:
                continue
            made._changed.clear()
            # An object got its class before the file was read.
            older = begun.get(made.name)
            if older is not None:
                owner.remove(made)
                older._take_stored(made.classes)

    @classmethod
    @override
    def parser(cls, image: Any) -> Callable[[str], ClassChanges]:
        return ClassChanges.parse_text

    @classmethod
    @override
    def make(
        cls, owner: Annotations, image: Any, name: str, content: ClassChanges
    ) -> Any:
        node = image_node(image)
        assert node is not None
        made = cls(owner, node, content.labels)
        stored = content.merge_into(ObjectClasses())
        made.classes = stored.put_first(made.classes.classes).with_all_named()
        made._changed = dict.fromkeys(content.objects, 1)
        made._older = dict.fromkeys(content.older, 1)
        owner.add(made)
        return made

    @classmethod
    @override
    def restore(
        cls, owner: Annotations, image: Any, kept: KeptFile, content: ClassChanges
    ) -> None:
        node, name = image_node(image), content.labels
        assert node is not None
        shown = cls.of_image(owner, node)
        stored = next((x.classes for x in shown if x.name == name), None)
        super().restore(owner, image, kept, content)
        made = next(x for x in cls.of_image(owner, node) if x.name == name)
        made.classes = content.merge_into(stored or ObjectClasses())

    @classmethod
    @override
    def read_stored(cls, node: Node) -> list[StoredFile]:
        tables, end = {}, cls.file_ending
        for labels, name in list_class_tables(node).items():
            path = f"{node}/tables/{name}"
            try:
                table = read_class_table(node, name)
            except (OMEZarrError, OSError) as error:
                _report_damaged(path, error)
                continue
            classes = table.classes
            text = ClassChanges(labels, classes.classes, classes.class_of)
            tables[labels] = path, text.dump_text().encode(), table.revision
        files = super().read_stored(node)
        beside = {unquote(os.path.basename(x[0]).removesuffix(end)): x for x in files}
        # Those that are saved here count.
        if is_writable(node):
            return [*{**beside, **tables}.values()]
        return [*{**tables, **beside}.values()]

    @override
    def find_target(self) -> str:
        return self._top if is_writable(self.node) else super().find_target()

    @override
    def write_stored(
        self, path: str, encode: Callable[[], str], older: OlderFile
    ) -> OlderFile:
        if path != self._top:
            return super().write_stored(path, encode, older)
        table = write_classes(self.node, ClassChanges.parse_text(encode()))
        self._written = table.classes
        return f"{self._top}{table.name}", table.revision

    @override
    def plan_copy(self, copy: ImageCopy) -> CopiedPart | str | None:
        # Also where the last class was taken away: the table has it still.
        if not (self._path or self.classes.class_of):
            return None
        name = copy.labels.get(self.labels)
        if str(self.node) != str(copy.node) or name is None:
            return "the new file has not their labels and image"
        return CopiedPart(
            f"classes of '{self.labels}'",
            partial(dump_copied_classes, self.node, self.labels, self.classes, name),
        )


def _report_damaged(path: str, error: Exception) -> None:
    text = f"{path}: {error_text(error)}"
    short = f"Not readable: {shorten_name(last_part(path))}"
    show = partial(Window.current.show_messages, (text,), short)
    Window.current.run_in_main(show)


def find_classes(owner: Annotations, layer: Any) -> ObjectClassAnnotation | None:
    """Return the classes of the objects of a layer of labels; None for none yet."""
    address, name = image_address(layer), place_of_labels(layer)[1]
    kept = (x for x in owner if isinstance(x, ObjectClassAnnotation))
    return next((x for x in kept if (str(x.node), x.labels) == (address, name)), None)


def _find_highest(owner: Annotations, reference: Callable[[], Any]) -> int:
    found = find_classes(owner, reference())
    return 0 if found is None else max(found.classes.class_of, default=0)


def known_classes(owner: Annotations, layer: Any) -> ObjectClasses:
    """Return the classes of the objects of a layer, or those that were used last."""
    found = find_classes(owner, layer)
    return ObjectClasses(_in_use.get(owner, ())) if found is None else found.classes


def begin_classes(owner: Annotations, layer: Any) -> ObjectClassAnnotation:
    """Return the classes of the objects of a layer of labels; new ones if need be.

    Raises
    ------
    ValueError
        Where the image of the labels is not on screen.
    """
    found = find_classes(owner, layer)
    if found is not None:
        return found
    nodes = (image_node(each) for each in owner.viewer.layers)
    address = image_address(layer)
    node = next((x for x in nodes if x is not None and str(x) == address), None)
    if node is None:
        raise ValueError(NO_IMAGE)
    made = ObjectClassAnnotation(owner, node, place_of_labels(layer)[1])
    owner.add(made)
    return made
