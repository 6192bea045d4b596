"""Saves the labels of a field before another field takes its place on screen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer import frontend, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.components import ViewerModel

    from napari_ngff.viewer.painting.canvas_labels import CanvasLabels
    from napari_ngff.viewer.saving.report import SaveResult
    from napari_ngff.viewer.saving.saver import LayerSaver

__all__ = ["save_before_leaving"]


def save_before_leaving(
    viewer: ViewerModel, layers: Sequence[Any], answer: Callable[[bool], None]
) -> None:
    """Save labels, or ask what to do with them; no stroke is left in the wrong field.

    With the preference *Save automatically when moving on* they are saved in silence.
    Without it, or where that fails, the user is asked.

    Parameters
    ----------
    viewer
        Has the layers.
    layers
        Of labels.
    answer
        Called in the main thread, at once or later: whether the field may be left.
    """
    drawn = [layer for layer in layers if getattr(layer, "painting", False)]
    if drawn and frontend.can_ask(viewer):
        # The stroke that is being drawn belongs to the image on screen, to its end.
        call_after_stroke(
            drawn[0], partial(save_before_leaving, viewer, layers, answer)
        )
        return
    painted = [layer for layer in layers if getattr(layer, "saver", None) is not None]
    savers = [layer.saver for layer in painted]
    unsaved = [layer for layer in painted if layer.unsaved]
    if not (unsaved and settings.saves_when_moving_on()):
        call_after_saves(savers, lambda: answer(frontend.settle(viewer, layers)))
        return
    saved_until = {layer: layer.canvas.version for layer in unsaved}

    def check_saved() -> None:
        failed = [layer for layer in unsaved if layer.unsaved]
        if any(layer.canvas.version != saved_until[layer] for layer in failed):
            save_before_leaving(viewer, layers, answer)  # painted on meanwhile
        elif failed and not frontend.can_ask(viewer):
            names = ", ".join(layer.name for layer in failed)
            reason = "Fix the problem, or remove these labels to continue."
            frontend.show((f"{names}: {reason}",), "Labels not saved: the field stays.")
            answer(False)
        else:
            answer(frontend.settle(viewer, layers))

    for saver in (layer.saver for layer in unsaved):
        saver.save(quiet=True)
    call_after_saves(savers, check_saved)


def call_after_stroke(layer: CanvasLabels, done: Callable[[], None]) -> None:
    """Call a function in the main thread when a stroke has ended."""

    def check_ended() -> None:
        layer.stroke_ended.disconnect(check_ended)
        # Not yet: napari is still busy with the stroke.
        frontend.run(lambda: None, lambda _: done())

    layer.stroke_ended.connect(check_ended)


def call_after_saves(savers: Sequence[LayerSaver], done: Callable[[], None]) -> None:
    """Call a function when no save of some layers is running, at once if none is."""

    def check_ended(_: SaveResult | None = None) -> None:
        if not any(saver.running for saver in savers):
            for saver in savers:
                saver.saved.disconnect(check_ended, missing_ok=True)
                saver.failed.disconnect(check_ended, missing_ok=True)
            done()

    for saver in savers:
        saver.saved.connect(check_ended)
        saver.failed.connect(check_ended)
    check_ended()
