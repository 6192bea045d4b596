"""Errors of the system get a path; ours keep what they state."""

from __future__ import annotations

import errno

import pytest

from napari_ngff.errors import AccessError, ServerError
from napari_ngff.store.write.named_errors import name_errors


def test_errors_of_the_system_get_the_path() -> None:
    with pytest.raises(OSError, match="No space") as caught, name_errors("/a/plan"):
        raise OSError(errno.ENOSPC, "No space")
    assert caught.value.filename == "/a/plan"
    refused = pytest.raises(AccessError, match="No permission to write /a/plan")
    with refused, name_errors("/a/plan"):
        raise PermissionError(errno.EACCES, "denied")


def test_ours_stay() -> None:
    """A server's error inside of a file's was shown with the path of the file."""
    inner = ServerError("s3://a/0", "no answer")
    with pytest.raises(ServerError) as caught, name_errors("/a/plan"):
        raise inner
    assert caught.value is inner
    assert "plan" not in str(caught.value)
