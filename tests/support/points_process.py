"""A process that adds points, or shapes, to an image until it is killed.

echo '{"path": ..., "home": ..., "count": 5, "kind": "points"}' |
    python points_process.py
"""

from __future__ import annotations

import os
import time

from napari_ngff.viewer.services.window import Window
from painting_process import open_layers
from victim import serve


def run(job: dict) -> None:
    os.environ["XDG_DATA_HOME"] = job["home"]
    Window.current = Window()
    viewer = open_layers(job["path"])
    add = viewer.add_points if job["kind"] == "points" else viewer.add_shapes
    layer = add(name="spots", ndim=viewer.dims.ndim)
    os.write(1, f"ready {os.getpid()}\n".encode())
    for number in range(job["count"]):
        corner = [float(number), 2.0 * number]
        if job["kind"] == "points":
            layer.add([corner])
        else:
            layer.add_lines([corner, [9.0, 9.0]])
        layer.features = {"kind": [f"k{i}" for i in range(number + 1)]}
        os.write(1, f"kept {number + 1}\n".encode())
    time.sleep(600)


if __name__ == "__main__":
    serve(run)
