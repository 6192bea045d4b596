"""Finds the address of the data in a link of a viewer of the web.

>>> data_address("https://hms-dbmi.github.io/vizarr/?source=https://host/a.zarr")
'https://host/a.zarr'

Links of vizarr, ome-ngff-validator and others name it in their query, those of
neuroglancer in a document behind ``#!``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from napari_ngff.addresses import MARK, is_web, public_address
from napari_ngff.errors import NotOMEZarrError
from napari_ngff.store.limits import parse_json

QUERY_NAMES = ("source", "image_url", "fileToLoad", "image")
"""Names of vizarr and ome-ngff-validator, Avivator, and the viewers of itk."""

DATA_NAME = re.compile(r"\.(zarr|ozx|zip)(/|$)", re.IGNORECASE)
"""What is in the path of an address of data, and not in that of a viewer."""

STATE_MARK = "#!"

FORMAT_PREFIX = re.compile(r"zarr[23]?://(?=[\w+.-]+:)")

FORMAT_STEPS = ("zarr", "zarr2", "zarr3", "zip", "ome-zarr")

BUCKET_PREFIX = re.compile(r"s3\+(?=https?://)")
"""Of neuroglancer: a bucket that is read by HTTP."""

URL_SAFE_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'|\"(?:[^\"\\]|\\.)*\"")


def data_address(link: str) -> str:
    """Return the address of the data that a link shows; any other text as it is.

    Parameters
    ----------
    link
        As it was pasted.

    Returns
    -------
    str
        With its login and query, if it has them. Of several the first.

    Raises
    ------
    NotOMEZarrError
        Where a link of neuroglancer names nothing that is zarr.
    """
    link = link.strip().strip("<>\"'")
    if MARK not in link:
        return link
    page, mark, state = link.partition(STATE_MARK)
    if mark:
        return _address_in_state(page, state)
    parts = urlsplit(link)
    if is_web(link) and not DATA_NAME.search(parts.path):
        # Some pages have their query behind the "#".
        for query in (parts.query, parts.fragment.partition("?")[2]):
            values = parse_qs(query)
            named = [value for name in QUERY_NAMES for value in values.get(name, ())]
            found = next((value for value in named if MARK in value), "")
            if found:
                return _plain_address(found) or found
    return _plain_address(link) or link


def _address_in_state(page: str, state: str) -> str:
    """Find the first zarr of neuroglancer's document."""
    for source in _listed_sources(_parse_state(state)):
        address = _plain_address(source)
        if address:
            return address
    msg = f"The link of {public_address(page)} names no zarr."
    raise NotOMEZarrError(msg, remedy="Give the address of an OME-Zarr.")


def _parse_state(text: str) -> Any:
    # Older links have "'" and "_" for '"' and ",", which need no escapes in an address.
    text = unquote(text)
    for form in (text, _restore_json(text)):
        try:
            return parse_json(form)
        except (ValueError, RecursionError):
            continue
    return None


def _restore_json(text: str) -> str:
    parts, end = [], 0
    for found in URL_SAFE_TEXT.finditer(text):
        parts.append(text[end : found.start()].replace("_", ","))
        inner = found[1]
        quoted = found[0] if inner is None else json.dumps(inner.replace("\\'", "'"))
        parts.append(quoted)
        end = found.end()
    return "".join(parts) + text[end:].replace("_", ",")


def _listed_sources(state: Any) -> Iterator[str]:
    layers = state.get("layers") if isinstance(state, dict) else None
    # By their names in old documents.
    layers = list(layers.values()) if isinstance(layers, dict) else layers
    for layer in layers if isinstance(layers, list) else ():
        sources = layer.get("source") if isinstance(layer, dict) else None
        for source in sources if isinstance(sources, list) else (sources,):
            url = source.get("url") if isinstance(source, dict) else source
            if isinstance(url, str):
                yield url


def _plain_address(source: str) -> str:
    """Take the words of neuroglancer off an address; "" if there are none of zarr.

    ``zarr2://https://host/a.zarr`` and ``https://host/a.zip|zip:inner/|zarr3:``.
    """
    base, *steps = source.split("|")
    names = [step.partition(":")[0] for step in steps]
    base, count = FORMAT_PREFIX.subn("", base)
    is_zarr = bool(count) or any(name.startswith("zarr") for name in names)
    if not is_zarr or not set(names) <= set(FORMAT_STEPS):
        return ""
    base, _, query = BUCKET_PREFIX.sub("", base.partition("#")[0]).partition("?")
    for step in steps:
        inner = step.partition(":")[2].strip("/")
        base = f"{base.rstrip('/')}/{inner}" if inner else base
    # For neuroglancer alone; any other query is a signature.
    is_signed = bool(query) and not query.startswith("dimension_separator=")
    return f"{base}?{query}" if is_signed else base
