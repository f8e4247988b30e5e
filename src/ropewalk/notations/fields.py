"""Read the fields of documents: known keys in either spelling, checked values, every problem with its place.

The second half reads documents that are lists of typed nodes.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from ..deadline import look_at_clock
from ..duration import EXAMPLES, MILLISECOND, read_duration
from ..errors import InvalidFlow, Problem
from ..problems import Problems
from ..schema import default_errors, schema_errors
from ..values import NOT_JSON, Json, did_you_mean, is_json
from ..values import camel as camel
from ..values import copy_json as copy_json
from ..values import snake as snake

Report = list[Problem]


def add_problem(report: Report, path: str, message: str, suggestion: str | None = None) -> None:
    """Append a problem to a report."""
    report.append(Problem(path=path, message=message, suggestion=suggestion))


def check_wait_kind(fields: Collection[str], what: str, path: str, report: Report) -> None:
    """Report a wait that has both an event and an approval, or neither."""
    if "event" in fields and "approval" in fields:
        add_problem(report, path, f"{what}has both event and approval; write one of them")
    elif "event" not in fields and "approval" not in fields:
        add_problem(report, path, f"{what}needs either event or approval")


def normalize_keys(
    doc: Mapping[str, Json],
    known: Mapping[str, Any],
    path: str,
    report: Report,
    is_listed: Callable[[str], bool] | None = None,
    others: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Json]:
    """Return the document with its keys in the documented spelling; report unknown and repeated keys."""

    # `others`: Words of other notations, each with the documented one.
    fields: dict[str, Json] = {}
    for key, value in doc.items():
        if key in known and key not in fields:  # nearly every key
            fields[key] = value
            continue
        name = key if key in known or not isinstance(key, str) else camel(key)
        if name not in known and isinstance(key, str) and snake(key) in known:
            name = snake(key)
        if name not in known and isinstance(name, str):
            name = others.get(name) or others.get(snake(name)) or name
        # Suggest a similar key; without one, list what is possible.
        if name not in known:
            place = f"{path}.{key}" if path else str(key)
            suggestion = _suggest_key(str(name), known) or _suggest_key(str(key), known)
            message = "unknown key"
            if not suggestion:
                message += f"; expected one of: {', '.join(filter(is_listed, known) if is_listed else known)}"
            add_problem(report, place, message, suggestion)
        elif name in fields:
            known_key = next(
                spelling
                for spelling in doc
                if isinstance(spelling, str)
                and spelling != key
                and name in (spelling, camel(spelling), snake(spelling), others.get(spelling))
            )
            add_problem(report, f"{path}.{key}" if path else str(key), f"is defined twice, also as {known_key}")
        else:
            fields[name] = value
    return fields


def _suggest_key(key: str, known: Mapping[str, Any]) -> str | None:
    """Return the key that was probably meant: in another letter case, from another notation, or the most similar."""
    folded = {name.lower(): name for name in known}
    translated = _FOREIGN_KEYS.get(key)
    if translated in known:
        return translated
    # Keys are short, so a half similar one (`steps`, `items`) means something else; the list of all keys is better.
    swapped = next((name for name in known if sorted(name) == sorted(key)), None)
    return folded.get(key.lower()) or swapped or did_you_mean(key, known, 0.78)


_FOREIGN_KEYS = {
    "needs": "dependsOn",
    "else": "otherwise",
    "if": "condition",
    "steps": "nodes",
    "nodes": "steps",
    "params": "args",
    "parameters": "params",
    "vars": "variables",
    "retries": "maxRetries",
}
"""Keys of other notations and the keys that they stand for here."""


def join(path: str, key: str) -> str:
    """Return the path of a key: `path.key`."""
    return f"{path}.{key}" if path else key


MAX_DEPTH = 200  # of a document; its nodes and its values have tighter limits of their own


def copy_plain(value: Json, path: str, report: Report, depth: int = MAX_DEPTH) -> Json:
    """Return a deep copy in plain JSON, independent of the original."""

    # Tuples become lists and enum members their values. Anything that is not JSON is reported with its place and
    # replaced by null.
    copied = copy_json(value, depth)  # the fast path: nearly every document is plain JSON
    return _copy_plain(value, path, report, depth) if copied is NOT_JSON else copied


def _copy_plain(value: Json, path: str, report: Report, depth: int) -> Json:
    """Copy a value part by part, to find the place of everything that is not JSON."""
    if isinstance(value, str):
        text = str.__str__(value)
        if is_json(text):
            return text
        add_problem(report, path, "must not contain a NUL character or a lone surrogate")
        return None
    if value is None or isinstance(value, bool):
        return value
    # Containers are copied part by part, with the path of each part.
    if isinstance(value, (Mapping, list, tuple)):
        if not depth:
            add_problem(report, path, f"nested deeper than {MAX_DEPTH}")
            return None
        if not isinstance(value, Mapping):
            return [_copy_plain(item, f"{path}[{i}]", report, depth - 1) for i, item in enumerate(value)]
        copy: dict[str, Json] = {}
        for key, item in value.items():
            if isinstance(key, str) and is_json(str.__str__(key)):
                name = str.__str__(key)
                copy[name] = _copy_plain(item, f"{path}.{name}" if path else name, report, depth - 1)
            else:
                add_problem(report, path, f"the key {key!r} is not a valid JSON string")
        return copy
    if type(value) in (int, float) and is_json(value):
        return value
    add_problem(
        report,
        path,
        f"{value} is not a valid JSON number" if isinstance(value, (int, float)) else f"{type_name(value)} is not JSON",
    )
    return None


# --- one checker per kind of value: (value, path, report) -> the value to use ------------------
#
# The returned value always has the right type, so that code that reads a document with problems need not
# check types again.

Checker = Callable[[Json, str, Report], Json]


def text(value: Json, path: str, report: Report) -> Json:
    """Accept a string."""
    if not isinstance(value, str):
        add_problem(report, path, f"must be a string, not {type_name(value)}")
        return ""
    return value


def name(value: Json, path: str, report: Report) -> Json:
    """Accept a string that is not blank."""

    # YAML reads some unquoted words as numbers or booleans, so suggest quotes.
    if isinstance(value, (bool, int, float)):
        quoted = json.dumps(value)
        add_problem(report, path, f'must be a string, not {type_name(value)}; write "{quoted}" in quotes')
        return quoted
    if not isinstance(value, str) or not value.strip():
        add_problem(report, path, "must be a non-empty string")
        return ""
    return value


def variable(value: Json, path: str, report: Report) -> Json:
    """Accept the plain name of a variable, as written after `$var.`."""
    if isinstance(value, str) and not _NOT_IN_NAMES.isdisjoint(value):
        plain = re.sub(r"[\W_]+", "_", re.sub(_REFERENCE_PREFIX, "", value)).strip("_")
        add_problem(
            report, path, f"must be the plain name of a variable, not {value!r}: it is read as $var.NAME", plain or None
        )
        return value
    return name(value, path, report)


_NOT_IN_NAMES = frozenset("$.[]{}")
_REFERENCE_PREFIX = r"^\s*\$?\{?\s*\$?(?:var\b)?"


def condition(value: Json, path: str, report: Report) -> Json:
    """Accept the text of an expression, or a boolean."""
    return value if isinstance(value, bool) else name(value, path, report)


def truth(value: Json, path: str, report: Report) -> Json:
    """Accept a boolean."""
    if not isinstance(value, bool):
        add_problem(report, path, f"must be true or false, not {type_name(value)}")
        return False
    return value


def mapping(value: Json, path: str, report: Report) -> Json:
    """Accept an object."""
    if not isinstance(value, Mapping):
        add_problem(report, path, f"must be an object, not {type_name(value)}")
        return {}
    return value


def names(value: Json, path: str, report: Report) -> Json:
    """Accept a name or a list of names."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        add_problem(report, path, f"must be an id or a list of ids, not {type_name(value)}")
        return []
    for i, item in enumerate(items):
        if not isinstance(item, str):
            add_problem(report, f"{path}[{i}]", f"must be an id, not {type_name(item)}")
    return [item for item in items if isinstance(item, str)]


