"""Flow <-> JSON, and the name of a flow: its fingerprint.

The document is self-contained JSON: `{"ropewalk": 1, "name": .., "body": 2, "regions": [..]}`.
Regions stand in one flat list, inner ones before those that hold them, and a field that holds a
region holds its position there; so a document is never deep however deep the flow nests. Fields
that have their default value are left out.

Everything is read from dataclass fields and their types, so a new op needs no edit here: list it
in `ops.OPS`. Refused: unknown versions, ops and keys, values of another type, nesting past 100
levels inside one expression.
"""

from __future__ import annotations

import hashlib

from ..errors import InvalidFlow, Problem
from ..expr.ast import Expr
from ..ir import Flow
from ..values import Json, canonical
from .read import Reader
from .shape import VERSION
from .write import Writer


def flow_to_json(flow: Flow) -> dict[str, Json]:
    """The flow as a JSON document; `flow_from_json` gives an equal flow back."""
    return _document(flow, Writer(named=False))


def flow_from_json(doc: Json) -> Flow:
    """The flow a document describes; InvalidFlow, placed inside the document, when it is none.

    Only the shape is judged here: whether the flow makes sense is for `check`.
    """
    return Reader().flow(doc)


def expr_to_json(expr: Expr) -> dict[str, Json]:
    """One expression as JSON, as it stands in the document of a flow."""
    return Writer(named=False).expr(expr, 0)


def expr_from_json(doc: Json) -> Expr:
    """The expression that `expr_to_json` wrote; InvalidFlow when it is none."""
    return Reader().expr(doc, "")


def fingerprint(flow: Flow) -> str:
    """128 bits in hex that name what the flow does: equal for equal flows, whatever their meta, the
    positions in expression texts and the order of object keys. Computed once per flow."""
    known: str | None = flow.__dict__.get("_fingerprint")
    if known is None:
        doc = _document(flow, Writer(named=True))
        try:
            text = canonical(doc)
        except TypeError as wrong:  # orjson's word for a value that is not JSON, or too deep
            raise InvalidFlow([Problem(path="", message=f"a value in the flow is not JSON: {wrong}")]) from wrong
        known = hashlib.blake2b(text, digest_size=16).hexdigest()
        # Flows are frozen: what was computed stays true.
        flow.__dict__["_fingerprint"] = known
    return known


def _document(flow: Flow, writer: Writer) -> dict[str, Json]:
    doc: dict[str, Json] = {"ropewalk": VERSION, **writer.record(flow)}
    doc["regions"] = writer.regions
    return doc


__all__ = ["expr_from_json", "expr_to_json", "fingerprint", "flow_from_json", "flow_to_json"]
