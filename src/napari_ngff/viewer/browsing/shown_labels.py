"""The labels on screen of a browser, and the rows of a table as their features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.plate.tables.measure_labels import FieldPath
from napari_ngff.plate.tables.table import LABEL
from napari_ngff.viewer.annotations.annotations import annotations_of
from napari_ngff.viewer.annotations.table_annotation import list_tables
from napari_ngff.viewer.painting.layer_measuring import (
    join_features,
    join_measured,
    part_features,
)
from napari_ngff.viewer.plans.layer_plan import KEY, layer_kind, origin_of

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Labels

    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.viewer.browsing.browser import Browser


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
    labels: list[tuple[Labels, FieldPath]] = []
    root = browser.node.location.join_path(position.well or "").path
    for layer in viewer.layers:
        origin = origin_of(layer)
        is_label = layer_kind(layer) == "labels" and browser.layers.owns_layer(layer)
        if is_label and origin is not None:
            picture = origin.picture
            image = picture.image if picture is not None else None
            image_path = image.node.location.path if image is not None else ""
            field = image_path.removeprefix(root).strip("/") or position.field
            if name in ("", origin.label_name):
                labels.append((layer, FieldPath(position.well, field)))
    return labels


def names_shown(viewer: ViewerModel | None, browser: Browser) -> tuple[str, ...]:
    """List the names of the labels that are shown, but for those of sidecars: these are
    not in the fields, where labels to measure are looked for.
    """
    root = browser.node.location.source.name
    nodes = [layer.metadata[KEY].node for layer, _ in labels_shown(viewer, browser)]
    names = (n.name for n in nodes if n.location.source.name == root)
    return tuple(dict.fromkeys(names))


def join_table(
    viewer: ViewerModel | None, browser: Browser, table: WellTable | None
) -> None:
    """Show the rows of a table as features of the labels on screen."""
    has_objects = table is not None and LABEL in table.frame.columns
    kept = [] if viewer is None else list_tables(annotations_of(viewer))
    for layer, field_path in labels_shown(viewer, browser):
        # Rows of the field before must not stay, whether or not this one has some.
        part_features(layer)
        origin = layer.metadata[KEY]
        regions = "", origin.label_name
        if table is not None and has_objects and table.region in regions:
            rows = table.of_field(field_path.well or "", field_path.field)
            if len(rows):
                join_features(layer, rows)
                continue
        # What the form has measured stays, until the field is left.
        for measured in kept:
            if measured.is_of(layer):
                join_measured(layer, measured.frame)