def number(value: Json, path: str, report: Report) -> Json:
    """Accept a finite number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        add_problem(report, path, f"must be a number, not {type_name(value)}")
        return 0
    if not math.isfinite(value) or value < 0:
        add_problem(report, path, f"must be 0 or more, not {value}")
        return 0
    return value


def milliseconds(value: Json, path: str, report: Report) -> Json:
    """Accept milliseconds as a number of 0 or more, or a duration such as `10s`; return milliseconds."""
    read = read_duration(value, MILLISECOND)
    if isinstance(read, str):
        add_problem(report, path, f"must be a number of milliseconds, or {EXAMPLES}, not {read[:40]!r}")
        return 0
    return number(read, path, report)


def count(value: Json, path: str, report: Report) -> Json:
    """Accept an integer of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        add_problem(report, path, f"must be an integer, not {value if type(value) is float else type_name(value)}")
        return 0
    if value < 0:
        add_problem(report, path, f"must be 0 or more, not {value}")
        return 0
    return value


def positive(value: Json, path: str, report: Report) -> Json:
    """Accept an integer of 1 or more."""
    if not isinstance(value, bool) and isinstance(value, int) and value < 1:
        add_problem(report, path, f"must be 1 or more, not {value}")
        return 1
    return count(value, path, report) or 1


