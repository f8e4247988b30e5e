"""Python itself as the judge of plans: a program is executed with asyncio, and as a plan, and both are compared."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import re
import textwrap
from collections import Counter
from typing import Any, TypedDict

from ropewalk import App, tool
from ropewalk.errors import InvalidFlow


class Data(dict):  # type: ignore[type-arg]
    """What a tool gives, as programs see it: `x.name` and `x["name"]` are the same."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise KeyError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def as_data(value: Any) -> Any:
    """Return a copy of JSON whose objects have members."""
    if isinstance(value, dict):
        return Data({key: as_data(item) for key, item in value.items()})
    return [as_data(item) for item in value] if isinstance(value, list) else value


class ToolError(Exception):
    """A failed call, as plans know it."""


class ToolValueError(ToolError, ValueError):
    """A tool that raised ValueError."""


class ToolKeyError(ToolError, LookupError):
    """A tool that raised LookupError."""


class World:
    """Four tools over a counter, with every call that was made."""

    def __init__(self, delays: bool = False) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.delays = delays
        self.items: dict[str, Any] = {}

    async def answer(self, name: str, args: dict[str, Any]) -> Any:
        """Return what a tool gives; both kinds of run ask here."""
        self.calls.append((name, json.loads(json.dumps(args))))
        if self.delays:
            for _ in range(len(self.calls) * 7 % 5 * 10):
                await asyncio.sleep(0)
        number = args.get("n", 0)
        if name == "get_item":
            return {"id": number, "name": f"item {number}", "tags": ["a", "b"][: number % 3], "price": number * 1.5}
        if name == "get_numbers":
            return list(range(number % 6))
        if name == "risky":
            if number % 3 == 1:
                raise ValueError(f"bad {number}")
            if number % 5 == 4:
                raise LookupError(f"none {number}")
            return number * 10
        if name == "save":
            self.items[str(args.get("key"))] = args.get("value")
            return {"saved": args.get("key"), "count": len(self.items)}
        raise AssertionError(name)


PARAMETERS = {"get_item": ("n",), "get_numbers": ("n",), "risky": ("n",), "save": ("key", "value")}


class Item(TypedDict):
    """What `get_item` gives."""

    id: int
    name: str
    tags: list[str]
    price: float


def tools_of(world: World) -> list[Any]:
    """Return the tools of a world for an app."""

    @tool(annotations={"readOnlyHint": True})
    async def get_item(n: int) -> Item:
        """Get an item."""
        return await world.answer("get_item", {"n": n})  # type: ignore[no-any-return]

    @tool(annotations={"readOnlyHint": True})
    async def get_numbers(n: int) -> list[int]:
        """Get numbers."""
        return await world.answer("get_numbers", {"n": n})  # type: ignore[no-any-return]

    @tool(annotations={"readOnlyHint": True})
    async def risky(n: int) -> int:
        """Fail for some numbers."""
        return await world.answer("risky", {"n": n})  # type: ignore[no-any-return]

    @tool
    async def save(key: Any, value: Any = None) -> dict[str, Any]:
        """Save a value."""
        return await world.answer("save", {"key": key, "value": value})  # type: ignore[no-any-return]

    return [get_item, get_numbers, risky, save]


