"""zarr-python: metadata by hand; Zarr 2 and 3, shards, both separators."""

from __future__ import annotations

import zarr
from common import main, random_labels, random_pixels

IMAGE, LABELS = random_pixels(2, 70, 90), random_labels(70, 90)
ARRAYS = {
    "0.4": {"chunks": (1, 32, 32), "order": "F"},
    "0.5": {"chunks": (1, 16, 16), "shards": (1, 32, 32)},
}


def multiscale(path, version, axes, levels):
    """Write levels, each of every second voxel of the one before."""
    own = ARRAYS[version]
    number = 2 if version == "0.4" else 3
    group = zarr.open_group(path, mode="w", zarr_format=number)
    datasets = []
    for number, pixels in enumerate(levels):
        options = {
            key: value[-len(axes) :] if isinstance(value, tuple) else value
            for key, value in own.items()
        }
        if version == "0.5":
            options["dimension_names"] = tuple(axes)
        array = group.create_array(
            f"s{number}", shape=pixels.shape, dtype=pixels.dtype, **options
        )
        array[...] = pixels
        scale = [1.0 if name == "c" else 0.5 * 2**number for name in axes]
        step = {"type": "scale", "scale": scale}
        datasets.append({"path": f"s{number}", "coordinateTransformations": [step]})
    named = [
        {"name": name, "type": "channel"}
        if name == "c"
        else {"name": name, "type": "space", "unit": "micrometer"}
        for name in axes
    ]
    return group, {"version": version, "axes": named, "datasets": datasets}


def put(group, version, content):
    """Write the metadata of a group."""
    if version == "0.5":
        content["multiscales"][0].pop("version")
        content = {"ome": {"version": version, **content}}
    group.attrs.update(content)


def halves(pixels):
    return [pixels, pixels[..., ::2, ::2], pixels[..., ::4, ::4]]


def write():
    finest = {}
    for version in ARRAYS:
        path = f"{version}.ome.zarr"
        group, image = multiscale(path, version, "cyx", halves(IMAGE))
        put(group, version, {"multiscales": [image]})
        listed = {"labels": ["cells"]}
        if version == "0.5":
            listed = {"ome": {"version": version, **listed}}
        group.create_group("labels").attrs.update(listed)
        below = f"{path}/labels/cells"
        group, labels = multiscale(below, version, "yx", halves(LABELS))
        info = {"colors": [{"label-value": 1, "rgba": [255, 0, 0, 255]}]}
        put(group, version, {"multiscales": [labels], "image-label": info})
        finest |= {path: IMAGE, below: LABELS}
    return finest, []


def levels(group):
    attributes = group.attrs.get("ome", group.attrs)
    (multiscale,) = attributes["multiscales"]
    return [group[dataset["path"]][...] for dataset in multiscale["datasets"]]


def read():
    found = {}
    for version in ARRAYS:
        path = f"{version}.ome.zarr"
        group = zarr.open_group(path, mode="r")
        found[path] = levels(group)
        for name, labels in group["labels"].groups():
            found[f"{path}/labels/{name}"] = levels(labels)
    return found


if __name__ == "__main__":
    main("zarr", write, read)
