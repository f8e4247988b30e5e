"""Gold plans with one fault each: how many faults the check finds before any call.

The sets limit few values. So the gold plans themselves give the limits: each parameter gets one that every gold value
keeps, and the mutant breaks it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from plans_gold import Gold, Reference, Schema, Stage, Step, Template, copied, program_of, schema_at, unsound

_WRONG: dict[str, Any] = {
    "string": 12345,
    "integer": "twelve",
    "number": "twelve",
    "boolean": "maybe",
    "array": 7,
    "object": [1, 2],
}
_FORBIDDEN = "\u00a7"  # no gold text has it
Fault = Callable[[Gold, random.Random], "Gold | None"]


def wrong_name(gold: Gold, chance: random.Random) -> Gold | None:
    """Misspell the name of a tool."""
    at = chance.randrange(len(gold.steps))
    name = gold.steps[at].tool
    wrong = name[: len(name) // 2] + name[len(name) // 2 + 1 :] if len(name) > 3 else name + "_it"
    return None if wrong in gold.tools else _with_step(gold, at, replace(gold.steps[at], tool=wrong))


def missing_argument(gold: Gold, chance: random.Random) -> Gold | None:
    """Leave out a required argument."""
    places = [
        (at, key)
        for at, step in enumerate(gold.steps)
        for key in gold.tools[step.tool].parameters.get("required") or ()
    ]
    if not places:
        return None
    at, key = chance.choice(places)
    args = {name: value for name, value in gold.steps[at].args.items() if name != key}
    return _with_step(gold, at, replace(gold.steps[at], args=args))


def extra_argument(gold: Gold, chance: random.Random) -> Gold | None:
    """Add an argument that the tool does not have."""
    at = chance.randrange(len(gold.steps))
    return _with_step(gold, at, replace(gold.steps[at], args={**gold.steps[at].args, "no_such_parameter": 1}))


def wrong_type(gold: Gold, chance: random.Random) -> Gold | None:
    """Give a literal of a type that the parameter never takes."""
    places = [(at, key, kind) for at, key, schema in _parameters(gold) if (kind := str(schema.get("type"))) in _WRONG]
    if not places:
        return None
    at, key, kind = chance.choice(places)
    return _with_argument(gold, at, key, _WRONG[kind])


def wrong_member(gold: Gold, chance: random.Random) -> Gold | None:
    """Read a member that the result does not have: one that the plan reads, or one of the result."""
    places: list[tuple[int, str, Reference]] = []
    for at, step in enumerate(gold.steps):
        for key, value in step.args.items():
            if isinstance(value, Reference) and value.path and isinstance(value.path[-1], str):
                places.append((at, key, value))
    returns = {step.label: gold.tools[step.tool].returns for step in gold.steps}
    if places:
        at, key, found = chance.choice(places)
        return _with_argument(gold, at, key, _misspelt(found, returns[found.label]))
    labels = [label for label, schema in returns.items() if schema and schema.get("properties")]
    if not labels:
        return None
    label = chance.choice(labels)
    member = chance.choice(list((returns[label] or {})["properties"]))
    return replace(gold, result=_misspelt(Reference(label, (member,)), returns[label]))


def _misspelt(found: Reference, schema: dict[str, Any] | None) -> Reference:
    name = f"{found.path[-1]}s"
    while name in (schema_at(schema or {}, found.path[:-1]).get("properties") or {}):
        name += "x"
    return Reference(found.label, (*found.path[:-1], name))


def broken_limit(gold: Gold, chance: random.Random) -> Gold | None:
    """Break a limit of a parameter: enum, pattern, minimum or maxItems."""
    places = []
    for at, key, schema in _parameters(gold):
        for limit in ("enum", "pattern", "minimum", "maxItems"):
            if limit in schema:
                places.append((at, key, schema, limit))
    if not places:
        return None
    at, key, schema, limit = chance.choice(places)
    value = gold.steps[at].args[key]
    if limit in ("enum", "pattern"):
        value = f"{value}{_FORBIDDEN}"
    elif limit == "minimum":
        value = schema["minimum"] - 1
    else:
        value = [*value, *[value[0] if value else "x"] * (schema["maxItems"] + 1 - len(value))]
    return _with_argument(gold, at, key, value)


FAULTS: dict[str, Fault] = {
    "wrong name": wrong_name,
    "missing argument": missing_argument,
    "extra argument": extra_argument,
    "wrong type": wrong_type,
    "wrong member": wrong_member,
    "schema limit": broken_limit,
}


def _parameters(gold: Gold) -> list[tuple[int, str, dict[str, Any]]]:
    """Return the step, the name and the schema of every argument that is a literal."""
    return [
        (at, key, gold.tools[step.tool].parameters["properties"][key])
        for at, step in enumerate(gold.steps)
        for key, value in step.args.items()
        if isinstance(value, (str, int, float, list)) and not _has_reference(value)
    ]


def _has_reference(value: Any) -> bool:
    return isinstance(value, (Reference, Template)) or (isinstance(value, list) and any(map(_has_reference, value)))


def _with_step(gold: Gold, at: int, step: Step) -> Gold:
    return replace(gold, steps=[*gold.steps[:at], step, *gold.steps[at + 1 :]])


def _with_argument(gold: Gold, at: int, key: str, value: Any) -> Gold:
    return _with_step(gold, at, replace(gold.steps[at], args={**gold.steps[at].args, key: value}))


# --- limits ----------------------------------------------------------------------------------------


def with_limits(golds: list[Gold]) -> list[Gold]:
    """Return the sequences with tools whose parameters have limits that every one of these sequences keeps."""
    values: dict[tuple[str, str, str], list[Any]] = {}
    for gold in golds:
        for at, key, _ in _parameters(gold):
            values.setdefault((gold.key, gold.steps[at].tool, key), []).append(gold.steps[at].args[key])
    limited: dict[str, dict[str, Schema]] = {}
    for gold in golds:
        if gold.key not in limited:
            limited[gold.key] = {name: _limited(gold.key, name, tool, values) for name, tool in gold.tools.items()}
    return [replace(gold, tools=limited[gold.key]) for gold in golds]


def _limited(key: str, name: str, tool: Schema, values: dict[tuple[str, str, str], list[Any]]) -> Schema:
    parameters = copied(tool.parameters)
    for parameter, schema in (parameters.get("properties") or {}).items():
        seen = values.get((key, name, parameter))
        kind = schema.get("type")
        if not seen or schema.get("enum"):
            continue
        if kind == "string" and len(name) % 2 and all(isinstance(value, str) for value in seen):
            schema["enum"] = sorted(set(seen))
        elif kind == "string":
            schema["pattern"] = f"^[^{_FORBIDDEN}]*$"
        elif kind in ("integer", "number") and not any(isinstance(value, (str, list)) for value in seen):
            schema["minimum"] = min(seen)
        elif kind == "array":
            schema["maxItems"] = max(map(len, seen))
    return replace(tool, parameters=parameters)


# --- the count -------------------------------------------------------------------------------------


async def measure(golds: Iterable[Gold], count: int, seed: int = 0) -> bool:
    """Check one mutant of each kind for `count` sequences and print how many are found.

    Returns:
        True if every aim is met.
    """
    sound = with_limits([gold for gold in golds if unsound(gold) is None])
    chance = random.Random(seed)
    chosen = chance.sample(sound, min(count, len(sound)))
    stage = Stage()
    made: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for gold in chosen:
        for name, fault in FAULTS.items():
            mutant = fault(gold, chance)
            if mutant is None:
                continue
            made[name] += 1
            code = program_of(mutant)
            if await stage.problems(gold, code):
                found[name] += 1
            else:
                print(f"MISSED {name}, {gold.id}\n{code}")
    await stage.close()
    print(f"one-fault mutants of {len(chosen)} gold plans, found before the first call:")
    for name in FAULTS:
        print(f"  {name}: {found[name]} of {made[name]} ({found[name] / max(made[name], 1):.1%})")
    aims = {name: 0.95 if name == "schema limit" else 1.0 for name in FAULTS}
    return all(found[name] >= aim * made[name] for name, aim in aims.items())
