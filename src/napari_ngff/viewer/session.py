"""One viewer's OME-Zarr layers: what is done to them once they are there; no Qt.

Docks call the session's methods and listen to its signals.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from napari_ngff.metadata.model import Reference
from napari_ngff.viewer.annotations.annotations import Annotations
from napari_ngff.viewer.annotations.drawn_annotation import DrawnAnnotation
from napari_ngff.viewer.annotations.label_annotation import LabelAnnotation
from napari_ngff.viewer.annotations.leaving import save_all
from napari_ngff.viewer.annotations.memory_layers import MemoryAnnotation
from napari_ngff.viewer.annotations.object_class_annotation import (
    ObjectClassAnnotation,
)
from napari_ngff.viewer.annotations.object_list import colors_of
from napari_ngff.viewer.annotations.points_annotation import PointsAnnotation
from napari_ngff.viewer.annotations.regions_annotation import RegionsAnnotation
from napari_ngff.viewer.annotations.shapes_annotation import ShapesAnnotation
from napari_ngff.viewer.browsing.annotation import AnnotationRound
from napari_ngff.viewer.browsing.plate_list import PlateList
from napari_ngff.viewer.browsing.positions import inline_title
from napari_ngff.viewer.browsing.recovery import EditRecovery
from napari_ngff.viewer.browsing.region_steps import RegionSteps
from napari_ngff.viewer.layers.contrast import (
    PixelContrast,
    measure_contrast,
    slider_range,
    stated_range,
)
from napari_ngff.viewer.layers.image_layers import (
    MOST_CHANNELS,
    channel_count,
    image_layers,
    keep_selected,
    look_now,
    show_value_alone,
    untouched_look,
)
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.layers.move_layers import (
    host_image,
    learn_systems,
    move_layers,
    place_on_sliders,
    remake_unmoved,
    restore_place,
    system_of_layer,
)
from napari_ngff.viewer.layers.plane_camera import (
    forget_plane,
    keep_plane,
    reach_last_planes,
)
from napari_ngff.viewer.layers.user_alignment import (
    follow_system,
    move_along,
    save_alignment,
)
from napari_ngff.viewer.layers.volume_layers import bring_back
from napari_ngff.viewer.painting.layer_classes import bind_class_keys
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.painting.section_edits import edit_sections, show_section
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerData,
    LayerOrigin,
    LayerPlan,
    is_joined,
    layer_kind,
    origin_of,
    picture_of,
)
from napari_ngff.viewer.plans.system_views import list_choices
from napari_ngff.viewer.private.napari_layers import hide_source_secrets, opened_from
from napari_ngff.viewer.private.napari_window import (
    connect_before_camera,
    connect_before_sliders,
    make_current,
    notice_windows,
    select_on_insert,
)
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.viewer.services.notices import last_part
from napari_ngff.viewer.services.settings import PLUGIN
from napari_ngff.viewer.services.window import Signal, Window
from napari_ngff.viewer.streaming.pixel_fetcher import pixels_arrived
from napari_ngff.viewer.streaming.streamed_levels import (
    ImageStream,
    camera_wait,
    stream_of,
)
from napari_ngff.viewer.streaming.streamed_values import guard_screenshots, guard_values
from napari_ngff.viewer.streaming.volume_fit import (
    attend_volumes,
    fit_soon,
    fit_volumes,
    fit_when_calm,
    follow_camera,
    forget_volume,
    mark_levels,
    note_camera,
)
from napari_ngff.viewer.streaming.volume_slicing import volume_needed
from napari_ngff.viewer.streaming.well_stream import reread_layer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.components import ViewerModel
    from napari.layers import Image, Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.plate_tables import PlateTables

KINDS = (
    LabelAnnotation,
    PointsAnnotation,
    ShapesAnnotation,
    RegionsAnnotation,
    ObjectClassAnnotation,
    MemoryAnnotation,
)
"""Kinds of annotations, in the order in which they may take a layer."""


class Session:
    """The OME-Zarr layers of one viewer.

    A layer that is added and has a `LayerOrigin` gets its contrast range, its contrast
    where the file gives none, and the first one its place on the sliders.
    """

    system_shown = Signal(object)
    """Emitted with the `Reference` of the coordinate system that layers moved to."""

    browsing = Signal(object)
    """Emitted with `browser` when it, or the list of plates, has changed."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self.annotation_round: AnnotationRound | None = None
        self.annotations = Annotations(viewer, KINDS)
        self.plates = PlateList(self.annotations, self.browsing.emit)
        self.recovery = EditRecovery(self.annotations)
        self._copying = LatestTask()
        viewer.bind_key("Shift-Right", lambda _: self.copy_object(1), overwrite=True)
        viewer.bind_key("Shift-Left", lambda _: self.copy_object(-1), overwrite=True)
        self.annotations.title_of = self._title_of
        self.annotations.position_of = lambda layer: (
            self.browser and self.browser.layers.position_of(layer)
        )
        self.regions = RegionSteps(self.annotations, self.find_browsed)
        self.annotations.removed.connect(self.recovery.notice_removed)
        self.annotations.changed.connect(self._on_annotations)
        for layer in viewer.layers:
            self.annotations.attach(layer)
        viewer.layers.events.inserting.connect(self._on_inserting)
        viewer.layers.events.inserted.connect(self._on_inserted)
        viewer.layers.events.removing.connect(self._on_removing)
        viewer.layers.events.removed.connect(self._on_removed)
        connect_before_camera(viewer, lambda _: keep_plane(viewer))
        viewer.dims.events.ndisplay.connect(self._on_ndisplay)
        connect_before_sliders(viewer, reach_last_planes)
        for event in (viewer.dims.events.point, viewer.dims.events.current_step):
            event.connect(self._on_place)
        viewer.scene.camera.events.connect(lambda _: follow_camera(viewer))
        viewer.events.status.connect(lambda _: show_value_alone(viewer))
        pixels_arrived.connect(self._on_arrived)
        volume_needed.connect(self._on_volume_needed)
        settings.changed.connect(self._on_preference)
        guard_screenshots(viewer)

    def _on_annotations(self) -> None:
        for layer in self._viewer.layers:
            if isinstance(layer, OMEZarrLabels):
                colors_of(layer).follow()

    def _title_of(self, layer: Layer) -> str:
        return "" if self.browser is None else self.browser.title_of(layer)

    def name_image(self, layer: Layer) -> str:
        """Name the image of a layer, as "B3, field 2"; labels by it and their own."""
        name, shown = last_part(image_address(layer)), self.browser
        if shown is not None and shown.position and shown.layers.owns_layer(layer):
            name = inline_title(shown.name_field(shown.position)) or name
        return f"{layer.name} of {name}" if layer_kind(layer) == "labels" else name

    def _on_ndisplay(self, event: Any = None) -> None:
        bring_back(self._viewer)
        note_camera()  # what is seen first is drawn before finer voxels are
        fit_when_calm(self._viewer)

    def _on_place(self, event: Any = None) -> None:
        if self._viewer.dims.ndisplay == 3:
            fit_volumes(self._viewer)

    def _on_volume_needed(self, layer: Layer) -> None:
        if layer in self._viewer.layers:
            fit_soon(self._viewer)

    def _on_preference(self, name: str, value: Any) -> None:
        if name == "volume_memory":
            fit_volumes(self._viewer)

    def _on_arrived(self, stream: ImageStream) -> None:
        if not Window.current.is_open(self._viewer):
            return
        for layer in self._viewer.layers:
            if stream_of(layer) is stream:
                reread_layer(layer)

    def _on_removing(self, event: Any) -> None:
        make_current(self._viewer)
        forget_volume(self._viewer.layers[event.index])

    def _on_removed(self, event: Any = None) -> None:
        mark_levels(self._viewer)
        self.annotations.remove_layer(getattr(event, "value", None))

    def _on_inserting(self, event: Any) -> None:
        self.annotations.selected_before = self._viewer.layers.selection.active
        select_on_insert(self._viewer, True)  # as usual
        if not self._viewer.layers:
            camera_wait.begin()

    def _on_inserted(self, event: Any) -> None:
        layer = event.value
        hide_source_secrets(layer)
        if camera_wait.is_on:
            camera_wait.end()
            if stream_of(layer) is not None:
                # napari has drawn it with the coarsest level, at its place.
                reread_layer(layer)
        viewer = self._viewer
        self.annotations.attach(layer)
        origin = origin_of(layer)
        if origin is not None or hasattr(layer, "saver"):
            self.annotations.has_images = True
            Window.current.watch_labels(viewer, layer)
        self.recovery.notice_layer(layer)
        attend_volumes(viewer, layer)
        if origin is not None:
            # Those of a reader were made by napari.
            notice_windows(layer, Window.start_services)
            self.finish_layer(layer, origin)
            # Layers of samples have no reader.
            if layer.source.path or layer.source.sample:
                keep_selected(viewer, layer)

    def finish_layer(self, layer: Layer, origin: LayerOrigin) -> None:
        """Finish a layer that was just added."""
        if len(self._viewer.layers) == 1:
            for axis, coordinate in origin.start:
                self._viewer.dims.set_point(axis, coordinate)
        if layer_kind(layer) != "image":
            return
        guard_values(layer)
        self._set_contrast(layer, origin)
        if origin.given is None:
            layer.metadata[KEY] = replace(origin, given=look_now(layer))

    def _set_contrast(self, layer: Image, origin: LayerOrigin) -> None:
        """Choose the range of the slider, and the limits where the file has none."""
        low, high = layer.contrast_limits
        stated = stated_range(origin.contrast, layer.dtype)
        if stated is not None:
            layer.contrast_limits_range = min(stated[0], low), max(stated[1], high)
            layer.contrast_limits = low, high
        elif not origin.estimate:
            layer.contrast_limits_range = slider_range((low, high), layer.dtype)
            layer.contrast_limits = low, high
        # The coarsest level of an overview comes in well by well.
        joined = origin.picture is not None and is_joined(origin.picture)
        if origin.estimate or (stated is None and not joined):
            self._measure_contrast(layer, keep_limits=not origin.estimate)

    @property
    def browser(self) -> Browser | None:
        """The browser of what is on the canvas; None before anything was opened."""
        return self.plates.shown

    def browse(self, node: Node, *, anew: bool = False) -> Browser:
        """Browse a plate, well, collection or folder from now on.

        The same node again gives the same browser, and shows what was seen of it. One
        at a time is on the canvas: what was seen of another one is hidden.

        Parameters
        ----------
        anew
            Whether layers of the node come now, also if there are some already.
        """
        browser = self.plates.show(node, anew=anew)
        self.recovery.watch_browser(browser)
        self.browsing.emit(browser)
        Window.current.show_browser(self._viewer)
        return browser

    def open_tables(self) -> PlateTables | None:
        """Give the tables of what is browsed; the first call searches for them."""
        return self.plates.open_tables()

    def find_browsed(self) -> Browser | None:
        """Return what is browsed, but for what other layers have replaced."""
        shown = self.browser
        return None if shown is None or shown.layers.are_replaced else shown

    def copy_object(self, step: int) -> None:
        """Copy the selected object some sections further, and go there."""
        self._copying.start(
            lambda turn: edit_sections(self._viewer, turn.report_progress, step),
            lambda edits: show_section(self._viewer, edits),
            lambda why: Window.current.show_messages((why,), "Nothing was copied."),
        )

    def take_number_keys(self) -> None:
        """Let number keys choose classes in all layers, while they are annotated."""
        layers = self._viewer.layers
        # A method, which counts once, however often a dock is opened.
        layers.events.inserted.connect(self._on_keys_taken)
        for layer in layers:
            bind_class_keys(layer)

    def _on_keys_taken(self, event: Any) -> None:
        bind_class_keys(event.value)

    def systems(self) -> dict[Reference, tuple[str, ...]]:
        """List the coordinate systems in which layers of the viewer can be shown.

        Returns
        -------
        dict
            For each system the names of the images that cannot come along. Plates and
            wells, which join many images, have none to choose.
        """
        images: dict[str, LayerPlan] = {}
        for layer in self._viewer.layers:
            image = host_image(picture_of(layer))
            if image is not None and not is_joined(image):
                images.setdefault(str(image.node), image)
        names = [image.name for image in images.values()]
        return {
            system: tuple(n for n, ok in zip(names, reached, strict=True) if not ok)
            for system, reached in list_choices(images.values()).items()
        }

    def system_of(self, layer: Layer | None) -> Reference | None:
        """Return the system in which a layer is shown; None for layers of others."""
        if layer is None:
            return None
        return system_of_layer(layer, self._viewer.layers)

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
        viewer = self._viewer
        place = place_on_sliders(viewer.layers, viewer.dims)
        unmoved = move_layers(viewer.layers, system)
        left = remake_unmoved(viewer.layers, unmoved, system, as_layer)
        drawn = (x for x in self.annotations if isinstance(x, DrawnAnnotation))
        left += tuple(x.name for x in drawn if not x.follow_image())
        # napari takes over the units of layers only when something else changes, and
        # slices by the older ones until then.
        viewer.dims.units = viewer.layers.extent.units
        restore_place(viewer.layers, viewer.dims, place)
        for layer in viewer.layers:
            layer.events.reload(layer=layer)
            layer.refresh()
        viewer.reset_view()
        forget_plane(viewer)
        self.system_shown.emit(system)
        return left

    def save_transform(
        self, layer: Layer, name: str, scene: Node | None = None
    ) -> tuple[str, tuple[str, ...]]:
        """Save where a layer is, and move the other layers of its image there.

        So that a stroke is saved where it is seen.

        Parameters
        ----------
        layer, name, scene
            See `save_alignment`.

        Returns
        -------
        path : str
            Of the document that was written.
        left : tuple of str
            Names of the layers of the image that stay where they are.
        """
        path, viewer = save_alignment(layer, name, scene), self._viewer
        if not name:
            move_along(layer, viewer.layers)
            return path, ()
        home = scene or layer.metadata[KEY].node
        learn_systems(viewer.layers, home)
        system = Reference(home.location.path, name)
        unmoved = follow_system(layer, viewer.layers, system)
        left = remake_unmoved(viewer.layers, unmoved, system, as_layer)
        self.system_shown.emit(system)
        return path, left

    def add(self, layers: Iterable[LayerData], path: str) -> None:
        """Add layers that the reader made of a path, as if napari had opened it."""
        with opened_from(path, PLUGIN):
            for layer in layers:
                self._viewer.add_layer(as_layer(layer))

    def _measure_contrast(self, layer: Image, *, keep_limits: bool) -> None:
        """Find a layer's contrast in a worker; what the user set meanwhile stays."""
        reference = weakref.ref(layer)
        before = tuple(layer.contrast_limits)
        data = layer.data[-1] if layer.multiscale else layer.data

        def done(found: PixelContrast | None) -> None:
            layer = reference()
            if layer is None or found is None:
                return
            if tuple(layer.contrast_limits) != before:
                return
            limits = before if keep_limits else found.limits
            given = untouched_look(layer)
            layer.contrast_limits_range = slider_range(limits, layer.dtype, found.span)
            layer.contrast_limits = limits
            if given:  # else it has not all of its look yet
                given["limits"] = look_now(layer)["limits"]
                layer.metadata[KEY] = replace(layer.metadata[KEY], given=given)

        Window.current.run_work(lambda: measure_contrast(data), done)


