"""How long a server may take for an object that is read or written."""

from __future__ import annotations

import os

__all__ = ["LATE", "allowed_seconds"]

LONGEST_REQUEST = 60.0
"""Seconds for an object, repeated requests included.

A limit for the time without a byte is not enough: some servers send a byte now and
then. And the libraries that write objects wait without any limit for a server that
accepts a connection and says nothing: aiohttp for its leave to send ("100 Continue").
"""

SECONDS_VARIABLE = "NAPARI_NGFF_SERVER_SECONDS"
"""Environment variable that allows more time, for slow connections."""

SLOWEST_UPLOAD = 64e3
"""Bytes per second of an object that is written; 0.5 Mbit/s is the slowest line."""

LATE = (
    "it was not complete after {:g} seconds (set the environment variable"
    f" {SECONDS_VARIABLE} to wait longer)"
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
