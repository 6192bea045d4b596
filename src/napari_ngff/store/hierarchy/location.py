"""Finds the hierarchy and the group that a path, an address or a zarr object names.

>>> find_location("plate.ome.zarr/B/3/0").path  # doctest: +SKIP
'B/3/0'

All kinds of stores are known here alone, in `FINDERS`. Nothing here writes.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from napari_ngff.addresses import is_url, join_address, public_address, read_name
from napari_ngff.errors import (
    AccessError,
    NodeNotFoundError,
    NotOMEZarrError,
)
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import DOCUMENTS, GROUP_DOCUMENTS
from napari_ngff.store.sources.archive_store import open_zip
from napari_ngff.store.sources.folder_store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.store.sources.remote_file import RemoteFile
    from napari_ngff.store.store import Store

PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
"""Paths that need no `normal_path`: the common ones, tested faster."""

ZIP_SUFFIXES = (".ozx", ".zip")
ROOT_SUFFIXES = (".zarr", *ZIP_SUFFIXES)
WITHOUT_SCHEME = re.compile(
    r"[\w-]+(\.[\w-]+)*(:\d+|\.(com|edu|eu|gov|io|net|org|uk|de|ch|jp))/"
)
"""An address whose ``https://`` was forgotten."""
STATES_END, LABELS_END = ".annotation.json", ".labels.ome.zarr"
POINTS_END, SHAPES_END, CLASSES_END = ".points", ".shapes", ".classes"
DISPLAY_END, REGIONS_END = ".display", ".regions"
"""Ends of names of what belongs to a hierarchy and is beside it."""

