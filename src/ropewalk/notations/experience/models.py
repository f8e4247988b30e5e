"""The nodes of an experience that ask a model: `agent` and `skill` ask the model of the app, `cli-agent` a program.

A prompt is a text in the document or in a file next to it. `{{name}}` in it is an argument of the node, the output of
a predecessor or a field of the state, in this order; `{{$item.id}}` is a reference. A placeholder that names nothing
stays in the text, with a warning, because prompts may quote templates of other programs. In the document, `${...}`
works as everywhere else; in a file it is plain text.

`ModelNodes.compile_writes` decides which part of an answer goes to which field of the state. To add a filter
(`{{name|filter}}`), add it to `FILTERS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import orjson

from ...expr.ast import Arr, Expr, Fn, Lit, Obj, Path, Ref
from ...fast_dataclass import dataclass
from ...ops import Call, Loop
from ...schema import schema_errors
from ...values import Json, did_you_mean
from ..agent import agent_loop, agent_options
from ..fields import Report, add_problem, join
from ..undo import compile_undos
from .nodes import ExperienceNode, path_in
from .read import ExperienceDocument

FILTERS: Final = {"length": "length", "size": "length", "count": "length", "json": "string"}
"""The filters of `{{name|filter}}`, and the functions of the expression language that they call."""
CLI_TOOL_PREFIX: Final = "cli-agent:"
"""The prefix of the ids of tools that run the program of a provider."""
CLI_TIMEOUT_MS: Final = 600_000
_PLACEHOLDER: Final = re.compile(r"\{\{\s*(\$?[^\W\d][\w.\[\]-]*|\$\.[\w.\[\]-]+)\s*(?:\|\s*(\w+)\s*)?\}\}")
_FILE_SUFFIX: Final = re.compile(r"\.(?:md|markdown|txt|prompt|tmpl|j2)$", re.IGNORECASE)


def is_file_path(prompt: Json) -> bool:
    """Return True if a prompt is the path of a file (`./prompts/x.md`), not the text itself."""
    if not isinstance(prompt, str) or re.search(r"[\s{}]", prompt.strip()):
        return False
    return prompt.startswith(("./", "../")) or _FILE_SUFFIX.search(prompt.strip()) is not None


def named_files(document: Json) -> Iterator[str]:
    """Yield the path of each file whose text a document needs."""
    for node in _nodes_in(document):
        kind = str(node.get("kind")).replace("_", "-")
        if kind in ("agent", "cli-agent") and is_file_path(node.get("prompt")):
            yield node["prompt"].strip()
        if kind == "skill" and isinstance(node.get("impl"), str):
            yield skill_file(node["impl"])
        for key in ("schema", "output_schema", "outputSchema"):
            if isinstance(node.get(key), str):
                yield node[key]


def skill_file(impl: str) -> str:
    """Return the path of a skill's text: `impl` itself if it names a file, else `SKILL.md` in the directory `impl`."""
    return impl if _FILE_SUFFIX.search(impl) else f"{impl.rstrip('/')}/SKILL.md"


def _nodes_in(document: Json) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes of the graph and those written as stages of pipelines."""
    graph = document.get("graph") if isinstance(document, Mapping) else None
    if not isinstance(graph, Mapping):
        return
    yield from _objects_in(graph.get("nodes"))
    for pipeline in _objects_in(graph.get("pipelines")):
        yield from _objects_in(pipeline.get("stages"))


def _objects_in(items: Json) -> Iterator[Mapping[str, Any]]:
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, Mapping))


class ValueCompiler(Protocol):
    """The part of the compiler of an experience that `ModelNodes` uses."""

    document: ExperienceDocument

    def value(self, value: Json, path: str) -> Expr:
        """Compile JSON with references in it."""
        ...

    def arguments(self, node: ExperienceNode) -> Expr:
        """Compile the arguments of a tool."""
        ...

    def reference(self, text: str) -> Expr | None:
        """Compile a text such as `$item.id`."""
        ...

    def edge_output(self, id: str) -> Expr:
        """Return the expression of a node's output."""
        ...


