"""`schema`: the JSON Schema of a notation's documents, for editors."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Literal

import orjson
from cyclopts import Parameter

from .answer import Answer
from .options import Json


def schema(
    kind: Annotated[Literal["agent", "experience"], Parameter(help="Whose documents.")], /, *, json: Json = False
) -> Answer:
    """Print the JSON Schema of a notation's documents, for editors and other checkers."""
    text = files("ropewalk.dialects").joinpath(f"{kind}.schema.json").read_text(encoding="utf-8")
    return Answer(data=orjson.loads(text), text=text)
