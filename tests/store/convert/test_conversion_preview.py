"""What a conversion comes to is known before it starts; mistakes have their field."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import napari_ngff
from napari_ngff.store.convert import conversion_preview
from napari_ngff.store.convert.conversion_preview import (
    ConversionCall,
    ConversionWay,
    discard_unfinished,
    preview_conversion,
    run_conversion,
)
from napari_ngff.store.convert.convert_words import (
    ConvertWords,
    propose_target,
    propose_version,
)
from napari_ngff.store.convert.source_facts import read_facts
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.write.partial_folder import Unfinished
from napari_ngff.testing import write_image, write_plate


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_image(folder / "old.ome.zarr", "0.4", shape=(2, 150, 260))
    write_image(folder / "cells.ome.zarr", "0.5", shape=(150, 260))
    write_plate(folder / "plate.ome.zarr", "0.5", grid=(1, 3), shape=(64, 64))
    napari_ngff.pack(folder / "cells.ome.zarr", folder / "packed.ozx")
    return folder


def words_for(source: Path, target: object, **texts: str) -> ConvertWords:
    return ConvertWords(source=str(source), target=str(target), **texts)


def preview_of(words: ConvertWords):
    return preview_conversion(words, read_facts(words.source))


def run_words(words: ConvertWords, follow=lambda step: None, *, resume: bool = False):
    call = ConversionCall.of_words(words, read_facts(words.source), resume=resume)
    return run_conversion(call, follow)


def test_facts_are_what_can_be_chosen(folder) -> None:
    facts = read_facts(str(folder / "plate.ome.zarr"))
    assert facts.wells[:2] == ("A1", "A2")
    assert facts.axes == (("c", 3), ("y", 64), ("x", 64))
    assert facts.channels == ("DNA", "Actin", "Mitochondria")
    assert (facts.levels, facts.chunks) == (3, "y=64,x=64")
    assert facts.text.startswith("Plate, OME-Zarr 0.5, 3 wells, images of c 3")
    labels = read_facts(str(folder / "cells.ome.zarr/labels/nuclei"))
    assert labels.is_label
    assert labels.channels == ()
    assert read_facts(str(folder / "old.ome.zarr")).version == "0.4"


def test_proposals_are_free_and_newer(folder, tmp_path) -> None:
    facts = read_facts(str(folder / "old.ome.zarr"))
    assert propose_version(facts) == "0.5"
    assert propose_target(facts) == str(folder / "old-converted.ome.zarr")
    assert propose_target(read_facts(str(folder / "packed.ozx"))) == str(
        folder / "packed.ome.zarr"
    )
    field = read_facts(str(folder / "plate.ome.zarr/A/1/0"))
    assert propose_target(field) == str(folder / "plate-A-1-0.ome.zarr")
    (tmp_path / "a-converted.ome.zarr").mkdir()
    newest = write_image(tmp_path / "a.ome.zarr", "0.6", shape=(32, 32))
    facts = read_facts(str(newest))
    assert propose_version(facts) == "0.6"
    assert propose_target(facts) == str(tmp_path / "a-converted-2.ome.zarr")


def test_nothing_is_proposed_among_the_sidecars(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    place = data_folder() / "sidecars" / "cells.labels.ome.zarr"
    place.parent.mkdir(parents=True)
    write_image(place, shape=(32, 32))
    found = propose_target(read_facts(str(place)))
    assert found == str(tmp_path / "cells.labels.ome.zarr")


@pytest.mark.parametrize(
    ("field", "texts", "words"),
    [
        ("crop", {"crop": "x=5:2"}, "is empty"),
        ("crop", {"crop": "q=1"}, "no axis 'q'"),
        ("crop", {"crop": "x=9000:"}, "nothing is left"),
        ("chunks", {"chunks": "64"}, "not of the form"),
        ("shards", {"shards": "y=7"}, "not whole chunks"),
        ("shards", {"shards": "auto", "to_version": "0.4"}, "has no shards"),
        ("codec", {"codec": "jpeg"}, "Unknown codec"),
        ("levels", {"levels": "7"}, "none of these"),
        ("channels", {"channels": "GFP"}, "no channel 'GFP'"),
        ("target", {"target": ""}, "Choose a folder"),
        ("target", {"target": "https://host/a.zarr"}, "not a folder or file"),
        ("to_version", {"target": "a.ozx", "to_version": "0.4"}, "needs OME-Zarr 0.5"),
    ],
)
def test_a_mistake_is_shown_at_its_field(
    folder, tmp_path, monkeypatch, field, texts, words
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = words_for(folder / "old.ome.zarr", "made.ome.zarr")
    found = preview_of(replace(asked, **texts))
    assert list(found.mistakes) == [field]
    assert words in found.mistakes[field]
    assert found.estimate is None
    assert list(tmp_path.iterdir()) == []


def test_wells_that_are_not_there(folder, tmp_path) -> None:
    asked = words_for(folder / "plate.ome.zarr", tmp_path / "a", wells="Z*")
    assert list(preview_of(asked).mistakes) == ["wells"]


def test_a_target_that_may_not_be_written(folder, tmp_path) -> None:
    source = folder / "cells.ome.zarr"
    (tmp_path / "mine.ome.zarr").write_text("mine")
    for target, text in (
        (tmp_path / "mine.ome.zarr", "already exists"),
        (tmp_path / "mine", "already exists"),  # gets the ending
        (folder / "plate.ome.zarr" / "new", "is a zarr"),
        (source / "new", "is a zarr"),
        (folder / "packed.ozx" / "new", "No permission"),
    ):
        found = preview_of(words_for(source, target))
        assert list(found.mistakes) == ["target"]
        assert text in found.mistakes["target"]


@pytest.mark.parametrize(
    ("source", "target", "texts", "way"),
    [
        ("cells.ome.zarr", "a.ozx", {}, ConversionWay.PACK),
        ("cells.ome.zarr", "a.ozx", {"codec": "none"}, ConversionWay.CONVERT),
        ("cells.ome.zarr", "a.ozx", {"to_version": "0.6"}, ConversionWay.CONVERT),
        ("cells.ome.zarr", "a.ome.zarr", {}, ConversionWay.CONVERT),
        ("cells.ome.zarr/labels/nuclei", "a.ozx", {}, ConversionWay.CONVERT),
        ("old.ome.zarr", "a.ozx", {}, ConversionWay.CONVERT),
        ("packed.ozx", "a.ome.zarr", {}, ConversionWay.UNPACK),
        ("packed.ozx", "a.ome.zarr", {"levels": "0"}, ConversionWay.CONVERT),
        ("packed.ozx", "a.ozx", {}, ConversionWay.CONVERT),
    ],
)
def test_the_way_follows_from_the_target(
    folder, tmp_path, source, target, texts, way
) -> None:
    words = words_for(folder / source, tmp_path / target, **texts)
    found = preview_of(words)
    assert found.mistakes == {}
    assert found.way is way
    phases = set()
    result = run_words(words, lambda step: phases.add(step.phase))
    assert result.target == tmp_path / target
    assert [path.name for path in tmp_path.iterdir()] == [target]
    before = napari_ngff.open(folder / source)
    after = napari_ngff.open(result.target)
    assert (after.levels[0] == before.levels[0]).all().compute()
    last = "compare" if way is ConversionWay.CONVERT else way.name.lower()
    assert last in phases


class Stop(Exception):
    """Of a person who cancels."""


def test_what_was_stopped_is_found_and_continued(folder, tmp_path, monkeypatch) -> None:
    target = tmp_path / "made.ome.zarr"
    words = words_for(folder / "old.ome.zarr", target, chunks="y=32,x=32")

    def stop(step) -> None:
        if step.phase == "convert" and step.done:
            raise Stop

    with pytest.raises(Stop):
        run_words(words, stop)
    assert not target.exists()
    with pytest.raises(napari_ngff.OMEZarrError):
        napari_ngff.open(tmp_path / ".made.ome.zarr.partial" / "new")
    assert preview_of(words).unfinished is Unfinished.SAME
    # With other settings it cannot be continued.
    other = replace(words, chunks="y=16,x=16")
    assert preview_of(other).unfinished is Unfinished.OTHER
    assert preview_of(replace(words, target=str(tmp_path / "b"))).unfinished is (
        Unfinished.NOTHING
    )

    def look_meanwhile(step) -> None:
        if step.phase == "convert":
            found = preview_of(words)
            assert "Another process" in found.mistakes["target"]

    run_words(words, look_meanwhile, resume=True)
    assert napari_ngff.check(target) == napari_ngff.check(folder / "old.ome.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["made.ome.zarr"]


def test_what_was_stopped_can_be_deleted(folder, tmp_path) -> None:
    words = words_for(folder / "old.ome.zarr", tmp_path / "made", chunks="y=32,x=32")
    for phase in ("plan", "convert", "compare"):

        def stop_in(step, phase=phase) -> None:
            if step.phase == phase and step.done:
                raise Stop

        with pytest.raises(Stop):
            run_words(words, stop_in)
        # While it only reads metadata, nothing is kept.
        left = [] if phase == "plan" else [".made.ome.zarr.partial"]
        assert os.listdir(tmp_path) == left
        discard_unfinished(words)
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a.ozx", "a.ome.zarr"])
def test_packing_that_is_stopped_leaves_nothing(folder, tmp_path, name) -> None:
    source = "cells.ome.zarr" if name == "a.ozx" else "packed.ozx"

    def stop(step) -> None:
        if step.done:
            raise Stop

    with pytest.raises(Stop):
        run_words(words_for(folder / source, tmp_path / name), stop)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_seen_before(folder, tmp_path, monkeypatch) -> None:
    words = words_for(folder / "old.ome.zarr", tmp_path / "made.ozx")
    need = preview_of(words).estimate.read
    for free, tight in ((2 * need + 9, False), (2 * need - 9, True)):
        monkeypatch.setattr(conversion_preview, "free_bytes", lambda _, n=free: n)
        found = preview_of(words)
        assert found.is_tight is tight
        assert ("may not be enough" in found.text) is tight
