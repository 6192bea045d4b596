"""Opens the images of a node in the order of their layers, with its problems.

A server is asked for documents together, before they are needed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.errors import NotOMEZarrError, OMEZarrError, UnsupportedError
from napari_ngff.metadata.model import GroupKind, PlateMetadata, Problem, Severity
from napari_ngff.plate.arrangement import ScreenArrangements
from napari_ngff.plate.mosaic import ALL_READ, MosaicPyramid, open_mosaic
from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.plate_layout import MapWell, map_plate, spread_numbers
from napari_ngff.plate.well_cells import WellChoice
from napari_ngff.store.hierarchy.coordinate_systems import scene_paths
from napari_ngff.store.pyramids.pyramid import (
    OnError,
    OpenedImage,
    Pyramid,
    open_images,
    open_pyramid,
    open_pyramids,
)
from napari_ngff.store.sources.read_ahead import call_at_once
from napari_ngff.viewer.layers.contrast import SAMPLED_WELLS, read_samples
from napari_ngff.viewer.layers.layer_groups import (
    LayerGroup,
    ReadingNotes,
    in_place,
    in_scene,
    mosaic_group,
    place_alone,
    with_sidecars,
)
from napari_ngff.viewer.plans.layer_plan import LayerPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.labels.field_states import LastAnnotated
    from napari_ngff.store.hierarchy.group_documents import CopiedDocuments
    from napari_ngff.store.hierarchy.node import Node, OpenedGroups

MOST_AHEAD = 128
"""Most documents of an image, a well or a collection that are asked for so."""

MOST_OF_WELL = 32
"""The same of each well that shows others only its size and its contrast."""


def keys_ahead(node: Node, *, first_image: bool, samples_pixels: bool) -> list[str]:
    """List the documents that opening a node will read, of those that it has copies of.

    Parameters
    ----------
    node
        That is about to be opened.
    first_image, samples_pixels
        As for `napari_ngff.viewer.layers.node_contents.open_contents`.

    Returns
    -------
    list
        Keys of the hierarchy; those of groups above first.
    """
    copied, metadata = node.copied, node.metadata
    if not copied.names:
        return []
    names: Iterable[str]
    if metadata.plate is not None:
        paths = [well.path for well in map_plate(metadata.plate).wells]
        names = _plate_names(copied, paths, samples_pixels)
    elif metadata.collection is not None and first_image:
        names = (*copied.below("OME"), *copied.shallow_first("0", MOST_AHEAD))
    else:
        names = copied.shallow_first("", MOST_AHEAD)
    return [node.location.object_key(name) for name in names]


def _plate_names(
    copied: CopiedDocuments, paths: Sequence[str], samples_pixels: bool
) -> Iterable[str]:
    """List the documents of the first well, and of those that are read with it."""
    chosen: Iterable[int] = range(len(paths))
    if len(paths) > ALL_READ:
        chosen = spread_numbers(len(paths), SAMPLED_WELLS) if samples_pixels else ()
    names: dict[str, None] = {}
    for path in paths[:1]:
        names.update(dict.fromkeys(copied.shallow_first(path, MOST_AHEAD)))
    for number in chosen:
        names.update(dict.fromkeys(_well_names(copied, paths[number])))
    return names


def _well_names(copied: CopiedDocuments, path: str) -> list[str]:
    """List the documents of a well, its images, and the first level of each."""
    depth = path.count("/") + 1
    names, seen = [], set()
    for name in copied.shallow_first(path, MOST_OF_WELL):
        image, _, _ = name.rpartition("/")[0].rpartition("/")
        below = name.count("/") - depth
        # An array, the first of its image; not the group of its labels.
        if below == 2 and (image in seen or "/labels/" in name):
            continue
        if below <= 2:
            names.append(name)
        if below == 2:
            seen.add(image)
    return names


MAX_IMAGES = 10
"""Most images of a collection that are opened at once; a message names the others."""


@dataclass(frozen=True, slots=True)
class NodeContents:
    """Images, labels and problems of one node.

    Attributes
    ----------
    groups
        In the order of the layers.
    problems
        Problems of all documents that were read.
    messages
        For the user: a sentence for each part that exists and is not shown.
    notes
        For the user, though nothing is wrong: first line and details.
    """

    groups: tuple[LayerGroup, ...]
    problems: tuple[Problem, ...] = ()
    messages: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


def open_contents(
    node: Node,
    on_error: OnError | None = None,
    *,
    first_image: bool = False,
    samples_pixels: bool = False,
    annotated: LastAnnotated | None = None,
) -> NodeContents:
    """Open the images and labels of a node.

    Parameters
    ----------
    node
        Of any kind, also a row of a plate or a ``labels`` group.
    on_error
        Called later with each chunk that cannot be read.
    first_image
        Whether only the first readable image of a collection is opened.
    samples_pixels
        Whether pixels of some wells are read meanwhile, by which the contrast of a
        plate is measured.
    annotated
        Labels that an overview shows, wherever they are.

    Raises
    ------
    NotOMEZarrError
        Where the node has no OME metadata.
    UnsupportedError
        Where nothing of it can be shown; the message has the reasons.
    """
    reading = ReadingNotes(on_error, samples_pixels=samples_pixels)
    reading.annotated = annotated or reading.annotated
    keys = keys_ahead(node, first_image=first_image, samples_pixels=samples_pixels)
    with node.location.source.reading_ahead(keys):
        groups = _open_groups(node, reading, first_image)
    if not groups:
        reasons = " ".join(reading.messages) or " ".join(
            problem.text for problem in reading.problems or node.problems
        )
        msg = f"Nothing at {node} can be shown. {reasons}".strip()
        raise UnsupportedError(msg)
    messages, notes = tuple(reading.messages), tuple(reading.notes)
    return NodeContents(tuple(groups), tuple(reading.problems), messages, notes)


def _open_groups(
    node: Node, reading: ReadingNotes, first_image: bool
) -> list[LayerGroup]:
    """Open what a node shows, by its kind."""
    metadata = node.metadata
    # The order decides where a group has several kinds: a plate of bioformats2raw is a
    # collection, too.
    if metadata.plate is not None:
        return _open_plate(node, metadata.plate, None, reading)
    if metadata.collection is not None:
        return (_first_image if first_image else _open_collection)(node, reading)
    if metadata.scene is not None:
        return _open_scene(node, reading)
    if metadata.image is not None:
        others = metadata.image.label is None
        groups = _open_image(node, reading, others=others)
        return groups + (_other_multiscales(node, reading) if others else [])
    if metadata.well is not None:
        return _open_well(node, reading)
    if metadata.labels is not None:
        return _open_labels(node, reading)
    return _open_part(node, reading)


def _open_image(
    node: Node,
    reading: ReadingNotes,
    name: str | None = None,
    opened: OpenedImage | None = None,
    *,
    others: bool = False,
) -> list[LayerGroup]:
    group = _open_plain(node, reading, name, opened, others=others)
    if group is None:
        return []
    if group.image is not None:
        return [in_place(group, reading)]
    source = _find_source(node)
    if source is None:
        return [
            replace(group, labels=tuple(place_alone(p, reading) for p in group.labels))
        ]
    # With the image, for its axes; then without, since only the labels were asked for.
    whole = in_place(replace(group, image=source), reading)
    return [replace(whole, image=None, unopened_image=source.node)]


UNTOLD = ("image", "/")
"""Names that ome-zarr-py gives to any image that is a whole file."""


def _open_plain(
    node: Node,
    reading: ReadingNotes,
    name: str | None = None,
    opened: OpenedImage | None = None,
    *,
    others: bool = False,
) -> LayerGroup | None:
    """Open an image and its labels, or a label image, as they are.

    `opened` is the image if it was opened already; `others` says whether its other
    multiscales are shown, too.
    """
    opened = opened or open_images([node], reading.on_error)[0]
    pyramid = reading.note_pyramid(node, opened.pyramid)
    image = node.metadata.image
    if pyramid is None or image is None:
        return None
    stated = pyramid.multiscale.name
    title = name or stated or node.name
    if title == stated and stated in UNTOLD and not node.location.path:
        title = node.name
    if len(image.multiscales) > 1:
        names = ", ".join(m.name or "unnamed" for m in image.multiscales[1:MAX_IMAGES])
        where = "Hidden layers show" if others else f"Open {node} alone for"
        reading.messages.append(
            f"{node} holds {len(image.multiscales)} multiscales; the first is shown."
            f" {where} the others: {names}."
        )
    picture = LayerPlan(title, node, pyramid, image.omero, image.label)
    if image.label is not None:
        return LayerGroup(None, (picture,))
    label_names = tuple(label.name for label in opened.labels.nodes)
    picture = replace(picture, label_names=label_names)
    reading.note_problems(opened.labels.problems)
    pictures = _plan_labels(opened.labels.nodes, opened.label_pyramids, reading)
    labels = with_sidecars(node, pictures, reading)
    return LayerGroup(picture, tuple(labels))


def _other_multiscales(node: Node, reading: ReadingNotes) -> list[LayerGroup]:
    """Open the multiscales of an image after the first, as hidden layers."""
    image = node.metadata.image
    groups = []
    for index in range(1, len(image.multiscales[:MAX_IMAGES]) if image else 0):
        assert image is not None
        first = image.multiscales[index]
        # A node that lists this one first: all code takes the first multiscale.
        others = (*image.multiscales[:index], *image.multiscales[index + 1 :])
        reordered = replace(image, multiscales=(first, *others))
        pyramid = reading.open_pyramid(node, index)
        if pyramid is not None:
            again = replace(node, metadata=replace(node.metadata, image=reordered))
            title = f"{node.name}: {first.name or f'multiscale {index + 1}'}"
            picture = LayerPlan(title, again, pyramid, image.omero, multiscale=index)
            groups.append(in_place(LayerGroup(picture), reading))
    return groups


def _find_source(node: Node) -> LayerPlan | None:
    """Open the image of a label that was opened alone, for its axes and units."""
    image = node.metadata.image
    if image is None or image.label is None:
        return None
    try:
        source = node.child(image.label.source)
        if source.metadata.image is None or source.metadata.image.label is not None:
            return None
        picture = LayerPlan(source.name, source, open_pyramid(source))
    except (OMEZarrError, OSError):
        return None
    return picture


def _plan_labels(
    nodes: Sequence[Node],
    opened: Sequence[Pyramid | Exception],
    reading: ReadingNotes,
) -> list[LayerPlan]:
    pictures = []
    for node, found in zip(nodes, opened, strict=True):
        pyramid = reading.note_pyramid(node, found)
        image = node.metadata.image
        if pyramid is not None and image is not None:
            pictures.append(LayerPlan(node.name, node, pyramid, None, image.label))
    return pictures


def _open_labels(node: Node, reading: ReadingNotes) -> list[LayerGroup]:
    """Open a ``labels`` group: its labels on the axes of the image above."""
    above = node.parent()
    version = above.metadata.version if above is not None else None
    children = node.children(node.label_paths(version))
    reading.note_problems(node.problems)
    reading.note_problems(children.problems)
    nodes = [n for n in children.nodes if n.metadata.image]
    labels = _plan_labels(nodes, open_pyramids(nodes, reading.on_error), reading)
    if not labels:
        return []
    if above is not None and above.metadata.image is not None:
        try:
            image = LayerPlan(above.name, above, open_pyramid(above))
        except (OMEZarrError, OSError):
            return [LayerGroup(None, tuple(labels))]
        return [
            replace(in_place(LayerGroup(image, tuple(labels)), reading), image=None)
        ]
    return [LayerGroup(None, tuple(labels))]


def _open_well(node: Node, reading: ReadingNotes) -> list[LayerGroup]:
    """Join all fields of a well, at their places."""
    reading.note_problems(node.problems)
    names = node.location.path.split("/")
    # "B/3" becomes "B3".
    name = "".join(names[-2:]) or node.name
    well, run = node.metadata.well, None
    if well is not None and len({field.acquisition for field in well.fields}) > 1:
        above = plate_above(node)
        plate = above.metadata.plate if above is not None else None
        run = _first_run(plate)
        if run is not None and plate is not None:
            title = plate.acquisitions[0].title
            text = f"{name}: {title}. Choose others in the browser."
            reading.add_note("One of several acquisitions is shown.", text)
    return _open_mosaic(name, node, None, reading, run)


def _open_plate(
    node: Node, plate: PlateMetadata, row: str | None, reading: ReadingNotes
) -> list[LayerGroup]:
    """Join all fields of every well, or of every well of a row."""
    reading.note_problems(node.problems)
    title = plate.name or node.name
    wells = map_plate(plate).wells
    if row is not None:
        title = f"{title} {row}"
        wells = tuple(well for well in wells if well.path.startswith(f"{row}/"))
    return _open_mosaic(title, node, wells, reading, _first_run(plate)) if wells else []


def plate_above(node: Node) -> Node | None:
    """Find the plate of a well, or of a row; None where there is none."""
    for up in ("..", "../.."):
        try:
            above = node.child(up)
        except (OMEZarrError, OSError):
            continue
        if above.metadata.plate is not None:
            return above
    return None


def _first_run(plate: PlateMetadata | None) -> int | None:
    """Return the acquisition to show; None where a plate has only one.

    Fields of several acquisitions lie over each other, so one of them is shown.
    """
    runs = plate.acquisitions if plate is not None else ()
    return runs[0].id if len(runs) > 1 else None


def _open_mosaic(
    name: str,
    node: Node,
    wells: Sequence[MapWell] | None,
    reading: ReadingNotes,
    run: int | None,
) -> list[LayerGroup]:
    """Join wells, and the labels that the first of their images has."""
    arrangements = ScreenArrangements(PlateContents(node))
    try:
        mosaic = open_mosaic(arrangements, wells, WellChoice(run), reading.on_error)
    except UnsupportedError as error:
        if run is not None:  # the fields may name none of the plate's acquisitions
            return _open_mosaic(name, node, wells, reading, None)
        reading.messages.append(str(error))
        return []
    reading.note_problems(_describe_unread(node, arrangements, run))
    reading.note_problems(mosaic.node.problems + mosaic.pyramid.problems)
    found: list[tuple[OpenedGroups, list[tuple[str, MosaicPyramid]]]] = []

    def open_labels() -> None:
        # Labels of the first image stand for those of all, which would all have to be
        # read.
        opened, labels = mosaic.node.labels(), []
        for label in opened.nodes:
            arrangements.screen.adopt_image(label)
            start = len(mosaic.node.location.path)
            choice = WellChoice(run, label.location.path[start:].strip("/"))
            # The same cells, whatever other wells were read meanwhile.
            cell = mosaic.tiles.cell
            joined = open_mosaic(arrangements, wells, choice, reading.on_error, cell)
            labels.append((label.name, joined))
        name, fields = reading.annotated.labels, reading.annotated.fields
        if name and wells and name not in [known for known, _ in labels]:
            # Looked for where they are: most wells may have none.
            paths = [field.rpartition("/")[0] for field in fields]
            first = sorted(wells, key=lambda well: well.path not in paths)
            choice = WellChoice(run, f"labels/{name}")
            with suppress(UnsupportedError):  # they were removed
                joined = open_mosaic(
                    arrangements, first, choice, reading.on_error, mosaic.tiles.cell
                )
                labels.append((name, joined))
        found.append((opened, labels))

    calls = [open_labels]
    level = mosaic.pyramid.levels[-1]
    wants_pixels = reading.samples_pixels and not _states_contrast(mosaic)
    if wants_pixels and isinstance(level, MosaicLevel):
        channel = mosaic.pyramid.multiscale.channel_axis
        calls.append(partial(read_samples, level, channel))
    call_at_once(node.location.source, calls)
    opened, labels = found[0]
    reading.note_problems(opened.problems)
    return [mosaic_group(name, mosaic, labels)]


def _states_contrast(mosaic: MosaicPyramid) -> bool:
    """Return whether no pixels are needed for the contrast of an overview."""
    image = mosaic.node.metadata.image
    channels = image.omero.channels if image is not None and image.omero else ()
    stated = all(c.window and c.window.start is not None for c in channels)
    return (bool(channels) and stated) or mosaic.pyramid.levels[0].dtype == "uint8"


def _describe_unread(
    node: Node, arrangements: ScreenArrangements, run: int | None
) -> list[Problem]:
    """Describe the wells and fields that could not be read."""
    unread: list[tuple[str, str]] = []
    for well, text in arrangements.problems.items():
        made = arrangements.read_before(well, run)
        failed = made.problems if made is not None else ()
        unread += [
            ("/".join(part for part in (well, field) if part), reason)
            for field, reason in failed or (("", text),)
        ]
    return [
        Problem(
            "node-unreadable",
            Severity.ERROR,
            f"{node.location.object_key(path)}:",
            text,
            "Its place stays empty; everything else is shown.",
        )
        for path, text in unread
    ]


def _first_image(node: Node, reading: ReadingNotes) -> list[LayerGroup]:
    """Open the first image of a collection that can be read."""
    reading.note_problems(node.problems)
    paths, names, known = _list_series(node)
    for i, path in enumerate(paths):
        children = node.children([path], known)
        reading.note_problems(children.problems)
        name = names[i] if i < len(names) else None
        for image in children.nodes:
            groups = _open_image(image, reading, name or path)
            if groups:
                return groups
    return []


def _open_collection(node: Node, reading: ReadingNotes) -> list[LayerGroup]:
    """Open the images of a bioformats2raw group, the first `MAX_IMAGES` of them."""
    reading.note_problems(node.problems)
    paths, names, known = _list_series(node)
    if len(paths) > MAX_IMAGES:
        rest = f"{paths[MAX_IMAGES]} to {paths[-1]}"
        reading.messages.append(
            f"{node} holds {len(paths)} images; the first {MAX_IMAGES} are shown."
            f" Open the folders {rest} for the others."
        )
    children = node.children(paths[:MAX_IMAGES], known)
    reading.note_problems(children.problems)
    by_path = dict(zip(paths, names, strict=False))
    groups = []
    opened_images = open_images(children.nodes, reading.on_error)
    for image, opened in zip(children.nodes, opened_images, strict=True):
        inner = image.location.path[len(node.location.path) :].strip("/")
        groups += _open_image(image, reading, by_path.get(inner) or inner, opened)
    return groups


def _list_series(
    node: Node,
) -> tuple[tuple[str, ...], tuple[str | None, ...], dict[str, Node]]:
    """List the images of a collection: paths, names, and those that are open."""
    names: list[tuple[str | None, ...]] = []
    found: list[tuple[tuple[str, ...], dict[str, Node]]] = []
    calls = (
        lambda: found.append(node.find_series()),
        lambda: names.append(node.series_names()),
    )
    call_at_once(node.location.source, calls)
    return found[0][0], names[0], found[0][1]


def _open_scene(node: Node, reading: ReadingNotes) -> list[LayerGroup]:
    """Open the images that a scene names, in one system."""
    reading.note_problems(node.problems)
    children = node.children(scene_paths(node))
    reading.note_problems(children.problems)
    nodes = [n for n in children.nodes if n.kind is GroupKind.IMAGE]
    if len(nodes) > MAX_IMAGES:
        rest = ", ".join(n.location.path for n in nodes[MAX_IMAGES:])
        reading.messages.append(
            f"{node} holds {len(nodes)} images; the first {MAX_IMAGES} are shown,"
            f" not: {rest}."
        )
    start = len(node.location.path)
    shown = nodes[:MAX_IMAGES]
    groups = [
        group
        for n, opened in zip(shown, open_images(shown, reading.on_error), strict=True)
        if (
            group := _open_plain(n, reading, n.location.path[start:].strip("/"), opened)
        )
    ]
    return in_scene(node, groups, reading)


def _open_part(node: Node, reading: ReadingNotes) -> list[LayerGroup]:
    """Open a group without metadata: a row, a bare labels or OME group."""
    above = node.parent()
    if above is not None and above.metadata.plate is not None:
        return _open_plate(above, above.metadata.plate, node.name, reading)
    if above is not None and node.metadata.series is not None:
        return _open_collection(above, reading)
    if above is not None and node.name == "labels":
        return _open_labels(node, reading)
    if node.problems:
        return []
    msg = f"There is no OME-Zarr metadata at {node}."
    raise NotOMEZarrError(msg)
