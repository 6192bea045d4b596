"""A process that writes a table into all fields of a plate, to be killed meanwhile.

    python table_process.py PLATE ROUND

It says how many fields are done. In round n, each object of each field has the value n.
"""

from __future__ import annotations

import sys

import pandas as pd

from napari_ngff import open_node
from napari_ngff.plate.tables.feature_table import describe_features, write_tables
from napari_ngff.plate.tables.measure_labels import places_of

ROWS = 500


def tables_of(node, number: int):
    """Give rows for each field, which are those of a round."""
    frame = pd.DataFrame({"label": range(1, ROWS + 1), "round": number})
    attributes = describe_features("nuclei", [])
    return {place.path: (frame, attributes) for place in places_of(node)}


def tell(done: int, _: int) -> bool:
    sys.stdout.write(f"{done}\n")
    sys.stdout.flush()
    return True


if __name__ == "__main__":
    plate = open_node(sys.argv[1])
    write_tables(plate, "measured", tables_of(plate, int(sys.argv[2])), tell)
