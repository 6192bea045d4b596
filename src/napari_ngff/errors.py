"""What can go wrong, as one tree; every error also is the builtin that it stands for.

::

    OMEZarrError
    ├── NotOMEZarrError (ValueError)         there is no OME-Zarr metadata here
    ├── NodeNotFoundError (FileNotFoundError) nothing at that place
    ├── AccessError (PermissionError)        it is there, but may not be read
    ├── ServerError (ConnectionError)        a server did not give it; it may later
    ├── CorruptDataError (ValueError)        metadata, archive or chunk is damaged
    │   └── ChunkError                       ...one chunk, or shard, of an array
    ├── ConflictError (OSError)              someone else changed it meanwhile
    ├── NameTakenError (FileExistsError)     something else has that name
    └── UnsupportedError (NotImplementedError) understood, but cannot be shown

Every message says what failed, where (store and inner path) and what to do.
Broken *metadata* of readable data is no exception but a
`napari_ngff.metadata.model.Problem`.
"""

from __future__ import annotations

__all__ = [
    "AccessError",
    "ChunkError",
    "ConflictError",
    "CorruptDataError",
    "NameTakenError",
    "NodeNotFoundError",
    "NotOMEZarrError",
    "OMEZarrError",
    "ServerError",
    "UnsupportedError",
    "may_pass",
]

AGAIN = "Ask for it again."
"""What to do where it helps."""


class OMEZarrError(Exception):
    """Base of every error that this package raises on purpose."""


class NotOMEZarrError(OMEZarrError, ValueError):
    """The place exists and holds no OME-Zarr metadata."""


class NodeNotFoundError(OMEZarrError, FileNotFoundError):
    """There is no such path, or nothing inside the hierarchy at that path."""


class AccessError(OMEZarrError, PermissionError):
    """The place exists and the system, or the server, refuses to read it."""


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
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address} did not come from the server: {self.reason}. {AGAIN}"


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
        What is wrong with it.
    """

    def __init__(self, source_name: str, key: str, reason: str) -> None:
        super().__init__(source_name, key, reason)
        self.source_name = source_name
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        if self.reason.endswith(AGAIN):
            return self.reason  # which names the object, too
        # What was wrong with a well may say already what to do.
        reason = self.reason.removesuffix(" Restore it from a copy.").rstrip(".")
        return (
            f"{self.source_name}/{self.key} cannot be read: {reason}. "
            "Restore it from a copy; without it this part stays empty."
        )


class ConflictError(OMEZarrError, OSError):
    """What is to be written was changed by another program since it was read."""


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


class UnsupportedError(OMEZarrError, NotImplementedError):
    """The file says clearly what it is, and it is something we cannot show."""


def may_pass(error: BaseException) -> bool:
    """Tell whether it may help to ask again: nothing says that data are wrong."""
    cause = error.__cause__ if isinstance(error, ChunkError) else error
    lasting = OMEZarrError, FileNotFoundError, PermissionError
    return isinstance(cause, ServerError) or (
        isinstance(cause, OSError) and not isinstance(cause, lasting)
    )
