"""Classes of a layer of labels: named labels with colours, keys and locks."""

from __future__ import annotations

import weakref
from contextlib import suppress
from dataclasses import replace
from inspect import isgenerator
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.utils.notifications import show_warning

from napari_ngff.labels.class_colors import PALETTE, free_color
from napari_ngff.labels.label_classes import (
    NAME,
    LabelClass,
    classes_of,
    dump_kept_classes,
    has_marked_classes,
    load_kept_classes,
    with_classes,
    with_classes_in_use,
)
from napari_ngff.labels.saving.journal_records import KeptClasses
from napari_ngff.metadata.model import KIND, LabelInfo, LabelKind
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.viewer.layers.label_colors import recolor_labels
from napari_ngff.viewer.layers.label_layers import label_features
from napari_ngff.viewer.layers.label_owners import are_of_others, place_of_labels
from napari_ngff.viewer.painting.layer_measuring import replace_own_features
from napari_ngff.viewer.plans.layer_plan import is_joined, picture_of
from napari_ngff.viewer.services.notices import count_noun, shorten_name
from napari_ngff.viewer.services.window import Signal, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from napari.layers import Layer

    from napari_ngff.viewer.painting.paint import OMEZarrLabels

KEYS = 9
"""Number of classes that have a number key."""

NO_CLASS = "No class is chosen.\nKey {}: {}."

NONE = "the selected layer has no classes. Select the labels of the dock first: {}"

NO_TOOL = (
    "No tool is chosen.\nAnother program made the labels '{}': choose the tool yourself"
    " to change them."
)

UNSEEN = (
    "Painted with a hidden class.\nThe stroke of '{}' is in the labels and cannot be"
    " seen. Show the class by its eye, or undo the stroke."
)

MANY = 2000
"""Labels with properties above which the table of features is not made again when a
class changes."""

COUNTED = 1 << 24
"""Most voxels of a level whose labels are counted."""


def unit_of_area(layer: OMEZarrLabels) -> str:
    """Return the unit of a label's size: "voxels" of a stack, else "pixels"."""
    return "voxels" if "z" in layer.axis_labels else "pixels"


