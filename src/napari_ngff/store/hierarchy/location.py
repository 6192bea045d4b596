"""From whatever a user names to a place in a hierarchy; knows every kind of store.

>>> locate("plate.ome.zarr/B/3/0").path  # doctest: +SKIP
'B/3/0'

Nothing here writes.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from napari_ngff.errors import AccessError, NodeNotFoundError, NotOMEZarrError
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.sources.zip_source import open_zip

if TYPE_CHECKING:
    from napari_ngff.store.sources.source import Source

__all__ = ["METADATA_NAMES", "Location", "is_url", "locate", "normal_path"]

METADATA_NAMES = ("zarr.json", ".zattrs", ".zgroup", ".zarray", ".zmetadata")
"""Names of zarr's own documents; dropping one means the group it stands in."""

PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
"""Paths in which there is nothing to resolve."""

GROUP_NAMES = ("zarr.json", ".zgroup", ".zattrs")
ZIP_SUFFIXES = (".ozx", ".zip")


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a hierarchy.

    Attributes
    ----------
    source
        The hierarchy's objects, from its root.
    path
        Inner path of the group, "" for the root.
    """

    source: Source
    path: str = ""

    def __str__(self) -> str:
        return f"{self.source.name}/{self.path}" if self.path else self.source.name

    @property
    def name(self) -> str:
        """Last part of the path, or of the root's name without its suffix."""
        if self.path:
            return self.path.rsplit("/", 1)[-1]
        name = self.source.name.replace("\\", "/").rsplit("/", 1)[-1]
        for suffix in (".zip", ".ozx", ".zarr", ".ome"):
            if name.lower().endswith(suffix) and len(name) > len(suffix):
                name = name[: -len(suffix)]
        return name

    def key(self, name: str) -> str:
        """Key of an object directly inside this place."""
        return f"{self.path}/{name}" if self.path else name

    def joined(self, path: str) -> Location:
        """Go to `path`, which may climb with ``..`` but not above the root.

        Raises
        ------
        NodeNotFoundError
            Where the path leaves the hierarchy.
        """
        return Location(self.source, normal_path(self.key(path), str(self)))


def normal_path(path: str, where: str) -> str:
    """Resolve ``.`` and ``..`` of an inner path.

    Raises
    ------
    NodeNotFoundError
        Where it climbs above the root, or cannot be the name of a file; `where`
        goes into the message.
    """
    if PLAIN.fullmatch(path):
        return path
    if not _is_nameable(path):
        msg = f"The path {path!r} at {where} cannot be the name of a file."
        raise NodeNotFoundError(msg)
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


def is_url(where: object) -> bool:
    """Tell a remote address from a path; a ``file:`` address is a path.

    A single letter before the colon is a drive of Windows.
    """
    if not isinstance(where, str) or "://" not in where:
        return False
    return urlsplit(where).scheme.lower() not in ("", "file")


def locate(where: Any, **options: Any) -> Location:
    """Find the hierarchy and the place in it that `where` means.

    Parameters
    ----------
    where
        A path or URL of a folder, of any group or array inside a hierarchy, of one of
        zarr's metadata files, of an ``.ozx`` or zipped OME-Zarr (also with an inner
        path behind it), or a zarr ``Group``, ``Array`` or ``Store``.
    **options
        For fsspec, with a URL: credentials and the like.

    Raises
    ------
    NodeNotFoundError
        Where nothing is there.
    NotOMEZarrError
        Where it is a file of another kind.
    AccessError, CorruptDataError, UnsupportedError
        As their names say.
    """
    if isinstance(where, str) and is_url(where):
        return _locate_url(where, options)
    if isinstance(where, str | os.PathLike):
        return _locate_path(os.fspath(where))
    return _locate_object(where)


