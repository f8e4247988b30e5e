"""Which classes of fault the programs of `tests/plans/grammar.py` find in the compiler of plans to graphs.

    python bench/plans_faults.py --count 5000 --seed 0 --until-all

Each program of the grammar runs with asyncio and as a plan. Their results, their writes in order and their reads are
compared. A program that differs is shortened while it differs, and counted by the class of fault that is left in it.
The script goes with that compiler.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tests.plans import grammar
from tests.plans.test_grammar import world
from tests.plans.virtual_loop import run_python

from ropewalk import App, tool
from ropewalk.errors import RopewalkError

SECONDS = 2
"""The processor time that a program may take."""
SECONDS_TO_SHORTEN = 10
"""The processor time to look for shorter programs."""


class Hang(BaseException):
    """The compiler computes without end."""


def delay(tool: str) -> float:
    """Return how long a call takes, in seconds: some programs end a read by a timeout."""
    return 0.03 if tool == "same" else 0


def tools_of(answer: Any) -> list[Any]:
    """Return the tools of the programs for an app."""

    @tool(annotations={"readOnlyHint": True})
    async def same(value: Any) -> Any:
        """Give the value."""
        result = answer("same", {"value": value})
        await asyncio.sleep(delay("same"))
        return result

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
    """Return the result, or the failure, of a plan and its calls; None if it is refused."""
    calls: list[Any] = []
    answer = world()

    def logged(name: str, arguments: dict[str, Any]) -> Any:
        calls.append([name, json.loads(json.dumps(arguments))])
        return answer(name, arguments)

    async with App("memory", tools=tools_of(logged)) as app:
        try:
            outcome = await app.run({"kind": "plan", "code": code, "function": True}, {})
        except RopewalkError:
            return None
    if not outcome["success"]:
        return {"error": str(outcome["errors"][0]["message"])[:80], "calls": calls}
    return {"result": outcome["result"], "calls": calls}


def found_in(code: str) -> list[str]:
    """Return what differs in a program; nothing if it is refused."""
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        plan = asyncio.run(run_plan(code))
        python = (
            None
            if plan is None
            else run_python(code, {}, grammar.PARAMETERS, world(), lambda _, name, arguments: delay(name))
        )
    except Hang:
        return ["never ends"]
    except Exception as error:  # noqa: BLE001 - a raw exception is a fault
        return [f"raw {type(error).__name__}"]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return [] if plan is None or python is None else list(differences(plan, python))


def differences(plan: dict[str, Any], python: dict[str, Any]) -> Iterator[str]:
    """Yield what a plan does in another way than Python."""
    (here, reads), (there, reads_there) = parted(plan["calls"]), parted(python["calls"])
    yield from (f"{amount} writes" for amount in amounts(here, there))
    common = {write for write in here if here.count(write) == there.count(write)}
    if [write for write in here if write in common] != [write for write in there if write in common]:
        yield "another order of writes"
    if ("error" in plan) != ("error" in python):
        yield "a failure of its own" if "error" in plan else "no failure"
    elif "error" not in python:
        if json.dumps(plan["result"]) != json.dumps(python.get("result")):
            yield "another result"
        yield from (f"{amount} reads" for amount in amounts(reads, reads_there))


def amounts(here: list[str], there: list[str]) -> list[str]:
    """Return whether a plan makes more calls than Python, and whether it makes fewer."""
    more, fewer = Counter(here) - Counter(there), Counter(there) - Counter(here)
    return ["more"] * bool(more) + ["fewer"] * bool(fewer)


def parted(calls: Any) -> tuple[list[str], list[str]]:
    """Return the writes, in their order, and the reads, in any order."""
    texts = [json.dumps(call) for call in calls]
    return [text for text in texts if '"save"' in text], sorted(text for text in texts if '"save"' not in text)


# --- shorter programs -----------------------------------------------------------------------------


def shortened(code: str, found: str) -> str:
    """Return a program with fewer lines that differs in the same way."""
    ends = time.process_time() + SECONDS_TO_SHORTEN
    while True:
        for shorter in without_a_part(code):
            if time.process_time() > ends:
                return code
            if grammar.is_python(shorter) and found in found_in(shorter):
                code = shorter
                break
        else:
            return code


def without_a_part(code: str) -> Iterator[str]:
    """Yield the programs that lack one statement, or what is around the body of one, or a part of a line."""
    lines = code.split("\n")
    for index in range(len(lines)):
        indent = len(lines[index]) - len(lines[index].lstrip())
        end = index + 1
        while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
            end += 1
        yield "\n".join(lines[:index] + lines[end:])
        if end > index + 1:
            yield "\n".join(lines[:index] + [line[4:] for line in lines[index + 1 : end]] + lines[end:])
        for part in lines[index].strip().split("; ") if "; " in lines[index] else []:
            rest = "; ".join(other for other in lines[index].strip().split("; ") if other != part)
            yield "\n".join([*lines[:index], " " * indent + rest, *lines[index + 1 :]])


# --- classes --------------------------------------------------------------------------------------

TASK = r"create_task|TaskGroup"
CLASSES: list[tuple[str, str, str]] = [
    (
        "a task that is awaited twice calls twice",
        r"^more",
        r"(?s)\b(t\d+|job|other) = .*(?:await |\()\1\b.*(?:await |\()\1\b",
    ),
    (
        "a task begins only when it is awaited",
        r"^another order",
        r"(?s)^(?!.*TaskGroup).*\b(t\d+|job|other) = .*create_task.*await \1\b",
    ),
    ("a task that nobody awaits never runs", r"^fewer", TASK),
    ("names set in a timed block are lost", r"result", r"asyncio.timeout|wait_for\(f\d"),
    ("a shared default value is lost", r"result", r"def f\d.*known="),
    ("sharing depends on the line", r"result", r"; "),
    (
        "a slice or a starred target",
        r"raw SyntaxError|never|failure|result",
        r"(?m)^\s*\w+\[[^\]]*:.* [-+*]?= |^\s*(\w+, )*\*\w+.* = |for \w+, \*",
    ),
    ("an element changed by `+=` is lost", r"result", r"\] [-+*]= "),
    (
        "a change through an entry or a method is lost",
        r"result",
        r"[\])]\.(append|extend|update|insert)\(|\.setdefault|for row",
    ),
]
"""The classes, with the words for the difference and the text of the shortened program."""


def classes_of(found: str, code: str) -> list[str]:
    """Return the classes of fault that a program may show."""
    return [name for name, how, shape in CLASSES if re.search(how, found) and re.search(shape, code)]


def is_shown(name: str, code: str) -> bool:
    """Return True if a shortened program shows a class of fault that its text may show."""
    if name == "a slice or a starred target":
        return any(
            isinstance(getattr(node, "slice", node), ast.Slice | ast.Starred)
            and isinstance(getattr(node, "ctx", None), ast.Store)
            for node in ast.walk(ast.parse(code))
        )
    return name != "sharing depends on the line" or depends_on_lines(code)


def depends_on_lines(code: str) -> bool:
    """Return True if a program does not differ when each of its statements has a line."""
    split = re.sub(r"(?m)^( *)(.*; .*)$", lambda line: line[1] + line[2].replace("; ", "\n" + line[1]), code)
    return not found_in(split)


def stop(*_: Any) -> None:
    """End a computation that takes too long."""
    raise Hang


def main() -> None:
    """Print the classes of fault with their numbers and first programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--until-all", action="store_true", help="stop when every class was found")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGVTALRM, stop)
    counts: Counter[str] = Counter()
    began = time.process_time()
    for number in range(options.count):
        code = grammar.Grammar(options.seed + number).program()
        names = set()
        for found in found_in(code):
            if not any(counts[name] == 0 for name in classes_of(found, code)):
                names.add("not shortened, since its classes are known")
                continue
            short = shortened(code, found)
            name = next((name for name in classes_of(found, short) if is_shown(name, short)), f"other: {found}")
            if counts[name] < 2:
                print(f"--- program {number}: {name} ({found})\n{short[-1500:]}", flush=True)
            names.add(name)
        counts.update(names)
        if options.until_all and not {name for name, _, _ in CLASSES} - set(counts):
            break
    print(f"{number + 1} programs from seed {options.seed}, {time.process_time() - began:.0f} s of CPU")
    for name, count in sorted(counts.items()):
        print(f"{count:5} {name}")
    missing = [name for name, _, _ in CLASSES if not counts[name]]
    print(f"not found: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
