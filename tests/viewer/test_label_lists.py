"""Several label images without an image, written as one list of labels."""

import numpy as np
import pytest
import zarr
from napari.layers import Labels

from napari_ngff.cli import main
from napari_ngff.errors import UnsupportedError
from napari_ngff.viewer.composing.write_layers import write
from napari_ngff.viewer.reader import read_paths

FLAT = np.kron(np.arange(1, 26, dtype=np.uint32).reshape(5, 5), np.ones((120, 130)))
FLAT = FLAT.astype(np.uint32)
DEEP = np.zeros((3, 40, 50), np.uint16)
DEEP[1, 5:9, 10:30] = 7


def layers():
    return [
        Labels(FLAT, name="cells"),
        Labels(DEEP, name="nuclei", scale=(2, 1, 1)),
    ]


@pytest.mark.parametrize(
    ("name", "version"),
    [("a.ome.zarr", "0.4"), ("a.zarr", "0.5"), ("a.zarr", "0.6"), ("a.ozx", "0.5")],
)
def test_labels_of_any_shapes_are_a_list(tmp_path, capsys, name, version):
    path = str(write(tmp_path / name, layers(), to_version=version))
    found = read_paths(path)
    assert [one[1]["name"] for one in found] == ["cells", "nuclei"]
    assert {one[2] for one in found} == {"labels"}
    for (data, keywords, _), pixels in zip(found, (FLAT, DEEP), strict=True):
        finest = data[0] if keywords["multiscale"] else data
        np.testing.assert_array_equal(np.asarray(finest), pixels)
    assert main(["check", path]) == 0
    assert "0 errors" in capsys.readouterr().out


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_other_libraries_accept_it(tmp_path, version):
    from ome_zarr_models.v04.labels import Labels as Old
    from ome_zarr_models.v05.labels import Labels as New

    path = write(tmp_path / "a.ome.zarr", layers(), to_version=version)
    group = zarr.open_group(path, mode="r")
    model = (Old if version == "0.4" else New).from_zarr(group)
    attributes = model.attributes if version == "0.4" else model.attributes.ome
    assert attributes.labels == ["cells", "nuclei"]
    if version == "0.5":
        import yaozarrs

        yaozarrs.validate_zarr_store(str(path))


def test_one_that_is_turned_is_refused_with_its_name(tmp_path):
    turned = [Labels(FLAT, name="cells"), Labels(FLAT, name="nuclei", rotate=30)]
    with pytest.raises(UnsupportedError, match="nuclei is turned"):
        write(tmp_path / "a.zarr", turned, to_version="0.5")
    assert list(tmp_path.iterdir()) == []
