"""Errors of the system that name what failed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from napari_ngff.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["permitted"]


@contextmanager
def permitted(path: str) -> Iterator[None]:
    """Name a path in what the system refuses there, and say what to do."""
    try:
        yield
    except PermissionError as error:
        if isinstance(error, AccessError):
            raise
        msg = f"No permission to write {path}."
        remedy = "Ask its owner, or save elsewhere."
        raise AccessError(msg, remedy=remedy) from error
    except OSError as error:
        # A write or a flush knows the number of an open file alone.
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error
