"""Sidecars: label images in an OME-Zarr of their own, for an image not written to.

One sidecar serves a whole hierarchy, such as a plate with all its fields. Its root is a
list of labels. Each entry is made of the image's path in the hierarchy and a name:
``nuclei``, or ``B.3.0.nuclei`` for the image ``B/3/0``. See docs/design/006.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_ngff.addresses import is_url, public_address
from napari_ngff.errors import (
    CorruptDataError,
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
)
from napari_ngff.labels.places.label_location import (
    LabelLocation,
    location_inside,
    why_not_created,
    written_version,
)
from napari_ngff.metadata.model import Consequence, Problem, Severity
from napari_ngff.metadata.version import UNSTATED, V0_5
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.shared_document import SharedDocument

SUFFIX = ".labels.ome.zarr"

MOST_COPIED = 16 * 2**30
"""Most bytes of voxels of labels that are copied into one, of all levels; they are
stored in a twentieth of that or less."""

OLDER = V0_5
"""Version of the sidecar of an image older than 0.4, which cannot state labels."""


def sidecar_folder() -> Path:
    """Return the folder for sidecars that cannot be beside their image."""
    return data_folder() / "sidecars"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a hierarchy, the same however it was opened.

    Attributes
    ----------
    root
        Real path of the folder or archive; or URL, without a login or a query.
    inside
        Folder inside an archive that is the hierarchy's root, usually "".
    """

    root: str
    inside: str = ""

    @property
    def stem(self) -> str:
        """Name of the hierarchy without ``.ome.zarr``; other endings stay."""
        name = os.path.basename(self.root.replace("\\", "/"))
        return name[:-9] if name.lower().endswith(".ome.zarr") else name

    @property
    def digest(self) -> str:
        """Short hash of the address, for names of files."""
        # `normcase`, since paths of Windows differ in case and mean the same.
        return hashlib.sha256(os.path.normcase(self.root).encode()).hexdigest()[:12]

    @property
    def beside(self) -> Path | None:
        """The sidecar next to it; None for a URL."""
        if is_url(self.root):
            return None
        return Path(self.root).parent / f"{self.stem}{SUFFIX}"

    def in_folder(self, folder: Path) -> Path:
        """Return the path of the sidecar in a folder of many sidecars."""
        beside = self.beside
        if beside is not None and os.path.realpath(folder) == str(beside.parent):
            return beside
        return Path(folder) / f"{self.stem}-{self.digest}{SUFFIX}"

    @property
    def note(self) -> Path:
        """Path of the document that lists sidecars in folders of the user's choice."""
        return sidecar_folder() / f"{self.digest}.json"

    def path_of(self, path: str) -> str:
        """Return path or URL of a group of the hierarchy."""
        return "/".join(part for part in (self.root, self.inside, path) if part)


def address_of(image: Node) -> Address | None:
    """Return the address of an image's hierarchy; None for one in memory."""
    source = image.location.source
    if not source.traits.is_lasting:
        return None
    name = source.name
    if is_url(name):
        return Address(public_address(name))
    # The name of a folder inside an archive is no path of the system; its beginning,
    # the archive, is one.
    top = root = os.path.realpath(name)
    inside: list[str] = []
    while not os.path.exists(root) and os.path.dirname(root) != root:
        root, last = os.path.split(root)
        inside.insert(0, last)
    # Where a folder was moved away, no folder above it is the hierarchy.
    is_gone = bool(inside) and os.path.isdir(root)
    return Address(top) if is_gone else Address(root, "/".join(inside))


def folders_of(node: Node, ending: str) -> list[Path]:
    """List where annotations of an image may be: beside its file, in the user's data.

    Parameters
    ----------
    ending
        Of the folder beside ``NAME.ome.zarr``, such as ``.points``.
    """
    address = address_of(node)
    if address is None:
        return []
    inner = "/".join(filter(None, (address.inside, node.location.path)))
    own = data_folder() / "annotations" / f"{address.stem}-{address.digest}{ending}"
    beside = address.beside
    tops = [own] if beside is None else [beside.parent / f"{address.stem}{ending}", own]
    return [top / inner for top in tops]


def choose_folder(node: Node, ending: str, first: Path | None = None) -> Path:
    """Return the folder where an annotation of an image is to be written.

    Parameters
    ----------
    ending
        As for `folders_of`.
    first
        One of these folders, to be taken if it can be written.

    Raises
    ------
    UnsupportedError
        Where the image is in memory.
    NodeNotFoundError
        Where its file was moved away: nobody would look there.
    """
    address, folders = address_of(node), folders_of(node, ending)
    if address is None:
        msg = f"{node} is in memory."
        raise UnsupportedError(msg, remedy="Save it, and open the file.")
    if address.beside is not None and not os.path.exists(address.root):
        msg = f"{address.root} is not there any more."
        raise NodeNotFoundError(msg, remedy="Put it back there, and save again.")
    folders.sort(key=lambda folder: folder != first)
    return next((x for x in folders if can_write(x)), folders[-1])


