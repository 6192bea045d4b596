"""One viewer's OME-Zarr layers: what is done to them once they are there; no Qt.

Docks call the session's methods and listen to its signals.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from psygnal import Signal

from napari_ngff.viewer import frontend
from napari_ngff.viewer.alignment import save_alignment
from napari_ngff.viewer.contrast import estimate_contrast
from napari_ngff.viewer.graphics import make_current
from napari_ngff.viewer.moving import (
    host,
    learn_systems,
    move,
    remade,
    shown_system,
)
from napari_ngff.viewer.painting.volumes import bring_back, fit_volumes
from napari_ngff.viewer.picture import KEY, LayerOrigin, is_joined
from napari_ngff.viewer.settings import PLUGIN
from napari_ngff.viewer.views import choices

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.components import ViewerModel
    from napari.layers import Image, Layer

    from napari_ngff.metadata.model import Reference
    from napari_ngff.store.node import Node
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.folder import ImageFolder
    from napari_ngff.viewer.picture import LayerData, Picture

__all__ = ["Session", "session_of"]


class Session:
    """The OME-Zarr layers of one viewer.

    A layer that is added and has a `LayerOrigin` gets its contrast range, its contrast
    where the file gives none, and the first one its place on the sliders.
    """

    system_shown = Signal(object)
    """Emitted with the `Reference` of the coordinate system that layers moved to."""

    browsing = Signal(object)
    """Emitted with the `Browser` of a plate, a well or a collection that was opened, or
    with an `ImageFolder`."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = weakref.ref(viewer)
        self.browser: Browser | None = None
        self.folder: ImageFolder | None = None
        viewer.layers.events.inserted.connect(self._on_inserted)
        viewer.layers.events.removing.connect(self._on_removing)
        viewer.dims.events.ndisplay.connect(self._on_ndisplay)

    def _on_ndisplay(self, event: Any = None) -> None:
        viewer = self._viewer()
        if viewer is not None:
            bring_back(viewer)
            fit_volumes(viewer)

    def _on_removing(self, event: Any = None) -> None:
        viewer = self._viewer()
        if viewer is not None:
            make_current(viewer)

    def _on_inserted(self, event: Any) -> None:
        layer = event.value
        viewer = self._viewer()
        if viewer is not None and hasattr(layer, "saver"):
            frontend.welcome(viewer, layer)
        origin = layer.metadata.get(KEY)
        if isinstance(origin, LayerOrigin):
            self.adopt(layer, origin)

    def adopt(self, layer: Layer, origin: LayerOrigin) -> None:
        """Finish a layer that was just added."""
        viewer = self._viewer()
        if viewer is not None and len(viewer.layers) == 1:
            for axis, coordinate in origin.start:
                viewer.dims.set_point(axis, coordinate)
        if layer._type_string != "image":
            return
        window = origin.contrast
        if window is not None and window.min is not None and window.max is not None:
            low, high = layer.contrast_limits
            layer.contrast_limits_range = min(window.min, low), max(window.max, high)
            layer.contrast_limits = low, high
        if origin.estimate:
            self._estimate(layer)

    def browse(self, node: Node) -> Browser:
        """Walk a plate, a well or a collection from now on; shows nothing yet.

        The same node again gives the same browser.
        """
        from napari_ngff.viewer.browsing.browser import Browser

        viewer = self._viewer()
        assert viewer is not None
        if self.browser is None or str(self.browser.node) != str(node):
            self.browser = Browser(viewer, node)
        self.folder = None
        self.browsing.emit(self.browser)
        frontend.show_browser(viewer)
        return self.browser

    def browse_folder(self, folder: ImageFolder) -> None:
        """List the images of a plain folder; opens none yet."""
        viewer = self._viewer()
        assert viewer is not None
        self.folder = folder
        self.browsing.emit(folder)
        frontend.show_browser(viewer)

    def systems(self) -> dict[Reference, tuple[str, ...]]:
        """List the coordinate systems in which layers of the viewer can be shown.

        Returns
        -------
        dict
            For each system the names of the images that cannot come along. Plates and
            wells, which join many images, have none to choose.
        """
        viewer = self._viewer()
        images: dict[str, Picture] = {}
        for layer in viewer.layers if viewer is not None else ():
            origin = layer.metadata.get(KEY)
            image = host(origin) if isinstance(origin, LayerOrigin) else None
            if image is not None and not is_joined(image):
                images.setdefault(str(image.node), image)
        names = [image.name for image in images.values()]
        return {
            system: tuple(n for n, ok in zip(names, reached, strict=True) if not ok)
            for system, reached in choices(images.values()).items()
        }

    def system_of(self, layer: Layer | None) -> Reference | None:
        """Return the system in which a layer is shown; None for layers of others."""
        origin = layer.metadata.get(KEY) if layer is not None else None
        return shown_system(origin) if isinstance(origin, LayerOrigin) else None

    def show_system(self, system: Reference) -> tuple[str, ...]:
        """Show all layers that can be in one coordinate system, and bring them in view.

        Parameters
        ----------
        system
            One of `systems`.

        Returns
        -------
        tuple
            Names of the layers that cannot come along; they stay where they are.
        """
        viewer = self._viewer()
        if viewer is None:
            return ()
        left = []
        for layer in move(viewer.layers, system):
            new = remade(layer, system)
            if new is None:
                left.append(layer.name)
                continue
            index = viewer.layers.index(layer)
            viewer.layers.remove(layer)
            viewer.layers.insert(index, new)
        viewer.reset_view()
        self.system_shown.emit(system)
        return tuple(left)

    def save_transform(self, layer: Layer, name: str, scene: Node | None = None) -> str:
        """Save where a layer is, as one of `systems`; see `save_alignment`."""
        path = save_alignment(layer, name, scene)
        viewer = self._viewer()
        origin = layer.metadata[KEY]
        if viewer is not None and name:
            learn_systems(viewer.layers, scene or origin.node)
        return path

    def add(self, layers: Iterable[LayerData], path: str) -> None:
        """Add layers that the reader made of a path, as if napari had opened it."""
        from napari.layers._source import layer_source

        from napari_ngff.viewer.painting.painted import as_layer

        viewer = self._viewer()
        if viewer is not None:
            with layer_source(path=path, reader_plugin=PLUGIN):
                for layer in layers:
                    viewer.add_layer(as_layer(layer))

    def _estimate(self, layer: Image) -> None:
        """Find a layer's contrast in a worker; what the user set meanwhile stays."""
        reference = weakref.ref(layer)
        before = tuple(layer.contrast_limits)
        data = layer.data[-1] if layer.multiscale else layer.data

        def done(limits: tuple[float, float] | None) -> None:
            layer = reference()
            if layer is None or limits is None:
                return
            if tuple(layer.contrast_limits) == before:
                layer.contrast_limits_range = limits
                layer.contrast_limits = limits

        frontend.run(lambda: estimate_contrast(data), done)


_sessions: weakref.WeakKeyDictionary[Any, Session] = weakref.WeakKeyDictionary()


def session_of(viewer: ViewerModel) -> Session:
    """Return the session of a viewer; the first call makes it."""
    # napari hands commands a proxy, which may be gone long before the viewer is.
    viewer = getattr(viewer, "__wrapped__", viewer)
    if viewer not in _sessions:
        _sessions[viewer] = Session(viewer)
    return _sessions[viewer]
