"""The annotation state of each field, in a small JSON file beside the plate.

The file is ``NAME.annotation.json`` beside the plate's folder, so that it is moved with
the plate, and the plate's metadata stay as they are. Where that folder cannot be
written, it is in the user's data. See docs/annotate.md.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError
from napari_ngff.labels.label_classes import STATES
from napari_ngff.labels.places.sidecar import address_of
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.hierarchy.location import is_url
from napari_ngff.store.write.shared_document import SharedDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.hierarchy.node import Node

__all__ = ["TODO", "FieldState", "FieldStates"]

TODO = STATES[0]

FORMAT = "napari-ngff-annotation"


@dataclass(frozen=True, slots=True)
class FieldState:
    """The annotation state of one field.

    Attributes
    ----------
    state
        One of `STATES`.
    when
        ISO 8601, UTC.
    """

    state: str = TODO
    when: str = ""


class FieldStates:
    """The states of the fields of one plate, well or collection.

    Parameters
    ----------
    node
        Its group.

    Attributes
    ----------
    path
        Of the file; it is made with the first state.

    Raises
    ------
    CorruptDataError
        Where there is a file that is something else; it stays as it is.
    OSError
        Where it cannot be read.
    """

    def __init__(self, node: Node) -> None:
        self._document = SharedDocument(_path_of(node))
        self.path = self._document.path
        self._writing = threading.Lock()
        self._known = self._parse_states(self._document.read())

    def _parse_states(self, content: Any) -> dict[str, FieldState]:
        try:
            if content is not None and content["format"] != FORMAT:
                raise ValueError(f'"format" is not "{FORMAT}"')
            fields = {} if content is None else content["fields"]
            return {
                str(field): FieldState(str(entry["state"]), str(entry["when"]))
                for field, entry in fields.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = f"{self.path} is not a list of states of fields: {error}."
            raise CorruptDataError(
                msg, remedy="Move it away to begin a new one."
            ) from error

    @property
    def has_any(self) -> bool:
        """Return whether a state of any field was noted."""
        return bool(self._known)

    def all_states(self) -> dict[str, str]:
        """Return all states that were noted, by the path of the field."""
        return {field: entry.state for field, entry in self._known.items()}

    def newest_fields(self, most: int) -> list[str]:
        """List the paths of the fields whose states were noted last, newest first."""
        ordered = sorted(self._known, key=lambda field: self._known[field].when)
        return ordered[::-1][:most]

    def state_of(self, field: str) -> str:
        """Return the state of a field, by its path below the node."""
        return self._known.get(field, FieldState()).state

    def set_state(self, field: str, state: str, only_from: str | None = None) -> None:
        """Note a state; those of other fields that others noted meanwhile are kept.

        Parameters
        ----------
        only_from
            State that the field must have now in the file; by default any.

        Raises
        ------
        ValueError
            Where there is no such state.
        CorruptDataError, OSError
            Where it cannot be kept; nothing is changed then.
        """
        if state not in STATES:
            raise ValueError(f"A state is one of {', '.join(STATES)}.")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        known: dict[str, FieldState] = {}

        def note_state(content: Any) -> Any:
            nonlocal known
            known = self._parse_states(content)
            if only_from not in (None, known.get(field, FieldState()).state):
                return content
            known[field] = FieldState(state, now)
            return {
                "format": FORMAT,
                "version": 1,
                "fields": {
                    name: {"state": entry.state, "when": entry.when}
                    for name, entry in sorted(known.items())
                },
            }

        # Labels of several images may be saved at once, each in its own thread.
        with self._writing:
            self._document.change(note_state)
            # After the file: where it cannot be written, the state on screen stays the
            # old one.
            self._known = known

    def count_states(self, fields: Sequence[str]) -> dict[str, int]:
        """Count fields by state, in the order of `STATES`."""
        states = [self.state_of(field) for field in fields]
        return {state: states.count(state) for state in STATES}

    def next_to_do(self, fields: Sequence[str], after: str = "") -> str | None:
        """Find the next field to do after a given one, and then from the first on."""
        start = fields.index(after) + 1 if after in fields else 0
        ordered = [*fields[start:], *fields[:start]]
        return next(
            (candidate for candidate in ordered if self.state_of(candidate) == TODO),
            None,
        )


def _path_of(node: Node) -> str:
    """Choose where the states of a node are kept."""
    address = address_of(node)
    root = node.location.source.name if address is None else address.root
    inside = node.location.path.replace("/", ".")
    name = os.path.basename(root.rstrip("/"))
    name = ".".join(part for part in (name, inside, "annotation.json") if part)
    beside = os.path.join(os.path.dirname(root.rstrip("/")), name)
    if address is not None and not is_url(root):
        folder = os.path.dirname(beside)
        with suppress(OSError):
            # An existing file is used even where it can only be read, so that states
            # are shown.
            if os.path.exists(beside) or os.access(folder, os.W_OK):
                return beside
    home = data_folder() / "annotation"
    # Plates of one name in several folders share the user's data.
    digest = "memory" if address is None else address.digest
    return str(home / f"{digest}-{name}")
