"""Random documents of each notation, made of what people write in it. Deterministic for a `random.Random`."""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]


def tool(r: random.Random, id: str, args: Any) -> Json:
    return {"id": id, "type": "tool", "tool": r.choice(["mix", "echo", "list"]), "params": {"v": args}}


def chain(r: random.Random, most: int = 4) -> Json:
    """A chain of everything but jumps, waits and loops with a test."""
    nodes: list[Json] = []
    mode = r.choice(["sequential", "sequential", "dag", "parallel", "conditional"])
    for i in range(r.randint(1, most)):
        seen = ["$input.n"]
        if mode != "parallel":
            seen += [f"$output.{node['id']}" for node in nodes]
        if mode in ("sequential", "conditional"):
            seen += ["$prev", "$var.v"]
        nodes.append(_chain_node(r, f"n{i}", seen))
    made = {"kind": "chain", "name": "c", "mode": mode, "variables": {"v": 0}, "nodes": nodes}
    if mode == "dag" and len(nodes) > 1 and r.random() < 0.5:
        nodes[-1]["dependsOn"] = [nodes[0]["id"]]
    if r.random() < 0.3 and mode != "parallel":
        nodes.append({"id": "result", "type": "transform", "input": f"$output.{nodes[-1]['id']}"})
    return made


def _chain_node(r: random.Random, id: str, seen: list[str]) -> Json:
    value: Any = r.choice([*seen, 1, {"a": r.choice(seen)}])
    kind = r.randint(0, 10)
    if kind == 0:
        return {**tool(r, id, value), "outputVar": r.choice(["v", "w"])}
    if kind == 1:
        then, otherwise = tool(r, f"{id}t", value), tool(r, f"{id}o", 0)
        made = {"id": id, "type": "condition", "condition": "$input.n > 3", "then": [then]}
        return {**made, "otherwise": [otherwise]} if r.random() < 0.7 else made
    if kind == 2:
        return {"id": id, "type": "loop", "items": [1, 2], "nodes": [tool(r, f"{id}b", "$item")]}
    if kind == 3:
        return {"id": id, "type": "parallel", "nodes": [tool(r, f"{id}x", value), tool(r, f"{id}y", 1)]}
    if kind == 4:
        why = {"why": "$error.message"}
        return {"id": id, "type": "tool", "tool": "bad", "errorStrategy": "fallback", "fallback": why}
    if kind == 5:
        return {"id": id, "type": "tool", "tool": "bad", "errorStrategy": r.choice(["skip", "continue"])}
    if kind == 6:
        sort = {"type": "sort", "config": {"by": "$item"}}
        return {"id": id, "type": "transform", "input": [3, 1], "transform": sort}
    if kind == 7:
        return {**tool(r, id, value), "condition": "$input.n > 3"}
    if kind == 8:
        return {"id": id, "type": "delay", "delay": 1}
    return tool(r, id, value)


def composition(r: random.Random) -> Json:
    nodes: list[Json] = []
    for i in range(r.randint(1, 4)):
        id, kind = f"n{i}", r.randint(0, 10)
        seen = ["$input.n", *(f"$output.{node['id']}" for node in nodes)]
        args = {"inputMapping": {"v": r.choice(seen)}}
        call: Json = {"id": id, "type": "tool", "tool": r.choice(["mix", "echo"]), **args}
        nodes.append(
            [
                {**call, "outputMapping": {"s": f"$output.{id}", "p": "$prev"}},
                {"id": id, "type": "merge", "sources": [{"a": 1}, {"b": r.choice(seen)}]},
                {"id": id, "type": "branch", "otherwise": {"v": 1}, "branches": [
                    {"condition": "$input.n > 3", "nodes": [{**call, "id": f"{id}x"}]}]},
                {"id": id, "type": "conditional", "condition": "$input.n > 3", "then": {"v": "$input.n"}},
                {"id": id, "type": "map", "items": [1, 2], "expression": "$item + 1"},
                {"id": id, "type": "map", "items": [1, 2], "tool": "mix", "inputMapping": {"v": "$item"}},
                {**call, "tool": "bad", "onError": "fallback", "fallback": 5},
                {"id": id, "type": "parallel", "nodes": [
                    {**call, "id": f"{id}x"}, {**call, "id": f"{id}y", "inputMapping": {"v": f"$output.{id}x"}}]},
                {"id": id, "type": "delay", "delay": 1},
                {**call, "condition": "$input.n > 3", "outputVar": "v"},
                {"id": id, "type": "tool", "tool": "bad", "inputMapping": {"v": 1}, "onError": "continue",
                 "maxRetries": 1, "retryDelay": 0},
            ][kind]
        )  # fmt: skip
    return {"kind": "composition", "name": "c", "variables": {"v": 0}, "nodes": nodes}


def composite(r: random.Random) -> Json:
    steps: list[Json] = []
    for i in range(r.randint(1, 4)):
        seen = ["$input.n", "$prev", *(f"$steps[{k}]" for k in range(i))]
        step: Json = {"name": f"s{i}", "tool": r.choice(["mix", "echo"]), "inputMapping": {"v": r.choice(seen)}}
        steps.append({**step, "condition": "$input.n > 3"} if r.random() < 0.3 else step)
    return {"kind": "composite", "name": "c", "mode": "compose", "steps": steps}


def experience(r: random.Random) -> Json:
    nodes: list[Json] = []
    edges: list[Json] = []
    for i in range(r.randint(1, 4)):
        id = f"n{i}"
        seen = ["$input.n", "$state.a"]
        for other in nodes:
            if r.random() < 0.6:
                edges.append({"from": other["id"], "to": id})
                seen.append(f"$output.{other['id']}")
        value = r.choice(seen)
        call: Json = {"id": id, "kind": "call", "tool": r.choice(["mix", "echo"]), "args": {"v": value}}
        nodes.append(
            [
                call,
                {**call, "writes": ["a"]},
                {**call, "when": "$input.n > 3", "writes": ["b"]},
                {"id": id, "kind": "value", "value": {"x": value}, "writes": ["b"]},
                {"id": id, "kind": "delay", "delay": 1},
                {**call, "tool": "bad", "on_error": {"policy": "fallback", "value": 7}, "writes": ["a"]},
                {**call, "tool": "bad", "on_error": "continue"},
                {**call, "for_each": {"source": [1, 2], "concurrency": r.choice([1, 2])}},
            ][r.randint(0, 7)]
        )
    schema = {"a": {"type": "any", "default": 0}, "b": {"type": "any", "default": None}}
    made: Json = {"kind": "experience", "name": "e", "version": "0.1.0", "state": {"schema": schema}}
    if r.random() < 0.7:  # otherwise the input begins the state fields that a node reads first
        made["inputSchema"] = {"type": "object"}
    return {**made, "graph": {"nodes": nodes, "edges": edges}}


def runchain(r: random.Random) -> Json:
    steps: list[Json] = []
    for _ in range(r.randint(1, 4)):
        step: Json = {"toolId": r.choice(["mix", "echo"])}
        if r.random() < 0.7:
            step["args"] = {"v": r.choice([1, "$5", "$input.n", {"a": ["${x}"]}])}
        steps.append({**step, "usePrevious": True} if steps and r.random() < 0.5 else step)
    return {"kind": "runchain", "name": "r", "steps": steps}
