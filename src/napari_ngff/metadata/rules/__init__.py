"""The specification's MUST and SHOULD as problems, each with the sentence it breaks.

`check_attributes` is the judge of one document: it is valid where no problem is an
error. `parse` reports whatever it had to make up for, with what it made of it; the
rules of this package are what reading does not need. Tables of `Rule` say code,
severity, sentence, search and versions; one module for each noun.

What needs other documents, or arrays, is checked in `napari_ngff.store.check`.
"""

from __future__ import annotations

from napari_ngff.metadata.rules.document_rules import check_attributes, stated_version

__all__ = ["check_attributes", "stated_version"]
