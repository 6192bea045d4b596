"""What the units of a conversion share, and for how long."""

from __future__ import annotations

import gc
import sys
import threading

import psutil
import pytest

from napari_ngff import convert
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.convert.array_task import DocumentTask
from napari_ngff.store.convert.work_unit import WorkUnit, run_unit
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.testing import write_image


@pytest.fixture
def no_collection():
    """Let Python collect no garbage: who deletes a file does not wait for it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def open_files():
    """Return the paths of the files that this process has open."""
    return [file.path for file in psutil.Process().open_files()]


@pytest.mark.parametrize("scheduler", [None, "threads"])
def test_archives_are_closed_when_a_conversion_has_ended(
    tmp_path, scheduler, no_collection
) -> None:
    source = write_image(tmp_path / "a.ozx", "0.5", shape=(64, 64))
    convert(source, tmp_path / "b.ozx", scheduler=scheduler)
    assert str(source) not in open_files()
    with pytest.raises(ValueError, match="not a plate"):
        convert(source, tmp_path / "c.zarr", wells=["A1"])
    assert str(source) not in open_files()
    convert(tmp_path / "b.ozx", tmp_path / "d.zarr", to_version="0.4")
    assert str(tmp_path / "b.ozx") not in open_files()


def test_conversions_run_at_the_same_time(tmp_path) -> None:
    """In one process, as from several windows or scripts with threads."""
    failures: list[Exception] = []

    def convert_some(thread: int) -> None:
        source = FolderStore(str(tmp_path))
        for i in range(2000):
            task = DocumentTask((), ())
            run = f"{thread} {i}"
            unit = WorkUnit(run, 0, source, source, task, 0, looks=True)
            try:
                run_unit(unit)
            except (RuntimeError, OMEZarrError, OSError) as error:
                failures.append(error)

    threads = [threading.Thread(target=convert_some, args=(i,)) for i in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