@dataclass(frozen=True, slots=True)
class PromptNames:
    """The names that the placeholders of a prompt may use."""

    args: Expr
    outputs: Mapping[str, Expr]
    compiler: ValueCompiler

    def resolve(self, name: str) -> Expr | None:
        """Return the value of the placeholder `{{name}}`, None if it names nothing."""
        if name.startswith("$"):
            return self.compiler.reference(name)
        path = path_in(name)
        if not path:
            return None
        head, rest = str(path[0]), path[1:]
        argument = _member(self.args, head)
        if argument is not None:
            return _select(argument, rest)
        if head in self.outputs:
            return _select(self.outputs[head], rest)
        return Ref("state", path) if head in self.compiler.document.schema else None

    def suggest(self, name: str) -> str | None:
        """Return the known name that is closest to one that names nothing."""
        return did_you_mean(name, [*_members(self.args), *self.outputs, *self.compiler.document.schema])


def fill_placeholders(text: str, names: PromptNames, path: str, warnings: Report) -> Expr:
    """Return a text with its placeholders replaced by their values."""
    parts: list[Expr] = []
    start = 0
    for match in _PLACEHOLDER.finditer(text):
        name, filter_name = match[1], match[2]
        value = names.resolve(name)
        if value is None:
            near = names.suggest(name)
            message = f"{match[0]} names no argument, no predecessor and no field of the state; it stays as it is"
            add_problem(warnings, path, message, f"{{{{{near}}}}}" if near else None)
            continue
        # An unknown name or filter leaves the text as it is, with a warning.
        if filter_name:
            function = FILTERS.get(filter_name)
            if function is None:
                message = f"{match[0]}: unknown filter {filter_name}; it stays as it is"
                add_problem(warnings, path, message, did_you_mean(filter_name, FILTERS))
                continue
            value = Fn(function, (value,))
        parts += (Lit(text[start : match.start()]), value)
        start = match.end()
    if not parts:
        return Lit(text)
    parts.append(Lit(text[start:]))
    return Fn("${}", tuple(part for part in parts if part != Lit("")))


def fill_expression(prompt: Expr, names: PromptNames, path: str, warnings: Report) -> Expr:
    """Replace the placeholders in the plain parts of a prompt whose `${...}` are compiled already."""
    if isinstance(prompt, Lit) and isinstance(prompt.value, str):
        return fill_placeholders(prompt.value, names, path, warnings)
    if isinstance(prompt, Fn) and prompt.name == "${}":
        return Fn("${}", tuple(fill_expression(part, names, path, warnings) for part in prompt.args))
    return prompt


def _members(holder: Expr) -> dict[str, Expr]:
    """Return the members of an object that is written out, {} for anything else."""
    if isinstance(holder, Obj):
        return dict(holder.fields)
    if isinstance(holder, Lit) and isinstance(holder.value, dict):
        return {name: Lit(value) for name, value in holder.value.items()}
    return {}


def _member(holder: Expr, key: str) -> Expr | None:
    return _members(holder).get(key)


def _select(value: Expr, path: Path) -> Expr:
    """Return the part of a value at the end of a path."""
    for step in path:
        if isinstance(value, Ref):
            value = Ref(value.root, (*value.path, step), value.elide, value.column, value.original)
        else:
            value = _member(value, str(step)) or Fn("[]", (value, Lit(step)))
    return value


