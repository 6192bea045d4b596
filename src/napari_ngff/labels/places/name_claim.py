"""Reserves the name of a new label image, whether it is free or to be replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.errors import ConflictError, NameTakenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.labels.places.label_location import LabelLocation
    from napari_ngff.store.write.transaction import NewTree, Transaction

__all__ = ["claim_place", "require_free"]


def claim_place(
    transaction: Transaction,
    home: LabelLocation,
    name: str,
    documents: Sequence[str],
    replace: bool,
) -> NewTree:
    """Reserve the path of a new label image, so that no other process takes it.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    home
        The group that is to list it.
    name
        Of the label image.
    documents
        See `Transaction.replace_tree`.
    replace
        Whether another label image of that name may be replaced.

    Raises
    ------
    NameTakenError
        Where something is there that shall stay, or others make labels of that name.
    OSError
        Where the system refuses.
    """
    path = home.path_of(name)
    # First: what a dead process left must neither count as taken nor be overwritten.
    transaction.recover(path)
    if not replace:
        require_free(transaction, path)
    try:
        # Refused where another process makes labels of that name, which are in no list
        # yet, so that `require_free` did not find them.
        return transaction.make_tree(path, home.list_entry(name), documents)
    except ConflictError as error:
        raise _taken_error(transaction, path) from error


def require_free(transaction: Transaction, path: str) -> None:
    """Refuse a path at which something exists.

    Raises
    ------
    NameTakenError
    """
    above, _, name = path.rpartition("/")
    if name in (transaction.source.list_names(above) or ()):
        raise _taken_error(transaction, path)


def _taken_error(transaction: Transaction, path: str) -> NameTakenError:
    above, _, name = path.rpartition("/")
    # Windows and macOS take names that differ only in case for the same.
    taken = {other.lower() for other in transaction.source.list_names(above) or ()}
    numbers = range(2, len(taken) + 3)
    free = next(f"{name}-{n}" for n in numbers if f"{name}-{n}".lower() not in taken)
    msg = f"There is something named {name} in {transaction.root}/{above} already."
    return NameTakenError(f"{msg} {free} is free.", name, free)
