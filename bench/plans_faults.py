"""Which classes of fault the programs of `tests/plans/grammar.py` find in the compiler of plans to graphs.

    python bench/plans_faults.py --count 5000 --seed 0

Each program is one statement of the grammar between a start and an end that the compiler accepts. It runs with asyncio
and as a plan; what differs is counted by the class of fault that its statement shows. The script goes with that
compiler.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tests.plans import grammar
from tests.plans.test_grammar import world
from tests.plans.virtual_loop import run_python

from ropewalk import App, tool
from ropewalk.errors import RopewalkError

START = """
import asyncio
from collections import defaultdict
async def later(value):
    await same(value=0)
    return value
def plain(first, second=2, third=3):
    return first - second + third
out = []
a, b = 1, 2
xs = [1, 2, 3]
ys = xs
rows = [[1, 2], [3], [0, 4, 5]]
counts = {"a": 1, "b": 2}
table = {"a": [1], "b": xs}
groups = defaultdict(list)
"""
END = "return [out, a, b, xs, ys, rows, counts, table, groups]"
OUTSIDE = re.compile(r"box|Box|lock|semaphore|queue|class |contextlib|yield|both|Event|Queue|global |tasks|rest\b")
"""What the compiler refuses anyway, or the start lacks."""
CLASSES = {
    "a task that is awaited twice calls twice": r"^t# = .*await t#.*await t#|gather\(t#, f#",
    "a task begins only when it is awaited": r"^t# = .*u# =|named#|^t# = ",
    "a task that nobody awaits never runs": r"\|asyncio.create_task\(f#\(\)\)$",
    "names set in a timed block are lost": r"asyncio.timeout|wait_for\(f#",
    "a shared default value is lost": r"known",
    "sharing depends on the line": r"^s# = .*; |pair#|append = xs.append",
    "an element changed by `+=` is lost": r"row\[j\] \+=|\[.*\] [-+*]= ",
    "a change through an entry or a method is lost": r"\]\.(append|extend)|setdefault|\.get|\.update|for row in",
    "a slice or a starred target": r"^xs\[.*:|\*y|\*xs|\*b#",
}
"""The classes, by what the template of a statement looks like."""


class Hang(BaseException):
    """The compiler computes without end."""


def class_of(template: str) -> str:
    """Return the class of fault that a template shows."""
    return next((name for name, shape in CLASSES.items() if re.search(shape, template)), "other")


def tools_of(answer: Any) -> list[Any]:
    """Return the tools of the programs for an app."""

    @tool(annotations={"readOnlyHint": True})
    async def same(value: Any) -> Any:
        """Give the value."""
        return answer("same", {"value": value})

    @tool(annotations={"readOnlyHint": True})
    async def fail(value: int) -> int:
        """Fail for odd numbers."""
        return answer("fail", {"value": value})  # type: ignore[no-any-return]

    @tool
    async def save(key: Any, value: Any) -> int:
        """Count what is saved."""
        return answer("save", {"key": key, "value": value})  # type: ignore[no-any-return]

    return [same, fail, save]


async def run_plan(code: str) -> dict[str, Any] | None:
    """Return the result and the number of calls of a plan, or its failure; None if it is refused."""
    calls: list[str] = []
    answer = world()

    def counted(name: str, arguments: dict[str, Any]) -> Any:
        calls.append(name)
        return answer(name, arguments)

    async with App("memory", tools=tools_of(counted)) as app:
        try:
            outcome = await app.run({"kind": "plan", "code": code, "function": True}, {})
        except RopewalkError:
            return None
    if not outcome["success"]:
        return {"error": str(outcome["errors"][0]["message"])[:80], "calls": sorted(calls)}
    return {"result": outcome["result"], "calls": sorted(calls)}


def found_in(template: str, text: str) -> str | None:
    """Return what differs in a program; None if nothing does, or it is refused."""
    code = f"{START.strip()}\n{text}\n{END}"
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 2)
        plan = asyncio.run(run_plan(code))
    except Hang:
        return "never ends"
    except Exception as error:  # noqa: BLE001 - a raw exception is a fault
        return f"raw {type(error).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if plan is None:
        return None
    python = run_python(code, {}, grammar.PARAMETERS, world())
    wanted = sorted(name for name, _ in python["calls"])
    if "error" in python:
        return None if "error" in plan else f"no failure; Python: {python['error']}"
    if "error" in plan:
        return f"fails: {plan['error']}"
    same = json.dumps(plan["result"]) == json.dumps(python.get("result"))
    return None if same and plan["calls"] == wanted else "another result" if not same else "other calls"


def stop(*_: Any) -> None:
    """End a computation that takes too long."""
    raise Hang


def main() -> None:
    """Print the classes of fault with their numbers and first programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, stop)
    grammar.STATEMENTS[:] = [line for line in grammar.STATEMENTS if not OUTSIDE.search(line)]
    grammar.REFUSED[:] = grammar.STATEMENTS
    kinds = {
        kind: " | ".join(
            part.strip() for part in re.split(r" \| |\n", text) if part.strip() and not OUTSIDE.search(part)
        )
        for kind, text in grammar.EXPRESSIONS.items()
    }
    grammar.EXPRESSIONS.update(kinds)
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[int, str]] = {}
    for seed in range(options.seed, options.seed + options.count):
        maker = grammar.Grammar(seed)
        template, text = maker.one_statement()
        found = found_in(template, text)
        if found is not None:
            key = class_of(template), found.partition(":")[0]
            counts[key] += 1
            first.setdefault(key, (seed, text))
    for (name, how), count in sorted(counts.items()):
        seed, text = first[name, how]
        print(f"{count:5} {name}: {how}; first at seed {seed}: {text[:200]!r}")


if __name__ == "__main__":
    main()
