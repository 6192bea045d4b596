"""What errors of servers say: whether to ask again, and what to report.

aiohttp may not be installed, so that its own are known by the names of their classes.
"""

from __future__ import annotations

from concurrent.futures import CancelledError

LONGEST_REASON = 200
"""Letters of a server's answer that an error shows."""

UNAUTHORIZED = 401
FORBIDDEN = (UNAUTHORIZED, 403)
"""Answers of HTTP by which a server refuses this user."""

REFUSALS = (400, 405, 501)
"""Answers of HTTP by which a bucket takes no objects at all."""

BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Answers of HTTP after which the same request may succeed in a moment."""


class HttpAnswerError(OSError):
    """A server answered that it does not give what it was asked for.

    In place of other libraries' errors, which quote headers and addresses with secrets:
    asyncio logs them.

    Parameters
    ----------
    status
        Number of the answer.
    message
        Its words, which may quote anything.
    login_kind
        The kind of login that it asks for, such as "basic" or "bearer"; "" for none.
    """

    def __init__(self, status: int, message: str = "", login_kind: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.message = message
        self.login_kind = login_kind


class WebPageError(OSError):
    """A server sent a web page in place of what it was asked for.

    For a login, or for whatever the server does not have.
    """


class NoCredentialsError(OSError):
    """There are no credentials for a bucket, or they are incomplete."""


class ChangedObjectError(OSError):
    """An object has not the version that a request states."""


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
    return isinstance(error, NoCredentialsError)


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
    lasting = PermissionError, FileNotFoundError, NoCredentialsError
    return isinstance(error, lasting) or _answer_status(error) in REFUSALS


def _class_names(error: Exception) -> set[str]:
    """Return the names of an error's classes: aiohttp may not be installed."""
    return {kind.__name__ for kind in type(error).__mro__}


def _is_unreachable(error: Exception) -> bool:
    """Return whether no server was found."""
    refused = isinstance(error, ConnectionRefusedError)
    return refused or "ClientConnectorError" in _class_names(error)


def describe_failure(error: Exception, timeout: float) -> str:
    """Say why a request failed, as the end of a sentence.

    Parameters
    ----------
    error
        Of a server, or of the library that asks it.
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
