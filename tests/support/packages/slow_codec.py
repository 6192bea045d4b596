"""A codec of another package, which numcodecs finds in each process by its metadata."""

from __future__ import annotations

import time

from numcodecs import Zlib
from numcodecs.abc import Codec
from numcodecs.registry import register_codec


class SlowCodec(Codec):
    """Zlib that takes its time for each chunk."""

    codec_id = "napari-ngff-slow"

    def __init__(self, milliseconds=20):
        self.milliseconds = milliseconds

    def encode(self, buf):
        return Zlib(1).encode(buf)

    def decode(self, buf, out=None):
        time.sleep(self.milliseconds / 1000)
        return Zlib(1).decode(buf, out)


# This process may have looked for packages before this one was on its path.
register_codec(SlowCodec)
