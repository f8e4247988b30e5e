"""An OpenAPI 3.x document as tools: one per operation, called over HTTP.

Parameters of path, query, header and cookie become properties of the arguments under their own names; a
request body is the property `body`. References inside the document are resolved, none out of it. An
operation that cannot be a tool (a multipart body, a reference to nothing) is listed in `skipped` with the reason.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urljoin

from ..errors import ConfigError, InvalidTool
from ..frozen import dataclass
from ..values import Json
from .http import CannotBeSent, Http, Request, checked_url
from .mcp_definition import Definition
from .openapi_schema import Components, as_document
from .provider import open_events
from .result import StreamEvent
from .tool import Tool, ToolBackend

_METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_SAFE: Final = frozenset(("get", "head", "options"))
_JSON: Final = re.compile(r"application/(?:json|[\w.+-]+\+json)")
_FORM: Final = "application/x-www-form-urlencoded"
_NOT_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: the argument it comes from, its name and where it goes."""

    argument: str
    name: str
    where: str
    explode: bool
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How to make the request of one tool; `body` is "json", "form" or None."""

    method: str
    url: str
    parameters: tuple[Parameter, ...]
    body: str | None

    def request(self, args: dict[str, Json], key: str | None, accept: str) -> Request:
        """The request for these arguments; ValueError where one cannot stand in a path."""
        url = self.url
        query: list[tuple[str, str]] = []
        headers: dict[str, str] = {"Accept": accept}
        cookies: list[str] = []
        for parameter in self.parameters:
            value = args.get(parameter.argument)
            if value is None:
                continue
            if parameter.where == "path":
                url = url.replace("{" + parameter.name + "}", _segment(parameter.name, value))
            elif parameter.where == "query":
                query.extend(_pairs(parameter, value))
            elif parameter.where == "header":
                headers[parameter.name] = _joined(value)
            else:
                cookies.append(f"{parameter.name}={quote(_joined(value))}")
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        if key is not None:
            headers["Idempotency-Key"] = key
        body = args.get("body")
        return Request(
            method=self.method.upper(),
            url=url,
            query=tuple(query),
            headers=headers,
            json=body,
            has_json=self.body == "json" and "body" in args,
            form=_form(body) if self.body == "form" and isinstance(body, dict) else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A document read: its tools, each operation by the tool's name, and what was left out and why."""

    tools: tuple[Tool, ...]
    operations: Mapping[str, Operation]
    skipped: Mapping[str, str] = field(default_factory=dict)


class OpenApiProvider:
    """Calls the operations of one document; safe for concurrent use."""

    def __init__(self, api: Api, headers: Mapping[str, str], *, place: str) -> None:
        self._api = api
        self._http = Http(headers, place=place)

    def definitions(self) -> list[Definition]:
        """What the document says of each tool, and where its requests go."""
        return [
            Definition(
                name=tool.name,
                description=tool.description,
                input_schema=tool.input_schema,
                output_schema=tool.output_schema,
                annotations={key: v for key, v in (tool.annotations or {}).items() if key != "timeout"} or None,
                request=f"{self._api.operations[tool.name].method.upper()} {self._api.operations[tool.name].url}",
            )
            for tool in self._api.tools
        ]

    async def call_tool(self, tool_id: str, args: dict[str, Json], *, key: str | None = None) -> Json:
        """The JSON answer of one operation; HttpFailure quotes an answer that is an error."""
        return await self._http.fetch(self._operation(tool_id).request(args, key, "application/json, text/*;q=0.5"))

    async def call_tool_stream(
        self, tool_id: str, args: dict[str, Json], *, key: str | None = None
    ) -> AsyncGenerator[StreamEvent, None] | None:
        """The events of one operation, or None when its answer is no stream."""
        request = self._operation(tool_id).request(args, key, "text/event-stream, application/x-ndjson")
        return await open_events(self._http, request)

    async def close(self) -> None:
        await self._http.close()

    def _operation(self, tool_id: str) -> Operation:
        found = self._api.operations.get(tool_id)
        if found is None:
            raise ConfigError(f"the document has no operation {tool_id!r}")
        return found


def read_openapi(
    source: dict[str, Json] | str | Path,
    *,
    name: str,
    url: str | None = None,
    annotations: dict[str, Json] | None = None,
) -> Api:
    """Read a document (an object, or the path of a JSON or YAML file) as the tools of provider `name`.

    `url` replaces the document's server. Raises ConfigError when it is not OpenAPI 3.x, or names no absolute
    server; an operation that refers outside of it is left out.
    """
    place = f"provider {name!r}: openapi"
    document = as_document(source, place)
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise ConfigError(f"{place}: only OpenAPI 3.x is read, not {document.get('swagger') or version!r}")
    components = Components(document)
    base = url or _server(document, place)
    tools: list[Tool] = []
    operations: dict[str, Operation] = {}
    skipped: dict[str, str] = {}
    for path, item in (document.get("paths") or {}).items():
        try:
            shared = components.resolve(item)
        except InvalidTool as error:
            skipped[_NOT_NAME.sub("_", path).strip("_")] = f"{path}: {error}"
            continue
        for method in _METHODS:
            if not isinstance(shared.get(method), dict):
                continue
            given = shared[method]
            label = _name(given, method, path, operations)
            try:
                operation, schema = _operation(components, base, path, method, shared, given)
                tools.append(_tool(components, name, label, method, path, given, schema, annotations or {}))
            except InvalidTool as error:
                skipped[label] = f"{method.upper()} {path}: {error}"
                continue
            operations[label] = operation
    return Api(tools=tuple(tools), operations=operations, skipped=skipped)