class LayerClasses:
    """The classes of one layer, in order; the first nine have a key each.

    All changes are shown at once, and saved with the layer.
    """

    changed = Signal()
    """Emitted when a class was added, removed, changed or selected."""
    labels_replaced = Signal()
    """Emitted when the layer got other labels."""

    def __init__(self, layer: OMEZarrLabels) -> None:
        self._layer = weakref.ref(layer)
        self._all: tuple[LabelClass, ...] = ()
        self._tabulated = True
        self._removed: frozenset[int] = frozenset()
        self._kind: LabelKind | None = None
        self._read_classes(layer)
        self.unit = unit_of_area(layer)
        layer.events.selected_label.connect(self._on_selected)
        self._last_stroke = layer.canvas.log.last_edit
        layer.stroke_ended.connect(self._report_hidden)

    def _report_hidden(self) -> None:
        """Report a stroke that is not seen, since its class is hidden."""
        edit, before = self.layer.canvas.log.last_edit, self._last_stroke
        self._last_stroke = edit
        if edit is None or edit is before:
            return  # a stroke beside the image makes no edit
        painted = self.find_class(edit.label)
        if painted is not None and painted.hidden:
            show_warning(UNSEEN.format(shorten_name(painted.name)))

    def _read_classes(self, layer: OMEZarrLabels) -> None:
        """Read the classes of the layer's file."""
        info = file_description(layer)
        description = layer.saver.description if layer.saver is not None else None
        if description is not None:
            description.classes_conflicted.disconnect(self.take_stored_classes)
            description.classes_conflicted.connect(self.take_stored_classes)
        self._all = classes_of(info)
        kinds = info.kind, _chosen.get(place_of_labels(layer))
        # Of read-only labels, what was chosen is in no file.
        self._kind = kinds[bool(layer.refusal)] or kinds[not layer.refusal]
        self._removed = frozenset()
        self._tabulated = len(info.properties) <= MANY
        # Colours of the file do not say "hidden": that is one of our own properties.
        if any(label_class.hidden for label_class in self.items):
            layer.classes = self._all
            self._show_colors()
        self._update_locked(layer)

    @property
    def kind(self) -> LabelKind:
        """What each label is: as it was chosen, or by what the labels hold."""
        held = LabelKind.CLASSES if self._all else LabelKind.OBJECTS
        return self._kind or held

    @property
    def items(self) -> tuple[LabelClass, ...]:
        """The classes in order; none of objects, which keep theirs in the file."""
        return self._all if self.kind is LabelKind.CLASSES else ()

    def change_kind(self, kind: LabelKind) -> None:
        """Choose what each label is; no pixel and no class changes.

        It holds for this image, and until napari ends where no file states a kind or
        can state it: in other fields of the plate, and for read-only labels.
        """
        layer, self._kind = self.layer, kind
        _chosen[place_of_labels(layer)] = kind
        if layer.refusal:
            self._show_colors()
            self._update_locked(layer)
            self.changed.emit()
        else:
            layer.metadata[KIND] = kind
            self._set_items(self._all)

    def read_again(self) -> None:
        """Read the classes again, after the layer got other labels."""
        self.layer.classes = None
        self._last_stroke = self.layer.canvas.log.last_edit
        self._read_classes(self.layer)
        self.changed.emit()
        self.labels_replaced.emit()

    def keep_classes(
        self, classes: Sequence[LabelClass], *, unsaved: bool = False
    ) -> None:
        """Add classes in use, which does not mark the labels as changed.

        Classes that the labels have already stay as they are. Another one whose label
        pixels have here gets a label that none has.

        Parameters
        ----------
        classes
            Of the labels of the field before.
        unsaved
            Whether they are in no file: then new labels count as changed.
        """
        if self.kind is LabelKind.OBJECTS:
            return
        saver = self.layer.saver
        description = saver.description if saver is not None else None
        was_changed = description is None or description.is_changed
        unsaved &= saver is not None and saver.is_unpainted
        kept_before = saver is not None and saver.journal.classes.unsaved
        joined = with_classes_in_use(self.items, classes, self.layer.canvas.used)
        self._set_items(joined, unsaved=unsaved or kept_before)
        if description is not None and not was_changed:
            description.is_changed = False

    def _on_selected(self) -> None:
        if self._layer() is not None:
            self.changed.emit()

    @property
    def layer(self) -> OMEZarrLabels:
        """The layer.

        Raises
        ------
        ReferenceError
            Where it is gone.
        """
        layer = self._layer()
        if layer is None:
            raise ReferenceError("The labels of these classes are closed.")
        return layer

    def find_class(self, value: int) -> LabelClass | None:
        """Return the class of a label value."""
        return next((item for item in self.items if item.value == value), None)

    @property
    def can_change(self) -> bool:
        """Whether a change could be saved; else classes are only hidden and shown."""
        return not self.layer.refusal

    @property
    def selected(self) -> LabelClass | None:
        """The class that is painted with."""
        return self.find_class(int(self.layer.selected_label))

    def select_class(self, value: int) -> None:
        """Paint with a class."""
        self.layer.selected_label = value

    # The list.

    def add_class(self, name: str = "", value: int | None = None) -> LabelClass:
        """Add a class and paint with it, by default with a label that no pixel has.

        For that all pixels have to be known: see `UsedLabels.look_at_all`.

        Raises
        ------
        ValueError
            Where the value is a class already, or 0, or labels are objects.
        """
        if self._kind is LabelKind.OBJECTS:
            raise ValueError(f"Each label of {self.layer.name} is one object.")
        if value is None:
            # Nor one that a row describes, or that a removed class had.
            stated = file_description(self.layer).properties
            own = {item.value for item in self._all} | self._removed
            value = self.layer.canvas.used.find_free({*stated, *own})
        if value == 0 or self.find_class(value) is not None:
            raise ValueError(f"Label {value} is taken. Choose another.")
        added = LabelClass(value, name or f"class {value}", self._choose_color(value))
        self._set_items((*self._all, added))
        self.select_class(value)
        return added

    def _choose_color(self, value: int) -> tuple[int, int, int, int]:
        """Choose a colour for a new class, apart from those of classes and labels."""
        classes = {item.value: item.color for item in self._all}
        labels = self.layer.canvas.used.list_small()
        others = [label for label in labels if label not in classes and label != value]
        shown = 255 * self.layer.colormap.map(np.array(others, np.int64))
        # A label without a class has this colour (`FIRST_COLORS`), and keeps it.
        usual = PALETTE[(value - 1) % len(PALETTE)]
        return free_color(classes.values(), usual, np.unique(shown, axis=0))

    def change_class(self, value: int, **parts: Any) -> None:
        """Change parts of a class: name, color, locked, hidden.

        Raises
        ------
        ValueError
            Where there is no such class.
        """
        if self.find_class(value) is None:
            raise ValueError(f"There is no class of label {value}.")
        self._set_items(
            tuple(
                replace(item, **parts) if item.value == value else item
                for item in self._all
            )
        )

    def remove_class(self, value: int) -> None:
        """Remove a class from the list; its voxels stay."""
        self._set_items(tuple(item for item in self._all if item.value != value))

    def put_back(self, removed: LabelClass, place: int) -> None:
        """Put a class that was removed back on the list, at an index.

        Raises
        ------
        ValueError
            Where its label has got another class.
        """
        other = self.find_class(removed.value)
        if other is not None:
            raise ValueError(f"Label {removed.value} is {other.name} by now.")
        self._set_items((*self._all[:place], removed, *self._all[place:]))

    def move_class(self, value: int, place: int) -> None:
        """Move a class to another index of the list."""
        rest = [item for item in self._all if item.value != value]
        moved = self.find_class(value)
        if moved is not None:
            rest.insert(place, moved)
            self._set_items(tuple(rest))

    def merge_class(self, value: int, into: int) -> None:
        """Give all voxels of one class to another; the voxels can be undone.

        The class stays on the list, empty, until it is removed.

        Raises
        ------
        ValueError
            Where one of them is locked.
        """
        for item in (self.find_class(value), self.find_class(into)):
            if item is not None and item.locked:
                raise ValueError(f"{item.name} is locked. Unlock it first.")
        self.layer.replace_label(value, into)
        self.changed.emit()

    def draw_over(self, value: int | None) -> None:
        """Choose what the tools draw over: any label, the background, or one class."""
        self.layer.only_over = value
        self.changed.emit()

    def share_classes(self, classes: Iterable[LabelClass]) -> None:
        """Add classes of another image, and take over names and colours."""
        merged = {item.value: item for item in self._all}
        for other in classes:
            known = merged.get(other.value, other)
            merged[other.value] = replace(known, name=other.name, color=other.color)
        self._set_items(tuple(merged.values()))

    def restore_classes(self, kept: KeptClasses) -> None:
        """Bring back the classes of a journal, with what the file has got since.

        Raises
        ------
        ValueError
            Where they are of a newer version; nothing is changed then.
        """
        classes, removed, kind = load_kept_classes(kept.text)
        if kind is not None:
            self._kind = self.layer.metadata[KIND] = kind
        values = {item.value for item in classes} | removed
        others = [item for item in self._all if item.value not in values]
        items = (*classes, *others)
        self._set_items(items, unsaved=items != self._all, removed=removed)

    def take_stored_classes(
        self, conflicts: Sequence[tuple[LabelClass, LabelClass]]
    ) -> None:
        """Show classes of the file that another program saved, and name them.

        Parameters
        ----------
        conflicts
            The class here, and the one in the file that has its label by now.
        """
        stored = {item.value: item for _, item in conflicts}
        self._set_items(tuple(stored.get(item.value, item) for item in self._all))
        own, other = conflicts[0]
        others = len(conflicts) - 1
        more = f" The same holds for {count_noun(others, 'label')}." if others else ""
        show_warning(
            "One label has two classes.\n"
            f"Label {own.value} is '{other.name}' in the file: another program saved"
            f" that class.{more} Voxels that you painted as '{own.name}' count as"
            f" '{other.name}' now. Add the class again, and paint them with its new"
            " label."
        )

    # Effects of a change on the layer.

    def _set_items(
        self,
        items: tuple[LabelClass, ...],
        *,
        unsaved: bool = True,
        removed: frozenset[int] = frozenset(),
    ) -> None:
        """Change the list.

        Parameters
        ----------
        unsaved
            False for a change that is not worth a question.
        removed
            Values of classes that were removed earlier.
        """
        layer = self.layer
        gone = {old.value for old in self._all} - {new.value for new in items}
        self._all = layer.classes = items
        if layer.saver is not None and layer.saver.description is not None:
            journal = layer.saver.journal
            # Others that were removed are gone from the file, too.
            earlier = self._removed if journal.classes.unsaved else frozenset()
            present = {item.value for item in items}
            self._removed = (earlier | removed | gone) - present
            # Recovered if the window ends before the next save.
            journal.classes = KeptClasses(
                dump_kept_classes(items, self._removed, self._kind),
                unsaved and not layer.saver.is_copy,
            )
            layer.saver.description.mark_changed()
            layer.saver.check_dirty()  # new labels count as changed by the journal
        self._show_colors(gone)
        if self._tabulated:
            own = label_features(file_description(layer).properties)
            replace_own_features(layer, own)
        self._update_locked(layer)
        self.changed.emit()

    def _show_colors(self, gone: Collection[int] = ()) -> None:
        """Set the colours of classes, and those that labels had before their class."""
        layer = self.layer
        colors = self._list_former_colors(gone)
        hides = self.kind is LabelKind.CLASSES
        for item in self._all:
            rgba = (*item.color[:3], 0 if hides and item.hidden else item.color[3])
            colors[item.value] = np.array(rgba, np.float32) / 255
        colormap = recolor_labels(layer.colormap, colors)
        # Setting a colormap draws the layer again.
        if colormap is not layer.colormap:
            layer.colormap = colormap

    def _list_former_colors(self, values: Collection[int]) -> dict[int, Any]:
        """Return the colours of the file, 0-1; None for labels that are classes in it.

        Such a colour is that of the class, and is dropped from the file.
        """
        saver = self.layer.saver
        description = saver.description if saver is not None else None
        info = description.info if description is not None else LabelInfo()
        classes = {item.value for item in classes_of(info)}
        stored = {v: info.colors[v] for v in values if v in info.colors}
        return dict.fromkeys(values) | {
            value: np.array(rgba, np.float32) / 255
            for value, rgba in stored.items()
            if value not in classes
        }

    def _update_locked(self, layer: OMEZarrLabels) -> None:
        """Let the tools spare locked classes."""
        layer.spared = tuple(item.value for item in self.items if item.locked)


