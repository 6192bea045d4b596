"""Labels of fields: to continue with, to save first, their states and their classes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error

from napari_ngff.errors import CorruptDataError, OMEZarrError
from napari_ngff.labels.field_states import STATES, TODO, FieldStates
from napari_ngff.labels.label_classes import LabelClass, classes_of, rename_class
from napari_ngff.labels.label_metadata import read_label_info, write_label_info
from napari_ngff.labels.places.sidecar import open_sidecars
from napari_ngff.labels.used_labels import StoredLabels
from napari_ngff.metadata.model import LabelInfo, Problem
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.viewer.browsing.positions import WELLS_ASKED, Position
from napari_ngff.viewer.layers.label_owners import (
    TARGET,
    LabelTarget,
    is_in_sidecar,
    is_own_node,
)
from napari_ngff.viewer.painting.attachment import rename_new
from napari_ngff.viewer.painting.brush import PAINTING
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import LabelChoices
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted_layers import level_source, why_read_only
from napari_ngff.viewer.plans.layer_plan import (
    LayerData,
    levels_in,
    origin_in,
    origin_of,
    picture_of,
)
from napari_ngff.viewer.services.notices import count_noun
from napari_ngff.viewer.services.window import Signal, Window

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.plate.arrangement import ScreenArrangements
    from napari_ngff.plate.plate_contents import PlateContents
    from napari_ngff.store.store import Store, Transaction
    from napari_ngff.viewer.browsing.shown_fields import Slot


@dataclass(frozen=True, slots=True)
class LabelsInUse:
    """Labels to continue with in the next field.

    Attributes
    ----------
    choices
        Name, level and type of new labels like these.
    look
        Tools and look of the layer, by attribute.
    is_active
        Whether their layer is the selected one.
    has_unsaved_classes
        Whether their classes are in no file, as those of new labels without a stroke.
    """

    choices: LabelChoices
    classes: tuple[LabelClass, ...] = ()
    look: dict[str, Any] = field(default_factory=dict)
    is_active: bool = False
    has_unsaved_classes: bool = False


def label_name(layer: Layer | None) -> str | None:
    """Return the name of labels in their file, whatever their layer is called.

    None for other layers, and for copies of labels, which are in no file.
    """
    if not isinstance(layer, OMEZarrLabels):
        return None
    if layer.saver is not None and layer.saver.is_copy:
        return None
    origin, target = origin_of(layer), layer.metadata.get(TARGET)
    if origin is not None:
        return origin.label_name
    if not isinstance(target, LabelTarget):
        return None
    try:
        return rename_new(layer.name, target.name)
    except ValueError:
        return target.name  # the first save reports it


def labels_in_use(
    viewer: ViewerModel, layer: Layer, image: Layer | None, look: dict[str, Any]
) -> LabelsInUse | None:
    """Return how to continue with labels in the next field; None if not in use.

    Parameters
    ----------
    layer
        Labels that were made in this window, painted, or selected with a tool that
        paints go along to the next field.
    image
        A channel of their image.
    look
        Tools and looks of the layer.
    """
    name = label_name(layer)
    if not isinstance(layer, OMEZarrLabels) or name is None or not layer.editable:
        return None
    is_active = viewer.layers.selection.active is layer
    target = layer.metadata.get(TARGET)
    # Labels that were only looked at stay with their field.
    is_painted = target is not None or layer.canvas.log.end > 0
    if not is_painted and not (is_active and layer.mode in PAINTING):
        return None
    kind, level = classes_of_layer(layer).kind, _level_of(layer, image)
    choices = LabelChoices(name, level, layer.canvas.dtype, kind=kind)
    if isinstance(target, LabelTarget):
        choices = replace(choices, level=target.level, sidecar=target.sidecar)
    elif (plan := picture_of(layer)) is not None and is_in_sidecar(plan):
        choices = replace(choices, sidecar=True)
    classes, saver = classes_of_layer(layer).items, layer.saver
    is_unsaved = (
        saver is not None and saver.is_unpainted and saver.journal.classes.unsaved
    )
    return LabelsInUse(choices, classes, look, is_active, is_unsaved)


def look_at_labels(
    layers: Mapping[Slot, LayerData], in_use: Mapping[Slot, LabelsInUse]
) -> dict[Slot, StoredLabels | None]:
    """Look at all pixels of labels whose file lacks a class in use, in a worker.

    The class must not get these pixels: see `LayerClasses.keep_classes`.
    """
    found = {}
    for slot in layers.keys() & in_use.keys():
        origin = origin_in(layers[slot][1]["metadata"])
        label = origin.picture.label if origin and origin.picture else None
        known = {item.name for item in classes_of(label or LabelInfo())}
        sources = [level_source(level) for level in levels_in(layers[slot])]
        lacking = {item.name for item in in_use[slot].classes} - known
        if lacking and not why_read_only(sources[0]):
            found[slot] = StoredLabels.of_arrays(sources)
    return found


def _level_of(layer: OMEZarrLabels, image: Layer | None) -> int:
    """Return the level of the image that is as large as the finest of the labels."""
    if image is None or not image.multiscale:
        return 0
    # By y and x: labels may lack other axes of the image.
    size = tuple(layer.canvas.shape[-2:])
    sizes = [tuple(map(int, shape[-2:])) for shape in image.level_shapes]
    return sizes.index(size) if size in sizes else 0


BEGUN = "in progress"

FIRST_NAME = "labels"
"""Name of the labels of a first round, unless others have labels of that name."""


class AnnotationStates:
    """States of the fields of a plate, a well or a collection; written in workers.

    Parameters
    ----------
    node
        Its group.

    Attributes
    ----------
    labels
        Name of the labels whose states are shown; "" for those annotated last.
    """

    changed = Signal()
    """Emitted in the main thread when the states were read, or one of them changed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.labels = ""
        self._states: FieldStates | None = None
        self._reading = threading.Lock()

    def read_states(self) -> FieldStates:
        """Read the states once.

        Raises
        ------
        CorruptDataError, OSError
            Where they cannot be read.
        """
        with self._reading:  # several workers may come first
            if self._states is None:
                self._states = FieldStates(self._node)
            return self._states

    def show_labels(self, name: str) -> None:
        """Show the states of other labels."""
        self.labels = name
        self.changed.emit()

    @property
    def shown_labels(self) -> str:
        """Name of the labels whose states are shown; "" where none is known."""
        newest = "" if self._states is None else self._states.newest_labels
        return self.labels or newest

    def state_of(self, key: str) -> str:
        """Return the state of a field; "to do" until the states are read."""
        if self._states is None:
            return TODO
        return self._states.state_of(key, self.shown_labels)

    def count_states(self, keys: Sequence[str]) -> dict[str, int]:
        """Count fields by state."""
        if self._states is None:
            return dict.fromkeys(STATES, 0) | {TODO: len(keys)}
        return self._states.count_states(keys, self.shown_labels)

    def list_begun(self) -> dict[str, dict[str, str]]:
        """Read the states of the fields that are begun: by well, and by their keys.

        Raises
        ------
        CorruptDataError, OSError
            Where the states cannot be read.
        """
        begun: dict[str, dict[str, str]] = {}
        states = self.read_states()
        for key, state in states.all_states(self.shown_labels).items():
            well, _, field = key.rpartition("/")
            if field and state != TODO:
                begun.setdefault(well, {})[key] = state
        return begun

    def next_to_do(self, keys: Sequence[str], after: str = "") -> str | None:
        """Find the next field that nobody has begun; after the last comes the first."""
        return self.read_states().next_to_do(keys, after, self.shown_labels)

    def begin_field(self, key: str, labels: str) -> None:
        """Note that a field is in progress for labels, unless it has another state."""
        self._write_state(key, BEGUN, TODO, labels)

    def set_state(self, key: str, state: str) -> None:
        """Note the state of a field; what cannot be written is reported."""
        self._write_state(key, state, None, self.shown_labels)

    def _write_state(
        self, key: str, state: str, only_from: str | None, labels: str
    ) -> None:
        def write_state() -> Exception | None:
            try:
                self.read_states().set_state(key, state, only_from, labels)
            except (OMEZarrError, OSError, ValueError) as error:
                return error
            return None

        def finish_write(error: Exception | None) -> None:
            if error is not None:
                show_error(f"The state is not saved.\nField {key}: {error}")
            self.changed.emit()

        Window.current.run_work(write_state, finish_write)