def _locate_path(where: str) -> Location:
    if where.lower().startswith("file:"):
        where = url2pathname(urlsplit(where).path)
    path = os.path.abspath(os.path.expanduser(where))
    if os.path.basename(path) in METADATA_NAMES:
        path = os.path.dirname(path)
    if not _is_nameable(path):
        msg = f"{path!r} cannot be the name of a file."
        raise NodeNotFoundError(msg)
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return _locate_inside_file(path)
    except OSError as error:
        msg = f"Cannot look into {path}: {error.strerror}."
        raise AccessError(msg) from error
    if not os.path.isdir(path):
        return _locate_inside_file(path)
    if not os.access(path, os.R_OK | os.X_OK):
        msg = f"No permission to read the folder {path}."
        raise AccessError(msg)
    root = _root_folder(path)
    inner = os.path.relpath(path, root).replace(os.sep, "/")
    return Location(FolderSource(root), "" if inner == "." else inner)


def _locate_inside_file(path: str) -> Location:
    """Find the archive that `path` is, or leads into."""
    archive, inner = path, ""
    while not os.path.isfile(archive):
        above, last = os.path.split(archive)
        if above == archive or os.path.isdir(above):
            msg = f"There is nothing at {path}."
            raise NodeNotFoundError(msg, remedy="Check the path; it may have moved.")
        archive, inner = above, f"{last}/{inner}" if inner else last
    if not archive.lower().endswith(ZIP_SUFFIXES):
        msg = f"Not an OME-Zarr: {archive}."
        raise NotOMEZarrError(msg, remedy="Give a folder, an .ozx or a .zip.")
    return _in_archive(archive, normal_path(inner, archive))


def _in_archive(archive: str | os.PathLike[str], inner: str) -> Location:
    """Open an archive; `inner` may begin with the folder that is its root."""
    source = open_zip(archive)
    if inner == source.root or inner.startswith(f"{source.root}/"):
        inner = inner[len(source.root) :].lstrip("/")
    return Location(source, inner)


def _locate_url(url: str, options: dict[str, Any]) -> Location:
    from napari_ngff.store.sources.remote_source import RemoteSource

    parts = urlsplit(url)
    names = parts.path.rstrip("/").split("/")
    if names[-1] in METADATA_NAMES:
        names.pop()
    if names[-1].lower().endswith(ZIP_SUFFIXES):
        msg = f"{url} is a zipped OME-Zarr."
        raise NotOMEZarrError(msg, remedy="Download it and open the file.")
    # Plain HTTP cannot tell where a hierarchy begins, and asking each folder above
    # costs requests: by convention the root is the first name that ends in .zarr.
    cut = next(
        (i + 1 for i, name in enumerate(names) if name.lower().endswith(".zarr")),
        len(names),
    )
    root = parts._replace(path="/".join(names[:cut]), fragment="").geturl()
    source = RemoteSource(root, options)
    if root.startswith("s3://"):
        source.ask_writable()  # while it is read, or the main thread would have to wait
    return Location(source, "/".join(names[cut:]))


def _locate_object(where: Any) -> Location:
    import zarr
    from zarr.abc.store import Store
    from zarr.storage import LocalStore, ZipStore

    from napari_ngff.store.sources.zarr_store import StoreSource

    store, path = where, ""
    if isinstance(where, zarr.Group | zarr.Array):
        store, path = where.store, where.path
    if isinstance(store, LocalStore):
        return _locate_path(os.path.join(store.root, *path.split("/")))
    if isinstance(store, ZipStore):
        return _in_archive(store.path, path)
    if not isinstance(store, Store):
        msg = f"Cannot open a {type(where).__name__}: give a path, URL or zarr group."
        raise TypeError(msg)
    return Location(StoreSource(store), path)


def _root_folder(path: str) -> str:
    """Climb while the folder above is a zarr group, or the one above that.

    A row of a plate may lack metadata of its own, so one gap is allowed.
    """
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
    return any(os.path.isfile(os.path.join(folder, name)) for name in GROUP_NAMES)
