"""The tools of an OpenAPI 3.x document: one per operation, called over HTTP.

Path, query, header and cookie parameters become properties of the arguments; a request body is the property
`body`. An operation that cannot be a tool (a multipart body, a path outside the configured address) is listed in
`skipped` with the reason. Headers that belong to the project or to HTTP are never taken from arguments.

A path leads only below the configured base. Another host or port, a query, `.` and `..` in any spelling, empty
segments and backslashes are refused. A value is one segment of the path, or a part of one.

Schemas become JSON Schema 2020-12: references to `#/components/schemas/X` become `#/$defs/X`, and the dialect of
3.0 (`nullable`, boolean `exclusiveMinimum`) is rewritten. References out of the document are refused.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from orjson import JSONDecodeError

from ...config.network import AddressPolicy
from ...errors import ConfigError, InvalidFlow, InvalidTool, InvalidValue, NotFound, Problem
from ...fast_dataclass import dataclass
from ...values import Json, did_you_mean, parse_json
from ..definition import Definition
from ..tool import StreamEvent, Tool, ToolBackend
from .http import Http, InvalidRequest, Request, check_base_url, is_header_name
from .provider import open_events

_PARAMETER_PATTERN: Final = re.compile(r"\{([^{}]*)\}")
_SAFE_CHARACTERS: Final = "/-._~!$&'()*+,;=:@%"
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN: Final = re.compile(r"[\\?#{}\s\0-\x1f\x7f-\x9f]")
_DOT_SEGMENTS: Final = frozenset((".", ".."))
_MAX_DECODINGS: Final = 5
"""How often a path is decoded when it is checked: servers and proxies may each decode it once."""


_SLASH: Final = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A path with parameters: `parts` alternates between encoded text and the name of a parameter."""

    parts: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The parameters that the path needs."""
        return frozenset(self.parts[1::2])

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the path with its values encoded."""

        # Raises InvalidRequest for a missing value or one that climbs.
        encoded: list[str] = []
        for i, part in enumerate(self.parts):
            if i % 2 == 0:
                encoded.append(part)
                continue
            value = values.get(part)
            if value is None:
                raise InvalidRequest(f"path parameter {part!r} has no value")
            if value in ("", *_DOT_SEGMENTS):
                raise InvalidRequest(f"path parameter {part!r} cannot be {value!r}")
            if _climbs(value):
                raise InvalidRequest(f"path parameter {part!r} cannot have .. as a step: {value!r}")
            try:
                encoded.append(quote(value, safe=""))
            except UnicodeEncodeError:
                raise InvalidRequest(
                    f"path parameter {part!r} is not valid text: it contains a lone surrogate"
                ) from None
        path = "".join(encoded)  # values that are harmless alone may complete a `..` with the text around them
        if any(unquote(step) in _DOT_SEGMENTS for step in path.split("/")):
            raise InvalidRequest(
                f"the values of {', '.join(sorted(self.names))} would leave the path of the operation (`..`)"
            )
        return path


def _climbs(value: str) -> bool:
    """Return True if a server that decodes slashes before it looks at steps would leave the path at this value."""
    for _ in range(_MAX_DECODINGS):
        if any(step.partition(";")[0] == ".." for step in _SLASH.split(value)):
            return True
        if value == (value := unquote(value)):
            break
    return False


def path_template(path: str) -> PathTemplate:
    """Parse the path of an operation."""

    # Raises InvalidTool if it is not allowed.
    parts = _PARAMETER_PATTERN.split(path)
    text = _PARAMETER_PATTERN.sub("x", path)  # values contain no slash, so any letter can represent them
    if not path.startswith("/"):
        raise InvalidTool("a path must begin with /, so that it cannot change the host or the port")
    if (match := _FORBIDDEN.search(text)) is not None:
        raise InvalidTool(f"a path cannot have {match[0]!r}")
    if _BROKEN_ESCAPE.search(text):
        raise InvalidTool("a path can contain % only before two hexadecimal digits")
    _check_steps(text)
    try:
        return PathTemplate(
            tuple(quote(part, safe=_SAFE_CHARACTERS) if i % 2 == 0 else part for i, part in enumerate(parts))
        )
    except UnicodeEncodeError:
        raise InvalidTool("a path cannot have a lone surrogate") from None