KEPT = "ome_zarr_session"
"""Attribute of a viewer's layers: the viewer owns its session, and both go together."""

_viewers: weakref.WeakSet[ViewerModel] = weakref.WeakSet()
_making = threading.RLock()


def session_of(viewer: ViewerModel) -> Session:
    """Return the session of a viewer; the first call makes it."""
    # napari hands commands a proxy, which may be gone long before the viewer is.
    viewer = getattr(viewer, "__wrapped__", viewer)
    with _making:  # a reader in a worker may be the first that asks
        if viewer not in _viewers:
            setattr(viewer.layers, KEPT, Session(viewer))
            _viewers.add(viewer)
        session: Session = getattr(viewer.layers, KEPT)
        return session


def all_viewers() -> list[ViewerModel]:
    """List the viewers that have a session."""
    with _making:
        return list(_viewers)


def viewer_of(layer: Layer) -> ViewerModel | None:
    """Find the viewer that shows a layer."""
    return next((v for v in all_viewers() if layer in v.layers), None)


def save(viewer: ViewerModel) -> None:
    """Save all unsaved annotations of a viewer; see `save_all`."""
    save_all(session_of(viewer).annotations)


def show_more_channels(viewer: ViewerModel) -> None:
    """Add the next channels of the image whose layer is selected."""
    layer = viewer.layers.selection.active
    picture = picture_of(layer)
    if picture is None or picture.image is not None or picture.label is not None:
        text = "Select a channel of an OME-Zarr image first."
        Window.current.show_messages((text,), "No channel is selected.")
        return
    origins = [origin_of(one) for one in viewer.layers]
    known = {
        one.channel or 0
        for one in origins
        if one is not None
        and str(one.node) == str(picture.node)
        and (one.picture is None or one.picture.multiscale == picture.multiscale)
    }
    left = (i for i in range(channel_count(picture)) if i not in known)
    wanted = list(islice(left, MOST_CHANNELS))
    if not wanted:
        text = f"{picture.name} has no other channels."
        Window.current.show_messages((text,), "All channels are shown.")
        return
    session_of(viewer).add(image_layers(picture, shown=wanted), str(picture.node))


def begin_annotation(viewer: ViewerModel, name: str = "") -> AnnotationRound:
    """Begin a round of annotation in what the viewer browses; an older one ends.

    Without a name it goes on with the labels of the fields that were begun before.

    Raises
    ------
    ValueError
        Where nothing is browsed.
    CorruptDataError, OSError
        Where the states of the fields cannot be read.
    """
    owner = session_of(viewer)
    if owner.browser is None:
        raise ValueError("Open a plate, a well or a collection first.")
    if owner.annotation_round is not None:
        owner.annotation_round.close()
        owner.annotation_round = None
    owner.annotation_round = annotation = AnnotationRound(owner.browser, name)
    return annotation
