"""Groups an image with its labels in one coordinate system, and collects problems."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.labels.class_colors import FIRST_COLORS
from napari_ngff.labels.field_states import LastAnnotated
from napari_ngff.labels.label_classes import kind_of, used_classes
from napari_ngff.labels.places.sidecar import open_sidecars
from napari_ngff.metadata.model import (
    Consequence,
    LabelInfo,
    Problem,
    Reference,
    Severity,
)
from napari_ngff.store.hierarchy.coordinate_systems import intrinsic_of, open_systems
from napari_ngff.store.hierarchy.node import Node, prefix_places
from napari_ngff.store.pyramids.pyramid import OnError, Pyramid, open_pyramid
from napari_ngff.viewer.layers.label_layers import is_beside
from napari_ngff.viewer.plans.layer_plan import (
    LayerPlan,
    SharedAxes,
    SystemView,
    frame_of,
)
from napari_ngff.viewer.plans.system_views import (
    first_system,
    follow_image,
    place_linked,
    scene_system,
    system_name,
    view_in_system,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.plate.mosaic import MosaicPyramid


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """An image and its labels, or labels alone.

    Attributes
    ----------
    frame
        Axes that the labels take over: those of their image, shown or not; None where
        it is not known.
    unopened_image
        The image of labels that were opened without it.
    """

    image: LayerPlan | None
    labels: tuple[LayerPlan, ...] = ()
    frame: SharedAxes | None = None
    unopened_image: Node | None = None


@dataclass(slots=True)
class ReadingNotes:
    """Problems and messages that are collected while one node is read.

    Attributes
    ----------
    on_error
        Called with each chunk that cannot be read.
    problems
        For the list of problems.
    messages
        For a warning: what is not shown, and why.
    notes
        Texts with details, for the user where nothing is wrong.
    samples_pixels
        Whether pixels by which contrast is measured are read together with metadata.
    annotated
        Labels that the overview of a plate shows, in whichever well they are.
    """

    on_error: OnError | None
    problems: list[Problem] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    samples_pixels: bool = False
    annotated: LastAnnotated = field(default_factory=LastAnnotated)

    def note_problems(self, problems: Iterable[Problem]) -> None:
        """Keep problems; with a message where something may be missing or wrong."""
        for problem in problems:
            self.problems.append(problem)
            if problem.is_loss or problem.code == "version-unknown":
                self.messages.append(f"{problem.where} {problem.text}".strip(": "))

    def note_place(self, node: Node, text: str, consequence: str) -> None:
        """Note that an image is not shown where its file places it."""
        problem = Problem("place-not-drawn", Severity.WARNING, "", text, consequence)
        self.note_problems(prefix_places([problem], node.location.path))
        self.messages.append(f"{node}: {text} {consequence}")

    def add_note(self, text: str, details: str) -> None:
        """Keep a note: what the user may want to know though nothing is wrong."""
        self.notes.append((text, details))

    def open_pyramid(self, node: Node, index: int = 0) -> Pyramid | None:
        """Open a pyramid, or note why not; `index` is that of its multiscale."""
        try:
            pyramid: Pyramid | Exception = open_pyramid(node, index, self.on_error)
        except (OMEZarrError, OSError) as error:
            pyramid = error
        return self.note_pyramid(node, pyramid, index)

    def note_pyramid(
        self, node: Node, opened: Pyramid | Exception, index: int = 0
    ) -> Pyramid | None:
        """Note the problems of an image that was opened, or why it was not.

        Returns
        -------
        Pyramid or None
            What was opened.
        """
        # Problems of the document once, not for each of its multiscales.
        if not index:
            self.note_problems(node.problems)
        if isinstance(opened, Exception):
            text = str(opened)
            problem = Problem(
                "image-unreadable", Severity.ERROR, "", text, Consequence.LEFT_OUT
            )
            self.note_problems(prefix_places([problem], node.location.path))
            return None
        self.note_problems(opened.problems)
        return opened


def mosaic_group(
    name: str,
    mosaic: MosaicPyramid,
    labels: Iterable[tuple[str, MosaicPyramid]] = (),
) -> LayerGroup:
    """Make a group of the mosaic of wells, and of the mosaics of their labels."""
    image = mosaic.node.metadata.image
    omero = image.omero if image is not None else None
    pictures = []
    for label, joined in labels:
        # That of the first field.
        mosaic_image = joined.node.metadata.image
        info = mosaic_image.label if mosaic_image is not None else None
        if info is not None and sum(len(a.fields) for a in joined.known_fields) > 1:
            info = _info_of_fields(info)
        pictures.append(LayerPlan(label, joined.node, joined.pyramid, None, info))
    picture = LayerPlan(name, mosaic.node, mosaic.pyramid, omero)
    return LayerGroup(picture, tuple(pictures), SharedAxes.from_pyramid(mosaic.pyramid))


def _info_of_fields(first: LabelInfo) -> LabelInfo:
    """Return what the labels of a field say of those of all fields: the classes.

    Value 7 of one field is another object than value 7 of the next, but the same class.
    The colours with which all new labels begin belong to no object either.
    """
    begun = {v: rgba for v, rgba in first.colors.items() if FIRST_COLORS.get(v) == rgba}
    colors = begun | {item.value: item.color for item in used_classes(first)}
    return LabelInfo(colors, kind=kind_of(first))


def in_place(group: LayerGroup, reading: ReadingNotes) -> LayerGroup:
    """Show an image in the system where it is shown first, and its labels with it.

    Coordinate systems are opened only where the metadata has more than scales and
    translations.
    """
    image = group.image
    assert image is not None
    pyramids = [p.pyramid.multiscale for p in (image, *group.labels)]
    levels = [level for multiscale in pyramids for level in multiscale.levels]
    if pyramids[0].links or any(level.transformation for level in levels):
        systems = open_systems([image.node, *(p.node for p in group.labels)])
        reading.note_problems(systems.problems)
        image = replace(image, systems=systems)
        first = view_in_system(image, first_system(image.node))
        # Each step asks less: the stated system, the intrinsic one, the image as it is.
        image = first or view_in_system(image, intrinsic_of(image.node)) or image
    return with_labels(image, group.labels, reading)


def place_alone(label: LayerPlan, reading: ReadingNotes) -> LayerPlan:
    """Show a label image without its image in the system that it states."""
    if label.pyramid.multiscale.links:
        systems = open_systems([label.node])
        reading.note_problems(systems.problems)
        with_systems = replace(label, systems=systems)
        label = view_in_system(with_systems, first_system(label.node)) or label
    frame = SharedAxes.from_pyramid(label.pyramid, label.view)
    note_pixels(label, frame, reading)
    return label


def in_scene(
    node: Node, groups: Iterable[LayerGroup], reading: ReadingNotes
) -> list[LayerGroup]:
    """Show the images of a scene in its system, else each in its own."""
    whole = [(g.image, g.labels) for g in groups if g.image is not None]
    nodes = [p.node for image, labels in whole for p in (image, *labels)]
    # One graph for all images: links of the scene lead from one to the other.
    systems = open_systems([node, *nodes])
    reading.note_problems(systems.problems)
    images = [replace(image, systems=systems) for image, _ in whole]
    system = scene_system(node, images)
    pictures = [with_system(image, system, reading) for image in images]
    pairs = zip(pictures, whole, strict=True)
    return [with_labels(image, labels, reading) for image, (_, labels) in pairs]


def with_system(
    image: LayerPlan, system: Reference | None, reading: ReadingNotes
) -> LayerPlan:
    """Show an image in a system, else in its intrinsic one with a message."""
    viewed_image = view_in_system(image, system) if system is not None else None
    if viewed_image is not None:
        view = viewed_image.view
        if view is not None and view.bent is not None and not view.bent.is_covered:
            reading.messages.append(
                f"{image.name} reaches beyond the field that bends it; the vectors at"
                " the field's edge are taken there."
            )
        return viewed_image
    intrinsic = intrinsic_of(image.node)
    wanted = f'"{system_name(system)}"' if system is not None else "any other"
    reading.messages.append(
        f"{image.name} is shown in its own coordinate system"
        f' "{system_name(intrinsic)}": no transformation that can be inverted leads'
        f" from there to {wanted}."
    )
    image = view_in_system(image, intrinsic) or image
    return image if system is None else with_units(image, system)


def with_units(image: LayerPlan, system: Reference) -> LayerPlan:
    """Give an image without any unit those of a system that it is shown beside.

    One layer without units turns them off for the whole viewer.
    """
    axes = image.pyramid.multiscale.axes
    if image.systems is None or image.view is not None or any(a.unit for a in axes):
        return image
    units = {a.name: a.unit for a in image.systems.graph.systems[system]}
    named = tuple(replace(axis, unit=units.get(axis.name)) for axis in axes)
    view = SystemView(intrinsic_of(image.node), named, np.eye(len(axes) + 1))
    return replace(image, view=view)


def with_labels(
    image: LayerPlan, labels: Iterable[LayerPlan], reading: ReadingNotes
) -> LayerGroup:
    """Group an image with the labels that can follow it; add a message for others."""
    followers: list[LayerPlan] = []
    frame = note_pixels(image, frame_of(image), reading)
    for label in labels:
        try:
            follower = follow_image(label, image)
            placed = place_linked(follower)
        except UnsupportedError as error:
            reading.messages.append(f"{error} It is left out.")
            continue
        followers.append(follower)
        if placed.view or frame.bent or is_beside(placed.pyramid, frame):
            continue
        text = "Its scale or position is far beyond that of its image."
        reading.note_place(label.node, text, "It is laid over the image.")
    return LayerGroup(image, tuple(followers), frame)


def note_pixels(
    picture: LayerPlan, frame: SharedAxes, reading: ReadingNotes
) -> SharedAxes:
    """Note if an image is shown in pixels, since napari cannot draw its place."""
    if frame.stated is not None:
        text = "Its scale or position is too small, too large or too far to be drawn."
        reading.note_place(picture.node, text, "It is shown in pixels.")
    return frame


def with_sidecars(
    image: Node, labels: Iterable[LayerPlan], reading: ReadingNotes
) -> list[LayerPlan]:
    """Return the labels of an image with those of its sidecars.

    A label image of a sidecar replaces one of the image with the same name, since it
    is an edited copy.
    """
    sidecars = open_sidecars(image)
    reading.note_problems(sidecars.problems)
    in_sidecars = {}
    for name, node in sidecars.labels.items():
        pyramid, label_image = reading.open_pyramid(node), node.metadata.image
        if pyramid is not None and label_image is not None:
            in_sidecars[name] = LayerPlan(name, node, pyramid, None, label_image.label)
    # In the order of the image's labels; those of sidecars alone follow.
    plans = []
    for label in labels:
        edited = in_sidecars.pop(label.name, None)
        if edited is not None:
            where = edited.node.location.source.name
            reading.messages.append(
                f"'{label.name}' is shown as edited in {where}, not as in the image."
            )
        plans.append(edited or label)
    return [*plans, *in_sidecars.values()]
