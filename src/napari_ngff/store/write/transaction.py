"""Changes a hierarchy: each object is old or new, and no document comes too soon.

What is put waits; `Transaction.commit` saves it. Nothing else in the package changes
what is there. Who reads through `Transaction.source` sees what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.sources.revision import Revision
    from napari_ngff.store.sources.source import Source

__all__ = ["GoesOn", "Secure", "Transaction", "TransactionSource", "Tree"]

GoesOn = Callable[[int, int], bool]
"""Told how many bytes are written, and of how many; returns whether to go on."""

Secure = Callable[[], None]
"""Called before an object is replaced: brings to the disk what could restore it."""


class Tree(Protocol):
    """What is made to take the place of a group or an array, whole or not at all.

    A context: leaving it without `commit` leaves what was there.

    Attributes
    ----------
    key
        Path below which to put what is new.
    """

    key: str

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(self, *error: object) -> None:
        """Close it."""

    def remove(self) -> None:
        """Let what is there go; of labels, once they are in no list any more."""

    def adopt(self, key: str) -> None:
        """Take all that is below `key` as what is new."""

    def commit(self, *, kept: str = "") -> None:
        """Put all that is below `key` in its place.

        Parameters
        ----------
        kept
            Path at which to keep what was there before; what lies there already stays.
            "" to delete it.
        """

    def close(self) -> None:
        """Finish or take back what was begun."""


class Transaction(Protocol):
    """A change of one hierarchy; safe from several threads at once.

    Attributes
    ----------
    root
        Path of the hierarchy, for messages.
    token
        In the names of what it writes aside; "" where that needs none.
    saves_together
        Whether nothing is saved before `commit`: what is put first need not be
        complete, and documents may wait with the objects that they name. Else much
        that waits is saved sooner.
    wants_shards
        Whether new arrays should have shards: RFC-9 asks for few entries in archives.
    """

    root: str
    token: str
    saves_together: bool
    wants_shards: bool

    @property
    def source(self) -> Source:
        """The hierarchy with all that was put."""

    @property
    def uncommitted(self) -> bool:
        """Whether something was put that only `commit` saves."""

    def expect(self, key: str, revision: Revision | None) -> None:
        """Let an object be replaced only where it has this revision until then.

        Without it, the one that it has when it is put.

        Raises
        ------
        ConflictError
            Where it is known to have another one already.
        """

    def put(self, key: str, data: Buffer, secure: Secure | None = None) -> None:
        """Let an object wait, whole.

        Raises
        ------
        AccessError
            Where the system refuses.
        OSError
            Where writing fails in any other way: a full disk, a place gone.
        """

    def delete(self, key: str, secure: Secure | None = None) -> None:
        """Let the removal of an object wait; nothing where there is none."""

    def clear(self, path: str) -> None:
        """Remove all that is below `path`."""

    def put_document(self, key: str, data: Buffer) -> None:
        """Replace a document that others change, too: read, changed, put at once.

        Where all is saved together it waits like everything else.

        Raises
        ------
        ConflictError
            See `expect`.
        """

    def alone(self) -> AbstractContextManager[None]:
        """Change documents of the hierarchy one after another; not to be nested."""

    def replace_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> Tree:
        """Begin what is to take the place of all that is below `path`.

        Parameters
        ----------
        path
            Of an array or a group.
        entry
            Its name in a list of labels, where it counts only once it is in the list.
        documents
            Paths of groups and arrays whose copies in consolidated metadata change
            with it.

        Raises
        ------
        ConflictError
            Where another is making something for that place.
        UnsupportedError
            Where what is there cannot be replaced in one step.
        """

    def make_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> Tree:
        """Begin what is to come to `path`, or to replace what is there.

        Until that is committed, all that is put below `path`, and read there through
        `source`, is what is new. See `replace_tree`.
        """

    def recover(self, path: str) -> None:
        """Finish or take back what dead processes left at `path`, and above it."""

    def find_revision(self, key: str) -> Revision | None:
        """Tell the revision of an object, or of what was put; None if there is none."""

    def sweep(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove what a writer that was killed left below a folder.

        Parameters
        ----------
        prefix
            Of the folder.
        dead
            Tokens of writers that are known to write no more.
        """

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Save all that was put since: from then on it survives a loss of power.

        Returns
        -------
        bool
            Whether it is done; False where it was told not to go on.

        Raises
        ------
        ConflictError
            Where another program has changed the same objects meanwhile. Those are
            left as they are, and what was put there is dropped.
        OSError
            Where the system refuses; calling again goes on from there.
        """


class TransactionSource:
    """Marks a source that belongs to a transaction.

    Attributes
    ----------
    transaction
        Whose objects it reads.
    """

    transaction: Any
