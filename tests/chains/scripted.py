"""Tools that do what a case says, and remember what was asked of them.

fetch: {gives: 5}                        a result
echo: {echo: true}                       its own params
flaky: [{fails: busy}, {gives: 3}]       one step per call, the last one stays
wrong: {fails: no model, retry: false}   with an error that no policy repeats
slow: {hangs: true}                      until it is cancelled
late: {after: early, gives: 1}           once a call of `early` has ended
wide: {meets: 3, gives: 1}               once three calls are running at the same time
nap: {delay: 20, gives: 1}               milliseconds
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from ropewalk.app.app import App
from ropewalk.events import Event


class ScriptedTools:
    """An executor: `await tools(name, params)`. What was called, ended, cancelled, and how many at once."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.script = {name: steps if isinstance(steps, list) else [steps] for name, steps in script.items()}
        self.calls: list[tuple[str, Any]] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.running = self.peak = 0
        self._changed = asyncio.Condition()

    def count(self, name: str) -> int:
        return sum(1 for called, _ in self.calls if called == name)

    async def __call__(self, name: str, params: dict[str, Any]) -> Any:
        self.calls.append((name, copy.deepcopy(params)))
        steps = self.script.get(name)
        if steps is None:
            raise LookupError(f"the case scripts no tool {name!r}")
        step = steps[min(self.count(name), len(steps)) - 1]
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await self._told()
            await self._wait(step)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        finally:
            self.running -= 1
        self.ended.append(name)
        await self._told()
        if "fails" in step:
            error = RuntimeError(step["fails"])
            error.retryable = step.get("retry", True)  # type: ignore[attr-defined]
            raise error
        return copy.deepcopy(params if step.get("echo") else step.get("gives"))

    async def _wait(self, step: dict[str, Any]) -> None:
        if step.get("hangs"):
            await asyncio.Event().wait()
        if "delay" in step:
            await asyncio.sleep(step["delay"] / 1000)
        if "after" in step:
            async with self._changed:
                await self._changed.wait_for(lambda: step["after"] in self.ended)
        if "meets" in step:
            async with self._changed:
                await self._changed.wait_for(lambda: self.peak >= step["meets"])

    async def _told(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def called(self, name: str, times: int = 1) -> None:
        """Wait until `name` has been called so often."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.count(name) >= times)


def misses(expected: Any, found: Any, at: str = "") -> list[str]:
    """Where `found` lacks what `expected` asks for: objects by subset, everything else exactly."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lost = [f"{at}.{key}: missing" for key in expected if key not in found]
        return lost + [m for key in expected if key in found for m in misses(expected[key], found[key], f"{at}.{key}")]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [m for i, one in enumerate(expected) for m in misses(one, found[i], f"{at}[{i}]")]
    same = type(expected) is type(found) or {type(expected), type(found)} == {int, float}
    return [] if same and expected == found else [f"{at}: {found!r} instead of {expected!r}"]


def answering(app: App, answers: dict[str, Any]) -> Callable[[Event], None]:
    """Whoever listens to a run and sends it what it waits for."""

    def take(event: Event) -> None:
        if event.kind == "wait.started":
            name = event.data.get("event")
            if name in answers:
                app.runs.send(event.run_id, name, answers[name], id=event.path)
            elif event.path in answers:
                app.runs.approve(event.run_id, event.path, **answers[event.path])

    return take
