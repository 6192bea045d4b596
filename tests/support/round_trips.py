"""A far server on this machine: counts the requests and round trips of its readers."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import unreliable

QUIET = 0.2
"""Seconds without a new request after which all that wait are answered.

All requests of a round trip wait together, so they come within some milliseconds, also
on a busy machine: what comes later was asked for because of an answer.
"""


class Handler(unreliable.Handler):
    """Answers all requests of a round trip together."""

    def do_GET(self):
        server = self.server
        with server.gate:
            server.came = time.monotonic()
            number = server.number
            server.rounds.setdefault(number, []).append(self.path)
            while server.number == number and not server.over.is_set():
                server.gate.wait(QUIET)
        super().do_GET()


def answer_rounds(server):
    """Answer what waits, whenever nothing new comes."""
    while not server.over.wait(QUIET / 10):
        with server.gate:
            waits = server.number in server.rounds
            if waits and time.monotonic() - server.came >= server.quiet:
                server.number += 1
                server.gate.notify_all()


@contextmanager
def far_server(folder, quiet=QUIET):
    """Serve a folder; `forget`, `count_traffic` and `list_rounds` take the server."""
    with unreliable.serving(folder, Handler) as server:
        server.gate, server.quiet = threading.Condition(), quiet
        server.rounds, server.number, server.came = {}, 0, 0.0
        answering = threading.Thread(target=answer_rounds, args=(server,), daemon=True)
        answering.start()
        yield server


def forget(server):
    """Begin to count anew."""
    with server.gate:
        server.rounds.clear()
        server.asked.clear()


def list_rounds(server):
    """The paths of each round trip, to see what waits for what."""
    with server.gate:
        return [server.rounds[number] for number in sorted(server.rounds)]


def count_traffic(server):
    """Number of requests, and of round trips."""
    rounds = list_rounds(server)
    return sum(map(len, rounds)), len(rounds)
