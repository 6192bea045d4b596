"""The group of the label images of an image, in its hierarchy or in a sidecar."""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.addresses import is_url
from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.model import LabelInfo
from napari_ngff.metadata.version import LABEL_VERSIONS, Version
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.limits import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.store import Store

DEVICES = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9¹²³]) *(\..*)?", re.IGNORECASE
)
"""Names of devices on Windows, where no file can have them, whatever its ending."""


@dataclass(frozen=True, slots=True)
class LabelLocation:
    """The group that lists the label images of one image.

    Attributes
    ----------
    source
        The hierarchy, which may be still to be made.
    group
        Path of the group with the list.
    stated
        OME-Zarr version as all of the hierarchy states it.
    below
        In a sidecar: the image's path in its own hierarchy. The names of the list
        begin with it, parts joined by periods: not all readers look deeper.
    image
        Path or URL of the image where it is in another hierarchy, else "".
    """

    source: Store
    group: str
    stated: str
    below: str = ""
    image: str = ""

    @property
    def version(self) -> Version:
        """Version that is written, without the number of a draft."""
        return written_version(self.stated)

    @property
    def zarr_format(self) -> int:
        """2 or 3."""
        # "", a version that cannot have labels, counts as a new one.
        return self.version.zarr_format if self.version else 3

    def list_entry(self, name: str) -> str:
        """Return the path of a label image as it stands in the list."""
        return f"{self.prefix}{name}"

    @property
    def prefix(self) -> str:
        """The beginning of the names of this image's labels in the list."""
        return self.below.replace("/", ".") + "." if self.below else ""

    def path_of(self, name: str) -> str:
        """Return the path of a label image in the hierarchy."""
        return join_key(self.group, self.list_entry(name))

    def open_label(self, name: str) -> Node:
        """Open a label image.

        Raises
        ------
        NodeNotFoundError
            Where there is none.
        """
        return read_node(Location(self.source, self.path_of(name)), self.zarr_format)

    def find_unlisted(self) -> list[str]:
        """List the label images of a group that has no list of them."""
        try:
            group = read_node(Location(self.source, self.group), self.zarr_format)
        except FileNotFoundError:
            return []
        # Only image groups: any folder may be below `labels`.
        paths = group.label_paths(None)
        image_paths = {
            node.location.path for node in group.children(paths).label_images
        }
        return [path for path in paths if join_key(self.group, path) in image_paths]

    def label_names(self) -> list[str]:
        """List the label images of this image."""
        location = Location(self.source, self.group)
        try:
            listed = read_node(location, self.zarr_format).metadata.labels or ()
        except FileNotFoundError:
            return []
        # In a sidecar the other entries are labels of other images.
        start = self.prefix
        return [path[len(start) :] for path in listed if path.startswith(start)]

    def source_image(self, name: str) -> str:
        """Return the path from a label image to its image, or the image's URL.

        A relative path, as the text wants it, wherever there is one: not for URLs, nor
        for another drive of Windows.
        """
        if not self.image:
            return LabelInfo().source
        if is_url(self.image):
            return self.image
        # Real paths on both sides: ".." from behind a symbolic link leads elsewhere.
        label_path = os.path.realpath(
            os.path.join(self.source.name, self.path_of(name))
        )
        try:
            way = os.path.relpath(os.path.realpath(self.image), label_path)
        except ValueError:  # from drive to drive
            way = os.path.realpath(self.image)
        # Paths in metadata have "/", also on Windows.
        return way.replace(os.sep, "/")


def location_inside(image: Node) -> LabelLocation:
    """Return the image's own ``labels`` group, which need not exist yet.

    Raises
    ------
    UnsupportedError
        Where the image's version cannot state what labels need, it is no image, or
        an element of SpatialData.
    """
    if "spatialdata_attrs" in image.attributes:
        # spatialdata refuses to read a store with a group that it does not know.
        msg = (
            f"Labels cannot be inside {image}: spatialdata could not read its store any"
            " more."
        )
        raise UnsupportedError(msg, remedy="Keep them in a sidecar.")
    stated = image.metadata.version or ""
    if written_version(stated):
        return LabelLocation(
            image.location.source, image.location.object_key("labels"), stated
        )
    if image.metadata.image is None:
        msg = f"{image} is not an image."
        raise UnsupportedError(
            msg, remedy="Open one of its images, and make labels for that."
        )
    msg = (
        f"{image} is OME-Zarr {stated or 'of no stated version'}, which cannot state"
        " the position of labels. Convert it to 0.4 or newer, and use the result."
    )
    raise UnsupportedError(msg)


def name_problem(name: str, taken: Sequence[str] = ()) -> str:
    """Say what is wrong with the name of a label image; "" for nothing.

    It becomes the name of a zarr group: "must not contain /", "must not be composed
    only of periods", "must not start with the reserved prefix __" (zarr v3, node
    names). Names with one `name_key` would be one folder on some systems.
    """
    if not name.strip():
        return "A label image needs a name."
    # Characters that Windows does not allow; nor names with a space or a period at
    # their end, which it drops.
    odd = set(name) & set('/\\:*?"<>|') or not name.isprintable()
    is_cut = name.strip().rstrip(".") not in (name, "")
    if odd or is_cut or DEVICES.fullmatch(name):
        return f"{name!r} cannot be the name of a folder on every system."
    if not is_name(name):
        return f"{name!r} is not allowed as a name in zarr."
    if name_key(name) in map(name_key, taken):
        return f"A label image {name!r} already exists. Choose another name."
    return ""


def name_key(name: str) -> str:
    """Return what two names share that are one folder on Windows or macOS.

    There, names are the same if they differ in case alone, or in how Unicode writes a
    letter: "é" is one character, or "e" with an accent.
    """
    folded = unicodedata.normalize("NFD", name).casefold()
    return unicodedata.normalize("NFD", folded)


def is_name(path: str) -> bool:
    """Return whether a label image may have this name, or path of names.

    It stays below its list, and is no document of it.
    """
    parts = path.split("/")
    return not any(
        not part.strip(". ")
        or part.startswith("__")
        or "\\" in part
        or part in DOCUMENTS
        for part in parts
    )


def why_not_created(source: Store) -> str:
    """Say why no label images can be made in a hierarchy; "" where they can."""
    try:
        source.begin()
    except UnsupportedError as error:
        return str(error)
    return ""


def written_version(stated: str) -> Version:
    """Return a version without the number of its draft; "" if it has no labels."""
    version = Version(stated)
    return next((v for v in LABEL_VERSIONS if version.belongs_to(v)), Version())
