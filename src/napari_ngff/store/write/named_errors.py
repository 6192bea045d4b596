"""Puts paths and remedies into errors of the system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from napari_ngff.errors import AccessError, OMEZarrError


@contextmanager
def name_errors(path: str) -> Iterator[None]:
    """Put a path and a remedy into errors that are raised inside."""
    try:
        yield
    except OMEZarrError:
        # It came through an inner call, with a path of its own.
        raise
    except PermissionError as error:
        msg = f"No permission to write {path}."
        remedy = "Ask its owner, or save elsewhere."
        raise AccessError(msg, remedy=remedy) from error
    except OSError as error:
        # Errors of a write or a flush have no name: the call gets a number of a file.
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error
