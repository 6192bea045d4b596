"""Images, labels and scenes of OME-Zarr 0.6 for tests, as plain documents."""

from __future__ import annotations

import json

import numpy as np
import zarr

UM, NM = "micrometer", "nanometer"


def axes(names, unit=UM):
    kinds = {"t": "time", "c": "channel"}
    return [
        {"name": n, "type": kinds.get(n, "space")}
        | ({} if n in kinds or unit is None else {"unit": unit})
        for n in names
    ]


def system(name, names, unit=UM):
    return {"name": name, "axes": axes(names, unit)}


def end(name, path=None):
    return {"name": name} if path is None else {"name": name, "path": path}


def link(start, goal, **transformation):
    return {"input": start, "output": goal} | transformation


def group(folder, ome, version="0.6"):
    folder.mkdir(parents=True, exist_ok=True)
    attributes = {"ome": {"version": version} | ome}
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (folder / "zarr.json").write_text(json.dumps(document))


def image(
    folder,
    names,
    pixels,
    *,
    scale=None,
    move=None,
    unit=UM,
    systems=(),
    links=(),
    label=False,
    dataset=None,
):
    """Write an image of one level whose intrinsic system is called physical."""
    steps = [
        {"type": "scale", "scale": scale or [1.0] * len(names)},
        {"type": "translation", "translation": move or [0.0] * len(names)},
    ]
    whole = dataset or {"type": "sequence", "transformations": steps}
    whole = link({"path": "0"}, end("physical"), **whole)
    multiscale = {
        "coordinateSystems": [system("physical", names, unit), *systems],
        "datasets": [{"path": "0", "coordinateTransformations": [whole]}],
        "coordinateTransformations": list(links),
    }
    group(
        folder, {"multiscales": [multiscale]} | ({"image-label": {}} if label else {})
    )
    zarr.create_array(folder / "0", data=pixels, overwrite=True)
    return pixels


def labelled(folder, labels):
    """Add label images: name -> (axes, pixels, keywords of `image`)."""
    group(folder / "labels", {"labels": list(labels)})
    for name, (names, pixels, keywords) in labels.items():
        image(folder / "labels" / name, names, pixels, label=True, **keywords)


def scene(folder, links, systems=()):
    content = {"coordinateTransformations": list(links)}
    if systems:
        content["coordinateSystems"] = list(systems)
    group(folder, {"scene": content})


def numbered(*shape, first=1, dtype="u2"):
    return np.arange(first, first + np.prod(shape)).reshape(shape).astype(dtype)
