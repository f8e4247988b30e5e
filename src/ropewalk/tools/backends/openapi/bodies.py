"""The bodies of requests: JSON, forms, multipart uploads, text and bytes.

A file is a text, `{"base64": ...}` or `{"text": ...}` with `filename` and `type`, or a part of content (`$content`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final
from uuid import uuid4

import orjson

from ....content import KEY, content_bytes
from ....errors import InvalidTool, RopewalkError
from ....fast_dataclass import dataclass
from ....values import Json
from ..http import InvalidRequest
from .parameters import Parameter, pairs
from .references import Part, References
from .schemas import Schemas

_JSON: Final = re.compile(r"application/(?:json|[\w.+-]+\+json)|\*/\*")
_FORM: Final = "application/x-www-form-urlencoded"
_TEXT: Final = re.compile(r"text/.+|application/(?:[\w.+-]+\+)?(?:xml|yaml)|application/(?:jsonl|x-ndjson|graphql)")
_BYTES: Final = "application/octet-stream"
FILE_SCHEMA: Final[dict[str, Json]] = {
    "description": 'A text, or a file: {"base64": "...", "filename": "a.pdf", "type": "application/pdf"}',
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("base64", "text", "filename", "type")},
            "anyOf": [{"required": ["base64"]}, {"required": ["text"]}],
        },
        {"type": "object", "required": [KEY]},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The body of an operation."""

    # `json`, `form`, `multipart`, `text` or `bytes`.
    kind: str
    media_type: str
    # The declared style of each field of a form.
    fields: Mapping[str, Parameter] = field(default_factory=dict)
    # The declared media type of each field.
    types: Mapping[str, str] = field(default_factory=dict)
    # The fields that are files.
    files: frozenset[str] = frozenset()

    def write(self, value: Json) -> tuple[bytes, str]:
        """Return the bytes of a value, and their content type."""
        if self.kind == "json":
            return orjson.dumps(value), self.media_type
        if self.kind in ("form", "multipart"):
            if not isinstance(value, dict):
                raise InvalidRequest(f"a body of {self.media_type} must be an object of fields")
            return self._write_form(value) if self.kind == "form" else self._write_multipart(value)
        data, _, kind = _file(value)
        return data, kind if self.kind == "bytes" and kind is not None else self.media_type

    def _write_form(self, value: dict[str, Json]) -> tuple[bytes, str]:
        written: list[str] = []
        for name, item in value.items():
            if item is None:
                continue
            written += [
                f"{pair.name}={pair.value}".replace("%20", "+") for pair in pairs(self._field(name, item), item)
            ]
        return "&".join(written).encode(), _FORM

    def _field(self, name: str, item: Json) -> Parameter:
        """Return how a field is written: as declared, else lists as repeated fields and objects as JSON."""
        declared = self.fields.get(name)
        if declared is not None:
            return declared
        is_nested = isinstance(item, dict) or (
            isinstance(item, list) and any(isinstance(inner, (dict, list)) for inner in item)
        )
        kind = self.types.get(name) or ("application/json" if is_nested else None)
        content = kind if kind is not None and "json" in kind else None
        return Parameter(argument=f"body.{name}", name=name, where="query", explode=True, content=content)

    def _write_multipart(self, value: dict[str, Json]) -> tuple[bytes, str]:
        boundary = uuid4().hex
        parts: list[bytes] = []
        for name, item in value.items():
            for one in item if isinstance(item, list) else [item]:
                if one is None:
                    continue
                data, filename, kind = self._part(name, one)
                head = f'Content-Disposition: form-data; name="{_quoted(name)}"'
                if filename is not None:
                    head += f'; filename="{_quoted(filename)}"'
                if kind is not None:
                    head += f"\r\nContent-Type: {_one_line(kind)}"
                parts.append(b"--" + boundary.encode() + b"\r\n" + head.encode() + b"\r\n\r\n" + data + b"\r\n")
        return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"{self.media_type}; boundary={boundary}"

    def _part(self, name: str, item: Json) -> tuple[bytes, str | None, str | None]:
        kind = self.types.get(name)
        if name in self.files or (isinstance(item, dict) and KEY in item):
            data, filename, own = _file(item)
            return data, filename or name, own or kind or _BYTES
        if isinstance(item, (dict, list)) or (kind is not None and "json" in kind):
            return orjson.dumps(item), None, kind or "application/json"
        text = item if isinstance(item, str) else orjson.dumps(item).decode()
        return _encoded(text), None, kind


