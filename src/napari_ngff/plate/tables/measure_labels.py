"""Measures the labels of an image, a well, a plate or a collection, as dask tasks.

A task is one field, or one block of a single image. Tasks go to the workers in batches,
and only tables of finished fields are kept in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import (
    NodeNotFoundError,
    OMEZarrError,
)
from napari_ngff.metadata.model import GroupKind
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.plate_layout import map_plate
from napari_ngff.plate.tables.files import find_table
from napari_ngff.plate.tables.labelled_image import (
    AREA,
    CLASS,
    SIZE_NOTE,
    VOLUME,
    VOXELS,
    LabelledImage,
    labels_of,
    open_labelled,
)
from napari_ngff.plate.tables.object_features import measure_image
from napari_ngff.plate.tables.table import (
    ACQUISITION,
    FIELD,
    LABEL,
    WELL,
    WellTable,
    read_acquisitions,
    well_key,
)
from napari_ngff.store.convert.unit_runner import (
    PER_WORKER,
    count_threads,
    name_worker_errors,
    open_client,
)
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.hierarchy.summary import list_tables
from napari_ngff.store.limits import parse_object
from napari_ngff.store.threads import CORES
from napari_ngff.store.write.append_log import append_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from napari_ngff.store.hierarchy.location import Location

AXIS_WORDS = {"t": "timepoint", "time": "timepoint"}
"""What one index on an axis is called, by the name of the axis."""

NO_CLASSES = "no classes"
"""Key of why no classes are predicted, in the ``attrs`` of the table of an image."""

LISTS = (GroupKind.PLATE, GroupKind.WELL, GroupKind.COLLECTION, GroupKind.SCENE)
"""What has fields."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A field of a plate, a well or a collection.

    Attributes
    ----------
    well
        Path of the well; None where there are none.
    field
        Path of the image in the well or the collection.
    """

    well: str | None
    field: str

    @property
    def path(self) -> str:
        """Path of the image below the plate, the well or the collection."""
        return "/".join(part for part in (self.well, self.field) if part)


@dataclass(frozen=True, slots=True, eq=False)
class MeasureResult:
    """The table of a measurement, and what it lacks.

    Attributes
    ----------
    frame
        A pandas.DataFrame as `LabelledImage.tabulate_blocks` gives, behind `WELL` (the
        name of the well, "B03"), `FIELD` and `ACQUISITION` where there are any.
    problems
        Why fields are left out, each with its place.
    without
        Number of fields that have no such labels.
    found, total
        Number of images with such labels, and of all images that were looked at.
    empty
        As `without` of a `WellTable`: the images whose labels have no object.
    """

    frame: Any
    problems: tuple[str, ...] = ()
    without: int = 0
    found: int = 1
    total: int = 1
    empty: tuple[tuple[str, str, str], ...] = ()

    @property
    def rows_text(self) -> str:
        """What the rows are: "64 labels", or "2 rows: 1 label at 2 timepoints"."""
        names = list(self.frame.columns)
        # One row per label, and per index on each axis that is not of space.
        outer = names[names.index(LABEL) + 1 : names.index(VOXELS)]
        outer = [name for name in outer if name != CLASS]
        keys = [name for name in (WELL, FIELD, LABEL) if name in names]
        labels = _count_things(len(self.frame[keys].drop_duplicates()), "label")
        if not outer:
            return labels
        indices = [
            _count_things(self.frame[name].nunique(), AXIS_WORDS.get(name, name))
            for name in outer
        ]
        rows = _count_things(len(self.frame), "row")
        return f"{rows}: {labels} at {' and '.join(indices)}"

    @property
    def size_note(self) -> str:
        """A sentence on the unit of sizes, and on volumes of stacks; "" for none."""
        return str(self.frame.attrs.get(SIZE_NOTE, ""))


def _count_things(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'s' * (count != 1)}"


def places_of(node: Node, wells: Iterable[str] | None = None) -> tuple[FieldPath, ...]:
    """Read the list of fields; wells that cannot be read are left out.

    Parameters
    ----------
    node
        A plate, a well or a collection.
    wells
        Paths of those that count; all by default.
    """
    return _list_fields(node, wells)[0]


def _list_fields(
    node: Node, places: Iterable[FieldPath | str] | None
) -> tuple[tuple[FieldPath, ...], tuple[str, ...]]:
    """Read the list of fields, and why wells are left out."""
    screen = PlateContents(node)
    plate = node.metadata.plate
    chosen = list(places or ())
    fields = [place for place in chosen if isinstance(place, FieldPath)]
    listed: list[str | None] = [None] if places is None else []
    if plate is not None:
        paths, wells = (well.path for well in map_plate(plate).wells), set(chosen)
        listed = [path for path in paths if places is None or path in wells]
    problems = []
    for well in listed:
        try:
            fields += [
                FieldPath(well, field.path) for field in screen.list_fields(well)
            ]
        except (OMEZarrError, OSError) as error:
            problems.append(f"{node.location.join_path(well or '')}: {error}")
    return tuple(fields), tuple(problems)


@dataclass(frozen=True, slots=True)
class FieldTask:
    """Measures one image; a task for a worker.

    Attributes
    ----------
    columns
        Beside size, place and intensity, see `choose_columns`.
    add_classes
        As `ObjectRule.add_classes`; where it raises a ValueError, the table is without.
    """

    columns: tuple[str, ...] = ()
    add_classes: Callable[[Any], Any] | None = None

    def __call__(self, location: Location, zarr_format: int, label: str) -> Any:
        """Measure an image.

        Returns
        -------
        pandas.DataFrame, str or None
            A text says why it cannot be measured; None where it has no such labels.
        """
        return _apply_to_labels(location, zarr_format, label, self.measure_labels)

    def measure_labels(
        self, image: LabelledImage, run: Callable[..., Iterable[Any]] = starmap
    ) -> Any:
        """Return the table of an image; ``run`` is as that of `measure_image`."""
        frame = measure_image(image, self.columns, run)
        if self.add_classes is None or not len(frame):
            return frame
        try:
            return self.add_classes(frame)
        except ValueError as error:
            frame.attrs[NO_CLASSES] = f"no predicted classes. {error}"
            return frame


MEASURE = FieldTask()


def count_field(location: Location, zarr_format: int, label: str) -> Any:
    """Count the labels of one image; a task like `FieldTask`."""
    return _apply_to_labels(location, zarr_format, label, LabelledImage.count_labels)


def table_of_field(location: Location, zarr_format: int, name: str) -> Any:
    """Read a table of one image; a task like `FieldTask`."""

    def read_frame(node: Node) -> Any:
        if name not in list_tables(node):
            return None
        frame, region = find_table(node, name)
        frame = frame.drop(columns=[WELL, FIELD, ACQUISITION], errors="ignore")
        frame.attrs["region"] = region  # stays where all fields say the same
        return frame

    return _read_field(location, zarr_format, read_frame)


def _apply_to_labels(
    location: Location,
    zarr_format: int,
    label: str,
    step: Callable[[LabelledImage], Any],
) -> Any:
    def read_and_apply(node: Node) -> Any:
        labels = labels_of(node, label)
        return None if labels is None else step(open_labelled(node, labels))

    return _read_field(location, zarr_format, read_and_apply)


def _read_field(
    location: Location, zarr_format: int, step: Callable[[Node], Any]
) -> Any:
    try:
        return step(read_node(location, zarr_format))
    # A text, since an error of one field must not end the batch of all.
    except (OMEZarrError, OSError) as error:
        return str(error)


class KeptTables:
    """Keeps the table of each field in a file, until that of all is written.

    Each line of the file has one table, and what it is of. A line that is cut off is
    passed over.

    Parameters
    ----------
    path
        The file.
    key
        What tables are of beside the address of their field, such as the labels.
    resume
        Whether to leave out fields whose table is in the file; else it is removed.
    """

    def __init__(self, path: Path, key: Sequence[str], *, resume: bool) -> None:
        self.path, self.key = path, key
        self.known: dict[tuple[str, ...], Any] = {}
        if resume and path.exists():
            with path.open("rb") as lines:
                records = filter(None, map(parse_object, lines))
                self.known = dict(map(self._read_record, records))
        else:
            path.unlink(missing_ok=True)

    def _read_record(self, record: dict[str, Any]) -> tuple[tuple[str, ...], Any]:
        import pandas as pd

        frame = pd.DataFrame(record["columns"]).astype(record["types"])
        frame.attrs = record["attrs"]
        return tuple(record["key"]), frame

    def run_rest(
        self, run: Callable[[Sequence[Any]], Iterator[Any]], calls: Sequence[Any]
    ) -> Iterator[Any]:
        """Give the results of all calls; only those that are not kept are run."""
        calls_of = {(str(call[0]), *self.key): call for call in calls}
        rest = run([call for key, call in calls_of.items() if key not in self.known])
        for key in calls_of:
            if key in self.known:
                yield self.known[key]
                continue
            result = next(rest)
            if result is not None and not isinstance(result, str):
                self._keep(key, result)
            yield result
        yield from rest  # nothing, but it tells that all is done

    def _keep(self, key: tuple[str, ...], frame: Any) -> None:
        types = frame.dtypes.astype(str).to_dict()
        record = {"key": key, "types": types, "attrs": frame.attrs}
        record["columns"] = frame.to_dict("list")
        append_record(self.path, f"\n{json.dumps(record)}".encode())


def measure(
    node: Node,
    label: str | Node,
    places: Iterable[FieldPath | str] | None = None,
    *,
    scheduler: str | None = None,
    goes_on: Callable[[int, int], bool] | None = None,
    task: Callable[..., Any] = MEASURE,
    kept: KeptTables | None = None,
) -> MeasureResult | None:
    """Measure the labels of an image, or of all images of a plate, well or collection.

    Parameters
    ----------
    node
        An image, a plate, a well or a collection.
    label
        Name of the labels; of an image also themselves.
    places
        Which fields of a plate, a well or a collection; all by default. A text is the
        path of a well, whose fields are measured.
    scheduler
        Address of a scheduler of dask.distributed ("tcp://..."), whose workers see
        the same paths; by default threads of this process.
    goes_on
        Called with how many of how many tasks are done; False gives up.
    task
        What is done to each field; a single image is always measured, as a
        `FieldTask` does.
    kept
        Keeps the tables of fields, so that they are not measured again after a stop.

    Returns
    -------
    MeasureResult or None
        None where it was given up.

    Raises
    ------
    NodeNotFoundError
        Where no image has such labels.
    UnsupportedError
        Where there is nothing that can be measured, or distributed is missing.
    OMEZarrError, OSError
        Where the only image, or the scheduler, cannot be read.
    """
    from dask.delayed import delayed

    with suppress(GivenUpError), _open_compute(scheduler) as (compute, batch):

        def run_all(step: Callable[..., Any], calls: Sequence[Any]) -> Iterator[Any]:
            # Not pure: dask would hash the image for the name of each task.
            begin, total = delayed(step, pure=False), len(calls)
            # A batch at a time, so that it can be given up in between.
            for done in range(0, total, batch):
                part = calls[done : done + batch]
                yield from compute([begin(*call) for call in part])
                count = done + len(part)
                if goes_on and not goes_on(count, total) and count < total:
                    raise GivenUpError

        if node.kind not in LISTS:
            measuring = task if isinstance(task, FieldTask) else MEASURE
            frame = measuring.measure_labels(open_labelled(node, label), run_all)
            lacks = frame.attrs.pop(NO_CLASSES, "")
            problems = (f"{node}: {lacks}",) if lacks else ()
            return MeasureResult(frame, problems)
        chosen, lost = _list_fields(node, places)
        run = partial(run_all, task)
        if kept is not None:
            run = partial(kept.run_rest, run)
        return _measure_fields(node, label, chosen, lost, run)
    return None


class GivenUpError(Exception):
    """Measuring was given up, which is no failure."""


@contextmanager
def _open_compute(
    scheduler: str | None,
) -> Iterator[tuple[Callable[[list[Any]], Sequence[Any]], int]]:
    """Give a function that computes tasks, and the number of tasks for one call."""
    from dask.base import compute

    if scheduler is None:
        yield (
            lambda tasks: compute(*tasks, scheduler="threads", num_workers=CORES),
            CORES * PER_WORKER,
        )
        return
    with open_client(scheduler) as client:

        def compute_on_cluster(tasks: list[Any]) -> Sequence[Any]:
            with name_worker_errors(client):
                return client.gather(client.compute(tasks))  # type: ignore[no-any-return]

        yield compute_on_cluster, count_threads(client) * PER_WORKER


def _measure_fields(
    node: Node,
    label: str | Node,
    places: Sequence[FieldPath],
    lost: Sequence[str],
    run: Callable[[Sequence[Any]], Iterator[Any]],
) -> MeasureResult:
    plate = node.metadata.plate
    wells = {w.path: w.name for w in map_plate(plate).wells} if plate else {}
    listed = {field.well for field in places if plate and plate.acquisition_names}
    names = read_acquisitions(node, listed)
    where = {field: node.location.join_path(field.path) for field in places}
    calls = [(where[field], node.zarr_format, label) for field in places]
    frames, problems, without = [], [*lost], 0
    empty, lacking = list[tuple[str, str, str]](), Counter[str]()
    for result, field in zip(run(calls), places, strict=True):
        if result is None:
            without += 1
        elif isinstance(result, str):
            problems.append(f"{where[field]}: {result}")
        else:
            lacking[result.attrs.pop(NO_CLASSES, "")] += 1
            name = names.get((field.well, field.field), "")
            if not len(result):
                key = well_key(wells.get(field.well or "", ""))
                empty.append((key, field.field, name))
            place = {WELL: wells.get(field.well or ""), FIELD: field.field}
            place[ACQUISITION] = name if names else None
            # In front, so the well, which comes first, is inserted last.
            for column, value in reversed(place.items()):
                if value is not None:
                    result.insert(0, column, value)
            frames.append(result)
    if not frames:
        of = f"{node}: none of the images that were looked at ({len(places)})"
        reason = "; ".join(problems[:3]).rstrip(".")
        raise NodeNotFoundError(f"{of} has {label!r}{reason and ': '}{reason}.")
    problems += [f"{lacking[x]} images: {x}" for x in sorted(lacking) if x]
    frame = _join_frames(frames)
    found, total = len(frames), len(places)
    return MeasureResult(frame, tuple(problems), without, found, total, tuple(empty))


def join_measured(older: WellTable, newer: WellTable) -> WellTable:
    """Put what was measured now in place of the same images in an older table.

    Rows of all other images stay.
    """
    import pandas as pd

    keys = [WELL, FIELD]
    found = newer.frame[keys].drop_duplicates().itertuples(index=False, name=None)
    measured = {*found, *(place[:2] for place in newer.without)}
    is_old = pd.MultiIndex.from_frame(older.frame[keys]).isin(list(measured))
    texts = dict.fromkeys(keys, object)
    frames = [each.astype(texts) for each in (older.frame[~is_old], newer.frame)]
    frame = _join_frames(frames).astype(dict.fromkeys(keys, "category"))
    without = [place for place in older.without if place[:2] not in measured]
    return replace(newer, frame=frame, without=(*without, *newer.without))


def _join_frames(frames: Sequence[Any]) -> Any:
    import pandas as pd

    # All ids are uint64 if some are: pandas joins uint64 and int64 to floats.
    ids = [frame[LABEL] for frame in frames if LABEL in frame]
    if len({each.dtype for each in ids}) > 1 and all((each >= 0).all() for each in ids):
        types = {LABEL: "uint64"}
        frames = [each.astype(types) if LABEL in each else each for each in frames]
    notes = {frame.attrs.get(SIZE_NOTE, "") for frame in frames}
    # Columns without a value have no type, as in a file.
    filled = [frame for frame in frames if len(frame)] or frames
    frame = pd.concat(filled, ignore_index=True)
    note = " ".join(sorted(filter(None, notes)))
    frame.attrs[SIZE_NOTE] = f"Of some images: {note}" if len(notes) > 1 else note
    # Where they are alone, also if the first field lacks them.
    for before, column in ((LABEL, CLASS), (VOXELS, AREA), (AREA, VOLUME)):
        if before in frame and column in frame:
            frame.insert(frame.columns.get_loc(before) + 1, column, frame.pop(column))
    return frame
