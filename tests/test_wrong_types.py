"""Arguments of a wrong type, each in turn at everything that is public: refused in our words, never by a TypeError,
an AttributeError or a KeyError out of the inside."""

from __future__ import annotations

import asyncio
import enum
import inspect
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ropewalk
from ropewalk import App, ChainStep, Runner, Tool, ToolBackend, Toolbox, flow, tool, toolchain
from ropewalk.errors import InvalidInput, RopewalkError
from ropewalk.select.selector import Selector

WRONG: list[Any] = [
    None, 5, -1, 2.5, True, "", "x", "a\0b", "\ud800", b"b", [], [1], ["x"], {}, {"x": 1}, {1: 2}, (1,), {1},
    object(), int, lambda: 1, lambda a: a, float("nan"), 10**30, asyncio,
]  # fmt: skip
CHAIN = {"kind": "chain", "id": "c", "nodes": [{"id": "a", "type": "tool", "tool": "up", "params": {"text": "x"}}]}
INSIDE = {
    "App": {"check", "ensure", "learn", "connect_for", "execute", "loaded"},
    "App.runs": {"attended", "current", "result", "standing", "version"},
    "Toolbox": {"connect_for", "executor", "replace_tools", "take_tools"},
}
"""What takes things of the inside and is called by other parts of it."""


@tool
async def up(text: str) -> str:
    return text.upper()


def calls_of(name: str, made: Any, skipped: tuple[str, ...] = ("close", "open")) -> Iterator[tuple[str, Any]]:
    for member in dir(made):
        if not member.startswith("_") and member not in INSIDE.get(name, ()) and member not in skipped:
            found = inspect.getattr_static(made, member)
            if inspect.isfunction(found) or isinstance(found, (classmethod, staticmethod)):
                yield f"{name}.{member}", getattr(made, member)


def names() -> Iterator[tuple[str, Any]]:
    for name in ropewalk.__all__:
        found = getattr(ropewalk, name)
        if (
            name != "IdempotencyKey"
            and callable(found)
            and not (isinstance(found, type) and issubclass(found, (BaseException, enum.Enum)))
        ):
            yield name, found
    for name in dir(toolchain):
        found = getattr(toolchain, name)
        if not name.startswith("_") and inspect.isroutine(found) and found.__module__.startswith("ropewalk"):
            yield f"toolchain.{name}", found
    for name in ("mcp", "provider", "local"):
        yield f"ToolBackend.{name}", getattr(ToolBackend, name)


def good() -> dict[str, Any]:
    """What is right for an argument of this name, if "x" is not."""
    made = Tool("new", "", {"type": "object"})
    return {
        "tool_id": "up", "args": {"text": "x"}, "steps": [ChainStep("up", {"text": "x"})], "source": CHAIN,
        "config": CHAIN, "chain_id": "c", "run_id": "r", "execution_id": "r", "input_schema": {"type": "object"},
        "index": Toolbox([up]), "tool": made, "handler": lambda: 1, "backend": ToolBackend.local("up"), "kind": "local",
        "tools": [made], "success": True,
    }  # fmt: skip


async def complaint(call: Any, *args: Any, **named: Any) -> str | None:
    """What is wrong with how a call is refused; None where all is well."""
    try:
        done = call(*args, **named)
        if inspect.isasyncgen(done):
            done = anext(done, None)
        if inspect.isawaitable(done):
            await done
    except RopewalkError:
        return None
    except Exception as error:  # noqa: BLE001 - it is what is looked at
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = f"{Path(ropewalk.__file__).parent}"
        if last.filename == __file__ or (last.filename.startswith(ours) and (last.line or "").startswith("raise")):
            return None  # Python's own words of how it is called, or ours
        return f"{type(error).__name__} at {last.filename}:{last.lineno}: {error}"
    return None


