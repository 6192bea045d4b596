"""Writing into archives, judged by the bytes, by zipfile and by zarr-python."""

import errno
import json
import os
import shutil
import stat
import struct
import threading
import zipfile
import zlib

import numpy as np
import pytest

from napari_ngff.errors import (
    AccessError,
    ConflictError,
    CorruptDataError,
    NodeNotFoundError,
    UnsupportedError,
)
from napari_ngff.store.sources.archive_store import ArchiveStore, ArchiveTransaction
from napari_ngff.store.write import zip_packing as rewriting
from napari_ngff.store.write.writer_token import SUFFIX
from napari_ngff.store.write.zip_packing import pack_hierarchy

ROOT = {"zarr_format": 3, "node_type": "group"}


def document(version="0.5"):
    return json.dumps({**ROOT, "attributes": {"ome": {"version": version}}}).encode()


def write_zip(path, root="", method=zipfile.ZIP_STORED, comment=b"", version="0.5"):
    """Write an archive as others do: in any order, without ZIP64."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for key, data in (
            ("0/c/0", b"a" * 70_000),
            ("0/zarr.json", b"{}"),
            ("0/c/1", bytes(range(256)) * 10_000),
            ("zarr.json", document(version)),
        ):
            archive.writestr(f"{root}/{key}" if root else key, data)
        archive.comment = comment
    return path


def content(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def path(tmp_path):
    return write_zip(tmp_path / "a.ozx")


def test_what_is_put_waits_and_is_seen_by_those_who_write(path):
    before = path.read_bytes()
    source = ArchiveStore(path)
    transaction = source.begin()
    transaction.put("0/c/0", b"new")
    transaction.put("labels/zarr.json", b"{}")
    transaction.delete("0/c/1")
    transaction.delete("nothing")
    assert transaction.uncommitted
    assert transaction.source.get("0/c/0") == b"new"
    assert transaction.source.get("0/c/0", -2, 1) == b"e"
    assert transaction.source.get("0/c/1") is None
    assert transaction.source.list_names("") == ("0", "labels", "zarr.json")
    assert transaction.source.list_names("0/c") == ("0",)
    assert source.get("0/c/0") == b"a" * 70_000
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.ozx"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_commit_changes_what_was_put_and_nothing_else(tmp_path, method):
    path = write_zip(tmp_path / "a.ozx", method=method)
    old = content(path)
    source, other = ArchiveStore(path), ArchiveStore(path)
    transaction = source.begin()
    transaction.put("0/c/0", b"new")
    transaction.put("0/c/2", b"more")
    transaction.delete("0/c/1")
    assert transaction.commit()
    assert not transaction.uncommitted
    new = content(path)
    del old["0/c/1"]
    assert new == {**old, "0/c/0": b"new", "0/c/2": b"more"}
    for one in (source, other):  # whoever has it open goes on with the new one
        assert one.get("0/c/0") == b"new"
        assert one.get("0/c/1") is None
        assert one.list_names("0/c") == ("0", "2")
    assert os.listdir(path.parent) == ["a.ozx"]


def methods(path):
    with zipfile.ZipFile(path) as archive:
        return {one.filename: one.compress_type for one in archive.infolist()}


def deflated(path, more):
    """Write an archive whose entries are deflated, large and small ones."""
    write_zip(path, method=zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, data in more.items():
            archive.writestr(name, data)
    return path


def change_one(path):
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/5", b"new")
    assert transaction.commit()


def test_entries_stay_deflated_and_new_ones_are_stored(tmp_path):
    path = deflated(tmp_path / "a.ozx", {"0/c/7": bytes(5_000_000), "0/c/8": b""})
    old, size = content(path), path.stat().st_size
    for _ in range(2):
        change_one(path)
        assert content(path) == {**old, "0/c/5": b"new"}
        found = methods(path)
        assert found.pop("0/c/5") == zipfile.ZIP_STORED
        assert set(found.values()) == {zipfile.ZIP_DEFLATED}
        assert path.stat().st_size < size + 2000


@pytest.mark.parametrize("damage", ["stream", "checksum", "size"])
def test_a_damaged_deflated_entry_is_copied_as_it_is(tmp_path, damage):
    length = 5000
    data = np.random.default_rng(0).integers(0, 4, length, "u1").tobytes()
    path = deflated(tmp_path / "a.ozx", {"0/c/7": data})
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("0/c/7")
        at = entry.header_offset + 30 + len("0/c/7")
    raw = bytearray(path.read_bytes())
    place = raw.rindex(b"PK\1\2")
    if damage == "stream":
        raw[at + entry.compress_size // 2 : at + entry.compress_size] = bytes(
            entry.compress_size - entry.compress_size // 2
        )
    elif damage == "checksum":
        raw[place + 16] ^= 1
    else:
        struct.pack_into("<I", raw, place + 24, length - 7)
    path.write_bytes(raw)
    change_one(path)
    source = ArchiveStore(path)
    assert source.get("0/c/5") == b"new"
    assert source.get("0/c/0") == b"a" * 70_000
    kept = source.archive.find_entry("0/c/7")
    assert kept.method == zipfile.ZIP_DEFLATED
    assert source.archive.read_part("0/c/7", kept, slice(0, kept.stored)) == bytes(
        raw[at : at + entry.compress_size]
    )
    with pytest.raises(CorruptDataError):
        source.get("0/c/7")
    assert os.listdir(path.parent) == ["a.ozx"]


def test_the_bytes_follow_rfc_9(path):
    transaction = ArchiveStore(path).begin()
    transaction.put("labels/zarr.json", b"{}")
    transaction.put("0/c/0", b"new")
    transaction.commit()
    data = path.read_bytes()
    names = [name.decode() for name in ArchiveStore(path).archive.index]
    assert names[:3] == ["zarr.json", "0/zarr.json", "labels/zarr.json"]
    assert not ArchiveStore(path).problems
    # Local headers come in the same order, each with its sizes and a ZIP64 field.
    at = 0
    for name in names:
        head = struct.unpack_from("<4sHHHHHIIIHH", data, at)
        signature, version, flags, method = head[:4]
        crc, stored, size, length, extra = head[6:]
        assert (signature, version, flags, method) == (b"PK\3\4", 45, 0, 0)
        assert stored == size == 0xFFFF_FFFF
        assert data[at + 30 : at + 30 + length].decode() == name
        kind, room, size, stored = struct.unpack_from("<HHQQ", data, at + 30 + length)
        assert (kind, room, extra, size) == (1, 16, 20, stored)
        at += 30 + length + extra
        assert zlib.crc32(data[at : at + stored]) == crc
        at += stored
    end = data.rindex(b"PK\5\6")
    assert data[end - 20 : end - 16] == b"PK\6\7"
    where = struct.unpack_from("<Q", data, end - 12)[0]
    assert data[where : where + 4] == b"PK\6\6"
    assert struct.unpack_from("<Q", data, where + 48)[0] == at
    comment = json.loads(data[end + 22 :])
    order = {"centralDirectory": {"jsonFirst": True}}
    assert comment == {"ome": {"version": "0.5", "zipFile": order}}


@pytest.mark.parametrize(
    ("comment", "version", "kept"),
    [
        (b'{"mine": 1}', "0.6", {"mine": 1}),
        (b'{"ome": {"version": "0.4", "more": 2}}\0', "0.5", {"ome": {"more": 2}}),
    ],
)
def test_what_else_the_comment_states_is_kept(tmp_path, comment, version, kept):
    path = write_zip(tmp_path / "a.ozx", comment=comment, version=version)
    transaction = ArchiveStore(path).begin()
    transaction.delete("0/c/0")
    transaction.commit()
    found = json.loads(ArchiveStore(path).comment)
    assert found.pop("mine", None) == kept.get("mine")
    assert found["ome"].pop("version") == version
    assert found["ome"].pop("zipFile") == {"centralDirectory": {"jsonFirst": True}}
    assert found["ome"] == kept.get("ome", {})


def test_a_comment_that_is_no_json_is_kept(tmp_path):
    path = write_zip(tmp_path / "a.ozx", comment=b"of Tuesday")
    transaction = ArchiveStore(path).begin()
    transaction.delete("0/c/0")
    transaction.commit()
    assert ArchiveStore(path).comment == b"of Tuesday"


def test_a_nested_root_stays_where_it_is(tmp_path):
    path = write_zip(tmp_path / "a.zip", root="image")
    transaction = ArchiveStore(path, "image").begin()
    transaction.put("0/c/0", b"new")
    transaction.put("0/c/2", b"more")
    assert transaction.source.list_names("0/c") == ("0", "1", "2")
    transaction.commit()
    assert set(content(path)) == {
        f"image/{key}"
        for key in ("zarr.json", "0/zarr.json", "0/c/0", "0/c/1", "0/c/2")
    }
    assert transaction.source.get("0/c/0") == b"new"


def test_dates_modes_and_names_are_kept(tmp_path):
    path = tmp_path / "a.ozx"
    with zipfile.ZipFile(path, "w") as archive:
        entry = zipfile.ZipInfo("zarr.json", (2021, 5, 6, 7, 8, 10))
        entry.external_attr = 0o600 << 16
        archive.writestr(entry, document())
        archive.writestr("Größe/0", b"x")
    path.chmod(0o640)
    transaction = ArchiveStore(path).begin()
    transaction.put("ß", b"new")
    transaction.commit()
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("zarr.json")
        assert entry.date_time == (2021, 5, 6, 7, 8, 10)
        assert entry.external_attr == 0o600 << 16
        assert archive.read("Größe/0") == b"x"
        assert archive.read("ß") == b"new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_leads_to_the_archive_that_is_written(tmp_path, path):
    link = tmp_path / "link.ozx"
    link.symlink_to(path)
    transaction = ArchiveStore(link).begin()
    transaction.put("0/c/0", b"new")
    transaction.commit()
    assert link.is_symlink()
    assert content(path)["0/c/0"] == b"new"


def test_reads_under_way_end_in_the_old_archive(path):
    source = ArchiveStore(path)
    old = source.archive
    entry = old.find_entry("0/c/0")
    transaction = source.begin()
    transaction.put("0/c/0", b"new")
    transaction.commit()
    assert old.read("0/c/0", entry, verify=True) == b"a" * 70_000


def test_readers_go_on_while_it_is_written_again_and_again(path):
    source = ArchiveStore(path)
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            data = source.get("0/c/0")
            if data not in (b"a" * 70_000, b"b" * 50, b"c" * 90_000):
                wrong.append(data)
            if source.get("0/c/1") != bytes(range(256)) * 10_000:
                wrong.append("1")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for one in readers:
        one.start()
    transaction = source.begin()
    for number in range(12):
        transaction.put("0/c/0", b"c" * 90_000 if number % 2 else b"b" * 50)
        transaction.commit()
    stop.set()
    for one in readers:
        one.join()
    assert not wrong


def test_an_object_that_others_changed_is_refused_and_the_rest_is_kept(path):
    source = ArchiveStore(path)
    transaction = source.begin()
    assert transaction.find_revision("0/c/0") is not None
    transaction.put("0/c/0", b"mine")
    transaction.put("0/c/2", b"mine")
    other = ArchiveStore(path).begin()
    other.put("0/c/0", b"theirs")
    other.put("0/c/1", b"theirs")
    # As in another process: nothing tells `source`.
    monitored = source.archive
    other.commit()
    source.archive = monitored
    with pytest.raises(ConflictError, match=r"a\.ozx/0/c/0 was changed"):
        transaction.commit()
    assert content(path)["0/c/0"] == b"theirs"
    assert "0/c/2" not in content(path)
    assert transaction.commit()
    assert content(path) == content(path) | {
        "0/c/0": b"theirs",
        "0/c/1": b"theirs",
        "0/c/2": b"mine",
    }


def test_what_others_do_to_other_objects_is_kept(path):
    source = ArchiveStore(path)
    transaction = source.begin()
    transaction.put("0/c/0", b"mine")
    with zipfile.ZipFile(path, "a") as archive:  # in place
        archive.writestr("0/c/7", b"theirs")
    assert transaction.commit()
    assert content(path)["0/c/0"] == b"mine"
    assert content(path)["0/c/7"] == b"theirs"


def test_what_others_write_meanwhile_is_not_lost(path, monkeypatch):
    """The archive is replaced while the new one is being written."""
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"mine")

    write, calls = rewriting.write_archive, []

    def meanwhile(*args):
        calls.append(1)
        if len(calls) == 1:
            with zipfile.ZipFile(path, "a") as archive:
                archive.writestr("0/c/7", b"theirs")
        return write(*args)

    monkeypatch.setattr(rewriting, "write_archive", meanwhile)
    assert transaction.commit()
    assert len(calls) == 2
    assert content(path)["0/c/0"] == b"mine"
    assert content(path)["0/c/7"] == b"theirs"


def test_two_sinks_in_threads_lose_nothing(path):
    def write(number):
        transaction = ArchiveStore(path).begin()
        for step in range(5):
            transaction.put(f"{number}/c/{step}", f"{number} {step}".encode())
            transaction.commit()

    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    new = content(path)
    assert all(
        new[f"{n}/c/{s}"] == f"{n} {s}".encode() for n in range(4) for s in range(5)
    )


def test_a_stop_leaves_the_old_archive_and_what_waits(path):
    before = path.read_bytes()
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"new")
    reported = []

    def goes_on(done, total):
        reported.append((done, total))
        return False

    assert transaction.commit(goes_on) is False
    assert path.read_bytes() == before
    assert transaction.uncommitted
    assert transaction.commit(lambda done, total: not reported.append((done, total)))
    assert content(path)["0/c/0"] == b"new"
    assert reported[-1][0] == reported[-1][1]
    assert os.listdir(path.parent) == ["a.ozx"]


def test_a_disk_without_room_says_how_much_is_needed(path, monkeypatch):
    before = path.read_bytes()
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"new")
    usage = shutil.disk_usage(path.parent)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OSError, match=r"1 MB free, and 2\.56 MB are needed") as caught:
        transaction.commit()
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.ozx"]
    monkeypatch.undo()
    assert transaction.commit()


def test_an_error_of_the_disk_leaves_the_old_archive(path, monkeypatch):
    before = path.read_bytes()
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"new")

    def broken(*args):
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="broken"):
            transaction.commit()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.ozx"]
    assert transaction.commit()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EACCES])
def test_where_no_folder_can_be_flushed_a_save_is_done(path, monkeypatch, number):
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"new")
    plain = os.fsync

    def refused(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        plain(handle)

    monkeypatch.setattr(os, "fsync", refused)
    assert transaction.commit()
    assert not transaction.uncommitted
    assert content(path)["0/c/0"] == b"new"


def test_bytes_that_do_not_arrive_are_noticed(path, monkeypatch):
    before = path.read_bytes()
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"new")
    from napari_ngff.store.write import zip_writer as archive_writer

    whole = archive_writer.write_at

    def flipped(handle, data, at):
        whole(handle, bytes(data).replace(b"new", b"old"), at)

    monkeypatch.setattr(archive_writer, "write_at", flipped)
    with pytest.raises(ValueError, match="wrong checksum at 0/c/0"):
        transaction.commit()
    assert path.read_bytes() == before


def test_an_archive_that_is_gone_is_not_made_again(path):
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"new")
    path.rename(path.with_name("b.ozx"))
    with pytest.raises(NodeNotFoundError, match=r"no file .*a\.ozx any more"):
        transaction.commit()
    assert os.listdir(path.parent) == ["b.ozx"]
    path.with_name("b.ozx").rename(path)
    assert transaction.commit()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may do anything")
def test_no_permission_says_so(path):
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"new")
    path.parent.chmod(0o500)
    try:
        with pytest.raises(AccessError, match="No permission to write"):
            transaction.commit()
    finally:
        path.parent.chmod(0o700)


def test_encrypted_entries_are_refused(path):
    data = bytearray(path.read_bytes())
    at = data.index(b"0/c/1", data.index(b"PK\1\2")) - 46
    struct.pack_into("<H", data, at + 8, 1)
    path.write_bytes(data)
    transaction = ArchiveStore(path).begin()
    transaction.put("0/c/0", b"new")
    with pytest.raises(UnsupportedError, match=r"0/c/1 .* is encrypted"):
        transaction.commit()


def test_litter_of_a_killed_writer_is_swept_and_that_of_another_is_not(path):
    import fcntl

    # Of processes of another machine, which only a lock tells of.
    litter = path.with_name(f".a.ozx.01234567p4dr01234567-0{SUFFIX}")
    others = path.with_name(f".a.ozx{SUFFIX}")
    busy = path.with_name(f".a.ozx.01234567p58r01234567-0{SUFFIX}")
    for one in (litter, others, busy):
        one.write_bytes(b"half")
        os.utime(one, (1, 1))
    transaction = ArchiveStore(path).begin()
    with busy.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        transaction.remove_leftovers("")
        assert not litter.exists()
        assert busy.exists()
    assert others.exists()
    transaction.put("0/c/0", b"new")
    transaction.commit()
    assert not busy.exists()


def test_replacing_a_folder(path):
    transaction = ArchiveStore(path).begin()
    with transaction.replace_tree("0") as tree:
        transaction.put(f"{tree.key}/zarr.json", b"[]")
        transaction.put(f"{tree.key}/c/0", b"new")
        tree.commit()
    transaction.commit()
    new = content(path)
    assert {k: v for k, v in new.items() if k != "zarr.json"} == {
        "0/zarr.json": b"[]",
        "0/c/0": b"new",
    }


@pytest.mark.long
def test_more_than_four_gibibytes(tmp_path):
    """Sizes and offsets that only ZIP64 holds; the file is sparse where it can be."""
    path = tmp_path / "a.ozx"
    large, first = 2**32 + 5, tmp_path / "in"
    first.mkdir()
    (first / "zarr.json").write_bytes(document())
    with (first / "large").open("wb") as file:
        file.truncate(large)
    (first / "zz").write_bytes(b"behind")
    pack_hierarchy(first, path)
    transaction = ArchiveStore(path).begin()
    transaction.put("0", b"new")
    assert transaction.commit()
    source = ArchiveStore(path)
    assert isinstance(transaction, ArchiveTransaction)
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo("large").file_size == large
        assert archive.getinfo("zz").header_offset > 2**32
        assert archive.read("zz") == source.get("zz") == b"behind"
        assert archive.read("0") == b"new"
    assert source.get("large", -3) == b"\0\0\0"