def positive_milliseconds(value: Json, path: str, report: Report) -> Json:
    """Accept milliseconds as an integer of 1 or more, or a duration such as `10s`; return milliseconds."""
    return positive(read_duration(value, MILLISECOND), path, report)


def milliseconds_or_reference(value: Json, path: str, report: Report) -> Json:
    """Accept any value, which the compiler checks; return milliseconds for a duration such as `10s`."""
    return read_duration(value, MILLISECOND)


def anything(value: Json, path: str, report: Report) -> Json:
    """Accept any value; it is checked elsewhere."""
    return value


def read_object(
    value: Json,
    known: Mapping[str, Checker],
    path: str,
    report: Report,
    *,
    required: tuple[str, ...] = (),
    nulls: tuple[str, ...] = (),
    expected: str = "an object",
    others: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Json]:
    """Read the fields of an object, each with its checker."""

    # `required`: The keys that must be present.
    if not isinstance(value, Mapping):
        add_problem(report, path, f"must be {expected}, not {type_name(value)}")
        return {}
    fields = {
        k: v
        for k, v in normalize_keys(value, known, path, report, others=others).items()
        if v is not None or k in nulls
    }
    for key, item in fields.items():
        fields[key] = known[key](item, join(path, key), report)
    for key in required:
        if key not in fields:
            add_problem(report, join(path, key), "required")
    return fields


class OneOf:
    """Accept one of some words, in any letter case."""

    # For another word it reports the choices and returns the suggestion, or "". `aliases` maps words of other notations
    # to ours.

    __slots__ = ("aliases", "words")

    def __init__(self, words: tuple[str, ...], aliases: Mapping[str, str]) -> None:
        self.words, self.aliases = words, aliases

    def __call__(self, value: Json, path: str, report: Report) -> Json:
        text = str(getattr(value, "value", value)).strip().lower()
        word = text if text in self.words else text.replace("-", "_")
        if not isinstance(value, str) or word not in self.words:
            suggestion = self.aliases.get(word) or did_you_mean(word, self.words)
            add_problem(report, path, f"unknown value {value!r}; expected one of: {', '.join(self.words)}", suggestion)
            return suggestion or ""
        return word


def one_of(words: tuple[str, ...], aliases: Mapping[str, str] = MappingProxyType({})) -> Checker:
    """Return the checker of one of some words."""
    return OneOf(words, aliases)


def word_of(enum: type[StrEnum], aliases: Mapping[str, str] = MappingProxyType({})) -> Checker:
    """Return the checker of the words of an enumeration."""
    return one_of(tuple(str(member.value) for member in enum), aliases)


def type_name(value: Json) -> str:
    """Return the JSON name of a value's type, with its article; the Python name if it is not JSON."""
    json_names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string",
             list: "a list", dict: "an object"}  # fmt: skip
    return json_names.get(type(value), type(value).__name__)


