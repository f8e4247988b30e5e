"""Every public operation that takes data of any size, with valid and with wrong input: what `cost.py` measures.

An operation is a function from a size to the call that is measured. `tests/test_cost.py` holds this table to the tables
of the language, so a function without a line here fails it.
"""

# ruff: noqa: E501  (a table)

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from cost_documents import DOCUMENTS
from ropewalk import App, transform
from ropewalk.codec import flow_from_json, flow_to_json
from ropewalk.draw import draw, graph_data
from ropewalk.errors import RopewalkError
from ropewalk.expr import MISSING, compile_expr, parse
from ropewalk.expr.ast import show
from ropewalk.schema import compile_schema
from ropewalk.source.load import load
from ropewalk.values import check_json, did_you_mean

Operation: TypeAlias = Callable[[int], Callable[[], Any]]


VALUES: dict[str, Callable[[int], Any]] = {
    "l": lambda n: list(range(n)),
    "s": lambda n: "ab " * n,
    "t": lambda n: [f"text {i % (n // 2 + 1)}" for i in range(n)],
    "d": lambda n: {f"k{i}": i for i in range(n)},
    "e": lambda n: {f"k{i}": {"x": i} for i in range(n)},
    "rows": lambda n: [{"a": i % 97, "b": f"t{i}", "c": {"x": -1 - i % 2}} for i in range(n)],
    "z": lambda n: [list(row) for row in itertools.islice(itertools.product((-1, -2), repeat=24), n)],
    "ll": lambda n: [[i, [i]] for i in range(n)],
    "b": lambda n: [i % 2 == 0 for i in range(n)],
    "m": lambda n: {f"k{i}": f"n{i}" for i in range(n)},
    "names": lambda n: [f"k{i}" for i in range(n)],
    "v": lambda n: [None, True, 1.5, "x"] * (n // 4),
}
"""Values of about `n` elements; `z` are lists whose hashes collide in Python."""


def data(n: int) -> dict[str, Any]:
    """All of them."""
    return {name: make(n) for name, make in VALUES.items()}


@transform("cost_same")
def same(value: Any) -> Any:
    """A transform of the user's, which must not count."""
    return value


EXPRESSIONS: dict[str, str] = {
    "base64": "base64(input.s)", "dataUri": "dataUri(input.s)", "has": "has(input.d)", "exists": "exists(input.d)",
    "coalesce": "coalesce(null, input.d)", "required": "required(input.d)",
    "length": "length(input.s)", "size": "size(input.l)",
    "contains": "contains(input.t, 'no')", "startsWith": "startsWith(input.s, input.s)",
    "endsWith": "endsWith(input.s, input.s)", "lower": "lower(input.s)", "upper": "upper(input.s)",
    "trim": "trim(input.s)", "replace": "replace(input.s, 'a', 'xyz')", "split": "split(input.s, ' ')",
    "join": "join(input.t, ', ')", "matches": "matches(input.s, '(a|b| )*c')", "sum": "sum(input.l)",
    "avg": "avg(input.l)", "min": "min(input.t)", "max": "max(input.l)", "abs": "input.l.map(x, abs(x))",
    "round": "input.l.map(x, round(x / 3, 2))", "int": "input.l.map(x, int(string(x)))",
    "float": "input.l.map(x, float(string(x)))", "bool": "input.l.map(x, bool('true'))", "string": "string(input.rows)",
    "${}": "input.l.map(x, 'a' + string(x))", "keys": "keys(input.d)", "values": "values(input.d)", "any": "any(input.b)",
    "all": "all(input.b)", "unique": "unique(input.z)", "unique of objects": "unique(input.rows)",
    "unique of numbers": "unique(input.l)", "unique of texts": "unique(input.t)", "flatten": "flatten(input.ll)",
    "sort": "sort(input.t)", "sort of mixed values": "sort(input.v)", "query": "query(input.rows, '$[?@.a > 5].b')",
    "query for descendants": "query(input.rows, '$..x')", "custom": "custom('cost_same', input.l)",
    "pick": "pick(input.rows, ['a', 'c.x'])", "pick of many": "pick(input.d, input.names)",
    "omit": "omit(input.rows, ['a'])", "omit of many": "omit(input.d, input.names)",
    "rename": "rename(input.d, input.m)", "merge": "merge(input.d, input.m)", "deep_merge": "deep_merge(input.e, input.e)",
    "concat": "concat(input.l, input.l)", "zip": "zip(input.l, input.t)",
    "macro all": "input.l.all(x, x >= 0)", "macro exists": "input.l.exists(x, x < 0)", "macro any": "input.l.any(x, x < 0)",
    "macro exists_one": "input.l.exists_one(x, x == 1)", "macro map": "input.l.map(x, {'a': x})",
    "macro filter": "input.l.filter(x, x > 5)", "macro flat_map": "input.l.flat_map(x, [x, x])",
    "macro group_by": "input.rows.group_by(x, x.a)", "macro sort": "input.rows.sort($item.b, 'desc')",
    "macro reduce": "input.l.reduce(a, x, a + x, 0)", "&&": "input.l.filter(x, x > 1 && x < 9)",
    "||": "input.l.filter(x, x < 1 || x > 9)", "!": "input.b.filter(x, !x)", "?:": "input.l.map(x, x > 3 ? 1 : 2)",
    "==": "input.rows == input.rows", "!=": "input.z != input.z", "<": "input.s < input.s", "<=": "input.s <= input.s",
    ">": "input.s > input.s", ">=": "input.s >= input.s", "in": "'no' in input.t", "+": "input.l + input.l",
    "-": "input.l.map(x, x - 1)", "*": "input.l.map(x, x * 2)", "/": "input.l.map(x, x / 2)", "%": "input.l.map(x, x % 2)",
    "neg": "input.l.map(x, -x)", "[]": "input.l.map(x, input.l[x])",
    "wrong: map of a text": "input.s.map(x, x)", "wrong: sum of texts": "sum(input.t)", "wrong: sort order": "input.l.sort($item, input.s)",
    "wrong: in a list of lists": "[9] in input.z", "wrong: group_by lists": "input.ll.group_by(x, x)",
    "wrong: a pattern too large": "matches(input.s, '(a{1,100}){1,10}b')", "wrong: keys of a list": "keys(input.l)",
}  # fmt: skip


def outcome(work: Callable[[], Any]) -> Any:
    """What a piece of work gives, or what it refuses its input with."""
    try:
        return work()
    except RopewalkError as error:
        return error


def expression(text: str) -> Operation:
    def make(n: int) -> Callable[[], Any]:
        run = compile_expr(parse(text), lambda ref: (lambda frame: frame.get(ref.root, MISSING), ref.path))
        frame = {"input": {name: VALUES[name](n) for name in re.findall(r"input\.(\w+)", text)}}
        return lambda: outcome(lambda: run(frame))

    return make


def app() -> App:
    def echo(value: Any = None) -> Any:
        """Gives back what it gets."""
        return value

    return App("memory", tools=[echo])


def checked(document: Callable[[int], Any], form: str) -> Operation:
    """Reading, compiling and checking a document of about `n / 20` nodes from its text."""

    def make(n: int) -> Callable[[], Any]:
        text = json.dumps(document(max(2, n // 20)), indent=1 if form == "yaml" else None)
        text = text if form == "json" else "# read as YAML\n" + text

        def work() -> Any:
            fresh = app()  # with empty caches
            return fresh.check(fresh.load(text), unknown_tools="problem")

        return lambda: outcome(work)

    return make


def on(name: str, use: Callable[[App, Any], Any]) -> Operation:
    """What an app does with a loaded definition."""

    def make(n: int) -> Callable[[], Any]:
        fresh = app()
        loaded = fresh.load(DOCUMENTS[name](max(2, n // 20)))
        return lambda: outcome(lambda: use(fresh, loaded))

    return make


def converted(kind: str) -> Callable[[App, Any], Any]:
    return lambda app, loaded: app.convert(loaded, kind, allow_loss=True)


def on_text(write: Callable[[int], str], form: str) -> Operation:
    def make(n: int) -> Callable[[], Any]:
        text = write(n)
        return lambda: outcome(lambda: load(text, form=form))

    return make


USES: dict[str, Callable[[App, Any], Any]] = {
    "plan": lambda app, loaded: asyncio.run(app.preview(loaded)),
    "draw as Mermaid:": lambda app, loaded: draw(loaded.flow, "mermaid"),
    "draw as text:": lambda app, loaded: draw(loaded.flow, "text"),
    "draw as SVG:": lambda app, loaded: draw(loaded.flow, "svg"),
    "draw as data:": lambda app, loaded: graph_data(loaded.flow),
    "write and read as JSON:": lambda app, loaded: flow_from_json(flow_to_json(loaded.flow)),
}
USED = (
    "chain", "chain, dag", "chain, dag, wide", "chain of jumps", "chain, dag of variables", "chain of loops", "composition of conditions",
    "experience of fields", "experience of separate writers", "experience of diamonds", "experience of one loop",
)  # fmt: skip
KINDS = ("chain", "composition", "composite", "experience", "runchain")
CONVERTED = (
    "chain", "chain, parallel", "chain, dag", "chain of conditions", "chain of jumps", "chain of variables", "chain of loops",
    "chain of branches", "chain of transforms", "chain that reads outputs", "chain with retries", "composition of conditions",
    "composition of maps", "composition, parallel", "composite with conditions", "experience of fields", "experience, wide",
    "experience of diamonds", "experience of values", "experience of conditions", "experience of loops", "experience of one pipeline",
)  # fmt: skip


SCHEMA = {"type": "object", "properties": {
    "l": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    "z": {"type": "array", "uniqueItems": True, "items": {"type": "array"}},
    "rows": {"type": "array", "items": {"type": "object", "required": ["a"], "properties": {"a": {"enum": list(range(97))}}}},
}}  # fmt: skip


def validated(schema: Any, value: Callable[[int], Any]) -> Operation:
    def make(n: int) -> Callable[[], Any]:
        compiled, given = compile_schema(schema), value(n)
        return lambda: compiled.problems(check_json(given))

    return make


def selecting(n: int) -> Callable[[], Any]:
    from ropewalk import Tool

    fresh = App("memory")
    for i in range(max(2, n // 20)):
        fresh.toolbox.register(Tool(f"tool{i}", f"Does thing {i % 50} with {i}", {"type": "object"}, handler=dict))
    return lambda: fresh.selector.select("do thing 7 with a word", maxResults=5)


OPERATIONS: dict[str, Operation] = {
    **{f"expression {name}": expression(text) for name, text in EXPRESSIONS.items()},
    **{f"check {name} ({form})": checked(make, form) for name, make in DOCUMENTS.items() for form in ("json", "yaml")},
    "parse an expression": lambda n: lambda: outcome(lambda: parse("1" + "+1" * min(n, 4_000))),
    "parse a wrong expression": lambda n: lambda: outcome(lambda: parse("(" * min(n, 9_000))),
    "show an expression": lambda n: (lambda tree: lambda: show(tree))(parse("[" + "1," * min(n // 4, 3_000) + "1]")),
    "read YAML": on_text(lambda n: "".join(f"k{i}: [a, 1]\n" for i in range(n)), "yaml"),
    "read YAML: anchors and aliases": on_text(lambda n: "".join(f"k{i}: &a{i} x\n" for i in range(n)) + "".join(f"j{i}: *a{i}\n" for i in range(min(n, 900))), "yaml"),
    "read YAML: repeated keys": on_text(lambda n: "k: 1\n" * n, "yaml"),
    "read YAML: unknown aliases": on_text(lambda n: "".join(f"k{i}: &a{i} x\n" for i in range(n)) + "".join(f"j{i}: *zz{i}\n" for i in range(900)), "yaml"),
    "read YAML: brackets": on_text(lambda n: "k: " + "[" * n, "yaml"),
    "read YAML: escapes": on_text(lambda n: 'k: "' + "\\x41" * n + '"', "yaml"),
    "read JSON": on_text(lambda n: json.dumps(data(n)), "json"),
    "read JSON: repeated keys": on_text(lambda n: "{" + '"k": 1, ' * n + '"k": 1}', "json"),
    "read JSON: brackets": on_text(lambda n: "[" * n, "json"),
    "read JSON: long numbers": on_text(lambda n: "[" + "9" * n + "]", "json"),
    **{f"{verb} {name}": on(name, use) for verb, use in USES.items() for name in USED},
    **{f"convert {name} to {kind}": on(name, converted(kind)) for kind in KINDS for name in CONVERTED},
    "validate input": validated(SCHEMA, lambda n: {key: VALUES[key](n) for key in ("l", "rows")}),
    "validate input of one hash": validated(SCHEMA, lambda n: {"z": VALUES["z"](n)}),
    "validate wrong input": validated(SCHEMA, lambda n: {"l": ["x"] * n, "rows": [{}] * n}),
    "validate unknown fields": validated({**SCHEMA, "additionalProperties": False}, VALUES["d"]),
    "check values": lambda n: (lambda value: lambda: check_json(value))(data(n)),
    "find tools": selecting,
    "suggest a name": lambda n: (lambda names: lambda: did_you_mean("nmae 7", names))([f"name {i}" for i in range(n)]),
}  # fmt: skip
"""Everything that is measured, by the name it has in the list."""
