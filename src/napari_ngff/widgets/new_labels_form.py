"""The form for new labels: image and name, and more options folded away."""

from __future__ import annotations

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
from superqt import QCollapsible

from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.model import LabelKind
from napari_ngff.viewer.annotations.sidecars import home_choices
from napari_ngff.viewer.browsing.images_to_label import (
    field_choices,
    image_choices,
    open_field,
    overview_browser,
    position_in_view,
    same_image,
    well_choices,
)
from napari_ngff.viewer.layers.label_owners import SAVE_AS, has_no_file
from napari_ngff.viewer.painting.new_labels import (
    free_name,
    is_shown,
    list_unsaved_names,
    new_labels,
    storage_problem,
    taken_names,
)
from napari_ngff.viewer.plans.layer_plan import KEY, origin_of
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.connections import connect_while_alive
from napari_ngff.widgets.dialogs import ask_name
from napari_ngff.widgets.form_dialog import close_form, is_form_open, show_form
from napari_ngff.widgets.theme_look import ThemeFollower, wrap_label

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image
    from napari.viewer import Viewer

    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.positions import Position

TITLE = "New labels"
TYPES = ("uint8", "uint16", "uint32")
ELSEWHERE = "The image cannot be written. The labels are saved {}."
READY = "Ready to paint. Nothing is written until you save."
READY_BESIDE = "Ready to paint. Labels of this image are saved {}."
NO_FILE = f"This image is not an OME-Zarr. Save it with its labels: {SAVE_AS}."


