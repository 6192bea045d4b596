"""Measures the labels of one layer, in a worker."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.plate.tables.files import write_frame
from napari_ngff.plate.tables.measuring import measure
from napari_ngff.plate.tables.table import WELL, tabulate
from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.features import join_features
from napari_ngff.viewer.picture import KEY, LayerOrigin, is_joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.layers import Layer

    from napari_ngff.store.hierarchy.node import Node

__all__ = ["LayerMeasuring", "nodes_of"]


class LayerMeasuring:
    """Measures once, as the labels are saved; what is found becomes features.

    Parameters
    ----------
    layer
        Labels of an OME-Zarr.
    ended
        Called in the main thread, unless it was cancelled.

    Attributes
    ----------
    done, total
        How many blocks are measured; set by the worker.
    frame
        A pandas.DataFrame, see `LabelledImage.frame`; None until it is there.
    error
        Why there is none; "" where there is.

    Raises
    ------
    UnsupportedError
        Where the layer is no label image of a single image.
    """

    def __init__(self, layer: Layer, ended: Callable[[], None]) -> None:
        self._nodes = nodes_of(layer)
        self._layer = weakref.ref(layer)
        self._ended = ended
        self._cancelled = False
        self.name = layer.name
        self.done = self.total = 0
        self.frame: Any = None
        self.error = ""

    def start(self) -> None:
        """Begin."""
        frontend.run(self._work, self._finish)

    def cancel(self) -> None:
        """Give up after the blocks that were begun."""
        self._cancelled = True

    def save(self, path: str, told: Callable[[str], None]) -> None:
        """Write what was found, in a worker: CSV, or Parquet where the name ends so.

        Parameters
        ----------
        told
            Called in the main thread with a sentence on how that went.
        """

        def work() -> str:
            write_frame(self.frame, path)
            return f"Saved in {path}."

        frontend.run(partial(frontend.attempt, work), told)

    def _goes_on(self, done: int, total: int) -> bool:
        self.done, self.total = done, total
        return not self._cancelled

    def _work(self) -> Any:
        image, labels = self._nodes
        work = partial(measure, image, labels, goes_on=self._goes_on)
        return frontend.attempt(work)

    def _finish(self, found: Any) -> None:
        if self._cancelled or found is None:
            return
        if isinstance(found, str):
            self.error = found
        else:
            self.frame = found.frame
            layer: Any = self._layer()
            if layer is not None:
                join_features(layer, tabulate(found.frame, "measured", {WELL: ""}))
        self._ended()


def nodes_of(layer: Layer) -> tuple[Node, Node]:
    """Find the image and the label image that a layer of labels shows.

    Raises
    ------
    UnsupportedError
        Where it shows none, or many.
    """
    origin = layer.metadata.get(KEY)
    picture = origin.picture if isinstance(origin, LayerOrigin) else None
    if layer._type_string != "labels" or picture is None or is_joined(picture):
        msg = (
            f"{layer.name} is not a saved label image of a single OME-Zarr image."
            " Plates and wells are measured in the browser."
        )
        raise UnsupportedError(msg)
    if picture.image is not None:
        return picture.image.node, picture.node
    try:
        image = picture.node.child("../..")
    except (OMEZarrError, OSError) as error:
        msg = f"The image of {layer.name} was not found: {error}"
        raise UnsupportedError(msg) from error
    return image, picture.node
