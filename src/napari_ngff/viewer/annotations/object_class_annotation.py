"""Classes of the objects of a label image, as an annotation of its image.

They are in a table of the image, see `object_class_table`. Where the image cannot be
written, ``cells.ome.zarr`` has ``cells.classes/NAME.json`` beside it, or in the user's
data.
"""

from __future__ import annotations

import os
import weakref
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
from typing_extensions import override

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.object_classes import (
    ClassChanges,
    ObjectClass,
    ObjectClasses,
    ObjectNames,
    join_labels,
    pack_labels,
)
from napari_ngff.metadata.model import LabelKind
from napari_ngff.plate.tables.feature_table import is_writable
from napari_ngff.store.hierarchy.location import CLASSES_END
from napari_ngff.viewer.annotations.annotations import (
    Annotations,
    CopiedPart,
    ImageCopy,
)
from napari_ngff.viewer.annotations.file_annotation import (
    FileAnnotation,
    OlderFile,
    StoredFile,
    image_node,
    report_unreadable,
)
from napari_ngff.viewer.annotations.object_class_table import (
    dump_copied_classes,
    list_class_tables,
    read_class_table,
    write_classes,
)
from napari_ngff.viewer.layers.label_owners import (
    TARGET,
    image_address,
    place_of_labels,
)
from napari_ngff.viewer.painting.canvas_labels import CanvasLabels
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.plans.layer_plan import origin_of
from napari_ngff.viewer.services.notices import (
    count_noun,
    join_names,
    shorten_name,
)
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.file_journal import KeptFile

NO_CLASS = (0.55, 0.55, 0.55, 1.0)
"""Colour of objects without a class, while others have that of their class."""

NO_IMAGE = "Show the image or the field of these labels first: classes belong to it."

NO_OBJECT = "No object is chosen. Click one by Choose by click, or type its id."

_in_use: weakref.WeakKeyDictionary[Annotations, tuple[str, tuple[ObjectClass, ...]]] = (
    weakref.WeakKeyDictionary()
)
"""What is browsed, and the classes that were used there last.

A number key means the same in the next field, and nothing in another file.
"""

_begun: weakref.WeakSet[Any] = weakref.WeakSet()
"""Savers of new labels before the first save: older labels of the same name have other
classes of objects."""