async def swept(name: str, call: Any) -> list[str]:
    """Every argument in turn as everything that is wrong; the others right."""
    found = {}
    parameters = [p for p in inspect.signature(call).parameters.values() if p.kind is not p.VAR_KEYWORD]
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    for one in parameters:
        for wrong in WRONG:
            rights = good()
            args = [wrong if p is one else rights.get(p.name, "x") for p in parameters if p in needed or p is one]
            kinds = [p.kind for p in parameters if p in needed or p is one]
            place = [
                a for a, kind in zip(args, kinds, strict=True) if kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL)
            ]
            rest = [p.name for p in parameters if p in needed or p is one]
            named = {
                n: a
                for n, a, k in zip(rest, args, kinds, strict=True)
                if k in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
            }
            said = await complaint(call, *place, **named)
            if said is not None:
                found.setdefault(said, f"{name}({one.name}={wrong!r}): {said}")
    return list(found.values())


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.root, "disabled", True)


def test_names_of_the_package_and_of_the_tool_chain_functions() -> None:
    async def case() -> list[str]:
        return [said for name, call in names() for said in await swept(name, call)]

    assert asyncio.run(case()) == []


@pytest.mark.parametrize("kind", ["App", "App.chains", "App.compositions", "Runner", "Toolbox", "Selector", "flow"])
def test_methods(kind: str) -> None:
    async def case() -> list[str]:
        async with App("memory", tools=[up]) as app:
            await app.chains.create_chain(CHAIN)
            await app.run(CHAIN, run_id="r")
            made = {
                "App": lambda: app, "App.chains": lambda: app.chains, "App.compositions": lambda: app.compositions,
                "Runner": lambda: Runner(Toolbox([up])), "Toolbox": lambda: Toolbox([up]), "flow": lambda: flow("f"),
                "Selector": lambda: Selector([Tool("new", "", {"type": "object"})]),
            }[kind]()  # fmt: skip
            return [said for name, call in calls_of(kind, made) for said in await swept(name, call)]

    assert asyncio.run(case()) == []


async def _app(**given: Any) -> None:
    async with App("memory", tools=[up]) as app:
        await app.run(CHAIN, **given)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Toolbox(5), "tools: must be a list of functions and Tools, not int"),
        (lambda: Toolbox(up), "tools: must be a list of functions and Tools, not function"),
        (lambda: Toolbox("up"), "tools: must be a list of functions and Tools, not str"),
        (lambda: App(tools=5), "tools: must be a list of functions and Tools, not int"),
        (lambda: App(toolbox=[up]), "toolbox: must be a Toolbox, not list"),
        (lambda: Toolbox(mcp=["npx"]), "mcp: must be an object of configurations by name, not list"),
        (lambda: Toolbox().on_change(None), "listener: must be a function, not None"),
        (
            lambda: Runner(Toolbox([up])).run_with_progress("up", {"text": "x"}, 5),
            "on_progress: must be a function, not int",
        ),
        (
            lambda: Runner(Toolbox([up])).run_chain_with_progress([ChainStep("up", {"text": "x"})], "f"),
            "on_progress: must be a function, not str",
        ),
        (lambda: App(model=5), "model: must be an object with the method turn, not int"),
        (lambda: App("memory").runs.list(limit=-1), "limit: must be a whole number of 0 or more, not -1"),
        (lambda: App("memory").runs.list(text=5), "text: must be a string or None, not int"),
        (lambda: App("memory").runs.prune(status=5), "status: must be a status or a list of them, not int"),
        (lambda: App("memory").runs.fork("r", at="a"), "at: must be a list of strings, not str"),
        (lambda: App("memory").runs.retry(5), "run_id: must be a string, not int"),
        (
            lambda: App("memory").runs.get("r", after=True, limit=2**63),
            "after: must be a whole number of 0 or more, not bool\n"
            "limit: must be a whole number of 0 or more, or None, not 9.22337e+18",
        ),
        (
            lambda: App("memory").runs.send("r", None, id=5),
            "event: must be a string, not None\nid: must be a string or None, not int",
        ),
        (lambda: _app(on_event=5), "on_event: must be a function of an event, not int"),
        (lambda: _app(variables=5), "variables: must be an object of values by name, not int"),
    ],
)
def test_what_is_said(call: Any, said: str) -> None:
    async def case() -> None:
        done = call()
        if inspect.isawaitable(done):
            await done

    with pytest.raises(InvalidInput) as caught:
        asyncio.run(case())
    assert str(caught.value) == said
