"""The Runner's chains as a notation: steps in order, the result before at `previous` where asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import Problem, ValidationFailed
from ..errors.given import listed
from ..expr.ast import NULL, Expr, Lit, Obj, Ref
from ..ir import Flow, Graph, Meta, Node
from ..ops import Call
from ..values import Json


def flow_of(steps: Sequence[Any]) -> Flow:
    """The flow of some `ChainStep`s (or anything with tool_id, args and use_previous).

    Arguments are data as they stand: nothing in them is read as a reference. TypeError for what is no step,
    ValidationFailed for arguments that are no object.
    """
    for i, step in enumerate(steps):
        if not all(hasattr(step, name) for name in ("tool_id", "args", "use_previous")):
            raise TypeError(
                f"steps[{i}] is a {type(step).__name__}, not a step: ChainStep(tool_id, args, use_previous)"
            )
    wrong = {i: step for i, step in enumerate(steps) if step.args is not None and not isinstance(step.args, dict)}
    if wrong:
        problems = [
            Problem(path=f"steps[{i}].args", message=f"arguments are an object, not {type(step.args).__qualname__}")
            for i, step in wrong.items()
        ]
        first = next(iter(wrong.values()))
        raise ValidationFailed(first.tool_id, "validate_input", listed(problems), problems=problems)
    nodes = tuple(
        Node(id=f"step{i}", op=Call(tool=step.tool_id, args=_args(step.args, step.use_previous)), meta=_meta(i))
        for i, step in enumerate(steps)
    )
    result = Ref("out", (nodes[-1].id,)) if nodes else NULL
    return Flow(name="run_chain", body=Graph(nodes=nodes, result=result, ordered=True))


def _args(args: dict[str, Json] | None, use_previous: bool) -> Expr:
    given: dict[str, Expr] = {key: Lit(value) for key, value in (args or {}).items()}
    if use_previous:
        given["previous"] = Ref("prev")
    return Obj(tuple(given.items()))


def _meta(i: int) -> Meta:
    return Meta(source=f"steps[{i}]", labels={"tool": "toolId"})
