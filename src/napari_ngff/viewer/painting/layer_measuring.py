"""Measures the labels of one layer, and shows tables as its features."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError, OMEZarrError
from napari_ngff.plate.tables.files import read_tables
from napari_ngff.plate.tables.measure_labels import FieldTask, MeasureResult, measure
from napari_ngff.plate.tables.object_features import choose_columns
from napari_ngff.plate.tables.table import FIELD, LABEL, WELL, WellTable
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.viewer.layers.label_owners import TARGET, LabelTarget
from napari_ngff.viewer.plans.layer_plan import is_joined, layer_kind, origin_of
from napari_ngff.viewer.saving.layer_description import INDEX, JOINED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari.layers import Labels, Layer


UNSAVED = "Unsaved edits are not measured; save them first."
NOT_SAVED_YET = "These labels are in no file yet; save them first."


def read_objects(path: str) -> WellTable:
    """Read a table of the objects of one image.

    Raises
    ------
    CorruptDataError
        Where it has no column of labels, or rows of several fields.
    """
    table = read_tables(path, alone=True)[0]
    if LABEL not in table.frame.columns:
        raise CorruptDataError(
            f"{path} has no column label.", remedy="It names the label of each row."
        )
    places = [name for name in (WELL, FIELD) if name in table.frame.columns]
    count = len(table.frame[places].drop_duplicates())
    if count > 1:
        raise CorruptDataError(
            f"{path} has rows of {count:,} fields.",
            remedy="Load it in the browser of their plate.",
        )
    return table


def measure_saved(
    nodes: tuple[Node, Node], groups: Iterable[str], goes_on: Callable[[int, int], bool]
) -> MeasureResult | None:
    """Measure labels as they are saved, by the nodes of `nodes_of`; see `measure`.

    Parameters
    ----------
    groups
        Of columns, see `choose_columns`.
    """
    image, opened = nodes
    # Again: classes were added or renamed since the labels were opened.
    labels = read_node(opened.location, opened.zarr_format)
    task = FieldTask(choose_columns(groups))
    return measure(image, labels, goes_on=goes_on, task=task)


def is_measurable(layer: Layer) -> bool:
    """Return whether a layer shows labels of one image, or will once it is saved."""
    return unsaved_note(layer) == NOT_SAVED_YET or nodes_of(layer) is not None


def unsaved_note(layer: Layer) -> str:
    """Return a note on what measuring a layer leaves out; "" for nothing."""
    target: Any = layer.metadata.get(TARGET)
    is_new = isinstance(target, LabelTarget) and origin_of(layer) is None
    # New labels of an image, which no save has written.
    if is_new and None not in (target.node, target.order):
        return NOT_SAVED_YET
    return UNSAVED if getattr(layer, "unsaved", False) else ""


def nodes_of(layer: Layer) -> tuple[Node, Node] | None:
    """Return the image and the label image of a layer.

    None unless it shows saved labels of one image: the browser measures plates.
    """
    origin, target = origin_of(layer), layer.metadata.get(TARGET)
    if origin is None:
        return None
    image, picture = getattr(target, "node", None), origin.picture
    # Labels that were made in this window: their origin came with their first save.
    if image is not None:
        return image, origin.node
    if layer_kind(layer) != "labels" or picture is None or is_joined(picture):
        return None
    if picture.image is not None:
        return picture.image.node, picture.node
    with suppress(OMEZarrError, OSError):  # it may have no image
        # Labels that were opened alone: "labels/nuclei" is two groups below its image.
        return picture.node.child("../.."), picture.node
    return None


def join_features(layer: Labels, table: WellTable) -> None:
    """Add the columns of a table to the features of labels, by their ids.

    Columns that were joined before are removed. Joined columns are only displayed:
    they are not properties of the labels, and are not saved. If the labels have a
    column of the same name, the name of the table is put behind that of the new one.

    Parameters
    ----------
    layer
        Of labels.
    table
        Rows of its objects; of several rows with one id the first is used.
    """
    features = own_features(layer)
    rows = table.to_frame().drop(columns=[WELL, FIELD], errors="ignore")
    rows = rows.drop_duplicates(LABEL).rename(columns={LABEL: INDEX})
    taken = {
        c: f"{c} ({table.name})" for c in rows.columns if c in features and c != INDEX
    }
    rows = rows.rename(columns=taken)
    names = [column for column in rows.columns if column != INDEX]
    if INDEX not in features:
        # Without it the row is the label, as napari has it.
        features = features.assign(**{INDEX: range(len(features))})
    if rows[INDEX].dtype == "uint64":  # ids that int64 cannot hold
        features = features[features[INDEX] >= 0].astype({INDEX: "uint64"})
    # Outer: labels without a row keep their properties, and rows without properties are
    # added.
    _set_features(layer, features.merge(rows, on=INDEX, how="outer"), names)


def replace_own_features(layer: Labels, frame: Any) -> None:
    """Replace the features of labels, but for joined columns."""
    known = [c for c in layer.metadata.get(JOINED, ()) if c in layer.features]
    joined = [column for column in known if column not in frame]
    if not joined or INDEX not in frame:
        layer.features = frame
        return
    rows = layer.features[[INDEX, *joined]]
    if rows[INDEX].dtype == "uint64":  # ids that int64 cannot hold
        frame = frame[frame[INDEX] >= 0].astype({INDEX: "uint64"})
    _set_features(layer, frame.merge(rows, on=INDEX, how="outer"), joined)


def part_features(layer: Labels) -> None:
    """Remove joined columns."""
    if layer.metadata.get(JOINED):
        _set_features(layer, own_features(layer), [])


def own_features(layer: Labels) -> Any:
    """Return the features of a layer without joined columns."""
    joined = layer.metadata.get(JOINED, ())
    return layer.features.drop(columns=list(joined), errors="ignore")


def _set_features(layer: Labels, frame: Any, joined: list[str]) -> None:
    """Set features with joined columns, which is not a change that has to be saved."""
    saver = getattr(layer, "saver", None)
    description = saver.description if saver is not None else None
    clean = description is not None and not description.is_changed
    # Before the features are set: `LayerDescription` leaves these columns out by then.
    layer.metadata[JOINED] = tuple(joined)
    layer.features = frame
    if description is not None and clean:
        description.is_changed = False
