"""Reads the operations of an OpenAPI document: the request and the tool of each.

Path, query, header and cookie parameters become properties of the arguments; a request body is the property `body`.
An operation that cannot be a tool is listed in `skipped` with the reason. Headers that belong to the project or to HTTP
are never taken from arguments.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urljoin

from ....errors import ConfigError, InvalidTool
from ....fast_dataclass import dataclass
from ....values import Json, did_you_mean
from ...tool import Tool, ToolBackend
from ..http import REFUSED_HEADERS, InvalidRequest, Placement, Request, check_base_url, is_header_name
from ..http_answers import PAGES
from . import swagger
from .bodies import Body, read_body
from .document import read_document
from .parameters import STYLES, Pair, Parameter, content_text, header_text, pairs, path_step
from .path import PathTemplate, check_value, path_template
from .references import Part, References
from .schemas import MAX_OUTPUT_VALUES, Schemas
from .security import Security, SecurityRules, check_credentials

_ANY_PAGE: Final = frozenset((*PAGES, "text/*", "*/*"))
_METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options", "query", "trace")
_JSON: Final = re.compile(r"application/(?:json|[\w.+-]+\+json)")
_IGNORED_HEADERS: Final = frozenset(("accept", "authorization", "content-type"))
"""OpenAPI ignores parameters with these names; other parts of a document describe them."""
_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_FIXED_QUERY: Final = re.compile(r"(?:[A-Za-z0-9_.~=&:,@-]|%[0-9A-Fa-f]{2})*")
_SERVER_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_VERSION: Final = re.compile(r"3\.\d")
_MAX_NAME: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The request of one tool."""

    # The method, in upper case.
    method: str
    # The address of the server.
    base: str
    # The path as the document writes it.
    path: str
    template: PathTemplate
    # The part of the query that is always the same.
    query: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    security: Security
    # The document declares a page of HTML, or any text, as an answer.
    expects_page: bool = False

    @property
    def url(self) -> str:
        """The address, with the names of its path parameters."""
        return self.base + self.path

    def request(self, args: dict[str, Json], key: str | None, accept: str) -> Request:
        """Build the request for a call."""

        # Raises InvalidRequest if a value cannot be part of a path or a query, or if its security is missing.
        if self.security.missing is not None:
            raise InvalidRequest(self.security.missing)
        steps: dict[str, str] = {}
        query = [self.query] if self.query else []
        headers: dict[str, str] = {"Accept": accept}
        cookies: list[str] = []
        # A null argument counts as missing.
        for parameter in self.parameters:
            value = args.get(parameter.argument)
            if value is None:
                continue
            if parameter.where == "path":
                check_value(parameter.name, _texts(value))
                steps[parameter.name] = path_step(parameter, value)
            elif parameter.where == "querystring":
                query.extend(_query_string(parameter, value))
            elif parameter.where == "query":
                query.extend(map(str, self._query_pairs(parameter, value)))
            elif parameter.where == "header":
                headers[parameter.name] = header_text(parameter, value)
            else:
                cookies.extend(map(str, pairs(parameter, value)))
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        has_body = self.body is not None and "body" in args
        return Request(
            method=self.method,
            url=self.base + self.template.fill(steps),
            query="&".join(query),
            headers=headers,
            content=self.body.write(args["body"]) if has_body and self.body is not None else None,
            credentials=self.credentials,
            key=key,
            expects_page=self.expects_page,
        )

    @property
    def credentials(self) -> tuple[Placement, ...]:
        """The credentials that a call sends."""
        return self.security.placements

    def _query_pairs(self, parameter: Parameter, value: Json) -> list[Pair]:
        """Return a query parameter as pairs."""

        # Raises InvalidRequest if an object's key is another parameter's name.
        written = pairs(parameter, value)
        other_names = {other.name for other in self.parameters if other.where == "query"} - {parameter.name}
        other_names |= {key for key, _ in parse_qsl(self.query, keep_blank_values=True)}
        other_names |= {placement.name for placement in self.credentials if placement.where == "query"}
        if ambiguous := [pair.key for pair in written if pair.key in other_names]:
            raise InvalidRequest(
                f"the key {ambiguous[0]!r} of {parameter.argument!r} is the name of another query parameter"
            )
        return written


