"""Gold plans: sequences of calls from public data sets, written as Python, judged and compared with direct execution.

A data set says which calls solve a request. Here each of these sequences becomes a program. It runs as a plan and, call
by call, without Ropewalk; both must make the same calls, give the same result and leave the same state. A sequence that
breaks the schemas of its own tools is unsound. `jsonschema` and the rules below decide that, not Ropewalk.

`plans_sets.py` and `plans_simulators.py` read the sets. Nothing of a set is part of this project.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jsonschema

from ropewalk import App
from ropewalk.plans.interpret.language import KNOWN_NAMES
from ropewalk.plans.read.tools import python_name
from ropewalk.tools.tool import Tool

_METHODS = frozenset(dir(dict))
_TYPES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list, "object": dict}


class World(Protocol):
    """What the tools of a set act on."""

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        """Make a call and return what the tool gives."""

    def state(self) -> Any:
        """Return the state as JSON."""


@dataclass(frozen=True)
class Schema:
    """A tool of a set.

    Attributes:
        description: What it does.
        parameters: The JSON Schema of its arguments.
        returns: The JSON Schema of its result, where the set has one that its tools keep.
    """

    description: str
    parameters: dict[str, Any]
    returns: dict[str, Any] | None = None


@dataclass(frozen=True)
class Reference:
    """The result of an earlier step, or a member of it."""

    label: str
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Template:
    """References between texts: a text, or arithmetic when the texts are numbers and operators."""

    parts: tuple[str | Reference, ...]

    @property
    def is_arithmetic(self) -> bool:
        """Whether the texts around the references are numbers and operators."""
        texts = "".join(part for part in self.parts if isinstance(part, str))
        return bool(texts.strip()) and not set(texts) - set("0123456789.+-*/() ")


@dataclass(frozen=True)
class Step:
    """A call: the tool, and its arguments, which may contain references. Its result has a label."""

    label: str
    tool: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Gold:
    """One gold sequence.

    Attributes:
        id: The set, its part, and the number in it.
        tools: The tools of the set that it may call, by their names in the set.
        steps: The calls.
        result: What the program returns: JSON with references.
        world: Makes the world in which the sequence starts.
        key: Equal for sequences with the same tools.
    """

    id: str
    tools: Mapping[str, Schema]
    steps: Sequence[Step]
    result: Any
    world: Callable[[], World]
    key: str
    flaw: str | None = field(default=None, kw_only=True)


# --- as Python -------------------------------------------------------------------------------------


def program_of(gold: Gold) -> str:
    """Return the program: one line for each call, then the result."""
    lines = [f"{step.label} = {call_text(step)}" for step in gold.steps]
    return "\n".join([*lines, f"return {expression(gold.result)}"]) + "\n"


def call_text(step: Step) -> str:
    """Return the call of a step as Python."""
    name = python_name(step.tool)
    plain = [f"{key}={expression(value)}" for key, value in step.args.items() if _is_name(key)]
    rest = {key: value for key, value in step.args.items() if not _is_name(key)}
    if rest:
        plain.append("**" + expression(rest))
    if name in KNOWN_NAMES or not _is_name(name):
        return f"await call_tool({step.tool!r}, {expression(step.args)})"
    return f"await {name}({', '.join(plain)})"


def expression(value: Any) -> str:
    """Return JSON with references as a Python expression."""
    if isinstance(value, Reference):
        return value.label + "".join(map(_member, value.path))
    if isinstance(value, Template):
        if value.is_arithmetic:
            return "".join(part if isinstance(part, str) else expression(part) for part in value.parts)
        texts = [part if isinstance(part, str) else "" for part in value.parts]
        quote, other = ('"', "'") if "'" in "".join(texts) else ("'", '"')
        inner = "".join(
            "{" + expression(part).replace("'", other) + "}"
            if isinstance(part, Reference)
            else part.replace("{", "{{").replace("}", "}}")
            for part in value.parts
        )
        return f"f{quote}{inner}{quote}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {expression(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(expression, value)) + "]"
    return repr(value)


def _member(part: str | int) -> str:
    return f".{part}" if isinstance(part, str) and _is_name(part) and part not in _METHODS else f"[{part!r}]"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


# --- soundness -------------------------------------------------------------------------------------


def unsound(gold: Gold) -> str | None:
    """Return why a sequence breaks the schemas of its own tools, or None for a sound one."""
    if gold.flaw is not None:
        return gold.flaw
    known: dict[str, dict[str, Any]] = {}
    for number, step in enumerate(gold.steps, 1):
        schema = gold.tools.get(step.tool)
        if schema is None:
            return f"call {number}: no tool {step.tool!r}"
        reason = _misfit(step.args, schema.parameters, known)
        if reason is not None:
            return f"call {number}: {step.tool}: {reason}"
        known[step.label] = schema.returns or {}
    reason = _bad_reference(gold.result, known)
    return None if reason is None else f"result: {reason}"


def _misfit(args: dict[str, Any], schema: dict[str, Any], known: Mapping[str, Any]) -> str | None:
    properties = schema.get("properties") or {}
    for key, value in args.items():
        if key not in properties:
            return f"no parameter {key!r}"
        reason = _bad_reference(value, known) or _bad_argument(value, properties[key], known)
        if reason is not None:
            return f"{key}: {reason}"
    missing = [key for key in schema.get("required") or () if key not in args]
    return f"needs {missing[0]!r}" if missing else None


def _bad_argument(value: Any, schema: dict[str, Any], known: Mapping[str, Any]) -> str | None:
    wanted = schema.get("type")
    if isinstance(value, Template):
        gives = "number" if value.is_arithmetic else "string"
        return None if _may_fit(gives, wanted) else f"a {gives} is never a {wanted}"
    if isinstance(value, Reference):
        gives = schema_at(known[value.label], value.path).get("type")
        return None if _may_fit(gives, wanted) else f"{expression(value)} is a {gives}, never a {wanted}"
    if not _references(value):
        return problem_of(value, schema)
    kind = "array" if isinstance(value, list) else "object"
    if not _may_fit(kind, wanted):
        return f"an {kind} is never a {wanted}"
    parts = enumerate(value) if isinstance(value, list) else value.items()
    reasons = (_bad_argument(part, schema_at(schema, (key,)), known) for key, part in parts)
    return next((reason for reason in reasons if reason is not None), None)


def _bad_reference(value: Any, known: Mapping[str, Any]) -> str | None:
    for found in _references(value):
        if found.label not in known:
            return f"no earlier step {found.label!r}"
        schema = known[found.label]
        for at, part in enumerate(found.path):
            inner = schema_at(schema, found.path[:at])
            kind = inner.get("type")
            if isinstance(part, int) and not _may_fit(kind, "array"):
                return f"{expression(Reference(found.label, found.path[:at]))} is a {kind}, which has no items"
            if isinstance(part, str) and not _may_fit(kind, "object"):
                return f"{expression(Reference(found.label, found.path[:at]))} is a {kind}, which has no members"
            if isinstance(part, str) and inner.get("properties") and part not in inner["properties"]:
                return f"the result has no member {part!r}"
    if isinstance(value, Template) and value.is_arithmetic:
        for found in _references(value):
            kind = schema_at(known[found.label], found.path).get("type")
            if not _may_fit(kind, "number"):
                return f"arithmetic with {expression(found)}, a {kind}"
    return None


def schema_at(schema: dict[str, Any], path: Sequence[str | int]) -> dict[str, Any]:
    """Return the schema of a member; `{}` where nothing is known."""
    for part in path:
        inner = schema.get("items") if isinstance(part, int) else (schema.get("properties") or {}).get(part)
        schema = inner if isinstance(inner, dict) else {}
    return schema


def problem_of(value: Any, schema: dict[str, Any]) -> str | None:
    """Return why a value breaks a schema, or None."""
    errors = jsonschema.Draft202012Validator(schema).iter_errors(value)
    return next((str(error.message)[:160] for error in errors), None)


def _may_fit(gives: Any, wanted: Any) -> bool:
    if gives is None or wanted is None or gives == wanted:
        return True
    return {gives, wanted} == {"integer", "number"}


def _references(value: Any) -> list[Reference]:
    if isinstance(value, Reference):
        return [value]
    if isinstance(value, Template):
        return [part for part in value.parts if isinstance(part, Reference)]
    items: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for item in items for found in _references(item)]


# --- direct execution ------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What an execution did: its calls, its result or its error, and the state that it left."""

    calls: list[Any] = field(default_factory=list)
    result: Any = None
    error: str | None = None
    state: Any = None


