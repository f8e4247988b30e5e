"""The cases, one function each; what it yields are the rows of the table.

The targets are part of the case. Nothing here is tuned to Ropewalk: documents are what a user would
write, apps and tools are opened with their defaults. To add a case, write a function and name it in
CASES.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import byhand
import floor
import fresh
import ours
from measure import Contender, Timing, compare, percentile

US, MS = 1e6, 1e3


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line: `value` in `unit` against `target`; `times` are the contenders' microseconds per node,
    `ratios` what they are to the floor."""

    case: str
    value: float
    unit: str = "x"
    target: float | None = None
    times: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.value <= self.target


@dataclass(kw_only=True)
class Bench:
    """What the cases share."""

    rounds: int
    folder: Path
    peers: dict[str, Any]
    failed: dict[str, str] = field(default_factory=dict)

    def with_peers(self, contenders: dict[str, Contender], kind: str, nodes: int, tool: Any, answer: Any) -> None:
        """Add every peer that can do this kind of work; one that cannot is remembered with its reason."""
        for name, peer in self.peers.items():
            make = getattr(peer, kind, None)
            if make is None:
                continue
            try:
                work = make(nodes, tool)
                asyncio.run(_once(work))
            except Exception as error:  # noqa: BLE001 - whatever ails a peer, it is left out and named
                self.failed[f"{name}, {kind}"] = f"{type(error).__name__}: {str(error)[:120]}"
                continue
            contenders[name] = Contender(work, answer)

    def row(
        self,
        case: str,
        nodes: int,
        contenders: dict[str, Contender],
        *,
        target: float | None = None,
        of: str = "ropewalk",
        to: str = "asyncio",
    ) -> Row:
        timings = compare(contenders, rounds=self.rounds)
        return as_row(case, nodes, timings, target=target, of=of, to=to)


def as_row(case: str, nodes: int, timings: dict[str, Timing], *, target: float | None, of: str, to: str) -> Row:
    ratios = {name: timing.ratio(timings[to]) for name, timing in timings.items()}
    times = {name: timing.typical * US / nodes for name, timing in timings.items()}
    return Row(case=case, value=ratios[of], target=target, times=times, ratios=ratios)


async def _once(work: Any) -> Any:
    return await work()


def _answer(work: Any) -> Any:
    return asyncio.run(_once(work))


def sequential(bench: Bench) -> Iterator[Row]:
    """Tools that return at once, one after another: nothing but overhead."""
    for nodes in (10, 100, 1000):
        base, house = floor.chain(nodes, floor.at_once), ours.House(floor.at_once)
        answer, document = _answer(base), ours.chain(nodes)
        contenders = {"asyncio": Contender(base, answer), "ropewalk": Contender(house.bare(document), answer)}
        yield bench.row(f"sequential {nodes}, without records", nodes, contenders, target=2.5)
        contenders["ropewalk"] = Contender(house.executed(document), answer)
        contenders["by hand"] = Contender(byhand.chain(nodes, floor.at_once), answer)
        if nodes <= 100:
            bench.with_peers(contenders, "chain", nodes, floor.at_once, nodes)
        yield bench.row(f"sequential {nodes}, as users run it", nodes, contenders, target=6)
    for nodes in (100, 1000):
        base, house = floor.checked_chain(nodes, floor.at_once), ours.House(floor.at_once, typed=True)
        answer = _answer(base)
        work = house.executed(ours.chain(nodes))
        contenders = {"by hand": Contender(base, answer), "ropewalk": Contender(work, answer)}
        name = f"sequential {nodes}, arguments and results validated"
        yield bench.row(name, nodes, contenders, target=1.6, to="by hand")


