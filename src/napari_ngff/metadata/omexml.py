"""Names of images in OME-XML: ``OME/METADATA.ome.xml`` of a bioformats2raw group."""

from __future__ import annotations

from xml.parsers import expat

__all__ = ["image_names"]

MAX_SIZE = 2**28
"""Bytes of a document; plates of many fields reach tens of megabytes."""


def image_names(xml: bytes) -> tuple[str | None, ...]:
    """Return the ``Name`` of each ``Image`` right below the root, in document order.

    Parameters
    ----------
    xml
        A document of any OME namespace, or of none.

    Returns
    -------
    tuple[str | None, ...]
        None for an image without a name. () where the document is malformed, larger
        than `MAX_SIZE`, or has a DOCTYPE, whose entities could expand without bound.
    """
    names: list[str | None] = []
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth == 2 and tag.rpartition(" ")[2] == "Image":
            names.append(attributes.get("Name"))

    def end(_tag: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*_: object) -> None:
        raise ValueError("a DOCTYPE")

    if len(xml) > MAX_SIZE:
        return ()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(xml, True)
    except (expat.ExpatError, LookupError, ValueError):  # the last two: the encoding
        return ()
    return tuple(names)