def execute(gold: Gold) -> Outcome:
    """Make the calls of a sequence one after another, without Ropewalk."""
    world, outcome, values = gold.world(), Outcome(), {}
    for step in gold.steps:
        args = resolved(step.args, values)
        if problem_of(args, gold.tools[step.tool].parameters) is not None:
            outcome.error = f"arguments of {step.tool}"
            break
        outcome.calls.append([step.tool, copied(args)])
        values[step.label] = copied(world.call(step.tool, args))
    else:
        outcome.result = resolved(gold.result, values)
    outcome.state = world.state()
    return outcome


def resolved(value: Any, values: Mapping[str, Any]) -> Any:
    """Return JSON with its references replaced by what the steps gave."""
    if isinstance(value, Reference):
        found = values[value.label]
        for part in value.path:
            found = found[part]
        return found
    if isinstance(value, Template):
        if value.is_arithmetic:  # numbers and operators only
            return eval("".join(p if isinstance(p, str) else repr(resolved(p, values)) for p in value.parts))
        return "".join(p if isinstance(p, str) else str(resolved(p, values)) for p in value.parts)
    if isinstance(value, dict):
        return {key: resolved(item, values) for key, item in value.items()}
    return [resolved(item, values) for item in value] if isinstance(value, list) else value


def copied(value: Any) -> Any:
    """Return a copy of JSON."""
    return json.loads(json.dumps(value))


