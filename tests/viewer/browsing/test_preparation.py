"""Fields that are wanted become layer data, without a viewer."""

from __future__ import annotations

import pytest

from napari_ngff import open_node
from napari_ngff.errors import NodeNotFoundError
from napari_ngff.plate.plate_layout import map_plate
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.browsing.preparation import FieldResolver, SeenLayers
from napari_ngff.viewer.browsing.shown_fields import (
    FieldEntry,
    FieldNotices,
    FieldStep,
    ShownFields,
    WellStep,
)
from plates import write_plate


def seen(position=None):
    return SeenLayers({}, frozenset(), {}, None, position)


def entry(well, field="", acquisitions=()):
    position = Position(well, field)
    return ShownFields((), position, acquisitions).add_move(FieldEntry())


@pytest.fixture(scope="module")
def resolve(tmp_path_factory):
    root = write_plate(
        tmp_path_factory.mktemp("preparation") / "p",
        grid=(1, 3),
        fields=2,
        labelled=lambda well: ("cells",),
    )
    (root / "A/3/0/zarr.json").write_text("{broken")
    node = open_node(str(root))
    plate = map_plate(node.metadata.plate)
    resolver = FieldResolver(node, FieldNotices(lambda at: at.field), lambda: plate)
    return lambda wanted, on_screen=None: resolver.resolve_fields(
        wanted, seen(on_screen), lambda: True
    )


def test_moves_lead_from_field_to_field(resolve):
    wanted = entry("A/1").add_move(WellStep(0, 1)).add_move(FieldStep(1))
    prepared = resolve(wanted)
    assert prepared.fields.position == Position("A/2", "1", 0)
    assert prepared.fields.wells == ("A/2",)
    assert prepared.fields.moves == ()
    assert {slot[1] for slot in prepared.layers} == {"image", "labels"}


def test_the_first_field_that_can_be_read_is_entered(resolve):
    assert resolve(entry("A/3")).fields.position == Position("A/3", "1", 0)


def test_a_named_field_that_cannot_be_read_is_known_with_its_reason(resolve):
    prepared = resolve(entry("A/3", "0"))
    assert prepared.fields.position == Position("A/3", "0", 0)
    assert "A/3/0" in prepared.reason
    assert prepared.layers == {}


def test_a_step_to_the_field_on_screen_prepares_nothing(resolve):
    last = Position("A/3", "1", 0)
    wanted = ShownFields(("A/3",), last).add_move(WellStep(0, 1))
    assert resolve(wanted, last).layers == {}
    assert resolve(wanted, last).reason == ""
    assert resolve(wanted).layers != {}


def test_a_field_that_is_not_there_is_an_error(resolve):
    with pytest.raises(NodeNotFoundError):
        resolve(entry("A/1", "7"))


def test_the_acquisition_of_a_named_field_is_chosen(resolve):
    assert resolve(entry("A/1", "1", (5,))).fields.acquisitions == (0,)
    assert resolve(entry("A/1", "", ())).fields.acquisitions == ()


def test_an_overview_joins_wells(resolve):
    prepared = resolve(ShownFields(("A/1", "A/2"), labels="cells"))
    assert prepared.fields.position is None
    assert prepared.fields.wells == ("A/1", "A/2")
    assert len(prepared.tiles) == 2
    kinds = {(kind, key) for _, kind, key in prepared.layers}
    assert ("labels", "cells") in kinds
