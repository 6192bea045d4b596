"""A conversion as a form asks for it, which another process can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.store.convert.conversion import (
    ConversionResult,
    ConversionRun,
    ConversionStep,
    ConvertOptions,
    convert_hierarchy,
    find_target,
    find_unfinished,
    fit_request,
    read_request,
)
from napari_ngff.store.hierarchy.location import is_url
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.server_logins import find_login, set_login
from napari_ngff.store.write.partial_folder import PartialFolder, Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.store.sources.server_logins import AddressSecrets

CONTINUE = "converting to the same name again continues"


@dataclass(frozen=True, slots=True)
class ConversionCall:
    """All that another process needs for a conversion.

    Attributes
    ----------
    source, target
        Paths or addresses.
    options
        As of `napari_ngff.convert`.
    logins
        For the servers of source and target.
    """

    source: str
    target: str
    options: ConvertOptions
    logins: tuple[tuple[str, AddressSecrets], ...] = ()

    @classmethod
    def with_logins(
        cls, source: str, target: str, options: ConvertOptions
    ) -> ConversionCall:
        """Make a call with the logins that are known here."""
        addresses = filter(is_url, (source, target))
        found = ((address, find_login(address)) for address in addresses)
        logins = tuple((address, login) for address, login in found if login)
        return cls(source, target, options, logins)


def run_conversion(
    call: ConversionCall, follow: Callable[[ConversionStep], None]
) -> ConversionResult:
    """Convert; a conversion with the same options that was stopped is continued.

    Parameters
    ----------
    call
        What to do.
    follow
        Called often with what is done; an error that it raises stops, and leaves
        nothing that opens as an image.

    Raises
    ------
    ValueError, OMEZarrError, OSError
        As `napari_ngff.convert`.
    """
    for address, login in call.logins:
        set_login(address, login)
    node, target = open_node(call.source), find_target(call.target)
    request = fit_request(node, target, read_request(call.options))
    found = find_unfinished(node, target, request, skips=False)
    resumes = found is Unfinished.SAME
    run = ConversionRun(resume=resumes, follow=follow, how_to_resume=CONTINUE)
    return convert_hierarchy(node, target, request, run)


def has_unfinished(target: str) -> bool:
    """Return whether parts of a conversion that was stopped are beside its target."""
    found = _parts_of(target).look()
    return found in (Unfinished.SAME, Unfinished.OTHER)


def discard_unfinished(target: str) -> None:
    """Remove the parts of a conversion that was stopped.

    Raises
    ------
    ConflictError
        Where a process works on it.
    UnsupportedError
        Where the target is in a bucket.
    """
    _parts_of(target).discard()


def _parts_of(target: str) -> PartialFolder:
    return PartialFolder(find_target(target), {}, overwrite=False, resume=False)
