"""Finds field and acquisition of rows of a table where only the plate knows them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError, may_pass
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.tables.table import (
    ACQUISITION,
    FIELD,
    WELL,
    column_texts,
)
from napari_ngff.store.sources.read_ahead import call_at_once

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.metadata.model import WellField
    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.store.hierarchy.node import Node

SITES = ("metadata_site", "metadata_field", "metadata_fov")
"""Names of columns whose values are fields if the plate has the same ones."""


def read_acquisitions(
    node: Node, wells: Iterable[str | None]
) -> dict[tuple[str | None, str], str]:
    """Read the name of the acquisition of each image, by its well and field.

    "" of an image of none. Wells that are damaged are left out.

    Raises
    ------
    OMEZarrError, OSError
        Where a server does not give a well: its rows would count as of no acquisition.
    """
    plate, screen = node.metadata.plate, PlateContents(node)
    names = plate.acquisition_names if plate is not None else {}
    listed = tuple(dict.fromkeys(wells))

    def list_fields(well: str | None) -> tuple[WellField, ...]:
        try:
            return screen.list_fields(well)
        except (OMEZarrError, OSError) as error:
            if may_pass(error):
                raise
            return ()

    calls = [partial(list_fields, well) for well in listed]
    fields = call_at_once(node.location.source, calls)
    return {
        (well, field.path): names.get(field.acquisition, "")
        for well, found in zip(listed, fields, strict=True)
        for field in found
    }


def locate_rows(node: Node, table: WellTable) -> WellTable:
    """Add the acquisition of each row, and make a column of sites one of fields.

    Wells of the table are paths: see `WellTable.place_on`.

    Sites are fields only if their wells have them all, and no field is missing among
    them: in many files sites are counted from 1, and fields from 0.
    """
    import pandas as pd

    plate, frame = node.metadata.plate, table.frame
    columns = {name.lower(): name for name in reversed(table.columns)}
    site = next((columns[name] for name in SITES if name in columns), None)
    asks_run = ACQUISITION not in columns and plate and plate.acquisition_names
    has_field = FIELD in frame.columns
    if plate is None or not (asks_run if has_field else site is not None):
        return table
    wells = [well for well in frame[WELL].unique() if well in table.names]
    runs = read_acquisitions(node, wells)
    if not has_field and site is not None:
        fields = column_texts(frame[site])
        places = pd.MultiIndex.from_arrays([frame[WELL], fields]).unique()
        stated = {place for place in places if place[0] in table.names}
        names = {field for _, field in runs}
        if not stated <= set(runs) or {field for _, field in stated} != names:
            return table
        frame = frame.drop(columns=site)
        frame.insert(1, FIELD, fields.astype("category"))
    if asks_run:
        places = pd.MultiIndex.from_frame(frame[[WELL, FIELD]])
        frame = frame.assign(**{ACQUISITION: places.map(runs).fillna("")})
    return replace(table, frame=frame)
