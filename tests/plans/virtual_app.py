"""Programs in an app whose time is virtual, compared with Python on a loop whose time is virtual too."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from properties.virtual_time import VirtualClock, patched_clocks
from ropewalk import App
from ropewalk.errors import InvalidFlow
from ropewalk.tools.tool import Tool

from .simulation import START, usual_delay
from .virtual_loop import VirtualLoop, run_python

MOST_CALLS: Final = 5_000
"""How many calls a program may make; a random one may never end."""
Answer = Callable[[str, dict[str, Any]], Any]


class _Clock(VirtualClock):
    """The time of the loop that runs now."""

    loop: VirtualLoop

    def monotonic(self) -> float:
        return self.loop.time()

    def wall(self) -> float:
        return START + self.loop.time()


class VirtualApp:
    """Runs programs in apps, each on a loop of its own."""

    # `opened` makes one, in which Ropewalk reads the time of these loops.

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator[VirtualApp]:
        clock = _Clock()
        clock.loop = VirtualLoop()
        with patched_clocks(clock):
            yield cls(clock)
        clock.loop.close()

    def run(self, text: str, tools: Mapping[str, Sequence[str] | None], answer: Answer) -> dict[str, Any]:
        """Run the body of a function, with the same parts as `run_python`, or with `refused`, a reason."""
        loop = self._clock.loop = VirtualLoop()
        calls: list[tuple[str, Any]] = []
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            loop.set_exception_handler(lambda loop, context: None)
            try:
                outcome: Any = runner.run(_run(text, tools, answer, calls))
            except InvalidFlow as error:
                return {"refused": "by the check", "problems": str(error)}
        ended = _ended(outcome)
        if len(calls) >= MOST_CALLS or ended.get("error") == "Limit":  # in Python it may run for ever
            return {"refused": "at a limit", "problems": str(outcome["errors"])}
        return {**ended, "calls": calls, "printed": outcome.get("printed") or ""}

    def compared(
        self, text: str, tools: Mapping[str, Sequence[str] | None], fresh: Callable[[], Answer]
    ) -> tuple[str, list[str]]:
        """Return whether a program is `equal`, `different` or not compared, with what differs from Python."""
        ran = self.run(text, tools, fresh())
        if "refused" in ran:
            return ran["refused"], [ran["problems"]]
        python = run_python(text, {}, tools, fresh())
        different = [
            f"{part}: Python {python.get(part)!r}, the app {ran.get(part)!r}"
            for part in ("result", "unlike", "error", "message", "calls", "printed")
            if json.dumps(python.get(part)).replace("main.<locals>.", "") != json.dumps(ran.get(part))
        ]
        # A value that is not JSON stops a program where it is an argument or the result.
        if different and "unlike" in ran:
            return "at a value that is not JSON", different
        return "different" if different else "equal", different


async def _run(
    text: str, tools: Mapping[str, Sequence[str] | None], answer: Answer, calls: list[tuple[str, Any]]
) -> Any:
    async with App(
        "memory", tools=[_tool(name, parameters or (), answer, calls) for name, parameters in tools.items()]
    ) as app:
        plan = {"kind": "plan", "code": text, "function": True}
        return await app.run(plan, budget={"calls": MOST_CALLS})


def _tool(name: str, parameters: Sequence[str], answer: Answer, calls: list[tuple[str, Any]]) -> Tool:
    async def call(**arguments: Any) -> Any:
        calls.append((name, json.loads(json.dumps(arguments))))
        await asyncio.sleep(usual_delay(len(calls), name, arguments))
        return answer(name, arguments)

    schema = {"type": "object", "properties": {parameter: {} for parameter in parameters}}
    return Tool(name, "", schema, handler=call)


def _ended(outcome: Any) -> dict[str, Any]:
    if outcome["success"]:
        return {"result": outcome["result"]}
    failure = outcome["errors"][0]
    found = re.fullmatch(r"line \d+: (\w+): (.*)", failure["message"], re.DOTALL)
    if found is None:
        return {"error": "ToolError", "message": failure["message"]}
    if found[1] == "Limit" and ("JSON" in found[2] or "nested" in found[2]):
        return {"unlike": "JSON"}
    return {"error": found[1], "message": found[2]}
