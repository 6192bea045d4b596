"""Chooses which cases of a test run by default; the others have the marker `long`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["mostly_long"]


def mostly_long(
    cases: Iterable[Any], kept: Collection[Any], **keywords: Any
) -> list[Any]:
    """Give the cases of `parametrize`, those beside `kept` with the marker `long`.

    Parameters
    ----------
    kept
        Cases that stand for the others.
    **keywords
        Of `pytest.param`.
    """
    found = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        marks = () if case in kept else pytest.mark.long
        found.append(pytest.param(*values, marks=marks, **keywords))
    return found
