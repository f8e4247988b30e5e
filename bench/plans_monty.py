"""The time to check a program: Ropewalk (parse, compile, check) and the type check of Monty, on the same programs.

Monty gets the program as the body of an async function, so that it checks the types and calls nothing.
"""

from __future__ import annotations

import statistics
import textwrap
import time
from collections.abc import Iterable

from plans_gold import Gold, Stage, program_of, unsound
from ropewalk.notations.plan.tools import python_name
from ropewalk.tools.stubs import stub


def _line(name: str, took: list[float]) -> str:
    percentiles = statistics.quantiles(took, n=100)
    return f"{name}: p50 {statistics.median(took):.2f} ms, p99 {percentiles[98]:.2f} ms"


async def measure(golds: Iterable[Gold], count: int) -> None:
    """Print the times of both for `count` sound programs."""
    from pydantic_monty import Monty

    chosen = [gold for gold in golds if unsound(gold) is None][:count]
    stage, ours, theirs, refused = Stage(), list[float](), list[float](), 0
    with Monty() as monty:
        for gold in chosen:
            code = program_of(gold)
            app = await stage.app_for(gold)
            began = time.perf_counter()
            await app.validate({"kind": "plan", "name": "gold", "code": code})
            ours.append(1000 * (time.perf_counter() - began))
            used = {step.tool for step in gold.steps}
            stubs = [stub(tool, python_name(tool.id)) for tool in stage.tools_for(gold) if tool.name in used]
            head = "from typing import Any, Literal, NotRequired, TypedDict\n"
            body = f"async def main():\n{textwrap.indent(code, '    ')}"
            with monty.checkout(type_check=True, type_check_stubs=head + "\n".join(stubs)) as session:
                began = time.perf_counter()
                try:
                    session.feed_run(body)
                except Exception:  # noqa: BLE001 - a refusal by Monty is counted, its kind does not matter
                    refused += 1
                theirs.append(1000 * (time.perf_counter() - began))
    await stage.close()
    print(f"{len(chosen)} programs, {refused} refused by Monty")
    print(_line("Ropewalk", ours))
    print(_line("Monty", theirs))
