"""Flows as strangers write them: from the grammar of the documentation's pages, whatever the check knows of it.

`made(kind, seed)` gives a document, its files and an input, the same ones for the same seed. What a stranger knows of
a value is what the page of its node or tool says: a list, an object, a number, a text, or anything.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
KINDS = ("chain", "composition", "composite", "experience", "plan")
TOOLS = {
    "number": "number", "half": "number", "text": "text", "maybe": "any", "either": "any", "hits": "hits",
    "hit": "hit", "sparse": "sparse", "table": "object", "rows": "list", "tree": "tree", "answer": "any",
    "untyped": "any", "nothing": "any", "shaky": "hit", "parcel": "parcel", "old": "old",
}  # fmt: skip
PROPERTIES: Json = {
    "n": {"type": "integer"},
    "s": {"type": "string"},
    "l": {"type": "array", "items": {"type": "string"}},
    "o": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}},
    "u": {"type": ["string", "null"]},
    "e": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    "m": {"type": "number", "default": 1.5},
    "x": {},
}
KIND_OF = {"n": "number", "s": "text", "l": "list", "o": "object", "u": "any", "e": "any", "m": "number", "x": "any"}
INPUTS: dict[str, list[Any]] = {
    "n": [0, 3, -2], "s": ["", "ab"], "l": [[], ["a"], ["a", "b", "a"]], "o": [{}, {"a": "x"}, {"a": "y", "b": None}],
    "u": [None, "u"], "e": [4, [], [1, 2]], "m": [2, 2.5], "x": [None, 1, [None], {"k": []}, "t"],
}  # fmt: skip
MEMBERS = {
    "hit": ["title", "score"], "sparse": ["name", "note", "tags"], "tree": ["id", "more", "more.id"],
    "parcel": ["a", "a", "b"], "old": ["pair", "y", "x1", "pair[0]"], "hits": ["0.title"],
}  # fmt: skip
WIDER = {"hits": "list", "hit": "object", "sparse": "object", "tree": "object", "parcel": "object", "old": "object"}
LITERAL = {"list": "[1, 2]", "object": '{"a": 1}', "number": "2", "text": '"t"'}
LITERALS = [0, 1, 2.5, "w", "", None, True, [], [1, 2], {"k": "v"}, {}, [None, "a"]]

# Forms of expressions, with places for what can be read: of any sort, or of the sort that the form needs.
EXPRESSIONS = (
    r"""
coalesce(<value>, <expression>) | length(<list>) | has(<value>) | exists(<value>) | <value> == <expression>
<condition> ? <value> : <expression> | [<value>, <expression>] | {"k": <value>, "j": <expression>}
<list>.map(x, x) | <list>.map($item) | <list>.filter(x, x != null) | <list>.sort()
<list>.map(x, {"of": x, "n": <number>})
<list>[0] | <list>[5] | <hits>[0].title | <list>.group_by(x, string(x)) | unique(<list>) | flatten([<list>, [<value>]])
min(<list>) | concat(<list>, <list>) | zip(<list>, <list>) | sum(<list>.map(x, 1)) | <list>.reduce(acc, x, acc + 1, 0)
<list>.reduce(acc, x, x, null) | <list>.flat_map(x, [x, 1]) | <object>.a | <hit>.title | <sparse>.note | <tree>.more.id
keys(<object>) | values(<object>) | pick(<object>, ["title", "zz"]) | omit(<object>, ["title"])
rename(<object>, {"title": "t"}) | merge(<object>, {"k": <value>}) | merge(<object>, <object>)
deep_merge(<object>, <object>) | <number> + 1 | <number> / 2 | -<number> | round(<number>, 1) | max(<number>, 2)
abs(<number>) | <text> + "!" | upper(<text>) | split(<text>, "b") | trim(<text>) | string(<value>) | int(<number>)
<value> != null && <condition> | query(<list>, "$[*].score") | avg(<list>.map(x, 2)) | join(<list>.map(x, "j"), ",")
<list>.all(x, x != null) | <list>.exists(x, x == 1) | <object>[<text>] | <list>[<number>]
<parcel>.a | <parcel>.b | <old>.pair | <old>.pair[0] | <old>.pair[2] | <old>.y | <old>.x1 | <old>.zz
""".replace("\n", " | ")
    .strip(" |")
    .split(" | ")
)
CONDITIONS = """<number> > 1 | <number> > 99 | length(<list>) > 0 | has(<value>) | <value> == null | <value> != null
true | false | exists(<value>) || <number> < 0""".replace("\n", " | ").split(" | ")
PYTHON = (
    """
