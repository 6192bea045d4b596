"""Reads values of a JSON document leniently, and collects their problems.

Every reading method returns None, without a problem, for a value that is absent or
null, and None with a problem for one that is unusable. For a required key a caller
uses `Cursor.require_value`. No method raises, whatever the value is.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

from napari_ngff.metadata.model import Consequence, Problem, Severity

INTEGERS = range(-(2**63), 2**64)
"""Values of integer pixels (int64 and uint64), and so of labels."""

DRIVE = re.compile("(^|/)[A-Za-z]:" if os.name == "nt" else "(?!)")
"""Of a path of Windows, which leads to other files from wherever it stands."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """One value of a document, its place, and the document's list of problems.

    Attributes
    ----------
    value
        As `json` returned it; None where the document has no value.
    where
        Keys and indices from the document's root, joined with ``/``.
    problems
        Shared by all cursors of one document; grows while it is read.
    """

    value: object
    where: str
    problems: list[Problem]

    @property
    def is_present(self) -> bool:
        """Return whether there is a value other than null."""
        return self.value is not None

    def at(self, key: str) -> Cursor:
        """Go to the value of `key`; None unless this is an object that has it."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        return self.go_to(value, key)

    def children(self) -> list[Cursor]:
        """Go to each entry of a list, without any report; none unless this is a
        list.
        """
        values = self.value if isinstance(self.value, list) else []
        return [self.go_to(value, index) for index, value in enumerate(values)]

    def go_to(self, value: object, key: str | int) -> Cursor:
        """Go to a value that the caller has found under `key`."""
        where = f"{self.where}/{key}" if self.where else str(key)
        return Cursor(value, where, self.problems)

    def report_error(
        self, code: str, text: str, consequence: str = Consequence.IGNORED
    ) -> None:
        """Report a broken MUST."""
        self.add_problem(Severity.ERROR, code, text, consequence)

    def report_warning(
        self, code: str, text: str, consequence: str = Consequence.IGNORED
    ) -> None:
        """Report a broken SHOULD, or a point on which text and schemas differ."""
        self.add_problem(Severity.WARNING, code, text, consequence)

    def add_problem(
        self, severity: Severity, code: str, text: str, consequence: str
    ) -> None:
        """Add a problem of this value."""
        self.problems.append(Problem(code, severity, self.where, text, consequence))

    def report_expected(
        self, what: str, consequence: str = Consequence.IGNORED
    ) -> None:
        """Report a value of the wrong type or range; it must be `what`."""
        self.report_error(
            "wrong-value", f"Must be {what}, is {self.describe_value()}", consequence
        )

    def require_value(self, rule: str, consequence: str) -> bool:
        """Return whether there is a value; report it if not, quoting the `rule`."""
        if not self.is_present:
            self.report_error("missing-key", rule, consequence)
        return self.is_present

    def describe_value(self) -> str:
        """Describe the value in a few words, whatever its depth and size."""
        # `repr` of a value that is nested deeply would exceed Python's stack. `bool`
        # comes before `int`, of which it is a subclass.
        match self.value:
            case dict():
                return "an object."
            case list():
                return f"a list of {len(self.value)}."
            case str():
                return f"{self.value[:40]!r}{'...' if len(self.value) > 40 else ''}."
            case bool() | None:
                return f"{str(self.value).lower().replace('none', 'null')}."
            case int() if self.value not in INTEGERS:
                return "a huge integer."
        return f"{self.value!r}."

    def is_object(self) -> bool:
        """Return whether this is an object; report any other value."""
        if self.is_present and not isinstance(self.value, dict):
            self.report_expected("an object")
        return isinstance(self.value, dict)

    def list_items(self) -> list[Cursor]:
        """Go to each entry of a list; a single object counts as a list of one."""
        if isinstance(self.value, dict):
            self.report_expected("a list", "It is read as a list of this one entry.")
            return [self]
        if self.is_present and not isinstance(self.value, list):
            self.report_expected("a list")
        entries = self.children()
        # Null entries are reported here, since no reading method reports them.
        for entry in entries:
            if not entry.is_present:
                entry.report_expected("something")
        return entries

    def read_text(self) -> str | None:
        """Read a string."""
        if self.is_present and not isinstance(self.value, str):
            self.report_expected("a string")
        return self.value if isinstance(self.value, str) else None

    def read_name(self) -> str | None:
        """Read a string that files often have as an integer: ``1`` for ``"1"``."""
        value = self.value
        if isinstance(value, int) and not isinstance(value, bool) and value in INTEGERS:
            self.report_expected("a string", f'It is read as "{value}".')
            return str(value)
        return self.read_text()

    def read_integer(self) -> int | None:
        """Read an integer of up to 64 bits: ``1``, ``1.0`` (equal in JSON), ``"1"``."""
        value = self.value
        # Up to 18 digits are within 64 bits, and `int` refuses strings of thousands.
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            self.report_expected("an integer", "It is read as one.")
            return int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value in INTEGERS:
            return value
        if self.is_present:
            self.report_expected("an integer")
        return None

    def read_number(self) -> float | None:
        """Read a finite number."""
        value = self.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:  # an integer beyond 1.8e308
                number = math.inf
            if math.isfinite(number):
                return number
        if self.is_present:
            self.report_expected("a finite number")
        return None

    def read_flag(self) -> bool | None:
        """Read a boolean; 0 and 1 are accepted as well."""
        if isinstance(self.value, bool):
            return self.value
        if self.value in (0, 1):
            self.report_expected("true or false", "It is read as a boolean.")
            return bool(self.value)
        if self.is_present:
            self.report_expected("true or false")
        return None

    def read_path(self) -> str | None:
        """Read the path of something below the group; required.

        Returns
        -------
        str or None
            With ``/``, neither a leading nor a trailing one, and no empty, ``.`` or
            ``..`` component; None for a path that is the group itself, leaves it,
            is absolute on Windows or cannot be a file's name.
        """
        path = self.read_name()
        if path is None:
            self.require_value(
                'MUST contain the field "path".', Consequence.ENTRY_LEFT_OUT
            )
            return None
        parts = [part for part in path.split("/") if part not in ("", ".")]
        # A document from anywhere must not lead to other files of this computer. On
        # Windows "\" separates folders, too.
        if ".." in parts or "\\" in path or DRIVE.search(path):
            stated = self.describe_value()
            text = f"A path is relative to the group and below it, is {stated}"
            self.report_error("path-outside-group", text, Consequence.ENTRY_LEFT_OUT)
            return None
        # Control characters, and halves of surrogates: no file system has such names.
        if not parts or re.search("[\x00-\x1f\ud800-\udfff]", path):
            text = f"A path names something below the group, is {self.describe_value()}"
            self.report_error("path-unusable", text, Consequence.ENTRY_LEFT_OUT)
            return None
        # A leading "/" or a trailing one is frequent, and its meaning is clear.
        clean = "/".join(parts)
        if clean != path:
            text = f"A path is relative to the group, is {self.describe_value()}"
            self.report_warning(
                "path-not-plain", text, f'It is read as "{clean[:40]}".'
            )
        return clean