def _texts(value: Json) -> Iterator[str]:
    """Yield every text of a path parameter."""
    if isinstance(value, dict):
        for pair in value.items():
            yield from (text for text in pair if isinstance(text, str))
    else:
        yield from (text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))


def _query_string(parameter: Parameter, value: Json) -> list[str]:
    """Write a parameter that is the whole query."""
    if isinstance(value, dict) and parameter.content == "application/x-www-form-urlencoded":
        body = Body(kind="form", media_type=parameter.content)
        return [body.write(value)[0].decode()]
    return [quote(content_text(parameter, value), safe="")]


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
    # Those of them that the settings leave out.
    excluded: frozenset[str] = frozenset()
    # The tools of which a part is not checked, each with what it is.
    shortened: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a provider for the operations of its document."""

    name: str
    url: str | None = None
    # Where the document was fetched, or None.
    address: str | None = None
    annotations: Mapping[str, Json] = field(default_factory=dict)
    # The names of the configured headers.
    headers: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    # The values of variables in the addresses of servers.
    server_variables: Mapping[str, str] = field(default_factory=dict)
    # Reads another document of the server that the first one was fetched from.
    fetch: Callable[[str], Any] | None = field(default=None, repr=False)
    # By scheme; False says that the server asks for none.
    credentials: Any = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The beginning of messages."""
        return f"provider {self.name!r}: openapi"


def read_openapi(source: dict[str, Json] | str | Path, *, name: str, **settings: Any) -> Api:
    """Read a document as the tools of a provider; `settings` are fields of `Settings`."""
    for key in ("headers", "read_only", "include", "exclude"):
        settings[key] = tuple(settings.get(key) or ())
    given = Settings(name=name, **{key: value for key, value in settings.items() if value is not None})
    return _Reader(source, given).read()


