"""A plate, a well or a collection that is browsed: its map, and what it contains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.field_states import FieldStates
from napari_ngff.metadata.model import Acquisition, GroupKind, LabelInfo
from napari_ngff.plate.plate_layout import MapWell, PlateMap, map_plate
from napari_ngff.store.hierarchy.location import image_of_list
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.write.label_list_watch import watch_lists
from napari_ngff.viewer.browsing.field_labels import (
    AnnotationStates,
    Begin,
    ChangedFields,
    WellStates,
    change_fields,
    find_annotated,
)
from napari_ngff.viewer.browsing.positions import (
    WELLS_ASKED,
    FieldPlace,
    Position,
    WellFields,
    key_of,
    placed_of,
    runs_of,
)
from napari_ngff.viewer.browsing.preparation import FieldResolver
from napari_ngff.viewer.browsing.shown_fields import FieldNotices
from napari_ngff.viewer.services.window import Signal, Window
from napari_ngff.viewer.streaming.well_stream import OversizedWells


class BrowsedNode:
    """A plate, a well (opened without a plate) or a collection.

    Methods that read files are named as questions: call them through `run_work`.

    Attributes
    ----------
    node, kind
        The group, and its kind: one of `BROWSED` in
        ``store/hierarchy/image_folder.py``.
    acquisitions
        Those of the plate; empty where it names none.
    states
        How far the annotation of each field is.
    notices
        Show what is not shown, and why.
    resolver
        Reads, in workers, what layers show next.
    selected_wells
        Paths of the wells that are selected on the map and in results.
    """

    labels_offered = Signal()
    """Emitted when `known_labels` has got more names."""
    wells_selected = Signal()
    """Emitted when other wells are selected."""

    def __init__(self, node: Node) -> None:
        self.node, self.kind = node, node.kind
        plate = node.metadata.plate
        self.acquisitions: tuple[Acquisition, ...] = plate.acquisitions if plate else ()
        self._geometry: int | None = None
        self._map: PlateMap | None = None
        self.selected_wells: frozenset[str] = frozenset()
        self._word = (
            "field" if node.kind in (GroupKind.PLATE, GroupKind.WELL) else "image"
        )
        if node.kind is GroupKind.SERIES:
            self._word = ""  # names of files
        self.states = AnnotationStates(node)
        self.notices = FieldNotices(self.name_field)
        self.resolver = FieldResolver(node, self.notices, lambda: self.map)
        self._misfits = OversizedWells()
        self._known_labels: dict[str, None] = {}
        watch_lists(self._on_list_saved)

    @property
    def map(self) -> PlateMap:
        """The map, from the plate's metadata alone; empty where there is no plate."""
        if self._map is None:
            plate = self.node.metadata.plate
            empty = PlateMap((), (), ())
            self._map = empty if plate is None else map_plate(plate, self._geometry)
        return self._map

    @property
    def geometry(self) -> int | None:
        """Number of wells of the plate that the map shows; None for what fits.

        Can be set to a key of `napari_ngff.plate.plate_layout.GEOMETRIES`.
        """
        return self._geometry

    @geometry.setter
    def geometry(self, wells: int | None) -> None:
        # Rows and columns follow from the geometry, so the map is made anew.
        self._geometry, self._map = wells, None

    def select_wells(self, paths: Iterable[str]) -> None:
        """Select wells, everywhere."""
        selected = frozenset(paths)
        if selected != self.selected_wells:
            self.selected_wells = selected
            self.wells_selected.emit()

    def well_at(self, path: str) -> MapWell | None:
        """Find a well of the map by its path."""
        return next((well for well in self.map.wells if well.path == path), None)

    def is_at_border(self, position: Position | None, rows: int, columns: int) -> bool:
        """Return whether there is no well beside a field; False if it is not known."""
        well = self.well_at(position.well or "") if position is not None else None
        if well is None:
            return False
        return self.map.find_neighbour(well, rows, columns) is None

    def name_field(self, position: Position) -> str:
        """Name an image: "B3 - field 2", and one of several acquisitions."""
        well = self.well_at(position.well) if position.well is not None else None
        parts = [well.name if well is not None else position.well or ""]
        if position.field:
            parts.append(f"{self._word} {position.field}".strip())
        plate, run = self.node.metadata.plate, position.acquisition
        if plate is not None and run is not None and len(plate.acquisitions) > 1:
            parts.append(plate.name_acquisition(run))
        return " - ".join(part for part in parts if part)

    def name_images(self, positions: Collection[Position]) -> list[str]:
        """Name images beside each other, as short as tells them apart."""
        wells = [self.well_at(p.well) if p.well else None for p in positions]
        names = [
            p.field if w is None else w.name
            for p, w in zip(positions, wells, strict=True)
        ]
        # Fields of one number are compared by their wells alone.
        alike = len({p.field for p in positions if p.well}) < 2
        return [
            name if alike and names.count(name) == 1 else self.name_field(p)
            for name, p in zip(names, positions, strict=True)
        ]

    def fields_of(self, well: str | None) -> WellFields:
        """Read the images of a well, or of the collection, and where they lie.

        Images that a server did not deliver are asked for again. Raises what
        `positions_of` does.
        """
        # The user asks by showing the well: the one moment at which a failed request is
        # repeated.
        arrangements = self.resolver.arrangements
        arrangements.retry_wells([well])
        listed = arrangements.screen.list_fields(well)
        if self.kind is GroupKind.SERIES:
            # Images of a folder have no places; nor is each of thousands looked at.
            places = [
                FieldPlace(Position(well, field.path), (0, 0), (0, 0), field.path)
                for field in listed
            ]
            return WellFields(tuple(places))
        placed = placed_of(arrangements, well)
        runs, plate = runs_of(listed), self.node.metadata.plate
        failed = {
            path: reason
            for run in runs
            for path, reason in arrangements.read_well(well, run).problems
        }
        names = self.node.series_names() if well is None else ()
        word = "" if self.kind in (GroupKind.COLLECTION, GroupKind.SCENE) else "field "
        places, unit = [], ""
        for i, field in enumerate(listed):
            position = Position(well, field.path, field.acquisition)
            title = names[i] if i < len(names) else None
            title = title or f"{word}{field.path}"
            if len(runs) > 1 and plate is not None and field.acquisition is not None:
                title = f"{title} - {plate.name_acquisition(field.acquisition)}"
            if field.path not in placed:
                reason = failed.get(field.path, "It cannot be read.")
                places.append(FieldPlace(position, (0, 0), (0, 0), title, reason))
                continue
            _, placed_field = placed[field.path]
            multiscale = placed_field.image.multiscale
            # A negative scale is a flip; sizes are positive.
            y, x = (abs(scale) for scale in multiscale.levels[0].scale[-2:])
            height, width = placed_field.size
            top, left = placed_field.offset
            unit = (multiscale.axes[-1].unit or "") if multiscale.axes else ""
            corner, size = (top * y, left * x), (height * y, width * x)
            places.append(FieldPlace(position, corner, size, title))
        return WellFields(tuple(places), unit)

    def positions_of(self, well: str | None) -> tuple[Position, ...]:
        """Read which images a well, or the collection, lists; the images are not read.

        Raises
        ------
        OMEZarrError, OSError
            Where the well cannot be read.
        """
        fields = self.resolver.arrangements.screen.list_fields(well)
        return tuple(Position(well, field.path, field.acquisition) for field in fields)

    def change_fields(
        self,
        change: Callable[[Node, Begin], bool | None],
        goes_on: Callable[[int, int], bool],
        but: Position | None = None,
    ) -> ChangedFields:
        """Change the metadata of all fields but one; see `change_fields`."""
        positions: list[Position] = []
        wells: list[str | None] = [well.path for well in self.map.wells]
        for well in wells or [None]:
            with suppress(OMEZarrError, OSError):  # the map shows it crossed out
                positions += self.positions_of(well)
        positions = [position for position in positions if position != but]
        screen = self.resolver.arrangements.screen
        result = change_fields(screen, positions, change, goes_on)
        # What was read ahead is older.
        for position in result.changed:
            forget = partial(self.forget_image, key_of(position))
            Window.current.run_in_main(forget)
        return result

    def label_names(self, well: str | None = None) -> tuple[str, ...]:
        """Read the names of the labels of a well's first image (by default of a few
        wells, and of the fields saved last).
        """
        screen, names = self.resolver.arrangements.screen, dict[str, None]()
        asked = [well]
        if well is None and self.map.wells:
            # Labels are often made in some wells only: neighbours are not asked first.
            wells = [each.path for each in self.map.wells]
            last = len(wells) - 1
            spread = [wells[i * last // (WELLS_ASKED - 1)] for i in range(WELLS_ASKED)]
            asked = list(dict.fromkeys([*spread, *wells]))
        count = 0
        for path in asked:
            try:
                field = screen.list_fields(path)[0]
                location = screen.location_of(path, field.path)
                node = read_node(location, self.node.zarr_format)
                names.update((label.name, None) for label in node.labels().nodes)
            except (OMEZarrError, OSError, IndexError):
                continue
            count += 1
            if count == WELLS_ASKED:
                break
        if well is None:
            with suppress(OMEZarrError, OSError):  # reported where fields are annotated
                for key in FieldStates(self.node).newest_fields(WELLS_ASKED):
                    names.update(dict.fromkeys(self._names_in_image(key)))
        return tuple(names)

    def _names_in_image(self, image: str) -> list[str]:
        """Read the names of the labels of an image; none if that fails."""
        try:
            return [label.name for label in self.node.child(image).labels().nodes]
        except (OMEZarrError, OSError):
            return []

    def find_annotated(
        self, places: Iterable[Position], name: str
    ) -> tuple[str, LabelInfo]:
        """Find the name and info of labels that were annotated in some images."""
        last = self.states.shown_labels
        return find_annotated(self.resolver.arrangements, places, name, last)

    def count_states(self, runs: tuple[int, ...] = ()) -> dict[str, WellStates]:
        """Read how many fields of each well are annotated, in progress, or flagged.

        Wells of which all fields are to do are left out, and not read.

        Parameters
        ----------
        runs
            Acquisitions whose fields count; () for all.

        Raises
        ------
        CorruptDataError, OSError
            Where the states cannot be read.
        """
        well_states = {}
        for path, begun in self.states.list_begun().items():
            if self.well_at(path) is None:
                continue
            try:
                places = self.positions_of(path)
            except (OMEZarrError, OSError):
                # The document of the well cannot be read: at least these fields exist.
                keys = list(begun)
            else:
                known = {None, *runs} if runs else {at.acquisition for at in places}
                keys = [key_of(at) for at in places if at.acquisition in known]
            counts = Counter(begun[key] for key in keys if key in begun)
            if counts:
                well_states[path] = WellStates(counts, len(keys))
        return well_states

    @property
    def known_labels(self) -> tuple[str, ...]:
        """Names of the labels that were found in images, or saved into one."""
        return tuple(self._known_labels)

    def offer_labels(self, names: Iterable[str]) -> None:
        """Add names to `known_labels`."""
        count = len(self._known_labels)
        self._known_labels.update(dict.fromkeys(names))
        if len(self._known_labels) > count:
            self.labels_offered.emit()

    def _on_list_saved(self, root: str, group: str) -> None:
        """Offer the label images of a list that was saved, in whatever thread."""
        image = image_of_list(self.node.location, root, group)
        if image is not None:
            Window.current.run_in_main(partial(self._read_labels, image))

    def _read_labels(self, image: str) -> None:
        """Read the labels of an image again, and offer them."""
        self.forget_image(image)
        read = partial(self._names_in_image, image)
        Window.current.run_work(read, self.offer_labels)

    def forget_image(self, path: str) -> None:
        """Read an image anew when it is shown next, since labels of it were written."""
        self.resolver.forget_field(f"{self.node}/{path}")
        self.resolver.arrangements.screen.forget_image(path)
        # Wells with labels that are opened anew may need room once more.
        self._misfits = OversizedWells()
