"""spatialdata: a store of an image, labels and a table."""

from __future__ import annotations

import anndata
import numpy as np
import pandas as pd
import spatialdata
from common import main, random_labels, random_pixels
from spatialdata import models
from spatialdata.transformations import Identity, Scale

IMAGE, LABELS = random_pixels(3, 80, 100), random_labels(80, 100)
PATH = "store.zarr"


def write():
    ways = {"global": Scale([0.5, 0.5], axes=("y", "x")), "voxels": Identity()}
    image = models.Image2DModel.parse(
        IMAGE, dims=("c", "y", "x"), transformations=ways, scale_factors=[2, 2]
    )
    labels = models.Labels2DModel.parse(
        LABELS, dims=("y", "x"), transformations=ways, scale_factors=[2]
    )
    ids = np.arange(1, 21)
    columns = {"region": pd.Categorical(["cells"] * 20), "instance": ids}
    rows = pd.DataFrame(columns, index=ids.astype(str))
    table = models.TableModel.parse(
        anndata.AnnData(np.ones((20, 2)), rows),
        region="cells",
        region_key="region",
        instance_key="instance",
    )
    elements = {"image": image, "cells": labels, "table": table}
    spatialdata.SpatialData.init_from_elements(elements).write(PATH)
    return {f"{PATH}/images/image": IMAGE, f"{PATH}/labels/cells": LABELS}, []


def levels(element):
    nodes = sorted(element.children)
    return [element[node]["image"].to_numpy() for node in nodes]


def read():
    store = spatialdata.read_zarr(PATH)
    assert list(store.tables) == ["table"]
    found = {f"{PATH}/images/{name}": levels(store[name]) for name in store.images}
    found |= {f"{PATH}/labels/{name}": levels(store[name]) for name in store.labels}
    return found


def validate(path):
    _, kind, name = path.split("/")
    element = spatialdata.read_zarr(PATH)[name]
    model = models.Image2DModel if kind == "images" else models.Labels2DModel
    model().validate(element)


if __name__ == "__main__":
    main("spatialdata", write, read, ("spatialdata", validate))
