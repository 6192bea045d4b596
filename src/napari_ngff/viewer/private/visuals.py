"""How napari (0.9 and 0.10) draws overlays, and controls layers; imported with Qt."""

from __future__ import annotations

from typing import Any

from napari_ngff.viewer.private.lost import import_private, tells_missing

NAMES = "Names of wells are not drawn."
CONTROLS = "Save is missing in the layer controls."
OUTLINES = "Polygons may be drawn in the wrong place."

SceneVisual = import_private("napari._vispy.overlays.base:VispySceneOverlay", NAMES)
Text = import_private("napari._vispy.visuals.text:Text", NAMES)
PolygonVisual = import_private(
    "napari._vispy.overlays.labels_polygon:VispyLabelsPolygonOverlay", OUTLINES
)
RingVisual = import_private(
    "napari._vispy.overlays.labels_brush_stroke:VispyLabelsBrushStrokeOverlay", OUTLINES
)
LabelsControls = import_private(
    "napari._qt.layer_controls.qt_labels_controls:QtLabelsControls", CONTROLS
)


def draw_by(overlay: type[Any], visual: type[Any], what: str) -> bool:
    """Have a visual of ours draw a kind of overlay of ours.

    Parameters
    ----------
    what
        Sentence that says what is not drawn, or badly, without it.

    Returns
    -------
    bool
        False where napari lacks names that the visual relies on; that is told.
    """
    visuals = import_private("napari._vispy.utils.visual:overlay_to_visual", what)
    if tells_missing(what, visual) or not isinstance(visuals, dict):
        return False
    visuals[overlay] = visual
    return True


def control_by(layer: type[Any], controls: type[Any]) -> None:
    """Have a kind of layer of ours controlled by a widget of ours."""
    known = import_private(
        "napari._qt.layer_controls.qt_layer_controls_container:layer_to_controls",
        CONTROLS,
    )
    if not tells_missing(CONTROLS, controls) and isinstance(known, dict):
        known[layer] = controls