class ObjectClassAnnotation(FileAnnotation):
    """The classes of the objects of one label image.

    Attributes
    ----------
    labels
        Name of the label image.
    classes
        The classes, and which object has which.
    begun_for
        The saver of the new labels that it is of, until their first save; None for
        those of labels in the file.
    """

    folder_ending, file_ending, noun = CLASSES_END, ".json", "object"

    keeps_empty = goes_aside = True

    def __init__(self, owner: Annotations, node: Node, labels: str) -> None:
        super().__init__(owner, node)
        self.labels, self._top = labels, f"{node}/tables/"
        self.classes = ObjectClasses(find_in_use(owner, str(node)))
        # Number of a change that no file has, and its objects.
        self._changed: list[tuple[int, np.ndarray]] = []
        # Objects and their classes before a change, with a class that it removed.
        self._undo: list[tuple[ObjectNames, tuple[ObjectClass, int] | None]] = []
        # Name of a class, or one that it had -> number of its last change.
        self._edited: dict[str, int] = {}
        self.begun_for: Any = None
        # What the image has since the last save.
        self._written: ObjectClasses | None = None
        self.done.connect(self._show_written)

    @property
    @override
    def name(self) -> str:
        return self.labels

    @property
    @override
    def image(self) -> str:
        inner = str(self.node).removeprefix(self.owner.browsed).strip("/")
        return inner if self.is_aside else super().image

    @property
    @override
    def title(self) -> str:
        return f"classes of '{self.labels}' of {self.image}"

    # Changes.

    # Those that a person asks for return what was done, as a sentence.

    def add_class(self, name: str = "") -> str:
        """Add a class; it is saved with the first object that has it.

        Returns
        -------
        str
            Its name; one is made up if need be.

        Raises
        ------
        ValueError
            Where there is such a class.
        """
        names = self.classes.names
        made_up = (f"class {number}" for number in count(len(names) + 1))
        name = name or next(x for x in made_up if x not in names)
        self.classes = self.classes.with_class(name)
        self._note_classes(join_labels())
        return name

    def change_class(self, name: str, /, **parts: Any) -> str:
        """Change parts of a class: name, also for its objects, color, locked, hidden.

        Raises
        ------
        ValueError
            Where the new name is empty or another class has it.
        """
        before, new_name = self.classes, parts.get("name", name)
        self.classes = before.with_parts(name, **parts)
        renamed = before.class_of.only(*{name} - {new_name}).labels
        self._undo = [
            (rows.rename(name, new_name), removed) for rows, removed in self._undo
        ]
        self._note_classes(renamed, name, new_name)
        return ""

    def remove_class(self, name: str) -> str:
        """Take a class off the list and off its objects.

        Raises
        ------
        ValueError
            Where it is locked.
        """
        before, rows = self.classes, self.classes.class_of.only(name)
        place = before.names.index(name)
        item = before.classes[place]
        if item.locked:
            raise ValueError(f"'{name}' is locked. Unlock it by its padlock first.")
        self._undo.append((rows, (item, place)))
        self.classes = before.without_class(name)
        self._note_classes(rows.labels, name)
        objects = count_noun(len(rows), "object")
        return f"'{shorten_name(name)}' is off the list and off {objects}."

    def classify(self, label: int | list[int], name: str) -> str:
        """Give an object, or some, a class; "" for none.

        Raises
        ------
        ValueError
            Where one has a class that is locked; none gets another one then.
        """
        labels = pack_labels(label if isinstance(label, list) else [label])
        rows = ObjectNames.from_arrays(labels, np.zeros(len(labels), np.intp), [name])
        self.classes.check_unlocked(labels)
        self._undo.append((self.classes.class_of.pick(labels), None))
        self.classes = self.classes.with_objects(rows)
        self._note_classes(labels)
        return _describe_classes(rows)

    @property
    def can_undo(self) -> bool:
        """Whether a class was given or removed here, which can be taken back."""
        return bool(self._undo)

    def undo(self) -> str:
        """Undo the last time that an object got a class, or a class was removed.

        Raises
        ------
        ValueError
            Where an object has a class by now that is locked.
        """
        rows, removed = self._undo[-1]
        self.classes.check_unlocked(rows.labels)
        del self._undo[-1]
        if removed is not None:
            self.classes = self.classes.put_back(*removed)
        self.classes = self.classes.with_objects(rows)
        self._note_classes(rows.labels)
        if removed is None:
            return _describe_classes(rows)
        again, objects = removed[0].name, count_noun(len(rows), "object")
        return f"'{shorten_name(again)}' is on the list and on {objects} again."

    def _note_classes(self, labels: np.ndarray, *names: str) -> None:
        """Note a change of objects, and of classes that have or had some names."""
        # First: whoever is told asks at once what is unsaved.
        self._changed.append((self._changes + 1, labels))
        self._edited |= dict.fromkeys(names, self._changes + 1)
        _in_use[self.owner] = self.owner.browsed, self.classes.classes
        self.note_change()

    def begin_anew(self, made: ObjectClassAnnotation | None) -> None:
        """Take the classes from all objects that new labels have replaced.

        Parameters
        ----------
        made
            The classes that objects of the new labels have; None for none.
        """
        known = self.classes.class_of
        rows = ObjectNames.from_arrays(known.labels, 0 * known.codes, [""]).with_rows(
            known.pick(self._find_changed())
        )
        if made is not None:
            rows = rows.with_rows(made.classes.class_of)
            self.classes = self.classes.put_first(made.classes.classes)
            self.owner.remove(made)
            made.note_written()
        self.classes = self.classes.with_objects(rows)
        self._undo.clear()
        self._note_classes(rows.labels)
        self.save(quiet=True)

    # The file.

    @override
    def count(self) -> int:
        return len(self._find_changed())

    def _find_changed(self) -> Any:
        """Find the objects whose class no file has."""
        self._changed = [x for x in self._changed if x[0] > self._saved_changes]
        whole = join_labels(*(labels for _, labels in self._changed))
        # With an index numpy sorts; without one it takes a hundred times as long.
        return np.unique(whole, return_index=True)[0]

    @override
    def take_content(self) -> Callable[[], str]:
        changes, known = self._describe(), self.classes.class_of
        if not self._path.startswith(self._top):
            # No table has any of them.
            changes = replace(changes, objects=known.with_rows(changes.objects))
        return changes

    def _describe(self) -> ClassChanges:
        """Describe the changes that no file has."""
        saved = self._saved_changes
        edited = (name for name, number in self._edited.items() if number > saved)
        objects = self.classes.class_of.pick(self._find_changed())
        return ClassChanges(self.labels, self.classes.classes, objects, tuple(edited))

    def _take_stored(self, stored: ObjectClasses) -> None:
        """Show what a file has, but for what was changed since."""
        self.classes = self._describe().merge_into(stored)
        self.owner.note_change()

    def _show_written(self) -> None:
        written, self._written = self._written, None
        if written is not None and self.begun_for is None:
            self._take_stored(written)

    @classmethod
    @override
    def attach(cls, owner: Annotations, layer: Any) -> None:
        super().attach(owner, layer)
        if isinstance(layer, CanvasLabels):
            # Threads that end late keep the canvas: no viewer stays with it.
            known = weakref.ref(owner), weakref.ref(layer)
            layer.object_classes = partial(_find_of_objects, *known)
            _follow_new(owner, layer)

    @classmethod
    @override
    def open_files(
        cls, owner: Annotations, image: Any, files: Sequence[StoredFile]
    ) -> None:
        node = image_node(image)
        shown = [] if node is None else cls.of_image(owner, node)
        begun = {x.name: x for x in shown if x.begun_for is None}
        for each in shown:
            each.is_aside = not each.list_channels()
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
        stored, in_use = content.merge_into(ObjectClasses()), made.classes
        locked = [item.name for item in stored.classes if item.locked]
        first = (
            replace(item, locked=item.locked or item.name in locked)
            for item in in_use.classes
        )
        made.classes = stored.put_first(first)
        made._changed = [(1, ObjectNames().with_rows(content.objects).labels)]
        # The next save here writes what is shown, also what came from another field.
        made._edited = dict.fromkeys((*content.edited, *in_use.names), 1)
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
        made.is_aside = not made.list_channels()

    @classmethod
    @override
    def read_stored(cls, node: Node) -> list[StoredFile]:
        tables, end = {}, cls.file_ending
        for labels, name in list_class_tables(node).items():
            path = f"{node}/tables/{name}"
            try:
                table = read_class_table(node, name)
            except (OMEZarrError, OSError) as error:
                show = partial(report_unreadable, path, error)
                Window.current.run_in_main(show)
                continue
            classes = table.classes
            content = ClassChanges(labels, classes.classes, classes.class_of)
            tables[labels] = path, content, table.revision
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
    def write_stored(self, path: str, encode: Any, older: OlderFile) -> OlderFile:
        if path != self._top:
            return super().write_stored(path, encode, older)
        table = write_classes(self.node, encode)
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