def _check_steps(text: str) -> None:
    """Raise InvalidTool if a path could climb, even if servers decode it several times."""
    steps = text.split("/")[1:]
    if "" in steps[:-1]:
        raise InvalidTool("a path cannot have an empty step (//)")
    for step in steps:
        for _ in range(_MAX_DECODINGS):
            # Some servers remove everything after a semicolon first.
            if step.partition(";")[0] in _DOT_SEGMENTS:
                raise InvalidTool("a path cannot have . or .. as a step, also not as %2e")
            if "/" in step or "\\" in step or "\0" in step:
                raise InvalidTool("a path cannot have an encoded slash, backslash or NUL (%2f, %5c, %00)")
            if step == (step := unquote(step)):
                break
        else:
            raise InvalidTool(f"a path cannot be encoded more than {_MAX_DECODINGS} times")


_SCHEMAS: Final = "#/components/schemas/"
_MAX_REFERENCES: Final = 50
_DATA_KEYWORDS: Final = frozenset(("enum", "const", "default", "example", "examples"))
_SCHEMA_MAPS: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))


class Components:
    """Resolves the references of one document."""

    # An invalid one raises InvalidTool for the operation that needs it.

    def __init__(self, document: dict[str, Json]) -> None:
        self._document = document

    def resolve(self, value: Any) -> dict[str, Any]:
        """Return a path item, parameter, body or response, with its reference followed."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(value, dict):
                raise InvalidTool(f"expected an object, not {type(value).__name__}")
            ref = value.get("$ref")
            if not isinstance(ref, str):
                return value
            value = self._target(ref)
        raise InvalidTool("its references form a cycle")

    def parameter_schema(self, parameter: dict[str, Any]) -> Json:
        """Return the schema of a parameter with its description."""
        inner = parameter.get("schema")
        if inner is None:
            media: Any = next(iter((parameter.get("content") or {}).values()), {})
            inner = media.get("schema", {})
        schema = self.schema(inner)
        text = parameter.get("description")
        return {"description": text, **schema} if isinstance(text, str) and isinstance(schema, dict) else schema

    def schema(self, source: Any) -> Json:
        """Convert a schema; references become `#/$defs/...`, whose targets `with_definitions` adds."""
        if isinstance(source, bool):
            return source
        if not isinstance(source, dict):
            raise InvalidTool(f"a schema must be an object, not {type(source).__name__}")
        converted: dict[str, Json] = {}
        for key, value in source.items():
            if key == "$ref" and isinstance(value, str):
                converted[key] = f"#/$defs/{_pointer_name(value)}"
            elif key in _DATA_KEYWORDS:
                converted[key] = value
            elif key in _SCHEMA_MAPS and isinstance(value, dict):
                converted[key] = {name: self.schema(inner) for name, inner in value.items()}
            elif isinstance(value, dict) and key not in ("discriminator", "xml", "externalDocs"):
                converted[key] = self.schema(value)
            elif isinstance(value, list) and key in ("allOf", "anyOf", "oneOf", "prefixItems"):
                converted[key] = [self.schema(inner) for inner in value]
            elif key not in ("discriminator", "xml", "externalDocs", "nullable"):
                converted[key] = value
        return _convert_dialect(converted, nullable=source.get("nullable") is True)

    def with_definitions(self, schema: dict[str, Json]) -> dict[str, Json]:
        """Return a converted schema with every definition that it needs under `$defs`."""
        definitions: dict[str, Json] = {}
        pending = sorted(_definition_names(schema))
        while pending:
            name = pending.pop()
            if name in definitions:
                continue
            definitions[name] = self.schema(self._target(_SCHEMAS + name))
            pending.extend(_definition_names(definitions[name]) - definitions.keys())
        return {**schema, "$defs": definitions} if definitions else schema

    def _target(self, ref: str) -> Any:
        if not ref.startswith("#/"):
            raise InvalidTool(f"the reference {ref!r} points outside the document; put its target inside")
        node: Any = self._document
        for part in unquote(ref[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                raise InvalidTool(f"the reference {ref!r} has no target")
            node = node[key]
        return node


def read_document(source: Json | Path, place: str) -> dict[str, Json]:
    """Return a document from an object, a JSON or YAML file, or its text."""

    # Raises ConfigError if it is not readable.
    from ...source.load import load

    try:
        document = load(source).data if isinstance(source, (str, Path)) else source
    except (InvalidFlow, NotFound) as error:
        raise _reading_error(error, place) from error
    return _require_object(document, place)


def parse_fetched(body: bytes, address: str, place: str) -> dict[str, Json]:
    """Parse a fetched JSON or YAML document."""

    # Raises ConfigError with the place of the error.
    from ...source.load import decoded, load

    try:
        return _require_object(parse_json(body), place)
    except (JSONDecodeError, InvalidValue):
        pass  # YAML, or invalid JSON, which is read again for the place of the error
    try:
        text = decoded(body, address)
        form = "json" if text.lstrip("\ufeff \t\r\n").startswith("{") else "yaml"
        return _require_object(load(text, name=address, form=form).data, place)
    except InvalidFlow as error:
        raise _reading_error(error, place) from error


def _reading_error(error: InvalidFlow | NotFound, place: str) -> ConfigError:
    if isinstance(error, NotFound):
        return ConfigError(f"{place}: {error}")
    return ConfigError(
        [Problem(path="", message=f"{place}: {problem}", place=problem.place) for problem in error.problems]
    )


def _require_object(document: Json, place: str) -> dict[str, Json]:
    if not isinstance(document, dict):
        raise ConfigError(f"{place}: the document is {type(document).__name__}, not an object")
    return document


def _pointer_name(ref: str) -> str:
    if ref.startswith(_SCHEMAS) and "/" not in ref[len(_SCHEMAS) :]:
        return ref[len(_SCHEMAS) :]
    if ref.startswith("#/$defs/"):
        return ref[len("#/$defs/") :]
    raise InvalidTool(f"the reference {ref!r} must point to #/components/schemas/...")


def _definition_names(schema: Json) -> set[str]:
    """Return the names of the definitions that a converted schema refers to."""
    names: set[str] = set()
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            ref = node.get("$ref")
            if isinstance(ref, str) and ref.startswith("#/$defs/"):
                names.add(unquote(ref[len("#/$defs/") :]))
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return names


def _convert_dialect(schema: dict[str, Json], *, nullable: bool) -> dict[str, Json]:
    """Rewrite the dialect of OpenAPI 3.0: boolean exclusive limits and `nullable`."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            del schema[exclusive]
            if flag and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if not nullable:
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


_METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_JSON: Final = re.compile(r"application/(?:json|[\w.+-]+\+json)")
_FORM: Final = "application/x-www-form-urlencoded"
_IGNORED_HEADERS: Final = frozenset(("accept", "authorization", "content-type"))
"""OpenAPI ignores parameters with these names; other parts of a document describe them."""
_REFUSED_HEADERS: Final = frozenset(
    ("connection", "content-length", "cookie", "expect", "forwarded", "host", "keep-alive", "proxy-authenticate",
     "proxy-authorization", "proxy-connection", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade")
)  # fmt: skip
"""Headers that control where a request goes and where it ends; arguments may not set them."""
_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of an operation."""

    # The argument of the tool that has the value.
    argument: str
    # The name in the request.
    name: str
    # path, query, header or cookie.
    where: str
    # Write the elements of a list or object separately.
    explode: bool
    # The style of OpenAPI, such as `form` or `deepObject`.
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The request of one tool."""

    # The method, in lower case.
    method: str
    # The address of the server.
    base: str
    # The path as the document writes it.
    path: str
    template: PathTemplate
    parameters: tuple[Parameter, ...]
    # `json`, `form`, or None.
    body: str | None

    @property
    def url(self) -> str:
        """The address, with the names of its path parameters."""
        return self.base + self.path

    def request(self, args: dict[str, Json], key: str | None, accept: str) -> Request:
        """Build the request for a call."""

        # Raises InvalidRequest if a value cannot be part of a path or a query.
        steps: dict[str, str] = {}
        query: list[tuple[str, str]] = []
        headers: dict[str, str] = {"Accept": accept}
        cookies: list[str] = []
        # A null argument counts as missing.
        for parameter in self.parameters:
            value = args.get(parameter.argument)
            if value is None:
                continue
            if parameter.where == "path":
                steps[parameter.name] = _to_text(value)
            elif parameter.where == "query":
                query.extend(self._query_pairs(parameter, value))
            elif parameter.where == "header":
                headers[parameter.name] = _to_text(value)
            else:
                cookies.append(f"{parameter.name}={_encode_cookie(parameter.name, _to_text(value))}")
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
            form=_form_fields(body) if self.body == "form" and isinstance(body, dict) else None,
            key=key,
        )

    def _query_pairs(self, parameter: Parameter, value: Json) -> list[tuple[str, str]]:
        """Return a query parameter as pairs."""

        # Raises InvalidRequest if an object's key is another parameter's name.
        pairs = _query_pairs(parameter, value)
        other_names = {other.name for other in self.parameters if other.where == "query"} - {parameter.name}
        if ambiguous := [name for name, _ in pairs if name in other_names]:
            raise InvalidRequest(
                f"the key {ambiguous[0]!r} of {parameter.argument!r} is the name of another query parameter"
            )
        return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The tools of a document."""

    # The address of the server.
    base: str
    tools: tuple[Tool, ...]
    # The operations by tool name.
    operations: Mapping[str, Operation]
    # The operations that are not tools, each with the reason.
    skipped: Mapping[str, str] = field(default_factory=dict)


class OpenApiProvider:
    """Calls the operations of one document; safe for concurrent use."""

    def __init__(
        self, api: Api, headers: Mapping[str, str], *, place: str, policy: AddressPolicy | None = None
    ) -> None:
        self._api = api
        self._http = Http(headers, place=place, base=api.base, policy=policy)

    def definitions(self) -> list[Definition]:
        """Return the definition of each tool and the address of its requests, for pins."""
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
        """Call an operation and return its JSON."""

        # Raises HttpFailure for an error status.
        return await self._http.fetch(
            self._find_operation(tool_id).request(args, key, "application/json, text/*;q=0.5")
        )

    async def call_tool_stream(
        self, tool_id: str, args: dict[str, Json], *, key: str | None = None
    ) -> AsyncGenerator[StreamEvent, None] | None:
        """Call an operation and return its events; None if the answer is not a stream."""
        request = self._find_operation(tool_id).request(args, key, "text/event-stream, application/x-ndjson")
        return await open_events(self._http, request)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        await self._http.close()

    def _find_operation(self, tool_id: str) -> Operation:
        declared = self._api.operations.get(tool_id)
        if declared is None:
            raise ConfigError(f"the document has no operation {tool_id!r}")
        return declared


def read_openapi(
    source: dict[str, Json] | str | Path,
    *,
    name: str,
    url: str | None = None,
    annotations: dict[str, Json] | None = None,
    headers: Iterable[str] = (),
    read_only: Iterable[str] = (),
) -> Api:
    """Read a document as the tools of a provider."""
    place = f"provider {name!r}: openapi"
    document = read_document(source, place)
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise ConfigError(f"{place}: only OpenAPI 3.x is supported, not {document.get('swagger') or version!r}")
    # A configured header is never an argument, so its parameters are left out.
    components, base = Components(document), url or _server_url(document, place)
    configured = frozenset(header.lower() for header in headers)
    patterns = tuple(read_only)
    tools: list[Tool] = []
    operations, skipped = dict[str, Operation](), dict[str, str]()
    # One operation that cannot be a tool does not stop the others.
    for path, item in (document.get("paths") or {}).items():
        try:
            shared = components.resolve(item)
        except InvalidTool as error:
            skipped[_UNSAFE_CHARACTERS.sub("_", path).strip("_")] = f"{path}: {error}"
            continue
        for method in _METHODS:
            if not isinstance(shared.get(method), dict):
                continue
            description = shared[method]
            label = _operation_name(description, method, path, operations)
            try:
                operation, schema = _read_operation(components, base, path, method, shared, description, configured)
                annotations_of_tool = _annotations(label, patterns) | (annotations or {})
                tools.append(
                    _make_tool(components, name, label, method, path, description, schema, annotations_of_tool)
                )
            except InvalidTool as error:
                skipped[label] = f"{method.upper()} {path}: {error}"
                continue
            operations[label] = operation
    _check_patterns(patterns, (*operations, *skipped), place)
    return Api(base=base, tools=tuple(tools), operations=operations, skipped=skipped)


def _annotations(label: str, read_only: tuple[str, ...]) -> dict[str, Json]:
    """Return the annotations of an operation."""

    # Its method does not count: a GET may change things, too.
    return {"readOnlyHint": True} if any(fnmatchcase(label, pattern) for pattern in read_only) else {}


def _check_patterns(read_only: tuple[str, ...], labels: tuple[str, ...], place: str) -> None:
    for pattern in read_only:
        if not any(fnmatchcase(label, pattern) for label in labels):
            suggestion = did_you_mean(pattern, labels)
            hint = f"; did you mean {suggestion!r}?" if suggestion else ""
            raise ConfigError(f"{place}: read_only: {pattern!r} matches no operation{hint}")


def _make_tool(
    components: Components, provider: str, label: str, method: str, path: str, description: Any, schema: Any, notes: Any
) -> Tool:
    text = "\n\n".join(
        t for t in (description.get("summary"), description.get("description")) if isinstance(t, str) and t.strip()
    )
    return Tool(
        label,
        text or f"{method.upper()} {path}",
        schema,
        _output_schema(components, description),
        namespace=provider,
        tags=[tag for tag in description.get("tags") or () if isinstance(tag, str)],
        annotations=notes or None,
        backend=ToolBackend.provider(provider, label),
    )


def _read_operation(
    components: Components, base: str, path: str, method: str, shared: Any, description: Any, configured: frozenset[str]
) -> tuple[Operation, dict[str, Json]]:
    """Return an operation and the schema of its arguments; `configured` has the names of configured headers."""
    template = path_template(path)

    # Parameters of the operation replace those of the path.
    declared: dict[tuple[str, str], Any] = {}
    for raw in [*(shared.get("parameters") or ()), *(description.get("parameters") or ())]:
        parameter = components.resolve(raw)
        declared[str(parameter.get("in")), str(parameter.get("name"))] = parameter

    # Two parameters with one name in different places get different argument names.
    properties: dict[str, Json] = {}
    required: list[str] = []
    parameters: list[Parameter] = []
    for (where, name), parameter in declared.items():
        if where not in ("path", "query", "header", "cookie"):
            raise InvalidTool(f"parameter {name!r}: in must be path, query, header or cookie, not {where!r}")
        if not _is_argument(where, name, configured):
            continue
        argument = name if name not in properties and name != "body" else f"{where}_{name}"
        properties[argument] = components.parameter_schema(parameter)
        if parameter.get("required") is True or where == "path":
            required.append(argument)
        style = parameter.get("style") or ("form" if where in ("query", "cookie") else "simple")
        explode = parameter.get("explode", style in ("form", "deepObject"))
        parameters.append(Parameter(argument=argument, name=name, where=where, explode=explode, style=style))
    if undescribed := template.names - {parameter.name for parameter in parameters if parameter.where == "path"}:
        raise InvalidTool(f"no parameter describes {{{min(undescribed)}}} in the path")

    # The body is one more argument.
    body = None
    if description.get("requestBody") is not None:
        outer = components.resolve(description["requestBody"])
        body, properties["body"] = _body_schema(components, outer)
        if outer.get("required") is True:
            required.append("body")
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    operation = Operation(
        method=method, base=base, path=path, template=template, parameters=tuple(parameters), body=body
    )
    return operation, components.with_definitions(schema)


def _is_argument(where: str, name: str, configured: frozenset[str]) -> bool:
    """Return True if arguments may set a parameter."""

    # Raises InvalidTool for one that no request may have.
    if where not in ("header", "cookie"):
        return True
    if not is_header_name(name):
        raise InvalidTool(f"{name!r} is not the name of a {where}")
    if where == "cookie":
        return "cookie" not in configured
    if name.lower() in _REFUSED_HEADERS:
        raise InvalidTool(f"the header {name!r} cannot be a parameter: it decides where a request goes or ends")
    return name.lower() not in configured | _IGNORED_HEADERS


def _body_schema(components: Components, outer: Any) -> tuple[str, Json]:
    content = outer.get("content") or {}
    for kind, media in content.items():
        if _JSON.fullmatch(kind.partition(";")[0].strip()):
            return "json", components.schema(media.get("schema", {}))
    if _FORM in content:
        return "form", components.schema(content[_FORM].get("schema", {}))
    raise InvalidTool(f"a body of {', '.join(content) or 'no kind'} cannot be made from JSON arguments")


def _output_schema(components: Components, description: Any) -> dict[str, Json] | None:
    """Return the schema of the answer, if there is only one 2xx response and it is JSON."""
    answers = {
        code: components.resolve(a) for code, a in (description.get("responses") or {}).items() if str(code)[0] == "2"
    }
    schemas = [_json_schema(components, answer) for answer in answers.values()]
    if len(schemas) != 1 or not isinstance(schemas[0], dict):
        return None
    return components.with_definitions(schemas[0])


def _json_schema(components: Components, answer: Any) -> Json:
    content = answer.get("content") or {}
    if len(content) != 1:
        return None
    kind, media = next(iter(content.items()))
    if not _JSON.fullmatch(kind.partition(";")[0].strip()) or "schema" not in media:
        return None
    return components.schema(media["schema"])


def _operation_name(description: Any, method: str, path: str, names: Mapping[str, Any]) -> str:
    operation_id = description.get("operationId")
    text = operation_id if isinstance(operation_id, str) and operation_id else f"{method}_{path.strip('/')}"
    base = _UNSAFE_CHARACTERS.sub("_", text).strip("_")[:120] or method
    label, count = base, 2
    while label in names:
        label, count = f"{base}_{count}", count + 1
    return label


def _server_url(document: dict[str, Json], place: str) -> str:
    servers = document.get("servers") or []
    first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], dict) else {}
    url = str(first.get("url", ""))
    for name, variable in (first.get("variables") or {}).items():
        url = url.replace("{" + name + "}", str(variable.get("default", "")))
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{place}: the document has no absolute server address ({url or 'none'}); set url")
    return check_base_url(url, place)


def _encode_cookie(name: str, text: str) -> str:
    try:
        return quote(text)
    except UnicodeEncodeError:
        raise InvalidRequest(f"cookie {name!r} is not valid text: it contains a lone surrogate") from None


def _query_pairs(parameter: Parameter, value: Json) -> list[tuple[str, str]]:
    name = parameter.name
    if isinstance(value, list):
        if parameter.explode:
            return [(name, _to_text(item)) for item in value]
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(parameter.style, ",")
        return [(name, separator.join(map(_to_text, value)))]
    if isinstance(value, dict):
        if parameter.style == "deepObject":
            return [(f"{name}[{key}]", _to_text(item)) for key, item in value.items()]
        if parameter.explode:
            return [(key, _to_text(item)) for key, item in value.items()]
    return [(name, _to_text(value))]


def _to_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(map(_to_text, value))
    if isinstance(value, dict):
        return ",".join(f"{key},{_to_text(item)}" for key, item in value.items())
    return str(value)


def _form_fields(body: dict[str, Json]) -> dict[str, Any]:
    return {k: list(map(_to_text, v)) if isinstance(v, list) else _to_text(v) for k, v in body.items() if v is not None}
