"""The prompts of experiences: texts with `{{name}}` in them, written in the document or in a file next to it.

`{{name}}` is an argument of the node, the output of a predecessor or a field of the state, in this order;
`{{$item.id}}` is a reference. A placeholder that names nothing stays in the text, with a warning: prompts may quote
templates of others. In the document `${...}` is filled in as everywhere else; a file is text but for `{{...}}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ..expr.ast import Expr, Fn, Lit, Obj, Path, Ref
from ..frozen import dataclass
from ..values import Json, closest
from .experience_nodes import path_in
from .fields import Report, say

_PLACEHOLDER: Final = re.compile(r"\{\{\s*(\$?[^\W\d][\w.\[\]-]*|\$\.[\w.\[\]-]+)\s*(?:\|\s*(\w+)\s*)?\}\}")
_SUFFIX: Final = re.compile(r"\.(?:md|markdown|txt|prompt|tmpl|j2)$", re.IGNORECASE)
FILTERS: Final = {"length": "length", "size": "length", "count": "length", "json": "string"}
"""The filters of `{{name|filter}}`, and the functions that they are."""


def is_path(prompt: Json) -> bool:
    """Return True if a prompt is the path of a file (`./prompts/x.md`), not the text itself."""
    if not isinstance(prompt, str) or re.search(r"[\s{}]", prompt.strip()):
        return False
    return prompt.startswith(("./", "../")) or _SUFFIX.search(prompt.strip()) is not None


def named_files(document: Json) -> Iterator[str]:
    """Yield the path of each file whose text a document needs. The document need not be valid."""
    for node in _nodes_in(document):
        kind = str(node.get("kind")).replace("_", "-")
        if kind in ("agent", "cli-agent") and is_path(node.get("prompt")):
            yield node["prompt"].strip()
        if kind == "skill" and isinstance(node.get("impl"), str):
            yield skill_file(node["impl"])
        for key in ("schema", "output_schema", "outputSchema"):
            if isinstance(node.get(key), str):
                yield node[key]


def skill_file(impl: str) -> str:
    """The file of a skill: `SKILL.md` in its directory, or the file that `impl` names."""
    return impl if _SUFFIX.search(impl) else f"{impl.rstrip('/')}/SKILL.md"


def _nodes_in(document: Json) -> Iterator[Mapping[str, Any]]:
    graph = document.get("graph") if isinstance(document, Mapping) else None
    lists = [graph.get("nodes")] if isinstance(graph, Mapping) else []
    pipelines = graph.get("pipelines") if isinstance(graph, Mapping) else None
    if isinstance(pipelines, list):
        lists += [pipeline.get("stages") for pipeline in pipelines if isinstance(pipeline, Mapping)]
    for nodes in lists:
        yield from (node for node in nodes if isinstance(node, Mapping)) if isinstance(nodes, list) else ()


@dataclass(frozen=True, slots=True)
class Names:
    """What the placeholders of a prompt may name."""

    args: Expr
    outputs: Mapping[str, Expr]
    fields: frozenset[str]
    reference: Callable[[str], Expr | None]
    """The value of a text such as `$item.id`; None for one that is no reference."""

    def value(self, name: str) -> Expr | None:
        """The value of the placeholder `{{name}}`, None where it names nothing."""
        if name.startswith("$"):
            return self.reference(name)
        path = path_in(name)
        if not path:
            return None
        head, rest = str(path[0]), path[1:]
        found = _member(self.args, head)
        if found is not None:
            return _walked(found, rest)
        if head in self.outputs:
            return _walked(self.outputs[head], rest)
        return Ref("state", path) if head in self.fields else None

    def nearest(self, name: str) -> str | None:
        """The name that was probably meant by one that names nothing."""
        given = [key for key, _ in self.args.fields] if isinstance(self.args, Obj) else []
        given += list(self.args.value) if isinstance(self.args, Lit) and isinstance(self.args.value, dict) else []
        return closest(name, [*given, *self.outputs, *self.fields])


def filled(text: str, names: Names, path: str, warnings: Report) -> Expr:
    """The text with its placeholders as values."""
    parts: list[Expr] = []
    at = 0
    for found in _PLACEHOLDER.finditer(text):
        value = names.value(found[1])
        function = FILTERS.get(found[2]) if found[2] else ""
        if value is None or function is None:
            _doubt(found, names, value is None, path, warnings)
            continue
        parts.append(Lit(text[at : found.start()]))
        parts.append(Fn(function, (value,)) if function else value)
        at = found.end()
    if not parts:
        return Lit(text)
    return Fn("${}", tuple(part for part in (*parts, Lit(text[at:])) if part != Lit("")))


def filled_in(prompt: Expr, names: Names, path: str, warnings: Report) -> Expr:
    """The placeholders in the plain parts of a prompt that has been read as a text with `${...}`."""
    if isinstance(prompt, Lit) and isinstance(prompt.value, str):
        return filled(prompt.value, names, path, warnings)
    if isinstance(prompt, Fn) and prompt.name == "${}":
        return Fn("${}", tuple(filled_in(part, names, path, warnings) for part in prompt.args))
    return prompt


def _doubt(found: re.Match[str], names: Names, nothing: bool, path: str, warnings: Report) -> None:
    if nothing:
        message = f"{found[0]} names no argument, no predecessor and no field of the state; it stays as it is"
        near = names.nearest(found[1])
        say(warnings, path, message, f"{{{{{near}}}}}" if near else None)
    else:
        say(warnings, path, f"{found[0]}: there is no filter {found[2]}; it stays as it is", closest(found[2], FILTERS))


def _member(holder: Expr, key: str) -> Expr | None:
    if isinstance(holder, Obj):
        return next((value for name, value in holder.fields if name == key), None)
    if isinstance(holder, Lit) and isinstance(holder.value, dict) and key in holder.value:
        return Lit(holder.value[key])
    return None


def _walked(value: Expr, path: Path) -> Expr:
    """The part of a value at the end of a path."""
    for step in path:
        if isinstance(value, Ref):
            value = Ref(value.root, (*value.path, step), value.elide, value.column, value.said)
        else:
            value = _member(value, str(step)) or Fn("[]", (value, Lit(step)))
    return value