class ModelNodes:
    """Compiles the nodes of one experience that ask a model."""

    def __init__(self, compiler: ValueCompiler) -> None:
        self.compiler = compiler
        self.document = compiler.document
        self.schemas: dict[str, Json] = {}  # the parsed schema files, by node id

    # --- operations ---------------------------------------------------------------------------

    def compile_agent(self, node: ExperienceNode, id: str, predecessors: tuple[str, ...]) -> Loop:
        """Return the loop of an `agent` or `skill` node, which fails if the model gives no final answer."""
        if node.kind == "skill":
            messages = self._skill_messages(node, predecessors)
        else:
            messages = Arr((_message("user", self._prompt(node, predecessors)),))
        fields: dict[str, Json] = {key: node.fields[key] for key in ("model", "max_rounds") if key in node.fields}
        schema = self._schema(node)
        if schema is not None:
            fields["output_schema"] = schema
        options = {**agent_options(fields), "must_end": True}
        tools = tuple(dict.fromkeys(node.get("tools", ())))
        undos = compile_undos(node.get("undos"), tools, join(node.path, "undos"), self.document.problems)
        path = join(node.path, "tools")
        return agent_loop(options, tools, messages, undos=undos, path=path, within=f"{id}.", name=node.id)

    def compile_program(self, node: ExperienceNode, predecessors: tuple[str, ...]) -> Call:
        """Return the call that runs the program of a `cli-agent` node."""
        as_json = _answers_json(node)
        args: dict[str, Expr] = {
            "prompt": self._prompt(node, predecessors),
            "format": Lit("json" if as_json else "text"),
            "timeout_ms": Lit(node.get("timeout_ms", CLI_TIMEOUT_MS)),
        }
        for key in ("model", "workdir", "extra_args"):
            if node.get(key):
                args[key] = Lit(node.get(key))
        schema = self._schema(node)
        if as_json and schema is not None:
            args["schema"] = Lit(schema)
        return Call(tool=f"{CLI_TOOL_PREFIX}{node.get('provider', '')}", args=_object(args))

    # --- the request --------------------------------------------------------------------------

    def _prompt(self, node: ExperienceNode, predecessors: tuple[str, ...]) -> Expr:
        path = join(node.path, "prompt")
        prompt = node.get("prompt")
        names = PromptNames(
            args=self.compiler.arguments(node),
            outputs=self._outputs(predecessors),
            compiler=self.compiler,
        )
        if is_file_path(prompt):
            text = self._file_text(prompt.strip(), path)
            return fill_placeholders(text, names, path, self.document.warnings)
        return fill_expression(self.compiler.value(prompt, path), names, path, self.document.warnings)

    def _skill_messages(self, node: ExperienceNode, predecessors: tuple[str, ...]) -> Expr:
        """Return the text of the skill as the system message, and its inputs, as JSON, as the user message."""
        text = self._file_text(skill_file(str(node.get("impl", ""))), join(node.path, "impl"))
        # Later sources win: state, outputs of predecessors, arguments, inputs.
        values: dict[str, Expr] = {name: Ref("state", (name,)) for name in node.get("reads", ())}
        values |= self._outputs(predecessors)
        for key in ("args", "inputs"):
            values |= _members(self.compiler.value(node.get(key, {}), join(node.path, key)))
        content = Fn("${}", (_object(values), Lit("")))
        return Arr((_message("system", Lit(_without_front_matter(text))), _message("user", content)))

    def _outputs(self, predecessors: tuple[str, ...]) -> dict[str, Expr]:
        return {id: self.compiler.edge_output(id) for id in predecessors}

    def _file_text(self, name: str, path: str) -> str:
        """Return the text of a file that a node names; report a problem and return "" if it cannot be read."""
        entry = (self.document.fields.get("files") or {}).get(name)
        if isinstance(entry, str):
            return entry
        problem = entry.get("problem") if isinstance(entry, Mapping) else None
        if not problem:
            problem = f"names the file {name}, but this definition was not read from a directory; run it from its file"
        add_problem(self.document.problems, path, str(problem))
        return ""

    # --- the answer ---------------------------------------------------------------------------

    def _schema(self, node: ExperienceNode) -> Json:
        """Return the JSON Schema of a node's answer, None for a text."""
        schema = node.get("output_schema")
        if not isinstance(schema, str):
            return schema
        # A file is parsed once per node, so that its problems are reported once.
        if node.id not in self.schemas:
            self.schemas[node.id] = self._schema_file(schema, join(node.path, "output_schema"))
        return self.schemas[node.id]

    def _schema_file(self, name: str, path: str) -> Json:
        text = self._file_text(name, path)
        if not text:
            return None
        report = self.document.problems
        try:
            schema = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            add_problem(report, path, f"{name}:{error.lineno}:{error.colno}: {error.msg}")
            return None
        errors = schema_errors(schema)
        for place, reason in errors:
            add_problem(report, path, f"{name}{place}: {reason}")
        return None if errors else schema

    def compile_writes(self, node: ExperienceNode, id: str) -> Expr | None:
        """Return which part of the answer goes to which field of the state, None if nothing is written."""

        # An answer without a schema goes to the one field as it is. Of an object, each property goes to the field of
        # its name. One field with another name gets the whole object if its type allows, else the only property that
        # fits its type.
        names = [name for name in node.get("writes", ()) if name in self.document.schema]
        as_json = _answers_json(node)
        schema = self._schema(node) if as_json else None
        if not names:
            return None
        answer = Ref("out", (id,))
        if not as_json or (schema is None and node.kind != "cli-agent"):
            return _object({names[0]: answer})
        properties = schema.get("properties") if isinstance(schema, dict) else None

        # Without known properties, the fields are picked from the answer by name.
        if not isinstance(properties, dict) or not properties:
            if len(names) > 1:
                return _pick(answer, names)
            if schema is not None:
                return _object({names[0]: answer})
            part = Ref("out", (id, names[0]))
            return _object({names[0]: Fn("?:", (Fn("has", (part,)), part, answer))})

        if len(names) == 1 and not self._gets_own_property(names[0], properties):
            return self._write_single(node, names[0], id, properties)
        for i, name in enumerate(names):
            if name not in properties:
                message = f"the schema has no property {name!r}"
                near = did_you_mean(name, properties)
                add_problem(self.document.warnings, f"{node.path}.writes[{i}]", message, near)

        # A property that may be missing must not be written as null.
        required = (schema or {}).get("required") or ()
        if all(name in required for name in names):
            return _object({name: Ref("out", (id, name)) for name in names})
        return _pick(answer, names)

    def _gets_own_property(self, name: str, properties: Mapping[str, Any]) -> bool:
        """Return True if a field gets the property of its name, not the whole object."""
        if name not in properties:
            return False
        return self._fits(name, properties[name]) or not self._takes_object(name)

    def _write_single(self, node: ExperienceNode, name: str, id: str, properties: Mapping[str, Any]) -> Expr:
        """Write the whole answer, or the only property that fits, to a field."""
        if self._takes_object(name):
            return _object({name: Ref("out", (id,))})
        fitting = [key for key, schema in properties.items() if self._fits(name, schema)]
        if len(fitting) != 1:
            type = self.document.schema[name].get("type")
            count_text = f"{len(fitting)} of its properties are" if fitting else "none of its properties is"
            message = (
                f"the answer is an object, and {count_text} of the type {type}; give the property the name {name!r}"
            )
            add_problem(self.document.problems, join(node.path, "writes"), message)
        return _object({name: Ref("out", (id, *fitting[:1]))})

    def _takes_object(self, name: str) -> bool:
        return self.document.schema[name].get("type") in (None, "object")

    def _fits(self, name: str, schema: Json) -> bool:
        """Return True unless the types of a property and of a field are declared and differ."""
        field_type = self.document.schema[name].get("type")
        property_type = schema.get("type") if isinstance(schema, dict) else None
        if field_type is None or property_type is None or field_type == property_type:
            return True
        return (field_type, property_type) == ("number", "integer")


def _answers_json(node: ExperienceNode) -> bool:
    default = "text" if node.kind == "cli-agent" else "json"
    return str(node.get("output_format", default)) == "json"


def _message(role: str, content: Expr) -> Expr:
    return _object({"role": Lit(role), "content": content})


def _object(fields: Mapping[str, Expr]) -> Obj:
    return Obj(tuple(fields.items()))


def _pick(answer: Expr, names: list[str]) -> Expr:
    return Fn("pick", (answer, Lit([quote_key(name) for name in names])))


def quote_key(name: str) -> str:
    """Return a name as a key for `pick`, which would read the dots of an unquoted one as a path."""
    return name if name.replace("_", "a").isalnum() else f'["{name}"]'


def _without_front_matter(text: str) -> str:
    """Return a Markdown text without the YAML between `---` lines at its top."""
    _, line, rest = text.removeprefix("---\n").partition("\n---\n")
    return rest if text.startswith("---\n") and line else text
