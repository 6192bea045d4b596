"""Lets one call after the other fail that some modules make, whatever it calls."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager

import napari_ngff

OURS = (
    "contextlib",
    "functools",
    "pathlib",
    "threading",
    "_weakrefset",
    "typing",
    "napari_ngff.viewer.services.window",
)
"""What lets work go on, and what Python itself calls."""

RUNNERS = "run_work", "run_in_main", "run_after", "report_to_main"
"""They only pass a call of a `Window` on: by Qt, which does not fail."""

SOURCE = os.path.dirname(napari_ngff.__file__)


class Injected(LookupError):
    """What a codec, a store, napari or a listener of another plugin may raise."""


class CallTrace:
    """Notes the calls that modules make; of a chosen one, the first raises an error.

    Parameters
    ----------
    modules
        Paths in the package, such as "viewer/session.py".
    chosen
        The function that calls, and the one that fails; None to note all pairs.
    """

    def __init__(self, modules, chosen=None):
        self._files = {os.path.join(SOURCE, *module.split("/")) for module in modules}
        self._chosen = chosen
        self._owner = threading.get_ident()
        self.calls = {}
        self.error = None

    def _on_event(self, frame, event, arg):
        caller, code = frame.f_back, frame.f_code
        if caller is None or caller.f_code.co_filename not in self._files:
            return
        # Calls to each other; made by Python, such as comprehensions and dataclasses.
        if code.co_filename in self._files or "<" in (code.co_filename + code.co_name):
            return
        module = frame.f_globals.get("__name__")
        if module in OURS or code.co_name == "__del__":
            return
        callee = f"{module}:{code.co_qualname}"
        if code.co_name in RUNNERS:
            return
        call = caller.f_code.co_qualname, callee
        if self._chosen is None:
            self.calls[call] = None
        elif call == self._chosen and self.error is None:
            self.error = Injected(" -> ".join(call))
            raise self.error

    @contextmanager
    def active(self):
        """Trace this thread, and those that it starts."""
        before = sys.gettrace()
        threading.settrace(self._on_event)
        sys.settrace(self._on_event)
        try:
            yield self
        finally:
            sys.settrace(before)
            threading.settrace(before)


def each_failing(modules, prepare, act, every=1):
    """Do something whole, and then again for each call that it makes, which fails.

    Yields the error after each time; None where all went well, or the call was not
    made this time.

    Parameters
    ----------
    prepare
        Called before each time; nothing fails in it.
    every
        Of so many calls in a row, only the first fails.
    """
    prepare()
    noted = CallTrace(modules)
    with noted.active():
        act()
    yield None
    for call in list(noted.calls)[::every]:
        prepare()
        trace = CallTrace(modules, call)
        with trace.active():
            act()
        yield trace.error
