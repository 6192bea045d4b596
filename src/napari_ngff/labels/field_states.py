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

from napari_ngff.addresses import is_url
from napari_ngff.errors import CorruptDataError, OMEZarrError
from napari_ngff.labels.places.sidecar import address_of
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.write.shared_document import SharedDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.hierarchy.node import Node

# Written to files in English whatever the interface shows (docs/design/008).
STATES = ("to do", "in progress", "done", "flagged")
TODO = STATES[0]

FORMAT = "napari-ngff-annotation"

MOST_LISTED = 8
"""Most fields that are looked at to find labels of a name."""


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


@dataclass(frozen=True, slots=True)
class LastAnnotated:
    """The labels of a plate that were annotated last.

    Attributes
    ----------
    labels
        Their name; "" for none.
    fields
        Paths of some fields that have them, the newest first.
    """

    labels: str = ""
    fields: tuple[str, ...] = ()


NamedStates = dict[str, dict[str, FieldState]]
"""States by the name of the labels, and by field; "" has those of no known name."""


class FieldStates:
    """The states of the fields of one plate, well or collection, for each labels.

    One field may be done for labels of one name, and to do for others. States that an
    earlier version of this package noted are of all labels, until a field gets one of
    its own.

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

    def _parse_states(self, content: Any) -> NamedStates:
        try:
            if content is not None and content["format"] != FORMAT:
                raise ValueError(f'"format" is not "{FORMAT}"')
            fields = {} if content is None else content["fields"]
            named = {} if content is None else content.get("labels", {})
            known = {str(name): _parse_fields(fields) for name, fields in named.items()}
            # What is of no labels was noted by a version that knows no names.
            unnamed = {
                field: entry
                for field, entry in _parse_fields(fields).items()
                if all(states.get(field) != entry for states in known.values())
            }
            return {**known, "": {**known.get("", {}), **unnamed}}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = f"{self.path} is not a list of states of fields: {error}."
            raise CorruptDataError(
                msg, remedy="Move it away to begin a new one."
            ) from error

    @property
    def has_any(self) -> bool:
        """Return whether a state of any field was noted."""
        return any(self._known.values())

    @property
    def newest_labels(self) -> str:
        """The name of the labels of which a state was noted last; "" for none."""
        times = {
            name: max(entry.when for entry in states.values())
            for name, states in self._known.items()
            if name and states
        }
        return max(times, key=times.__getitem__, default="")

    def all_states(self, labels: str = "") -> dict[str, str]:
        """Return all states of labels that were noted, by the path of the field."""
        return {field: entry.state for field, entry in self._states_of(labels).items()}

    def _states_of(self, labels: str) -> dict[str, FieldState]:
        """Return the states that hold for labels; "" for the newest of any labels."""
        if labels:
            return {**self._known[""], **self._known.get(labels, {})}
        entries = [pair for states in self._known.values() for pair in states.items()]
        return dict(sorted(entries, key=lambda pair: pair[1].when))

    def newest_fields(self, most: int, labels: str = "") -> list[str]:
        """List the paths of the fields whose states were noted last, newest first."""
        known = self._states_of(labels)
        return sorted(known, key=lambda field: known[field].when)[::-1][:most]

    def state_of(self, field: str, labels: str = "") -> str:
        """Return the state of a field, by its path below the node."""
        return self._states_of(labels).get(field, FieldState()).state

    def set_state(
        self, field: str, state: str, only_from: str | None = None, labels: str = ""
    ) -> None:
        """Note a state; those of other fields that others noted meanwhile are kept.

        Parameters
        ----------
        only_from
            State that the field must have now in the file; by default any.
        labels
            Name of the labels that are annotated.

        Raises
        ------
        ValueError
            Where there is no such state.
        CorruptDataError, OSError
            Where it cannot be kept; nothing is changed then.
        """
        if state not in STATES:
            raise ValueError(f"A state is one of {', '.join(STATES)}.")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        known: NamedStates = {}

        def note_state(content: Any) -> Any:
            nonlocal known
            known = self._parse_states(content)
            before = {**known[""], **known.get(labels, {})}
            if only_from not in (None, before.get(field, FieldState()).state):
                return content
            known.setdefault(labels, {})[field] = FieldState(state, now)
            return _dump_states(known)

        # Labels of several images may be saved at once, each in its own thread.
        with self._writing:
            self._document.change(note_state)
            # After the file: where it cannot be written, the state on screen stays the
            # old one.
            self._known = known

    def count_states(self, fields: Sequence[str], labels: str = "") -> dict[str, int]:
        """Count fields by state, in the order of `STATES`."""
        known = self._states_of(labels)
        states = [known.get(field, FieldState()).state for field in fields]
        return {state: states.count(state) for state in STATES}

    def next_to_do(
        self, fields: Sequence[str], after: str = "", labels: str = ""
    ) -> str | None:
        """Find the next field to do after a given one, and then from the first on."""
        start = fields.index(after) + 1 if after in fields else 0
        known = self._states_of(labels)
        ordered = (*fields[start:], *fields[:start])
        return next(
            (x for x in ordered if known.get(x, FieldState()).state == TODO), None
        )


def _parse_fields(fields: Any) -> dict[str, FieldState]:
    return {
        str(field): FieldState(str(entry["state"]), str(entry["when"]))
        for field, entry in fields.items()
    }


def _dump_fields(fields: dict[str, FieldState]) -> dict[str, dict[str, str]]:
    return {
        field: {"state": entry.state, "when": entry.when}
        for field, entry in sorted(fields.items())
    }


def _dump_states(known: NamedStates) -> dict[str, Any]:
    """Write states by labels, and the newest one of each field for earlier versions."""
    entries = [pair for states in known.values() for pair in states.items()]
    newest = dict(sorted(entries, key=lambda pair: pair[1].when))
    content = {"format": FORMAT, "version": 1, "fields": _dump_fields(newest)}
    if any(known[name] for name in known if name):
        named = {name: _dump_fields(known[name]) for name in sorted(known)}
        content["labels"] = {name: fields for name, fields in named.items() if fields}
    return content


def read_last_annotated(node: Node) -> LastAnnotated:
    """Read which labels were annotated last; none where the states are damaged."""
    try:
        states = FieldStates(node)
    except (OMEZarrError, OSError):
        return LastAnnotated()  # reported where fields are annotated
    name = states.newest_labels
    return LastAnnotated(name, tuple(states.newest_fields(MOST_LISTED, name)))


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
