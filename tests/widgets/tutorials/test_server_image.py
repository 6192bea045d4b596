"""Tutorial: an image on a server is opened, annotated beside it, and found again."""

from __future__ import annotations

import numpy as np
import pytest

from napari_ngff.viewer.samples import write_image
from napari_ngff.widgets.form_dialog import shown_form
from napari_ngff.widgets.forms import TITLE
from person import Person, needs_pointer
from unreliable import serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = needs_pointer


@pytest.mark.long
def test_an_image_of_a_server_is_annotated(viewer, tmp_path, monkeypatch):
    write_image(tmp_path / "cells.ome.zarr", shape=(1, 512, 512))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    def open_image(person, address):
        person.choose("File", "IO Utilities", "Open URL… (OME-Zarr)")
        form = person.sees(lambda: shown_form(viewer, TITLE))
        person.sees(form.address.native.hasFocus)
        person.types(address)
        return form

    def tutorial(person):
        address = f"{server.address}/cells.ome.zarr"
        open_image(person, address)
        person.step("address")
        person.press("Return")
        person.sees(lambda: len(viewer.layers) > 0)
        person.sees(lambda: np.mean(viewer.screenshot(flash=False)[..., :3]) > 3)
        person.step("opened")
        layer = person.make_labels("mitosis", step="place")
        low, high = layer.extent.world[:, -2:]
        person.draw([low + (high - low) * [0.5, part] for part in (0.3, 0.5, 0.7)])
        person.save(layer)
        person.step("saved")
        person.remove_layers()
        open_image(person, address)
        person.press("Return")
        found = person.layer("mitosis")
        person.sees(lambda: np.asarray(found.data[0]).any())
        person.step("again")

    with serving(tmp_path) as server:
        Person(viewer, "server-image").take(tutorial)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert after == before, "the server's files are as they were"
