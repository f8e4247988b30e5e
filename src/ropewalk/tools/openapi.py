"""An OpenAPI 3.x document as tools: one per operation, called over HTTP.

Parameters of path, query, header and cookie become properties of the arguments under their own names; a
request body is the property `body`. References inside the document are resolved, none out of it. An
operation that cannot be a tool (a multipart body, a path that leaves the configured address) is listed in `skipped`
with the reason. Headers that belong to the project or to HTTP are never taken from arguments.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ..config.network import AddressPolicy
from ..errors import ConfigError, InvalidTool
from ..frozen import dataclass
from ..values import Json, closest
from .http import CannotBeSent, Http, Request, checked_base, is_header_name
from .mcp_definition import Definition
from .openapi_path import PathTemplate, path_template
from .openapi_schema import Components, as_document
from .provider import open_events
from .result import StreamEvent
from .tool import Tool, ToolBackend

_METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_JSON: Final = re.compile(r"application/(?:json|[\w.+-]+\+json)")
_FORM: Final = "application/x-www-form-urlencoded"
_IGNORED_HEADERS: Final = frozenset(("accept", "authorization", "content-type"))
"""OpenAPI says that parameters of these names are ignored: they are described elsewhere in a document."""
_REFUSED_HEADERS: Final = frozenset(
    ("connection", "content-length", "cookie", "expect", "forwarded", "host", "keep-alive", "proxy-authenticate",
     "proxy-authorization", "proxy-connection", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade")
)  # fmt: skip
"""Headers that decide where a request goes and where it ends; no argument may set them."""
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
    """How to make the request of one tool; `body` is "json", "form" or None. Its address begins with `base`."""

    method: str
    base: str
    path: str
    template: PathTemplate
    parameters: tuple[Parameter, ...]
    body: str | None

    @property
    def url(self) -> str:
        """The address as the document writes it, with the names of its parameters."""
        return self.base + self.path

    def request(self, args: dict[str, Json], key: str | None, accept: str) -> Request:
        """The request for these arguments; CannotBeSent where one cannot be a part of a path or a query."""
        steps: dict[str, str] = {}
        query: list[tuple[str, str]] = []
        headers: dict[str, str] = {"Accept": accept}
        cookies: list[str] = []
        for parameter in self.parameters:
            value = args.get(parameter.argument)
            if value is None:
                continue
            if parameter.where == "path":
                steps[parameter.name] = _joined(value)
            elif parameter.where == "query":
                query.extend(self._pairs(parameter, value))
            elif parameter.where == "header":
                headers[parameter.name] = _joined(value)
            else:
                cookies.append(f"{parameter.name}={_encoded(parameter.name, _joined(value))}")
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        body = args.get("body")
        return Request(
            method=self.method.upper(),
            url=self.base + self.template.fill(steps),
            query=tuple(query),
            headers=headers,
            json=body,
            has_json=self.body == "json" and "body" in args,
            form=_form(body) if self.body == "form" and isinstance(body, dict) else None,
            key=key,
        )

    def _pairs(self, parameter: Parameter, value: Json) -> list[tuple[str, str]]:
        """A query parameter as names and values; CannotBeSent where a key of an object is another parameter's name."""
        pairs = _pairs(parameter, value)
        others = {one.name for one in self.parameters if one.where == "query"} - {parameter.name}
        if taken := [name for name, _ in pairs if name in others]:
            raise CannotBeSent(f"the key {taken[0]!r} of {parameter.argument!r} is the name of another query parameter")
        return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A document read: the address of its server, its tools, each operation by the tool's name, and what was left out
    and why."""

    base: str
    tools: tuple[Tool, ...]
    operations: Mapping[str, Operation]
    skipped: Mapping[str, str] = field(default_factory=dict)


class OpenApiProvider:
    """Calls the operations of one document; safe for concurrent use."""

    def __init__(
        self, api: Api, headers: Mapping[str, str], *, place: str, policy: AddressPolicy | None = None
    ) -> None:
        self._api = api
        self._http = Http(headers, place=place, base=api.base, policy=policy)

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
    headers: Iterable[str] = (),
    read_only: Iterable[str] = (),
) -> Api:
    """Read a document as the tools of a provider.

    Args:
        source: An object, or the path of a JSON or YAML file.
        name: The provider.
        url: The address of the server, in place of the one that the document names.
        annotations: Annotations of every tool.
        headers: The names of the configured headers. Parameters of these names are left out.
        read_only: Names of operations, or patterns such as `get_*`, that change nothing.

    Returns:
        The tools. An operation that cannot be one, or that would leave the address, is in `skipped`.

    Raises:
        ConfigError: The document is not OpenAPI 3.x, it names no absolute server, or `read_only` names no operation.
    """
    place = f"provider {name!r}: openapi"
    document = as_document(source, place)
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise ConfigError(f"{place}: only OpenAPI 3.x is read, not {document.get('swagger') or version!r}")
    components = Components(document)
    base = url or _server(document, place)
    own = frozenset(header.lower() for header in headers)
    patterns = tuple(read_only)
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
                operation, schema = _operation(components, base, path, method, shared, given, own)
                notes = _hints(label, patterns) | (annotations or {})
                tools.append(_tool(components, name, label, method, path, given, schema, notes))
            except InvalidTool as error:
                skipped[label] = f"{method.upper()} {path}: {error}"
                continue
            operations[label] = operation
    _check_patterns(patterns, (*operations, *skipped), place)
    return Api(base=base, tools=tuple(tools), operations=operations, skipped=skipped)


def _hints(label: str, read_only: tuple[str, ...]) -> dict[str, Json]:
    """What the project says of an operation. A document says nothing by its methods: a GET may change things."""
    return {"readOnlyHint": True} if any(fnmatchcase(label, pattern) for pattern in read_only) else {}


def _check_patterns(read_only: tuple[str, ...], labels: tuple[str, ...], place: str) -> None:
    for pattern in read_only:
        if not any(fnmatchcase(label, pattern) for label in labels):
            near = closest(pattern, labels)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ConfigError(f"{place}: read_only: {pattern!r} is the name of no operation{hint}")


def _tool(
    components: Components, provider: str, label: str, method: str, path: str, given: Any, schema: Any, notes: Any
) -> Tool:
    text = "\n\n".join(t for t in (given.get("summary"), given.get("description")) if isinstance(t, str) and t.strip())
    return Tool(
        label,
        text or f"{method.upper()} {path}",
        schema,
        _output(components, given),
        namespace=provider,
        tags=[tag for tag in given.get("tags") or () if isinstance(tag, str)],
        annotations=notes or None,
        backend=ToolBackend.provider(provider, label),
    )


def _operation(
    components: Components, base: str, path: str, method: str, shared: Any, given: Any, own: frozenset[str]
) -> tuple[Operation, dict[str, Json]]:
    """How to call one operation, and the schema of its arguments; `own` has the names of the configured headers."""
    template = path_template(path)
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
        if not _is_argument(where, name, own):
            continue
        argument = name if name not in properties and name != "body" else f"{where}_{name}"
        properties[argument] = components.parameter_schema(one)
        if one.get("required") is True or where == "path":
            required.append(argument)
        style = one.get("style") or ("form" if where in ("query", "cookie") else "simple")
        explode = one.get("explode", style in ("form", "deepObject"))
        parameters.append(Parameter(argument=argument, name=name, where=where, explode=explode, style=style))
    if undescribed := template.names - {one.name for one in parameters if one.where == "path"}:
        raise InvalidTool(f"no parameter describes {{{min(undescribed)}}} in the path")
    body = None
    if given.get("requestBody") is not None:
        outer = components.resolve(given["requestBody"])
        body, properties["body"] = _body(components, outer)
        if outer.get("required") is True:
            required.append("body")
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    operation = Operation(
        method=method, base=base, path=path, template=template, parameters=tuple(parameters), body=body
    )
    return operation, components.closed(schema)


def _is_argument(where: str, name: str, own: frozenset[str]) -> bool:
    """Return True if arguments may set this parameter; InvalidTool for one that no request may have."""
    if where not in ("header", "cookie"):
        return True
    if not is_header_name(name):
        raise InvalidTool(f"{name!r} is not the name of a {where}")
    if where == "cookie":
        return "cookie" not in own
    if name.lower() in _REFUSED_HEADERS:
        raise InvalidTool(f"the header {name!r} cannot be a parameter: it decides where a request goes or ends")
    return name.lower() not in own | _IGNORED_HEADERS


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
    return checked_base(url, place)


def _encoded(name: str, text: str) -> str:
    try:
        return quote(text)
    except UnicodeEncodeError:
        raise CannotBeSent(f"cookie {name!r} is not valid text: it holds a lone surrogate") from None


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
