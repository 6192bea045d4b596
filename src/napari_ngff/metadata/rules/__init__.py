"""The specification's MUST and SHOULD as problems, each with the sentence it breaks.

`check_attributes` checks one document, which is valid if no problem is an error. The
parser reports what it had to correct, and how; the rules of this package are about
what reading does not need. A `FormatRule` has a code, a severity, a sentence of the
specification, a search for what breaks it, and versions; there is a module per noun.

Rules about several documents, or about arrays, are in `napari_ngff.store.check`.
"""

from __future__ import annotations

from napari_ngff.metadata.rules.document_rules import check_attributes, stated_version

__all__ = ["check_attributes", "stated_version"]
