"""Converts a hierarchy into another one: versions, chunks, parts, folders, archives."""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Unpack

from napari_ngff.addresses import is_url
from napari_ngff.errors import (
    ConflictError,
    OMEZarrError,
    OptionError,
)
from napari_ngff.store.convert.array_task import DocumentTask, sharing_sources
from napari_ngff.store.convert.conversion_plan import ConversionPlan, read_task
from napari_ngff.store.convert.request import (
    ConversionRequest,
    ConvertOptions,
    read_request,
)
from napari_ngff.store.convert.unit_runner import run_units
from napari_ngff.store.convert.work_unit import (
    WorkUnit,
    find_changed_key,
    run_unit,
    source_keys,
)
from napari_ngff.store.hierarchy.node import Node, open_node, without_links
from napari_ngff.store.sources.server_logins import (
    AddressSecrets,
    find_login,
    set_login,
)
from napari_ngff.store.write.new_hierarchy import Target, find_target, is_single
from napari_ngff.store.write.partial_folder import PartialFolder, Unfinished, UnitRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.sources.blob import Revision

MOST_PROBLEMS = 1000
"""Texts of problems that a result has at most."""

MOST_NAMED = 5
"""Changed files that a message names."""


@dataclass(frozen=True, slots=True)
class ConversionResult:
    """What a conversion has made.

    Attributes
    ----------
    target
        The folder or file; of a bucket, its address.
    units
        Number of units of work.
    nbytes
        Bytes of the voxels.
    problems
        What is left out since it could not be read, a text each.
    notes
        What is otherwise than it was asked for, such as a crop that reaches beyond the
        image; not where it continues an earlier one.
    """

    target: Path | str
    units: int
    nbytes: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversionStep:
    """How far a conversion is.

    Attributes
    ----------
    phase
        "plan": metadata are read; "convert"; "compare": the source is compared with
        what it was; "pack" and "unpack": a folder becomes an archive, or the reverse.
    done, total
        Pieces of work, when packing and unpacking bytes; `total` is 0 while unknown.
    """

    phase: str
    done: int = 0
    total: int = 0


def convert(
    source: Any,
    target: str | Path,
    *,
    scheduler: Any = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[ConvertOptions],
) -> ConversionResult:
    """Write a copy in another version, in other chunks, or of a part.

    Chunks are copied as they are where only metadata change. Keys and groups that this
    package does not know are copied as they are.

    Parameters
    ----------
    source
        Anything that `napari_ngff.open` takes.
    target
        Folder, ``.ozx`` file, or address of S3, that is made.
    scheduler
        Address of a dask scheduler ("tcp://..."), a ``distributed.Client``, or a name
        that ``dask.compute`` takes; threads of this process by default.
    progress
        Called with the bytes of voxels that are done, and their total; an error that it
        raises ends the conversion, which `resume` continues.
    **options
        ``to_version``: "0.5" by default, "0.4" or "0.6". ``chunks`` and ``shards``:
        lengths by axis, such as ``{"y": 1024, "x": 1024}``, for shards also "auto", or
        "none" for no new ones, which an ``.ozx`` file gets by default.
        ``codec``: "zstd:5", "blosc:lz4:5", "gzip:6" or "none". ``crop``: what is kept
        by axis, in voxels of level 0, such as ``{"x": (100, 2000), "t": 0}``.
        ``levels``: such as ``[0, 2]``. ``channels``: indices or names. ``wells``: names
        such as ``["B*", "C3"]``. ``overwrite``: whether to replace `target`.
        ``resume``: whether to continue a conversion that was stopped. ``unreadable``:
        "stop" by default, or "skip" chunks that cannot be read. ``follow_links``:
        whether links in a folder may lead out of it.

    Returns
    -------
    ConversionResult
        `problems` is what could not be read, `notes` where a crop reaches beyond.

    Raises
    ------
    FileExistsError
        Where `target` exists and ``overwrite`` is not set, or it is not a zarr
        hierarchy.
    TypeError
        Where there is no such option.
    ValueError
        Where an option has another form, or the version cannot state the metadata.
    ConflictError
        Where the source changed meanwhile.
    OMEZarrError, OSError
        Where reading or writing fails.
    """
    node = open_node(source)
    try:
        return convert_hierarchy(
            node, target, options, scheduler=scheduler, progress=progress
        )
    finally:
        if isinstance(source, str | PurePath):
            # Not when the last thread lets go of it: who called deletes the file now.
            node.location.source.close()