def bind_class_keys(layer: Layer) -> None:
    """Let the number keys select classes, in any layer that is annotated beside."""
    for number in range(1, KEYS + 1):
        # A key that another plugin has bound in the layer stays its own.
        with suppress(ValueError):
            layer.bind_key(str(number), _make_key(number))


def _make_key(number: int) -> Callable[[Any], Any]:
    def press_key(layer: Any) -> Any:  # napari looks up its name
        _press_number(number, layer)
        # What napari calls when the key is released; else that of an earlier press.
        return lambda: None

    return press_key


def _press_number(number: int, layer: Any) -> None:
    """Do what a number key means for labels of their kind, or what it does in napari.

    Not while the annotate dock is there: a tool of napari, such as the eraser that has
    key 1, would change labels where a class was meant.
    """
    annotated = Window.current.find_annotated(layer)
    take = getattr(layer, "takes_number", None)
    if annotated and take is not None:
        take(number)
        return
    # Without classes the description is not read: that takes long for many objects.
    has_classes = layer in _classes or (
        hasattr(layer, "saver") and NAME in layer.features
    )
    items = classes_of_layer(layer).items if has_classes else ()
    if not items and not annotated:
        _press_key_of_napari(layer, number)
    elif number > len(items):
        last = f"the last class has key {len(items)}" if items else NONE
        show_warning(NO_CLASS.format(number, last.format(annotated)))
    else:
        classes_of_layer(layer).select_class(items[number - 1].value)
        # A drag with the hand would move the image.
        takes_tool = layer.editable and layer.mode == "pan_zoom"
        if takes_tool and are_of_others(layer):
            show_warning(NO_TOOL.format(shorten_name(layer.name)))
        elif takes_tool:
            layer.mode = "paint"


