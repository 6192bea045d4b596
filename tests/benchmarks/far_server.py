"""Serves a folder as from far away, in a process of its own.

python far_server.py FOLDER LATENCY_MS MEGABITS

Prints its port. Each answer begins after the latency; all answers together are not
faster than so many megabits in a second (0: as fast as they can).
"""

from __future__ import annotations

import functools
import http.server
import sys
import threading
import time
from typing import Any

PIECE = 1 << 14
"""Bytes that are sent at once."""


class Wire:
    """What all answers share: so many bytes in a second."""

    def __init__(self, megabits: float) -> None:
        self._seconds = 8 / (megabits * 1e6) if megabits else 0.0
        self._lock = threading.Lock()
        self._free = 0.0

    def wait_for(self, count: int) -> None:
        """Wait until so many bytes have gone through."""
        if not self._seconds:
            return
        with self._lock:
            start = max(self._free, time.monotonic())
            self._free = start + count * self._seconds
            left = self._free - time.monotonic()
        time.sleep(max(0.0, left))


class Handler(http.server.SimpleHTTPRequestHandler):
    """Answers late."""

    protocol_version = "HTTP/1.1"
    latency = 0.0
    wire = Wire(0)

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        time.sleep(self.latency)
        super().do_GET()

    def do_HEAD(self) -> None:
        time.sleep(self.latency)
        super().do_HEAD()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        while piece := source.read(PIECE):
            self.wire.wait_for(len(piece))
            outputfile.write(piece)


class Server(http.server.ThreadingHTTPServer):
    """One thread for each connection."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        pass  # whoever asked went away


def main() -> None:
    folder, latency, megabits = sys.argv[1:]
    Handler.latency, Handler.wire = float(latency) / 1000, Wire(float(megabits))
    handler = functools.partial(Handler, directory=folder)
    with Server(("127.0.0.1", 0), handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