ZARR_BELOW = re.compile(r"\.zarr(/|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Location:
    """The path of a group in one hierarchy.

    Attributes
    ----------
    source
        The hierarchy's objects, from its root.
    path
        Inner path of the group, "" for the root.
    """

    source: Store
    path: str = ""

    def __str__(self) -> str:
        return join_address(self.source.name, self.path)

    @property
    def name(self) -> str:
        """Last part of the path, or of the root's name without its suffix."""
        if self.path:
            return self.path.rsplit("/", 1)[-1]
        root = self.source.name
        name = read_name(root, root.replace("\\", "/").rsplit("/", 1)[-1])
        # From the outside in, so that "a.ome.zarr.zip" becomes "a".
        for suffix in (".zip", ".ozx", ".zarr", ".ome"):
            if name.lower().endswith(suffix) and len(name) > len(suffix):
                name = name[: -len(suffix)]
        return name

    @property
    def full_name(self) -> str:
        """The name; that of a field or a series, a number, with its file before it."""
        if not self.path or not self.name.isdigit():
            return self.name
        return f"{Location(self.source).name}/{self.path}"

    def object_key(self, name: str) -> str:
        """Return the key of an object directly inside this group."""
        return f"{self.path}/{name}" if self.path else name

    def list_groups(self) -> list[str]:
        """List the names in this group that may be groups; [] where it cannot be
        listed.
        """
        names = self.source.list_names(self.path) or ()
        return [n for n in names if not n.startswith(".") and n not in DOCUMENTS]

    def join_path(self, path: str) -> Location:
        """Return the location of a relative path, which may have ``..`` up to the root.

        Raises
        ------
        NodeNotFoundError
            Where the path leaves the hierarchy.
        """
        return Location(self.source, normal_path(self.object_key(path), str(self)))


def normal_path(path: str, where: str) -> str:
    """Resolve ``.`` and ``..`` of an inner path.

    Raises
    ------
    NodeNotFoundError
        Where it leads above the root, or cannot be the name of a file; `where` is the
        place in the message.
    """
    if PLAIN.fullmatch(path):
        return path
    if not _is_nameable(path):
        msg = f"The path {path!r} at {where} cannot be the name of a file."
        raise NodeNotFoundError(msg)
    # By hand, not by the system: a link in the path must not change what ".." means,
    # and no metadata may lead outside of the hierarchy.
    parts: list[str] = []
    for part in PurePosixPath(path.replace("\\", "/").strip("/")).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            msg = f"The path {path!r} leaves the hierarchy at {where}. Not followed."
            raise NodeNotFoundError(msg)
    return "/".join(part for part in parts if part != ".")


def _is_nameable(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def find_location(where: Any, **options: Any) -> Location:
    """Find the hierarchy and the group in it that `where` names.

    Parameters
    ----------
    where
        A path or URL of a folder, of any group or array inside a hierarchy, of one of
        zarr's metadata files, of an ``.ozx`` or zipped OME-Zarr (also with an inner
        path behind it), or a zarr ``Group``, ``Array`` or ``Store``.
    **options
        Of an address: credentials and the like.

    Raises
    ------
    NodeNotFoundError
        Where nothing is there.
    NotOMEZarrError
        Where it is a file of another kind.
    AccessError, CorruptDataError, UnsupportedError
        As their names say.
    """
    found = next(filter(None, (find(where, options) for find in FINDERS)), None)
    if found is None:
        msg = f"Cannot open a {type(where).__name__}: give a path, URL or zarr group."
        raise TypeError(msg)
    return Location(*found)


Found = tuple["Store", str]
"""A store, and a path in it."""


def _find_path(where: Any, _: Any = None) -> Found | None:
    """Find the folder or the archive of a path."""
    if not isinstance(where, str | os.PathLike):
        return None
    where = os.fspath(where)
    if where.lower().startswith("file:"):
        where = url2pathname(urlsplit(where).path)
    path = os.path.abspath(os.path.expanduser(where))
    if os.path.basename(path) in DOCUMENTS:
        path = os.path.dirname(path)
    if not _is_nameable(path):
        msg = f"{path!r} cannot be the name of a file."
        raise NodeNotFoundError(msg)
    try:
        # Not `os.path.exists`, which reports a folder without permission as missing.
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return _find_in_file(path)
    except OSError as error:
        msg = f"Cannot look into {path}: {error.strerror}."
        raise AccessError(msg) from error
    if not os.path.isdir(path):
        return _find_in_file(path)
    # Before anything is read in it, which would find nothing and report no image.
    if not os.access(path, os.R_OK | os.X_OK):
        msg = f"No permission to read the folder {path}."
        raise AccessError(msg)
    # The whole hierarchy is opened, not the group: labels, wells and sidecars need the
    # groups above.
    root = _root_folder(path)
    inner = os.path.relpath(path, root).replace(os.sep, "/")
    return FolderStore(root), "" if inner == "." else inner


def _find_in_file(path: str) -> Found:
    """Find the archive that `path` is, or is inside of."""
    archive, inner = path, ""
    # Upwards until a file is met: behind an archive the path goes on inside of it.
    while not os.path.isfile(archive):
        above, last = os.path.split(archive)
        if above == archive or os.path.isdir(above):
            msg = f"There is nothing at {path}."
            remedy = "Check the path; it may have moved."
            if WITHOUT_SCHEME.match(os.path.relpath(path)):
                remedy = "For a server, write https:// or http:// before the address."
            raise NodeNotFoundError(msg, remedy=remedy)
        archive, inner = above, f"{last}/{inner}" if inner else last
    if not archive.lower().endswith(ZIP_SUFFIXES):
        msg = f"Not an OME-Zarr: {archive}."
        raise NotOMEZarrError(msg, remedy="Give a folder, an .ozx or a .zip.")
    return _open_archive(archive, normal_path(inner, archive))


def _open_archive(archive: str | os.PathLike[str] | RemoteFile, inner: str) -> Found:
    """Open an archive; `inner` may begin with the folder that is its root."""
    source = open_zip(archive)
    # A path given by a person has the nested root folder in it; keys below the source
    # have not.
    if inner == source.root or inner.startswith(f"{source.root}/"):
        inner = inner[len(source.root) :].lstrip("/")
    return source, inner


def _find_address(
    url: Any, options: dict[str, Any], roots: tuple[str, ...] = ROOT_SUFFIXES
) -> Found | None:
    """Find the folder or the archive of a server."""
    if not is_url(url):
        return None
    from napari_ngff.store.sources.remote_file import RemoteFile
    from napari_ngff.store.sources.remote_store import RemoteStore
    from napari_ngff.store.sources.server_logins import (
        AddressSecrets,
        known_secrets,
        remember_secrets,
    )

    parts = public_address(url).rstrip("/").split("/")
    # Scheme and server, and the names of the path.
    server, names = "/".join(parts[:3]), parts[3:]
    if names and names[-1] in DOCUMENTS:
        names.pop()
    # Plain HTTP has no listing, and a request for each folder above takes time: by
    # convention the root is the first name that ends in .zarr, or an archive.
    cut = next(
        (i + 1 for i, name in enumerate(names) if name.lower().endswith(roots)),
        len(names),
    )
    root = "/".join([server, *names[:cut]])
    folder, _, last = root.rpartition("/")
    name = read_name(folder, last)
    is_archive = bool(cut) and last.lower().endswith(ZIP_SUFFIXES)
    if is_archive:
        root = join_address(folder, name)  # as its own name will be
    inner = normal_path(read_name(server, "/".join(names[cut:])), root)
    secrets = AddressSecrets.from_address(url, options)
    if secrets:
        remember_secrets(root, secrets)
    else:
        secrets = known_secrets(root)
    if is_archive:
        files = RemoteStore(secrets.complete_address(folder), dict(secrets.options))
        try:
            return _open_archive(RemoteFile(files, name), inner)
        except NodeNotFoundError:
            # A folder of the server may have such a name, too.
            if roots != ROOT_SUFFIXES or not ZARR_BELOW.search(inner):
                raise
            return _find_address(url, options, ROOT_SUFFIXES[:1])
    source = RemoteStore(secrets.complete_address(root), dict(secrets.options))
    # Now, in the background: later the main thread would wait for the answer.
    source.ask_writable()
    return source, inner


def _find_opened(where: Any, _: Any) -> Found | None:
    """Find what a program has open by zarr."""
    import zarr
    from zarr.abc.store import Store
    from zarr.storage import LocalStore, ZipStore

    from napari_ngff.store.sources.zarr_store import ZarrStore

    store, path = where, ""
    if isinstance(where, zarr.Group | zarr.Array):
        store, path = where.store, where.path
    if isinstance(store, LocalStore):
        # As a path: our own source is faster, and knows revisions, so that labels can
        # be saved.
        return _find_path(os.path.join(store.root, *path.split("/")))
    if isinstance(store, ZipStore):
        return _open_archive(store.path, path)
    return (ZarrStore(store), path) if isinstance(store, Store) else None


FINDERS: list[Callable[[Any, dict[str, Any]], Found | None]] = [
    _find_address,
    _find_path,
    _find_opened,
]
"""Find what an address, a path or an object names, or nothing: the first one counts. A
kind of store is one module with such a function, and one line here."""


def _root_folder(path: str) -> str:
    """Go up while the folder above is a zarr group, or the one above that."""
    # One gap is allowed: a row of a plate may have no metadata.
    root = path
    while True:
        above = os.path.dirname(root)
        higher = os.path.dirname(above)
        if above != root and _is_group(above):
            root = above
        elif higher != above and _is_group(root) and _is_group(higher):
            root = higher
        else:
            return root


def _is_group(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in GROUP_DOCUMENTS)


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
    begins = dict.fromkeys(
        (LABELS_END, POINTS_END, SHAPES_END, CLASSES_END, DISPLAY_END, REGIONS_END),
        f"{stem}.",
    )
    begins[STATES_END] = f"{path.name}."
    others = sorted(x.name for x in path.parent.glob(f"{glob.escape(stem)}.*"))
    names = ", ".join(
        name
        for name in others
        if any(name.startswith(b) and name.endswith(e) for e, b in begins.items())
    )
    text = f"Not copied, since it is beside the source: {names}."
    return (text,) if names else ()


def image_of_list(top: Location, root: str, group: str) -> str | None:
    """Return the path of the image whose list of labels was saved.

    Parameters
    ----------
    top
        A group.
    root, group
        Of the list.

    Returns
    -------
    str or None
        Relative to `top`, "" for itself; None where the image is not below it.
    """
    top_path = _real_path(top.source.name, top.path)
    list_path = _real_path(root, group)
    if not list_path.startswith(f"{top_path}/"):
        return None
    return list_path.removeprefix(f"{top_path}/").rpartition("/")[0]


def _real_path(root: str, path: str) -> str:
    """Return the path of a group: that of one root may be written in two ways."""
    return join_key(os.path.realpath(root).replace(os.sep, "/"), path)