def can_write(folder: Path) -> bool:
    """Return whether a file can be made in a folder that need not exist."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(existing, os.W_OK)


# Where labels of an image go.


def why_elsewhere(image: Node) -> str:
    """Say why labels of an image cannot be in its own hierarchy; "" where they can.

    Looks at the folder's permissions, and writes nothing.
    """
    try:
        location_inside(image)
    except UnsupportedError as error:
        return str(error)
    location = image.location
    reason = why_not_created(location.source)
    if reason:
        return reason
    folder = join_key(location.source.name, location.path)
    archive = os.path.dirname(location.source.name)
    # The innermost folder that exists decides: of an archive the one that holds it.
    for path in (join_key(folder, "labels"), folder, archive):
        if os.path.isdir(path):
            return "" if os.access(path, os.W_OK) else f"No permission to write {path}."
    return ""


def choose_location(
    image: Node, sidecar: bool | str | os.PathLike[str] | None
) -> LabelLocation:
    """Choose where new labels of an image go.

    Parameters
    ----------
    image
        Group of the image.
    sidecar
        False for the image itself, True for a sidecar in the usual place, or its
        folder. None decides: into the image where that can be.

    Raises
    ------
    UnsupportedError
        Where they cannot go there; the message says why.
    """
    # In memory there is no other place, so the image itself then has to report why.
    if sidecar is None:
        sidecar = bool(why_elsewhere(image)) and address_of(image) is not None
    if sidecar is False:
        return location_inside(image)
    return sidecar_location(image, None if sidecar is True else sidecar)


def sidecar_location(
    image: Node, folder: str | os.PathLike[str] | None = None
) -> LabelLocation:
    """Return the group for labels of an image in its sidecar; it need not exist yet.

    Parameters
    ----------
    image
        Group of the image.
    folder
        Where the sidecar is to be. By default where there is one already, then next
        to the image where that folder can be written, then in the user data folder.

    Raises
    ------
    UnsupportedError
        Where the image is none, or in memory, or the sidecar there is not one of it.
    """
    if image.metadata.image is None:
        msg = f"{image} is not an image."
        raise UnsupportedError(
            msg, remedy="Open one of its images, and make labels for that."
        )
    address = address_of(image)
    if address is None:
        msg = f"{image} is in memory."
        raise UnsupportedError(
            msg, remedy="Save it, open the file, and make labels for that."
        )
    path = _choose_path(address, folder)
    stated = image.metadata.version or ""
    stated = written_version(stated) or OLDER
    # Where there is a sidecar, its own version holds: one in a whole hierarchy.
    with suppress(NodeNotFoundError):
        stated = _open_sidecar(path, address).metadata.version or UNSTATED
    image_address = address.path_of(image.location.path)
    return LabelLocation(
        FolderStore(str(path)), "", stated, image.location.path, image_address
    )


def _choose_path(address: Address, folder: str | os.PathLike[str] | None) -> Path:
    if folder is not None:
        return address.in_folder(Path(os.path.abspath(os.path.expanduser(folder))))
    # One place for all labels of a hierarchy, rather than one more sidecar.
    writable = (p for p in sidecars_of(address) if os.access(p, os.W_OK))
    existing = next(writable, None)
    if existing is not None:
        return existing
    beside = address.beside
    if beside is not None and os.access(beside.parent, os.W_OK):
        return beside
    return address.in_folder(sidecar_folder())


def _open_sidecar(path: Path, address: Address) -> Node:
    """Open a sidecar, and refuse one of another hierarchy."""
    root = read_node(Location(FolderStore(str(path))))
    # The first one shows it: all labels of a sidecar are of one hierarchy.
    labels = root.children((root.metadata.labels or ())[:1]).nodes
    if any(
        not _leads_to(label, address.path_of(image_path(label))) for label in labels
    ):
        msg = f"{path} holds labels of another image."
        raise UnsupportedError(msg, remedy="Choose another folder.")
    return root


def remember_sidecar(image: Node, home: LabelLocation) -> None:
    """Note a sidecar that is neither next to its image nor in the user data folder.

    Raises
    ------
    CorruptDataError, OSError
        Where it cannot be noted.
    """
    address = address_of(image)
    if address is None or not home.image:
        return
    path = Path(home.source.name)
    if path not in (address.beside, address.in_folder(sidecar_folder())):
        _change_note(address, lambda noted: list(dict.fromkeys([*noted, str(path)])))


def forget_sidecar(image: Node, sidecar: str) -> None:
    """Drop a sidecar that is gone from the notes."""
    address = address_of(image)
    if address is not None and sidecar in _read_note(address):
        _change_note(address, lambda noted: [path for path in noted if path != sidecar])


def _read_note(address: Address, problems: list[Problem] | None = None) -> list[str]:
    try:
        return _list_noted(SharedDocument(address.note).read())
    except (CorruptDataError, OSError) as error:
        if problems is not None:
            problems.append(_sidecar_problem(address.note, str(error)))
        return []


def _list_noted(content: Any) -> list[str]:
    listed = content.get("sidecars") if isinstance(content, dict) else None
    noted = listed if isinstance(listed, list) else []
    return [path for path in noted if isinstance(path, str)]


def _change_note(address: Address, edit: Callable[[list[str]], list[str]]) -> None:
    def change_note(content: Any) -> Any:
        return {"image": address.root, "sidecars": edit(_list_noted(content))}

    SharedDocument(address.note).change(change_note)


# Finding them again.


def sidecar_candidates(
    address: Address, problems: list[Problem] | None = None
) -> tuple[Path, ...]:
    """List the paths where sidecars of a hierarchy can be; see `sidecars_of`."""
    places = [address.beside, address.in_folder(sidecar_folder())]
    places += [Path(text) for text in _read_note(address, problems)]
    return tuple(dict.fromkeys(path for path in places if path is not None))


def sidecars_of(address: Address, problems: list[Problem] | None = None) -> list[Path]:
    """List the sidecars of a hierarchy that exist.

    Parameters
    ----------
    problems
        Gets one where the note of sidecars in other folders cannot be read.
    """
    unique = sidecar_candidates(address, problems)
    # Not `Path.is_dir`: in Python 3.11 it raises where a folder above is not readable.
    return [path for path in unique if os.path.isdir(path)]


@dataclass(frozen=True, slots=True)
class SidecarLabels:
    """The label images of one image that are in sidecars.

    Attributes
    ----------
    labels
        By name; the first one of each.
    problems
        Of the sidecars.
    """

    labels: dict[str, Node]
    problems: tuple[Problem, ...] = ()


def open_sidecars(image: Node) -> SidecarLabels:
    """Open the label images of an image that are in sidecars; asks no server."""
    address = address_of(image)
    if address is None:
        return SidecarLabels({})
    image_address = address.path_of(image.location.path)
    nodes: dict[str, Node] = {}
    problems: list[Problem] = []
    for path in sidecars_of(address, problems):
        try:
            root = read_node(Location(FolderStore(str(path))))
        except NodeNotFoundError:
            continue  # its first labels were never finished
        except (OMEZarrError, OSError) as error:
            problems.append(_sidecar_problem(path, str(error)))
            continue
        home = LabelLocation(root.location.source, "", "", image.location.path)
        # Only entries of this image are opened: a plate's sidecar has thousands.
        listed = root.metadata.labels or ()
        children = root.children(
            entry for entry in listed if entry.startswith(home.prefix)
        )
        problems += children.problems
        for node in children.nodes:
            # "B.3" is also what names of "B/3/0" begin with.
            if image_path(node) != image.location.path:
                continue
            if _leads_to(node, image_address):
                # Beside the image first; see `sidecar_candidates`.
                nodes.setdefault(name_of(node), node)
            else:
                text = f"{node} is a label of another image, by its source."
                problems.append(_sidecar_problem(path, text))
    return SidecarLabels(nodes, tuple(problems))


def _sidecar_problem(path: Path, text: str) -> Problem:
    return Problem(
        "sidecar-unreadable",
        Severity.WARNING,
        f"{path}:",
        text,
        Consequence.PART_LEFT_OUT,
    )


def image_path(label: Node) -> str:
    """Return the path of a label's image in the image's hierarchy.

    What its source ends with and its own name begins with.
    """
    # From the longest end on: "B/3/0" rather than "0".
    parts = source_of(label).replace("\\", "/").rstrip("/").split("/")
    for start in range(1, len(parts)):
        if label.name.startswith(".".join(parts[start:]) + "."):
            return "/".join(parts[start:])
    return ""


def name_of(label: Node) -> str:
    """Return the name of a sidecar's label image without the path of its image."""
    return label.name[len(image_path(label).replace("/", ".")) :].lstrip(".")


def source_of(label: Node) -> str:
    """Return path or URL of a label's image, which need not exist."""
    image = label.metadata.image
    stated = image.label.source if image is not None and image.label else ""
    if is_url(stated):
        return stated
    label_path = os.path.realpath(str(label.location))
    return os.path.normpath(os.path.join(label_path, stated))


def _leads_to(label: Node, image: str) -> bool:
    """Return whether a label belongs to an image, or may: both may have been moved."""
    source = source_of(label)
    if is_url(source) or is_url(image):
        return source == image or not (is_url(source) or os.path.exists(source))
    # Where the source leads to nothing, image and sidecar were moved together.
    same = os.path.normcase(source) == os.path.normcase(image)
    return same or not os.path.exists(source)
