"""Labels, points and shapes that are only in memory, as plugins make them."""

from __future__ import annotations

import re
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Labels, Layer, Points, Shapes
from typing_extensions import override

from napari_ngff.errors import error_text
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.places.label_location import name_problem
from napari_ngff.labels.raster import Raster, cut_labels
from napari_ngff.metadata.model import LabelInfo
from napari_ngff.viewer.annotations.annotations import Annotations, AnnotationState
from napari_ngff.viewer.annotations.file_annotation import find_image_shown, image_node
from napari_ngff.viewer.annotations.label_annotation import LabelAnnotation
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.layers.move_layers import world_matrix
from napari_ngff.viewer.painting.new_labels import (
    free_name,
    list_unsaved_names,
    new_labels,
    storage_problem,
    taken_names,
)
from napari_ngff.viewer.plans.layer_plan import KEY, layer_kind
from napari_ngff.viewer.private.napari_layers import is_being_painted
from napari_ngff.viewer.services.notices import last_part
from napari_ngff.viewer.services.window import Signal, Window
from napari_ngff.viewer.streaming.regions import level_shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from psygnal import SignalInstance


CHANGES = "data", "features", "paint"
"""Events of a change; `DRAWN` also come where a plugin has written into the array."""

DRAWN = "labels_update", "set_data"

SMALL = 1 << 22
"""Bytes of labels that the main thread looks at, whether all of them are 0."""

APART = 0.1
"""Voxels by which the corners of labels may lie apart from those of their image."""

LOOK = (
    *("visible", "opacity", "blending", "contour", "colormap", "features"),
    *("show_selected_label", "brush_size", "contiguous", "preserve_labels"),
    *("n_edit_dimensions", "selected_label"),
)
"""What the layer that takes the place of another one has of it."""


