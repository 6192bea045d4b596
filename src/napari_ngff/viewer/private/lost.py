"""Tells, once, what no longer works where napari lacks one of its private names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any, TypeVar

GONE = (AttributeError, ImportError, LookupError, TypeError, ValueError)
"""What Python raises where a name, or an argument, is gone."""

lost: dict[str, str] = {}
"""What no longer works -> what was not found."""


def tell_lost(what: str, missing: object) -> None:
    """Tell the user, once, what no longer works with this release of napari.

    Parameters
    ----------
    what
        Sentence with the result.
    missing
        Names that were not found, or an error about them.
    """
    from napari import __version__
    from napari.utils.notifications import show_warning

    if what not in lost:
        lost[what] = str(missing)
        show_warning(
            f"{what}\nnapari {__version__} has changed inside ({missing}). Please"
            " update napari-ngff, or install an earlier release of napari."
        )


def tells_lost(
    what: str, otherwise: Callable[..., Any] = lambda *_: None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that uses private names tell where napari lacks one.

    Parameters
    ----------
    what
        Sentence that says what no longer works then.
    otherwise
        Called in its place then, with the same arguments.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except GONE as error:
                tell_lost(what, error)
                return otherwise(*arguments)

        return call

    return decorate


def need(item: Any, *names: str) -> None:
    """Raise AttributeError where something lacks a name that is only set or given."""
    for name in names:
        getattr(item, name)


def import_private(place: str, what: str) -> Any:
    """Import from a private module of napari; where it is gone, a class with nothing.

    Parameters
    ----------
    place
        "module:name".
    what
        Sentence that says what no longer works without it.
    """
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        tell_lost(what, error)
        return type(name, (), {})


Own = TypeVar("Own", bound=type)

_relied_on: dict[type, tuple[str, ...]] = {}


def relies_on(*names: str) -> Callable[[Own], Own]:
    """Name what a subclass of a class of napari uses and replaces of its private names.

    Names are separated by blanks.
    A test compares the names with the source; `find_lost` looks for them in napari.
    """

    def decorate(own: Own) -> Own:
        _relied_on[own] = tuple(" ".join(names).split())
        return own

    return decorate


def tells_missing(what: str, *kinds: Any) -> bool:
    """Return whether napari lacks names that classes of ours rely on, and tell that."""
    missing = [name for kind in kinds for name in find_lost(kind)]
    if missing:
        tell_lost(what, ", ".join(missing))
    return bool(missing)


@cache
def find_lost(own: type[Any]) -> list[str]:
    """List the private names that a class relies on, and napari's classes lack.

    Looked for once: it takes a millisecond, for each layer that is made.
    """
    bases = [kind for kind in own.__mro__ if kind.__module__.startswith("napari.")]
    names = [name for kind in own.__mro__ for name in _relied_on.get(kind, ())]
    return [x for x in names if not any(mentions(base, x) for base in bases)]


def mentions(kind: type[Any], name: str) -> bool:
    """Return whether a class of napari has a name, or a method that uses it."""
    members = [*vars(kind).values()]
    for access in ("fget", "fset"):
        members += [getattr(member, access, None) for member in members]
    return (
        name in vars(kind)
        or name in inspect.get_annotations(kind)
        or any(
            name in inspect.unwrap(method).__code__.co_names
            for method in filter(inspect.isfunction, members)
        )
    )
