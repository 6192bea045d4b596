"""Display settings of an image that cannot be written, in a small file of their own.

It is beside the image, or in the user's data, and has the ``omero`` block as the image
would have it.
"""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError, UnsupportedError, error_text
from napari_ngff.labels.places.sidecar import can_write, folders_of
from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.rendering import parse_omero
from napari_ngff.store.hierarchy.location import DISPLAY_END
from napari_ngff.store.write.replace_file import remove_file
from napari_ngff.store.write.shared_document import SharedDocument

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.plans.layer_plan import LayerPlan

NAME = "display.json"
"""Of the file in the folder beside an image."""


def show_kept(picture: LayerPlan, messages: list[str]) -> LayerPlan:
    """Show an image by the settings that are kept for it, if there are any.

    Parameters
    ----------
    messages
        Gets one for a file that cannot be read.
    """
    # Those of the user first: where only they can be written, they are newer.
    files = [
        folder / NAME for folder in reversed(folders_of(picture.node, DISPLAY_END))
    ]
    for file in filter(os.path.exists, files):
        try:
            block = SharedDocument(file).read()
        except (CorruptDataError, OSError) as error:
            messages.append(error_text(error))
            continue
        if block is not None:
            kept = parse_omero(Cursor(block, "omero", []))
            return replace(picture, omero=kept, keeps_display=True)
    return picture


def keep_settings(image: Node, put: Callable[[JSON], None]) -> str:
    """Keep settings of an image that cannot be written; return the path of the file.

    Parameters
    ----------
    put
        Changes an object that has the ``omero`` block of the image, in place.

    Raises
    ------
    UnsupportedError
        Where there is no place for the file.
    CorruptDataError, OSError
        Where it cannot be changed.
    """
    folders = folders_of(image, DISPLAY_END)
    if not folders:
        msg = f"{image} is in memory."
        raise UnsupportedError(msg, remedy="Save it, and open the file.")
    folder = next((x for x in folders if can_write(x)), folders[-1])

    def change_block(block: Any) -> Any:
        stated = image.attributes.get("ome", image.attributes).get("omero")
        home = {"omero": copy.deepcopy(stated if block is None else block)}
        put(home)
        return home["omero"]

    SharedDocument(folder / NAME).change(change_block)
    forget_settings(image, but=folder)
    return str(folder / NAME)


def forget_settings(image: Node, but: Path | None = None) -> None:
    """Forget the settings that are kept for an image, except those in one folder.

    Raises
    ------
    OSError
        Where a file cannot be removed.
    """
    for folder in folders_of(image, DISPLAY_END):
        if folder != but:
            remove_file(str(folder / NAME))
