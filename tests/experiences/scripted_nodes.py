"""Tool nodes that do what a case says, on top of chains/scripted.py: `impl: ./a.py` is the tool `a`.

a: {delta: {n: 1}}                        gives {state_delta: {n: 1}}
a: {delta: {n: $input._state.n}}          references into the arguments it was called with
a: {delta: {}, edge: [1], metrics: {..}}  with edge_output and metrics
Besides it every step of scripted.py: fails, hangs, after, meets, gives, echo.
"""

from __future__ import annotations

from typing import Any

from chains.scripted import ScriptedTools
from ropewalk.expr import compile_expr, lift


class ScriptedNodes(ScriptedTools):
    async def __call__(self, name: str, params: dict[str, Any]) -> Any:
        short = name.removeprefix("impl:./").removesuffix(".py")
        steps = self.script.get(short, [{}])
        step = steps[min(self.count(short), len(steps) - 1)]
        given = await super().__call__(short, params)
        if "delta" not in step:
            return given
        result = {"state_delta": filled(step["delta"], params)}
        if "edge" in step:
            result["edge_output"] = filled(step["edge"], params)
        if "metrics" in step:
            result["metrics"] = step["metrics"]
        return result


def filled(value: Any, params: dict[str, Any]) -> Any:
    """The value with references (`$input.x`) into the arguments resolved."""
    return compile_expr(lift(value, frozenset(("input",))), lambda ref: (lambda frame: params, ref.path))([])