# --- as plans --------------------------------------------------------------------------------------


class Stage:
    """The apps with the tools of a set, and the world on which their tools act."""

    def __init__(self, store: str = "memory") -> None:
        self.store = store
        self.world: World | None = None
        self.calls: list[Any] = []
        self._apps: dict[str, App] = {}

    async def app_for(self, gold: Gold) -> App:
        """Return the app with the tools of a sequence."""
        if gold.key not in self._apps:
            self._apps[gold.key] = app = App(self.store, tools=self.tools_for(gold))
            await app.__aenter__()
        return self._apps[gold.key]

    def tools_for(self, gold: Gold) -> list[Tool]:
        """Return the tools of a sequence for an app."""
        return [
            Tool(name, schema.description, schema.parameters, schema.returns, handler=self._handler(name))
            for name, schema in gold.tools.items()
        ]

    def _handler(self, name: str) -> Any:
        async def call(**args: Any) -> Any:
            assert self.world is not None
            self.calls.append([name, copied(args)])
            return self.world.call(name, args)

        return call

    async def problems(self, gold: Gold, code: str) -> list[dict[str, Any]]:
        """Return what is wrong with a program, without any call."""
        app = await self.app_for(gold)
        answer: Any = await app.plans.check_plan(code)
        return [] if answer["ok"] else list(answer["problems"])

    async def run(self, gold: Gold, code: str) -> Outcome:
        """Run a program as a plan."""
        app = await self.app_for(gold)
        self.world, self.calls = gold.world(), []
        ended: Any = await app.run({"kind": "plan", "name": "gold", "code": code})
        error = None if ended["success"] else str(ended["errors"][0].get("message"))
        return Outcome(self.calls, ended["result"], error, self.world.state())

    async def close(self) -> None:
        """Close the apps."""
        for app in self._apps.values():
            await app.__aexit__(None, None, None)


@dataclass
class Tally:
    """How many sequences of a set had which end."""

    total: int = 0
    excluded: int = 0
    excluded_and_refused: int = 0
    compiled: int = 0
    identical: int = 0
    calls: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def sound(self) -> int:
        """How many were sound."""
        return self.total - self.excluded

    def text(self, name: str) -> str:
        """Return the tally as a line."""
        return (
            f"{name}: {self.total} sequences, {self.excluded} unsound ({self.excluded_and_refused} of them refused), "
            f"{self.sound} sound, {self.compiled} compiled, {self.identical} identical, {self.calls} calls"
        )


async def compare(golds: Iterable[Gold]) -> Tally:
    """Compile and run every sequence; compare calls, result and final state with direct execution."""
    tally, stage = Tally(), Stage()
    for gold in golds:
        tally.total += 1
        reason = unsound(gold)
        code = program_of(gold)
        problems = await stage.problems(gold, code)
        if reason is not None:
            tally.excluded += 1
            tally.excluded_and_refused += bool(problems)
            reason += "" if problems else " (compiles)"
            tally.lines.append(f"excluded {gold.id}: {reason}")
            continue
        if problems:
            tally.lines.append(f"REFUSED {gold.id}: {problems[0]['text']}\n{code}")
            continue
        tally.compiled += 1
        direct, plan = execute(gold), await stage.run(gold, code)
        tally.calls += len(direct.calls)
        different = difference(direct, plan)
        if different is None:
            tally.identical += 1
        else:
            tally.lines.append(f"DIFFERENT {gold.id}: {different}\n{code}")
    await stage.close()
    return tally


def difference(direct: Outcome, plan: Outcome) -> str | None:
    """Return how two outcomes differ, or None. Of errors only their presence is compared."""
    if (direct.error is None) != (plan.error is None):
        return f"error: {direct.error} directly, {plan.error} as a plan"
    for part in ("calls", "result", "state"):
        one, other = getattr(direct, part), getattr(plan, part)
        if json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True) and (
            part != "result" or not plan.error
        ):
            return f"{part}: {str(one)[:300]} directly, {str(other)[:300]} as a plan"
    return None
