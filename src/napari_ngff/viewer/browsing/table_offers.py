"""Which tables there are of what a browser walks, and what can be made into one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.plate.tables.files import table_names

if TYPE_CHECKING:
    from napari_ngff.viewer.browsing.browser import Browser

__all__ = ["Offer", "Scope", "Source", "find_offers"]

WELLS_ASKED = 4
"""So many wells are looked at for tables of their images."""


class Source(StrEnum):
    """Where a table comes from."""

    FILE = "file"
    PLATE = "plate"
    IMAGES = "images"
    COUNT = "count"
    MEASURED = "measured"


class Scope(StrEnum):
    """What is measured."""

    FIELD = "The field that is shown"
    SELECTED = "The selected wells"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class Offer:
    """A table that there is, or that can be made.

    Attributes
    ----------
    name
        Of the file, of the table, or of the labels that are counted or measured.
    """

    source: Source
    name: str

    @property
    def title(self) -> str:
        """What people read."""
        if self.source is Source.COUNT:
            return f"number of {self.name}"
        if self.source is Source.MEASURED:
            return f"{self.name}, measured"
        return f"{self.name} (of images)" if self.source is Source.IMAGES else self.name


def find_offers(browser: Browser) -> tuple[Offer, ...]:
    """Read which tables are in a plate and in the images of its first wells, and of
    which labels there are numbers.
    """
    node = browser.node
    found: dict[Offer, None] = {}
    labels: tuple[str, ...] = ()
    try:
        found.update((Offer(Source.PLATE, name), None) for name in table_names(node))
        labels = browser.label_names()
    except (OMEZarrError, OSError):
        pass  # a damaged list of tables; all else can be used
    wells: list[str | None] = [well.path for well in browser.map.wells]
    for well in wells[:WELLS_ASKED] or [None]:
        try:
            position = browser.fields_of(well).fields[0].position
            path = "/".join(part for part in (well, position.field) if part)
            names = table_names(node.child(path))
        except (OMEZarrError, OSError, IndexError):
            continue  # the map shows it crossed
        found.update((Offer(Source.IMAGES, name), None) for name in names)
    return (*found, *(Offer(Source.COUNT, name) for name in labels))
