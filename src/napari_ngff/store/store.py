"""The interface through which all hierarchies are read and changed.

A *key* is the path of an object relative to the hierarchy's root, with ``/`` and no
leading slash, such as ``"A/1/0/zarr.json"``.

Objects that are put wait until `Transaction.commit` saves them; `Transaction.source`
reads them already. Each object is either old or new, and no document is saved before
the objects that it names. Nothing else in the package changes a hierarchy.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from napari_ngff.errors import ConflictError, OMEZarrError, UnsupportedError
from napari_ngff.store.sources.blob import Blob, Traits

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.sources.blob import Revision


class Store(ABC):
    """The objects of one hierarchy; safe to use from several threads at once."""

    traits = Traits()

    @property
    @abstractmethod
    def name(self) -> str:
        """Path or URL of the root for messages, without a trailing slash."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of the container itself (an archive's order or comment)."""
        return ()

    def check_container(self, stated: str | None) -> Iterable[Problem]:
        """Compare the container with its rules; list `problems`, and others.

        Parameters
        ----------
        stated
            Version that the metadata of the root group state.
        """
        return self.problems

    def find_file(self, before: Revision | None) -> Revision | None:
        """Return the revision of the file that holds all objects; None without one.

        Parameters
        ----------
        before
            What was returned when it was opened; a server is asked whether it still has
            that one. None for the first call.

        Raises
        ------
        FileChangedError
            Where a server has another one now.
        """

    def explain_missing(self, path: str) -> OMEZarrError | None:
        """Explain that a folder has no document of zarr; None where it may be so."""

    def close(self) -> None:
        """Close what is open; also done when the object is no longer used."""

    def why_not_written(self, path: str = "") -> str:
        """Describe why a path cannot be changed in place; "" if it can."""
        return f"{self.name} cannot be written in place."

    def begin(self) -> Transaction:
        """Begin a change; the same one in what a transaction reads by.

        Raises
        ------
        UnsupportedError
            Where it cannot be written.
        """
        raise UnsupportedError(
            f"{self.name} cannot be written in place: it is not a folder, an archive"
            " or a bucket that you may write into.",
            remedy="Ask its owner for permission, or save a copy elsewhere.",
        )

    def put_new(self, key: str, parts: Iterable[bytes]) -> None:
        """Write an object of a hierarchy that is made, and that nobody reads yet.

        As a whole, from any process: a worker that counts as lost may write the same
        object as the one that does its work again. Raises AccessError, ServerError and
        OSError.
        """
        raise NotImplementedError

    def copy_new(self, source: Store, key: str, new_key: str) -> bool | None:
        """Let a server copy an object of `source`; return whether there is such a one.

        None where the server does not copy it, which may still be read and written.
        """

    def flush_new(self, keys: Iterable[str]) -> None:
        """Wait until objects are on the disk, many at once; on a server they are."""

    @abstractmethod
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        """Read an object, or a part of it, and its revision.

        Parameters
        ----------
        key
            Of the object.
        start
            First byte; negative counts from the object's end; None for all of it.
        length
            Number of bytes from `start`, or None for the rest.

        Returns
        -------
        Blob or None
            None where there is no such object.

        Raises
        ------
        AccessError
            Where the system or the server refuses.
        CorruptDataError
            Where the container is damaged at this object.
        UnsupportedError
            Where it is encrypted, or compressed in a way that is not known.
        OSError
            Where reading fails in any other way.
        """

    def reading_ahead(self, keys: Sequence[str]) -> AbstractContextManager[None]:
        """Ask a server for objects now; who reads one of them meanwhile gets it so.

        Each answer is taken once. What is not read is forgotten in the end.
        """
        return nullcontext()

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read the bytes of an object, or of a part of it; see `read`."""
        blob = self.read(key, start, length)
        return None if blob is None else blob.data

    @abstractmethod
    def find_revision(self, key: str) -> Revision | None:
        """Return the revision that an object has now.

        None where there is no such object, and where it would take a request or the
        source knows no revisions: then its objects count as unchanged while it is open.
        """

    def ask_revision(self, key: str) -> Revision | None:
        """Return the revision that an object has now, also if it takes a request."""
        return self.find_revision(key)

    @abstractmethod
    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix` ("" for the root), sorted.

        None where the source cannot be listed (plain HTTP).
        """

    def list_keys(self, prefix: str) -> Iterable[str]:
        """List the keys of all objects below a folder, at any depth."""
        for name in self.list_names(prefix) or ():
            key = f"{prefix}/{name}" if prefix else name
            if self.is_folder(key):
                yield from self.list_keys(key)
            else:
                yield key

    def is_folder(self, key: str) -> bool:
        """Return whether there are names below a key: there is no other way to ask."""
        names = self.list_names(key)
        if not names:
            return False
        # Of an object, some stores list the object itself.
        return names != (key.rpartition("/")[2],) or self.get(key, 0, 1) is None


Content = TypeVar("Content")

TRIES = 3
"""How often something is made of objects that others change meanwhile."""

