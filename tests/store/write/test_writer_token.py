"""What a dead writer left is told from what others write, ours or not."""

import os
import subprocess
import sys
import time

from napari_ngff.store.sources.folder_store import FolderTransaction
from napari_ngff.store.write.writer_token import is_left, new_token

DIES = "from napari_ngff.store.write.writer_token import new_token; print(new_token())"


def made(folder, name, age=0.0):
    path = folder / name
    path.write_bytes(b"x")
    os.utime(path, (time.time() - age,) * 2)
    return str(path)


def test_only_what_a_dead_process_left_is_left(tmp_path):
    command = [sys.executable, "-c", DIES]
    dead = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    assert is_left(made(tmp_path, f".0.{dead}-1f.aside"))
    assert not is_left(made(tmp_path, f".0.{new_token()}-1f.aside", age=3600))


def test_of_another_machine_time_decides(tmp_path):
    for token in ("0a1b2c3d", "0a1b2c3dp1r0a1b2c3d"):
        assert not is_left(made(tmp_path, f".0.{token}-1.aside"))
        assert is_left(made(tmp_path, f".0.{token}-1.aside", age=120))
        assert is_left(made(tmp_path, f".0.{token}-1.aside"), dead=[token])


def test_files_of_other_programs_stay(tmp_path):
    names = (
        "film.mkv.aside", ".x.0a1b2c3d.aside", "aside", "zarr.json.tmp", "a-1.aside",
        "x.0a1b2c3d-1.aside",
    )  # fmt: skip
    for name in names:
        made(tmp_path, name, age=10**6)
    transaction = FolderTransaction(str(tmp_path))
    transaction.recover("")
    transaction.remove_leftovers("")
    assert sorted(os.listdir(tmp_path)) == sorted(names)
