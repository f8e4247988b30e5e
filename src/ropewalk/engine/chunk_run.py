"""Playing a chunk: a range of a map's items, as part of a run that somebody else plays. See `chunks.py`."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from ..ir import Yield
from ..values import Json
from .chunks import Cut, frames_of
from .durable import said_of
from .frame import Frame
from .program import Program
from .region import many
from .run import Ending, Run


class ChunkRun(Run):
    """The execution of a range of a map's items; `id` is that of the whole run."""

    __slots__ = ("cut", "scope")

    cut: Cut
    scope: Json

    def _open(self) -> Frame:
        return frames_of(self.scope, self.cut.spot, self)

    def _ending(self, frame: Frame, status: str, value: Json, error: Exception | None) -> Ending:
        return Ending(run_id=self.id, status=status, value=value, failures=self.errors, error=error)


async def played(
    program: Program, run_id: str, input: Json, log: Any, chunk: dict[str, Any], scope: Json, items: list[Json]
) -> Ending:
    """Play a `chunk`: the `items` from its `first` on, of the map at its `place`. The value of one that came to its end
    is `{items: [[value, writes], ...], errors: [...]}`."""
    cut, first, limit = program.cuts[chunk["place"]], chunk["first"], chunk["limit"]
    body = cut.body
    each = many(
        lambda frame, key, item, lane: body.open(frame, first + (key or 0), item, lane),
        body.run,
        limit,
        body.region.searched,
    )

    async def play(frame: Frame) -> Yield:
        done = await each(frame, items)
        told: list[Json] = [[y.value, [list(write) for write in y.writes]] for y in done]
        return Yield({"items": told, "errors": [said_of(failed) for failed in run.errors]})

    part = copy.copy(program)
    part.play, part.flow = play, replace(program.flow, timeout=None)
    run = ChunkRun(part, run_id, input, log)
    run.cut, run.scope = cut, scope
    ending = await run.execute()
    if ending.status == "partial":  # the whole run is, not the chunk
        ending.status = "completed"
    return ending
