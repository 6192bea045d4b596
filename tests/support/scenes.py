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


def channel_scene(folder):
    """Describe a scene of "multi", with channels, and "single" beside its first."""
    flat = {"type": "projectAxis", "createdOutputs": [0]}
    links = [
        link(end("physical", "multi"), end("world"), type="identity"),
        link(end("physical", "single"), end("world"), **flat),
    ]
    scene(folder, links, [system("world", "cyx")])


def registered_scene(folder):
    """Describe a scene where b = 2 (a + 3): fields of 40 x 40 and scales, both ways.

    As the example scene_registration of 0.6.
    """

    def field(name):
        return {"type": "displacements", "path": f"t/{name}"}

    def zoom(factor):
        return {"type": "scale", "scale": [factor, factor]}

    def sequence(*steps):
        return {"type": "sequence", "transformations": steps}

    both = {
        "type": "bijection",
        "forward": sequence(field("there"), zoom(2)),
        "inverse": sequence(zoom(0.5), field("back")),
    }
    scene(folder, [link(end("physical", "a"), end("physical", "b"), **both)])
    for name, value in (("there", 3.0), ("back", -3.0)):
        zarr.create_array(folder / "t" / name, data=np.full((40, 40, 2), value))
