"""Makes thumbnails in a few threads, those in view first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_ngff.errors import is_refusal, may_pass
from napari_ngff.plate.arrangement import reason_of
from napari_ngff.plate.previews.preview import (
    Limits,
    PreviewPixels,
    PreviewPlace,
    PreviewReader,
    TooLargeError,
    mix_channels,
)
from napari_ngff.store.lru_cache import ByteCache
from napari_ngff.store.threads import go_on_after_error

FEW, MANY = 2, 8
"""Threads for a local source, where more only fight for the interpreter, and for a
remote one, where each waits for answers."""

LOADED = 64 * 2**20
"""Bytes of pixels that are kept to be drawn anew when contrast moves."""

PERCENTILES = (0.5, 99.7)
"""Of the pixels: the lower and the upper limit of contrast."""

SAMPLED = 512
"""Number of thumbnails that count for contrast, and about that of pixels of each."""

NOTICED = 0.02
"""Part of the range by which limits have to move before thumbnails are drawn again."""


@dataclass(frozen=True, slots=True, eq=False)
class WellThumbnail:
    """A picture of an image, or the reason why there is none.

    Attributes
    ----------
    pixels
        uint8, axes "yxc" with red, green, blue; None where there are none.
    error
        Why the image cannot be read, or "".
    summary
        As of `PreviewPixels`; or why there is no picture of an image that can be read.
    passing
        Whether asking again later may help.
    refused
        Whether the server refused it, so that asking again may help after a login.
    """

    pixels: np.ndarray[Any, Any] | None
    error: str = ""
    summary: str = ""
    passing: bool = False
    refused: bool = False


class PlateContrast:
    """Contrast limits that all thumbnails of a plate share, channel by channel.

    The limits of the file; else percentiles of the pixels of the thumbnails so far,
    computed again each time their number has doubled.
    """

    def __init__(self) -> None:
        self._samples: dict[int, list[np.ndarray[Any, Any]]] = {}
        self._count = 0
        self._computed: dict[int, Limits] = {}

    def add_preview(self, preview: PreviewPixels) -> bool:
        """Add a thumbnail to the sample; return whether limits have moved."""
        if self._count >= SAMPLED:
            return False
        self._count += 1
        missing = False
        for pixels, look in zip(preview.pixels, preview.looks, strict=True):
            if look.limits is None:
                some = pixels.ravel()[:: max(1, pixels.size // SAMPLED)]
                some = some[np.isfinite(some)] if some.dtype.kind == "f" else some
                self._samples.setdefault(look.index, []).append(some)
                missing |= look.index not in self._computed
        # `n & (n - 1)` is 0 for powers of 2.
        if not missing and self._count & (self._count - 1):
            return False
        return self._update_limits()

    def limits_of(self, preview: PreviewPixels) -> list[Limits]:
        """Return the contrast of each channel of a thumbnail, in intensity."""
        return [
            look.limits or self._computed.get(look.index, (0.0, 1.0))
            for look in preview.looks
        ]

    def _update_limits(self) -> bool:
        moved = False
        for index, samples in self._samples.items():
            pixels = np.concatenate(samples)
            if not pixels.size:
                continue
            low, high = (float(p) for p in np.percentile(pixels, PERCENTILES))
            # A plane of one value must not divide by 0.
            high = max(high, low + 1e-6)
            before = self._computed.get(index)
            slack = NOTICED * (high - low)
            if (
                before is None
                or abs(before[0] - low) > slack
                or abs(before[1] - high) > slack
            ):
                self._computed[index] = low, high
                moved = True
        return moved


class PreviewQueue:
    """Makes thumbnails in its own threads, which end when none are wanted.

    Parameters
    ----------
    reader
        Reads their pixels.
    ready
        Called in any thread when `take_ready` has something again.
    """

    def __init__(self, reader: PreviewReader, ready: Callable[[], None]) -> None:
        self._reader = reader
        self._ready = ready
        self._workers = MANY if reader.is_remote else FEW
        self._lock = threading.Lock()
        self._running = 0
        self._wanted: deque[PreviewPlace] = deque()
        self._reading: set[PreviewPlace] = set()
        self._contrast = PlateContrast()
        # Of the contrast; a thumbnail of an older version is drawn again.
        self._version = 0
        # Pixels of thumbnails that are on screen, for another contrast.
        self._loaded: ByteCache[PreviewPixels] = ByteCache(LOADED)
        self._drawn: dict[PreviewPlace, int] = {}
        self._out: dict[PreviewPlace, WellThumbnail] = {}
        self._closed = False

    def request_places(self, places: Iterable[PreviewPlace]) -> None:
        """Ask for thumbnails, the most urgent first; forget what was asked before.

        Thumbnails that are being read are finished. When contrast moves, all that were
        given are given again.
        """
        with self._lock:
            if self._closed:
                return
            wanted = [*places, *self._list_outdated()]
            self._wanted = deque(
                place for place in dict.fromkeys(wanted) if place not in self._reading
            )
            # Threads end when nothing is wanted, so that an idle window has none.
            for _ in range(min(self._workers - self._running, len(self._wanted))):
                self._running += 1
                threading.Thread(
                    target=self._work_loop, name="napari-ngff-preview", daemon=True
                ).start()

    def _list_outdated(self) -> list[PreviewPlace]:
        """List the thumbnails that were drawn with an earlier contrast."""
        return [p for p, version in self._drawn.items() if version != self._version]

    def take_ready(self) -> dict[PreviewPlace, WellThumbnail]:
        """Return the thumbnails that were made since the last call."""
        with self._lock:
            out, self._out = self._out, {}
        return out

    def close(self) -> None:
        """Stop: no thumbnails are requested or returned any more."""
        # What threads are reading is dropped when they hand it over.
        with self._lock:
            self._closed = True
            self._wanted.clear()
            self._out.clear()
            self._loaded.limit = 0

    def _work_loop(self) -> None:
        while (place := self._next_place()) is not None:
            try:
                preview = self._loaded.get(place) or self._reader.read(place)
                thumbnail, version = self._draw_thumbnail(place, preview)
            except TooLargeError as error:
                thumbnail, version = WellThumbnail(None, "", str(error)), self._version
            except Exception as error:  # noqa: BLE001
                # Zarr and its codecs raise whatever they like for damaged data; one
                # thumbnail must not stop the others.
                text, passing = reason_of(error), may_pass(error)
                refused = is_refusal(error)
                thumbnail = WellThumbnail(None, text, passing=passing, refused=refused)
                version = self._version
            if self._hand_over(place, thumbnail, version):
                go_on_after_error(self._ready)

    def _next_place(self) -> PreviewPlace | None:
        with self._lock:
            if not self._wanted or self._closed:
                self._running -= 1
                return None
            wanted = self._wanted.popleft()
            self._reading.add(wanted)
            return wanted

    def _draw_thumbnail(
        self, place: PreviewPlace, preview: PreviewPixels
    ) -> tuple[WellThumbnail, int]:
        self._loaded.put(place, preview, preview.pixels.nbytes)
        # Images of a plate are compared by eye, so they share a contrast.
        contrast = self._contrast if self._reader.alike else PlateContrast()
        with self._lock:
            moved = place not in self._drawn and contrast.add_preview(preview)
            if moved and self._reader.alike:
                self._version += 1
                # Those given before come again, after all that is wanted.
                waiting = {place, *self._wanted}
                self._wanted.extend(
                    p for p in self._list_outdated() if p not in waiting
                )
            limits = contrast.limits_of(preview)
            version = self._drawn[place] = self._version
        picture = WellThumbnail(mix_channels(preview, limits), "", preview.summary)
        return picture, version

    def _hand_over(
        self, place: PreviewPlace, thumbnail: WellThumbnail, version: int
    ) -> bool:
        """Keep a thumbnail until it is taken; return whether it is the first one."""
        # Only the first one calls `ready`: one call for all that come until they are
        # taken.
        with self._lock:
            self._reading.discard(place)
            if self._closed:
                return False
            if version != self._version:
                # The contrast has moved since it was drawn.
                self._wanted.append(place)
            first = not self._out
            self._out[place] = thumbnail
        return first
