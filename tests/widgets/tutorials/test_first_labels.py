"""Tutorial: from a plate to the first saved labels."""

from __future__ import annotations

import numpy as np
import zarr

from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from person import Person, needs_pointer

pytestmark = needs_pointer


def test_first_labels_are_painted_and_saved(viewer, tmp_path):
    plate = write_plate(tmp_path / "plate.ome.zarr", grid=(2, 3), fields=2)

    def tutorial(person):
        person.drop(plate)
        dock = person.sees(lambda: browser_of(viewer))
        person.sees(lambda: len(dock.map.state.pictures) == 5)
        person.sees(lambda: np.mean(viewer.screenshot(flash=False)[..., :3]) > 3)
        person.step("plate")

        person.click(dock.map.viewport(), person.look(dock.map.rectOf("B/3").center))
        browser = session_of(viewer).browser
        person.sees(lambda: browser.position is not None)
        person.step("field")

        layer = person.make_labels("mitosis", step="name")
        person.step("ready")

        low, high = layer.extent.world[:, -2:]
        person.draw([low + (high - low) * [0.5, part] for part in (0.3, 0.5, 0.7)])
        assert layer.unsaved
        person.step("stroke")

        person.save(layer)
        person.sees(lambda: "mitosis: Saved" in str(viewer.status))
        person.step("saved")

    Person(viewer, "first-labels").take(tutorial)
    stored = zarr.open_array(plate / "B/3/0/labels/mitosis/0", mode="r")[...]
    height, width = stored.shape[-2:]
    assert stored[..., height // 2, width // 2].item() == 1
    assert set(np.unique(stored)) == {0, 1}
    assert not (plate / "A/1/0/labels/mitosis").exists()
