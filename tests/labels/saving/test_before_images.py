import os
import threading

import numpy as np

from napari_ngff.labels.saving.before_images import BeforeImages


def test_nobody_goes_on_before_the_disk_has_it(tmp_path, monkeypatch):
    opened = (tmp_path / "kept").open("w+b", 0)
    retained = BeforeImages(lambda: opened, durable=True)
    flushing, allowed, done = (threading.Event() for _ in range(3))

    def fsync(handle):
        flushing.set()
        assert allowed.wait(10)

    def second():
        retained.flush_blocks()
        done.set()

    retained.put_block(0, (0, 0), np.arange(6).reshape(2, 3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        threads = [threading.Thread(target=retained.flush_blocks)]
        threads[0].start()
        assert flushing.wait(10)
        threads.append(threading.Thread(target=second))
        threads[1].start()
        early = done.wait(0.2)
        allowed.set()
        for thread in threads:
            thread.join(10)
    retained.close()
    assert done.is_set()
    assert not early
