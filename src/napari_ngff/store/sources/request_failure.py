"""What errors of fsspec's file systems say: whether to ask again, and what to report.

Each file system raises its own kinds. aiohttp and botocore may not be installed, so
that theirs are known by the names of their classes.
"""

from __future__ import annotations

import errno
from concurrent.futures import CancelledError

from napari_ngff.store.sources.http_request import WebPageError

LONGEST_REASON = 200
"""Letters of a server's answer that an error shows."""

UNAUTHORIZED = 401
FORBIDDEN = (UNAUTHORIZED, 403)
"""Answers of HTTP by which a server refuses this user."""

NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "CredentialRetrievalError",
    "SSOError",
}
"""Errors of botocore where there are none, or where they are incomplete."""

REFUSALS = (errno.EPERM, errno.EINVAL, errno.ENOSYS)
"""Numbers of errors by which s3fs reports that a bucket takes no objects."""

UNREACHABLE = {
    "ClientConnectorError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "EndpointConnectionError",
    "ProxyConnectionError",
}
"""Errors of aiohttp and botocore where no server was found, or it is dead."""

BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Answers of HTTP after which the same request may succeed in a moment."""


def _answer_status(error: Exception) -> int | None:
    """Return the status of an answer of HTTP; None for any other error."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def is_locked(error: Exception) -> bool:
    """Return whether a server refuses this user."""
    return isinstance(error, PermissionError) or _answer_status(error) in FORBIDDEN


def may_be_missing(error: Exception) -> bool:
    """Return whether a server may say so of what it does not have.

    Public buckets refuse it (403), and some servers send a web page.
    """
    if isinstance(error, WebPageError) or lacks_credentials(error):
        return True
    # 401: it does not know who asks, whatever is asked for.
    return is_locked(error) and _answer_status(error) != UNAUTHORIZED


def lacks_credentials(error: Exception) -> bool:
    """Return whether there are no credentials, or incomplete ones."""
    return bool(_class_names(error) & NO_CREDENTIALS)


def is_brief(error: Exception) -> bool:
    """Return whether the same request may succeed in a moment."""
    # After a timeout the time is used up; a second one would double the wait.
    if isinstance(error, TimeoutError | CancelledError):
        return False
    if _answer_status(error) is not None:
        return _answer_status(error) in BUSY
    if _is_unreachable(error):
        return False
    return "ClientError" in _class_names(error) or isinstance(error, ConnectionError)


def refuses_objects(error: Exception) -> bool:
    """Return whether objects cannot be put; else the server has not answered."""
    if isinstance(error, OSError):
        lasting = PermissionError, FileNotFoundError
        return isinstance(error, lasting) or error.errno in REFUSALS
    return lacks_credentials(error)


def _class_names(error: Exception) -> set[str]:
    """Return the names of an error's classes: aiohttp may not be installed."""
    return {kind.__name__ for kind in type(error).__mro__}


def _is_unreachable(error: Exception) -> bool:
    """Return whether no server was found."""
    refused = isinstance(error, ConnectionRefusedError)
    return refused or bool(_class_names(error) & UNREACHABLE)


def error_code(error: OSError) -> str:
    """Return the code of an answer of S3, from the error of botocore; "" for none."""
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
        cause = cause.__cause__ or cause.__context__
    return ""


def describe_failure(error: Exception, timeout: float) -> str:
    """Say why a request failed, as the end of a sentence.

    Parameters
    ----------
    error
        Of a file system of fsspec.
    timeout
        Seconds without a byte after which it fails.
    """
    if isinstance(error, CancelledError):
        return "it was cancelled, or the window was closed"
    if _is_unreachable(error):
        return "the server cannot be reached; check the address and the network"
    if isinstance(error, TimeoutError):
        return f"there was no answer within {timeout:g} seconds"
    status = _answer_status(error)
    text = str(error).rstrip(".") or repr(error)
    if status is not None:
        text = f"it answered {status} {getattr(error, 'message', '')}".rstrip()
    # Some errors quote all that a server sent.
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."
