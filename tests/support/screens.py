"""Draws small screens: compounds in doses, controls, and rows that dry at the edge."""

from __future__ import annotations

import json

from napari_ngff.metadata.dump import dump_plate, dump_well
from napari_ngff.metadata.model import WellField, WellMetadata
from napari_ngff.viewer.samples import design_plate, open_sink
from napari_ngff.viewer.samples.drawing import Population, draw_cells

DOSES = 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0
"""In columns 2 to 8; column 1 has negative controls, and column 9 positive ones."""
EC50 = {"compound 1": 0.1, "compound 2": 1.0, "compound 3": None}
"""Half of their effect, in two rows each; None for a compound without any."""
GRID = 6, 9
EDGE = 0.92
"""Part of the cells that is left in the first and in the last row."""


def design_screen():
    """Return the compound and the dose of each well, and its cells.

    Controls have no dose.
    """
    conditions, populations = {}, {}
    for row, letter in enumerate("ABCDEF"):
        for column, dose in enumerate(("", *DOSES, ""), 1):
            name = {1: "dmso", 9: "staurosporine"}.get(column, [*EC50][row % 3])
            conditions[f"{letter}{column}"] = name, dose
            killed = 0.9 * (column == 9)
            if dose and EC50[name]:
                killed = 0.85 * dose / (dose + EC50[name])
            density = 0.9 * (1 - killed) * (EDGE if letter in "AF" else 1)
            populations[f"{letter}{column}"] = Population(7.0, density, 0.04, 0.01)
    return conditions, populations


def write_conditions(path, conditions):
    """Write compounds and doses as a person has them: as CSV."""
    rows = (f"{well},{name},{dose}" for well, (name, dose) in conditions.items())
    path.write_text("\n".join(["well,compound,dose", *rows]))


def write_screen(where, populations, grid=GRID, shape=(128, 128)):
    """Write a plate of one field per well, whose labels tell nothing about classes.

    Returns
    -------
    dict
        Nuclei and their kinds of each well: an array, and {label: kind}.
    """
    plate, truth = design_plate(grid, 1, populations), {}
    with open_sink(where, "0.5", {}) as sink:
        sink.create_group("", dump_plate(plate, "0.5"))
        for row in sorted({spot.row for spot in plate.wells}):
            sink.create_group(plate.rows[row], {})
        well = dump_well(WellMetadata((WellField("0", 0),)), "0.5")
        for number, spot in enumerate(plate.wells):
            name = spot.path.replace("/", "")
            drawn = draw_cells(shape, populations[name], number).number_cells()
            sink.create_group(spot.path, well)
            place = {"y": (0.65, 0.0), "x": (0.65, 0.0)}
            sink.write_picture(f"{spot.path}/0", drawn, place, f"{name} field 0")
            truth[spot.path] = drawn.nuclei, drawn.kinds
    for path in truth:
        for labels in ("nuclei", "cells"):
            _forget_classes(where / path / "0/labels" / labels / "zarr.json")
    return truth


def _forget_classes(path):
    """Take colours and properties off labels."""
    document = json.loads(path.read_text())
    document["attributes"]["ome"]["image-label"] = {"version": "0.5"}
    path.write_text(json.dumps(document))