def suspending(bench: Bench) -> Iterator[Row]:
    """Tools that suspend once, as real ones do."""
    base, house = floor.chain(100, floor.suspends), ours.House(floor.suspends)
    answer = _answer(base)
    contenders = {"asyncio": Contender(base, answer), "ropewalk": Contender(house.executed(ours.chain(100)), answer)}
    bench.with_peers(contenders, "chain", 100, floor.suspends, 100)
    yield bench.row("chain 100, tools that suspend", 100, contenders, target=1.5)
    for nodes in (100, 1000, 10_000):
        base = floor.fan_out(nodes, floor.suspends)
        answer = _answer(base)
        work = ours.House(floor.suspends).executed(ours.fan_out(nodes))
        contenders = {"asyncio": Contender(base, answer), "ropewalk": Contender(work, answer)}
        if nodes == 1000:
            contenders["by hand"] = Contender(byhand.fan_out(nodes, floor.suspends), answer)
            bench.with_peers(contenders, "fan_out", nodes, floor.suspends, sorted(answer.values()))
        target = 1.0 if nodes == 1000 else None
        yield bench.row(f"fan-out {nodes}, tools that suspend", nodes, contenders, target=target)
    base = floor.fan_out_limited(1000, floor.suspends, 8)
    answer = _answer(base)
    work = ours.House(floor.suspends).executed(ours.fan_out(1000, 8))
    contenders = {"asyncio": Contender(base, answer), "ropewalk": Contender(work, answer)}
    yield bench.row("fan-out 1000, at most 8 at once", 1000, contenders)
    base = floor.dag(1000)
    answer = _answer(base)
    contenders = {
        "asyncio": Contender(base, answer),
        "ropewalk": Contender(ours.House(floor.suspends).executed(ours.dag(1000)), answer),
    }
    yield bench.row("DAG of 1000 in layers of 50, tools that suspend", 1000, contenders, target=0.6)


def looping(bench: Bench) -> Iterator[Row]:
    """1,000 rounds until a condition in the expression language holds."""
    contenders = {
        "asyncio": Contender(floor.loop(1000, floor.at_once), 1000),
        "ropewalk": Contender(ours.House(floor.at_once).executed(ours.loop(1000)), {"step": 1000}),
        "by hand": Contender(byhand.loop(1000, floor.at_once), 1000),
    }
    bench.with_peers(contenders, "loop", 1000, floor.at_once, 1000)
    yield bench.row("loop of 1000 with a condition", 1000, contenders, target=6)


def notations(bench: Bench) -> Iterator[Row]:
    """The same work in every notation, against the graph written in Python: a notation costs nothing at run time."""
    for what, documents in (("chain of 100", ours.noted(100)), ("chain of 100 through state", ours.stateful(100))):
        house = ours.House(floor.at_once)
        contenders = {kind: Contender(house.noted(*given), 100) for kind, given in documents.items()}
        timings = compare(contenders, rounds=bench.rounds)
        for kind in contenders:
            if kind != "python":
                pair = {name: timings[name] for name in ("python", kind)}
                yield as_row(f"{what} as {kind}", 100, pair, target=None, of=kind, to="python")


def waiting(bench: Bench) -> Iterator[Row]:
    """Tools of a millisecond: what is left of the overhead when there is work."""
    base = floor.fan_out(100, floor.millisecond)
    answer = _answer(base)
    work = ours.House(floor.millisecond).executed(ours.fan_out(100))
    contenders = {"asyncio": Contender(base, answer), "ropewalk": Contender(work, answer)}
    bench.with_peers(contenders, "fan_out", 100, floor.millisecond, sorted(answer.values()))
    yield bench.row("fan-out 100, tools of 1 ms", 100, contenders, target=1.05)
    base = floor.chain(100, floor.millisecond)
    answer = _answer(base)
    work = ours.House(floor.millisecond).executed(ours.chain(100))
    contenders = {"asyncio": Contender(base, answer), "ropewalk": Contender(work, answer)}
    bench.with_peers(contenders, "chain", 100, floor.millisecond, 100)
    yield bench.row("chain 100, tools of 1 ms", 100, contenders, target=1.01)


def concurrent(bench: Bench) -> Iterator[Row]:
    """1,000 executions of 10 steps at the same time: the whole, and how late the latest are."""
    house, document = ours.House(floor.suspends), ours.chain(10)
    for what, one in (("without records", house.bare(document)), ("as users run it", house.executed(document))):
        late: dict[str, list[float]] = {"asyncio": [], "ropewalk": []}
        base = floor.many(floor.chain(10, floor.suspends), 1000, late["asyncio"])
        contenders = {
            "asyncio": Contender(base, 1000),
            "ropewalk": Contender(floor.many(one, 1000, late["ropewalk"]), 1000),
            "by hand": Contender(floor.many(byhand.chain(10, floor.suspends), 1000), 1000),
        }
        yield bench.row(f"1000 executions of 10 steps at once, {what}", 10_000, contenders, target=1.5)
        p99 = {name: percentile(values, 0.99) for name, values in late.items()}
        times = {name: value * US / 10 for name, value in p99.items()}
        ratio = p99["ropewalk"] / p99["asyncio"]
        ratios = {"asyncio": 1.0, "ropewalk": ratio}
        yield Row(case="the 99th percentile of their latency", value=ratio, target=1.4, times=times, ratios=ratios)


