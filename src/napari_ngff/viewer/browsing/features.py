"""Tables of objects beside the labels of a layer: columns of its features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_ngff.plate.tables.measuring import FieldPath
from napari_ngff.plate.tables.table import FIELD, LABEL, WELL
from napari_ngff.viewer.picture import KEY, LayerOrigin
from napari_ngff.viewer.saving.description import INDEX, JOINED

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Labels

    from napari_ngff.plate.tables.table import Table
    from napari_ngff.viewer.browsing.browser import Browser

__all__ = [
    "join_features",
    "join_table",
    "labels_shown",
    "names_shown",
    "part_features",
]


def labels_shown(
    viewer: ViewerModel | None, browser: Browser, name: str = ""
) -> list[tuple[Labels, FieldPath]]:
    """Find the labels of what is shown, each with the field that it belongs to.

    They belong to several fields where several acquisitions are shown.

    Parameters
    ----------
    name
        Of the labels; "" for any.
    """
    position = browser.position
    if viewer is None or position is None:
        return []
    found: list[tuple[Labels, FieldPath]] = []
    root = browser.node.location.joined(position.well or "").path
    for layer in viewer.layers:
        origin = layer.metadata.get(KEY)
        mine = layer._type_string == "labels" and browser.owns(layer)
        if mine and isinstance(origin, LayerOrigin):
            picture = origin.picture
            image = picture.image if picture is not None else None
            image_path = image.node.location.path if image is not None else ""
            field = image_path.removeprefix(root).strip("/") or position.field
            if name in ("", origin.node.name):
                found.append((layer, FieldPath(position.well, field)))
    return found


def names_shown(viewer: ViewerModel | None, browser: Browser) -> tuple[str, ...]:
    """List the names of the labels that are shown, but for those of sidecars: these are
    not in the fields, where labels to measure are looked for.
    """
    root = browser.node.location.source.name
    nodes = [layer.metadata[KEY].node for layer, _ in labels_shown(viewer, browser)]
    names = (n.name for n in nodes if n.location.source.name == root)
    return tuple(dict.fromkeys(names))


def join_table(
    viewer: ViewerModel | None, browser: Browser, table: Table | None
) -> None:
    """Show what a table says of the objects of the labels that are shown."""
    is_told = table is not None and LABEL in table.frame.columns
    for layer, place in labels_shown(viewer, browser):
        part_features(layer)
        origin = layer.metadata[KEY]
        if table is not None and is_told and table.region in ("", origin.node.name):
            rows = table.of_field(place.well or "", place.field)
            if len(rows):
                join_features(layer, rows)


def join_features(layer: Labels, table: Table) -> None:
    """Show the columns of a table as features of labels, by their ids.

    What was joined before goes. Joined columns are seen in the window alone: they are
    no properties of the labels, and saving leaves them out. A column that the labels
    have of their own gets the name of the table behind its name.

    Parameters
    ----------
    layer
        Of labels.
    table
        Rows of its objects; of several with one id the first counts.
    """
    features = own_features(layer)
    rows = table.frame.drop(columns=[WELL, FIELD], errors="ignore")
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
    _set(layer, features.merge(rows, on=INDEX, how="outer"), names)


def part_features(layer: Labels) -> None:
    """Take away what was joined."""
    if layer.metadata.get(JOINED):
        _set(layer, own_features(layer), [])


def own_features(layer: Labels) -> Any:
    """Give the features of a layer without those that were joined."""
    joined = layer.metadata.get(JOINED, ())
    return layer.features.drop(columns=list(joined), errors="ignore")


def _set(layer: Labels, frame: Any, joined: list[str]) -> None:
    """Set features; that is no change of the labels that would have to be saved."""
    saver = getattr(layer, "saver", None)
    description = saver.description if saver is not None else None
    clean = description is not None and not description.changed
    layer.metadata[JOINED] = tuple(joined)
    layer.features = frame
    if description is not None and clean:
        description.overlook()