def _python_tools(world: World) -> dict[str, Any]:
    def make(name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            given = dict(zip(PARAMETERS[name], args, strict=False)) | kwargs
            if name == "save":
                given.setdefault("value", None)
            try:
                return as_data(await world.answer(name, given))
            except ValueError as error:
                raise ToolValueError(str(error)) from None
            except LookupError as error:
                raise ToolKeyError(str(error)) from None

        return call

    return {name: make(name) for name in PARAMETERS}


def run_python(code: str, inputs: dict[str, Any], world: World | None = None) -> dict[str, Any]:
    """Execute a program with asyncio; return its `result`, or `error` and `message`, with `calls` and `printed`."""
    tree = ast.parse(code)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Return(tree.body[-1].value)
    body = textwrap.indent(ast.unparse(tree), "    ") or "    pass"
    names = ", ".join(inputs)
    world = world or World()
    space: dict[str, Any] = {
        "__name__": "__main__",
        "asyncio": asyncio,
        "json": json,
        "ToolError": ToolError,
        "math": __import__("math"),
    }
    space |= _python_tools(world)
    exec(f"async def main({names}):\n{body}", space)
    printed = io.StringIO()
    outcome: dict[str, Any]
    try:
        with contextlib.redirect_stdout(printed):
            value = asyncio.run(space["main"](**{name: as_data(item) for name, item in inputs.items()}))
        outcome = {"result": json.loads(json.dumps(value))}
    except Exception as error:  # noqa: BLE001 - programs raise anything
        outcome = {"error": _class_name(error), "message": str(error)}
    return {**outcome, "calls": world.calls, "printed": printed.getvalue()}


def _class_name(error: BaseException) -> str:
    return "ToolError" if isinstance(error, ToolError) else type(error).__name__


async def run_plan_async(code: str, inputs: dict[str, Any], store: str = "memory", **document: Any) -> dict[str, Any]:
    """Run a program as a plan, with the same parts as `run_python`."""
    world = World(delays=document.get("parallel", "none") != "none")
    async with App(store, tools=tools_of(world)) as app:
        try:
            outcome = await app.run(
                {"kind": "plan", "code": code, "inputs": list(inputs), "function": True, **document}, inputs
            )
        except InvalidFlow as error:
            return {"refused": str(error)}
        printed = outcome.get("printed", "")
        if outcome["success"]:
            return {"result": outcome["result"], "calls": world.calls, "printed": printed}
        failure = outcome["errors"][0]
        return {**_failure(failure), "calls": world.calls, "printed": printed}


def _failure(failure: dict[str, Any]) -> dict[str, Any]:
    if failure["tool"] is not None:
        return {"error": "ToolError", "message": re.sub(r"^line \d+: ToolError: ", "", failure["message"])}
    line, _, rest = failure["message"].partition(": ")
    kind, _, message = rest.partition(": ")
    return (
        {"error": kind, "message": message} if line.startswith("line ") else {"error": failure["kind"], "message": rest}
    )


def run_plan(code: str, inputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Run a program as a plan."""
    return asyncio.run(run_plan_async(code, inputs, **more))


def differences(
    code: str, inputs: dict[str, Any] | None = None, *, unordered: bool = False, parallel: str = "none"
) -> list[str]:
    """Return what differs between Python and the plan; empty if they are equal or the plan was refused."""
    return compared_with_python(code, inputs, unordered=unordered, parallel=parallel) or []


def compared_with_python(
    code: str, inputs: dict[str, Any] | None = None, *, unordered: bool = False, parallel: str = "none"
) -> list[str] | None:
    """Return what differs between Python and the plan; None if the plan was refused.

    Calls that overlap may begin in another order. Where something may fail, reads that had started are extra.
    """
    inputs = inputs or {}
    plan = run_plan(code, inputs, parallel=parallel)
    if "refused" in plan:
        return None
    python = run_python(code, inputs)
    found = []
    for part in ("result", "error", "message", "printed", "calls"):
        left, right = python.get(part), plan.get(part)
        if part == "printed" and "error" in python:
            continue
        if part == "calls" and parallel != "none":
            left, right = _comparable(left), _comparable(right)
            may_fail = "error" in python or "try:" in code or "risky" in code
            if may_fail and left[0] == right[0] and not Counter(left[1]) - Counter(right[1]):
                continue
        elif part == "calls" and unordered:
            left, right = sorted(map(repr, left)), sorted(map(repr, right))  # type: ignore[arg-type]
        if json.dumps(left) != json.dumps(right):
            found.append(f"{part}: Python {left!r}, plan {right!r}")
    return found


def _comparable(calls: Any) -> tuple[list[Any], list[str]]:
    """Return the calls that write, in their order, and those that read, in any order."""
    writes = [[tool, args] for tool, args in calls if tool == "save"]
    return writes, sorted(repr(call) for call in calls if call[0] != "save")
