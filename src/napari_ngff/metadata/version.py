"""Versions of OME-Zarr: what each one has, in one place."""

from __future__ import annotations

import re

__all__ = [
    "LABEL_VERSIONS",
    "UNSTATED",
    "V0_1",
    "V0_3",
    "V0_4",
    "V0_5",
    "V0_6",
    "VERSIONS",
    "Version",
]


class Version(str):
    """A version as a document states it, such as "0.4", and what it has.

    It is the text itself, so that it is shown and written as it was read: also a draft
    such as "0.6.dev3", a later version, and a text that is not a version. All of them
    are compared as texts: a later version has everything that 0.6 has. "" has nothing.
    """

    __slots__ = ()

    # --- as a number

    @property
    def minor(self) -> int | None:
        """4 for 0.4 and texts that begin so, as "0.4-dev"; None if not 0.1 to 0.6."""
        known = re.match(r"0\.([1-6])", self)
        return int(known[1]) if known else None

    @property
    def exact_minor(self) -> int | None:
        """The same, but None for "0.10" and "0.45"."""
        return None if re.match(r"0\.[1-6][0-9]", self) else self.minor

    @property
    def is_known(self) -> bool:
        """Return whether it is a version, or a draft of 0.6."""
        return re.fullmatch(r"0\.[1-5]|0\.6.*", self) is not None

    @property
    def is_draft(self) -> bool:
        """Return whether it is a draft of 0.6, which "0.6rc0", a candidate, is not."""
        return re.fullmatch(r"0\.6.+", self) is not None and self != "0.6rc0"

    def belongs_to(self, release: str) -> bool:
        """Return whether it is a release or one of its drafts, by its beginning."""
        return self.startswith(release)

    # --- what a hierarchy has

    @property
    def has_ome_key(self) -> bool:
        """Return whether all is below a key "ome", which states the version (0.5)."""
        return self > "0.4"

    @property
    def zarr_format(self) -> int:
        """Format of the arrays and groups: 2 or 3."""
        return 3 if self.has_ome_key else 2

    @property
    def has_nested_chunks(self) -> bool:
        """Return whether "/" separates the numbers in the keys of chunks (0.2)."""
        return self != "0.1"

    @property
    def must_be_consistent(self) -> bool:
        """Return whether all of a hierarchy must state the same version (0.5)."""
        return self >= "0.5"

    # --- what a document has

    @property
    def has_part_versions(self) -> bool:
        """Return whether plates, wells and labels state the version too (to 0.5)."""
        return self <= "0.5"

    @property
    def has_axes(self) -> bool:
        """Return whether it has axes other than t, c, z, y, x (0.3)."""
        return not self.startswith(("0.1", "0.2"))

    @property
    def has_axis_names_only(self) -> bool:
        """Return whether an axis is its name, without type and unit (0.3)."""
        return self == "0.3"

    @property
    def has_transformations(self) -> bool:
        """Return whether levels have a scale and a translation (0.4)."""
        return self >= "0.4"

    @property
    def may_have_transformations(self) -> bool:
        """The same for reading: also of a text that is not a version."""
        return not self.startswith(("0.1", "0.2", "0.3"))

    @property
    def has_systems(self) -> bool:
        """Return whether it has named systems, and all transformations (0.6)."""
        return self >= "0.6"

    @property
    def has_well_indices(self) -> bool:
        """Return whether wells state row and column as numbers (0.4)."""
        return self >= "0.4"

    @property
    def has_complete_label_list(self) -> bool:
        """Return whether the list of labels names all of the group (0.4)."""
        return self >= "0.4"


V0_1, V0_2, V0_3, V0_4, V0_5, V0_6 = VERSIONS = tuple(
    Version(text) for text in ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
)
"""Versions that can be written, oldest first."""

# Up to 0.3 nothing can state where labels lie (docs/design/005).
LABEL_VERSIONS = (V0_4, V0_5, V0_6)
"""Versions that can state the position of labels and of layers."""

UNSTATED = V0_4
"""What a document is read as that states no version."""