def convert_hierarchy(
    node: Node,
    target: str | Path,
    options: ConvertOptions,
    *,
    scheduler: Any = None,
    progress: Callable[[int, int], None] | None = None,
    follow: Callable[[ConversionStep], None] | None = None,
) -> ConversionResult:
    """Convert a group and all that is below it.

    The new hierarchy is made beside `target`, and gets its name when it is complete.

    Parameters
    ----------
    node
        What becomes the root.
    target
        Folder, ``.ozx`` file, or address of S3.
    options, scheduler, progress
        As of `convert`. ``resume`` may be None: a conversion with equal settings is
        continued.
    follow
        Called often with what is done now; an error that it raises stops.

    Raises
    ------
    FileExistsError, ValueError, OMEZarrError, OSError
        As `convert`.
    """
    place = find_target(target)
    request = fit_request(node, place, read_request(options))
    if not options.get("follow_links"):
        node = without_links(node)
    skips = options.get("unreadable") == "skip"
    settings = {
        # Changed with the lines of plans: those of older versions are not continued.
        "plan": 4,
        "source": str(node),
        "request": asdict(request),
        "skips": skips,
    }
    resumes, how = options.get("resume", False), "--resume continues"
    if resumes is None:
        how = "converting to the same name again continues"
        earlier = PartialFolder(place, settings, overwrite=False, resume=True)
        resumes = earlier.find_unfinished() is Unfinished.SAME
    overwrites = options.get("overwrite", False)
    folder = PartialFolder(place, settings, overwrite=overwrites, resume=resumes)
    run = ConversionRun(node, folder, request, skips, scheduler)
    run.progress, run.follow = progress, follow
    with folder, sharing_sources():
        problems, notes = run.plan()
        try:
            result = run.finish(problems)
            return replace(result, notes=notes)
        except BaseException as error:
            note = f"Finished parts stay in {folder.path}; {how}."
            if isinstance(error, OMEZarrError):
                error.remedy = f"{error.remedy} {note}".lstrip()
            else:
                error.add_note(note)
            raise


def fit_request(
    node: Node, target: Target, request: ConversionRequest
) -> ConversionRequest:
    """Add to a request what its target needs.

    Raises
    ------
    OptionError
        Where the target needs another version.
    ValueError
        Where the target is in the source.
    """
    _require_apart(node, target)
    if not is_single(target.name):
        return request
    if request.version.zarr_format == 2:
        text = "An .ozx file needs OME-Zarr 0.5 or newer."
        raise OptionError(text, "to_version")
    # RFC-9: they SHOULD be used, to have fewer entries.
    return replace(request, adds_shards=request.auto_shards is not False)


def _require_apart(node: Node, target: Target) -> None:
    """Refuse a target inside of the source, and the other way round."""
    name, made = node.location.source.name, str(target.name)
    paths = (PurePath(n) if is_url(n) else Path(n).resolve() for n in (name, made))
    if are_nested(*paths):
        raise ValueError(f"{made} and its source {name} are inside of each other.")


def are_nested(one: PurePath, other: PurePath) -> bool:
    """Return whether one of two paths, or addresses, is the other or inside of it."""
    return one.is_relative_to(other) or other.is_relative_to(one)