def _describe_classes(rows: ObjectNames) -> str:
    given = {shorten_name(x) if x else "without a class" for x in rows.count_names()}
    which = f"{len(rows):,} objects are" if len(rows) > 1 else f"Object {min(rows)} is"
    return f"{which} {join_names(sorted(given))}."


def find_classes(owner: Annotations, layer: Any) -> ObjectClassAnnotation | None:
    """Return the classes of the objects of a layer of labels; None for none yet."""
    saver = getattr(layer, "saver", None)
    begun_for = saver if saver in _begun else None
    address, name = image_address(layer), place_of_labels(layer)[1]
    kept = (x for x in owner if isinstance(x, ObjectClassAnnotation))
    kept = (x for x in kept if x.begun_for is begun_for)
    return next((x for x in kept if (str(x.node), x.labels) == (address, name)), None)


def _follow_new(owner: Annotations, layer: Any) -> None:
    """Begin new labels without the classes of older ones of their name."""
    saver, is_new = layer.saver, TARGET in layer.metadata and origin_of(layer) is None
    if saver is None or saver in _begun or not is_new:
        return
    found = find_classes(owner, layer)
    _begun.add(saver)
    if found is not None and found.state.restored:
        # What a process that ended has left is of these labels.
        found.begun_for = saver
    known = weakref.ref(owner), weakref.ref(layer)
    saver.saved.connect(partial(_end_new, *known))


def _end_new(
    owner_of: Callable[[], Annotations | None], layer_of: Callable[[], Any], _: Any
) -> None:
    """Join the classes of new labels, once these are in the file, with older ones."""
    owner, layer = owner_of(), layer_of()
    is_saved = layer is not None and origin_of(layer) is not None
    if owner is None or not is_saved or layer.saver not in _begun:
        return
    made = find_classes(owner, layer)
    _begun.discard(layer.saver)
    older = find_classes(owner, layer)
    if made is not None:
        made.begun_for = None
        made.labels = place_of_labels(layer)[1]
    if older is not None:
        older.begin_anew(made)


def find_in_use(owner: Annotations, address: str) -> tuple[ObjectClass, ...]:
    """Find the classes that were used last in the plate or collection of an image."""
    browsed, classes = _in_use.get(owner, ("", ()))
    is_there = browsed == owner.browsed != "" and address.startswith(browsed)
    return classes if is_there else ()


def _find_of_objects(
    owner: Callable[[], Annotations | None], layer: Callable[[], Any]
) -> ObjectClasses:
    annotations, labels = owner(), layer()
    if annotations is None or labels is None:
        return ObjectClasses()
    found = find_classes(annotations, labels)
    are_objects = classes_of_layer(labels).kind is LabelKind.OBJECTS
    return found.classes if found is not None and are_objects else ObjectClasses()


def known_classes(owner: Annotations, layer: Any) -> ObjectClasses:
    """Return the classes of the objects of a layer, or those that were used last."""
    found = find_classes(owner, layer)
    if found is not None:
        return found.classes
    return ObjectClasses(find_in_use(owner, image_address(layer)))


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
    saver = getattr(layer, "saver", None)
    made.begun_for = saver if saver in _begun else None
    owner.add(made)
    return made


def begin_aside(
    owner: Annotations, node: Node, labels: str, classes: ObjectClasses
) -> ObjectClassAnnotation:
    """Return the classes of labels of an image, which need not be on screen.

    Parameters
    ----------
    node
        The image.
    classes
        Those it has now; others may be in front.
    """
    known = ObjectClassAnnotation(owner, node, labels)
    known.is_aside = not known.list_channels()
    for each in known.of_image(owner, node):
        if (each.labels, each.begun_for) == (labels, None):
            known = each
    known.classes = classes
    if known not in owner:
        owner.add(known)
    return known
