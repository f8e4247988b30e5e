"""Flows of the reliability campaign, each with the results that it must have."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from reliability_tools import value_of

_LENGTHS: Final = [(0.897, (1, 20)), (0.1, (20, 500)), (0.003, (6000, 12000))]
"""Shares of steps, and between how many milliseconds they take. Every fault finds steps in progress, and some take
longer than any outage or pause."""


@dataclass
class Case:
    """A run with a known result.

    Args:
        run: The run's id.
        width: Greatest number of steps in progress at once.
        document: The chain.
        results: The expected result of each node.
        keys: The key of each step, which is its path in the journal, with the expected value.
    """

    run: str
    width: int = 1
    document: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, Any] = field(default_factory=dict)

    def expect(self, key: str, inputs: object = None) -> dict[str, Any]:
        """Record that the step `key` gets these inputs, and return its result."""
        self.keys[key] = {"key": key, "value": value_of(self.run, key, inputs)}
        return self.keys[key]  # type: ignore[no-any-return]

    def chain(self, nodes: list[dict[str, Any]], **more: Any) -> None:
        """Set the document."""
        self.document = {"kind": "chain", "name": "campaign", "timeout": 3_600_000, "nodes": nodes, **more}

    def node(self, id: str, key: str, inputs: object, rnd: random.Random) -> dict[str, Any]:
        """Return a node that calls one of the tools."""
        called = rnd.choice(["step", "step", "thread_step"])
        [(least, most)] = rnd.choices([length for _, length in _LENGTHS], [share for share, _ in _LENGTHS])
        params = {"run": self.run, "key": key, "inputs": inputs, "ms": rnd.randint(least, most)}
        return {"id": id, "type": "tool", "tool": called, "params": params}


def _line(case: Case, rnd: random.Random) -> None:
    nodes: list[dict[str, Any]] = []
    result: Any = None
    for i in range(rnd.randint(20, 50)):
        nodes.append(case.node(f"n{i}", f"n{i}", f"$output.n{i - 1}" if i else None, rnd))
        result = case.results[f"n{i}"] = case.expect(f"n{i}", result)
    case.chain(nodes)


def _graph(case: Case, rnd: random.Random) -> None:
    nodes: list[dict[str, Any]] = []
    case.width = 6
    for i in range(rnd.randint(20, 50)):
        needs = sorted(rnd.sample(range(i), min(i, rnd.choice([0, 1, 1, 2, 3]))))
        nodes.append(case.node(f"n{i}", f"n{i}", [f"$output.n{need}" for need in needs], rnd))
        case.results[f"n{i}"] = case.expect(f"n{i}", [case.results[f"n{need}"] for need in needs])
    rnd.shuffle(nodes)
    case.chain(nodes, mode="dag", concurrency=case.width)


def _items(case: Case, rnd: random.Random) -> None:
    count, case.width = rnd.randint(10, 40), rnd.choice([1, 4, 8])
    first = case.node("a", "each[${$index}]/a", "$item", rnd)
    second = case.node("b", "each[${$index}]/b", "$output.a", rnd)
    loop = {"id": "each", "type": "loop", "items": list(range(count)), "concurrency": case.width}
    case.chain([{**loop, "nodes": [first, second]}, case.node("end", "end", "$output.each", rnd)])
    firsts = [case.expect(f"each[{i}]/a", i) for i in range(count)]
    case.results["each"] = [case.expect(f"each[{i}]/b", firsts[i]) for i in range(count)]
    case.results["end"] = case.expect("end", case.results["each"])


def _rounds(case: Case, rnd: random.Random) -> None:
    count, case.width = rnd.randint(10, 30), 3
    each = {**case.node("r", "rounds[${$iteration}]/r", "$var.last", rnd), "outputVar": "last"}
    loop = {"id": "rounds", "type": "loop", "while": f"$iteration < {count}", "maxIterations": count, "nodes": [each]}
    sides = [case.node(f"p{i}", f"both/p{i}", "$output.rounds", rnd) for i in range(3)]
    both = {"id": "both", "type": "parallel", "concurrency": 3, "nodes": sides}
    pause = {"id": "pause", "type": "delay", "delay": rnd.randint(10, 200)}
    case.chain([loop, pause, both, case.node("end", "end", "$output.both", rnd)], variables={"last": ""})
    last: Any = ""
    rounds = []
    for i in range(count):
        last = case.expect(f"rounds[{i}]/r", last)
        rounds.append(last)
    case.results |= {"rounds": rounds, "pause": None}
    case.results["both"] = {f"p{i}": case.expect(f"both/p{i}", rounds) for i in range(3)}
    case.results["end"] = case.expect("end", case.results["both"])


_SHAPES: Final[list[Callable[[Case, random.Random], None]]] = [_line, _graph, _items, _rounds]


def cases(steps: int, rnd: random.Random) -> list[Case]:
    """Make runs with at least `steps` steps together, of every shape in turn."""
    made: list[Case] = []
    planned = 0
    while planned < steps:
        case = Case(run=f"c{len(made)}")
        _SHAPES[len(made) % len(_SHAPES)](case, rnd)
        made.append(case)
        planned += len(case.keys)
    return made
