"""The address of the data in links of other viewers."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from napari_ngff.errors import NotOMEZarrError
from napari_ngff.store.hierarchy.data_link import data_address

DATA = "https://host/cells.ome.zarr"
SIGNED = "https://host/cells.ome.zarr?X-Amz-Signature=a%2Bb&x=1"
GLANCE = "https://neuroglancer-demo.appspot.com/#!"


def glance(*sources):
    layers = [{"type": "image", "source": source} for source in sources]
    return GLANCE + quote(json.dumps({"position": [1, 2], "layers": layers}))


@pytest.mark.parametrize(
    ("link", "address"),
    [
        (f"https://hms-dbmi.github.io/vizarr/?source={DATA}", DATA),
        (f"https://hms-dbmi.github.io/vizarr?source={quote(DATA, safe='')}", DATA),
        (f"https://ome.github.io/ome-ngff-validator/?source={DATA}/", f"{DATA}/"),
        (f"https://lab.org/viz/index.html?a=b&source={DATA}/A/1", f"{DATA}/A/1"),
        (f"https://vizarr.io/?source={quote(SIGNED, safe='')}", SIGNED),
        (f"https://lab.org/app/#/view?source={DATA}", DATA),
        (f"https://avivator.gehlenborglab.org/?image_url={DATA}", DATA),
        (f"https://kitware.github.io/itk-vtk-viewer/app/?fileToLoad={DATA}", DATA),
        ("https://vizarr.io/?source=s3://bucket/a.zarr", "s3://bucket/a.zarr"),
        (f"https://vizarr.io/?source=zarr://{DATA}", DATA),
        (f"  <{DATA}>\n", DATA),
    ],
)
def test_a_link_with_the_data_in_its_query(link, address):
    assert data_address(link) == address


@pytest.mark.parametrize(
    ("source", "address"),
    [
        (f"zarr://{DATA}", DATA),
        (f"zarr2://{DATA}/0?dimension_separator=/", f"{DATA}/0"),
        ("zarr3://s3://bucket/a.zarr", "s3://bucket/a.zarr"),
        (f"{DATA}/|zarr2:", f"{DATA}/"),
        (f"{DATA}|zarr3:labels/nuclei/", f"{DATA}/labels/nuclei"),
        ("https://host/a.zip|zip:a.zarr/|zarr:", "https://host/a.zip/a.zarr"),
        ("s3+https://host/bucket/a.zarr/|zarr:", "https://host/bucket/a.zarr/"),
        (f"zarr://{SIGNED}", SIGNED),
        ({"url": f"zarr://{DATA}", "transform": {}}, DATA),
        ([{"url": "local://annotations"}, f"zarr://{DATA}"], DATA),
    ],
)
def test_a_link_of_neuroglancer(source, address):
    assert data_address(glance(source)) == address
    assert data_address(glance("precomputed://gs://b/em", source)) == address
    if isinstance(source, str):
        assert data_address(source) == address


def test_older_links_of_neuroglancer():
    state = (
        "{'layers':{'my_cells':{'type':'image'_'source':'zarr://https://h/a_b.zarr'}}"
        "_'position':[1_2]}"
    )
    assert data_address(GLANCE + state) == "https://h/a_b.zarr"


@pytest.mark.parametrize(
    "link",
    [
        glance("precomputed://gs://bucket/em"),
        glance("https://host/a.zarr|n5:"),
        GLANCE + "https://host/state.json",
        GLANCE + quote("[1, {}]"),
        GLANCE + quote('{"layers": [3, {"source": 4}, {"source": {"url": 5}}]}'),
        GLANCE + quote('{"layers": 7}'),
        GLANCE + "[" * 100_000,
    ],
    ids=lambda link: link[len(GLANCE) : len(GLANCE) + 40],
)
def test_neuroglancer_without_zarr_is_reported(link):
    with pytest.raises(NotOMEZarrError, match=r"neuroglancer-demo.appspot.com/ names"):
        data_address(link)


@pytest.mark.parametrize(
    "text",
    [
        "",
        DATA,
        SIGNED,
        "https://me:secret@host/a.zarr",
        f"https://host/a.zarr/?source={DATA}",  # its own query
        "https://vizarr.io/?source=/data/a.zarr",
        "https://host/plate?token=abc",
        "s3://bucket/a.zarr",
        "zarr://store",
        "/home/me/a|zarr:.zarr",
        "C:\\data\\a.zarr",
    ],
)
def test_anything_else_stays(text):
    assert data_address(text) == text
