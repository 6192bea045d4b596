"""What a conversion into a bucket has put there when it is refused, or ends early."""

from __future__ import annotations

import pytest

from buckets import bucket_server
from napari_ngff import convert
from napari_ngff.errors import UnsupportedError
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.testing import write_image


@pytest.fixture(scope="module")
def bucket():
    with bucket_server() as files:
        files.mkdir("targets")
        yield files


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    return write_image(folder / "source.ome.zarr", shape=(64, 64), chunk=32)


WRONG = {
    "wells": {"wells": "B*"},
    "chunks": {"chunks": "q=64"},
    "shards": {"to_version": "0.4", "shards": "y=64,x=64"},
    "crop": {"crop": "q=1:2"},
    "levels": {"levels": "9"},
    "channels": {"channels": "none of these"},
    "codec": {"codec": "gzip:99"},
}


@pytest.mark.default_cases("wells", "chunks")
@pytest.mark.parametrize("option", WRONG)
def test_a_refused_option_leaves_nothing_behind(
    option, bucket, source, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    target = f"s3://targets/{option}.ome.zarr"
    with pytest.raises((ValueError, UnsupportedError)):
        convert(source, target, **WRONG[option])
    assert bucket.find(target) == []
    assert not [path for path in home.rglob("*") if path.is_file()]
    # The next one is not refused for what the first has left.
    convert(source, target, levels="0")
    assert open_node(target).metadata.image is not None


def test_a_conversion_that_ends_while_its_documents_are_put_is_continued(
    bucket, source, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    put = RemoteStore.put_new

    def put_some(store, key, parts):
        if key.endswith("1/zarr.json"):
            raise KeyboardInterrupt
        put(store, key, parts)

    target, local = "s3://targets/made.ome.zarr", tmp_path / "made.ome.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(RemoteStore, "put_new", put_some)
        with pytest.raises(KeyboardInterrupt):
            convert(source, target)
    convert(source, target, resume=True)
    convert(source, local)
    made = {key.partition(".zarr/")[2]: bucket.cat(key) for key in bucket.find(target)}
    assert made == {
        path.relative_to(local).as_posix(): path.read_bytes()
        for path in local.rglob("*")
        if path.is_file()
    }
