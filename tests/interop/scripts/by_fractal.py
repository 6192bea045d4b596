"""fractal-tasks-core: a plate that its tasks import, with labels that they segment."""

from __future__ import annotations

import ngio
import numpy as np
from common import main, random_pixels
from fractal_tasks_core.import_ome_zarr import AdvancedOptions, import_ome_zarr
from fractal_tasks_core.threshold_segmentation import threshold_segmentation

PLATE, FIELD = "plate.zarr", "B/03/0"
IMAGE = random_pixels(2, 2, 64, 80)
ROIS = AdvancedOptions(add_image_roi_table=True)


def write():
    images = [ngio.ImageInWellPath(row="B", column="03", path="0")]
    plate = ngio.create_empty_plate(PLATE, "plate", images)
    ngio.create_ome_zarr_from_array(
        plate.get_image_store("B", "03", "0"),
        IMAGE,
        0.5,
        levels=3,
        axes_names="czyx",
        channels_meta=["DAPI", "GFP"],
    )
    import_ome_zarr(zarr_dir=".", zarr_name=PLATE, advanced_options=ROIS)
    channel = {"mode": "label", "identifier": "DAPI"}
    image = f"{PLATE}/{FIELD}"
    threshold_segmentation(zarr_url=image, channel=channel, output_label_name="nuclei")
    # What the task found is what we compare with.
    found = ngio.open_ome_zarr_container(image).get_label("nuclei").get_array()
    return {image: IMAGE, f"{image}/labels/nuclei": np.asarray(found)}, [PLATE]


def read():
    image = f"{PLATE}/{FIELD}"
    container = ngio.open_ome_zarr_container(image, mode="r")
    assert "image_ROI_table" in container.list_tables()
    found = {
        image: [
            np.asarray(container.get_image(path=level).get_array())
            for level in container.level_paths
        ]
    }
    for name in container.list_labels():
        found[f"{image}/labels/{name}"] = [
            np.asarray(container.get_label(name, path=level).get_array())
            for level in container.get_label(name).meta.paths
        ]
    return found


def validate(path):
    """Have the task import it once more."""
    options = ROIS.model_copy(update={"add_image_roi_table": False})
    import_ome_zarr(zarr_dir=".", zarr_name=PLATE, advanced_options=options)


if __name__ == "__main__":
    main("fractal-tasks-core", write, read, ("fractal-tasks-core", validate))
