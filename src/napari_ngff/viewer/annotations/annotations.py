"""Annotations: work of a person that belongs to an image and can be unsaved.

How to add a kind is in docs/design/016-annotations.md.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.services.window import Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from napari.components import ViewerModel
    from psygnal import SignalInstance

    from napari_ngff.store.hierarchy.node import Node

KEEPS = "'Keep for later' lets you restore them next time."


@dataclass(frozen=True, slots=True)
class AnnotationState:
    """What there is to save of an annotation at one moment.

    Attributes
    ----------
    unsaved
        Whether the file lacks anything.
    running, fraction
        Whether a save runs, and the part of it that is done, 0 to 1.
    drawn
        Whether a stroke of it is being drawn, which no save must cut.
    restored
        Whether it was restored after a crash, and has not been saved since.
    goes_along
        Whether it goes on with the next field, so that nothing is saved in this one.
    takes_key
        Whether Ctrl+S is for it, while its layer is selected if it has one.
    with_image
        Whether only *Save as…* saves it, together with its image.
    asks_name
        Whether a save asks how it shall be called, or whether it is wanted: nothing
        saves it but the user.
    subject
        What is annotated; another one when the layer shows another field.
    version
        Equal as long as nothing is changed.
    keeps
        How the user restores what is kept for later; "" where it cannot be kept.
    remarks
        Sentences for the question whether to save it; "{}" stands for the names of all
        annotations with the same sentence.
    """

    unsaved: bool
    running: bool = False
    fraction: float = 0.0
    drawn: bool = False
    restored: bool = False
    goes_along: bool = False
    takes_key: bool = True
    with_image: bool = False
    asks_name: bool = False
    subject: object = None
    version: object = None
    keeps: str = KEEPS
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ImageCopy:
    """An image that is, or whose labels are, to be in a new file.

    Attributes
    ----------
    node
        The `Node` of the image; None where that is of no OME-Zarr.
    labels
        Name of each of its label images that is saved -> its name in the new file.
    axes
        Of the new image, but for channels, each with its unit or ""; empty where they
        are in another order than those of the layers, or without an image.
    to_file, to_voxels
        Homogeneous, from the world less the affine of the image to coordinates of the
        new file, and to voxels; None where the new file has labels only.
    is_scaled
        Whether its voxels have another size, or unit, than in the file that it is from.
    """

    node: Any
    labels: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    to_file: Any = None
    to_voxels: Any = None
    is_scaled: bool = True


@dataclass(slots=True, eq=False)
class CopiedPart:
    """Something that goes along with an image into a new file, or beside it.

    Attributes
    ----------
    title
        For people, such as "points 'spots'".
    make
        Called in a worker with the version of the new file; returns path -> content.
    save_into
        Called after that with the image in the new file, which then has its tables.
    beside
        Ending of the folder beside the new file that has it; "" for the new file.
    layer
        The layer that it is seen in; None for none.
    failure
        Why it was not written; "" where it was, or before.
    """

    title: str
    make: Callable[[str], Mapping[str, bytes]] = lambda _: {}
    save_into: Callable[[Node], object] = lambda _: None
    beside: str = ""
    layer: Any = None
    failure: str = ""


class Annotation(ABC):
    """One piece of work of a person; each kind is a subclass.

    Parameters
    ----------
    owner
        The annotations of its viewer.
    layer
        What it is seen in; None for a table, which is in no layer of its own.

    Attributes
    ----------
    asks_for_file
        Whether a save asks for a file. Ctrl+S leaves layers that need one to napari.
    asked_apart
        Whether the question before it goes away is one of its own: who wants the labels
        may not want an older table of them.
    """

    asks_for_file = False
    asked_apart = False

    def __init__(self, owner: Annotations, layer: Any = None) -> None:
        self.owner = owner
        # Weak: of a layer that is dropped, nothing is asked.
        self._layer = (lambda: None) if layer is None else weakref.ref(layer)

    @classmethod
    def attach(cls, owner: Annotations, layer: Any) -> None:
        """Add the annotation that a layer is, or those of the image that it shows.

        Called when it was added to the viewer, and when it shows another image.
        """

    @property
    def layer(self) -> Any:
        """The layer; None where there is none, or none any more."""
        return self._layer()

    @property
    def name(self) -> str:
        """Name of the annotation, unique in its image."""
        return str(self.layer.name)

    @property
    def image(self) -> str:
        """Its image for people: "B3 - field 2" or "cells.ome.zarr"; "" for none."""
        return ""

    @property
    def title(self) -> str:
        """The annotation for people, where it is asked about alone."""
        return f"'{self.name}' of {self.image}"

    @property
    def description(self) -> str:
        """A sentence that it is not saved."""
        return f"{self.title[:1].upper()}{self.title[1:]}: not saved."

    @property
    def is_over(self) -> bool:
        """Whether there is no such annotation any more."""
        return False

    @property
    @abstractmethod
    def state(self) -> AnnotationState:
        """What there is to save now, and how far a save is."""

    @property
    def unsaved(self) -> bool:
        """Whether the file lacks anything."""
        return self.state.unsaved

    @property
    def running(self) -> bool:
        """Whether a save runs."""
        return self.state.running

    @property
    def fraction(self) -> float:
        """Part of the save that is done, 0 to 1."""
        return self.state.fraction

    @property
    def ended(self) -> Sequence[SignalInstance]:
        """Signals of which one is emitted when a save has ended."""
        return ()

    @property
    def archive(self) -> Path | None:
        """The archive of which each save writes everything; None for none."""
        return None

    def goes_with(self, layers: Iterable[Any]) -> bool:
        """Return whether it goes away with some layers, or with what they show."""
        return any(layer is self.layer for layer in layers)

    def call_after_stroke(self, done: Callable[[], None]) -> None:
        """Call a function when the stroke that is drawn now is whole."""
        done()

    @abstractmethod
    def save(self, *, quiet: bool = False) -> None:
        """Begin to save it; `running` is True until that has ended.

        Parameters
        ----------
        quiet
            True for a save that the user did not ask for: nothing is asked then.
        """

    def cancel(self) -> None:
        """Stop a save that runs."""

    def prepare_keep(self) -> None:
        """Begin what makes it possible to keep it; `running` is True until then."""

    def may_keep(self) -> bool:
        """Return whether it is on the disk to be restored; else the user is told."""
        return True

    def plan_leave(self, *, keep: bool) -> None:
        """Note what is done if its window closes: it may still refuse to."""

    def leave(self, *, keep: bool) -> None:
        """Stop following it: keep for later what is unsaved, or discard that."""

    def note_written(self) -> None:
        """Note that the user has saved it by napari, in another file."""

    def plan_copy(self, copy: ImageCopy) -> CopiedPart | str | None:
        """Plan what a copy of its image has of it, which counts as no save.

        Returns
        -------
        CopiedPart, str or None
            A text where the copy cannot have it: why, or "". None for nothing to copy.
        """
        return ""

    def follow_field(self) -> None:
        """Go away if the image is not on screen any more: another field is."""

    def note_removed(self) -> None:
        """Note that its layer was removed from the viewer."""


class Annotations:
    """The annotations of one viewer.

    Parameters
    ----------
    viewer
        Theirs.
    kinds
        Of annotations, in the order in which they may take a layer.

    Attributes
    ----------
    viewer, kinds
        See above.
    has_images
        Whether the viewer had an image of ours.
    selected_before
        The layer that was selected when the newest one was added.
    title_of, position_of
        Name the field that a layer shows or belongs to, "" for none; and identify it,
        None for none.
    browsed
        Address of the plate or collection that is browsed; "" for none.
    saved_files
        Files by kind and name of annotations, and the number of things in them, until
        all saves of that name have ended: then the user is told.
    """

    changed = Signal()
    """Emitted when any may have become unsaved, or saved."""

    strokes_saved = Signal(object)
    """Emitted with the `JournalSubject` of labels of which strokes were saved."""

    table_saved = Signal(object)
    """Emitted with the `TableAnnotation` that its images have now."""

    removed = Signal(object)
    """Emitted with a layer that is removed with unsaved work, which is kept."""

    def __init__(self, viewer: ViewerModel, kinds: Sequence[type[Annotation]]) -> None:
        self.viewer, self.kinds = viewer, kinds
        self._all: list[Annotation] = []
        self.has_images, self.selected_before = False, None
        self.title_of: Callable[[Any], str] = lambda _: ""
        self.position_of: Callable[[Any], object] = lambda _: None
        self.browsed = ""
        self.saved_files: dict[tuple[object, str], list[tuple[int, str]]] = {}

    def follow_fields(self) -> None:
        """Follow what all layers show now, as other fields are on screen."""
        for annotation in self:
            annotation.follow_field()
        for layer in tuple(self.viewer.layers):
            self.attach(layer)

    def __iter__(self) -> Iterator[Annotation]:
        self._all = [each for each in self._all if not each.is_over]
        # One that goes may take others along: these are not followed any more.
        return (each for each in tuple(self._all) if each in self._all)

    def note_change(self, _: Any = None) -> None:
        """Tell that an annotation may have become unsaved, or saved."""
        self.changed.emit()

    def attach(self, layer: Any) -> None:
        """Follow a layer that was added, or that shows another image now."""
        for kind in self.kinds:
            kind.attach(self, layer)
        self.changed.emit()

    def add(self, annotation: Annotation) -> None:
        """Follow an annotation."""
        self._all.append(annotation)
        self.changed.emit()

    def remove(self, annotation: Annotation) -> None:
        """Follow an annotation no longer."""
        self._all.remove(annotation)
        self.changed.emit()

    def remove_layer(self, layer: Any) -> None:
        """Follow the annotations of a layer no longer, since it was removed."""
        for each in self:
            if each.layer is layer:
                self.remove(each)
                each.note_removed()
            elif each.layer is None:
                each.follow_field()

    def of_layer(self, layer: Any) -> Annotation | None:
        """Return the annotation that a layer shows; None for none."""
        return next((x for x in self if layer is not None and x.layer is layer), None)

    def list_unsaved(self, layers: Iterable[Any] | None = None) -> list[Annotation]:
        """List what is not saved and goes away with layers, or with the whole window.

        With the window, that includes what is only in memory, such as points on images
        of OME-Zarr; layers are removed without a question about it.
        """
        known = None if layers is None else list(layers)
        return [x for x in self if (known is None or x.goes_with(known)) and x.unsaved]

    def list_savable(self) -> list[Annotation]:
        """List what is not saved, has a place in a file, and is saved by Ctrl+S."""
        own = (x for x in self if x.layer is None or not x.asks_for_file)
        return [x for x in own if (known := x.state).unsaved and known.takes_key]

    def choose_to_save(self, layer: Any) -> list[Annotation] | None:
        """List what Ctrl+S saves while a layer is selected; None to leave it to napari.

        The annotation of that layer, unless only others are unsaved; what was restored
        and what is in no layer; or all if it has none. With one that needs a file
        together with its image, all that do. No file is asked for while the layer has
        something to save.
        """
        chosen, unsaved = self.of_layer(layer), self.list_savable()
        if chosen is not None and chosen.unsaved:
            unsaved = [x for x in unsaved if not x.asks_for_file]
        if chosen is None or chosen.asks_for_file:
            running = [] if chosen else [x for x in self if x.running]
            return unsaved or running or None
        state = chosen.state
        if not state.takes_key:
            return None
        alike = state.unsaved and state.with_image
        states = {x: x.state for x in unsaved if x is not chosen}
        others = [
            x
            for x, s in states.items()
            if s.restored or x.layer is None or (alike and s.with_image)
        ]
        return others if others and not state.unsaved else [chosen, *others]
