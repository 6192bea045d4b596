"""The form for new labels: of which image, how fine, under which name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from magicgui.types import FileDialogMode
from magicgui.widgets import (
    ComboBox,
    Container,
    FileEdit,
    Label,
    LineEdit,
    PushButton,
)
from napari.layers import Image

from napari_ngff.errors import UnsupportedError
from napari_ngff.viewer.painting.new_labels import (
    TARGET,
    free_name,
    is_shown,
    new_labels,
    taken_names,
)
from napari_ngff.viewer.picture import KEY
from napari_ngff.viewer.saving.sidecars import home_choices
from napari_ngff.widgets.dialogs import ask_name
from napari_ngff.widgets.look import Look, wrap

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.viewer import Viewer

__all__ = ["NewLabelsForm", "show_new_labels"]

TITLE = "New OME-Zarr labels"
TYPES = ("uint8", "uint16", "uint32")


class NewLabelsForm(Container):  # type: ignore[type-arg]
    """Ask for what new labels need, and add them."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self.image = ComboBox(label="Image", choices=self._images)
        self.called = LineEdit(label="Name")
        self.level = ComboBox(label="Finest level", choices=self._levels)
        self.level.tooltip = "A coarser level is quicker to paint and to save."
        self.dtype = ComboBox(label="Type", choices=TYPES, value="uint16")
        self.dtype.tooltip = "It widens by itself where a label does not fit."
        self.where = ComboBox(label="Saved", choices=self._homes)
        self.where.tooltip = "Labels in a file of their own open with the image, too."
        self.folder = FileEdit(
            label="Folder", mode=FileDialogMode.EXISTING_DIRECTORY, nullable=True
        )
        self.button = PushButton(text="Create")
        self.status = Label(value="")
        wrap(self.status)
        rows = [
            self.image,
            self.called,
            self.level,
            self.dtype,
            self.where,
            self.folder,
            self.button,
            self.status,
        ]
        super().__init__(widgets=rows)
        Look(self.native, viewer)
        self.where.changed.connect(self._on_where)
        self.image.changed.connect(self._on_image)
        self.button.changed.connect(self.create)
        layers = viewer.layers.events
        for event in (layers.inserted, layers.removed):
            event.connect(self._on_layers)
        self.native.destroyed.connect(self._forget)
        active = viewer.layers.selection.active
        if isinstance(active, Image):
            self.image.value = active
        self._on_image()

    def _forget(self) -> None:
        layers = self._viewer.layers.events
        for event in (layers.inserted, layers.removed):
            event.disconnect(self._on_layers)

    def _images(self, _: Any = None) -> list[Image]:
        return [layer for layer in self._viewer.layers if isinstance(layer, Image)]

    def _levels(self, _: Any = None) -> list[tuple[str, int]]:
        image = self.image.value
        if image is None:
            return []
        choices = []
        for number, shape in enumerate(image.level_shapes):
            note = " (on screen)" if number == image.data_level else ""
            sizes = " x ".join(str(size) for size in shape[: image.ndim])
            choices.append((f"{number}: {sizes}{note}", number))
        return choices

    def _homes(self, _: Any = None) -> list[tuple[str, bool | str]]:
        image = self.image.value
        return [] if image is None else home_choices(image)

    def _on_where(self, _: Any = None) -> None:
        self.folder.visible = self.where.value == ""

    def _on_layers(self, _: Any = None) -> None:
        self.image.reset_choices()

    def _on_image(self, _: Any = None) -> None:
        self.level.reset_choices()
        self.where.reset_choices()
        self.where.visible = bool(self.where.choices)
        self._on_where()
        image = self.image.value
        self.button.enabled = image is not None
        self.status.value = "" if image is not None else "Open an image first."
        if image is not None:
            self.level.value = 0
            self.called.value = free_name(image, [x.name for x in self._viewer.layers])

    def create(self) -> None:
        """Add the labels, or say why not."""
        image = self.image.value
        if image is None:
            return
        if self.where.value == "" and self.folder.value is None:
            self.status.value = "Choose the folder."
            return
        name = self._chosen(image)
        if not name:
            return
        try:
            layer = new_labels(
                image,
                name,
                overwrite=name in taken_names(image),
                level=self.level.value or 0,
                dtype=self.dtype.value,
                sidecar=self._sidecar(),
            )
        except (UnsupportedError, ValueError) as error:
            self.status.value = str(error)
            return
        self._viewer.add_layer(layer)
        self._viewer.layers.selection.active = layer
        layer.mode = "paint"
        self._on_image()
        text = f"{layer.name} is there to be painted; it is not saved yet."
        home = layer.metadata[TARGET].home
        place = home.source.name if home is not None and home.image else ""
        if place:
            text += f"\nIt will be in {os.path.basename(place)}."
        self.status.value, self.status.tooltip = text, place

    def _sidecar(self) -> Any:
        """Say where the labels go, as `new_labels` wants it."""
        where = self.where.value
        return self.folder.value if where == "" else where

    def _chosen(self, image: Image) -> str:
        """Ask for another name, or whether to overwrite, where the name is taken."""
        name: str = self.called.value
        if name not in taken_names(image):
            return name
        place = image.metadata[KEY].node.location
        shown = is_shown(
            self._viewer.layers, (place.source.name, place.key(f"labels/{name}"))
        )
        others = [layer.name for layer in self._viewer.layers]
        free = free_name(image, others, name)
        return ask_name(self.native, name, free, shown=shown)


def show_new_labels(viewer: Viewer) -> NewLabelsForm:
    """Show the form in the viewer's window, a new one for the active image."""
    form = viewer.window.dock_widgets.get(TITLE)
    if not isinstance(form, NewLabelsForm):
        form = NewLabelsForm(viewer)
        viewer.window.add_dock_widget(form, name=TITLE, area="right")
    active = viewer.layers.selection.active
    if isinstance(active, Image):
        form.image.value = active
    return form
