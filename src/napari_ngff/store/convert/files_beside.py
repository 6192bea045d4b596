"""Names files that belong to a hierarchy and are beside it."""

from __future__ import annotations

import glob
from pathlib import Path

STATES_END, LABELS_END = ".annotation.json", ".labels.ome.zarr"
"""Ends of names of what belongs to a hierarchy and is beside it."""


def note_beside(root: str) -> tuple[str, ...]:
    """Name what belongs to a hierarchy and is beside it, so that it is not copied.

    Parameters
    ----------
    root
        Path or address of the hierarchy.

    Returns
    -------
    tuple of str
        A sentence, or nothing.
    """
    path = Path(root)
    if not path.exists():
        return ()
    stem = path.name.partition(".")[0]
    # States of fields have the whole name: that of an archive is another one.
    begins = {STATES_END: f"{path.name}.", LABELS_END: f"{stem}."}
    others = sorted(x.name for x in path.parent.glob(f"{glob.escape(stem)}.*"))
    names = ", ".join(
        name
        for name in others
        if any(name.startswith(b) and name.endswith(e) for e, b in begins.items())
    )
    text = f"Not copied, since it is beside the source: {names}."
    return (text,) if names else ()