class _Reader:
    """Reads one document."""

    def __init__(self, source: dict[str, Json] | str | Path, settings: Settings) -> None:
        self._settings = settings
        place = settings.place
        document = self._document = read_document(source, place)
        # YAML reads 3.1 as a number.
        version = str(document.get("openapi"))
        is_openapi = _VERSION.match(version) is not None
        self._is_swagger = not is_openapi and str(document.get("swagger")) in ("2.0", "2")
        if not self._is_swagger and not is_openapi:
            found = document.get("swagger") or document.get("openapi")
            raise ConfigError(f"{place}: only OpenAPI 3.x and Swagger 2.0 are supported, not {found!r}")
        file = Path(source) if isinstance(source, (str, Path)) and _is_file(source) else None
        self._references = References(document, file, settings.address, settings.fetch)
        self._schemas = Schemas(self._references)
        self._known_variables: set[str] = set()
        self._base = settings.url or self._server_url(self._servers(document), place)
        configured = frozenset(header.lower() for header in settings.headers)
        self._rules = SecurityRules(
            self._security_schemes(), check_credentials(settings.credentials, place), configured, self._base,
            settings.address,
        )  # fmt: skip
        self._rules.check_names(place)
        self._configured = configured
        self._own = self._rules.own_parameters()
        self._tools: list[Tool] = []
        self._operations: dict[str, Operation] = {}
        self._skipped: dict[str, str] = {}
        self._excluded: set[str] = set()
        self._shortened: dict[str, str] = {}
        self._original: list[str] = []

    def read(self) -> Api:
        """Return the tools and what is left out."""
        paths = self._document.get("paths")
        # One operation that cannot be a tool does not stop the others.
        for written, item in paths.items() if isinstance(paths, dict) else ():
            path = str(written)
            if path.startswith("x-"):
                continue
            try:
                shared = self._references.follow(item, "")
            except InvalidTool as error:
                self._skipped[self._unique(path, path)] = f"{path}: {error}"
                continue
            for method, description in _operations_of(shared.value):
                self._add(path, method, shared, description)
        self._check_patterns()
        self._check_variables()
        return Api(
            base=self._base,
            tools=tuple(self._tools),
            operations=self._operations,
            skipped=self._skipped,
            excluded=frozenset(self._excluded),
            shortened={label: what for label, what in self._shortened.items() if label in self._operations},
        )

    def _add(self, path: str, method: str, shared: Part, description: Any) -> None:
        settings = self._settings
        try:
            part, problem = self._references.follow(description, shared.file), None
        except InvalidTool as error:
            part, problem = Part(description, shared.file), error
        original, label = self._names_of(part.value.get("operationId"), method, path)
        place = f"{method.upper()} {path}"
        reason = self._excluded_by(original)
        if reason is not None:
            self._skipped[label] = f"{place}: {reason}"
            self._excluded.add(label)
            return
        try:
            if problem is not None:
                raise problem
            if method.upper() in ("TRACE", "CONNECT"):
                what = "returns the request with its credentials" if method.upper() == "TRACE" else "opens a tunnel"
                raise InvalidTool(f"{method.upper()} {what}, so it is never sent")
            if not is_header_name(method):  # the same characters
                raise InvalidTool(f"{method!r} is not a method of HTTP")
            operation, schema = self._read_operation(path, method, shared, part)
            notes = {"readOnlyHint": True} if any(_matches(n, settings.read_only) for n in (original, label)) else {}
            tool = self._make_tool(label, place, part, schema, {**notes, **settings.annotations})
        except InvalidTool as error:
            self._skipped[label] = f"{place}: {error}"
            return
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            # Somebody's document, with a list where an object belongs: this operation only.
            self._skipped[label] = f"{place}: it is not written as OpenAPI says ({error})"
            return
        self._operations[label] = operation
        self._tools.append(tool)

    # --- names --------------------------------------------------------------------------------

    def _names_of(self, operation_id: Any, method: str, path: str) -> tuple[str, str]:
        """Return the name of an operation in its document, cleaned, and the name of its tool."""
        text = operation_id if isinstance(operation_id, str) and operation_id else f"{method}_{path.strip('/')}"
        original = self._unique(text, method)
        self._original.append(original)
        renamed = self._settings.rename.get(original)
        if renamed is None:
            return original, original
        if _UNSAFE_CHARACTERS.search(renamed) or not 0 < len(renamed) <= _MAX_NAME:
            allowed = f"1 to {_MAX_NAME} characters of [A-Za-z0-9_.-]"
            raise ConfigError(f"{self._settings.place}: rename: {renamed!r} is not {allowed}").at_key(
                "rename", original
            )
        return original, self._unique(renamed, method)

    def _unique(self, text: str, fallback: str) -> str:
        base = _UNSAFE_CHARACTERS.sub("_", text).strip("_")
        if any(character.isalnum() and not character.isascii() for character in text) or len(base) > _MAX_NAME:
            # Letters that cleaning loses are in the digest, so that names stay distinct.
            digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
            base = f"{base[: _MAX_NAME - 9].strip('_') or fallback}_{digest}"
        label, count = base or _UNSAFE_CHARACTERS.sub("_", fallback).strip("_") or "root", 2
        base = label
        while label in self._operations or label in self._skipped:
            label, count = f"{base}_{count}", count + 1
        return label

    def _excluded_by(self, label: str) -> str | None:
        if self._settings.include and not _matches(label, self._settings.include):
            return "the setting include does not name it"
        pattern = next((p for p in self._settings.exclude if fnmatchcase(label, p)), None)
        return None if pattern is None else f"the setting exclude names it ({pattern!r})"

    def _check_patterns(self) -> None:
        """Raise ConfigError for a pattern that matches no operation."""
        labels = (*self._operations, *self._skipped, *self._original)
        for key in ("read_only", "include", "exclude", "rename"):
            for pattern in getattr(self._settings, key):
                if not any(fnmatchcase(label, pattern) for label in labels):
                    near = did_you_mean(pattern, labels)
                    hint = f"; did you mean {near!r}?" if near else ""
                    message = f"{self._settings.place}: {key}: {pattern!r} matches no operation{hint}"
                    raise ConfigError(message).at_key(key, pattern)

    # --- one operation ------------------------------------------------------------------------

    def _make_tool(self, label: str, place: str, part: Part, schema: dict[str, Json], notes: Any) -> Tool:
        description, provider = part.value, self._settings.name
        text = "\n\n".join(
            t for t in (description.get("summary"), description.get("description")) if isinstance(t, str) and t.strip()
        )
        tags = description.get("tags")
        return Tool(
            label,
            text or place,
            schema,
            self._checked_output(label, part),
            namespace=provider,
            tags=[tag for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, str)],
            annotations=notes or None,
            backend=ToolBackend.provider(provider, label),
        )

    def _read_operation(self, path: str, method: str, shared: Part, part: Part) -> tuple[Operation, dict[str, Json]]:
        """Return an operation and the schema of its arguments."""
        # A query that is always the same is a part of some paths: `/messages?beta=true`.
        steps, _, fixed = path.partition("?")
        template = path_template(steps if _FIXED_QUERY.fullmatch(fixed) else path)
        description = part.value
        declared, fields, swagger_body = self._declared(shared, part)

        # Two parameters with one name in different places get different argument names.
        properties: dict[str, Json] = {}
        required: list[str] = []
        parameters: list[Parameter] = []
        for (where, name), (source, file) in declared.items():
            if not self._is_argument(where, name):
                continue
            argument = name if name not in properties and name != "body" else f"{where}_{name}"
            parameter, properties[argument] = self._read_parameter(argument, where, name, source, file)
            parameters.append(parameter)
            if source.get("required") is True or where == "path":
                required.append(argument)
        if undescribed := template.names - {p.name for p in parameters if p.where == "path"}:
            raise InvalidTool(f"no parameter describes {{{min(undescribed)}}} in the path")

        # The body is one more argument.
        body = None
        outer = self._body(part, fields, swagger_body)
        if outer is not None:
            body, properties["body"] = read_body(self._schemas, self._references, outer.value, outer.file)
            if outer.value.get("required") is True:
                required.append("body")
        schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = list(dict.fromkeys(required))
        operation = Operation(
            method=method.upper(),
            base=self._base_of(shared.value, description),
            path=path,
            template=template,
            query=fixed,
            parameters=tuple(parameters),
            body=body,
            security=self._rules.of(
                self._document.get("security") if description.get("security") is None else description["security"]
            ),
            expects_page=any(kind.partition(";")[0].strip().lower() in _ANY_PAGE for kind in self._answer_kinds(part)),
        )
        keys = {key for key, _ in parse_qsl(fixed, keep_blank_values=True)}
        if taken := keys & {placement.name for placement in operation.credentials if placement.where == "query"}:
            raise InvalidTool(f"its path has a value for the credential {min(taken)!r}")
        return operation, self._schemas.with_definitions(schema, for_input=True)

    def _declared(self, shared: Part, part: Part) -> tuple[dict[tuple[str, str], Part], list[Part], Part | None]:
        """Return the parameters by place and name, and what Swagger says about the body."""
        declared: dict[tuple[str, str], Part] = {}
        fields: dict[str, Part] = {}
        body: Part | None = None
        # Parameters of the operation replace those of the path.
        for outer in (shared, part):
            sources = outer.value.get("parameters")
            for raw in sources if isinstance(sources, list) else ():
                source, file = self._references.follow(raw, outer.file)
                where, name = str(source.get("in")), str(source.get("name"))
                if self._is_swagger and where == "body":
                    body = Part(source, file)
                elif self._is_swagger and where == "formData":
                    fields[name] = Part(source, file)
                else:
                    written = swagger.parameter(source) if self._is_swagger else source
                    declared[where, name] = Part(written, file)
        return declared, list(fields.values()), body

    def _read_parameter(
        self, argument: str, where: str, name: str, source: dict[str, Any], file: str
    ) -> tuple[Parameter, Json]:
        """Return a parameter, and its schema with its description."""
        content = source.get("content")
        media_type, inner, home = None, source.get("schema"), file
        if inner is None and isinstance(content, dict) and content:
            media_type, media = next(iter(content.items()))
            followed = self._references.follow(media or {}, file)
            inner, home = followed.value.get("schema", {}), followed.file
            media_type = media_type.partition(";")[0].strip().lower()
        schema = self._schemas.convert({} if inner is None else inner, home, for_input=True)
        text = source.get("description")
        if isinstance(text, str) and isinstance(schema, dict):
            schema = {"description": text, **schema}
        styles = STYLES.get(where, ("form",))
        style = source.get("style") or styles[0]
        if style not in styles:
            raise InvalidTool(f"parameter {name!r}: style must be {' or '.join(styles)}, not {style!r}")
        parameter = Parameter(
            argument=argument,
            name=name,
            where=where,
            style=style,
            explode=source.get("explode", style in ("form", "deepObject", "cookie")) is True,
            allow_reserved=source.get("allowReserved") is True,
            content=media_type,
        )
        return parameter, schema

    def _is_argument(self, where: str, name: str) -> bool:
        """Return True if arguments may set a parameter."""

        # Raises InvalidTool for one that no request may have.
        if where not in ("path", "query", "querystring", "header", "cookie"):
            raise InvalidTool(f"parameter {name!r}: in must be path, query, header or cookie, not {where!r}")
        if (where, name.lower()) in self._own:
            return False
        if where not in ("header", "cookie"):
            return True
        if not is_header_name(name):
            raise InvalidTool(f"{name!r} is not the name of a {where}")
        if where == "cookie":
            return "cookie" not in self._configured
        if name.lower() in REFUSED_HEADERS:
            raise InvalidTool(f"the header {name!r} cannot be a parameter: it decides where a request goes or ends")
        return name.lower() not in self._configured | _IGNORED_HEADERS

    def _body(self, part: Part, fields: list[Part], body: Part | None) -> Part | None:
        """Return the request body of an operation, or None."""
        if not self._is_swagger:
            source = part.value.get("requestBody")
            return None if source is None else self._references.follow(source, part.file)
        consumes = _media_types(part.value.get("consumes", self._document.get("consumes")))
        if body is not None:
            return Part(swagger.schema_body(body.value, consumes), body.file)
        if not fields:
            return None
        return Part(swagger.form_body([field.value for field in fields], consumes), fields[0].file)

    def _answer_kinds(self, part: Part) -> Iterator[str]:
        """Yield the media types that the document declares for answers without an error."""
        if self._is_swagger:
            yield from _media_types(part.value.get("produces", self._document.get("produces")))
            return
        responses = part.value.get("responses")
        for code, raw in responses.items() if isinstance(responses, dict) else ():
            if str(code)[:1] not in ("2", "d"):  # d: default
                continue
            with suppress(InvalidTool, AttributeError, LookupError, TypeError, ValueError, RecursionError):
                yield from map(str, self._references.follow(raw, part.file).value.get("content") or ())

    def _checked_output(self, label: str, part: Part) -> dict[str, Json] | None:
        """Return the schema of the answer; without one that can be read, the answer is not checked."""
        try:
            return self._output_schema(label, part)
        except (InvalidTool, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            self._shortened[label] = f"its answer is not checked: {error}"
            return None

    def _output_schema(self, label: str, part: Part) -> dict[str, Json] | None:
        """Return the schema of the answer, if there is only one 2xx response and it is JSON."""
        responses = part.value.get("responses")
        schemas: list[Json] = []
        for code, raw in responses.items() if isinstance(responses, dict) else ():
            if str(code)[0] == "2":
                schemas.append(self._answer_schema(*self._references.follow(raw, part.file), part))
        if len(schemas) != 1 or not isinstance(schemas[0], dict):
            return None
        schema = self._schemas.with_definitions(schemas[0], for_input=False)
        if self._schemas.is_cut:
            what = f"the schema of its answer has more than {MAX_OUTPUT_VALUES:,} values; deeper parts accept anything"
            self._shortened[label] = what
        return schema

    def _answer_schema(self, answer: Any, file: str, part: Part) -> Json:
        if self._is_swagger:
            answer = swagger.response(answer, _media_types(part.value.get("produces", self._document.get("produces"))))
        content = answer.get("content")
        if not isinstance(content, dict) or len(content) != 1:
            return None
        kind, media = next(iter(content.items()))
        if not _JSON.fullmatch(kind.partition(";")[0].strip()):
            return None
        media, file = self._references.follow(media or {}, file)
        return self._schemas.convert(media["schema"], file, for_input=False) if "schema" in media else None

    # --- the document -------------------------------------------------------------------------

    def _servers(self, document: dict[str, Any]) -> Any:
        return swagger.servers(document) if self._is_swagger else document.get("servers")

    def _base_of(self, shared: dict[str, Any], description: dict[str, Any]) -> str:
        """Return the address of an operation, which may have its own server."""
        servers = description.get("servers") or shared.get("servers")
        if self._settings.url is not None or not servers or self._is_swagger:
            return self._base
        try:
            base = self._server_url(servers, "servers")
        except ConfigError as error:
            raise InvalidTool(str(error)) from error
        if self._settings.address is not None and base != self._base:
            raise InvalidTool(f"it has a server of its own, {base}, which a fetched document cannot choose; set url")
        return base

    def _server_url(self, servers: Any, place: str) -> str:
        """Return the address of the first server; a relative one is relative to the document's own address."""
        first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], dict) else {}
        url, address, chosen = str(first.get("url", "/")), self._settings.address, self._settings.server_variables
        variables = first.get("variables")
        variables = variables if isinstance(variables, dict) else {}
        self._known_variables.update(_SERVER_VARIABLE.findall(url))
        for name in _SERVER_VARIABLE.findall(url):
            variable = variables.get(name)
            variable = variable if isinstance(variable, dict) else {}
            value, allowed = chosen.get(name, variable.get("default")), variable.get("enum")
            if value is None:
                raise ConfigError(f"{place}: the server {url} has no value for {{{name}}}; set server_variables.{name}")
            if name in chosen and isinstance(allowed, list) and allowed and value not in map(str, allowed):
                known = ", ".join(map(str, allowed[:20]))
                message = f"{place}: server_variables.{name}: {value!r} is not one of {known}"
                raise ConfigError(message).at_key("server_variables", name)
            url = url.replace("{" + name + "}", str(value))
        if "{" in url:
            raise ConfigError(f"{place}: the server {url} has a variable inside the value of another one; set url")
        if address is not None:
            url = urljoin(address, url)
        if not url.startswith(("http://", "https://")):
            shown = url if servers else "none"
            raise ConfigError(f"{place}: the document has no absolute server address ({shown}); set url")
        return check_base_url(url, place)

    def _check_variables(self) -> None:
        """Raise ConfigError for a variable that no server of the document has."""
        for name in self._settings.server_variables if self._settings.url is None else ():
            if name not in self._known_variables:
                near = did_you_mean(name, self._known_variables)
                hint = f"; did you mean {near!r}?" if near else ""
                message = f"server_variables.{name}: no server of the document has this variable{hint}"
                raise ConfigError(f"{self._settings.place}: {message}").at_key("server_variables", name)

    def _security_schemes(self) -> dict[str, Any]:
        if self._is_swagger:
            return swagger.security_schemes(self._document)
        components: Any = self._document.get("components")
        schemes = components.get("securitySchemes") if isinstance(components, dict) else None
        found: dict[str, Any] = {}
        for name, scheme in schemes.items() if isinstance(schemes, dict) else ():
            try:
                found[name] = self._references.follow(scheme, "").value
            except InvalidTool:
                continue  # the operations that need it say so
        return found


def _operations_of(item: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the operations of a path, by method."""
    for method in _METHODS:
        if isinstance(item.get(method), dict):
            yield method, item[method]
    additional = item.get("additionalOperations")
    for method, description in additional.items() if isinstance(additional, dict) else ():
        if isinstance(description, dict):
            yield method, description


def _matches(label: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(label, pattern) for pattern in patterns)


def _media_types(value: Any) -> list[str]:
    return [kind for kind in value if isinstance(kind, str)] if isinstance(value, list) else []


def _is_file(source: str | Path) -> bool:
    return isinstance(source, Path) or ("\n" not in source and not source.lstrip().startswith("{"))
