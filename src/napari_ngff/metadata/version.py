"""Versions of OME-Zarr: what each one has, in one place."""

from __future__ import annotations

import re

LATER = (1, 0)
"""Numbers of a text that has none, which is read as a later version."""


class Version(str):
    """A version as a document states it, such as "0.4", and what it has.

    It is the text itself, so that it is shown and written as it was read: also a draft
    such as "0.6.dev3", a later version, and a text that is not a version. What it has
    follows from its numbers: "0.10" has everything that 0.6 has, and so does a text
    without numbers. "" has nothing.
    """

    __slots__ = ()

    # --- as a number

    @property
    def number(self) -> tuple[int, int]:
        """(0, 4) of 0.4, and of "0.4.1" and "0.4-dev"; (0, 0) of ""."""
        found = re.match(r"\s*(\d{1,9})(?:\.(\d{1,9}))?", self)
        if found is None:
            return LATER if self else (0, 0)
        return int(found[1]), int(found[2] or 0)

    @property
    def minor(self) -> int | None:
        """4 of 0.4, and of "0.4.1" and "0.4-dev"; None if not 0.1 to 0.6."""
        major, minor = self.number
        return minor if major == 0 and 1 <= minor <= 6 else None

    @property
    def is_known(self) -> bool:
        """Return whether it is a version, or a draft of 0.6."""
        return re.fullmatch(r"0\.[1-5]|0\.6.*", self) is not None

    @property
    def is_draft(self) -> bool:
        """Return whether it is a draft of 0.6, which "0.6rc0", a candidate, is not."""
        return re.fullmatch(r"0\.6.+", self) is not None and self != "0.6rc0"

    def belongs_to(self, release: str) -> bool:
        """Return whether it is a release, or a draft or correction of it."""
        return self.number == Version(release).number

    # --- what a hierarchy has

    @property
    def has_ome_key(self) -> bool:
        """Return whether all is below a key "ome", which states the version (0.5)."""
        return self.number > (0, 4)

    @property
    def zarr_format(self) -> int:
        """Format of the arrays and groups: 2 or 3."""
        return 3 if self.has_ome_key else 2

    @property
    def has_nested_chunks(self) -> bool:
        """Return whether "/" separates the numbers in the keys of chunks (0.2)."""
        return self.minor != 1

    @property
    def must_be_consistent(self) -> bool:
        """Return whether all of a hierarchy must state the same version (0.5)."""
        return self.number >= (0, 5)

    # --- what a document has

    @property
    def has_part_versions(self) -> bool:
        """Return whether plates, wells and labels state the version too (to 0.5)."""
        return self.number <= (0, 5)

    @property
    def has_axes(self) -> bool:
        """Return whether it has axes other than t, c, z, y, x (0.3)."""
        return self.minor not in (1, 2)

    @property
    def has_axis_names_only(self) -> bool:
        """Return whether an axis is its name, without type and unit (0.3)."""
        return self.minor == 3

    @property
    def has_transformations(self) -> bool:
        """Return whether levels have a scale and a translation (0.4)."""
        return self.number >= (0, 4)

    @property
    def may_have_transformations(self) -> bool:
        """The same for reading: also of a text that is not a version."""
        return self.minor not in (1, 2, 3)

    @property
    def has_systems(self) -> bool:
        """Return whether it has named systems, and all transformations (0.6)."""
        return self.number >= (0, 6)

    @property
    def has_free_axes(self) -> bool:
        """Return whether axes may be of any number, type and order (0.9.dev1)."""
        return self.number >= (0, 7) and self.number != LATER

    @property
    def has_well_indices(self) -> bool:
        """Return whether wells state row and column as numbers (0.4)."""
        return self.number >= (0, 4)

    @property
    def has_complete_label_list(self) -> bool:
        """Return whether the list of labels names all of the group (0.4)."""
        return self.number >= (0, 4)


V0_1, V0_2, V0_3, V0_4, V0_5, V0_6 = VERSIONS = tuple(
    Version(text) for text in ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
)
"""Versions that can be written, oldest first."""

# Up to 0.3 nothing can state where labels lie (docs/design/005).
LABEL_VERSIONS = (V0_4, V0_5, V0_6)
"""Versions that can state the position of labels and of layers."""

UNSTATED = V0_4
"""What a document is read as that states no version."""