class NewLabelsForm(Container):  # type: ignore[type-arg]
    """Asks for image, name and options of new labels, and adds them as a layer.

    On an overview it asks for a well and a field, and opens that field first.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self._in_view: Position | None = None
        self._asked: str | None = None
        self.image = ComboBox(label="Image", choices=self._list_images)
        self.well = ComboBox(label="Well", choices=self._list_wells)
        self.field = ComboBox(label="Field", choices=[])
        self.called = LineEdit(label="Name")
        self.level = ComboBox(
            label="Resolution",
            choices=self._list_levels,
            tooltip="A coarser level is quicker to paint and to save.",
        )
        self.dtype = ComboBox(
            label="Type",
            choices=TYPES,
            value="uint16",
            tooltip="A wider type is used where a label does not fit.",
        )
        self.where = ComboBox(
            label="Save to",
            choices=self._list_homes,
            tooltip="Labels in a separate file open with the image, too.",
        )
        self.folder = FileEdit(
            label="Folder", mode=FileDialogMode.EXISTING_DIRECTORY, nullable=True
        )
        self.more = QCollapsible("More options")
        self.more.setDuration(0)
        # What is likelier is first, and what Enter does.
        self.button = PushButton(
            text="Create classes",
            tooltip="Each label is a class, such as nucleus or debris.",
        )
        self.objects = PushButton(
            text="Create objects",
            tooltip="Each label is one object, which may have a class.",
        )
        self.buttons = Container(
            widgets=[self.button, self.objects], layout="horizontal", labels=False
        )
        self._kind = LabelKind.CLASSES
        self.status = Label(value="")
        wrap_label(self.status)
        rows = [self.image, self.well, self.field, self.called]
        super().__init__(widgets=[*rows, self.buttons, self.status])
        self._options = Container(
            widgets=[self.level, self.dtype, self.where, self.folder]
        )
        self.more.addWidget(self._options.native)
        # Else Tab leads to rows that are folded away.
        self.more.content().hide()
        self.more.toggled.connect(self.more.content().setVisible)
        self.native.layout().insertWidget(len(rows), self.more)
        ThemeFollower(self.native, viewer)
        self._connect_signals()
        self.choose_image(viewer.layers.selection.active)
        self._on_image()

    def _connect_signals(self) -> None:
        self.where.changed.connect(self._on_options)
        self.image.changed.connect(self._on_image)
        self.well.changed.connect(self._on_well)
        self.button.changed.connect(self.create_labels)
        self.objects.changed.connect(self.create_objects)
        layers = self._viewer.layers.events
        for event in (layers.inserted, layers.removed):
            connect_while_alive(event, self.native, self._on_layers)
        browser = session_of(self._viewer).browser
        if browser is not None:
            moved = browser.position_changed
            connect_while_alive(moved, self.native, self._on_position)

    def choose_image(self, layer: Any) -> None:
        """Choose the image of a layer, if it has one."""
        image = None if layer is None else same_image(layer, self._list_images())
        if image is not None:
            self.image.value = image

    def _list_images(self, _: Any = None) -> list[tuple[str, Image]]:
        return image_choices(self._viewer.layers, session_of(self._viewer).browser)

    def _list_levels(self, _: Any = None) -> list[tuple[str, int]]:
        image = self.image.value
        if image is None:
            return []
        choices = []
        for number, shape in enumerate(image.level_shapes):
            note = " (on screen)" if number == image.data_level else ""
            sizes = " x ".join(str(size) for size in shape[: image.ndim])
            choices.append((f"{number}: {sizes}{note}", number))
        return choices

    def _list_homes(self, _: Any = None) -> list[tuple[str, bool | str]]:
        image = self.image.value
        return [] if image is None else home_choices(image)

    def _find_browser(self) -> Browser | None:
        """Find who opens a field of the chosen image; None for an image."""
        return overview_browser(session_of(self._viewer).browser, self.image.value)

    def _list_wells(self, _: Any = None) -> list[tuple[str, str | None]]:
        browser = self._find_browser()
        return [] if browser is None else well_choices(browser)

    def _on_options(self, _: Any = None) -> None:
        self.where.visible = bool(self.where.choices)
        self.folder.visible = self.where.value == ""
        if self.more.isExpanded():
            self.more.expand(animate=False)  # as high as its rows are now
        self._describe_home()

    def _describe_home(self) -> None:
        """Show where labels go that cannot be in their image."""
        homes = self._list_homes()
        elsewhere = bool(homes) and homes[0][1] is not False
        note = ""
        if elsewhere and self.where.value is True:
            note = ELSEWHERE.format(homes[0][0])
        image = self.image.value
        if image is not None and origin_of(image) is None:
            note = NO_FILE
        if self.button.enabled:
            self.status.value = note

    def _on_layers(self, _: Any = None) -> None:
        self.image.reset_choices()

    def _on_position(self, _: Any = None) -> None:
        """Rename the image: another field is shown by the same layers."""
        image = self.image.value
        # Its old name is removed first, which chooses another image for a moment.
        with self.image.changed.blocked():
            self.image.reset_choices()
            if image in self.image.choices:
                self.image.value = image
        if self.image.value is not image:
            self._on_image()

    def _on_image(self, _: Any = None) -> None:
        image, browser = self.image.value, self._find_browser()
        self.level.reset_choices()
        self.where.reset_choices()
        self.well.visible = browser is not None and bool(browser.map.wells)
        self.field.visible = False
        # These are options of a field, which is chosen only below.
        self.more.setVisible(browser is None)
        self._on_options()
        problem = "Open an image first."
        if browser is not None:
            problem = ""
            self._show_overview(browser)
        elif image is not None:
            problem = storage_problem(image)
            self.level.value = 0
            self.called.value = free_name(image, [x.name for x in self._viewer.layers])
        self.buttons.enabled = not problem
        self.status.value = problem
        self._describe_home()

    def _show_overview(self, browser: Browser) -> None:
        self._in_view = position_in_view(self._viewer, browser)
        self._asked = None
        self.called.value = self.called.value or "labels"
        self.well.reset_choices()
        if self._in_view.well in self.well.choices:
            self.well.value = self._in_view.well
        self._on_well()

    def _on_well(self, _: Any = None) -> None:
        browser, well = self._find_browser(), self.well.value
        if browser is None or (self._asked is not None and self._asked == well):
            return
        self._asked = well

        def show_if_current(fields: list[tuple[str, Position]] | str) -> None:
            if is_form_open(self) and self.well.value == well:
                self._show_fields(fields)

        field_choices(browser, well, show_if_current)

    def _show_fields(self, fields: list[tuple[str, Position]] | str) -> None:
        problem = fields if isinstance(fields, str) else ""
        self.field.choices = [] if isinstance(fields, str) else fields
        self.field.visible = len(self.field.choices) > 1
        alike = [p for p in self.field.choices if p == self._in_view]
        if alike:
            self.field.value = alike[0]
        self.buttons.enabled = not problem
        self.status.value = problem

    def create_labels(self) -> None:
        """Add labels of classes, or show why it fails."""
        self._create(LabelKind.CLASSES)

    def create_objects(self) -> None:
        """Add labels of objects, or show why it fails."""
        self._create(LabelKind.OBJECTS)

    def _create(self, kind: LabelKind) -> None:
        """Add labels, on an overview in the chosen field, or show why it fails."""
        self._kind = kind
        browser, image = self._find_browser(), self.image.value
        if browser is not None and self.field.value is not None:
            # Kept: opening the field lets `_on_image` propose another name.
            name, layers = self.called.value, self._viewer.layers

            def continue_in_field(image: Image | None) -> None:
                if is_form_open(self):
                    self._create_in_field(image, name)

            self.buttons.enabled = False
            self.status.value = "Opening the field…"
            open_field(browser, self.field.value, lambda: layers, continue_in_field)
        elif image is not None and browser is None:
            self._create_for_image(image)

    def _create_in_field(self, image: Image | None, name: str) -> None:
        if image is None:
            self.buttons.enabled = True
            self.status.value = "The field was not opened, and no labels were made."
            return
        # The same layers show the field now.
        self.image.reset_choices()
        self.choose_image(image)
        self._on_image()
        self.called.value = name
        self._create_for_image(image)

    def _create_for_image(self, image: Image) -> None:
        """Add labels for an image that is on screen, or show why that fails."""
        if self.where.value == "" and self.folder.value is None:
            self.status.value = "Choose the folder."
            return
        # "" is the choice of another folder, which the row below names.
        sidecar: Any = self.folder.value if self.where.value == "" else self.where.value
        name = self._free_or_chosen(image)
        if not name:
            return
        try:
            layer = new_labels(
                image,
                name,
                overwrite=name in taken_names(image),
                level=self.level.value or 0,
                dtype=self.dtype.value,
                sidecar=sidecar,
                kind=self._kind,
            )
        except (UnsupportedError, ValueError) as error:
            self.status.value = str(error)
            return
        self._viewer.add_layer(layer)
        self._viewer.layers.selection.active = layer
        layer.mode = "paint"
        is_inside = not self.where.value
        place = self.folder.value or self.where.current_choice
        ready = READY if is_inside else READY_BESIDE.format(place)
        self._viewer.status = NO_FILE if has_no_file(layer) else ready
        close_form(self)

    def _free_or_chosen(self, image: Image) -> str:
        """Ask for another name, or whether to overwrite, where the name is taken."""
        name: str = self.called.value
        # Two layers of one name would be saved as one label image.
        is_on_screen = name in list_unsaved_names(image, self._viewer.layers)
        if name not in taken_names(image) and not is_on_screen:
            return name
        location = image.metadata[KEY].node.location
        is_on_screen |= is_shown(
            self._viewer.layers,
            (location.source.name, location.object_key(f"labels/{name}")),
        )
        others = [layer.name for layer in self._viewer.layers]
        free = free_name(image, others, name)
        return ask_name(self.native, name, free, shown=is_on_screen)


def show_new_labels(viewer: Viewer) -> NewLabelsForm:
    """Show the form in a dialog, for the image of the active layer."""
    # The name has the keyboard: the image is usually the right one already.
    form = show_form(
        viewer, TITLE, NewLabelsForm, lambda x: (x.called.native, x.button.native)
    )
    form.choose_image(viewer.layers.selection.active)
    return form
