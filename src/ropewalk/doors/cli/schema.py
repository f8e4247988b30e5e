"""`schema`: the JSON Schema of a notation's documents, for editors."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import orjson
from cyclopts import Parameter

from .answer import Answer
from .options import Json

Kind: TypeAlias = Literal["agent", "chain", "composite", "composition", "experience", "runchain"]


def schema(kind: Annotated[Kind, Parameter(help="Whose documents.")], /, *, json: Json = False) -> Answer:
    """Print the JSON Schema of a notation's documents, for editors and other checkers."""
    from ...dialects.document_schema import schema_of  # which has all notations

    found = schema_of(kind)
    return Answer(data=found, text=orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