GoesOn = Callable[[int, int], bool]
"""Called with the bytes that are written, and their total; returns whether to
continue."""

Secure = Callable[[], None]
"""Called before an object is replaced; flushes what could restore the old one."""

Revisions = Mapping[str, "Revision | None"]
"""Key of an object -> its revision, None for one that is not there."""

NOTHING: Revisions = MappingProxyType({})


class NewTree(ABC):
    """A new group or array that replaces an old one, as a whole or not at all.

    A context: leaving it without `commit` keeps the old one.

    Attributes
    ----------
    key
        Path below which the new objects are put.
    """

    key: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def commit(self, *, kept: str = "", expected: Revisions = NOTHING) -> None:
        """Replace the old group by the new one.

        Parameters
        ----------
        kept
            Path at which to keep the old group, unless something is there; "" to delete
            the old group.
        expected
            Objects that the new group was made from, and their revisions.

        Raises
        ------
        ConflictError
            Where one of them has another revision by now; the old group stays.
        OSError
            Where the system refuses; the old group stays.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish or undo what was begun."""

    def abandon(self) -> None:
        """Close it after a commit of the transaction that failed and is given up."""
        # A tree is stored as a whole, or not at all.
        self.close()


@dataclass(frozen=True, slots=True, eq=False)
class WaitingObject(Generic[Content]):
    """An object that was put, and is not saved yet.

    Attributes
    ----------
    content
        Where its new bytes are; None where the object is to be removed.
    before
        Revision of the object that it replaces; None for none.
    secure
        See `Secure`.
    """

    content: Content | None
    before: Revision | None
    secure: Secure | None = None


