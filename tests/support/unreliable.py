"""A server on this machine that fails as it is told to."""

from __future__ import annotations

import contextlib
import functools
import http.server
import socket
import threading

OK, BUSY, DROP, HANG, DRIP = 200, 503, "drop", "hang", "drip"
ENDLESS_DRIP, SLOW_HEADERS, NO_END, BROKEN_CHUNKS, FLOOD = (
    "a byte now and then",
    "headers letter by letter",
    "a body without an end",
    "broken chunks",
    "more and more",
)


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def endless(head, part):
    yield head
    while True:
        yield part


ENDLESS = {
    ENDLESS_DRIP: lambda: endless(HEAD + b"Content-Length: 99999\r\n\r\n", b"."),
    SLOW_HEADERS: lambda: endless(HEAD, b"X: y\r\n"),
    NO_END: lambda: endless(HEAD + b"\r\n", b"."),
    BROKEN_CHUNKS: lambda: endless(CHUNKED, b"length\r\n"),
    FLOOD: lambda: endless(HEAD + b"\r\n", bytes(1 << 20)),
}
"""Answers that never end: what is sent, piece after piece."""


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        with server.lock:
            server.asked.append(self.path)
            answer = server.answer(self.path)
        if answer == HANG:
            server.over.wait()
        if answer in (HANG, DROP):
            self.close_connection = True
            self.connection.close()
        elif answer == DRIP:
            self.send_response(OK)
            self.send_header("Content-Length", "8")
            self.end_headers()
            for _ in range(8):
                self.wfile.write(b".")
                server.over.wait(0.1)
        elif answer in ENDLESS:
            self.close_connection = True
            for part in ENDLESS[answer]():
                self.wfile.write(part)
                if answer != FLOOD and server.over.wait(0.05):
                    break
        elif answer == OK:
            super().do_GET()
        else:
            self.send_response(answer)
            self.send_header("Content-Length", "0")
            self.end_headers()


class Server(http.server.ThreadingHTTPServer):
    """Attributes: `answer` tells by the path what to do; `asked` lists all paths."""

    daemon_threads = True
    request_queue_size = 128
    block_on_close = False

    def __init__(self, *args, **kwargs):
        self.connections = set()
        super().__init__(*args, **kwargs)

    def process_request(self, request, client_address):
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self.connections.discard(request)
        super().shutdown_request(request)

    def server_close(self):
        """End also the connections: another server may get the same port."""
        super().server_close()
        for connection in tuple(self.connections):
            with contextlib.suppress(OSError):  # whoever asked went away
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_):
        pass  # whoever asked went away

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def serving(folder, handler=Handler, port=0):
    handler = functools.partial(handler, directory=str(folder))
    with Server(("127.0.0.1", port), handler) as server:
        server.lock, server.over, server.asked = threading.Lock(), threading.Event(), []
        server.answer = lambda path: OK
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
