"""Definitions of any size that `cost.py` measures: each returns a document with about `n` nodes, right or wrong."""

# ruff: noqa: E501  (a table)

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def nodes(n: int, **fields: Any) -> list[dict[str, Any]]:
    """Tool nodes with the same fields."""
    return [{"id": f"n{i}", "type": "tool", "tool": "echo", **fields} for i in range(n)]


def numbered(n: int, fields: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Tool nodes whose fields depend on their position."""
    return [{"id": f"n{i}", "type": "tool", "tool": "echo", **fields(i)} for i in range(n)]


def before(i: int, n: int) -> list[str]:
    """The ids of the `n` nodes before a position."""
    return [f"n{j}" for j in range(max(0, i - n), i)]


def experience(n: int, tool: str = "echo") -> dict[str, Any]:
    """A line of nodes that call the tool of a directory."""
    steps = [{"id": f"n{i}", "kind": "tool", "impl": f"tools.py#{tool}", "args": {}} for i in range(n)]
    edges = [{"from": f"n{i}", "to": f"n{i + 1}"} for i in range(n - 1)]
    return graph(steps, edges, {"x": {"type": "number"}})


def graph(nodes: list[Any], edges: list[Any], schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An experience with these parts."""
    start = {"kind": "experience", "name": "e", "version": "0.1.0", "state": {"schema": schema or {}}}
    return {**start, "graph": {"nodes": nodes, "edges": edges, **more}}


def calls(n: int, fields: Callable[[int], dict[str, Any]] = lambda i: {}) -> list[dict[str, Any]]:
    """Nodes of an experience that call a tool of the app."""
    return [{"id": f"n{i}", "kind": "call", "tool": "echo", **fields(i)} for i in range(n)]


def line(n: int, **fields: Any) -> list[dict[str, Any]]:
    """The edges of nodes one after another."""
    return [{"from": f"n{i}", "to": f"n{i + 1}", **fields} for i in range(n - 1)]


def fields_of(n: int) -> dict[str, Any]:
    """A state of one field per node."""
    return {f"f{i}": {"type": "any"} for i in range(n + 1)}


def agent(n: int) -> dict[str, Any]:
    """A conversation of many messages."""
    return {"kind": "agent", "messages": [{"role": "user", "content": f"message {i}"} for i in range(n)]}


DOCUMENTS: dict[str, Callable[[int], Any]] = {
    "chain": lambda n: {"kind": "chain", "nodes": nodes(n, params={"value": "$prev"})},
    "chain, parallel": lambda n: {"kind": "chain", "mode": "parallel", "nodes": nodes(n, params={"value": "$input.x"})},
    "chain, dag": lambda n: {"kind": "chain", "mode": "dag", "nodes": numbered(n, lambda i: {"dependsOn": before(i, 3)})},
    "chain, dag, wide": lambda n: {"kind": "chain", "mode": "dag", "nodes": numbered(n, lambda i: {"dependsOn": ["n0"] if 0 < i < n - 1 else before(i, n) if i else []})},
    "chain of conditions": lambda n: {"kind": "chain", "nodes": nodes(n, condition="$input.x > 1", params={"value": "$prev"})},
    "chain of jumps": lambda n: {"kind": "chain", "nodes": numbered(n, lambda i: {"onError": f"n{i + 2}"} if i < n - 2 else {})},
    "chain of variables": lambda n: {"kind": "chain", "nodes": numbered(n, lambda i: {"params": {"value": f"$var.v{i - 1}" if i else 1}, "outputVar": f"v{i}"})},
    "chain, dag of variables": lambda n: {"kind": "chain", "mode": "dag", "nodes": numbered(n, lambda i: {"dependsOn": before(i, 1), "params": {"value": f"$var.v{i - 1}" if i else 1}, "outputVar": f"v{i}"})},
    "chain of one variable": lambda n: {"kind": "chain", "mode": "dag", "nodes": numbered(n, lambda i: {"dependsOn": before(i, 1), "outputVar": "v"})},
    "chain of loops": lambda n: {"kind": "chain", "nodes": [{"id": f"l{i}", "type": "loop", "items": "$input.l", "nodes": [{"id": f"n{i}", "type": "tool", "tool": "echo", "params": {"value": "$item"}}]} for i in range(n)]},
    "chain of branches": lambda n: {"kind": "chain", "nodes": [{"id": f"c{i}", "type": "condition", "condition": "$input.x", "then": [{"id": f"n{i}", "type": "tool", "tool": "echo"}], "otherwise": [{"id": f"m{i}", "type": "tool", "tool": "echo"}]} for i in range(n)]},
    "chain of transforms": lambda n: {"kind": "chain", "nodes": [{"id": f"n{i}", "type": "transform", "transform": {"type": "PICK", "config": {"fields": ["a"]}}} if i % 2 else {"id": f"n{i}", "type": "tool", "tool": "echo", "params": {"value": "${$input.x + 1}"}} for i in range(n)]},
    "chain that reads outputs": lambda n: {"kind": "chain", "nodes": numbered(n, lambda i: {"params": {"value": [f"$output.{id}" for id in before(i, 3)]}})},
    "chain with retries": lambda n: {"kind": "chain", "nodes": nodes(n, errorStrategy="fallback", fallback="$prev", timeout=5)},
    "chain with one large value": lambda n: {"kind": "chain", "nodes": nodes(1, params={"value": [{"a": "$input.x", "b": i} for i in range(n)]})},
    "chain with a long expression": lambda n: {"kind": "chain", "nodes": nodes(1, params={"value": "${" + " + ".join(["$input.x"] * min(n, 400)) + "}"})},
    "composition": lambda n: {"kind": "composition", "nodes": nodes(n, inputMapping={"value": "$input.x"})},
    "composition of conditions": lambda n: {"kind": "composition", "nodes": nodes(n, condition="$input.x > 1", inputMapping={"value": "$prev"})},
    "composition of maps": lambda n: {"kind": "composition", "nodes": [{"id": f"n{i}", "type": "map", "tool": "echo", "items": "$input.l"} for i in range(n)]},
    "composition, parallel": lambda n: {"kind": "composition", "nodes": [{"id": "p", "type": "parallel", "nodes": nodes(n)}]},
    "composition of variables": lambda n: {"kind": "composition", "nodes": numbered(n, lambda i: {"outputVar": f"v{i}"})},
    "composite of one name": lambda n: {"kind": "composite", "name": "c", "steps": [{"tool": "echo"}] * n},
    "composite": lambda n: {"kind": "composite", "name": "c", "steps": [{"name": f"s{i}", "tool": "echo"} for i in range(n)]},
    "composite with conditions": lambda n: {"kind": "composite", "name": "c", "steps": [{"name": f"s{i}", "tool": "echo", "condition": "$prev.x > 1", "inputMapping": {"value": "$prev"}} for i in range(n)]},
    "run chain": lambda n: {"kind": "runchain", "name": "r", "steps": [{"toolId": "echo", "args": {}} for _ in range(n)]},
    "experience": experience,
    "experience of fields": lambda n: graph(calls(n, lambda i: {"args": {"value": f"$state.f{i}"}, "reads": [f"f{i}"], "writes": [f"f{i + 1}"]}), line(n), fields_of(n)),
    "experience of one field": lambda n: graph(calls(n, lambda i: {"args": {"value": "$state.x"}, "writes": ["x"]}), line(n), {"x": {"type": "any"}}),
    "experience of separate writers": lambda n: graph(calls(n, lambda i: {"writes": [f"f{i}"]}), [], fields_of(n)),
    "experience of set_once": lambda n: graph(calls(n, lambda i: {"writes": [f"f{i}"]}), line(n), {f"f{i}": {"type": "any", "merge": "set_once"} for i in range(n)}),
    "experience, wide": lambda n: graph(calls(n + 2), [edge for i in range(n) for edge in ({"from": "n0", "to": f"n{i + 1}"}, {"from": f"n{i + 1}", "to": f"n{n + 1}"})]),
    "experience of diamonds": lambda n: graph(calls(n), [{"from": f"n{i}", "to": f"n{j}"} for i in range(n) for j in (i + 1, i + 2) if j < n]),
    "experience of conditions": lambda n: graph(calls(n), line(n, when="$input.x > 1")),
    "experience that skips": lambda n: graph(calls(n, lambda i: {"on_error": {"policy": "skip"}}), line(n)),
    "experience of for_each": lambda n: graph(calls(n, lambda i: {"for_each": {"source": "$input.l"}, "args": {"value": "$item"}}), line(n)),
    "experience of loops": lambda n: graph(calls(n, lambda i: {"writes": ["x"]}), [], {"x": {"type": "any"}}, loops=[{"id": f"l{i}", "body": [f"n{i}"], "until": "$state.x > 1"} for i in range(n)]),
    "experience of one loop": lambda n: graph(calls(n, lambda i: {"reads": [f"f{i}"], "writes": [f"f{i + 1}"]}), line(n), fields_of(n), loops=[{"id": "l", "body": [f"n{i}" for i in range(n)], "until": "$state.f1 > 1"}]),
    "experience of pipelines": lambda n: graph(calls(n), [], pipelines=[{"id": f"p{i}", "items": "$input.l", "stages": [f"n{i}"]} for i in range(n)]),
    "experience of one pipeline": lambda n: graph(calls(n), [], pipelines=[{"id": "p", "items": "$input.l", "stages": [f"n{i}" for i in range(n)]}]),
    "experience of values": lambda n: graph([{"id": f"n{i}", "kind": "value", "value": before(i, 1) and [f"$output.n{i - 1}"] * 2} for i in range(n)], line(n)),
    "experience of agents": lambda n: graph([{"id": f"n{i}", "kind": "agent", "prompt": "Say $state.x", "tools": ["echo"]} for i in range(n)], line(n), {"x": {"type": "any"}}),
    "agent": agent,
    "wrong: unknown keys": lambda n: {"kind": "chain", "nodes": nodes(1), **{f"key{i}": 1 for i in range(n)}},
    "wrong: unknown keys of a node": lambda n: {"kind": "chain", "nodes": [{**nodes(1)[0], **{f"k{i}": 1 for i in range(n)}}]},
    "wrong: types of nodes": lambda n: {"kind": "chain", "nodes": nodes(n, type="tol")},
    "chain of unknown references": lambda n: {"kind": "chain", "nodes": nodes(n, params={"value": "$inptu.x"})},
    "wrong: references": lambda n: {"kind": "chain", "strict": True, "nodes": nodes(n, params={"value": "$inptu.x"})},
    "wrong: outputs": lambda n: {"kind": "chain", "nodes": nodes(n, params={"value": "$output.gone"})},
    "chain of unknown variables": lambda n: {"kind": "chain", "nodes": numbered(n, lambda i: {"params": {"value": f"$var.w{i}"}, "outputVar": f"v{i}"})},
    "wrong: tools": lambda n: {"kind": "chain", "nodes": nodes(n, tool="z" * 300)},
    "wrong: tools of many names": lambda n: {"kind": "chain", "nodes": numbered(n, lambda i: {"tool": f"z{i}"})},
    "wrong: ids": lambda n: {"kind": "chain", "nodes": nodes(1) * n},
    "wrong: arguments": lambda n: {"kind": "chain", "nodes": nodes(n, params={"valeu": 1})},
    "wrong: dependencies": lambda n: {"kind": "chain", "mode": "dag", "nodes": nodes(n, dependsOn=["gone"])},
    "wrong: a cycle": lambda n: {"kind": "chain", "mode": "dag", "nodes": numbered(n, lambda i: {"dependsOn": [f"n{(i + 1) % n}"]})},
    "wrong: cycles": lambda n: {"kind": "chain", "mode": "dag", "nodes": numbered(n, lambda i: {"dependsOn": [f"n{i ^ 1}"]})},
    "wrong: jumps": lambda n: {"kind": "chain", "nodes": numbered(n, lambda i: {"onError": f"n{i // 2}"})},
    "wrong: nodes of a composition": lambda n: {"kind": "composition", "nodes": nodes(n, typ="x")},
    "wrong: steps": lambda n: {"kind": "composite", "name": "c", "steps": [{"tol": 1}] * n},
    "wrong: experience": lambda n: experience(n, tool=""),
    "wrong: edges of an experience": lambda n: graph(calls(n), [{"from": f"n{i}", "to": f"m{i}"} for i in range(n)]),
    "wrong: a cycle of an experience": lambda n: graph(calls(n), [*line(n), {"from": f"n{n - 1}", "to": "n0"}]),
    "wrong: fields of an experience": lambda n: graph(calls(n, lambda i: {"reads": [f"g{i}"]}), line(n), fields_of(n)),
    "wrong: writers of set_once": lambda n: graph(calls(n, lambda i: {"writes": ["x"]}), [], {"x": {"type": "any", "merge": "set_once"}}),
    "experience of unknown phases": lambda n: {**graph(calls(n, lambda i: {"phase": f"q{i}"}), line(n)), "phases": [{"id": f"p{i}"} for i in range(n)]},
    "wrong: agent": lambda n: {**agent(1), **{f"key{i}": 1 for i in range(n)}},
}  # fmt: skip
