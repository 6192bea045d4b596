"""Layers of the source of a conversion."""

from __future__ import annotations

from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.viewer.converting.conversion_task import hide_source
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.session import session_of
from plates import write_plate


def test_labels_of_a_source_are_hidden_where_a_browser_shows_the_copy(tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 1), fields=1, shape=(1, 8, 8))
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1")
    image = viewer.layers[0]
    labels = viewer.add_layer(new_labels(image, "mine"))
    labels.paint((2, 2), 1)
    assert labels.saver.save_now()
    # The reader gives saved labels an origin in the file, below the source.
    hide_source(viewer, str(root))
    assert not labels.visible
    assert image.visible, "the browser goes on with it"
