"""Classes of the objects of a label image, each of which has its own label.

Classes that are labels themselves are in `napari_ngff.labels.label_classes`.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from typing_extensions import override

from napari_ngff.labels.class_colors import PALETTE, RGBA, free_color
from napari_ngff.store.limits import parse_json

MARKS = ("locked", "hidden")

CLASSES_KEY = "napari-ngff"
"""Key of the attributes of a table that has what ngio does not know: the classes."""

LOCKED = "Object {} is '{}', a class that is locked. Unlock it by its padlock first."


@dataclass(frozen=True, slots=True)
class ObjectClass:
    """A class that objects may have.

    Attributes
    ----------
    color
        Red, green, blue, alpha, each 0-255.
    locked
        Whether its objects are neither edited as objects nor given another class.
    hidden
        Whether its objects are not drawn.
    """

    name: str
    color: RGBA
    locked: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ObjectNames(Mapping[int, str]):
    """Label of an object -> a name, such as that of its class; it never changes.

    It is made of arrays: one call of Python that makes or copies a dict of a million
    objects holds up all threads.

    Attributes
    ----------
    labels
        Each once, ascending.
    codes
        Place of the name of each in `names`.
    names
        Each once; maybe some that no object has.
    """

    labels: np.ndarray = field(default_factory=lambda: np.array((), np.int64))
    codes: np.ndarray = field(default_factory=lambda: np.array((), np.intp))
    names: tuple[str, ...] = ()

    @classmethod
    def from_arrays(
        cls, labels: np.ndarray, codes: np.ndarray, names: Sequence[str]
    ) -> Self:
        """Sort labels; of one that comes several times, the last name counts."""
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        found, at = np.unique(labels[::-1], return_index=True)
        new_codes = np.array([places[name] for name in names], np.intp)
        return cls(found, new_codes[codes[::-1][at]], tuple(places))

    def with_rows(self, rows: Mapping[int, str]) -> Self:
        """Give some objects other names."""
        if not isinstance(rows, ObjectNames):
            rows = self.from_arrays(
                pack_labels([*rows]), np.arange(len(rows)), [*rows.values()]
            )
        labels = join_labels(self.labels, rows.labels)
        codes = np.append(self.codes, rows.codes + len(self.names))
        return self.from_arrays(labels, codes, [*self.names, *rows.names])

    def rename(self, name: str, new_name: str) -> Self:
        """Give all objects that have a name another one."""
        names = [new_name if known == name else known for known in self.names]
        return self.from_arrays(self.labels, self.codes, names)

    def only(self, *names: str) -> Self:
        """Leave out the objects that have none of some names."""
        has_one = np.array([name in names for name in self.names], bool)[self.codes]
        return type(self)(self.labels[has_one], self.codes[has_one], self.names)

    def count_names(self) -> dict[str, int]:
        """Count the objects of each name that any has."""
        counts = np.bincount(self.codes, minlength=len(self.names)).tolist()
        return {x: count for x, count in zip(self.names, counts, strict=True) if count}

    def names_of(self, labels: np.ndarray, default: str = "") -> Any:
        """Return the name of each of some labels, as an array of objects."""
        return np.array([*self.names, default], object)[self._find_codes(labels)]

    def pick(self, labels: np.ndarray) -> Self:
        """Return the names of some objects alone; "" for those without one."""
        return self.from_arrays(labels, self._find_codes(labels), [*self.names, ""])

    def _find_codes(self, labels: np.ndarray) -> Any:
        # Of signed and unsigned numbers numpy would compare floating ones.
        sought = labels.astype(self.labels.dtype)
        places = np.searchsorted(self.labels, sought)
        is_there = np.append(self.labels, sought[:1])[places] == sought
        codes = np.append(self.codes, len(self.names))[places]
        return np.where(is_there, codes, len(self.names))

    # What a mapping has.

    @override
    def __getitem__(self, label: int) -> str:
        place = bisect_left(self.labels, label)
        if label not in self.labels[place : place + 1]:
            raise KeyError(label)
        return self.names[int(self.codes[place])]

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(self.labels.tolist())

    @override
    def __len__(self) -> int:
        return len(self.labels)


def pack_labels(labels: Sequence[int]) -> np.ndarray:
    """Return labels as an array, also those that need all 64 bits."""
    return np.array(
        labels, np.uint64 if max(labels, default=0) >= 1 << 63 else np.int64
    )


def join_labels(*parts: np.ndarray) -> np.ndarray:
    """Join labels; signed and unsigned ones are never made floating numbers."""
    kind = np.uint64 if any(x.dtype.kind == "u" for x in parts) else np.int64
    return np.concatenate([*parts, ()], dtype=kind, casting="unsafe")


@dataclass(frozen=True, slots=True)
class ObjectClasses:
    """The classes of a label image, and which object has which.

    Attributes
    ----------
    classes
        In order; the first nine have a number key each.
    class_of
        Label of an object -> name of its class, for all objects that have one.
    """

    classes: tuple[ObjectClass, ...] = ()
    class_of: ObjectNames = field(default_factory=ObjectNames)

    @property
    def names(self) -> list[str]:
        """Names of the classes in their order."""
        return [item.name for item in self.classes]

    def with_class(self, name: str, color: RGBA | None = None) -> Self:
        """Add a class.

        Raises
        ------
        ValueError
            Where the name is empty or there is such a class.
        """
        if not name or name in self.names:
            msg = f"There is a class {name} already." if name else "A class has a name."
            raise ValueError(msg)
        usual = PALETTE[len(self.classes) % len(PALETTE)]
        chosen = color or free_color((item.color for item in self.classes), usual)
        return replace(self, classes=(*self.classes, ObjectClass(name, chosen)))

    def with_parts(self, name: str, /, **parts: Any) -> Self:
        """Change parts of a class: name, also for its objects, color, locked, hidden.

        Raises
        ------
        ValueError
            Where the new name is empty or another class has it.
        """
        new_name = parts.get("name", name)
        if new_name != name:
            self.with_class(new_name)  # raises
        return replace(
            self,
            classes=tuple(
                replace(item, **parts) if item.name == name else item
                for item in self.classes
            ),
            class_of=self.class_of.rename(name, new_name),
        )

    def put_back(self, item: ObjectClass, place: int) -> Self:
        """Put a class back on the list, at an index."""
        rest = [other for other in self.classes if other.name != item.name]
        return replace(self, classes=(*rest[:place], item, *rest[place:]))

    def without_class(self, name: str) -> Self:
        """Take a class off the list, and off its objects."""
        return replace(
            self,
            classes=tuple(item for item in self.classes if item.name != name),
            class_of=self.class_of.only(*{*self.class_of.names} - {name}),
        )

    @property
    def locked_objects(self) -> Any:
        """Labels of the objects whose class is locked."""
        names = (item.name for item in self.classes if item.locked)
        return self.class_of.only(*names).labels

    @property
    def highest(self) -> int:
        """The highest label with a class: no new object gets that of a deleted one."""
        return int(max([0, *self.class_of.labels[-1:]]))

    def check_unlocked(self, labels: np.ndarray) -> None:
        """Raise ValueError where an object has a class that is locked."""
        # Most often none is locked: then nothing is looked up among a million objects.
        if any(item.locked for item in self.classes):
            found = replace(self, class_of=self.class_of.pick(labels))
            for label in found.locked_objects:
                raise ValueError(LOCKED.format(label, self.class_of[label]))

    def put_first(self, classes: Iterable[ObjectClass]) -> Self:
        """Put classes in front, so that number keys mean the same as elsewhere."""
        first = tuple(classes)
        names = {item.name for item in first}
        rest = (item for item in self.classes if item.name not in names)
        return replace(self, classes=(*first, *rest))

    def with_all_named(self) -> Self:
        """Add the classes that objects have, and that are not in the list."""
        whole = self
        for name in self.class_of.count_names():
            if name not in whole.names:
                whole = whole.with_class(name)
        return whole

    def with_objects(self, rows: Mapping[int, str]) -> Self:
        """Give many objects their classes; "" for none."""
        whole = self.class_of.with_rows(rows)
        return replace(self, class_of=whole.only(*filter(None, whole.names)))


@dataclass(frozen=True, slots=True)
class ClassChanges:
    """What of the classes of a label image no file has.

    Attributes
    ----------
    labels
        Name of the label image.
    classes
        All classes in their order.
    objects
        Label of an object -> its class, "" for none: those whose class was changed.
    edited
        Names of classes that were edited or removed here, and names that they had: a
        class of a file that has one of them is as in `classes`, or gone.
    """

    labels: str
    classes: tuple[ObjectClass, ...]
    objects: Mapping[int, str]
    edited: tuple[str, ...] = ()

    def merge_into(self, stored: ObjectClasses) -> ObjectClasses:
        """Make the changes in what a file has; its other objects keep their class."""
        kept = {x.name: x for x in stored.classes if x.name not in self.edited}
        first = (kept.get(item.name, item) for item in self.classes)
        merged = replace(stored, classes=tuple(kept.values())).put_first(first)
        return merged.with_objects(self.objects).with_all_named()

    def __call__(self) -> str:
        """Write it as JSON, as what makes the text of a file has to."""
        rows = ObjectNames().with_rows(self.objects)
        pairs = zip(rows.labels.tolist(), rows.codes.tolist(), strict=True)
        content = {
            "labels": self.labels,
            "classes": dump_list(self.classes),
            "objects": {str(label): rows.names[code] for label, code in pairs},
            "edited": self.edited,
        }
        # In many short calls: a long one would hold up all other threads.
        return "".join(json.JSONEncoder().iterencode(content))

    @classmethod
    def parse_text(cls, text: str) -> Self:
        """Read what a call of it wrote.

        Raises
        ------
        ValueError
            Where it is something else.
        """
        content = parse_json(text)
        try:
            rows = {int(label): str(x) for label, x in content["objects"].items()}
            edited = tuple(map(str, content.get("edited", ())))
            classes = parse_list(content["classes"])
            return cls(
                str(content["labels"]), classes, ObjectNames().with_rows(rows), edited
            )
        except (AttributeError, KeyError, OverflowError, TypeError) as error:
            raise ValueError("it has no classes of objects.") from error


def dump_list(classes: Iterable[ObjectClass]) -> list[dict[str, Any]]:
    """Return a list of classes as JSON states it."""
    return [
        {"name": x.name, "color": list(x.color)}
        # Defaults are left out, so that a plain class is a plain entry.
        | {key: True for key in MARKS if getattr(x, key)}
        for x in classes
    ]


def parse_list(rows: Any) -> tuple[ObjectClass, ...]:
    """Read what `dump_list` wrote; what makes no sense is left out."""
    found = ObjectClasses()
    for row in rows if isinstance(rows, list) else ():
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(name, str) or not name or name in found.names:
            continue
        color, parts = row.get("color"), None
        if isinstance(color, list) and len(color) == 4:
            parts = [p for p in color if isinstance(p, int) and 0 <= p <= 255]
        is_color = parts is not None and len(parts) == 4
        marks = {key: row.get(key) is True for key in MARKS}
        found = found.with_class(name, tuple(color) if is_color else None)
        found = found.with_parts(name, **marks)
    return found.classes