@dataclass(frozen=True, slots=True)
class WellStates:
    """The states of the fields of one well.

    Attributes
    ----------
    counts
        Number of fields by state; without those to do.
    total
        Number of fields of the well.
    """

    counts: Mapping[str, int]
    total: int

    @classmethod
    def of_field(cls, state: str | None) -> WellStates:
        """Give the state of one field; None where it is not known."""
        return cls({} if state in (None, TODO) else {str(state): 1}, 1)

    def share_of(self, state: str) -> float:
        """Return the share of fields in a state, 0-1."""
        return self.counts.get(state, 0) / max(1, self.total)

    @property
    def text(self) -> str:
        """The states as text, such as "4 fields: 1 done"."""
        parts = [f"{count} {state}" for state, count in self.counts.items()]
        fields = "1 field" if self.total == 1 else f"{self.total} fields"
        return f"{fields}: {', '.join(parts)}"


def find_annotated(
    arrangements: ScreenArrangements,
    places: Iterable[Position],
    name: str,
    last: str = "",
) -> tuple[str, LabelInfo]:
    """Find the labels that were annotated in some images, and what they say of them.

    At most `WELLS_ASKED` images are looked at, and the sidecars beside them.

    Parameters
    ----------
    name
        Of the labels; "" for own ones: those annotated last, or the first that have
        classes, the newest labels of an image first. Without any own labels, it is a
        name that others do not have.
    last
        Name of the labels annotated last, which may be of others.

    Returns
    -------
    name
        Of the labels in each field; "" for none.
    info
        Of the first field whose labels have classes; with a name also a kind alone.
    """
    screen, newest = arrangements.screen, ""
    others: set[str] = set()
    for position in itertools.islice(places, WELLS_ASKED):
        try:
            nodes, _ = labels_at(image_at(screen, position))
            home = screen.node.location.source.name
            own = [
                one
                for one, node in nodes.items()
                # Labels in sidecars are copies of the user.
                if node.location.source.name != home or is_own_node(node)
            ]
            others.update(nodes.keys() - own)
            name = name or last * (last in own)
            for each in (name,) if name else reversed(own):
                found = read_label_info(nodes[each]) if each in nodes else LabelInfo()
                if classes_of(found) or (name and found.kind):
                    return each, found
                newest = newest or each
        except (OMEZarrError, OSError):
            continue
    if name:
        return name, LabelInfo()
    names = (FIRST_NAME, *(f"{FIRST_NAME}-{n + 2}" for n in range(len(others))))
    return newest or next(x for x in names if x not in others), LabelInfo()


