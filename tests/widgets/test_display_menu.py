"""The entry of the menu that saves display settings: its dot, and all fields."""

from __future__ import annotations

import json

import pytest

from mouse import until
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets import display_menu
from napari_ngff.widgets.display_menu import ALL_FIELDS, FIELD, FORGET, SAVE, TITLE
from plates import write_plate

FAILING, OTHER = "A/2/1", "B/1/0"


@pytest.fixture
def root(tmp_path):
    """A plate with a field that is broken, and one of other channels."""
    root = write_plate(tmp_path / "p", grid=(2, 2), fields=2, shape=(2, 16, 16))
    add_omero(root / OTHER, {"channels": [{"label": "x"}]})
    add_omero(root / FAILING, {"channels": "red"})
    return root


def add_omero(folder, omero):
    document = json.loads((folder / "zarr.json").read_text())
    document["attributes"]["ome"]["omero"] = omero
    (folder / "zarr.json").write_text(json.dumps(document))


def omero_of(folder):
    document = json.loads((folder / "zarr.json").read_text())
    return document["attributes"]["ome"].get("omero")


def entries(viewer):
    """The texts of the two entries as they are when the menu opens."""
    menu = viewer.window.layers_menu
    menu.aboutToShow.emit()
    (visualize,) = [x.menu() for x in menu.actions() if x.text() == "Visualize"]
    found = {action.objectName(): action for action in visualize.actions()}
    shown = [found[name] for name in (SAVE, FORGET) if found[name].isVisible()]
    return found[SAVE], [x.text().replace(" (OME-Zarr)", "") for x in shown]


def test_all_fields_with_these_channels_get_what_one_shows(viewer, root, monkeypatch):
    asked, told = [], []
    answers = iter([FIELD, ALL_FIELDS, "Cancel"])
    monkeypatch.setattr(
        display_menu, "ask_question", lambda *_: asked.append(1) or next(answers)
    )
    monkeypatch.setattr(
        "napari_ngff.widgets.qt_window.show_notice", lambda text, **_: told.append(text)
    )
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    until(lambda: browser.position is not None)
    first, second = browser.layers.image_layers()
    first.contrast_limits, second.colormap = (3, 77), "red"
    save, texts = entries(viewer)
    assert texts == [f"{TITLE} •"]
    save.trigger()
    until(lambda: told)
    assert entries(viewer)[1] == [TITLE]
    expected = omero_of(root / "A/1/0")
    assert expected["channels"][0]["window"]["end"] == 77
    assert omero_of(root / "A/1/1") is None, "only the field"
    first.contrast_limits = (3, 99)
    save.trigger()
    until(lambda: len(told) == 3)
    expected["channels"][0]["window"]["end"] = 99
    fields = [f"{well}/{n}" for well in ("A/1", "A/2", "B/1", "B/2") for n in (0, 1)]
    for field in fields:
        if field not in (FAILING, OTHER):
            found = omero_of(root / field)
            assert found["channels"][0]["window"]["end"] == 99
            assert found["channels"][1]["color"] == "FF0000"
    assert omero_of(root / OTHER) == {"channels": [{"label": "x"}]}
    assert omero_of(root / FAILING) == {"channels": "red"}
    text = "\n".join(told)
    assert "In 6 fields." in text
    assert "with other channels: 1 field." in text
    assert "A2 - field 1" in text
    # The next field shows what it has in its file: nothing to save.
    browser.show_field("B/2", "1")
    until(lambda: browser.position.well == "B/2")
    assert entries(viewer)[1] == [TITLE]
    first.visible = False
    save.trigger()
    assert len(asked) == 3
    assert omero_of(root / "B/2/1")["channels"][0]["window"]["end"] == 99
