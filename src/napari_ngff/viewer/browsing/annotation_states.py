"""How far the annotation of each field of what is browsed is."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from napari.utils.notifications import show_error
from psygnal import Signal

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.classes import STATES
from napari_ngff.labels.states import TODO, FieldStates
from napari_ngff.viewer import frontend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.hierarchy.node import Node

__all__ = ["AnnotationStates"]

BEGUN = "in progress"


class AnnotationStates:
    """States of the fields of a plate, a well or a collection; written in workers.

    Parameters
    ----------
    node
        Its group.
    """

    changed = Signal()
    """Emitted in the main thread when the states were read, or one of them changed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._states: FieldStates | None = None
        self._reading = threading.Lock()

    def read(self) -> FieldStates:
        """Read the states once.

        Raises
        ------
        CorruptDataError, OSError
            Where they cannot be read.
        """
        with self._reading:  # several workers may come first
            if self._states is None:
                self._states = FieldStates(self._node)
            return self._states

    def read_soon(self) -> None:
        """Read the states in a worker; whoever needs them first is told of errors."""
        states = weakref.ref(self)

        def read() -> bool:
            known = states()
            try:
                return known is not None and known.read().any
            except (OMEZarrError, OSError):
                return False  # whoever sets a state is told

        def done(any_known: bool) -> None:
            known = states()
            if any_known and known is not None:
                known.changed.emit()

        frontend.run(read, done)

    def state(self, key: str) -> str:
        """Return the state of a field; "to do" until the states are read."""
        return TODO if self._states is None else self._states.state(key)

    def count(self, keys: Sequence[str]) -> dict[str, int]:
        """Count fields by state."""
        states = [self.state(key) for key in keys]
        return {state: states.count(state) for state in STATES}

    def next_to_do(self, keys: Sequence[str], after: str = "") -> str | None:
        """Find the next field that nobody has begun, from one on and around."""
        return self.read().next_to_do(keys, after)

    def begin(self, key: str) -> None:
        """Note that a field is in progress, unless it has another state."""
        self._write(key, BEGUN, only_from=TODO)

    def set(self, key: str, state: str) -> None:
        """Note the state of a field; what cannot be written is reported."""
        self._write(key, state)

    def _write(self, key: str, state: str, only_from: str | None = None) -> None:
        def work() -> Exception | None:
            try:
                states = self.read()
                if only_from in (None, states.state(key)):
                    states.set(key, state)
            except (OMEZarrError, OSError, ValueError) as error:
                return error
            return None

        def done(error: Exception | None) -> None:
            if error is not None:
                show_error(f"The state is not saved.\nField {key}: {error}")
            self.changed.emit()

        frontend.run(work, done)
