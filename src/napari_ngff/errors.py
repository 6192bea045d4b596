"""What can go wrong, as one tree; every error also is the builtin that it stands for.

::

    OMEZarrError
    ├── NotOMEZarrError (ValueError)         there is no OME-Zarr metadata here
    ├── NodeNotFoundError (FileNotFoundError) nothing at that place
    ├── AccessError (PermissionError)        it is there, but may not be read
    │   └── LoginNeededError                 ...without a login, or with this one
    ├── ServerError (ConnectionError)        a server did not give it; it may later
    ├── CorruptDataError (ValueError)        metadata, archive or chunk is damaged
    │   └── ChunkError                       ...one chunk, or shard, of an array
    ├── ConflictError (OSError)              someone else changed it meanwhile
    ├── FileChangedError (OSError)           a file that is read is another one now
    ├── NameTakenError (FileExistsError)     something else has that name
    ├── TargetExistsError (FileExistsError)  what is to be made is there already
    ├── OptionError (ValueError)             what was asked for cannot be done so
    └── UnsupportedError (NotImplementedError) understood, but cannot be shown

Every message says what failed, where (store and inner path) and what to do.
Broken *metadata* of readable data is no exception but a
`napari_ngff.metadata.model.Problem`.
"""

from __future__ import annotations

import errno
import logging
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from typing_extensions import override

from napari_ngff.addresses import hide_secrets

# Remedies that code compares with: see `ChunkError`.
AGAIN = "Try again."
OVERWRITE = "Choose another name, or overwrite it."
RESTORE = "Restore it from a copy."

LOG_IN = "Log in to the server; if the address has a signature, it may have expired."
REOPEN = "Close it, and open it again."
CHECK_ADDRESS = (
    "Check the address: it must lead to the data themselves, and may need a login."
)
LISTED = "Restore it from a copy, or remove it from the list."
"""What to do about a group that is listed and not there."""

SERVER_REMEDIES = AGAIN, REOPEN, LOG_IN, CHECK_ADDRESS
"""Remedies of a cause that are those of the chunk, too."""

# Of the system's errors, whose own text says only what failed.
REMEDIES = {
    errno.ENOSPC: "Make room on that disk, and try again.",
    errno.EDQUOT: "Make room within your quota, and try again.",
    errno.EROFS: "Make that disk writable, or choose another place.",
    errno.EACCES: "Ask its owner for permission, or choose another place.",
    errno.EPERM: "Ask its owner for permission, or choose another place.",
    errno.EIO: "Check the disk or the network drive, and try again.",
    errno.EHOSTUNREACH: "Try again; if that fails, ask the owner of the server.",
}
"""What to do about errors of the system."""

RESTORE_CHUNK = "Restore it from a copy; without it this part stays empty."


# Each class is also the builtin that scripts catch, such as FileNotFoundError.
class OMEZarrError(Exception):
    """Base of every error that this package raises on purpose.

    Parameters
    ----------
    remedy
        What to do; the text of the error ends with it.
    """

    def __init__(self, *arguments: object, remedy: str = "") -> None:
        super().__init__(*arguments)
        self.remedy = remedy

    @property
    def message(self) -> str:
        """What failed, and where."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()

    @classmethod
    def at_place(cls, error: Exception, place: str) -> Self:
        """Say also where another error occurred; the remedy stays."""
        if isinstance(error, OMEZarrError):
            return cls(f"{place}: {error.message}", remedy=error.remedy)
        return cls(f"{place}: {error}")


class NotOMEZarrError(OMEZarrError, ValueError):
    """The place exists and holds no OME-Zarr metadata."""


class NodeNotFoundError(OMEZarrError, FileNotFoundError):
    """There is no such path, or nothing inside the hierarchy at that path."""


class AccessError(OMEZarrError, PermissionError):
    """The place exists and the system, or the server, refuses to read it."""


class LoginNeededError(AccessError):
    """A server wants a login, or refuses the one that it was given.

    Parameters
    ----------
    message
        What failed.
    server
        Its public address, such as ``"https://host:8080"`` or ``"s3://bucket"``.
    remedy
        What to do.
    """

    def __init__(self, message: str, server: str = "", remedy: str = LOG_IN) -> None:
        super().__init__(message, remedy=remedy)
        self.server = server

    def make_copy(self) -> LoginNeededError:
        """Make an equal error, without the frames that a raised one keeps alive."""
        return LoginNeededError(self.message, self.server, self.remedy)


class ServerError(OMEZarrError, ConnectionError):
    """A server did not answer, or only that it cannot now.

    Parameters
    ----------
    address
        Of what was asked for.
    reason
        What happened instead.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason, remedy=AGAIN)
        self.address = address
        self.reason = reason

    @property
    @override
    def message(self) -> str:
        return f"{self.address} did not come from the server: {self.reason}."


class CorruptDataError(OMEZarrError, ValueError):
    """Bytes are there, but are not what they claim to be."""


