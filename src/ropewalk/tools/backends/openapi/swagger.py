"""Swagger 2.0 as OpenAPI 3: what is written in another way there is converted, one object at a time.

References stay as they are, because a document keeps its own places (`#/definitions/Pet`).
"""

from __future__ import annotations

from typing import Any, Final

_STYLES: Final = {"ssv": "spaceDelimited", "tsv": "spaceDelimited", "pipes": "pipeDelimited"}
_NOT_SCHEMA: Final = frozenset(("name", "in", "required", "description", "collectionFormat", "allowEmptyValue"))
_FLOWS: Final = {"application": "clientCredentials", "accessCode": "authorizationCode"}


def servers(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the server of a Swagger document; without a host, it is the one that the document comes from."""
    path = "/" + str(document.get("basePath") or "").lstrip("/")
    host = document.get("host")
    if not isinstance(host, str) or not host:
        return [{"url": path}]
    schemes = [scheme for scheme in document.get("schemes") or ("https",) if scheme in ("http", "https")]
    scheme = "https" if "https" in schemes or not schemes else schemes[0]
    return [{"url": f"{scheme}://{host}{path}"}]


def security_schemes(document: dict[str, Any]) -> dict[str, Any]:
    """Return the security schemes of a Swagger document."""
    schemes: dict[str, Any] = {}
    defined = document.get("securityDefinitions")
    for name, scheme in defined.items() if isinstance(defined, dict) else ():
        if not isinstance(scheme, dict):
            continue
        if scheme.get("type") == "basic":
            schemes[name] = {"type": "http", "scheme": "basic"}
        elif scheme.get("type") == "oauth2":
            flow = {key: scheme[key] for key in ("tokenUrl", "authorizationUrl", "scopes") if key in scheme}
            schemes[name] = {"type": "oauth2", "flows": {_FLOWS.get(str(scheme.get("flow")), "implicit"): flow}}
        else:
            schemes[name] = scheme
    return schemes


def parameter(source: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter whose type is written as a schema."""
    schema = {key: value for key, value in source.items() if key not in _NOT_SCHEMA}
    kept: dict[str, Any] = {key: source[key] for key in ("name", "in", "required", "description") if key in source}
    collection = source.get("collectionFormat", "csv")
    if schema.get("type") != "array":
        return {**kept, "schema": schema}
    form = kept.get("in") in ("query", "formData")
    if collection == "multi":
        return {**kept, "schema": schema, "style": "form", "explode": True}
    style = _STYLES.get(collection, "form") if form else "simple"
    return {**kept, "schema": schema, "style": style, "explode": False}


def form_body(fields: list[dict[str, Any]], consumes: list[str]) -> dict[str, Any]:
    """Return the request body that the `formData` parameters of an operation describe."""
    converted = [parameter(field) for field in fields]
    has_file = any(field["schema"].get("type") == "file" for field in converted)
    kind = "multipart/form-data" if has_file or consumes == ["multipart/form-data"] else _form_type(consumes)
    properties: dict[str, Any] = {}
    encoding: dict[str, Any] = {}
    for field in converted:
        description = {"description": field["description"]} if isinstance(field.get("description"), str) else {}
        inner = field["schema"]
        if inner.get("type") == "file":
            inner = {**inner, "type": "string", "format": "binary"}
        properties[field["name"]] = {**inner, **description}
        if "style" in field:
            encoding[field["name"]] = {"style": field["style"], "explode": field["explode"]}
    required = [field["name"] for field in converted if field.get("required") is True]
    schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    return {"required": bool(required), "content": {kind: {"schema": schema, "encoding": encoding}}}


def _form_type(consumes: list[str]) -> str:
    form = "application/x-www-form-urlencoded"
    return "multipart/form-data" if "multipart/form-data" in consumes and form not in consumes else form


def schema_body(source: dict[str, Any], consumes: list[str]) -> dict[str, Any]:
    """Return the request body that the `body` parameter of an operation describes."""
    media = {"schema": source.get("schema", {})}
    return {
        "required": source.get("required") is True,
        "description": source.get("description"),
        "content": dict.fromkeys(consumes or ["application/json"], media),
    }


def response(source: dict[str, Any], produces: list[str]) -> dict[str, Any]:
    """Return a response whose schema is written by media type."""
    if "schema" not in source:
        return source
    kind = "application/json" if not produces or "application/json" in produces else produces[0]
    return {**source, "content": {kind: {"schema": source["schema"]}}}
