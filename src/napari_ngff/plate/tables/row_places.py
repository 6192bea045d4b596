"""Finds field and acquisition of rows of a table where only the plate knows them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError, may_pass
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.plate_layout import map_plate
from napari_ngff.plate.tables.table import ACQUISITION, FIELD, WELL, column_texts
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

    Sites are fields only if their wells have them all, and no field is missing among
    them: in many files sites are counted from 1, and fields from 0.
    """
    plate, frame = node.metadata.plate, table.frame
    columns = {name.lower(): name for name in reversed(table.columns)}
    site = next((columns[name] for name in SITES if name in columns), None)
    asks_run = ACQUISITION not in columns and plate and plate.acquisition_names
    has_field = FIELD in frame.columns
    if plate is None or not (asks_run if has_field else site is not None):
        return table
    wells = table.wells_of(well.path for well in map_plate(plate).wells)
    runs = read_acquisitions(node, wells.values())
    if not has_field and site is not None:
        sites = column_texts(frame[site])
        keys = frame[WELL].astype(str)
        rows = set(zip(keys, sites, strict=True))
        stated = {(wells[key], text) for key, text in rows if key in wells}
        names = {field for _, field in runs}
        if not stated <= set(runs) or {field for _, field in stated} != names:
            return table
        frame = frame.drop(columns=site)
        frame.insert(1, FIELD, sites.astype("category"))
    if asks_run:
        by_text = {
            f"{key}\n{field}": name
            for key, path in wells.items()
            for (well, field), name in runs.items()
            if well == path
        }
        pairs = frame[WELL].astype(str) + "\n" + frame[FIELD].astype(str)
        frame = frame.assign(**{ACQUISITION: pairs.map(by_text).fillna("")})
    return replace(table, frame=frame)
