"""Made-up answers of the tools of the corpus, from the types in its stubs; the same call gets the same answer."""

from __future__ import annotations

import importlib.util
import inspect
import random
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
_LANGUAGE = ("approve", "wait_for")


def stubs() -> dict[str, Any]:
    """Return the functions of the stubs by name."""
    spec = importlib.util.spec_from_file_location("corpus_stubs", CORPUS / "TOOLS.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    functions = inspect.getmembers(module, inspect.iscoroutinefunction)
    return {name: function for name, function in functions if name not in _LANGUAGE}


STUBS = stubs()
TOOLS = {name: list(inspect.signature(function).parameters) for name, function in STUBS.items()}
_RETURNS = {name: typing.get_type_hints(function).get("return") for name, function in STUBS.items()}


def answer(tool: str, arguments: Mapping[str, Any], world: str = "") -> Any:
    """Return what a tool gives in a world."""
    chance = random.Random(f"{world}{tool} {sorted(arguments.items())!r}")
    return _value(_RETURNS[tool], chance, "")


def _value(kind: Any, chance: random.Random, name: str) -> Any:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return chance.choice(parts)
    if origin in (types.UnionType, typing.Union):
        return _value(chance.choice(parts[:1] * 4 + parts), chance, name)
    if origin in (typing.NotRequired, typing.Required):
        return _value(parts[0], chance, name)
    if origin is list:
        return [_value(parts[0], chance, name.rstrip("s")) for _ in range(chance.randint(0, 4))]
    if origin is dict:
        return {f"key{number}": _value(parts[1], chance, name) for number in range(chance.randint(0, 3))}
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        return {key: None if "cursor" in key else _value(part, chance, key) for key, part in hints.items()}
    simple = {type(None): None, bool: chance.random() < 0.5, int: chance.randint(0, 300), Any: chance.randint(0, 9)}
    if kind in simple:
        return simple[kind]
    return round(chance.uniform(-20, 400), 2) if kind is float else _text(chance, name)


def _text(chance: random.Random, name: str) -> str:
    day = f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    if name in ("date", "due", "day", "birthday") or name.endswith("_date"):
        return day
    if name.endswith("_at") or name in ("start", "end", "issued", "since", "time", "timestamp"):
        return f"{day}T{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:00Z"
    if "email" in name or name in ("attendee", "owner", "assignee"):
        return f"{chance.choice(['ann', 'bob', 'nina'])}@{chance.choice(['acme.com', 'example.org'])}"
    return f"{name or 'text'} {chance.randint(1, 5)}"


def programs() -> dict[str, str]:
    """Return the programs by number."""
    return {path.stem: path.read_text() for path in sorted(CORPUS.glob("[0-9]*.py"))}
