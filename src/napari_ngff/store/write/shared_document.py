"""Small documents of ours that several windows and processes read and change."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from napari_ngff.errors import ConflictError, CorruptDataError, name_errors
from napari_ngff.store.limits import parse_json, size_text
from napari_ngff.store.sources.blob import Revision
from napari_ngff.store.sources.file_bytes import read_file
from napari_ngff.store.write.file_lock import take_turn
from napari_ngff.store.write.replace_file import replace_file

LARGEST = 16 << 20
"""Bytes; the states of 100,000 fields take 9 MB."""

TRIES = 100
"""Changes of others that a change is made anew after."""


class SharedDocument:
    """A file of JSON that windows and processes change in turns.

    No change is lost, and who reads finds the content before or after one.

    Parameters
    ----------
    path
        Of the file; it and its folder are made by the first change.
    replaceable
        Whether a damaged file counts as none. Else it is an error, and stays.

    Attributes
    ----------
    path
        Of the file, as text.
    """

    def __init__(self, path: str | Path, *, replaceable: bool = False) -> None:
        self.path = str(path)
        self._folder = os.path.dirname(os.path.abspath(path))
        self._replaceable = replaceable

    def read(self) -> Any:
        """Return the content; None where there is no file.

        Raises
        ------
        CorruptDataError
            Where it is no JSON, or too large for one of ours.
        OSError
            Where it cannot be read.
        """
        # Windows replaces no file that somebody reads.
        waits = sys.platform == "win32"
        with take_turn(self._folder) if waits else nullcontext():
            return self._read_content()

    def _read_content(self) -> Any:
        try:
            blob = read_file(self.path, 0, LARGEST + 1)
            if blob is None:
                return None
            _check_size(blob.data)
            return parse_json(blob.data)
        except ValueError as error:
            if self._replaceable:
                return None
            msg = f"{self.path} is damaged: {str(error).rstrip('.')}."
            remedy = "Move it away to begin a new one."
            raise CorruptDataError(msg, remedy=remedy) from error

    def change(self, edit: Callable[[Any], Any]) -> None:
        """Write what a function makes of the content, unless that is equal to it.

        Parameters
        ----------
        edit
            Called with what `read` returns; again if another computer was faster.

        Raises
        ------
        CorruptDataError
            Where `read` raises it; the file stays as it is.
        OSError
            Where it cannot be read or written.
        """
        with name_errors(self.path):
            os.makedirs(self._folder, exist_ok=True)
        with take_turn(self._folder):
            for _ in range(TRIES):
                before = Revision.of_file(self.path)
                content = self._read_content()
                changed = edit(content)
                data = json.dumps(changed, indent=1).encode()
                _check_size(data)
                # Others may have no turns: file systems without locks, other computers.
                if changed == content or replace_file(self.path, data, before):
                    return
        msg = f"{self.path} is changed by other programs all the time."
        raise ConflictError(msg, remedy="Try again.")


def _check_size(data: bytes) -> None:
    if len(data) > LARGEST:
        raise ValueError(f"it has more than {size_text(LARGEST)}")
