"""Plans a conversion from metadata alone, group by group.

Documents of groups and arrays are written at once, those of the root are kept until the
end. Each array, and each few hundred unknown objects, is one line of the plan; units
are counted out of the lines when they run. So memory does not grow with their number.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import (
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
    error_text,
)
from napari_ngff.metadata.model import JSON, GroupMetadata
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.new_array import group_documents
from napari_ngff.store.arrays.stored_objects import DOCUMENTS, join_key
from napari_ngff.store.check.branches import branches_of, parameters_of
from napari_ngff.store.convert.array_document import (
    ArrayTarget,
    convert_array,
    is_regular,
)
from napari_ngff.store.convert.array_task import (
    ArrayTask,
    CopyTask,
    DocumentTask,
    choose_block,
)
from napari_ngff.store.convert.image_plan import plan_image
from napari_ngff.store.convert.new_attributes import GroupChange, convert_attributes
from napari_ngff.store.convert.source_state import DocumentLog
from napari_ngff.store.hierarchy.json_text import dump_like
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.limits import parse_json
from napari_ngff.store.write.new_objects import target_source
from napari_ngff.store.write.writer_token import is_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari_ngff.metadata.version import Version
    from napari_ngff.store.convert.image_plan import CroppedImage, PlannedLevel
    from napari_ngff.store.convert.selection import Selection, Storage

__all__ = ["ConversionPlan", "ConversionRequest", "read_task"]

GROUP_DOCUMENTS = ("zarr.json", ".zgroup", ".zattrs", ".zmetadata")

AT_ONCE = 256
"""Unknown objects of one unit."""


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """What a conversion is asked to do.

    Attributes
    ----------
    version
        Of the result.
    storage
        How arrays are stored.
    selection
        What is kept.
    """

    version: Version
    storage: Storage
    selection: Selection


@dataclass(slots=True)
class ConversionPlan:
    """Plans one conversion; `list_tasks` does it while its lines are taken.

    Parameters
    ----------
    node
        The group that becomes the root.
    request
        What is asked for.
    target
        Path, or address, of the new hierarchy.
    put
        Writes a document there.

    Attributes
    ----------
    root
        Documents of the new root, by name.
    problems
        What could not be converted, a text each.
    """

    node: Node
    request: ConversionRequest
    target: str
    put: Callable[[str, bytes], None]
    root: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def list_tasks(self) -> Iterator[ArrayTask | CopyTask | DocumentTask]:
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
        for task in self._visit_group(self.node, "", None):
            yield task
            if len(log.sums) >= AT_ONCE:
                yield _note_documents(log)
        while log.sums:
            yield _note_documents(log)

    # --- groups

    def _visit_group(
        self, node: Node, path: str, image: CroppedImage | None
    ) -> Iterator[ArrayTask | CopyTask]:
        """Plan a group and those below it; `image` is what labels belong to."""
        claimed: list[str] = []
        change = GroupChange()
        tasks: list[ArrayTask | CopyTask] = []
        cropped = image
        if node.metadata.image is not None:
            change, cropped, tasks = self._plan_image(node, path, image, claimed)
        if node.metadata.plate is not None:
            change = replace(change, wells=self._choose_wells(node))
        if node.metadata.labels is not None and image is not None:
            # Up to 0.3 label images need not be listed.
            listed = node.label_paths(self.node.metadata.version)
            if listed != node.metadata.labels:
                listed = tuple(p for p in listed if _has_image(node, p))
                change = replace(change, labels=listed)
        self._put_group(node, path, change)
        yield from tasks
        branches = self._list_branches(node, change)
        # A row is on the way to its wells: what is unknown in it is copied.
        claimed += [path for path in branches if not _is_above(path, branches)]
        if change.wells is not None:
            wells = change.wells
            left = [p for p in branches if p in wells or _is_above(p, wells)]
            claimed += set(branches) - set(left)
            branches = left
        for branch in branches:
            yield from self._visit_branch(node, path, branch, (cropped, branches))
        yield from self._copy_unknown(node.location, path, claimed)

    def _list_branches(self, node: Node, change: GroupChange) -> list[str]:
        parameters = parameters_of(node.attributes)
        paths = [branch.path for branch in branches_of(node, parameters)]
        if change.labels is not None:
            paths += change.labels
        return list(dict.fromkeys(path.strip("/") for path in paths))

    def _visit_branch(
        self,
        node: Node,
        path: str,
        branch: str,
        around: tuple[CroppedImage | None, list[str]],
    ) -> Iterator[ArrayTask | CopyTask]:
        cropped, branches = around
        try:
            child = node.child(branch)
        except NodeNotFoundError as error:
            if _is_above(branch, branches):  # a row of a plate without documents
                place = node.location.join_path(branch)
                child = Node(place, node.zarr_format, {}, GroupMetadata())
            else:
                if branch not in ("labels", "OME"):
                    self.problems.append(error_text(error))
                return
        if _is_above(branch, branches):
            # A row: its wells are branches of the plate itself.
            self._put_group(child, join_key(path, branch), GroupChange())
            return
        labelled = cropped if branch == "labels" or node.metadata.labels else None
        yield from self._visit_group(child, join_key(path, branch), labelled)

    def _choose_wells(self, node: Node) -> frozenset[str] | None:
        plate = node.metadata.plate
        assert plate is not None
        if self.request.selection.wells is None:
            return None
        has = self.request.selection.has_well
        chosen = frozenset(well.path for well in plate.wells if has(plate, well))
        if not chosen:
            words = ", ".join(self.request.selection.wells)
            raise ValueError(f"{node} has no wells {words}.")
        return chosen

    def _put_group(self, node: Node, path: str, change: GroupChange) -> None:
        """Write the documents of a group; those of the root are kept."""
        version = self.request.version
        source, where = node.location.source, node.location
        if change.alters(node, version):
            try:
                attributes = convert_attributes(node, version, change)
            except ValueError as error:
                raise ValueError(f"{node}: {error}") from error
        else:
            attributes = node.attributes
        documents = group_documents(attributes, version)
        if version.zarr_format == node.zarr_format:
            names = ("zarr.json",) if node.zarr_format == 3 else (".zgroup", ".zattrs")
            for name in names:
                raw = source.get(where.object_key(name))
                if raw is not None:
                    documents[name] = _edit_group(raw, name, attributes)
                elif name == ".zattrs" and not attributes:
                    del documents[name]
        elif not attributes:
            documents.pop(".zattrs", None)
        if not path:
            self.root = documents
            return
        for name, data in documents.items():
            self.put(join_key(path, name), data)

    # --- images

    def _plan_image(
        self, node: Node, path: str, image: CroppedImage | None, claimed: list[str]
    ) -> tuple[GroupChange, CroppedImage | None, list[ArrayTask | CopyTask]]:
        """Plan the arrays of an image, and the change of its attributes."""
        plan = plan_image(node, self.request.selection, image)
        self.problems += plan.problems
        claimed += plan.claimed
        tasks: list[ArrayTask | CopyTask] = []
        for level in plan.levels:
            try:
                tasks += self._plan_array(node, path, level)
            except ValueError as error:
                raise ValueError(f"{node}/{level.path}: {error}") from error
        return plan.change, plan.cropped, tasks

    def _plan_array(
        self, node: Node, above: str, level: PlannedLevel
    ) -> Iterable[ArrayTask | CopyTask]:
        """Write the documents of an array, and plan its units."""
        array, path = level.array, join_key(above, level.path)
        source = array.source
        raw = source.get(join_key(array.path, DOCUMENTS[array.zarr_format])) or b""
        attributes = None
        if array.zarr_format == 2:
            attributes = source.get(join_key(array.path, ".zattrs"))
        version, storage = self.request.version, self.request.storage
        if (
            not is_regular(parse_json(raw))
            and version.zarr_format == array.zarr_format
            and level.region.is_whole(array.shape)
            and not storage.changes_arrays
        ):
            return list(self._copy_below(Location(source, array.path), path))
        target = ArrayTarget(
            version.zarr_format,
            level.axes,
            level.is_label,
            node.metadata.version != version,
            bool(level.finer),
        )
        converted = convert_array(
            raw, attributes, array.layout, level.region, target, storage
        )
        for name, data in converted.documents.items():
            self.put(join_key(path, name), data)
        new = open_array(target_source(self.target), path, version.zarr_format)
        if not converted.keeps_chunks and not new.direct:
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
            choose_block(unit, stored, new.shape, size, converted.keeps_chunks),
            size,
            level.method,
            level.factors,
            level.stage,
        )
        return [task] if math.prod(new.shape) else []

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
            elif name in GROUP_DOCUMENTS or is_aside(name):
                continue
            elif _is_folder(where, name):
                place = where.join_path(name)
                yield from self._copy_below(place, join_key(path, name))
            else:
                files.append(name)
        yield from _copy_files(where.path, path, iter(files))

    def _copy_below(self, where: Location, path: str) -> Iterator[CopyTask]:
        """Plan to copy all objects below a group."""
        yield from _copy_files(where.path, path, _list_objects(where, ""))


def _is_above(path: str, others: Iterable[str]) -> bool:
    return any(other.startswith(f"{path}/") for other in others)


def _copy_files(source: str, target: str, names: Iterator[str]) -> Iterator[CopyTask]:
    while batch := tuple(itertools.islice(names, AT_ONCE)):
        yield CopyTask(source, target, batch)


def _note_documents(log: DocumentLog) -> DocumentTask:
    noted = list(itertools.islice(log.take_sums(), AT_ONCE))
    return DocumentTask(tuple(k for k, _ in noted), tuple(n for _, n in noted))


def _list_objects(where: Location, below: str) -> Iterator[str]:
    for name in where.source.list_names(join_key(where.path, below)) or ():
        key = join_key(below, name)
        if is_aside(name):
            continue
        if _is_folder(where, key):
            yield from _list_objects(where, key)
        else:
            yield key


def _is_folder(where: Location, name: str) -> bool:
    """Return whether there are names below a name: sources have no other way to ask."""
    key = where.object_key(name)
    names = where.source.list_names(key)
    if not names:
        return False
    # Of an object, a bucket lists the object itself.
    return names != (name.rpartition("/")[2],) or where.source.get(key, 0, 1) is None


def _has_image(node: Node, path: str) -> bool:
    try:
        return read_node(node.location.join_path(path)).metadata.image is not None
    except (OMEZarrError, OSError):
        return False


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


def read_task(line: JSON) -> ArrayTask | CopyTask | DocumentTask:
    """Read a line of a plan."""
    if "sums" in line:
        return DocumentTask(tuple(line["keys"]), tuple(line["sums"]))
    if "names" in line:
        return CopyTask(line["source"], line["target"], tuple(line["names"]))
    return ArrayTask.parse(line)