def closest_attribute(owner: str, name: str, data: Mapping[str, Any]) -> str:
    """Return the message of an AttributeError, with the name that was probably meant."""
    hint = did_you_mean(camel(name), data)
    return f"{owner} has no {name!r}" + (f"; did you mean {snake(hint)!r}?" if hint else "")


_ID_NAMESPACE: Final = uuid.UUID("0d6a1f3e-6a3b-5c1b-8a54-3f2f0c8f7a61")
MAX_NESTING: Final = 64
SCHEMAS: Final = ("inputSchema", "outputSchema")

Read = TypeVar("Read")


def read_document(
    config: Mapping[str, Json], known: Mapping[str, Checker], kind: str, schemas: Collection[str] = SCHEMAS
) -> tuple[dict[str, Json], Report]:
    """Read the fields of a document."""
    report: Report = Problems()
    if not isinstance(config, Mapping):
        raise InvalidFlow([Problem(path="", message=f"a {kind} must be an object, not {type_name(config)}")])
    fields = normalize_keys(copy_plain(config, "", report), known, "", report)
    fields = {key: value for key, value in fields.items() if value is not None and key not in ("kind", "metadata")}
    for key, value in fields.items():
        fields[key] = known[key](value, key, report)
    for key in schemas:
        if key in fields and not (check_schema(fields[key], key, report) and _check_defaults(fields[key], key, report)):
            del fields[key]
    return fields, report


def read_document_with_nodes(
    config: Mapping[str, Json],
    known: Mapping[str, Checker],
    kind: str,
    defaults: Mapping[str, Json],
    read: Callable[[Json, str, Report, int], Read],
) -> tuple[dict[str, Json], list[Read], Report]:
    """Read a document with `nodes`: its fields with defaults, its nodes, and the problems."""

    # A document without an id gets one that is the same at every reading, because results contain it.
    document, report = read_document(config, known, kind)
    fields = {"id": document.get("id") or _stable_id(kind, document), **defaults, "variables": {}, **document}
    value = fields.pop("nodes", None)
    if value is None and any(problem.suggestion == "nodes" for problem in report):
        return fields, [], report  # the nodes are there, under another key
    nodes = read_nodes(value, "nodes", report, 1, read)
    if not nodes and not any(p.path == "nodes" for p in report):
        add_problem(report, "nodes", "must be a non-empty list of nodes")
    return fields, nodes, report


def _stable_id(kind: str, fields: Mapping[str, Json]) -> str:
    """Return the id of a document without one: derived from its name, or else from its content."""
    name = fields.get("name")
    seed = name if isinstance(name, str) and name else json.dumps(fields, sort_keys=True)
    return str(uuid.uuid5(_ID_NAMESPACE, f"{kind}\n{seed}"))


def check_schema(value: Json, path: str, report: Report) -> bool:
    """Return True if a value is a valid JSON Schema; report its errors."""
    errors = schema_errors(value)
    for place, why in errors:
        add_problem(report, path + place, why)
    return not errors


def _check_defaults(schema: Json, path: str, report: Report) -> bool:
    """Return True if the defaults in an input schema fit it; report those that do not."""
    errors = default_errors(schema) if path == "inputSchema" else []
    for place, why in errors:
        add_problem(report, path + place, f"the default does not fit: {why}")
    return not errors


def read_nodes(
    value: Json, path: str, report: Report, depth: int, read: Callable[[Json, str, Report, int], Read]
) -> list[Read]:
    """Read a list of nodes."""
    if depth > MAX_NESTING:
        # Report this once, at the outermost node: the full path would be longer than any line.
        problem = Problem(path=path.partition("]")[0] + "]", message=f"nested deeper than {MAX_NESTING} lists of nodes")
        if problem not in report:
            report.append(problem)
        return []
    if isinstance(value, Mapping) and not path.endswith("]") and depth > 1:
        return [read(value, path, report, depth)]
    if not isinstance(value, list):
        add_problem(report, path, f"must be a list of nodes, not {type_name(value)}")
        return []
    nodes = []
    for i, item in enumerate(value):
        look_at_clock()
        nodes.append(read(item, f"{path}[{i}]", report, depth))
    return nodes
