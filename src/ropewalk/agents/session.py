"""Session, a conversation over several prompts, and Phase, a step of a longer task.

In a Session each prompt is a run that continues the conversation. If there are many tools, the selector chooses those
for each prompt; tools that were used before stay. If none fits, the model can search for others (`tool_search.py`).

A Phase is a conversation with its own prompt and tools, and can call only those. Tools that are not available are left
out and listed in `PhaseResult.degraded`. Prompts can use facts that the caller knows as `$input.essentials`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ..engine.engine import new_run_id
from ..errors import CompletionFailed
from ..fast_dataclass import dataclass
from ..notations.agent import MAX_ROUNDS
from ..values import Json
from .client import DEFAULT_SERVER, Completion, default_server
from .decision import Ask
from .loop import Conversation, complete_with_tools, run_conversation
from .memory import MemoryHost
from .model import ModelClient
from .tool_search import OfferedTools, widen
from .turn import Listener

MAX_TOOLS: Final = 40


class Session:
    """A conversation over several prompts."""

    def __init__(
        self,
        app: Any,
        *,
        tools: Collection[str],
        approve: Collection[str] = (),
        ask: Ask | None = None,
        on_event: Listener | None = None,
        on_run: Callable[[str, list[str]], None] | None = None,
        max_tools: int = MAX_TOOLS,
        name: str = "chat",
        **options: Any,
    ) -> None:
        self._app, self._tools = app, list(tools)
        self._options = {**options, "ask": ask, "on_event": on_event, "name": name}
        self._approve = set(approve)
        self._on_run, self._max_tools = on_run, max_tools
        self._used: dict[str, None] = {}
        self.messages: list[dict[str, Json]] = []

    async def say(self, prompt: str) -> Completion:
        """Send a prompt."""

        # A failure leaves the conversation as it was before.
        run_id, selection = new_run_id(), self._select_tools(prompt)
        if self._on_run is not None:
            self._on_run(run_id, selection.first)
        completion = await complete_with_tools(
            prompt,
            messages=self.messages or None,
            tools=selection,
            app=self._app,
            run_id=run_id,
            approve=self._approve.intersection(selection.ids),
            **self._options,
        )
        self.messages = completion.messages
        self._used |= dict.fromkeys(use["tool"] for use in completion.trace if use["tool"] in self._tools)
        return completion

    def _select_tools(self, prompt: str) -> OfferedTools:
        """Return all tools if they are few; otherwise the tools used before, then those that fit the prompt."""
        if len(self._tools) <= self._max_tools:
            return OfferedTools(self._tools)
        # No threshold: the model cannot request a tool that is left out here, unless it is shown a search.
        rows = self._app.selector.select(prompt, maxResults=self._max_tools, allowTools=self._tools, threshold=0)[
            "results"
        ]
        ids = dict.fromkeys([*list(self._used)[-self._max_tools :], *(str(row["name"]) for row in rows)])
        return widen(list(ids)[: self._max_tools], [row["score"] for row in rows], self._tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A step of a longer task: one conversation with its own prompt and tools.

    Attributes:
        name: The name of the phase.
        prompt: The prompt; it may refer to `$input`.
        tools: Ids of tools, or names that only one server has.
        output_schema: The JSON Schema of the result; None for a text.
        system: The system prompt; it may refer to `$input`.
        max_rounds: The largest number of turns.
    """

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
        """Run this phase alone.

        Args:
            input: The values of `$input`.
            essentials: Facts for the prompt, as `$input.essentials`.
            app: The App whose tools and store are used; without it the run is kept in memory.
            client: The model without an app.
            on_event: Gets the events of the conversation.
            run_id: The id of the run.
            **options: Other options of `complete_with_tools`.

        Returns:
            The result, also if a limit ended the phase or its JSON does not fit.

        Raises:
            CompletionFailed: The model gave no answer.
        """
        host = app if app is not None else MemoryHost(client)
        if self.tools:
            add_default_server(host)
        settings = {"output_schema": self.output_schema, "system": self.system, **options}
        document = {
            "name": self.name,
            "prompt": self.prompt,
            "max_rounds": self.max_rounds,
            **{key: value for key, value in settings.items() if value is not None},
        }
        values = {**(input or {}), **({"essentials": essentials} if essentials is not None else {})}
        conversation = Conversation(
            document=document, input=values, tools=self.tools, on_event=on_event, run_id=run_id, lenient=True
        )
        completion = await run_conversation(host, conversation)
        return PhaseResult(self.name, completion, self.output_schema is not None)


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """The result of a phase.

    Attributes:
        name: The name of the phase.
        completion: The outcome of its conversation.
        json: True if the phase has an output schema.
    """

    name: str
    completion: Completion
    json: bool = False

    @property
    def value(self) -> Json:
        """The JSON if the phase has an output schema, otherwise the text."""
        return self.completion.data if self.json else self.completion.text

    @property
    def success(self) -> bool:
        """True if the model ended its answer and, with an output schema, the JSON fits it."""
        return self.completion.finished

    @property
    def why(self) -> str:
        """The reason why the phase ended, as a sentence."""
        return self.completion.why

    @property
    def degraded(self) -> tuple[str, ...]:
        """The tools that the phase had to do without, each with the reason."""
        return self.completion.warnings