def read_body(schemas: Schemas, references: References, outer: Any, file: str) -> tuple[Body, Json]:
    """Read a request body: how it is written, and the schema of its argument."""
    content = outer.get("content")
    if not isinstance(content, dict) or not content:
        raise InvalidTool("its body has no content")
    kinds = {name: name.partition(";")[0].strip().lower() for name in content}
    for wanted in ("json", "form", "multipart", "text", "bytes"):
        names = [name for name, kind in kinds.items() if _kind_of(kind) == wanted]
        if not names:
            continue
        name = next((n for n in names if kinds[n] == "application/json"), names[0])
        media_type = "application/json" if kinds[name] == "*/*" else name
        media = references.follow(content[name] or {}, file)
        source = media.value.get("schema", {})
        if wanted in ("text", "bytes"):
            schema = FILE_SCHEMA if wanted == "bytes" else {"type": "string"}
            if "*" in media_type:
                media_type = "text/plain" if wanted == "text" else _BYTES
            return Body(kind=wanted, media_type=media_type), schema
        if wanted == "json":
            return Body(kind="json", media_type=media_type), schemas.convert(source, media.file, for_input=True)
        form = references.follow(source, media.file)
        schema = schemas.convert(form.value, form.file, for_input=True)
        return _read_form(references, media.value, form, wanted, media_type, schema)
    raise InvalidTool(f"a body of {', '.join(content)} cannot be made from JSON arguments")


def _kind_of(media_type: str) -> str:
    if _JSON.fullmatch(media_type):
        return "json"
    if media_type == _FORM:
        return "form"
    if media_type in ("multipart/form-data", "multipart/mixed"):
        return "multipart"
    return "text" if _TEXT.fullmatch(media_type) else "" if media_type.startswith("multipart/") else "bytes"


def _read_form(
    references: References, media: Any, source: Part, kind: str, media_type: str, schema: Any
) -> tuple[Body, Json]:
    fields: dict[str, Parameter] = {}
    types: dict[str, str] = {}
    encodings = media.get("encoding")
    for name, encoding in encodings.items() if isinstance(encodings, dict) else ():
        if not isinstance(encoding, dict):
            continue
        if isinstance(encoding.get("contentType"), str):
            types[name] = encoding["contentType"].partition(",")[0].strip()
        if encoding.keys() & {"style", "explode", "allowReserved"}:
            style = encoding.get("style") or "form"
            fields[name] = Parameter(
                argument=f"body.{name}",
                name=name,
                where="query",
                style=style,
                explode=encoding.get("explode", style in ("form", "deepObject")) is True,
                allow_reserved=encoding.get("allowReserved") is True,
            )
    properties = source.value.get("properties")
    files = frozenset(
        name
        for name, inner in (properties.items() if kind == "multipart" and isinstance(properties, dict) else ())
        if _is_file(references, inner, source.file, types.get(name))
    )
    if files:
        schema = {**schema, "properties": {**schema["properties"], **_file_schemas(properties, files)}}
    return Body(kind=kind, media_type=media_type, fields=fields, types=types, files=files), schema


def _file_schemas(properties: Any, files: frozenset[str]) -> dict[str, Json]:
    schemas: dict[str, Json] = {}
    for name in sorted(files):
        source = properties[name]
        is_list = isinstance(source, dict) and source.get("type") == "array"
        schemas[name] = {"type": "array", "items": FILE_SCHEMA} if is_list else FILE_SCHEMA
    return schemas


def _is_file(references: References, source: Any, file: str, media_type: str | None) -> bool:
    part = references.follow(source, file) if isinstance(source, dict) else None
    schema = part.value if part is not None else {}
    if part is not None and schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        schema = references.follow(schema["items"], part.file).value
    if schema.get("format") in ("binary", "base64") or schema.get("type") == "file":
        return True
    if any(isinstance(schema.get(key), str) for key in ("contentMediaType", "contentEncoding")):
        return True
    return media_type is not None and _kind_of(media_type.lower()) == "bytes"


def _file(value: Json) -> tuple[bytes, str | None, str | None]:
    """Return the bytes, the file name and the media type of a value."""
    if not isinstance(value, dict):
        return (_encoded(value) if isinstance(value, str) else orjson.dumps(value)), None, None
    if KEY in value:
        try:
            return content_bytes(value), value[KEY].get("name"), value[KEY].get("mimeType")
        except RopewalkError as error:
            raise InvalidRequest(f"the content cannot be read: {error}") from error
    filename, kind = value.get("filename"), value.get("type")
    if isinstance(value.get("base64"), str):
        try:
            return base64.b64decode(value["base64"], validate=True), filename, kind
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest(f"base64 is not valid: {error}") from error
    if isinstance(value.get("text"), str):
        return _encoded(value["text"]), filename, kind
    return orjson.dumps(value), None, None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("a text of the body contains a lone surrogate") from None


def _quoted(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise InvalidRequest(f"{text!r} is not a media type")
    return text
