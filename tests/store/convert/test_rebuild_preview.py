"""What rebuilding comes to is known before; mistakes have their field."""

from __future__ import annotations

from pathlib import Path

import pytest

import napari_ngff
from napari_ngff.store.convert.rebuild_preview import (
    RebuildWords,
    preview_rebuild,
    run_rebuild,
)
from napari_ngff.testing import write_image, write_plate


@pytest.fixture
def image(tmp_path) -> Path:
    return write_image(tmp_path / "a.ome.zarr", "0.5", shape=(300, 520))


def test_it_makes_what_was_said(image) -> None:
    words = RebuildWords(str(image), levels=4)
    found = preview_rebuild(words)
    assert found.mistakes == {}
    assert found.text.startswith(
        "Makes level 1 (3 x 150 x 260), level 2 (3 x 75 x 130)"
    )
    assert "by mean." in found.text
    assert "The labels nuclei, cells get 4 levels, too." in found.text
    assert len(napari_ngff.open(image).levels) == 3
    steps = []
    made = run_rebuild(words, steps.append)
    assert made[:3] == ("1", "2", "3")
    assert (steps[-1].done, steps[-1].phase) == (steps[-1].total, "rebuild")
    assert len(napari_ngff.open(image).levels) == 4
    assert "The labels" not in preview_rebuild(words).text
    assert preview_rebuild(RebuildWords(str(image), levels=1)).text.startswith(
        "Only the finest level stays."
    )


def test_a_mistake_is_shown_at_its_field(image, tmp_path) -> None:
    plate = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 1), shape=(32, 32))
    packed = napari_ngff.pack(image)
    labels = str(image / "labels" / "nuclei")
    for words, field, text in (
        (RebuildWords(""), "source", "Choose an image"),
        (RebuildWords(str(tmp_path / "none")), "source", "nothing at"),
        (RebuildWords(str(plate)), "source", "is not an image"),
        (RebuildWords(str(packed)), "source", "is not in a folder"),
        (RebuildWords(labels, method="mean"), "method", "A mean of ids"),
    ):
        found = preview_rebuild(words)
        assert list(found.mistakes) == [field]
        assert text in found.mistakes[field]
        assert found.text == ""
    assert preview_rebuild(RebuildWords(labels)).is_label
    assert preview_rebuild(RebuildWords(labels)).place == (str(image), "labels/nuclei")
