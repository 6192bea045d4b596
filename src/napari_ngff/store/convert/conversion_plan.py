"""Plans a conversion from metadata alone, group by group.

Nothing is written. Each array, and each few hundred documents or unknown objects, is
one line of the plan; units are counted out of the lines when they run. So memory does
not grow with their number.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from napari_ngff.errors import (
    NodeNotFoundError,
    OptionError,
    UnsupportedError,
    error_text,
)
from napari_ngff.metadata.model import JSON, GroupMetadata, PlateMetadata
from napari_ngff.metadata.version import Version
from napari_ngff.store.arrays.array_document import (
    group_documents,
    is_regular,
    read_documents,
)
from napari_ngff.store.arrays.chunked_array import make_array
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.check.branches import VECTORS, branches_of, parameters_of
from napari_ngff.store.convert.array_plan import (
    ArrayRegion,
    PlannedLevel,
    convert_array,
)
from napari_ngff.store.convert.array_task import (
    ANY_BYTES,
    ArrayTask,
    CopyTask,
    DocumentTask,
    NewDocumentTask,
    Task,
    choose_block,
)
from napari_ngff.store.convert.image_plan import (
    CroppedImage,
    ImagePlan,
    plan_image,
)
from napari_ngff.store.convert.new_attributes import (
    GroupChange,
    complete_label_lists,
    convert_attributes,
)
from napari_ngff.store.convert.request import ConversionRequest
from napari_ngff.store.hierarchy.location import Location, note_beside
from napari_ngff.store.hierarchy.node import Node, is_array, read_node
from napari_ngff.store.limits import ARRAY_DOCUMENT, DOCUMENTS, dump_like, parse_json
from napari_ngff.store.sources.read_ahead import WrappedStore
from napari_ngff.store.write.writer_token import is_aside

if TYPE_CHECKING:
    from napari_ngff.store.sources.blob import Blob
    from napari_ngff.store.store import Store

TABLES = "tables"
"""Group of tables, and key of the list in it, of ngio and Fractal."""

AT_ONCE = 256
"""Documents, or unknown objects, of one unit."""

Value = TypeVar("Value")


class DocumentLog(WrappedStore):
    """Read documents of a source, and keep a checksum of each.

    Attributes
    ----------
    sums
        Key -> checksum of its bytes, of those that are there.
    """

    def __init__(self, source: Store) -> None:
        super().__init__(source)
        self.sums: dict[str, int] = {}

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        blob = super().read(key, start, length)
        if blob is not None and start is None:
            self.sums.setdefault(key, zlib.crc32(blob.data))
        return blob


@dataclass(slots=True)
class ConversionPlan:
    """Plans one conversion; `list_tasks` does it while its lines are taken.

    Parameters
    ----------
    node
        The group that becomes the root.
    request
        What is asked for.

    Attributes
    ----------
    root
        Documents of the new root, by name.
    documents
        Other new documents that are not in a line yet, by key.
    problems
        What could not be converted, a text each.
    beyond
        Images whose crop reaches beyond them, each with the axes as text.
    axes
        Names of the axes of all images.
    has_plate
        Whether a plate was among the groups.
    """

    node: Node
    request: ConversionRequest
    root: dict[str, bytes] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    axes: set[str] = field(default_factory=set)
    has_plate: bool = False

    def list_tasks(self) -> Iterator[Task]:
        """Yield what is to be done, in the order of the groups, and what was read.

        Raises
        ------
        ValueError, UnsupportedError
            Where something cannot be stated or stored as it is asked for.
        """
        log = DocumentLog(self.node.location.source)
        where = Location(log, self.node.location.path)
        try:
            self.node = read_node(where, self.node.zarr_format)
        except NodeNotFoundError:  # a row of a plate without documents
            self.node = replace(self.node, location=where)
        for task in self._visit_group(self.node, "", None, self.request):
            yield task
            yield from self._list_documents(log, AT_ONCE)
        yield from self._list_documents(log, 1)
        self._require_axes()
        if self.request.wells is not None and not self.has_plate:
            raise OptionError(f"{self.node} is not a plate, and has no wells.", "wells")

    def _list_documents(self, log: DocumentLog, least: int) -> Iterator[Task]:
        """List documents that were read, and those to be written, if there are many."""
        while len(log.sums) >= least:
            noted = _take_some(log.sums)
            yield DocumentTask(tuple(noted), tuple(noted.values()))
        while len(self.documents) >= least:
            made = _take_some(self.documents)
            yield NewDocumentTask({k: v.decode(ANY_BYTES) for k, v in made.items()})

    def _require_axes(self) -> None:
        for option in ("chunks", "shards"):
            for name, _ in getattr(self.request, option):
                if self.axes and name not in self.axes:
                    names = ", ".join(sorted(self.axes))
                    text = f"No image has an axis {name!r}, only {names}."
                    raise OptionError(text, option)

    def list_notes(self) -> tuple[str, ...]:
        """Say where the crop reaches beyond an image, and what is not copied."""
        notes = []
        if self.beyond:
            first, count = self.beyond[0], len(self.beyond) - 1
            more = f" (and beyond {count} other images)" if count else ""
            notes.append(f"The crop reaches beyond {first}{more}: it ends there.")
        if not self.node.location.path:
            notes += note_beside(self.node.location.source.name)
        return tuple(notes)

    # --- groups

    def _note_crop(
        self, node: Node, plan: ImagePlan, request: ConversionRequest
    ) -> None:
        sizes = {name: size for name, (_, _, size) in plan.cropped.axes.items()}
        ends = [
            f"{sizes[name]} voxels along {name}"
            for name, _, stop in request.crop
            if stop is not None and stop > sizes[name]
        ]
        if ends:
            self.beyond.append(f"{node}, which has {' and '.join(ends)}")

    def _visit_group(
        self,
        node: Node,
        path: str,
        image: CroppedImage | None,
        request: ConversionRequest,
    ) -> Iterator[ArrayTask | CopyTask]:
        """Plan a group and those below it; `image` is what labels belong to."""
        claimed: list[str] = []
        change = GroupChange()
        tasks: list[ArrayTask | CopyTask] = []
        cropped = image
        if node.metadata.image is not None:
            plan = plan_image(node, request, image)
            change, cropped = plan.change, plan.cropped
            if image is None:
                self.axes.update(plan.cropped.axes)
                self._note_crop(node, plan, request)
            claimed += plan.claimed
            tasks = self._plan_levels(node, path, plan)
        if node.metadata.plate is not None:
            self.has_plate = True
            wells = self._choose_wells(node, node.metadata.plate)
            change = replace(change, wells=wells)
        if node.metadata.image is None and image is not None:
            # A group of labels, which up to 0.3 need not be listed, and are shown
            # wherever there is no list.
            listed = node.label_paths(self.node.metadata.version)
            if listed != node.metadata.labels:
                groups = {p: node.find_child(p) for p in listed}
                listed = tuple(p for p, g in groups.items() if g and g.metadata.image)
                change = replace(change, labels=listed or node.metadata.labels)
        self._put_group(node, path, change)
        yield from tasks
        yield from self._visit_branches(node, path, (change, cropped), claimed, request)
        yield from self._visit_tables(node, path, claimed)
        yield from self._copy_unknown(node.location, path, claimed)

    def _visit_branches(
        self,
        node: Node,
        path: str,
        around: tuple[GroupChange, CroppedImage | None],
        claimed: list[str],
        request: ConversionRequest,
    ) -> Iterator[ArrayTask | CopyTask]:
        """Plan the groups that a group names; `claimed` gets their paths."""
        change, cropped = around
        # True for fields of vectors.
        branches = {
            branch.path.strip("/"): branch.part is VECTORS
            for branch in branches_of(node, parameters_of(node.attributes))
        }
        branches |= {path.strip("/"): False for path in change.labels or ()}
        self._put_between(node, path, [*claimed, *branches])
        wells = change.wells
        for branch, is_field in branches.items():
            is_row = _is_above(branch, branches)
            if wells is not None and not (branch in wells or _is_above(branch, wells)):
                claimed.append(branch)
                continue
            child = self._open_branch(node, branch, is_row, is_field)
            if child is None:
                continue
            below = join_key(path, branch)
            if is_row:
                # Its wells are branches of the plate itself; what is unknown in it is
                # copied.
                self._put_group(child, below, GroupChange())
                continue
            claimed.append(branch)
            if is_field:
                # Fields of vectors have pixels of their own: no crop is meant for them.
                whole = request.without_selection()
                yield from self._visit_group(child, below, None, whole)
            else:
                labelled = branch == "labels" or node.metadata.labels
                image = cropped if labelled else None
                yield from self._visit_group(child, below, image, request)

    def _put_between(self, node: Node, path: str, known: Sequence[str]) -> None:
        """Write the documents of groups between a group and those that it names."""
        parts = [each.split("/") for each in known]
        between = {"/".join(p[:n]) for p in parts for n in range(1, len(p))}
        for below in sorted(between - set(known)):
            with suppress(NodeNotFoundError):
                self._put_group(node.child(below), join_key(path, below), GroupChange())

    def _open_branch(
        self, node: Node, branch: str, is_row: bool, is_field: bool
    ) -> Node | None:
        """Open a group that another names; None where there is none."""
        try:
            return node.child(branch)
        except NodeNotFoundError as error:
            place = node.location.join_path(branch)
            if is_row:  # without documents
                return Node(place, node.zarr_format, {}, GroupMetadata())
            # In drafts of 0.6, a field of vectors is an array.
            if branch not in ("labels", "OME") and not (
                is_field and node.location.source.is_folder(place.path)
            ):
                self.problems.append(error_text(error))
            return None

    def _choose_wells(self, node: Node, plate: PlateMetadata) -> frozenset[str] | None:
        if self.request.wells is None:
            return None
        has = self.request.has_well
        chosen = frozenset(well.path for well in plate.wells if has(plate, well))
        if not chosen:
            words = ", ".join(self.request.wells)
            raise OptionError(f"{node} has no wells {words}.", "wells")
        return chosen

    def _put_group(self, node: Node, path: str, change: GroupChange) -> None:
        """Write the documents of a group; those of the root are kept."""
        version = self.request.version
        source, where = node.location.source, node.location
        if change.alters(node, version):
            with _naming_place(str(node)):
                attributes = convert_attributes(node, version, change)
        else:
            attributes = node.attributes
        attributes = complete_label_lists(attributes, node.zarr_format)
        documents = group_documents(attributes, version)
        same = version.zarr_format == node.zarr_format
        for name in tuple(documents):
            raw = source.get(where.object_key(name)) if same else None
            if raw is not None:
                documents[name] = _edit_group(raw, name, attributes)
            elif name == ".zattrs" and not attributes:
                del documents[name]
        if not path:
            self.root = documents
            return
        self._put_documents(path, documents)

    def _put_documents(self, path: str, documents: Mapping[str, bytes]) -> None:
        self.documents |= {join_key(path, k): data for k, data in documents.items()}

    # --- images

    def _plan_levels(
        self, node: Node, path: str, plan: ImagePlan
    ) -> list[ArrayTask | CopyTask]:
        """Plan the arrays of an image."""
        self.problems += plan.problems
        tasks: list[ArrayTask | CopyTask] = []
        for level in plan.levels:
            with _naming_place(f"{node}/{level.path}"):
                tasks += self._plan_array(node, path, level)
        return tasks

    def _plan_array(
        self, node: Node, above: str, level: PlannedLevel
    ) -> Iterable[ArrayTask | CopyTask]:
        """Write the documents of an array, and plan its units."""
        array, path = level.array, join_key(above, level.path)
        source = array.source
        documents = read_documents(source, array.path, array.zarr_format)
        version = self.request.version
        if (
            not is_regular(parse_json(documents[ARRAY_DOCUMENT[array.zarr_format]]))
            and version.zarr_format == array.zarr_format
            and level.region.is_whole(array.shape)
            and not self.request.changes_arrays
        ):
            return list(self._copy_below(Location(source, array.path), path))
        updates = node.metadata.version != version
        converted = convert_array(documents, level, self.request, updates=updates)
        self._put_documents(path, converted.documents)
        raw = converted.documents[ARRAY_DOCUMENT[version.zarr_format]]
        new = make_array(source, path, version.zarr_format, raw)
        copies = converted.keeps_chunks or converted.joins_chunks
        if not copies and not new.direct:
            msg = f"{source.name}/{array.path} cannot be encoded."
            raise UnsupportedError(msg, remedy="Choose another codec by --codec.")
        unit = new.shards or new.chunks
        stored = unit if level.finer else array.shards or array.chunks
        size = new.dtype.itemsize
        task = ArrayTask(
            join_key(above, level.finer) if level.finer else array.path,
            path,
            version.zarr_format if level.finer else array.zarr_format,
            level.region,
            converted.keeps_chunks,
            converted.joins_chunks,
            choose_block(unit, stored, new.shape, size, copies),
            size,
            level.method,
            level.factors,
            1 + level.stage,
        )
        return [task] if math.prod(new.shape) else []

    # --- tables

    def _visit_tables(
        self, node: Node, path: str, claimed: list[str]
    ) -> Iterator[CopyTask]:
        """Plan the tables beside an image or a plate, as ngio writes them.

        Other programs look for them in the Zarr format of their image. Those with
        arrays stay as they are.
        """
        here = node.location.source.list_names(node.location.path) or ()
        same = self.request.version.zarr_format == node.zarr_format
        if same or TABLES in claimed or TABLES not in here:
            return
        try:
            group = node.child(TABLES)
        except NodeNotFoundError:
            return
        listed, place = group.attributes.get(TABLES), group.location
        if not isinstance(listed, list):
            return
        claimed.append(TABLES)
        names = place.source.list_names(place.path) or ()
        tables = [name for name in names if name in listed]
        tables = [name for name in tables if not _has_arrays(place.join_path(name))]
        yield from self._visit_table(group, join_key(path, TABLES), tables)

    def _visit_table(
        self, node: Node, path: str, inner: Sequence[str]
    ) -> Iterator[CopyTask]:
        """Plan a group of tables, or of one: the groups of `inner` are converted, all
        else in it is copied.
        """
        self._put_group(node, path, GroupChange())
        for name in inner:
            place, below = node.location.join_path(name), join_key(path, name)
            try:
                child = node.child(name)
            except NodeNotFoundError:
                yield from self._copy_below(place, below)
                continue
            yield from self._visit_table(child, below, _list_folders(place))
        yield from self._copy_unknown(node.location, path, inner)

    # --- what is unknown

    def _copy_unknown(
        self, where: Location, path: str, claimed: Sequence[str]
    ) -> Iterator[CopyTask]:
        """Plan to copy what no metadata names, as it is."""
        names = where.source.list_names(where.path)
        below: dict[str, list[str]] = {}
        for claim in claimed:
            first, _, rest = claim.partition("/")
            below.setdefault(first, []).append(rest)
        files: list[str] = []
        for name in names or ():
            if name in below:
                if all(below[name]):
                    # On the way to something that is known, such as a row.
                    place = where.join_path(name)
                    yield from self._copy_unknown(
                        place, join_key(path, name), below[name]
                    )
            elif name in DOCUMENTS or is_aside(name):
                continue
            elif where.source.is_folder(where.object_key(name)):
                place = where.join_path(name)
                yield from self._copy_below(place, join_key(path, name))
            else:
                files.append(name)
        yield from _copy_files(where.path, path, iter(files))

    def _copy_below(self, where: Location, path: str) -> Iterator[CopyTask]:
        """Plan to copy all objects below a group."""
        base = f"{where.path}/" if where.path else ""
        keys = (key.removeprefix(base) for key in where.source.list_keys(where.path))
        kept = (key for key in keys if not any(map(is_aside, key.split("/"))))
        yield from _copy_files(where.path, path, kept)


def read_table(node: Node, name: str, version: str) -> dict[str, bytes]:
    """Read a table of an image as a conversion writes it: path -> content."""
    request = ConversionRequest(Version(version))
    plan = ConversionPlan(node, request)
    files = plan.documents
    table, path = node.child(join_key(TABLES, name)), join_key(TABLES, name)
    tasks = plan._copy_below(table.location, path)
    differs = request.version.zarr_format != node.zarr_format
    if differs and not _has_arrays(table.location):
        tasks = plan._visit_table(table, path, _list_folders(table.location))
    for task in tasks:
        for key in task.names:
            data = node.location.source.get(join_key(task.source, key))
            files[join_key(task.target, key)] = data or b""
    return files


def _is_above(path: str, others: Iterable[str]) -> bool:
    return any(other.startswith(f"{path}/") for other in others)


def _copy_files(source: str, target: str, names: Iterator[str]) -> Iterator[CopyTask]:
    while batch := tuple(itertools.islice(names, AT_ONCE)):
        yield CopyTask(source, target, batch)


def _take_some(waiting: dict[str, Value]) -> dict[str, Value]:
    return dict(waiting.popitem() for _ in range(min(AT_ONCE, len(waiting))))


def _list_folders(where: Location) -> list[str]:
    names = where.source.list_names(where.path) or ()
    return [name for name in names if where.source.is_folder(where.object_key(name))]


def _has_arrays(where: Location) -> bool:
    """Return whether this is an array, or a group with one somewhere below it."""
    inner = (where.join_path(name) for name in _list_folders(where))
    return is_array(where) or any(map(_has_arrays, inner))


@contextmanager
def _naming_place(place: str) -> Iterator[None]:
    """Say of errors what they are about."""
    try:
        yield
    except OptionError as error:
        raise OptionError(f"{place}: {error}", error.option) from error
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _edit_group(raw: bytes, name: str, attributes: JSON) -> bytes:
    """Replace the attributes in a document of a group; consolidated copies go."""
    try:
        document = parse_json(raw)
    except ValueError:
        return raw
    if name == ".zgroup" or not isinstance(document, dict):
        return raw
    if name == ".zattrs":
        changed: Any = attributes
    else:
        changed = {k: v for k, v in document.items() if k != "consolidated_metadata"}
        changed["attributes"] = attributes
    return raw if changed == document else dump_like(raw.decode(), changed).encode()


def read_task(line: JSON) -> Task:
    """Read a line of a plan."""
    if "texts" in line:
        return NewDocumentTask(line["texts"])
    if "sums" in line:
        return DocumentTask(tuple(line["keys"]), tuple(line["sums"]))
    if "names" in line:
        return CopyTask(line["source"], line["target"], tuple(line["names"]))
    region = ArrayRegion(
        tuple((int(a), int(b)) for a, b in line["region"]["spans"]),
        line["region"]["picked"],
        tuple(line["region"]["indices"]),
    )
    lists = {name: tuple(line[name]) for name in ("block", "factors")}
    return ArrayTask(**{**line, "region": region, **lists})