@dataclass(slots=True)
class ConversionRun:
    """A conversion that runs.

    Attributes
    ----------
    node
        What becomes the root.
    folder
        Where the new hierarchy is made.
    request
        What is asked for.
    skips
        Whether chunks that cannot be read are left out; otherwise they stop it.
    scheduler
        See `run_units`.
    progress, follow
        See `convert_hierarchy`.
    """

    node: Node
    folder: PartialFolder
    request: ConversionRequest
    skips: bool
    scheduler: Any
    progress: Callable[[int, int], None] | None = None
    follow: Callable[[ConversionStep], None] | None = None

    def report_step(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Report a step to who follows."""
        if self.follow is not None:
            self.follow(ConversionStep(phase, done, total))

    def plan(self) -> tuple[list[str], tuple[str, ...]]:
        """Write the plan; returns problems and notes. An error removes the folder."""
        folder = self.folder
        if folder.continues:
            return [], ()
        plan = ConversionPlan(self.node, self.request)

        def dump_tasks() -> Iterator[JSON]:
            for number, task in enumerate(plan.list_tasks()):
                self.report_step("plan", number)
                yield asdict(task)

        try:
            folder.write_plan(dump_tasks())
            folder.finish_plan(plan.root)
            return plan.problems, plan.list_notes()
        except BaseException:
            # Nothing is done yet that could be continued.
            folder.remove()
            raise

    def list_units(self, stage: int | None = None) -> Iterator[WorkUnit]:
        """List the units of the plan, or those of one stage."""
        number, folder = 0, self.folder
        source = self.node.location.source
        for task in map(read_task, folder.read_plan()):
            if stage not in (None, task.stage):
                number += task.count
                continue
            for index in range(task.count):
                yield WorkUnit(
                    folder.token,
                    number,
                    source,
                    folder.target.store,
                    task,
                    index,
                    skips=self.skips,
                )
                number += 1

    def finish(self, problems: list[str]) -> ConversionResult:
        """Do all units, and give the hierarchy its name."""
        folder, source = self.folder, self.node.location.source
        units = total = last = 0
        for task in map(read_task, folder.read_plan()):
            units, total = units + task.count, total + task.nbytes
            last = max(last, task.stage)
        done = pieces = 0
        archive = source.find_file(None)

        def note_unit(unit: WorkUnit, record: UnitRecord) -> None:
            nonlocal done, pieces
            if record != unit.done:
                folder.note_unit(unit.number, record)
            problems.extend(record.problems)
            del problems[MOST_PROBLEMS:]
            done, pieces = done + unit.nbytes, pieces + 1
            self.report_step("convert", pieces, units)
            if self.progress is not None:
                self.progress(done, total)

        self.report_step("convert", 0, units)
        for stage in range(last + 1):
            waiting = self.list_units(stage)
            if folder.continues:
                waiting = (replace(u, done=folder.find_unit(u.number)) for u in waiting)
            run_units(waiting, run_unit, note_unit, self.scheduler)
        self.compare_source(archive, units)
        folder.place_hierarchy(partial(self.report_step, "pack"))
        return ConversionResult(folder.target.name, units, total, tuple(problems))

    def compare_source(self, archive: Revision | None, units: int) -> None:
        """Find out whether the source changed after it was read.

        Raises
        ------
        ConflictError
            Where it did; its units count as unfinished then.
        """
        folder, source = self.folder, self.node.location.source
        changed: list[str] = []
        count = compared = 0

        def compare_unit(unit: WorkUnit, record: UnitRecord) -> None:
            nonlocal count, compared
            compared += 1
            self.report_step("compare", compared, units)
            noted = folder.find_unit(unit.number)
            if noted is None or noted.seen == record.seen:
                return
            count += 1
            if len(changed) < MOST_NAMED:
                before = array("I", folder.read_states(unit.number))
                now = array("I", record.states)
                key = find_changed_key(before, now, source_keys(unit))
                changed.append(f"{source.name}/{key}")
            folder.forget_unit(unit.number)
            if isinstance(unit.task, DocumentTask):
                folder.forget_plan()

        looking = (replace(unit, looks=True) for unit in self.list_units())
        run_units(looking, run_unit, compare_unit, self.scheduler)
        if archive != source.find_file(archive):
            count += 1
            changed.append(source.name)
        if count:
            names = ", ".join(changed) + (" and others" if count > len(changed) else "")
            verb = "was" if count == 1 else "were"
            raise ConflictError(
                f"{names} {verb} changed while {self.node} was converted.",
                remedy="Convert it again when nothing writes there.",
            )


@dataclass(frozen=True, slots=True)
class ConversionCall:
    """All that another process needs for a conversion.

    Attributes
    ----------
    source, target
        Paths or addresses.
    options
        As of `napari_ngff.convert`.
    logins
        For the servers of source and target.
    """

    source: str
    target: str
    options: ConvertOptions
    logins: tuple[tuple[str, AddressSecrets], ...] = ()

    @classmethod
    def with_logins(
        cls, source: str, target: str, options: ConvertOptions
    ) -> ConversionCall:
        """Make a call with the logins that are known here."""
        addresses = filter(is_url, (source, target))
        found = ((address, find_login(address)) for address in addresses)
        logins = tuple((address, login) for address, login in found if login)
        return cls(source, target, options, logins)


def run_conversion(
    call: ConversionCall, follow: Callable[[ConversionStep], None]
) -> ConversionResult:
    """Convert; a conversion with the same options that was stopped is continued.

    Parameters
    ----------
    call
        What to do.
    follow
        Called often with what is done; an error that it raises stops, and leaves
        nothing that opens as an image. Others are those of `convert`.
    """
    for address, login in call.logins:
        set_login(address, login)
    options = call.options | {"resume": None}
    return convert_hierarchy(
        open_node(call.source), call.target, options, follow=follow
    )


def has_unfinished(target: str) -> bool:
    """Return whether parts of a conversion that was stopped are beside its target."""
    return _parts_of(target).find_unfinished() in (Unfinished.SAME, Unfinished.OTHER)


def discard_unfinished(target: str) -> None:
    """Remove the parts of a conversion that was stopped.

    Raises
    ------
    ConflictError
        Where a process works on it.
    UnsupportedError
        Where the target is in a bucket.
    """
    _parts_of(target).discard()


def _parts_of(target: str) -> PartialFolder:
    return PartialFolder(find_target(target), {}, overwrite=False, resume=False)
