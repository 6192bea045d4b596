"""How long tests wait. A busy machine is slow, not wrong: what never comes fails."""

from __future__ import annotations

import os
import time

PATIENCE = 180 if os.environ.get("CI") else 60
"""Seconds."""


def rest():
    """Let other threads and processes work."""
    time.sleep(0.005)


def until(condition, between=rest):
    """Wait until a condition holds and asserts nothing false."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if condition():
                return
        except AssertionError:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, f"not within {PATIENCE} s"
        between()
