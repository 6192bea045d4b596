"""Writes attributes of OME-Zarr 0.1 to 0.6; strict where `parse` is lenient.

Each function returns the attributes of one group: the root keys of ``.zattrs`` up to
0.4, an object with the one key ``"ome"`` from 0.5 on. What a version cannot state is
a `ValueError`: nothing is dropped silently and nothing is invented.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.metadata.model import (
    JSON,
    KIND,
    Axis,
    Channel,
    ImageMetadata,
    LabelInfo,
    Level,
    Multiscale,
    Omero,
    PlateMetadata,
    WellMetadata,
)
from napari_ngff.metadata.systems_dump import (
    INTRINSIC,
    dump_axis,
    dump_systems,
    known_values,
)
from napari_ngff.metadata.transform import Identity
from napari_ngff.metadata.version import VERSIONS, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.metadata.systems import SystemLink

ALPHANUMERIC = re.compile(r"[A-Za-z0-9]+")
NODE_NAME = re.compile(r"(?!__)(?!\.+$)[A-Za-z0-9_.-]+")  # 0.6: a Zarr node name


def dump_image(image: ImageMetadata, version: str) -> JSON:
    """Return the attributes of an image, or of a label image if it has a `label`.

    Parameters
    ----------
    image
        All multiscales are written. Up to 0.3 the finest level must have scale 1,
        translation 0 and no units, since those versions cannot state any; the
        coarser levels' scales are left to the shapes of their arrays.
    version
        One of `VERSIONS`.

    Raises
    ------
    ValueError
        Where the version cannot represent it: axes other than tczyx in 0.1 and 0.2,
        axes out of order, a scale of 0, a channel without colour or window...
    """
    known = require_version(version)
    if not image.multiscales:
        raise ValueError("An image needs at least one multiscale.")
    content: JSON = {
        "multiscales": [dump_multiscale(m, known) for m in image.multiscales]
    }
    if image.omero is not None:
        content["omero"] = dump_omero(image.omero, known)
    if image.label is not None:
        content["image-label"] = dump_label(image.label, known)
    if known.has_axis_names_only:
        # A MUST of 0.3, so that xarray finds the names of the dimensions.
        content["_ARRAY_DIMENSIONS"] = list(image.multiscales[0].axis_names)
    return wrap_content(content, known)


def dump_labels(paths: Iterable[str], version: str) -> JSON:
    """Return the attributes of a ``labels`` group.

    Parameters
    ----------
    paths
        Of the label groups, relative to the ``labels`` group.
    version
        One of `VERSIONS`.

    Raises
    ------
    ValueError
        Where a path is empty, absolute or there twice.
    """
    known = require_version(version)
    labels = list(paths)
    check_unique(labels, "label path")
    for path in labels:
        if not path.strip("/") or path.startswith("/"):
            raise ValueError(f"{path!r} is not a path below the labels group.")
    return wrap_content({"labels": labels}, known)


def dump_plate(plate: PlateMetadata, version: str) -> JSON:
    """Return the attributes of a plate group.

    ``maximumfieldcount`` equals `PlateMetadata.field_count` where there is one
    acquisition; of several, the model does not know it.

    Raises
    ------
    ValueError
        Where names are not alphanumeric or not unique, a well's path is not "row name/
        column name" of its indices, or there is no row, column or well.
    """
    known = require_version(version)
    for what, names in (("row", plate.rows), ("column", plate.columns)):
        check_unique(names, f"{what} name")
        for name in names:
            if not ALPHANUMERIC.fullmatch(name):
                raise ValueError(f"A {what} name must be alphanumeric, not {name!r}.")
    if not (plate.rows and plate.columns and plate.wells):
        raise ValueError("A plate needs at least one row, one column and one well.")
    content: JSON = {"name": plate.name} if plate.name else {}
    content["rows"] = [{"name": name} for name in plate.rows]
    content["columns"] = [{"name": name} for name in plate.columns]
    content["wells"] = dump_wells(plate, known)
    if plate.field_count is not None:
        if plate.field_count < 1:
            raise ValueError(f"field_count must be over 0, not {plate.field_count}.")
        content["field_count"] = int(plate.field_count)
    if plate.acquisitions:
        content["acquisitions"] = dump_acquisitions(plate)
    # From 0.6 on the version is stated once, in "ome".
    if known.has_part_versions:
        content["version"] = known
    return wrap_content({"plate": content}, known)


def dump_well(well: WellMetadata, version: str) -> JSON:
    """Return the attributes of a well group.

    Raises
    ------
    ValueError
        Where there is no field, or a field's path is there twice or has characters
        that the version does not allow (alphanumeric, from 0.6 on also ``-_.``).
    """
    known = require_version(version)
    if not well.fields:
        raise ValueError("A well needs at least one field.")
    check_unique([field.path for field in well.fields], "field path")
    allowed = NODE_NAME if known.has_systems else ALPHANUMERIC
    images: list[JSON] = []
    for field in well.fields:
        if not allowed.fullmatch(field.path):
            raise ValueError(f"{field.path!r} is not a path of a field in {known}.")
        acquisition = to_plain(field.acquisition)
        images.append(known_values({"path": field.path, "acquisition": acquisition}))
    content: JSON = {"images": images}
    # See `dump_plate`.
    if known.has_part_versions:
        content["version"] = known
    return wrap_content({"well": content}, known)


def wrap_content(content: JSON, version: Version) -> JSON:
    """Put `content` under "ome", from 0.5 on."""
    if version.has_ome_key:
        return {"ome": {"version": version, **content}}
    return content


def dump_multiscale(multiscale: Multiscale, version: Version) -> JSON:
    """Return one entry of ``multiscales``."""
    check_axes(multiscale.axes, version)
    check_levels(multiscale, version)
    # 0.5 moved the version of images to "ome", that of plates and labels stayed.
    entry: JSON = {} if version.has_ome_key else {"version": version}
    if multiscale.name:
        entry["name"] = multiscale.name
    if version.has_axis_names_only:
        entry["axes"] = list(multiscale.axis_names)
    elif version.has_systems:
        entry |= dump_systems(multiscale)
    elif version.has_axes:
        entry["axes"] = [dump_axis(axis, version) for axis in multiscale.axes]
    intrinsic = multiscale.intrinsic or INTRINSIC
    levels = multiscale.levels
    entry["datasets"] = [dump_level(level, intrinsic, version) for level in levels]
    known = {"method": multiscale.method, "software": multiscale.software}
    if multiscale.method is not None:
        entry["type"] = multiscale.method
    if any(known.values()):
        # By the specification a place for whatever describes how levels were made.
        entry["metadata"] = {k: text for k, text in known.items() if text is not None}
    return entry


def dump_level(level: Level, intrinsic: str, version: Version) -> JSON:
    """Return one entry of ``datasets``; the transformations from 0.4 on."""
    if not version.has_transformations:
        return {"path": level.path}
    # One scale, then at most one translation, in this order (MUST of 0.4 and 0.5).
    steps: list[JSON] = [{"type": "scale", "scale": [float(s) for s in level.scale]}]
    if any(level.translation):
        offset = [float(t) for t in level.translation]
        steps.append({"type": "translation", "translation": offset})
    if version.has_systems:
        # 0.6: exactly one transformation per dataset, which names both its ends.
        whole = steps[0]
        if len(steps) > 1:
            whole = {"type": "sequence", "transformations": steps}
        ends = {"input": {"path": level.path}, "output": {"name": intrinsic}}
        steps = [whole | ends]
    return {"path": level.path, "coordinateTransformations": steps}


def dump_omero(omero: Omero, version: Version) -> JSON:
    """Return the ``omero`` block."""
    content: JSON = {} if version.has_ome_key else {"version": version}
    content |= known_values({"name": omero.name})
    content["channels"] = [dump_channel(c, i) for i, c in enumerate(omero.channels)]
    places = {"defaultT": omero.default_t, "defaultZ": omero.default_z}
    defaults = {key: to_plain(n) for key, n in known_values(places).items()}
    # Nothing stated is read as "color", so a block for that alone would be invented.
    if defaults or omero.greyscale:
        defaults["model"] = "greyscale" if omero.greyscale else "color"
        content["rdefs"] = defaults
    return content


def dump_channel(channel: Channel, index: int) -> JSON:
    """Return one channel; "color" and all of "window" are MUST in every version."""
    # Invented limits would change how the image looks elsewhere, so they are refused.
    window = channel.window
    if channel.color is None or window is None:
        raise ValueError(f"Channel {index} needs a color and a window.")
    limits = {key: getattr(window, key) for key in ("min", "max", "start", "end")}
    for key, value in limits.items():
        if value is None or not math.isfinite(value):
            raise ValueError(f"window.{key} of channel {index} must be a number.")
    content: JSON = {"color": "".join(f"{byte:02X}" for byte in channel.color)}
    content["window"] = {key: to_plain(value) for key, value in limits.items()}
    # `inverted` is left out where false: a file without the key means the same.
    inverted = channel.inverted or None
    stated = {"label": channel.label, "active": channel.active, "inverted": inverted}
    return content | known_values(stated)


def dump_label(label: LabelInfo, version: Version) -> JSON:
    """Return the ``image-label`` block, without empty lists (``minItems`` is 1).

    Without a `LabelInfo.source` no image is named.
    """
    content: JSON = {"version": version} if version.has_part_versions else {}
    if label.kind is not None:
        content[KIND] = str(label.kind)
    given = dict(label.colors)
    properties: dict[int, JSON] = {}
    for value, row in label.properties.items():
        plain = {key: to_plain(entry) for key, entry in row.items()}
        try:
            # NaN and infinity, which Python would write, are no JSON.
            json.dumps(plain, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Properties of label {value} are not JSON: {error}."
            ) from None
        properties[int(value)] = plain
    if given and properties:
        # ome-zarr-models, and ngio with it, refuse lists that do not name the same
        # values, and colours without "rgba": the others get what they are shown in.
        given = {value: usual_color(value) for value in properties} | given
        properties |= {int(value): {} for value in given if value not in properties}
    colors: dict[int, JSON] = {
        int(value): {"rgba": [int(byte) for byte in rgba]}
        for value, rgba in given.items()
    }
    for key, entries in (("colors", colors), ("properties", properties)):
        if entries:
            content[key] = [{"label-value": v} | entry for v, entry in entries.items()]
    return content | ({"source": {"image": label.source}} if label.source else {})


def dump_wells(plate: PlateMetadata, version: Version) -> list[JSON]:
    """Return the wells; their indices from 0.4 on."""
    check_unique([well.path for well in plate.wells], "well path")
    wells: list[JSON] = []
    for well in plate.wells:
        if not (
            0 <= well.row < len(plate.rows) and 0 <= well.column < len(plate.columns)
        ):
            raise ValueError(f"Well {well.path!r} is outside of the plate's grid.")
        # "MUST consist of a name in the rows list, a file separator (/), and a name
        # from the columns list, in that order" (0.4).
        path = f"{plate.rows[well.row]}/{plate.columns[well.column]}"
        if well.path != path:
            raise ValueError(f"Well {well.path!r} must be at {path!r}.")
        wells.append({"path": path})
        if version.has_well_indices:
            wells[-1] |= {"rowIndex": int(well.row), "columnIndex": int(well.column)}
    return wells


def dump_acquisitions(plate: PlateMetadata) -> list[JSON]:
    """Return the acquisitions of a plate."""
    check_unique([run.id for run in plate.acquisitions], "acquisition id")
    entries: list[JSON] = []
    for run in plate.acquisitions:
        if run.id < 0:
            raise ValueError(f"An acquisition id must not be negative: {run.id}.")
        # `field_count` is the maximum over all acquisitions, and so that of a single
        # one.
        most = plate.field_count if len(plate.acquisitions) == 1 else None
        stated = {"name": run.name, "maximumfieldcount": to_plain(most)}
        entries.append({"id": int(run.id)} | known_values(stated))
    return entries


def require_version(version: str) -> Version:
    """Return one of `VERSIONS`; refuse another text."""
    if version not in VERSIONS:
        raise ValueError(
            f"Cannot write OME-Zarr {version!r}: choose one of {', '.join(VERSIONS)}."
        )
    return Version(version)


def check_unique(values: Sequence[Any], what: str) -> None:
    """Refuse duplicates."""
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ValueError(f"The {what} {twice[0]!r} is there twice.")


def check_axes(axes: Sequence[Axis], version: Version) -> None:
    """Refuse axes, or an order of axes, that the version does not allow."""
    names = [axis.name for axis in axes]
    text = ", ".join(names)
    if not version.has_axes and names != list("tczyx"):
        raise ValueError(f"OME-Zarr {version} needs the axes t, c, z, y, x, not {text}")
    check_unique(names, "axis name")
    if not all(names) or not 2 <= len(names) <= 5:
        raise ValueError(f"OME-Zarr needs 2 to 5 named axes, not {len(names)} ({text})")
    if version.has_axis_names_only:
        if names != [name for name in "tczyx" if name in names]:
            raise ValueError(f"OME-Zarr 0.3 needs axes in the order tczyx, not {text}")
        return
    # 0.4 to 0.6: time first, then one channel or custom axis, then 2 or 3 of space.
    ranks = [{"time": 0, "space": 2}.get(axis.type or "", 1) for axis in axes]
    counts = [ranks.count(rank) for rank in range(3)]
    if ranks != sorted(ranks) or max(counts[:2]) > 1 or counts[2] not in (2, 3):
        raise ValueError(
            f"OME-Zarr {version} needs axes in the order of at most one time, at most "
            "one channel or custom, two or three space axes, not "
            + ", ".join(f"{axis.name} ({axis.type})" for axis in axes)
        )


def check_levels(multiscale: Multiscale, version: Version) -> None:
    """Refuse levels whose paths or transformations the version cannot state."""
    if not multiscale.levels:
        raise ValueError(f"Multiscale {multiscale.name!r} needs at least one level.")
    check_unique([level.path for level in multiscale.levels], "level path")
    ndim = len(multiscale.axes)
    for level in multiscale.levels:
        if len(level.scale) != ndim or len(level.translation) != ndim:
            raise ValueError(
                f"Level {level.path!r} needs a scale and a translation of {ndim} axes."
            )
        if not np.isfinite(level.scale + level.translation).all():
            raise ValueError(f"Level {level.path!r} has a transformation not finite.")
        if level.transformation is not None:
            raise ValueError(
                f"Level {level.path!r} has more than a scale and a translation."
            )
        # 0.6 demands a scale over 0; before it a negative one (a flipped axis) is
        # valid.
        lowest = min(level.scale if version.has_systems else map(abs, level.scale))
        if lowest <= 0:
            raise ValueError(f"Level {level.path!r} has a scale of {lowest:g}.")
    # Before 0.6 labels lie over their image, as a link of identity to them states.
    links = [link for link in multiscale.links if not _links_own_labels(link)]
    if links and not version.has_systems:
        raise ValueError(f"OME-Zarr {version} cannot state links between systems.")
    finest = multiscale.levels[0]
    if not version.has_transformations and (
        any(scale != 1 for scale in finest.scale)
        or any(finest.translation)
        or any(axis.unit for axis in multiscale.axes)
    ):
        raise ValueError(
            f"OME-Zarr {version} cannot state a scale, a translation or units: "
            "write 0.4 or newer."
        )


def _links_own_labels(link: SystemLink) -> bool:
    """Return whether a link states that labels of the image lie over it."""
    paths = sorted((link.input.path, link.output.path))
    own = not paths[0] and paths[1].startswith("labels/")
    return own and isinstance(link.transformation, Identity)


def to_plain(value: Any) -> Any:
    """Convert a numpy scalar into a number of Python; return other values as they
    are.
    """
    return value.item() if isinstance(value, np.generic) else value


# napari's default colours of labels, `label_colormap(49, 0.5, background_value=0)`,
# copied, since nothing here imports napari.
CYCLE = bytes.fromhex(
    "7825065bd5f89289e86c02c1473a9fabec8a8fadb286909afef71cf7443b034e3971b260"
    "69954a3c1b872e47105cb7de479d76474258ef5665b8507ba62a64f1b4ec4b1e20b4c53e"
    "9c602f8a431bd8be9ab47dbda65ea4607a34c1e357d795559e876f002cebcae6e0e18b1e"
    "78f0017b8e0fe5ddb2abec8a42d8a646ba8efef71cf7443baf4bf2b00c3f69954af687a7"
    "cb32c7"
)
"""Red, green, blue of the labels 1, 2, 3 and so on, and again from the first."""


def usual_color(value: int) -> tuple[int, int, int, int]:
    """Return the colour of a label without its own colour."""
    # The background, where napari shows nothing.
    if value == 0:
        return 0, 0, 0, 0
    start = 3 * ((value - 1) % (len(CYCLE) // 3))
    red, green, blue = CYCLE[start : start + 3]
    return red, green, blue, 255