def _press_key_of_napari(layer: Layer, number: int) -> None:
    """Do what a number key does in napari.

    A binding of the layer hides the one of the layer's type, so this calls it.
    """
    for owner in type(layer).__mro__:
        for key, usual in owner.__dict__.get("class_keymap", {}).items():
            if str(key) == str(number):
                # Some of napari's go on when the key is released.
                held = usual(layer)
                if isgenerator(held):
                    next(held, None)
                return


def file_description(layer: OMEZarrLabels) -> LabelInfo:
    """Return the description of the file with the layer's changes."""
    description = layer.saver.description if layer.saver is not None else None
    if description is not None:
        return description.take_snapshot().join_with(description.info)
    picture = picture_of(layer)
    info = (picture.label if picture is not None else None) or LabelInfo()
    return with_classes(info, layer.classes) if layer.classes is not None else info


def classes_of_layer(layer: OMEZarrLabels) -> LayerClasses:
    """Return the classes of a layer; the first call reads them from the file."""
    if layer not in _classes:
        _classes[layer] = LayerClasses(layer)
    return _classes[layer]


def read_classes_again(layer: OMEZarrLabels) -> None:
    """Read the classes of a layer again, after it got other labels."""
    if layer in _classes or layer.classes is not None:
        classes_of_layer(layer).read_again()
    else:
        apply_stored_classes(layer)


