"""Errors say what to do, and carry that as an attribute."""

from __future__ import annotations

import copy
import errno
import json
import os
import pickle

import numpy as np
import pandas as pd
import pytest

from napari_ngff.errors import (
    AGAIN,
    LISTED,
    RESTORE,
    AccessError,
    ChunkError,
    CorruptDataError,
    LoginNeededError,
    NodeNotFoundError,
    OMEZarrError,
    OptionError,
    ServerError,
    TargetExistsError,
    error_text,
    may_pass,
    name_errors,
    remedy_of,
)
from napari_ngff.plate.tables.table import make_table

ERRORS = [
    AccessError("No permission to read a.zarr.", remedy="Ask its owner."),
    NodeNotFoundError("There is nothing at a.zarr.", remedy="Check the path."),
    CorruptDataError("a.zarr is damaged.", remedy="Restore it from a copy."),
    ServerError("http://x/a.zarr", "no answer"),
    TargetExistsError("a.zarr"),
    ChunkError("a.zarr", "0/0", "damaged"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_text_ends_with_what_to_do(error):
    assert error.remedy
    assert str(error) == f"{error.message} {error.remedy}"
    assert error.remedy not in error.message


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("how", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_says_the_same(error, how):
    assert str(how(error)) == str(error)
    assert how(error).remedy == error.remedy


def test_a_chunk_says_what_to_do_once():
    cause = CorruptDataError("a.zarr/0/0 is cut off.", remedy="Restore it from a copy.")
    text = str(ChunkError("a.zarr", "0/0", cause))
    assert text == (
        "a.zarr/0/0 cannot be read: a.zarr/0/0 is cut off."
        " Restore it from a copy; without it this part stays empty."
    )


@pytest.mark.parametrize("remedy", [LISTED, RESTORE, AGAIN])
def test_no_remedy_of_a_cause_is_said_twice(remedy):
    text = str(ChunkError("a.zarr", "B/3", OMEZarrError("It is gone.", remedy=remedy)))
    assert text.count(remedy.removesuffix(".")) == 1


def test_a_chunk_of_a_busy_server_is_asked_for_again():
    cause = ServerError("http://x/0/0", "no answer")
    error = ChunkError("http://x", "0/0", cause)
    error.__cause__ = cause
    assert str(error) == str(cause)
    assert error.remedy == cause.remedy
    assert may_pass(error)


def test_a_place_is_put_before_an_error():
    cause = AccessError("No permission.", remedy="Ask its owner.")
    error = OMEZarrError.at_place(cause, "field 1")
    assert str(error) == "field 1: No permission. Ask its owner."
    assert remedy_of(error) == "Ask its owner."
    assert str(OMEZarrError.at_place(OSError("gone"), "field 1")) == "field 1: gone"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_what_the_system_refuses_says_where_and_what_to_do(number):
    error = OSError(number, os.strerror(number), "/data/cells.zarr/0/c/1")
    text = error_text(error)
    assert text.startswith(os.strerror(number))
    assert "/data/cells.zarr/0/c/1" in text
    assert text.endswith(remedy_of(error))
    assert remedy_of(error)
    assert "Errno" not in text


@pytest.mark.parametrize("how", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_of_an_option_names_it(how):
    error = how(OptionError("x=abc is not a length.", "chunks"))
    assert (str(error), error.option) == ("x=abc is not a length.", "chunks")
    assert isinstance(error, ValueError)


def test_a_chunk_that_is_refused_asks_for_a_login():
    cause = LoginNeededError("The server refuses to give http://x/0/0.", "http://x")
    error = ChunkError("http://x", "0/0", cause)
    assert str(error) == str(cause)
    assert error.remedy == cause.remedy


def fail(kind):
    if kind == "shape":
        np.zeros(3)[:] = np.zeros(2)
    if kind == "text":
        float("a")
    if kind == "module":
        json.loads("{")


@pytest.mark.parametrize("kind", ["shape", "text", "module"])
def test_an_error_of_numbers_is_logged_with_its_place(kind, caplog):
    with pytest.raises(ValueError, match=r"broadcast|convert|Expecting") as caught:
        fail(kind)
    assert error_text(caught.value) == str(caught.value)
    assert "in fail" in caplog.text


def test_a_mistake_in_an_input_is_not_logged(caplog):
    frame = make_table(pd.DataFrame({"well": ["A1"], "a": ["x"]}), "t")
    with pytest.raises(ValueError, match="text") as caught:
        frame.by_well("a", "median")
    assert error_text(caught.value) == str(caught.value)
    assert caplog.text == ""


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
