"""Classes of the objects of a label image, each of which has its own label.

Classes that are labels themselves are in `napari_ngff.labels.label_classes`.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from napari_ngff.labels.class_colors import PALETTE, free_color
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from napari_ngff.labels.class_colors import RGBA

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


@dataclass(frozen=True, slots=True)
class ObjectClasses:
    """The classes of a label image, and which object has which.

    Attributes
    ----------
    classes
        In order; the first nine have a number key each.
    stored, changed
        Label of an object -> name of its class, "" for none; what is changed counts.
        They may be shared, and never change: a dict of a million takes long to copy.
    """

    classes: tuple[ObjectClass, ...] = ()
    stored: Mapping[int, str] = field(default_factory=dict)
    changed: Mapping[int, str] = field(default_factory=dict)

    @property
    def class_of(self) -> dict[int, str]:
        """All objects with a class, as a new dict; slow for many, so in a worker."""
        whole = {**self.stored, **self.changed}
        return {label: name for label, name in whole.items() if name}

    def find_class(self, label: int) -> str:
        """Return the class of an object; "" for none."""
        return self.changed.get(label, self.stored.get(label, ""))

    def count_objects(self) -> Counter[str]:
        """Count the objects of each class."""
        counts = Counter(self.stored.values())
        counts.update(self.changed.values())
        counts.subtract(self.stored.get(label, "") for label in self.changed)
        return counts

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
        changed = replace(
            self,
            classes=tuple(
                replace(item, **parts) if item.name == name else item
                for item in self.classes
            ),
        )
        if new_name == name:
            return changed
        self.with_class(new_name)  # raises
        return changed.with_objects(dict.fromkeys(self.objects_of(name), new_name))

    def put_back(self, item: ObjectClass, place: int) -> Self:
        """Put a class back on the list, at an index."""
        rest = [other for other in self.classes if other.name != item.name]
        return replace(self, classes=(*rest[:place], item, *rest[place:]))

    def without_class(self, name: str) -> Self:
        """Take a class off the list, and off its objects."""
        classes = tuple(item for item in self.classes if item.name != name)
        gone = dict.fromkeys(self.objects_of(name), "")
        return replace(self, classes=classes).with_objects(gone)

    def objects_of(self, *names: str) -> list[int]:
        """List the labels of the objects that have one of some classes."""
        return [label for label, name in self.class_of.items() if name in names]

    @property
    def hidden_objects(self) -> list[int]:
        """Labels of the objects whose class is hidden."""
        names = [item.name for item in self.classes if item.hidden]
        return self.objects_of(*names) if names else []

    @property
    def locked_objects(self) -> list[int]:
        """Labels of the objects whose class is locked."""
        names = [item.name for item in self.classes if item.locked]
        return self.objects_of(*names) if names else []

    def check_unlocked(self, *labels: int) -> None:
        """Raise ValueError where an object has a class that is locked."""
        locked = [item.name for item in self.classes if item.locked]
        for label in labels if locked else ():
            name = self.find_class(label)
            if name in locked:
                raise ValueError(LOCKED.format(label, name))

    def put_first(self, classes: Iterable[ObjectClass]) -> Self:
        """Put classes in front, so that number keys mean the same as elsewhere."""
        first = tuple(classes)
        names = {item.name for item in first}
        rest = (item for item in self.classes if item.name not in names)
        return replace(self, classes=(*first, *rest))

    def with_all_named(self) -> Self:
        """Add the classes that objects have, and that are not in the list."""
        whole, known = self, {"", *self.names}
        rows = self.stored, self.changed
        if all(known.issuperset(each.values()) for each in rows):
            return self
        for name in dict.fromkeys(self.class_of.values()):
            if name not in whole.names:
                whole = whole.with_class(name)
        return whole

    def with_objects(self, rows: Mapping[int, str]) -> Self:
        """Give many objects their classes; "" for none."""
        if not self.stored:
            return replace(self, stored={**self.changed, **rows}, changed={})
        return replace(self, changed={**self.changed, **rows})


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

    def dump_text(self) -> str:
        """Write it as JSON."""
        content = {
            "labels": self.labels,
            "classes": dump_list(self.classes),
            "objects": {str(label): name for label, name in self.objects.items()},
            "edited": self.edited,
        }
        # In many short calls: a long one would hold up all other threads.
        return "".join(json.JSONEncoder().iterencode(content))

    @classmethod
    def parse_text(cls, text: str) -> Self:
        """Read what `dump_text` wrote.

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
            return cls(str(content["labels"]), classes, rows, edited)
        except (AttributeError, KeyError, TypeError) as error:
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
