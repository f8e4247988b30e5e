"""The nodes of experiences that ask a model: agents and skills through the model of the app, `cli-agent` through a
program. Their prompts are filled in here, and it is decided here which part of an answer goes to which field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from ..expr.ast import Arr, Expr, Fn, Lit, Obj, Ref
from ..ops import Call, Loop
from ..schema import flaws
from ..values import Json, closest
from .agent import agent_options
from .agent_flow import agent_loop
from .experience_nodes import ExperienceNode
from .experience_prompt import Names, filled, filled_in, is_path, skill_file
from .fields import join, say

if TYPE_CHECKING:
    from .experience_flow import ExperienceCompiler

CLI: Final = "cli-agent:"
"""How the ids of the tools begin that run the program of a provider."""
CLI_TIMEOUT_MS: Final = 600_000


class ModelNodes:
    """Compiles the model nodes of one experience, for its compiler."""

    def __init__(self, compiler: ExperienceCompiler) -> None:
        self.compiler, self.document = compiler, compiler.document
        self.schemas: dict[str, Json] = {}

    # --- operations ---------------------------------------------------------------------------

    def agent(self, node: ExperienceNode, own: str, before: tuple[str, ...]) -> Loop:
        """The loop of an agent or a skill as one node, which fails where the model comes to no end."""
        if node.kind == "skill":
            start = self._skill_messages(node, before)
        else:
            start = Arr((_message("user", self.prompt(node, before)),))
        given = {key: node.fields[key] for key in ("model", "max_rounds") if key in node.fields}
        schema = self.schema(node)
        options = {**agent_options(given | ({"output_schema": schema} if schema is not None else {})), "must_end": True}
        tools = tuple(dict.fromkeys(node.get("tools", ())))
        return agent_loop(options, tools, start, path=join(node.path, "tools"), within=f"{own}.", name=node.id)

    def program(self, node: ExperienceNode, before: tuple[str, ...]) -> Call:
        """The call of the program of a provider."""
        as_json = self._gives_json(node)
        asked: dict[str, Expr] = {"prompt": self.prompt(node, before), "format": Lit("json" if as_json else "text")}
        asked["timeout_ms"] = Lit(node.get("timeout_ms", CLI_TIMEOUT_MS))
        for key in ("model", "workdir", "extra_args"):
            if node.get(key):
                asked[key] = Lit(node.get(key))
        schema = self.schema(node)
        if as_json and schema is not None:
            asked["schema"] = Lit(schema)
        return Call(tool=f"{CLI}{node.get('provider', '')}", args=Obj(tuple(asked.items())))

    # --- what is asked ------------------------------------------------------------------------

    def prompt(self, node: ExperienceNode, before: tuple[str, ...]) -> Expr:
        """The prompt of a node with its placeholders filled in."""
        path, given = join(node.path, "prompt"), node.get("prompt")
        names = self._names(node, before)
        if is_path(given):
            return filled(self._file(given.strip(), path), names, path, self.document.warnings)
        return filled_in(self.compiler.value(given, path), names, path, self.document.warnings)

    def _skill_messages(self, node: ExperienceNode, before: tuple[str, ...]) -> Expr:
        """The text of the skill for the system, and what it works on as JSON for the user."""
        text = self._file(skill_file(str(node.get("impl", ""))), join(node.path, "impl"))
        values: dict[str, Expr] = {name: Ref("state", (name,)) for name in node.get("reads", ())}
        values |= {id: self.compiler.edge_output(id) for id in before}
        for key in ("args", "inputs"):
            given = self.compiler.value(node.get(key, {}), join(node.path, key))
            if isinstance(given, Obj):
                values |= dict(given.fields)
            elif isinstance(given, Lit) and isinstance(given.value, dict):
                values |= {name: Lit(value) for name, value in given.value.items()}
        content = Fn("${}", (Obj(tuple(values.items())), Lit("")))
        return Arr((_message("system", Lit(_without_front_matter(text))), _message("user", content)))

    def _names(self, node: ExperienceNode, before: tuple[str, ...]) -> Names:
        return Names(
            args=self.compiler.value(node.get("args", {}), join(node.path, "args")),
            outputs={id: self.compiler.edge_output(id) for id in before},
            fields=frozenset(self.document.schema),
            reference=self.compiler.reference,
        )

    def _file(self, name: str, path: str) -> str:
        """The text of a file that a node names; "" for one that cannot be read, which is a problem at `path`."""
        found = (self.document.fields.get("files") or {}).get(name)
        if isinstance(found, str):
            return found
        wrong = found.get("problem") if isinstance(found, Mapping) else None
        nowhere = f"names the file {name}, and this definition comes from no directory; run it from its file"
        say(self.document.problems, path, str(wrong or nowhere))
        return ""

    # --- what comes back ----------------------------------------------------------------------

    def schema(self, node: ExperienceNode) -> Json:
        """The JSON Schema of a node's answer, None for a text."""
        given = node.get("output_schema")
        if not isinstance(given, str):
            return given
        if node.id not in self.schemas:
            self.schemas[node.id] = self._schema_file(given, join(node.path, "output_schema"))
        return self.schemas[node.id]

    def _schema_file(self, name: str, path: str) -> Json:
        text = self._file(name, path)
        if not text:
            return None
        try:
            schema = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            say(self.document.problems, path, f"{name}:{error.lineno}:{error.colno}: {error.msg}")
            return None
        wrong = flaws(schema)
        for place, why in wrong:
            say(self.document.problems, path, f"{name}{place}: {why}")
        return None if wrong else schema

    def _gives_json(self, node: ExperienceNode) -> bool:
        default = "json" if node.kind != "cli-agent" else "text"
        return str(node.get("output_format", default)) == "json"

    def writes(self, node: ExperienceNode, own: str) -> Expr | None:
        """Which part of an answer goes to which field, None where nothing is written.

        An answer without a schema goes to the one field as it is. Of an object each property goes to the field of its
        name. One field that is named otherwise gets the whole object where it takes one, else the only property that
        fits its type.
        """
        names = [name for name in node.get("writes", ()) if name in self.document.schema]
        schema = self.schema(node) if self._gives_json(node) else None
        if not names:
            return None
        answer = Ref("out", (own,))
        if not self._gives_json(node) or (schema is None and node.kind != "cli-agent"):
            return _object({names[0]: answer})
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(properties, dict) or not properties:
            return self._unknown_parts(names, own, schema is None)
        if len(names) == 1 and not self._is_part(names[0], properties):
            return self._one_part(node, names[0], own, properties)
        for i, name in enumerate(names):
            if name not in properties:
                path = f"{node.path}.writes[{i}]"
                say(self.document.warnings, path, f"the schema has no property {name!r}", closest(name, properties))
        required = self._required(schema)
        if all(name in required for name in names):
            return _object({name: Ref("out", (own, name)) for name in names})
        return Fn("pick", (answer, Lit([quoted(name) for name in names])))

    def _required(self, schema: Json) -> Sequence[Json]:
        return (schema.get("required") or ()) if isinstance(schema, dict) else ()

    def _is_part(self, name: str, properties: Mapping[str, Any]) -> bool:
        """Return True if the property with the name of the field is what it gets, not the whole object."""
        if name not in properties:
            return False
        return self._fits(name, properties[name]) or not self._takes_object(name)

    def _one_part(self, node: ExperienceNode, name: str, own: str, properties: Mapping[str, Any]) -> Expr:
        if self._takes_object(name):
            return _object({name: Ref("out", (own,))})
        fitting = [key for key, schema in properties.items() if self._fits(name, schema)]
        if len(fitting) != 1:
            type = self.document.schema[name].get("type")
            what = f"{len(fitting)} of its properties are" if fitting else "none of its properties is"
            message = f"the answer is an object, and {what} of the type {type}; give the property the name {name!r}"
            say(self.document.problems, join(node.path, "writes"), message)
        return _object({name: Ref("out", (own, *fitting[:1]))})

    def _unknown_parts(self, names: list[str], own: str, free: bool) -> Expr:
        """The fields of an answer of which nobody says which properties it has; `free` if it may be any JSON."""
        if len(names) > 1:
            return Fn("pick", (Ref("out", (own,)), Lit([quoted(name) for name in names])))
        answer, part = Ref("out", (own,)), Ref("out", (own, names[0]))
        return _object({names[0]: Fn("?:", (Fn("has", (part,)), part, answer)) if free else answer})

    def _takes_object(self, name: str) -> bool:
        return self.document.schema[name].get("type") in (None, "object")

    def _fits(self, name: str, schema: Json) -> bool:
        """Return True unless the types of a property and of a field are declared and differ."""
        takes, gives = self.document.schema[name].get("type"), schema.get("type") if isinstance(schema, dict) else None
        return takes is None or gives is None or takes == gives or (takes, gives) == ("number", "integer")


def _message(role: str, content: Expr) -> Expr:
    return _object({"role": Lit(role), "content": content})


def _object(fields: Mapping[str, Expr]) -> Obj:
    return Obj(tuple(fields.items()))


def quoted(name: str) -> str:
    """A name as `pick` takes it, which else reads dots as a path."""
    return name if name.replace("_", "a").isalnum() else f'["{name}"]'


def _without_front_matter(text: str) -> str:
    """The body of a Markdown file, without the YAML between `---` lines at its top."""
    _, line, rest = text.removeprefix("---\n").partition("\n---\n")
    return rest if text.startswith("---\n") and line else text
