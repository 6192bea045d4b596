"""What the scripts share: random pixels, and the answer as one line of JSON.

Each runs in the environment of the program that it uses, not in that of the tests.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from importlib.metadata import version

import numpy as np


def random_pixels(*shape, dtype="u2", seed=0):
    """Make pixels that differ in each voxel."""
    most = np.iinfo(dtype).max
    return np.random.default_rng(seed).integers(0, most, shape, dtype, endpoint=True)


def random_labels(*shape, dtype="u4", seed=1):
    """Make labels of single voxels: 0 to 20."""
    return np.random.default_rng(seed).integers(0, 21, shape, dtype)


def described(pixels):
    """Describe an array so that any other voxel shows."""
    pixels = np.asarray(pixels)
    little = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<"))
    digest = hashlib.sha256(little.tobytes()).hexdigest()
    return {"shape": pixels.shape, "dtype": pixels.dtype.name, "digest": digest}


def refused(call, paths):
    """Let a validator judge each group; gives what it says of those it refuses."""
    said = {}
    for path in paths:
        try:
            call(path)
        except Exception as error:  # noqa: BLE001  each validator has its own
            said[path] = " ".join(f"{type(error).__name__}: {error}".split())[:2000]
    return said


def module(name):
    """Import what has its name in some releases only; None elsewhere."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main(package, write, read, judge=None):
    """Run as ``python script.py write FOLDER`` or ``read FOLDER``.

    Parameters
    ----------
    package
        Distribution whose version is printed.
    write
        Fills the folder; returns the finest level by the path of each group, and the
        paths of the plates.
    read
        Returns all levels by the path of each group.
    judge
        Distribution of a validator, and a function that raises for the path of a group.
    """
    command, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    answer = {"version": version(package)}
    if command == "write":
        finest, answer["plates"] = write()
        answer["images"] = {path: [described(one)] for path, one in finest.items()}
    else:
        levels = read()
        answer["images"] = {
            path: [*map(described, one)] for path, one in levels.items()
        }
        name, call = judge or ("", print)
        answer["judge"] = f"{name} {version(name)}" if judge else ""
        answer["refused"] = refused(call, levels) if judge else {}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
