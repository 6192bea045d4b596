"""What libraries decode in another process: results, errors, memory and time."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import bounded_works
import psutil
import pytest

from napari_ngff.errors import AccessError, CorruptDataError
from napari_ngff.store import bounded_call
from napari_ngff.store.bounded_call import ExcessError, call_bounded
from napari_ngff.store.sources.folder_store import FolderStore
from patience import PATIENCE


@pytest.fixture
def source(tmp_path):
    (tmp_path / "object").write_bytes(b"0123")
    return FolderStore(str(tmp_path))


def is_ours(process):
    return "napari_ngff.store.bounded_call" in process.cmdline()


@pytest.fixture
def peak():
    """The most memory, in MB, that processes of `bounded_call` had together."""
    bounded_call._end_idle()  # with the libraries that other tests have loaded there
    most, ended = [0], threading.Event()

    def look():
        while not ended.wait(0.003):
            try:
                # Before it has its own program, a new process seems to have the memory
                # of this one.
                found = [p for p in psutil.Process().children() if is_ours(p)]
                used = [p.memory_info().rss for p in found]
                most[0] = max(most[0], sum(used) >> 20)
            except psutil.Error:  # one has just ended
                continue

    thread = threading.Thread(target=look)
    thread.start()
    yield most
    ended.set()
    thread.join()


@pytest.fixture
def unwatched(monkeypatch):
    """Processes at whose memory nobody looks."""
    bounded_call._end_idle()
    monkeypatch.setattr(bounded_call, "PAUSE", 1000)
    yield
    bounded_call._end_idle()


def call(work, source, *arguments, most=0, **more):
    return call_bounded(work, source, arguments, most, (), **more)


def test_objects_are_asked_for(source):
    found = call(bounded_works.read_twice, source, "object")
    assert found == (b"0123", b"12", ("object",))
    assert call(bounded_works.read_twice, source, "nothing")[0] is None


def test_known_objects_are_not_read_again(source):
    known = {"object": b"known"}
    found = call(bounded_works.read_twice, source, "object", known=known)
    assert found[:2] == (b"known", b"known")


def test_prints_are_no_messages(source):
    assert call(bounded_works.print_much, source) == "done"


def test_a_process_that_takes_too_much_memory_is_ended(source, peak):
    assert call(bounded_works.take_memory, source, 60) == 60
    with pytest.raises(ExcessError, match="MB of memory"):
        call(bounded_works.take_memory, source, 3000)
    assert 50 < peak[0] < 300
    assert call(bounded_works.take_memory, source, 400, most=400 << 20) == 400


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel limits no memory")
@pytest.mark.usefixtures("unwatched")
def test_memory_is_limited_without_a_look_at_it(source, peak):
    """A busy machine may look seconds later, while the process takes gigabytes."""
    for _ in range(3):
        with pytest.raises(ExcessError, match="MB of memory"):
            call(bounded_works.take_memory, source, 3000)
        assert call(bounded_works.take_memory, source, 60) == 60
    assert call(bounded_works.start_threads, source, 32) == 32
    assert 50 < peak[0] < 300
    assert call(bounded_works.take_memory, source, 400, most=400 << 20) == 400


def test_a_process_that_takes_too_long_is_ended(source, monkeypatch):
    monkeypatch.setattr(bounded_call, "SECONDS", 0.3)
    begin = time.monotonic()
    with pytest.raises(ExcessError, match="seconds"):
        call(bounded_works.wait, source, 2 * PATIENCE)
    assert time.monotonic() - begin < PATIENCE
    monkeypatch.undo()
    assert call(bounded_works.wait, source, 0) == "done"


def test_a_process_that_dies_is_noticed_and_replaced(source):
    with pytest.raises(CorruptDataError):
        call(bounded_works.die, source)
    assert call(bounded_works.wait, source, 0) == "done"


def test_failures_come_back_and_the_process_works_on(source):
    for work, arguments in (
        (bounded_works.fail, ()),
        (bounded_works.fail_and_go_on, ("object",)),
    ):
        with pytest.raises(CorruptDataError, match="KeyError: 'broken'"):
            call(work, source, *arguments)
        found = call(bounded_works.read_twice, source, "object")
        assert found == (b"0123", b"12", ("object",))


def test_errors_of_the_source_stay_what_they_are(source, monkeypatch):
    def refuse(self, key, *arguments):
        raise AccessError("not yours")

    monkeypatch.setattr(FolderStore, "read", refuse)
    with pytest.raises(AccessError, match="not yours"):
        call(bounded_works.read_twice, source, "object")
    monkeypatch.undo()
    assert call(bounded_works.read_twice, source, "object")[0] == b"0123"


def test_objects_that_are_too_large_are_not_read(source, tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(20 << 30)
    with pytest.raises(CorruptDataError, match="bytes"):
        call(bounded_works.read_twice, source, "large")


def test_calls_of_many_threads_do_not_mix(source):
    with ThreadPoolExecutor(6) as pool:
        found = pool.map(
            lambda number: call(
                bounded_works.read_twice,
                source,
                "object",
                known={"object": bytes([number])},
            )[0],
            range(40),
        )
        assert list(found) == [bytes([number]) for number in range(40)]


def test_no_module_of_the_current_folder_is_imported(source, tmp_path, monkeypatch):
    """A folder of downloads may hold a file of the name of a module."""
    monkeypatch.chdir(tmp_path)
    bounded_call._end_idle()
    assert call(bounded_works.import_from_here, source) == []


def test_the_process_ends_with_the_program(tmp_path):
    """Also if that is killed."""
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys\n"
        "import bounded_works\n"
        "from napari_ngff.store.bounded_call import call_bounded, _idle\n"
        "from napari_ngff.store.sources.folder_store import FolderStore\n"
        "source = FolderStore('.')\n"
        "call_bounded(bounded_works.wait, source, (0,), 0, ())\n"
        "print(_idle[0]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    import subprocess

    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    number = int(found.stdout)
    begin = time.monotonic()
    while psutil.pid_exists(number) and time.monotonic() - begin < PATIENCE:
        time.sleep(0.02)
    assert not psutil.pid_exists(number)
