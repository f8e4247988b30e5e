"""Run one chunk of a large map: a range of its items, as part of a run that another process executes.

`map_chunks.py` describes chunks and their scope.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..ir import Yield
from ..values import Json
from .compile.durable import failure_to_json
from .compile.program import Program
from .frame import Frame
from .map_chunks import ChunkPlan, frames_of
from .region import many
from .run import Ending, Run


class ChunkRun(Run):
    """The execution of one chunk."""

    # Its `id` is the id of the run that the chunk belongs to.

    __slots__ = ("passed_on", "plan", "scope")

    passed_on: list[Json]
    plan: ChunkPlan
    scope: Json

    def _open(self) -> Frame:
        return frames_of(self.scope, self.plan.node_slot, self)

    def _ending(self, frame: Frame, status: str, value: Json, error: Exception | None) -> Ending:
        return Ending(run_id=self.id, status=status, value=value, failures=self.errors, error=error)

    def warn(self, path: str, node: str, tool: str, warnings: Sequence[str]) -> None:
        """Keep warnings for the run that the chunk belongs to, which records them."""
        self.passed_on.append([path, node, tool, list(warnings)])


async def run_chunk(
    program: Program, run_id: str, input: Json, log: Any, chunk: dict[str, Any], scope: Json, items: list[Json]
) -> Ending:
    """Run one chunk of a map."""
    plan, first, limit = program.chunk_plans[chunk["place"]], chunk["first"], chunk["limit"]
    body = plan.body
    each = many(
        lambda frame, key, item, task_deadline: body.open(frame, first + (key or 0), item, task_deadline),
        body.run,
        limit,
        body.region.uses_task_deadline,
    )

    async def play(frame: Frame) -> Yield:
        results: list[Json] = []
        for item in await each(frame, items):
            results.append([item.value, [list(write) for write in item.writes]])
        errors = [failure_to_json(failed) for failed in run.errors]
        return Yield({"items": results, "errors": errors, "warnings": run.passed_on})

    part = copy.copy(program)
    part.play, part.flow = play, replace(program.flow, timeout=None)
    run = ChunkRun(part, run_id, input, log)
    run.plan, run.scope, run.passed_on = plan, scope, []
    ending = await run.execute()
    if ending.status == "partial":  # some items failed: partial describes the run, not the chunk
        ending.status = "completed"
    return ending