class ChunkError(CorruptDataError):
    """A stored object of an array is damaged or cannot be read.

    Parameters
    ----------
    source_name
        Path or URL of the hierarchy's root.
    key
        Of the object, relative to the root, such as ``"A/1/0/0/c/0/0"``.
    reason
        What is wrong with it: a text, or the error.
    group
        Of the image that has the array, relative to the root; "" for the root.
    """

    def __init__(
        self, source_name: str, key: str, reason: str | Exception, group: str = ""
    ) -> None:
        # A chunk has its own remedy; that of the cause counts only where asking again
        # helps.
        given = remedy_of(reason) if isinstance(reason, Exception) else ""
        text = str(reason)
        # Without its remedy, else the text would end with two of them.
        lasting = *SERVER_REMEDIES, LISTED
        if isinstance(reason, OMEZarrError) and given in (*lasting, RESTORE):
            text = reason.message
        remedy = given if given in lasting else RESTORE_CHUNK
        # All arguments go to the base class: errors are pickled by them between
        # processes, and copied.
        super().__init__(source_name, key, text, group, remedy=remedy)
        self.source_name = source_name
        self.key = key
        self.group = group
        self.reason = text

    def without_frames(self) -> ChunkError:
        """Return the same without its cause, which keeps all that ran there."""
        same = ChunkError(self.source_name, self.key, self.reason, self.group)
        same.remedy = self.remedy
        if may_pass(self):
            same.__cause__ = OSError(self.reason)
        return same

    @property
    @override
    def message(self) -> str:
        if self.remedy in SERVER_REMEDIES:
            return self.reason  # which names the object, too
        reason = self.reason.rstrip(".")
        return f"{self.source_name}/{self.key} cannot be read: {reason}."


class ConflictError(OMEZarrError, OSError):
    """What is to be written was changed by another program since it was read."""


class FileChangedError(OMEZarrError, OSError):
    """A file on a server changed while it was open, so that the rest is another one.

    Parameters
    ----------
    address
        Of the file.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address, remedy=REOPEN)
        self.address = address

    @property
    @override
    def message(self) -> str:
        return (
            f"{self.address} was changed on the server while it was open. Pixels of two"
            " versions are never mixed, so nothing more of it is read."
        )


class NameTakenError(OMEZarrError, FileExistsError):
    """What is to be made would have the name of something that is there.

    Parameters
    ----------
    message
        What to do.
    name
        The name.
    free
        A similar one that is free.
    """

    def __init__(self, message: str, name: str, free: str) -> None:
        super().__init__(message)
        self.name = name
        self.free = free


class TargetExistsError(OMEZarrError, FileExistsError):
    """What is to be made exists, and may be replaced only if that is asked for.

    Parameters
    ----------
    target
        Path of it, or what has which name.
    """

    def __init__(self, target: object) -> None:
        super().__init__(str(target), remedy=OVERWRITE)

    @property
    @override
    def message(self) -> str:
        return f"{self.args[0]} already exists."


class OptionError(OMEZarrError, ValueError):
    """An option has a value of another form, or one that does not fit the file.

    Parameters
    ----------
    message
        What is wrong with the value.
    option
        Name of the parameter in Python, such as ``"to_version"``; on the command line
        it is ``--to-version``.
    """

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


class UnsupportedError(OMEZarrError, NotImplementedError):
    """The file says clearly what it is, and it is something we cannot show."""


def may_pass(error: BaseException) -> bool:
    """Return whether asking again later may help: nothing says that data are wrong."""
    # A chunk is damaged by default; only its cause can say that it may come.
    cause = error.__cause__ if isinstance(error, ChunkError) else error
    lasting = OMEZarrError, FileNotFoundError, PermissionError
    return isinstance(cause, ServerError) or (
        isinstance(cause, OSError) and not isinstance(cause, lasting)
    )


def is_refusal(error: BaseException) -> bool:
    """Return whether a server refuses this user, so that a login may help."""
    cause = error.__cause__ if isinstance(error, ChunkError) else error
    return isinstance(cause, LoginNeededError)


def remedy_of(error: BaseException) -> str:
    """Give what to do about an error, "" where it does not say."""
    if isinstance(error, OMEZarrError):
        return error.remedy
    return REMEDIES.get(getattr(error, "errno", 0) or 0, "")


def error_text(error: BaseException) -> str:
    """Say why something failed, for users.

    An unexpected error is a mistake in a program: its class is named, too, and its
    traceback is logged, since its text alone says too little.
    """
    if isinstance(error, OMEZarrError) and str(error):
        return str(error)
    if isinstance(error, OSError) and str(error):
        text = f"{_system_text(error)} {remedy_of(error)}".rstrip()
        return hide_secrets(text)
    if isinstance(error, ValueError) and _is_raised_here(error):
        return hide_secrets(str(error))  # what is wrong with an input
    trace = "".join(traceback.format_exception(error))
    logging.getLogger(__name__).error("Unexpected error\n%s", hide_secrets(trace))
    if isinstance(error, MemoryError):
        return "There is not enough memory. Close other images, and try again."
    if isinstance(error, ValueError):
        return hide_secrets(str(error))  # perhaps an input, perhaps a mistake of ours
    return hide_secrets(f"Unexpected {type(error).__name__}: {error}".rstrip(": "))


def _is_raised_here(error: BaseException) -> bool:
    """Return whether a statement of this package raised an error on purpose."""
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    package = os.path.dirname(__file__)
    return all(
        frame.filename.startswith(package) and (frame.line or "").startswith("raise")
        for frame in frames
    )


def _system_text(error: OSError) -> str:
    """Say what the system refused, and where: without a number."""
    if not error.strerror:
        return str(error)
    location = f": {error.filename}" if error.filename else ""
    return f"{error.strerror}{location}."


@contextmanager
def beyond_limits() -> Iterator[None]:
    """Turn errors of Python about claims of a file (too large, too deep) into ours.

    Raises
    ------
    UnsupportedError
        In place of these errors.
    """
    try:
        yield
    except (MemoryError, OverflowError, RecursionError) as error:
        raise UnsupportedError(f"This cannot be read. {error_text(error)}") from error


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
