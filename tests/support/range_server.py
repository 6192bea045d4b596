"""A server on this machine that sends parts of files, or fails at it as it is told."""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import unquote, urlsplit

import unreliable


class RangeHandler(unreliable.Handler):
    """Serves a folder as the attributes of its `RangeServer` say."""

    def do_GET(self):
        server = self.server
        with server.lock:
            stated = self.headers.get("Range", "")
            server.asked.append((urlsplit(self.path).path, stated))
            server.conditions.append(self.headers.get("If-Range", ""))
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
        try:
            time.sleep(server.latency)
            self.send_file(stated)
        except (BrokenPipeError, ConnectionResetError):
            pass  # whoever asked has read enough
        finally:
            with server.lock:
                server.in_flight -= 1

    def send_file(self, stated):
        server = self.server
        if server.query and urlsplit(self.path).query != server.query:
            self.refuse(403)
            return
        path = Path(server.folder, unquote(urlsplit(self.path).path).lstrip("/"))
        if not path.is_file():
            self.refuse(404)
            return
        with path.open("rb") as file:
            self.send_opened(file, stated)

    def send_opened(self, file, stated):
        server = self.server
        status = os.fstat(file.fileno())
        size, first = status.st_size, 0
        last = size - 1
        headers = self.version_headers(status)
        if self.headers.get("If-None-Match", "-") == headers.get("ETag"):
            self.refuse(304, {"ETag": headers["ETag"]})
            return
        condition = self.headers.get("If-Range")
        if condition and server.heeds_conditions and condition not in headers.values():
            stated = ""
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", stated)
        if found and server.ranges and (found[1] or server.suffixes):
            first = int(found[1]) if found[1] else max(0, size - int(found[2]))
            last = min(int(found[2]), size - 1) if found[1] and found[2] else size - 1
            if first >= size:
                self.refuse(416, {"Content-Range": f"bytes */{size}"})
                return
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        file.seek(first)
        self.send_data(headers, file.read(last + 1 - first))

    def version_headers(self, status):
        server = self.server
        headers = {"Content-Type": server.content_type, "Accept-Ranges": "bytes"}
        if "tag" in server.version:
            weak = "W/" if "weak" in server.version else ""
            headers["ETag"] = f'{weak}"{status.st_mtime_ns}-{status.st_size}"'
        if "date" in server.version:
            headers["Last-Modified"] = formatdate(status.st_mtime, usegmt=True)
        return headers

    def send_data(self, headers, data):
        server = self.server
        headers = {**headers, "Content-Length": str(len(data)), **server.lies}
        self.send_response(206 if "Content-Range" in headers else 200)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.close_connection = server.endless
        self.end_headers()
        with server.lock:
            server.nbytes += len(data)
        self.wfile.write(data)
        while server.endless:
            self.wfile.write(bytes(1 << 20))
            with server.lock:
                server.nbytes += 1 << 20

    def refuse(self, status, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()


class RangeServer(unreliable.Server):
    """Attributes: what the server does.

    `version` has "tag", "weak" and "date" in it, as it sends them; `lies` are headers
    in place of the true ones, None to leave one out; `asked` has path and range of each
    request, `conditions` what it states of the version; `nbytes` counts what was sent.
    """

    latency = 0.0
    ranges = suffixes = heeds_conditions = True
    version = "tag, date"
    content_type = "application/octet-stream"
    query = ""
    endless = False
    in_flight = most_in_flight = nbytes = 0

    @property
    def ranges_asked(self):
        return [stated for _, stated in self.asked]


@contextmanager
def serving_ranges(folder):
    with RangeServer(("127.0.0.1", 0), RangeHandler) as server:
        server.folder, server.lies = folder, {}
        server.lock, server.asked, server.conditions = threading.Lock(), [], []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.endless = False
            server.shutdown()
            thread.join()
