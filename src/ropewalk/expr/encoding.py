"""Functions that give the bytes of content to tools which take them as text."""

from __future__ import annotations

import base64

from ..content import about_of, content_bytes
from ..errors import ExpressionError, InvalidValue, NotFound
from ..values import Json
from .budget import Budget, grow
from .table import function, wants


@function("base64", 1, returns="string", budget=True)
def _base64(budget: Budget | None, value: Json) -> Json:
    return None if value is None else _encoded("base64", budget, value)


@function("dataUri", 1, returns="string", budget=True)
def _data_uri(budget: Budget | None, value: Json) -> Json:
    if value is None:
        return None
    about = about_of(value)
    if about is None:
        raise wants("dataUri", "a part of content", value)
    return f"data:{about.get('mimeType') or 'application/octet-stream'};base64,{_encoded('dataUri', budget, value)}"


def _encoded(name: str, budget: Budget | None, value: Json) -> str:
    if type(value) is str:
        data = value.encode()
    elif about_of(value) is None:
        raise wants(name, "a string or a part of content", value)
    else:
        try:
            data = content_bytes(value)
        except (InvalidValue, NotFound) as error:
            raise ExpressionError(f"{name}: {error}") from error
    grow(budget, len(data) * 4 // 3)
    return base64.b64encode(data).decode()
