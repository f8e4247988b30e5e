"""How the parameters of an operation are written into its request: the styles of OpenAPI 3.2.

Every value is percent-encoded by itself, so that a delimiter inside a value differs from one between values. A value
that a style cannot write, such as a list inside a list, is refused before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson

from ....fast_dataclass import dataclass
from ....values import Json
from ..http import InvalidRequest

_SEPARATORS: Final = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
_RESERVED: Final = {"query": ":/?@!$'()*,;=", "path": ":@!$&'()*+,;=", "cookie": ":/?@!$&'()*+="}
_TRIPLE: Final = re.compile(r"(%[0-9A-Fa-f]{2})")
STYLES: Final = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of an operation, or a field of a form."""

    # The argument of the tool that has the value.
    argument: str
    # The name in the request.
    name: str
    # path, query, querystring, header or cookie.
    where: str
    # Write the elements of a list or object separately.
    explode: bool = False
    # The style of OpenAPI, such as `form` or `deepObject`.
    style: str = "form"
    allow_reserved: bool = False
    # The media type of a parameter with `content`, or None.
    content: str | None = None


class Pair(NamedTuple):
    """A field of a query or form: its name as text, and both as they are sent."""

    key: str
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


def path_step(parameter: Parameter, value: Json) -> str:
    """Write a path parameter, encoded."""
    name = _encode(parameter, parameter.name)
    prefix, separator = {"label": (".", "."), "matrix": (";", ";")}.get(parameter.style, ("", ","))
    if not parameter.explode:
        separator = ","
    is_matrix = parameter.style == "matrix"
    if parameter.content is not None or not isinstance(value, (list, dict)):
        text = _encode(parameter, content_text(parameter, value))
        return f";{name}={text}" if is_matrix and text else f";{name}" if is_matrix else prefix + text
    if isinstance(value, dict):
        items = [(_encode(parameter, key), _encode(parameter, item)) for key, item in _scalars(parameter, value)]
        if parameter.explode:
            return prefix + separator.join(f"{key}={item}" for key, item in items)
        joined = ",".join(part for pair in items for part in pair)
    else:
        texts = [_encode(parameter, item) for _, item in _scalars(parameter, value)]
        if is_matrix and parameter.explode:
            return "".join(f";{name}={text}" for text in texts)
        joined = separator.join(texts)
    return f";{name}={joined}" if is_matrix else prefix + joined


def header_text(parameter: Parameter, value: Json) -> str:
    """Write a header parameter; headers are not percent-encoded."""
    if parameter.content is not None or not isinstance(value, (list, dict)):
        return content_text(parameter, value)
    if isinstance(value, list):
        return ",".join(text for _, text in _scalars(parameter, value))
    between = "=" if parameter.explode else ","
    return ",".join(f"{key}{between}{text}" for key, text in _scalars(parameter, value))


def pairs(parameter: Parameter, value: Json) -> list[Pair]:
    """Write a query parameter, a cookie or a field of a form as pairs."""
    own = parameter.name
    if parameter.style == "deepObject" and isinstance(value, (list, dict)) and parameter.content is None:
        return [Pair(key, quote(key, safe=""), _encode(parameter, text)) for key, text in _deep(own, value, parameter)]
    name = quote(own, safe="") if parameter.style != "cookie" else own
    if parameter.content is not None or not isinstance(value, (list, dict)):
        return [Pair(own, name, _encode(parameter, content_text(parameter, value)))]
    items = [(key, _encode(parameter, text)) for key, text in _scalars(parameter, value)]
    if not items:
        return []
    if parameter.explode and isinstance(value, list):
        return [Pair(own, name, text) for _, text in items]
    if parameter.explode:
        return [Pair(key, _encode(parameter, key), text) for key, text in items]
    texts = [text for _, text in items]
    if isinstance(value, dict):
        texts = [part for key, text in items for part in (_encode(parameter, key), text)]
    return [Pair(own, name, _SEPARATORS.get(parameter.style, ",").join(texts))]


def content_text(parameter: Parameter, value: Json) -> str:
    """Return the text of a scalar, or of any value that a media type writes."""
    if parameter.content is not None and "json" in parameter.content:
        return orjson.dumps(value).decode()
    return _scalar(parameter, value)


def _deep(name: str, value: Json, parameter: Parameter) -> Iterator[tuple[str, str]]:
    if isinstance(value, (list, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _deep(f"{name}[{key}]", item, parameter)
    elif value is not None:
        yield name, _scalar(parameter, value)


def _scalars(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    items = value.items() if isinstance(value, dict) else (("", item) for item in value)
    return [(key, _scalar(parameter, item)) for key, item in items if item is not None]


def _scalar(parameter: Parameter, value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        kind = "a list" if isinstance(value, list) else "an object"
        raise InvalidRequest(
            f"parameter {parameter.argument!r}: the style {parameter.style} cannot write {kind} inside another value"
        )
    return str(value)


def _encode(parameter: Parameter, text: str) -> str:
    if parameter.style == "cookie":
        return text
    try:
        if not parameter.allow_reserved:
            return quote(text, safe="")
        # Triples that are encoded already pass; delimiters of the place are always encoded.
        safe = _RESERVED.get(parameter.where, "")
        return "".join(part if i % 2 else quote(part, safe=safe) for i, part in enumerate(_TRIPLE.split(text)))
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"{parameter.where} parameter {parameter.name!r} is not valid text: it contains a lone surrogate"
        ) from None