<value> | <value> | <value> | [<value>, <value>] | {"k": <value>, "j": <value>}
<value> or <value> | <parcel>.get("a")
<value> and <value> | <value> if <value> else None | [x for x in (<list> or [])]
[x for x in <list> if x] | <object>.get("note") | <object>.get("a", 0)
{str(i): x for i, x in enumerate(<list>)} | len(<list>) | sorted(map(str, <list>))
dict(<object>) | list(<object>.values()) | (<value>, <value>) | sum(1 for _ in <list>)
max([len(str(x)) for x in <list>] or [0])
(<list> or [None])[0] | str(<value>) | <number> / 2 | <number> // 2 | not <value> | <value> is None
next((x for x in <list> if x), None) | {**<object>, "n": <value>} | [*<list>, <value>] | <list>[:1] | any(<list>)
<hit>.title | <hit>["score"] | <sparse>.get("note") | <sparse>.get("tags", []) | <tree>.get("more") | <old>.get("pair")
list(zip(<list>, <list>)) | round(<number> / 3, 2) | None | [] | {} | 1 | "w" | f"{<value>}!"
""".replace("\n", " | ")
    .strip(" |")
    .split(" | ")
)


@dataclass
class Made:
    """A definition, the files next to it, and its input."""

    kind: str
    document: Json
    input: Json
    files: dict[str, str] = field(default_factory=dict)


def made(kind: str, seed: int) -> Made:
    """The flow of this kind with this number."""
    return Stranger(kind, random.Random(f"{kind} {seed}")).write()


def traits(flow: Made) -> set[str]:
    """What a flow has: conditions, loops, failures, and values that may be null, empty or of several types."""
    text = flow.document["code"] if flow.kind == "plan" else json.dumps(flow.document)
    marks = {
        "condition": ('"condition"', '"when"', '"branch"', " if ", "until", "while", " ? "),
        "loop": ('"items"', "for_each", '"loop', "maxIterations", "pipelines", ".map(", "for ", "reduce"),
        "failure": ("fails", "shaky", "errorStrategy", "onError", "on_error"),
    }
    found = {trait for trait, words in marks.items() if any(word in text for word in words)}
    fills = flow.kind == "experience" and not flow.document["state"]["schema"].keys().isdisjoint(flow.input)
    if fills or any(tool in text for tool in ("maybe", "either", "sparse", "answer", "rows")) or "[]" in text:
        found.add("doubtful")
    return found


class Stranger:
    """Writes one flow. `seen` holds what can be read at this place, each with what a stranger knows of it."""

    def __init__(self, kind: str, r: random.Random) -> None:
        self.kind, self.r, self.count, self.depth = kind, r, 0, 0
        self.files: dict[str, str] = {}
        self.seen: list[tuple[str, str]] = []

    def write(self) -> Made:
        r = self.r
        names = r.sample(sorted(PROPERTIES), r.randint(3, len(PROPERTIES)))
        required = [name for name in names if r.random() < 0.6]
        self.properties = {name: PROPERTIES[name] for name in names}
        schema: Json = {"type": "object", "properties": self.properties}
        if required:
            schema["required"] = required
        self.schema = schema
        self.seen = [(f"$input.{name}", KIND_OF[name]) for name in names]
        document: Json = getattr(self, self.kind)(r.randint(2, 8))
        is_given = dict.fromkeys(required, True) | ({} if self.kind != "plan" else dict.fromkeys(names, True))
        input = {name: r.choice(INPUTS[name]) for name in names if is_given.get(name) or r.random() < 0.5}
        return Made(self.kind, {"name": "made", **document}, input, self.files)

    # --- parts that all notations have ------------------------------------------------------------

    def often(self, chance: float) -> bool:
        return self.r.random() < chance

    def id(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def read(self, kind: str = "") -> str:
        """A reference, to a value of this sort or of a narrower one; a literal if there is none."""
        fitting = [ref for ref, known in self.seen if not kind or kind in (known, WIDER.get(known))]
        fitting += [ref for ref, known in self.seen if known == "any" and self.often(0.04)]
        return self.r.choice(fitting or [LITERAL.get(kind, "null")])

    def given(self, kind: str) -> Any:
        """A reference to a value of this sort, or JSON."""
        read = self.read(kind)
        return read if read.startswith("$") else json.loads(read)

    def value(self, depth: int = 0) -> Any:
        """JSON with references at any depth, or an expression."""
        turn = self.r.randint(0, 9)
        if turn < 2 and (member := self.member()) is not None:
            return member
        if turn < 4:
            return self.read()
        if turn < 7:
            return "${" + self.expression() + "}"
        if turn == 7 and depth < 2:
            return {key: self.value(depth + 1) for key in self.r.sample("abcd", self.r.randint(0, 3))}
        if turn == 8 and depth < 2:
            return [self.value(depth + 1) for _ in range(self.r.randint(0, 3))]
        return self.r.choice(LITERALS)

    def member(self) -> str | None:
        """A reference to a member that the page of a tool names, with the word `output` that may be left out."""
        holders = [
            (ref, known) for ref, known in self.seen if known in MEMBERS and ref.startswith(("$output", "$steps"))
        ]
        if not holders:
            return None
        holder, known = self.r.choice(holders)
        return f"{holder}{self.r.choice(['', '.output'])}.{self.r.choice(MEMBERS[known])}"

    def expression(self, depth: int = 0) -> str:
        return self.filled(self.possible(EXPRESSIONS, [known for _, known in self.seen]), depth)

    def condition(self) -> str:
        return self.filled(self.r.choice(CONDITIONS), 2)

    def possible(self, forms: list[str], known: Iterable[str]) -> str:
        """One of the forms for which there is a value of each sort; of the wide sorts there are literals."""
        missing = {"hits", *WIDER}.difference(known)
        return self.r.choice([form for form in forms if not any(f"<{sort}>" in form for sort in missing)])

    def filled(self, form: str, depth: int) -> str:
        """A form with something at each of its places."""

        def part(place: re.Match[str]) -> str:
            if place[1] == "condition":
                return self.condition()
            if place[1] == "expression":
                return self.expression(depth + 1) if depth < 2 else self.read()
            return self.read("" if place[1] == "value" else place[1])

        return re.sub(r"<(\w+)>", part, form)

    def tool(self) -> str:
        return "fails" if self.often(0.08) else self.r.choice(sorted(TOOLS))

    def arguments(self) -> Json:
        return {"v": self.value()} if self.often(0.9) else {}

    def transform(self, kinds: tuple[str, ...] = ()) -> tuple[Json, str]:
        """A transform, and the sort of value that it works on."""
        body = self.r.choice(["$item", "[$item]", {"is": "$item"}, "$item == null ? 1 : $item"])
        forms: list[tuple[str, Json, str]] = [
            ("MAP", {"expression": body}, "list"),
            ("FILTER", {"expression": "$item != null"}, "list"),
            ("FLAT_MAP", {"expression": "[$item, 1]"}, "list"),
            ("REDUCE", {"expression": "[$acc, $item]", "initial": self.r.choice([0, None, []])}, "list"),
            ("GROUP_BY", {"key": self.r.choice(["title", "$item"])}, "list"),
            ("SORT", {"by": "$item", "order": self.r.choice(["asc", "desc"])}, "list"),
            ("PICK", {"fields": ["title", "a"]}, "object"),
            ("OMIT", {"fields": ["title", "name"]}, "object"),
            ("RENAME", {"fields": {"title": "name"}}, "object"),
            ("MERGE", {"with": {"k": self.value()}, "deep": self.often(0.5)}, "object"),
        ]
        type, config, of = self.r.choice(forms)
        return {"type": type, "config": config}, of

    def inside(self, write: Callable[[], Any], *more: tuple[str, str]) -> Any:
        """What `write` writes in a block, which reads some more; outside, what the block made is not read."""
        seen, self.depth = self.seen, self.depth + 1
        self.seen = [*seen, *more]
        try:
            return write()
        finally:
            self.seen, self.depth = seen, self.depth - 1

    # --- chains -----------------------------------------------------------------------------------

    def chain(self, count: int) -> Json:
        self.mode = self.r.choice(["sequential"] * 4 + ["conditional", "dag", "dag", "parallel", "loop"])
        variables = {"v": self.r.choice(LITERALS), "w": 0}
        if self.mode in ("sequential", "conditional", "loop"):
            self.seen += [("$var.v", "any"), ("$var.unset", "any")]
        made: Json = {"kind": "chain", "mode": self.mode, "variables": variables, "inputSchema": self.schema}
        if self.mode == "loop":
            made |= {"maxIterations": self.r.randint(1, 3), "until": self.r.choice(["$iteration > 0", "false"])}
        if self.often(0.4):
            made |= {"errorStrategy": self.r.choice(["continue", "skip", "retry"]), "retryDelay": 0}
        return {**made, "nodes": self.chain_nodes(count)}

    def chain_nodes(self, count: int) -> list[Json]:
        nodes: list[Json] = []
        ordered = self.depth > 0 or self.mode not in ("parallel", "dag")
        for i in range(count):
            node, known = self.chain_node()
            if ordered and self.mode != "loop" and i + 2 < count and self.often(0.1):
                node[self.r.choice(["onError", "onSuccess"])] = f"n{self.count + self.r.randint(1, 2)}"
            nodes.append(node)
            if ordered or self.mode == "dag":
                self.seen = [*self.seen, (f"$output.{node['id']}", known)]
            if ordered and not any(ref == "$prev" for ref, _ in self.seen):
                self.seen = [*self.seen, ("$prev", "any")]
        # A jump leads to a node of the same list.
        ids = [node["id"] for node in nodes]
        for i, node in enumerate(nodes):
            for key in ("onError", "onSuccess"):
                if key in node and node[key] not in ids[i + 1 :]:
                    node[key] = ids[-1]
        return nodes

    def chain_node(self) -> tuple[Json, str]:
        node, known = self.chain_operation()
        node = {"id": self.id(), **node}
        if self.often(0.2) and node["type"] != "condition":
            node["condition"] = self.condition()
        if self.often(0.2):
            node["outputVar"] = self.r.choice(["v", "w", "unset"])
        if self.often(0.3):
            node["errorStrategy"] = strategy = self.r.choice(["continue", "skip", "fallback", "fallback"])
            if strategy == "fallback":
                node["fallback"] = self.r.choice([self.value(), {"why": "$error.message"}, None, []])
        return node, known

    def chain_operation(self) -> tuple[Json, str]:
        turn = self.r.randint(0, 13)
        nodes = lambda: self.chain_nodes(self.r.randint(1, 2))  # noqa: E731
        if turn == 0 and self.depth < 2:
            node = {"type": "condition", "condition": self.condition(), "then": self.inside(nodes)}
            return (node | {"otherwise": self.inside(nodes)} if self.often(0.6) else node), "any"
        if turn in (1, 2) and self.depth < 2:
            known = [("$item", "any"), ("$index", "number"), ("$iteration", "number")]
            wide = {"concurrency": 2} if self.often(0.3) else {}
            return {"type": "loop", "items": self.given("list"), **wide, "nodes": self.inside(nodes, *known)}, "list"
        if turn == 3 and self.depth < 2:
            test = self.r.choice(["until", "while"])
            body = self.inside(nodes, ("$iteration", "number"))
            return {
                "type": "loop",
                test: self.condition(),
                "maxIterations": self.r.randint(1, 3),
                "nodes": body,
            }, "list"
        if turn == 4 and self.depth < 2:
            parts = [self.inside(self.chain_node)[0] for _ in range(self.r.randint(1, 3))]
            return {"type": "parallel", "nodes": parts}, "object"
        if turn in (5, 6):
            transform, of = self.transform()
            return {"type": "transform", "transform": transform, "input": self.given(of)}, "any"
        if turn in (7, 8):
            return {"type": "transform", "input": self.value()}, "any"
        if turn == 9:
            return {"type": "delay", "delay": 1}, "any"
        tool = self.tool()
        return {"type": "tool", "tool": tool, "params": self.arguments()}, TOOLS.get(tool, "any")

    # --- compositions -----------------------------------------------------------------------------

    def composition(self, count: int) -> Json:
        self.seen += [("$var.v", "any"), ("$prev", "any")]
        made: Json = {"kind": "composition", "variables": {"v": self.r.choice(LITERALS)}, "inputSchema": self.schema}
        return {**made, "nodes": self.composition_nodes(count)}

    def composition_nodes(self, count: int) -> list[Json]:
        nodes = []
        for _ in range(count):
            node, known = self.composition_operation()
            node = {"id": self.id(), **node}
            if self.often(0.2) and node["type"] != "conditional":
                node["condition"] = self.condition()
            if self.often(0.15):
                node["outputVar"] = "v"
            if self.often(0.2):
                node["outputMapping"] = self.inside(self.value, (f"$output.{node['id']}", known))
                known = "any"
            if self.often(0.35):
                node["onError"] = self.r.choice(["continue", "fallback"])
                if node["onError"] == "fallback" or self.often(0.4):
                    node["fallback"] = self.r.choice([self.value(), {"why": "$error.message"}, None, []])
            nodes.append(node)
            self.seen = [*self.seen, (f"$output.{node['id']}", known)]
        return nodes

    def composition_operation(self) -> tuple[Json, str]:
        turn, r = self.r.randint(0, 16), self.r
        item = [("$item", "any"), ("$index", "number")]
        nodes = lambda: self.composition_nodes(r.randint(0, 2))  # noqa: E731
        if turn in (0, 1):
            made: Json = {"type": r.choice(["map", "filter"]), "items": self.given("list")}
            if self.often(0.5):
                test = r.choice(["$item != null", "$index > 0"])
                return {
                    **made,
                    "expression": test if made["type"] == "filter" else self.inside(self.expression, *item),
                }, "list"
            made["type"] = "map"
            return {**made, "tool": self.tool(), "inputMapping": {"v": "$item"}}, "list"
        if turn == 2:
            made = {"type": "reduce", "items": self.given("list"), "initial": r.choice([0, None, [], self.read()])}
            return {
                **made,
                "expression": r.choice(["[$acc, $item]", "$item", "length($acc)", "$acc == null ? $item : $acc"]),
            }, "any"
        if turn == 3:
            made = {"type": "reduce", "items": self.given("list"), "tool": self.tool(), "initial": r.choice([0, None])}
            return {**made, "inputMapping": {"v": ["$acc", "$item"]}}, "any"
        if turn in (4, 5):
            transform, of = self.transform()
            return {"type": "transform", "transform": transform, "inputMapping": self.given(of)}, "any"
        if turn == 6:
            schema = r.choice(
                [{"type": "object"}, {"required": ["title"]}, {"type": ["array", "null"]}, {"minLength": 2}]
            )
            return {"type": "validate", "schema": schema, "required": self.often(0.3)}, "any"
        if turn in (7, 8) and self.depth < 2:
            arms = [{"condition": self.condition(), "nodes": self.inside(nodes)} for _ in range(r.randint(1, 2))]
            made = {"type": "branch", "branches": arms}
            return (
                made | {"otherwise": r.choice([self.inside(nodes), {"none": self.read()}])} if self.often(0.5) else made
            ), "any"
        if turn in (9, 10):
            strategy = r.choice(["object", "deep", "concat", "zip"])
            of = "list" if strategy in ("concat", "zip") else "object"
            return {
                "type": "merge",
                "strategy": strategy,
                "sources": [self.given(of) for _ in range(r.randint(1, 3))],
            }, of
        if turn == 11 and self.depth < 2:
            made = {"type": "conditional", "condition": self.condition()}
            then = r.choice([self.inside(nodes), {"k": self.read()}, None])
            made |= {"then": then} if self.often(0.8) else {}
            return (
                made | {"otherwise": r.choice([self.inside(nodes), [], None, 5])} if self.often(0.5) else made
            ), "any"
        if turn == 12 and self.depth < 2:
            parts = [self.inside(lambda: self.composition_nodes(1))[0] for _ in range(r.randint(1, 3))]
            return {"type": "parallel", "nodes": parts}, "object"
        if turn == 13:
            return {"type": "delay", "delay": 1}, "any"
        tool = self.tool()
        return {"type": "tool", "tool": tool, "inputMapping": self.arguments()}, TOOLS.get(tool, "any")

    # --- composites -------------------------------------------------------------------------------

    def composite(self, count: int) -> Json:
        steps: list[Json] = []
        for i in range(count):
            tool = self.r.choice(sorted(TOOLS))
            step: Json = {"name": f"s{i}", "tool": tool, "inputMapping": self.arguments()}
            if self.often(0.35):
                step["condition"] = self.condition()
            steps.append(step)
            self.seen += [(self.r.choice([f"$steps[{i}]", f"$steps.s{i}", f"$steps[{i}].output"]), TOOLS[tool])]
            self.seen += [("$prev", "any")] if i == 0 else []
        return {"kind": "composite", "description": "", "mode": "compose", "inputSchema": self.schema, "steps": steps}

    # --- experiences ------------------------------------------------------------------------------

    def experience(self, count: int) -> Json:
        r = self.r
        fields = {f"f{i}": self.field() for i in range(r.randint(1, 4))}
        # The input begins the fields that have the name of one of its members.
        types = {
            "n": "number",
            "s": "string",
            "l": "array",
            "o": "object",
            "u": "string",
            "e": "any",
            "m": "number",
            "x": "any",
        }
        for name in [name for name in self.properties if self.often(0.4)]:
            fields[name] = {"type": types[name] if self.often(0.8) else "any"}
            self.seen.append((f"$.{name}", KIND_OF[name]))
            if self.often(0.3) and types[name] != "any":
                fields[name]["default"] = {"number": 0, "string": "d", "array": [], "object": {"z": 1}}[types[name]]
        self.seen += [(f"$.{name}", "any") for name in fields]
        self.fields = fields
        nodes, edges = self.experience_nodes(count)
        graph: Json = {"nodes": nodes, "edges": edges}
        ids = [node["id"] for node in nodes]
        if self.often(0.3) and len(ids) > 2:
            body = ids[-2:]
            graph["edges"] = [edge for edge in edges if edge["to"] not in body or edge["from"] in body]
            loop = {"id": "again", "body": body, "max_iters": r.randint(1, 3), "until": self.condition_of_state()}
            graph["loops"] = [loop]
        elif self.often(0.3) and len(ids) > 2:
            graph["edges"] = [edge for edge in edges if edge["to"] not in ids[-2:]]
            for node in nodes[-2:]:
                node.pop("for_each", None)
            graph["pipelines"] = [
                {"id": "line", "items": r.choice([[None, "a"], [1, 2], [], self.given("list")]), "stages": ids[-2:]}
            ]
        document: Json = {"kind": "experience", "version": "0.1.0", "state": {"schema": fields}, "graph": graph}
        return document | {"inputSchema": self.schema} if self.often(0.7) else document

    def field(self) -> Json:
        merge = self.r.choice(["last_wins"] * 5 + ["array_append", "set_once", "object_merge", "sum", "max", "union"])
        types = {"array_append": "array", "union": "array", "object_merge": "object", "sum": "number", "max": "number"}
        type = types.get(merge) or self.r.choice(
            ["string", "number", "boolean", "object", "array", "any", "any", "any"]
        )
        made: Json = {"type": type} if merge == "last_wins" else {"type": type, "merge": merge}
        if self.often(0.35):
            defaults = {
                "string": "d",
                "number": 1,
                "boolean": False,
                "object": {"z": 1},
                "array": [0],
                "any": {"z": []},
            }
            made["default"] = (
                self.r.choice([defaults[type], None]) if merge in ("last_wins", "set_once") else defaults[type]
            )
        return made

    def condition_of_state(self) -> str:
        name = self.r.choice(sorted(self.fields))
        return self.r.choice([f"has($.{name})", f"$.{name} == null", f"$.{name} != null", "true", "false"])

    def experience_nodes(self, count: int) -> tuple[list[Json], list[Json]]:
        nodes: list[Json] = []
        edges: list[Json] = []
        outside = self.seen
        for _ in range(count):
            id, self.seen = self.id(), list(outside)
            for other in nodes:
                if self.often(0.6):
                    edge = {"from": other["id"], "to": id}
                    edges.append(edge | {"when": self.condition_of_state()} if self.often(0.2) else edge)
                    self.seen.append((f"$output.{other['id']}", "any"))
            nodes.append({"id": id, **self.experience_node(id)})
        self.seen = outside
        return nodes, edges

    def experience_node(self, id: str) -> Json:
        r = self.r
        node: Json = {}
        items = self.given("list")
        if self.often(0.2):
            node["for_each"] = {"source": r.choice([items, [1, None], []])}
            self.seen = [*self.seen, ("$item", "any"), ("$index", "number")]
        turn = r.randint(0, 10)
        fits: list[str] = ["any"]
        if turn < 5:
            tool = self.tool()
            node |= {"kind": "call", "tool": tool, "args": self.arguments()}
            known = TOOLS.get(tool, "any")
            fits += {"number": ["number"], "object": ["object"], "list": ["array"], "text": ["string"]}.get(
                WIDER.get(known, known), []
            )
            if self.often(0.15):
                node["output"] = r.choice(["$.title", "$.note", "$.id"])
        elif turn < 8:
            form = r.choice(
                [("array", [self.value()]), ("object", {"k": self.value()}), ("any", self.value()), ("number", 2)]
            )
            node |= {"kind": "value", "value": form[1]}
            fits.append(form[0])
        elif turn == 8:
            node |= {"kind": "delay", "delay": 1}
        elif turn == 9:
            node |= self.inner_experience(id)
            fits.append("object")
        else:
            wanted = r.choice(sorted(self.fields))
            delta = {"string": "m", "number": 3, "boolean": True, "object": {"m": 1}, "array": ["m"], "any": None}
            gives = {"state_delta": {wanted: delta[self.fields[wanted]["type"]]}, "edge_output": r.choice(LITERALS)}
            self.files[f"{id}.py"] = f"def run(args):\n    return {gives!r}\n"
            node |= {"kind": "tool", "impl": f"./{id}.py", "args": self.arguments(), "writes": [wanted]}
        writable = [name for name, made in self.fields.items() if made["type"] in fits]
        if "writes" not in node and writable and self.often(0.7) and node["kind"] != "delay":
            node["writes"] = [r.choice(writable)]
        if self.often(0.2):
            node["when"] = self.condition()
        if self.often(0.35) or node.get("tool") in ("fails", "shaky"):
            value = {"policy": "fallback", "value": r.choice([self.value(), {"why": "$error.message"}, None, []])}
            node["on_error"] = r.choice(["skip", "continue", value, value])
        return node

    def inner_experience(self, id: str) -> Json:
        """A directory in the directory; with a shared state it has fields of the outer one, and writes one of them."""
        r, is_shared = self.r, self.often(0.5)
        of = {
            "string": "i",
            "number": 4,
            "boolean": True,
            "object": {"i": 1},
            "array": ["i"],
            "any": r.choice(LITERALS),
        }
        plain = [name for name, made in self.fields.items() if "merge" not in made]
        fields = {name: self.fields[name] for name in plain} if is_shared else {"i": {"type": "any"}, "j": self.field()}
        if not fields:
            return {"kind": "value", "value": {}}
        wanted = r.choice(sorted(fields))
        inner: Json = {"id": "k", "kind": "value", "value": of[fields[wanted]["type"]], "writes": [wanted]}
        inner |= {"when": self.r.choice(["has($.i)", "$input.i == 1"])} if "i" in fields and self.often(0.5) else {}
        document: Json = {"name": "inner", "version": "0.1.0", "state": {"schema": fields}, "graph": {"nodes": [inner]}}
        if self.often(0.5):
            document["inputSchema"] = {"type": "object", "properties": {"i": self.r.choice([{}, {"type": "integer"}])}}
        self.files[f"in_{id}/experience.json"] = json.dumps(document)
        node = {"kind": "experience", "impl": f"./in_{id}", "args": self.r.choice([{}, {"i": 1}, {"i": self.value()}])}
        return node | {"state_scope": "shared", "writes": [wanted]} if is_shared else node

    # --- plans ------------------------------------------------------------------------------------

    def plan(self, count: int) -> Json:
        r = self.r
        hints = {"n": "int", "s": "str", "l": "list[str]", "o": "dict", "u": "str | None", "e": "int | list[int]"}
        lines = [f"{name}: {({**hints, 'm': 'float', 'x': 'object'})[name]}" for name in self.properties]
        self.names = {name: KIND_OF[name] for name in self.properties}
        for _ in range(count):
            lines += self.statement("")
        lines.append(r.choice([f"return {self.python()}", f"return {self.python()}", self.python(), ""]))
        return {"kind": "plan", "code": "\n".join(lines) + "\n"}

    def name(self, kind: str = "") -> str:
        fitting = [name for name, known in self.names.items() if kind and kind in (known, WIDER.get(known))]
        return self.r.choice(fitting or ([f"({LITERAL[kind]})"] if kind else sorted(self.names)))

    def python(self) -> str:
        form = self.possible(PYTHON, self.names.values())
        return re.sub(r"<(\w+)>", lambda place: self.name("" if place[1] == "value" else place[1]), form)

    def statement(self, indent: str) -> list[str]:
        r, new = self.r, f"v{self.count}"
        self.count += 1
        turn, outside, more = r.randint(0, 13), dict(self.names), f"{indent}    "
        if len(indent) > 4:
            turn = r.randint(5, 9)
        if turn == 0:
            lines = [f"{indent}{new} = {self.python()}", f"{indent}if {self.python()}:", *self.statement(more)]
            lines += [f"{more}{new} = {self.python()}"] if self.often(0.7) else []
            self.names = outside
            lines += [f"{indent}else:", *self.statement(more)] if self.often(0.5) else []
        elif turn == 1:
            lines = [f"{indent}{new} = []", f"{indent}for item in {self.name('list')}:"]
            self.names = {**outside, "item": "any"}
            lines += [*self.statement(more), f"{more}{new}.append({self.python()})"]
            self.names = outside
        elif turn == 2:
            lines = [f"{indent}{new} = {self.python()}", f"{indent}try:", f"{more}{new} = await fails(v={self.name()})"]
            lines += [f"{indent}except ToolError:", f"{more}{new} = {self.python()}"]
        elif turn == 3:
            lines = [f"{indent}{new} = None", f"{indent}for turn in range({r.randint(0, 3)}):", *self.statement(more)]
            lines += [f"{more}if {self.python()}:", f"{more}    break", f"{more}{new} = {self.python()}"]
            self.names = outside
        elif turn == 4:
            a, b = r.choice(sorted(TOOLS)), r.choice(sorted(TOOLS))
            lines = [f"{indent}{new} = await asyncio.gather({a}(v={self.name()}), {b}(v={self.name()}))"]
        elif turn == 10:
            lines = [f"{indent}if {self.python()}:", f"{more}return {self.python()}"]
            self.names = outside
            return lines
        elif turn == 11:
            lines = [
                f"{indent}{new} = {{}}",
                f"{indent}for item in {self.name('list')}:",
                f"{more}{new}[str(item)] = {self.python()}",
            ]
        elif turn == 12:
            lines = [f"{indent}{new} = [await {r.choice(sorted(TOOLS))}(v=item) for item in {self.name('list')}]"]
        elif turn in (5, 6):
            lines = [f"{indent}{new} = {self.python()}"]
        else:
            tool = r.choice(sorted(TOOLS))
            lines = [f"{indent}{new} = await {tool}(v={self.python()})"]
            self.names[new] = TOOLS[tool]
            return lines
        self.names[new] = {1: "list", 4: "list", 11: "object", 12: "list"}.get(turn, "any")
        return lines