class PhaseResults(dict[str, PhaseResult]):
    """Results of phases by name, up to the first unfinished one.

    To look up a later phase raises CompletionFailed with the `completion` of the unfinished one.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)

    @property
    def unfinished(self) -> PhaseResult | None:
        """The phase that ended unfinished, for example at a limit; None if all have finished."""
        return next((result for result in self.values() if not result.success), None)

    @property
    def success(self) -> bool:
        """True if every phase has finished."""
        return self.unfinished is None and len(self) == len(self.names)

    def __missing__(self, name: str) -> PhaseResult:
        stopped = self.unfinished
        if name not in self.names or stopped is None:
            raise KeyError(f"no phase {name!r}; the phases are: {', '.join(self.names)}")
        completion = stopped.completion
        reason = f"{stopped.name!r} did not finish: {completion.stop_reason}: {completion.why}"
        message = f"phase {name!r} was not run, because {reason}"
        raise CompletionFailed(message, run_id=completion.run_id, completion=completion)


async def run_phases(phases: Iterable[Phase], input: Mapping[str, Json] | None = None, **options: Any) -> PhaseResults:
    """Run phases one after another, up to the first that does not finish.

    Args:
        phases: The phases. Each can use the results of earlier ones as `$input.results.NAME`.
        input: The values of `$input` for all phases.
        **options: Options of `Phase.run`. With `run_id` the runs have the ids `RUN_ID.NAME`; called again after a
            crash, finished phases are not repeated and an interrupted one is resumed.

    Returns:
        The results by name; `unfinished` is the phase that did not finish.

    Raises:
        CompletionFailed: The model gave no answer.
    """
    phases = list(phases)
    outcome = PhaseResults([phase.name for phase in phases])
    run_id = options.pop("run_id", None)
    for phase in phases:
        results = {name: result.value for name, result in outcome.items()}
        phase_run_id = f"{run_id}.{phase.name}" if run_id is not None else None
        outcome[phase.name] = await phase.run({**(input or {}), "results": results}, run_id=phase_run_id, **options)
        if not outcome[phase.name].success:
            break
    return outcome


def add_default_server(host: Any) -> None:
    """Add the MCP server of the environment (`MCP_SERVER_URL`), unless a server has its name already."""
    server, toolbox = default_server(), host.toolbox
    if server is not None and (toolbox.mcp is None or DEFAULT_SERVER not in toolbox.mcp.names):
        toolbox.add_mcp(DEFAULT_SERVER, server)
