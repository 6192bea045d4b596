"""A far server on this machine: counts the requests and round trips of its readers."""

from __future__ import annotations

import time
from contextlib import contextmanager

import unreliable

LATENCY = 0.2
"""Seconds between a request and its answer."""


class Handler(unreliable.Handler):
    """Answers after a while, and notes when each request came and was answered."""

    def do_GET(self):
        came = time.monotonic()
        self.server.over.wait(self.server.latency)
        # Before the answer: what is asked for because of it comes later.
        with self.server.lock:
            self.server.spans.append((came, time.monotonic(), self.path))
        super().do_GET()


@contextmanager
def far_server(folder, latency=LATENCY):
    """Serve a folder; `forget` and `count_traffic` take the server."""
    with unreliable.serving(folder, Handler) as server:
        server.spans, server.latency = [], latency
        yield server


def forget(server):
    """Begin to count anew."""
    with server.lock:
        server.spans.clear()
        server.asked.clear()


def count_traffic(server):
    """Number of requests, and of round trips.

    Requests of one round trip wait together. So it is the largest number of requests of
    which each came after the one before it was answered.
    """
    with server.lock:
        spans = sorted(server.spans, key=lambda span: span[1])
    trips, answered = 0, float("-inf")
    for came, ended, _ in spans:
        if came >= answered:
            trips, answered = trips + 1, ended
    return len(spans), trips


def list_rounds(server):
    """The paths of each round trip, to see what waits for what."""
    with server.lock:
        spans = sorted(server.spans, key=lambda span: span[1])
    rounds, answered = [], float("-inf")
    for came, ended, path in spans:
        if came >= answered:
            rounds.append([])
            answered = ended
        rounds[-1].append(path)
    return rounds
