"""How servers are asked: by what, in which thread, and how long they may take."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import cache
from typing import TYPE_CHECKING

from napari_ngff.errors import UnsupportedError

if TYPE_CHECKING:
    from napari_ngff.store.sources.file_part import ServerAccess
    from napari_ngff.store.sources.server_logins import AddressSecrets

LONGEST_REQUEST = 60.0
"""Seconds for an object, repeated requests included.

A limit for the time without a byte is not enough: some servers send a byte now and
then.
"""

LATE_DOCUMENT = 5.0
"""Seconds for a document of a server that let this time pass: an image has some ten
documents, each of which would be waited for."""

SECONDS_VARIABLE = "NAPARI_NGFF_SERVER_SECONDS"
"""Environment variable that allows more time, for slow connections."""

SLOWEST_UPLOAD = 64e3
"""Bytes per second of an object that is written; 0.5 Mbit/s is the slowest line."""

LATE = (
    "it was not complete after {:g} seconds (set the environment variable"
    f" {SECONDS_VARIABLE} to wait longer)"
)


BUCKETS = ("s3", "gs", "az")
"""Schemes of addresses of buckets: of S3, Google and Azure."""

OTHER_SCHEME = (
    "Mount or download the folder; in Python, open_node() also takes any store of zarr,"
    " such as zarr.storage.FsspecStore."
)


def allowed_seconds(nbytes: int = 0) -> float:
    """Return the seconds that an object may take.

    Parameters
    ----------
    nbytes
        Bytes that are sent to the server; they take longer than an answer.
    """
    try:
        seconds = float(os.environ.get(SECONDS_VARIABLE, ""))
    except ValueError:
        seconds = LONGEST_REQUEST
    return seconds + nbytes // SLOWEST_UPLOAD


@cache
def _loop_of(_process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    run = loop.run_forever
    threading.Thread(target=run, name="napari-ngff-servers", daemon=True).start()
    return loop


def server_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that asks servers; a process has its own, also after a fork."""
    return _loop_of(os.getpid())


def open_server(server: str, secrets: AddressSecrets, seconds: float) -> ServerAccess:
    """Return by what a server is asked.

    Parameters
    ----------
    server, secrets
        Scheme and host, or scheme and bucket; of the address.
    seconds
        Without a byte, before a request fails.

    Raises
    ------
    UnsupportedError
        Where the packages for this scheme are not installed, or there are none.
    """
    scheme = server.partition("://")[0]
    try:
        if scheme in ("http", "https"):
            from napari_ngff.store.sources.http_server import HttpServer

            return HttpServer(secrets, seconds)
        if scheme in BUCKETS:
            from napari_ngff.store.sources.object_store import open_bucket

            return open_bucket(server, secrets, seconds)
    except ImportError as error:
        extra = "s3" if scheme in BUCKETS else "remote"
        msg = (
            f"Reading {scheme}:// addresses needs packages that are not installed"
            f" ({error}). Run: pip install 'napari-ngff[{extra}]'"
        )
        raise UnsupportedError(msg) from error
    msg = f"Addresses that start with {scheme}:// are not supported."
    raise UnsupportedError(msg, remedy=OTHER_SCHEME)