def _tool(
    components: Components, provider: str, label: str, method: str, path: str, given: Any, schema: Any, notes: Any
) -> Tool:
    text = "\n\n".join(t for t in (given.get("summary"), given.get("description")) if isinstance(t, str) and t.strip())
    hints = {"readOnlyHint": True} if method in _SAFE else {}
    return Tool(
        label,
        text or f"{method.upper()} {path}",
        schema,
        _output(components, given),
        namespace=provider,
        tags=[tag for tag in given.get("tags") or () if isinstance(tag, str)],
        annotations={**hints, **notes} or None,
        backend=ToolBackend.provider(provider, label),
    )


def _operation(
    components: Components, base: str, path: str, method: str, shared: Any, given: Any
) -> tuple[Operation, dict[str, Json]]:
    """How to call one operation, and the schema of its arguments."""
    found: dict[tuple[str, str], Any] = {}
    for raw in [*(shared.get("parameters") or ()), *(given.get("parameters") or ())]:
        one = components.resolve(raw)
        found[str(one.get("in")), str(one.get("name"))] = one
    properties: dict[str, Json] = {}
    required: list[str] = []
    parameters: list[Parameter] = []
    for (where, name), one in found.items():
        if where not in ("path", "query", "header", "cookie"):
            raise InvalidTool(f"parameter {name!r} in {where!r}")
        argument = name if name not in properties and name != "body" else f"{where}_{name}"
        properties[argument] = components.parameter_schema(one)
        if one.get("required") is True or where == "path":
            required.append(argument)
        style = one.get("style") or ("form" if where in ("query", "cookie") else "simple")
        explode = one.get("explode", style in ("form", "deepObject"))
        parameters.append(Parameter(argument=argument, name=name, where=where, explode=explode, style=style))
    body = None
    if given.get("requestBody") is not None:
        outer = components.resolve(given["requestBody"])
        body, properties["body"] = _body(components, outer)
        if outer.get("required") is True:
            required.append("body")
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    operation = Operation(method=method, url=base + path, parameters=tuple(parameters), body=body)
    return operation, components.closed(schema)


def _body(components: Components, outer: Any) -> tuple[str, Json]:
    content = outer.get("content") or {}
    for kind, media in content.items():
        if _JSON.fullmatch(kind.partition(";")[0].strip()):
            return "json", components.schema(media.get("schema", {}))
    if _FORM in content:
        return "form", components.schema(content[_FORM].get("schema", {}))
    raise InvalidTool(f"a body of {', '.join(content) or 'no kind'} cannot be made from JSON arguments")


def _output(components: Components, given: Any) -> dict[str, Json] | None:
    """The schema of the answer: of the first 2xx that is JSON, and only when no 2xx is anything else."""
    answers = {code: components.resolve(a) for code, a in (given.get("responses") or {}).items() if str(code)[0] == "2"}
    schemas = [_json_schema(components, answer) for answer in answers.values()]
    if len(schemas) != 1 or not isinstance(schemas[0], dict):
        return None
    return components.closed(schemas[0])


def _json_schema(components: Components, answer: Any) -> Json:
    content = answer.get("content") or {}
    if len(content) != 1:
        return None
    kind, media = next(iter(content.items()))
    if not _JSON.fullmatch(kind.partition(";")[0].strip()) or "schema" not in media:
        return None
    return components.schema(media["schema"])


def _name(given: Any, method: str, path: str, taken: Mapping[str, Any]) -> str:
    wanted = given.get("operationId")
    text = wanted if isinstance(wanted, str) and wanted else f"{method}_{path.strip('/')}"
    base = _NOT_NAME.sub("_", text).strip("_")[:120] or method
    label, count = base, 2
    while label in taken:
        label, count = f"{base}_{count}", count + 1
    return label


def _server(document: dict[str, Json], place: str) -> str:
    servers = document.get("servers") or []
    first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], dict) else {}
    url = str(first.get("url", ""))
    for name, variable in (first.get("variables") or {}).items():
        url = url.replace("{" + name + "}", str(variable.get("default", "")))
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{place}: the document names no absolute server ({url or 'none'}); give the url yourself")
    return checked_url(urljoin(url, ""), place)


def _segment(name: str, value: Json) -> str:
    text = _joined(value)
    if text in ("", ".", ".."):
        raise CannotBeSent(f"path parameter {name!r} cannot be {text!r}")
    return quote(text, safe="")


def _pairs(parameter: Parameter, value: Json) -> list[tuple[str, str]]:
    name = parameter.name
    if isinstance(value, list):
        if parameter.explode:
            return [(name, _joined(item)) for item in value]
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(parameter.style, ",")
        return [(name, separator.join(map(_joined, value)))]
    if isinstance(value, dict):
        if parameter.style == "deepObject":
            return [(f"{name}[{key}]", _joined(item)) for key, item in value.items()]
        if parameter.explode:
            return [(key, _joined(item)) for key, item in value.items()]
    return [(name, _joined(value))]


def _joined(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(map(_joined, value))
    if isinstance(value, dict):
        return ",".join(f"{key},{_joined(item)}" for key, item in value.items())
    return str(value)


def _form(body: dict[str, Json]) -> dict[str, Any]:
    return {k: list(map(_joined, v)) if isinstance(v, list) else _joined(v) for k, v in body.items() if v is not None}