class MemoryAnnotation(LabelAnnotation):
    """A layer that is in no file, and not of this package.

    Labels whose voxels are those of an image of ours are saved with it, as any others:
    then a layer of ours takes the place of theirs. All else is saved in a file of its
    own, by napari's dialog. Only a window that has an image of ours asks about it.
    """

    done = Signal()
    """Emitted when the layer was replaced, and saved if that was asked for."""

    def __init__(self, owner: Annotations, layer: Layer) -> None:
        super().__init__(owner, layer)
        image = find_image_shown(owner)
        self._image = (lambda: None) if image is None else weakref.ref(image)
        self._is_taking = self._has_labels = False
        self._changes, self._looked = 0, -1
        for name in (*CHANGES, *DRAWN):
            if hasattr(layer.events, name):
                layer.events[name].connect(self._on_change)

    @classmethod
    @override
    def attach(cls, owner: Annotations, layer: Any) -> None:
        is_drawn = isinstance(layer, Labels | Points | Shapes)
        if not is_drawn or owner.of_layer(layer) is not None:
            return
        if not (_is_ours(layer) or layer.source.path or layer.source.sample):
            _in_memory.add(layer)
        owner.add(cls(owner, layer))

    def _on_change(self, event: Any) -> None:
        self._changes += 1
        if event.type in CHANGES:
            self._has_labels = True
            _in_memory.add(event.source)
            self.owner.note_change()

    @property
    def asks_for_file(self) -> bool:  # type: ignore[override]
        """Whether it can only be saved in a file of its own."""
        return self.saver is None and self._find_image()[0] is None

    @property
    @override
    def image(self) -> str:
        return super().image or _name_image(self._find_image()[0])

    @property
    @override
    def title(self) -> str:
        field = self.owner.title_of(self.layer)
        of_field = f" of {field}" if field else ""
        return f"{layer_kind(self.layer)} '{self.name}'{of_field}"

    @property
    @override
    def description(self) -> str:
        return f"{super().description} {self._find_image()[1]}".rstrip()

    @property
    @override
    def state(self) -> AnnotationState:
        if self.saver is not None:
            return super().state
        is_known = self.owner.has_images and self.layer in _in_memory
        unsaved = is_known and self._has_content()
        return AnnotationState(
            unsaved, self._is_taking, takes_key=unsaved, asks_name=True
        )

    def _has_content(self) -> bool:
        """Return whether there is anything; a worker looks at large labels."""
        if not isinstance(self.layer, Labels):
            return len(self.layer.data) > 0
        data = _finest(self.layer)
        if not isinstance(data, np.ndarray):
            return True
        if data.nbytes <= SMALL:
            return bool(data.any())
        if self._looked != self._changes:
            self._looked = self._changes
            Window.current.run_work(data.any, partial(self._note_labels, self._looked))
        return self._has_labels

    def _note_labels(self, looked: int, found: bool) -> None:
        if looked == self._looked:
            self._has_labels = bool(found)
            self.owner.note_change()

    def _find_image(self) -> tuple[Any, str]:
        """Find the image whose voxels are those of the layer; None, and why not."""
        layer, owner, problem = self.layer, self.owner, ""
        if not isinstance(layer, Labels) or _is_ours(layer) or layer.source.path:
            return None, ""
        # Of the field to which the layer belongs, which may be another one on screen.
        images = [
            image
            for image in owner.viewer.layers
            if image_node(image) is not None
            and owner.position_of(image) == owner.position_of(layer)
        ]
        # The topmost, or rather the one that was selected when the layer was made.
        images.sort(key=lambda image: image is self._image())
        for image in reversed(images):
            misfit = _find_misfit(layer, image)
            if not misfit:
                return image, ""
            problem = problem or misfit
        return None, problem

    # Saving.

    @property
    @override
    def ended(self) -> Sequence[SignalInstance]:
        return (self.done, *super().ended)

    @override
    def goes_with(self, layers: Iterable[Any]) -> bool:
        # Nothing is asked if only layers without an image are removed.
        return not self.asks_for_file and super().goes_with(layers)

    @override
    def save(self, *, quiet: bool = False) -> None:
        viewer = self.owner.viewer
        if self.saver is not None:
            super().save(quiet=quiet)
        elif self.asks_for_file:
            viewer.layers.selection.active = self.layer
            Window.current.ask_layer_file(viewer)
        elif not (quiet or self._is_taking):
            proposed, taken = self._propose_name()
            text = (
                f"Save '{self.name}' into {self.image}, as labels with this name.\n"
                "All strokes until now are one step of undo then."
            )
            check = partial(name_problem, taken=taken)
            name = Window.current.ask_name(viewer, text, proposed, check)
            if name:
                self._take_over(name, super().save)

    def _propose_name(self) -> tuple[str, list[str]]:
        """Return a free name like that of the layer, and those that are taken."""
        image = self._find_image()[0]
        # Without napari's number of a copy, and what no folder can have.
        wish = re.sub(r'[/\\:*?"<>|]+| \[\d+\]$', " ", self.name)
        wish = " ".join(wish.split()).rstrip(".")
        others = list_unsaved_names(image, self.owner.viewer.layers)
        name = free_name(image, others, "labels" if name_problem(wish) else wish)
        return name, [*taken_names(image), *others]

    def _take_over(self, name: str, done: Callable[[], None]) -> None:
        """Have a layer of ours take the place of this one, and then do something.

        Parameters
        ----------
        name
            Of its labels in the file.
        done
            Called then.
        """
        self._is_taking, changes = True, self._changes
        layer, image = self.layer, self._find_image()[0]

        def replace_layer(cut: Any) -> None:
            # Painted meanwhile: what was copied lacks that.
            if self._changes != changes or is_being_painted(layer):
                again = partial(self._take_over, name, done)
                Window.current.run_after(0.1, again)
                return
            try:
                self._replace_layer(image, name, *cut)
            except Exception as error:  # noqa: BLE001  whatever it is, nothing is lost
                fail(error)
                return
            self._is_taking = False
            done()

        def fail(error: Exception) -> None:
            self._is_taking = False
            result = f"'{layer.name}' is not saved."
            Window.current.show_messages((error_text(error),), result)
            self.done.emit()

        Window.current.run_work(
            partial(cut_labels, _finest(layer)), replace_layer, fail
        )

    def _replace_layer(
        self, image: Any, name: str, values: Any, first: tuple[int, ...]
    ) -> None:
        layer, layers = self.layer, self.owner.viewer.layers
        dtype = np.promote_types("u2", values.dtype)
        # Nobody was asked for the kind.
        new: Any = new_labels(image, name, dtype=dtype, kind=None)
        # The colours on screen, not those with which our own new labels begin.
        new.saver.description.info = LabelInfo()
        for key in LOOK:
            setattr(new, key, getattr(layer, key))
        new.metadata.update({**layer.metadata, **new.metadata})
        raster = Raster(values, tuple(map(float, first)), (1.0,) * new.ndim, clear=0)
        edit = Edit(raster, (*range(new.ndim),), (), int(values.max()), touch=False)
        index, is_selected = layers.index(layer), layer in layers.selection
        try:
            # Before it is added: it is an annotation already.
            self._layer = weakref.ref(new)
            layers.insert(index + 1, new)
            layers.remove(layer)
            new.name = name
            new.restore_edits([edit])
            new.mode = str(layer.mode)
            if not is_selected:
                layers.selection.discard(new)
        except BaseException:
            self._layer = weakref.ref(layer)
            raise
        for signal in (new.saver.saved, new.saver.failed):
            signal.connect(lambda _: self.done.emit())

    @override
    def prepare_keep(self) -> None:
        if self.saver is None:
            self._take_over(self._propose_name()[0], self.done.emit)

    @override
    def may_keep(self) -> bool:
        return self.saver is not None and super().may_keep()

    @override
    def leave(self, *, keep: bool) -> None:
        super().leave(keep=keep)
        if self.saver is None and not keep:
            self.note_written()

    @override
    def note_written(self) -> None:
        note_saved([self.layer])


# Layers that hold what no file has.
_in_memory: weakref.WeakSet[Layer] = weakref.WeakSet()


def note_saved(layers: Iterable[Layer]) -> None:
    """Note that layers were written, or handed on, as they are now."""
    for layer in layers:
        _in_memory.discard(layer)


def _is_ours(layer: Layer) -> bool:
    return any(str(key).startswith(KEY) for key in layer.metadata)


def _finest(layer: Any) -> Any:
    return layer.data[0] if layer.multiscale else layer.data


def _name_image(image: Any) -> str:
    return "" if image is None else last_part(image_address(image))


def _find_misfit(layer: Any, image: Any) -> str:
    """Say why the voxels of labels are not those of an image; "" where they are."""
    shape, wanted = _finest(layer).shape, level_shapes(image)[0][: image.ndim]
    name = _name_image(image)
    if tuple(shape) != tuple(wanted):
        size, other = (" x ".join(map(str, each)) for each in (shape, wanted))
        return f"They have {size} voxels, and {name} has {other}."
    place = np.linalg.solve(world_matrix(image), world_matrix(layer))
    moved = np.abs(place - np.eye(layer.ndim + 1))[:-1]
    if (moved @ (*shape, 1) > APART).any():
        return f"They are not at the place of {name}."
    return storage_problem(image)