def durable(bench: Bench) -> Iterator[Row]:
    """SQLite, synchronous FULL: every step is on the disk before the next one starts."""
    base, house = floor.committed_chain(100, floor.at_once, bench.folder), ours.durable(floor.at_once, bench.folder)
    answer = _answer(base)
    contenders = {"commits": Contender(base, answer), "ropewalk": Contender(house.executed(ours.chain(100)), answer)}
    for name, peer in bench.peers.items():
        if make := getattr(peer, "durable_chain", None):
            try:
                work = make(100, floor.at_once, bench.folder)
                _answer(work)
            except Exception as error:  # noqa: BLE001 - whatever ails a peer, it is left out and named
                bench.failed[f"{name}, durable"] = f"{type(error).__name__}: {str(error)[:120]}"
                continue
            contenders[name] = Contender(work, 100)
    yield bench.row("durable chain 100, against insert+commit per step", 100, contenders, target=1.1, to="commits")
    executed, hand = house.executed(ours.chain(10)), byhand.committed_chain(10, floor.at_once, bench.folder)
    many = {name: Contender(floor.many(one, 1000), 1000) for name, one in (("ropewalk", executed), ("by hand", hand))}
    timings = compare(many, rounds=min(3, bench.rounds))
    per_step = {name: timing.typical * US / 10_000 for name, timing in timings.items()}
    case = "durable 1000 executions of 10 steps, per step"
    yield Row(case=case, value=per_step["ropewalk"], unit="us", target=8, times=per_step)
    house.close()


def building(bench: Bench) -> Iterator[Row]:
    """From a graph to a program, and from a document."""
    house = ours.House(floor.at_once)
    answer = _answer(floor.chain(100, floor.at_once))
    contenders = {"ropewalk": Contender(house.compiled_and_run(ours.chain(100)), answer)}
    per_node = compare(contenders, rounds=bench.rounds)["ropewalk"].typical * US / 100
    case = "compile and run once, chain of 100, per node"
    yield Row(case=case, value=per_node, unit="us", target=6, times={"ropewalk": per_node})
    contenders = {"ropewalk": Contender(house.fresh(ours.chain(100)), answer)}
    per_node = compare(contenders, rounds=bench.rounds)["ropewalk"].typical * US / 100
    case = "read, check, compile and run once, chain of 100, per node"
    yield Row(case=case, value=per_node, unit="us", times={"ropewalk": per_node})
    took = _typical(house.compiled(ours.dag(1000)), bench.rounds)
    yield Row(case="compile a DAG of 1000", value=took * MS, unit="ms", target=15, times={"ropewalk": took * US / 1000})
    took = _typical(house.checked(ours.dag(1000)), bench.rounds)
    yield Row(case="read, check and compile a DAG of 1000", value=took * MS, unit="ms", times={"ropewalk": took * 1000})
    for name, document in (("chain", ours.chain(10_000)), ("DAG", ours.dag(10_000))):
        took = _typical(house.checked(document), min(3, bench.rounds))
        case, times = f"read, check and compile a {name} of 10000", {"ropewalk": took * US / 10_000}
        yield Row(case=case, value=took * MS, unit="ms", target=1000, times=times)
    per_node = {}
    for nodes in (100, 10_000):
        base = floor.chain(nodes, floor.at_once)
        work = house.executed(ours.chain(nodes))
        found = compare(
            {"asyncio": Contender(base, _answer(base)), "ropewalk": Contender(work, _answer(base))}, rounds=3
        )
        per_node[nodes] = found["ropewalk"].typical / nodes
    case = "chain of 10000, per node, to a chain of 100"
    yield Row(case=case, value=per_node[10_000] / per_node[100], target=1.1)


def starting(bench: Bench) -> Iterator[Row]:
    """A process that imports the library and runs something small, against one that only has asyncio."""
    yield from (Row(**row) for row in fresh.rows(bench.rounds))


def _typical(build: Callable[[], None], rounds: int) -> float:
    """The median of the rounds, after one to warm up."""
    build()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        build()
        found.append(time.perf_counter() - start)
    return median(found)


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "sequential": sequential,
    "suspending": suspending,
    "looping": looping,
    "notations": notations,
    "waiting": waiting,
    "concurrent": concurrent,
    "durable": durable,
    "building": building,
    "starting": starting,
}
