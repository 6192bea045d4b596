"""A place in a JSON document: reads leniently and collects what is wrong there.

Every reading method returns None for a value that is absent or null, without a
problem, and for one that is unusable, with a problem; callers whose key is required
ask for it with `Cursor.required`. No method raises, whatever the value.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from napari_ngff.metadata.model import Consequence, Problem, Severity

__all__ = ["Cursor"]

INTEGERS = range(-(2**63), 2**64)
"""What an integer pixel, and so a label value, can be."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """One value of a document, its place, and the document's list of problems.

    Attributes
    ----------
    value
        As `json` returned it; None where the document has nothing here.
    where
        Keys and indices from the document's root, joined with ``/``.
    problems
        Shared by all cursors of one document; grows while it is read.
    """

    value: object
    where: str
    problems: list[Problem]

    @property
    def present(self) -> bool:
        """Whether there is a value other than null."""
        return self.value is not None

    def at(self, key: str) -> Cursor:
        """Go to the value of `key`; nothing is there unless this is an object."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        return self.step(value, key)

    def children(self) -> list[Cursor]:
        """Go to each entry; none unless this is a list. Never reports."""
        values = self.value if isinstance(self.value, list) else []
        return [self.step(value, index) for index, value in enumerate(values)]

    def step(self, value: object, key: str | int) -> Cursor:
        """Go to a value that the caller has found under `key`."""
        where = f"{self.where}/{key}" if self.where else str(key)
        return Cursor(value, where, self.problems)

    def error(
        self, code: str, text: str, consequence: str = Consequence.IGNORED
    ) -> None:
        """Report a broken MUST."""
        self.report(Severity.ERROR, code, text, consequence)

    def warning(
        self, code: str, text: str, consequence: str = Consequence.IGNORED
    ) -> None:
        """Report a broken SHOULD, or what prose and schema of the format differ on."""
        self.report(Severity.WARNING, code, text, consequence)

    def report(
        self, severity: Severity, code: str, text: str, consequence: str
    ) -> None:
        """Add a problem of this place."""
        self.problems.append(Problem(code, severity, self.where, text, consequence))

    def expected(self, what: str, consequence: str = Consequence.IGNORED) -> None:
        """Report a value of the wrong type or range; `what` it must be."""
        self.error("wrong-value", f"Must be {what}, is {self.described()}", consequence)

    def required(self, rule: str, consequence: str) -> bool:
        """Report if nothing is here, quoting the `rule`; True if something is."""
        if not self.present:
            self.error("missing-key", rule, consequence)
        return self.present

    def described(self) -> str:
        """Say shortly what the value is; safe for values of any depth and size."""
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
        """Tell whether this is an object; report anything else but nothing."""
        if self.present and not isinstance(self.value, dict):
            self.expected("an object")
        return isinstance(self.value, dict)

    def items(self) -> list[Cursor]:
        """Go to each entry of a list; an object in its place counts as its only one."""
        if isinstance(self.value, dict):
            self.expected("a list", "It is read as a list of this one entry.")
            return [self]
        if self.present and not isinstance(self.value, list):
            self.expected("a list")
        for child in self.children():
            if not child.present:
                child.expected("something")
        return self.children()

    def text(self) -> str | None:
        """Read a string."""
        if self.present and not isinstance(self.value, str):
            self.expected("a string")
        return self.value if isinstance(self.value, str) else None

    def name(self) -> str | None:
        """Read a string that files often have as an integer: ``1`` for ``"1"``."""
        value = self.value
        if isinstance(value, int) and not isinstance(value, bool) and value in INTEGERS:
            self.expected("a string", f'It is read as "{value}".')
            return str(value)
        return self.text()

    def integer(self) -> int | None:
        """Read an integer of up to 64 bits: ``1``, ``1.0`` (equal in JSON), ``"1"``."""
        value = self.value
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            self.expected("an integer", "It is read as one.")
            return int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value in INTEGERS:
            return value
        if self.present:
            self.expected("an integer")
        return None

    def number(self) -> float | None:
        """Read a finite number."""
        value = self.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:  # an integer beyond 1.8e308
                number = math.inf
            if math.isfinite(number):
                return number
        if self.present:
            self.expected("a finite number")
        return None

    def flag(self) -> bool | None:
        """Read a boolean; 0 and 1 pass for one."""
        if isinstance(self.value, bool):
            return self.value
        if self.value in (0, 1):
            self.expected("true or false", "It is read as a boolean.")
            return bool(self.value)
        if self.present:
            self.expected("true or false")
        return None

    def path(self) -> str | None:
        """Read the path of something below the group; required.

        Returns
        -------
        str or None
            With ``/``, neither a leading nor a trailing one, and no empty, ``.`` or
            ``..`` component; None for a path that is the group itself, leaves it,
            is absolute on Windows or cannot be a file's name.
        """
        path = self.name()
        if path is None:
            self.required('MUST contain the field "path".', Consequence.ENTRY_LEFT_OUT)
            return None
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or "\\" in path or re.match("[A-Za-z]:", path):
            text = (
                f"A path is relative to the group and below it, is {self.described()}"
            )
            self.error("path-outside-group", text, Consequence.ENTRY_LEFT_OUT)
            return None
        if not parts or re.search("[\x00-\x1f\ud800-\udfff]", path):
            text = f"A path names something below the group, is {self.described()}"
            self.error("path-unusable", text, Consequence.ENTRY_LEFT_OUT)
            return None
        clean = "/".join(parts)
        if clean != path:
            text = f"A path is relative to the group, is {self.described()}"
            self.warning("path-not-plain", text, f'It is read as "{clean[:40]}".')
        return clean
