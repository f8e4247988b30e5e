"""Compile the node that interprets a program: the program itself, and a region for each tool that it may call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import InvalidFlow, Problem
from ...expr.ast import Obj, Ref
from ...expr.reshape import registered_transform
from ...ir import Step, Yield, whole
from ...ops import Call
from ...ops import Program as ProgramOp
from ...plans.program import Program
from ..frame import Frame
from ..program_host import ProgramHost, ProgramPlan

if TYPE_CHECKING:
    from .site import CompileContext, CompiledBody


def interpret(op: ProgramOp, site: CompileContext) -> Step:
    """Compile the run of a program."""
    program = None if op.contained else _program(op, site.node_slot.name)
    slot = site.scope.region.slot()
    bodies = {tool.name: site.body(body, binds="map") for tool, body in op.tools}
    calls = {name: _recorded_call(body, slot) for name, body in bodies.items()}
    nodes = {name: next(reversed(body.region.node_slots.values()), None) for name, body in bodies.items()}
    plan = ProgramPlan(op=op, program=program, bodies=bodies, nodes=nodes, calls=calls, durable=site.builder.durable)
    inputs, node_slot = site.expr(op.inputs), site.node_slot

    async def run(frame: Frame) -> Any:
        values: Any = inputs(frame)
        host = frame[slot] = ProgramHost(plan, node_slot, frame, values)
        try:
            value = await host.run()
            return Yield(value) if bodies else value  # only a node with regions gives a Yield
        finally:
            frame[slot] = None

    return Step(whole, run)


def _program(op: ProgramOp, place: str) -> Program:
    names = [name for name, _ in op.inputs.fields] if isinstance(op.inputs, Obj) else []
    tools = {tool.name: tool.parameters for tool, _ in op.tools}
    transforms = {name: registered_transform(registered) for name, registered in op.transforms}
    program = Program(op.text, tools, names, function=op.function, reads=op.reads, transforms=transforms)
    if program.problems:
        raise InvalidFlow([Problem(path=f"{place}:{p.line}:{p.column}", message=p.message) for p in program.problems])
    return program


def _recorded_call(body: CompiledBody, slot: int) -> str | None:
    """Report each result of the call in a region to the host, and return its node; None if the value is another."""
    nodes = list(body.region.node_slots.values())
    last = nodes[-1] if nodes else None
    if last is None or not isinstance(last.node.op, Call) or not last.unwrapped or last.node.op.content:
        return None
    if body.region.graph.result != Ref("out", (last.id,)):
        return None
    last.host_slot = slot
    return last.id
