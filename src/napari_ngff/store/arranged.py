"""An array with its axes in another order, some dropped, some new."""

from napari_ngff.store.lazy import ArrayWindow as Arranged

__all__ = ["Arranged"]
