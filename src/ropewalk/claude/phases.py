"""Phases: a longer task in steps, each a conversation with a prompt and tools of its own.

A phase can only call its own tools: the loop of its run has no arm for any other. What is known beforehand goes into
the prompt (`$input.essentials`), the tools fill the gaps. A phase whose tools cannot be had goes on without them and
says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..dialects.agent_flow import MAX_ROUNDS
from ..errors import CompletionFailed
from ..frozen import dataclass
from ..values import Json
from .completion import Completion
from .loop import converse
from .memory import MemoryHost
from .model import ModelClient
from .settings import DEFAULT_SERVER, default_server
from .turn import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One step. `prompt` and `system` may refer to `$input`; `tools` are ids or names that only one server has; with an
    `output_schema` the result is JSON that fits it."""

    name: str
    prompt: str
    tools: tuple[str, ...] = ()
    output_schema: Json = None
    system: str | None = None
    max_rounds: int = MAX_ROUNDS

    async def run(
        self,
        input: Mapping[str, Json] | None = None,
        *,
        essentials: Json = None,
        app: Any = None,
        client: ModelClient | None = None,
        on_event: Listener | None = None,
        run_id: str | None = None,
        **options: Json,
    ) -> PhaseResult:
        """Run it by itself. A limit or JSON that does not fit is in the result; CompletionFailed says that the model
        gave no answer at all."""
        host = app if app is not None else MemoryHost(client)
        if self.tools:
            add_default_server(host)
        given = {"output_schema": self.output_schema, "system": self.system, **options}
        document = {
            "name": self.name,
            "prompt": self.prompt,
            "max_rounds": self.max_rounds,
            **{key: value for key, value in given.items() if value is not None},
        }
        known = {**(input or {}), **({"essentials": essentials} if essentials is not None else {})}
        done = await converse(
            document, known, host=host, tools=self.tools, on_event=on_event, run_id=run_id, lenient=True
        )
        return PhaseResult(self.name, done, self.output_schema is not None)


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """What a phase gave. `degraded` names tools that it did without, and why."""

    name: str
    completion: Completion
    json: bool = False

    @property
    def value(self) -> Json:
        """The JSON where that was asked for, else the text."""
        return self.completion.data if self.json else self.completion.text

    @property
    def success(self) -> bool:
        """Whether the model came to an end, with JSON that fits where that was asked for."""
        return self.completion.finished

    @property
    def why(self) -> str:
        """Why it ended, in words: the model's reason, or the limit that it came to."""
        return self.completion.why

    @property
    def degraded(self) -> tuple[str, ...]:
        return self.completion.warnings


class PhaseResults(dict[str, PhaseResult]):
    """What phases gave, by name, up to the first that came to no end. To ask for one after that is a CompletionFailed
    that says why, with the `.completion` of the one that came to no end."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)

    @property
    def unfinished(self) -> PhaseResult | None:
        """The phase that came to no end, such as to a limit; None where all have finished."""
        return next((result for result in self.values() if not result.success), None)

    @property
    def success(self) -> bool:
        """Whether every phase has finished."""
        return self.unfinished is None and len(self) == len(self.names)

    def __missing__(self, name: str) -> PhaseResult:
        stopped = self.unfinished
        if name not in self.names or stopped is None:
            raise KeyError(f"no phase {name!r}; the phases are: {', '.join(self.names)}")
        done = stopped.completion
        why = f"phase {name!r} was not run: {stopped.name!r} came to no end: {done.stop_reason}: {done.why}"
        raise CompletionFailed(why, run_id=done.run_id, completion=done)


async def run_phases(phases: Iterable[Phase], input: Mapping[str, Json] | None = None, **options: Any) -> PhaseResults:
    """Run phases one after another, up to the first that comes to no end (a limit, JSON that does not fit: see
    `PhaseResults.unfinished`); each sees those before as `$input.results.NAME`. With `run_id` their runs are
    `RUN_ID.NAME`: called again after a crash, what had ended is not run again, and what had begun goes on."""
    phases = list(phases)
    found = PhaseResults([phase.name for phase in phases])
    run_id = options.pop("run_id", None)
    for phase in phases:
        results = {name: result.value for name, result in found.items()}
        own = f"{run_id}.{phase.name}" if run_id is not None else None
        found[phase.name] = await phase.run({**(input or {}), "results": results}, run_id=own, **options)
        if not found[phase.name].success:
            break
    return found


def add_default_server(host: Any) -> None:
    """Name the MCP server of the environment (`MCP_SERVER_URL`), unless there is one of this name."""
    given, box = default_server(), host.toolbox
    if given is not None and (box.mcp is None or DEFAULT_SERVER not in box.mcp.names):
        box.add_mcp(DEFAULT_SERVER, given)