class Transaction(ABC):
    """A change of one hierarchy; safe to use from several threads at once.

    Attributes
    ----------
    root
        Path of the hierarchy, for messages.
    token
        Part of the names of unfinished files; "" where there are none.
    saves_together
        Whether nothing is saved before `commit`; then objects may be put in any order.
        Otherwise objects are saved earlier where many of them wait.
    found_same
        Whether an object that was to be replaced had the new bytes already: another
        program has saved the same, or a server did not answer the first time.
    """

    token = ""
    found_same = False
    saves_together = True

    def __init__(self, root: str) -> None:
        self.root = root
        self._waiting: dict[str, WaitingObject[Any]] = {}
        self._expected: dict[str, Revision | None] = {}
        self._documents: dict[str, Buffer] = {}
        # Keys of objects that were not saved, since other programs changed them.
        self._conflicts: list[str] = []
        self._lock = threading.Lock()

    @property
    @abstractmethod
    def source(self) -> Store:
        """The hierarchy, with the objects that wait."""

    @property
    def uncommitted(self) -> bool:
        """Return whether objects wait for `commit`."""
        return bool(self._waiting)

    def refresh(self) -> None:
        """Let `source` read what other programs have saved, unless objects wait."""

    def expect_revision(self, key: str, revision: Revision | None) -> None:
        """Replace an object only if it still has this revision then.

        Without a call, the revision at the time of `put`.

        Raises
        ------
        ConflictError
            Where the object has another revision already.
        """
        if self.find_revision(key) != revision:
            raise conflict_error(self.root, [key])
        self.note_revision(key, revision)

    def note_revision(self, key: str, revision: Revision | None) -> None:
        """Do `expect_revision` for an object that was read just now, without asking."""
        with self._lock:
            if key not in self._waiting:
                self._expected[key] = revision

    def note_sources(self, key: str, sources: Iterable[str]) -> None:
        """Do not save an object if one that it is made of is refused.

        Where objects are not saved in the order in which they were put, it may be.
        """

    def read_document(self, key: str) -> str:
        """Read a document that is changed next; a change by others is a conflict."""
        self.refresh()
        blob = self.source.read(key) or Blob(b"")
        self.note_revision(key, blob.revision)
        return blob.data.decode()

    def expect_document(self, key: str, data: Buffer) -> None:
        """Save chunks of an array only if its document is still the same then.

        Another program may give the array another type meanwhile; a chunk that it does
        not have yet would then be added in the old type.

        Parameters
        ----------
        key
            Of the document.
        data
            Its bytes, by which the chunks are encoded.
        """
        with self._lock:
            self._documents[key] = data

    def put(self, key: str, data: Buffer, secure: Secure | None = None) -> None:
        """Put a whole object, which waits for `commit`.

        Raises
        ------
        AccessError
            Where the system refuses.
        OSError
            Where writing fails in any other way, such as a full disk.
        """
        # Outside of the lock: a server may take long to answer, and others write, too.
        before = self._revision_before(key)
        self._add_waiting(
            key, WaitingObject(self._stage_bytes(key, data), before, secure)
        )

    @abstractmethod
    def _stage_bytes(self, key: str, data: Buffer) -> Any:
        """Write the bytes of an object where they wait; return where that is."""

    def delete(self, key: str, secure: Secure | None = None) -> None:
        """Remove an object by the next `commit`; nothing if there is none."""
        before = self._revision_before(key)
        if before is not None or key in self._waiting:
            self._add_waiting(key, WaitingObject(None, before, secure))
        else:
            self._expected.pop(key, None)

    def _revision_before(self, key: str) -> Revision | None:
        """Return the revision of the object that a `put` replaces."""
        with self._lock:
            # The first one counts: a second `put` replaces the object that waits.
            if key in self._waiting:
                return self._waiting[key].before
            if key in self._expected:
                return self._expected[key]
        return self._stored_revision(key)

    @abstractmethod
    def _stored_revision(self, key: str) -> Revision | None:
        """Return the revision of an object that is saved."""

    def _add_waiting(self, key: str, waiting: WaitingObject[Any]) -> None:
        with self._lock:
            self._expected.pop(key, None)
            older = self._waiting.get(key)
            self._waiting[key] = waiting
        if older is not None:
            # Outside of the lock: removing a file may take long on a network.
            self._drop_content(older)

    @abstractmethod
    def remove_below(self, path: str) -> None:
        """Remove all objects below `path`."""

    def put_document(self, key: str, data: Buffer) -> None:
        """Replace a document that other programs change as well, at once.

        With `saves_together` it waits for `commit`, like all other objects.

        Raises
        ------
        ConflictError
            See `expect_revision`.
        """
        self.put(key, data)

    def change_document(
        self, key: str, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Change a document that other programs change as well.

        Parameters
        ----------
        key
            Of the document.
        change
            Changes its bytes, None for no document; returns None to keep it. It is
            called again if another program has saved the document meanwhile.

        Raises
        ------
        ConflictError
            Where others save it again and again.
        """
        for tries_left in reversed(range(TRIES)):
            # In one turn: no other process of this package comes between.
            with self.take_turn():
                self.refresh()
                blob = self.source.read(key)
                raw, before = (blob.data, blob.revision) if blob else (None, None)
                data = change(raw)
                if data in (None, raw):
                    return
                self.note_revision(key, before)
                try:
                    self.put_document(key, data)
                    return
                except ConflictError:
                    if not tries_left:
                        raise

    def take_turn(self) -> AbstractContextManager[None]:
        """Change documents of the hierarchy while no one else does; not to be
        nested.

        With `saves_together` nobody waits: the second of two commits has a conflict.
        """
        return nullcontext()

    @abstractmethod
    def replace_tree(
        self,
        path: str,
        entry: str = "",
        documents: Sequence[str] = (),
        *,
        in_place: bool = False,
    ) -> NewTree:
        """Begin a new group or array at `path`, which replaces the one that is there.

        Parameters
        ----------
        path
            Of an array or a group.
        entry
            Its name in a list of labels, where it counts only once it is in the list.
        documents
            Paths of groups and arrays whose copies in consolidated metadata change
            with it.
        in_place
            Whether objects that are put or read below `path` belong to the new group
            from now on. Otherwise those below `NewTree.key` do.

        Raises
        ------
        ConflictError
            Where another process replaces it now.
        UnsupportedError
            Where the store cannot replace it in one step.
        """

    def drop_waiting(self, path: str = "") -> None:
        """Drop the objects that wait below a folder, as after a commit that failed."""
        base = f"{path}/" if path else ""
        with self._lock:
            for key in [key for key in self._waiting if key.startswith(base)]:
                self._drop_content(self._waiting.pop(key))

    def _drop_content(self, waiting: WaitingObject[Any]) -> None:
        """Remove the file with the bytes of an object that is not saved any more."""

    def _find_replaced(self) -> tuple[str, ...]:
        """List arrays whose documents others have changed, by paths with a slash."""
        with self._lock:
            documents = list(self._documents.items())
        return tuple(
            f"{key.rpartition('/')[0]}/"
            for key, data in documents
            # A document that waits is compared by its own revision.
            if key not in self._waiting and self.source.get(key) != data
        )

    def _raise_conflicts(self) -> None:
        with self._lock:
            keys, self._conflicts = self._conflicts, []
        if keys:
            raise conflict_error(self.root, keys)

    def recover(self, path: str) -> None:
        """Finish or undo what ended processes left at `path`, and above it."""
        self.remove_leftovers(path)

    def find_revision(self, key: str) -> Revision | None:
        """Return the revision of an object in `source`; None if there is none."""
        return self.source.find_revision(key)

    def remove_leftovers(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove unfinished files that a killed process left below a folder.

        Parameters
        ----------
        prefix
            Of the folder.
        dead
            Tokens of writers that are known to have ended.
        """

    @abstractmethod
    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Save all objects that wait, so that they survive a loss of power.

        Returns
        -------
        bool
            False if `goes_on` stopped it.

        Raises
        ------
        ConflictError
            Where another program changed the same objects meanwhile. Its objects stay,
            and ours are dropped.
        OSError
            Where the system refuses; another call continues.
        """


def conflict_error(root: str, keys: Sequence[str]) -> ConflictError:
    """Make the error about objects that other programs have changed."""
    more = f", and so are others: {len(keys)} in all" if keys[1:] else ""
    return ConflictError(
        f"{root}/{keys[0]} was changed by another program since it was read. It is left"
        f" as it is{more}."
    )