def image_at(screen: PlateContents, position: Position) -> Node:
    """Open the image of a field by its document.

    Raises
    ------
    OMEZarrError, OSError
        Where it cannot be read.
    """
    location = screen.location_of(position.well, position.field)
    return read_node(location, screen.node.zarr_format)


def labels_at(image: Node) -> tuple[dict[str, Node], tuple[Problem, ...]]:
    """Open the label images of a field by their documents, as they are shown.

    Returns
    -------
    dict
        Those that can be read, by name.
    tuple
        Problems of the others.
    """
    opened = image.labels()
    nodes = {label.name: label for label in opened.nodes}
    # Labels of a sidecar are shown in place of those of the image.
    return nodes | open_sidecars(image).labels, opened.problems


Begin = Callable[["Store"], "Transaction"]
"""Gives the transaction of a source, the same at each call."""


@dataclass(slots=True)
class ChangedFields:
    """What became of the fields whose metadata were to be changed.

    Attributes
    ----------
    changed
        Fields that are as they shall be now.
    unchanged
        Fields in which that cannot be, and which stay as they were.
    failures
        Why a field cannot be read or written.
    """

    changed: list[Position] = field(default_factory=list)
    unchanged: list[Position] = field(default_factory=list)
    failures: dict[Position, str] = field(default_factory=dict)

    def show_failures(self, name_field: Callable[[Position], str], what: str) -> None:
        """Show the failures, if there are any; `what` is such as "Not renamed"."""
        names = (name_field(position) for position in self.failures)
        reasons = map(": ".join, zip(names, self.failures.values(), strict=True))
        count = count_noun(len(self.failures), "field")
        Window.current.show_messages(tuple(reasons), f"{what} in {count}.")


def change_fields(
    screen: PlateContents,
    positions: Sequence[Position],
    change: Callable[[Node, Begin], bool | None],
    goes_on: Callable[[int, int], bool],
) -> ChangedFields:
    """Change the metadata of many fields, one document after the other.

    Parameters
    ----------
    change
        Called with the image of a field, and with what gives the transaction of a
        source. Returns whether the field is as it shall be; None if it has nothing to
        change.
    goes_on
        Called with the number of fields that are done, and of all; returns whether to
        continue. If not, the other fields stay as they are.

    Raises
    ------
    OMEZarrError, OSError
        Where an archive, which is written as a whole, cannot be written.
    """
    result = ChangedFields()
    # One for each hierarchy: labels may be in the plate and in sidecars.
    transactions: dict[str, Transaction] = {}

    def begin(source: Store) -> Transaction:
        if source.name not in transactions:
            transactions[source.name] = source.begin()
        return transactions[source.name]

    for number, position in enumerate(positions):
        if not goes_on(number, len(positions)):
            break
        try:
            changed = change(image_at(screen, position), begin)
        except (OMEZarrError, OSError) as error:
            result.failures[position] = str(error)
            continue
        if changed is not None:
            (result.changed if changed else result.unchanged).append(position)
    for transaction in transactions.values():
        transaction.commit()
    return result


def rename_in_field(
    labels: str, names: tuple[str, str], image: Node, begin: Begin
) -> bool | None:
    """Rename a class in the labels of a field; see `change_fields`.

    A field that has classes of both names keeps them.

    Parameters
    ----------
    labels
        Name of the label image in each field.
    names
        Of the class: before, and from now on.
    """
    nodes, problems = labels_at(image)
    node = nodes.get(labels)
    if node is None:
        broken = ("labels:", f"labels/{labels}:")
        for problem in problems:
            if problem.where.endswith(broken):
                raise CorruptDataError(problem.text)
        return None
    info = read_label_info(node)
    new = rename_class(info, *names)
    if new is None:
        return False if set(names) <= {item.name for item in classes_of(info)} else None
    write_label_info(node, new, begin(node.location.source))
    return True