def apply_stored_classes(layer: OMEZarrLabels) -> None:
    """Spare the locked classes of the file, and hide the hidden ones.

    Other classes are read when somebody asks for them: that takes long for many
    objects.
    """
    plan = picture_of(layer)
    # Those of an overview are of its first field.
    if plan is None or plan.label is None or is_joined(plan):
        return
    if has_marked_classes(plan.label):
        classes_of_layer(layer)


_classes: weakref.WeakKeyDictionary[Any, LayerClasses] = weakref.WeakKeyDictionary()

_chosen: dict[tuple[str, str], LabelKind] = {}
"""The kinds that a person chose, by the hierarchy and the name of labels."""


def is_estimated(layer: OMEZarrLabels) -> bool:
    """Return whether `count_voxels` estimates."""
    return layer.canvas.levels[0].size > COUNTED


def count_voxels(layer: OMEZarrLabels) -> dict[int, int]:
    """Count the voxels of each label, in voxels of level 0; slow, so in a worker.

    Exact where level 0 has at most `COUNTED` voxels. Otherwise estimated from the
    finest level with at most that many, else from the coarsest.
    """
    canvas = layer.canvas
    small = [level for level in canvas.levels if level.size <= COUNTED]
    level = small[0] if small else canvas.levels[-1]
    total: dict[int, int] = {}
    for chunk in level.chunks_in(whole_box(level.shape)):
        values, numbers = np.unique(
            level.read(level.chunk_box(chunk)), return_counts=True
        )
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            total[value] = total.get(value, 0) + number
    share = canvas.levels[0].size / level.size
    return {value: round(number * share) for value, number in total.items() if value}
