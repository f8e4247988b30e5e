"""Conversations with tools: `complete_with_tools`, `complete_json_with_tools` and `resume_completion`.

Each conversation is a run of an agent (`notations/agent.py`) on an engine: that of an app, which journals it, or one in
memory. This file starts the runs; the calls of models and tools are nodes of the agent's flow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from ..engine.engine import check_run_id
from ..errors import CompletionFailed, ModelError
from ..events import Event
from ..fast_dataclass import dataclass
from ..journal.address import run_sync_in_thread
from ..journal.protocol import RunRow
from ..notations.agent import MAX_ROUNDS, OPTIONS
from ..tools.toolbox import Toolbox
from ..values import Json, did_you_mean
from .client import Completion, completion_of
from .decision import Ask, answer_approvals_with
from .memory import MemoryHost
from .model import ModelClient
from .stream_listener import StreamListener
from .tool_definitions import Selected, ToolsArgument, resolve_tools, tools_to_approve
from .turn import Listener, listen

_log = logging.getLogger("ropewalk.tools")
_RETRYABLE_STATUSES: Final = ("failed", "timeout")


class Host(Protocol):
    """Runs conversations."""

    # An App is a Host.

    @property
    def toolbox(self) -> Toolbox:
        """The tools that a conversation may use."""
        ...

    def load(self, document: Mapping[str, Any], /) -> Any:
        """Compile a document."""
        ...

    async def execute(
        self,
        loaded: Any,
        /,
        *,
        input: Json,
        run_id: str | None,
        request: str | None,
        on_event: Callable[[Event], None] | None,
    ) -> dict[str, Json]:
        """Run a compiled definition."""
        ...


async def complete_with_tools(
    prompt: str | None = None,
    *,
    tools: ToolsArgument = None,
    system: str | None = None,
    messages: Sequence[Mapping[str, Json]] | None = None,
    model: str | None = None,
    max_rounds: int = MAX_ROUNDS,
    on_event: Listener | None = None,
    app: Any = None,
    client: ModelClient | None = None,
    run_id: str | None = None,
    request: str | None = None,
    approve: bool | Collection[str] = False,
    ask: Ask | None = None,
    name: str = "agent",
    **options: Json,
) -> Completion:
    """Let the model answer a prompt with the help of tools, until it has finished or reaches a limit.

    Args:
        prompt: The question; added to `messages` if both are given.
        tools: Ids, functions, Tools, a Toolbox, or `select(query)`.
        system: The system prompt.
        messages: A conversation to continue, in the form of the Messages API.
        model: The name of the model; None uses the client's setting.
        max_rounds: The largest number of turns.
        on_event: Gets the events of the conversation as objects with a `type`.
        app: The App whose tools and store are used; without it the run is kept in memory.
        client: The model without an app; by default ClaudeClient.
        run_id: The id of the run, for `resume_completion` after a crash.
        request: The task for which the tool selector learns; by default the query of `select` or the prompt.
        approve: Tools that are called only if `ask` allows it; True means all of them.
        ask: Called with a tool id and the arguments; returns True, False, or the reason of the refusal.
        name: The name of the run's definition.
        **options: max_calls, max_tokens (per turn), token_budget, cost_budget (US dollars), result_size
            (characters), cache, prompt_cache, stream, thinking, effort, tool_choice, stop_sequences.

    Returns:
        The completion, also if a limit ended the conversation: `Completion.stop_reason` names it.

    Raises:
        CompletionFailed: The model gave no answer.
        TypeError: An option is unknown, or there are neither a prompt nor messages.
    """
    check_run_id(run_id)
    _check_options(options)
    document, input = _conversation_document(prompt, messages, system)
    settings = {"model": model, "max_rounds": max_rounds, "name": name, **options}
    conversation = Conversation(
        document={**document, **{key: value for key, value in settings.items() if value is not None}},
        input=input,
        tools=tools,
        approve=approve,
        ask=ask,
        on_event=on_event,
        run_id=run_id,
        request=request if request is not None else tools.query if isinstance(tools, Selected) else prompt,
    )
    return await run_conversation(app if app is not None else MemoryHost(client), conversation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """An agent's document with its tools, and how it runs; `complete_with_tools` documents the other fields."""

    document: Mapping[str, Any]
    input: Json
    tools: ToolsArgument = None
    approve: bool | Collection[str] = False
    ask: Ask | None = None
    on_event: Listener | None = None
    run_id: str | None = None
    request: str | None = None
    # Whether unknown tools become warnings of the completion.
    lenient: bool = False


async def run_conversation(host: Any, conversation: Conversation) -> Completion:
    """Run a conversation with the tools and the store of a host."""
    tools, run_id = conversation.tools, conversation.run_id
    selector = getattr(host, "selector", None)
    selection, warnings = await resolve_tools(tools, host.toolbox, selector, lenient=conversation.lenient)
    agent = {"kind": "agent", **conversation.document, "tools": selection.ids}
    if selection.offered is not None:
        agent["offered"] = selection.offered
    if needs_approval := tools_to_approve(conversation.approve, selection.ids, tools, host.toolbox):
        agent |= {"approve": needs_approval, "ask": "caller"}
    stream = StreamListener(conversation.on_event, _log)
    with listen(stream.listener), answer_approvals_with(conversation.ask):
        loaded = host.load(agent)
        try:
            if run_id is not None:
                await retry_failed_run(host, run_id, stream.watcher)
            result = await host.execute(
                loaded, input=conversation.input, run_id=run_id, request=conversation.request, on_event=stream.watcher
            )
        except ModelError as error:  # raised before the run began
            raise CompletionFailed(str(error), run_id=run_id or "") from error
    return _to_completion(result, warnings)


async def complete_json_with_tools(
    prompt: str | None = None, schema: Json = None, *, max_corrections: int | None = None, **options: Any
) -> Completion:
    """Let the model answer a prompt with JSON that fits a schema, with the help of tools.

    Args:
        prompt: The question.
        schema: The JSON Schema of the answer.
        max_corrections: How often the model may correct an answer that does not fit; by default twice.
        **options: Any other argument of `complete_with_tools`.

    Returns:
        The completion; its `data` is the JSON.

    Raises:
        CompletionFailed: No answer fits the schema. Its `completion` has the last one.
        TypeError: There is no schema, or an option is unknown.
    """
    if schema is None:
        raise TypeError("complete_json_with_tools needs the JSON Schema of the answer")
    if max_corrections is not None:
        options["max_corrections"] = max_corrections
    completion = await complete_with_tools(prompt, output_schema=schema, **options)
    if not completion.finished:
        raise CompletionFailed(
            f"no JSON that fits the schema: {completion.why}", run_id=completion.run_id, completion=completion
        )
    return completion


async def resume_completion(
    run_id: str, *, app: Any, tools: ToolsArgument = None, on_event: Listener | None = None, ask: Ask | None = None
) -> Completion:
    """Resume a conversation that failed or whose process died. Recorded turns and calls are not repeated.

    Args:
        run_id: The id of the conversation's run.
        app: The App whose store has the run.
        tools: The functions, Tools or Toolbox that the conversation began with, unless the app has them.
        on_event: Gets the events of the conversation.
        ask: Decides about calls that need an approval.

    Returns:
        The completion.

    Raises:
        CompletionFailed: The conversation failed again.
        NotFound: The store has no such run.
    """
    stream = StreamListener(on_event, _log)
    _, warnings = await resolve_tools(tools, app.toolbox, getattr(app, "selector", None))
    with listen(stream.listener), answer_approvals_with(ask):
        await retry_failed_run(app, run_id, stream.watcher)
        result = await app.resume(run_id, on_event=stream.watcher)
    return _to_completion(result.to_dict(), warnings)


async def retry_failed_run(app: Any, run_id: str, on_event: Callable[[Event], None] | None = None) -> RunRow | None:
    """Retry a run if it failed; recorded steps are not repeated."""

    # A cancelled run stays cancelled.
    store = getattr(app, "store", None)
    if store is None:
        return None
    row: RunRow | None = await run_sync_in_thread(store, lambda: store.get_run(run_id))
    if row is not None and row.status in _RETRYABLE_STATUSES and store.durable:
        await app.runs.retry(run_id, on_event=on_event)
    return row


def _conversation_document(
    prompt: str | None, messages: Sequence[Mapping[str, Json]] | None, system: str | None
) -> tuple[dict[str, Any], dict[str, Json]]:
    """Return the agent's document and the input of its run."""

    # The texts are input, because `$` in a document begins a reference.
    if prompt is None and not messages:
        raise TypeError("a conversation needs a prompt or messages")
    if prompt is not None and not isinstance(prompt, str):
        raise TypeError(f"prompt must be a string, not {type(prompt).__name__}")
    if prompt is not None and not prompt.strip():
        raise ValueError("the prompt is empty")
    input: dict[str, Any] = {} if system is None else {"system": system}
    document: dict[str, Any] = {} if system is None else {"system": "$input.system"}
    if messages is None:
        return {**document, "prompt": "$input.prompt"}, {**input, "prompt": prompt}
    prompts = [{"role": "user", "content": prompt}] if prompt is not None else []
    return {**document, "messages": "$input.messages"}, {**input, "messages": [*messages, *prompts]}


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in OPTIONS:
            suggestion = did_you_mean(name, OPTIONS)
            raise TypeError(
                f"complete_with_tools has no option {name!r}"
                + (f"; did you mean {suggestion!r}?" if suggestion else "")
            )


def _to_completion(result: Mapping[str, Any], warnings: Sequence[str]) -> Completion:
    completion = completion_of(result, tuple(warnings))
    if completion is None:
        error = result.get("error")
        reason = error.get("message") if isinstance(error, Mapping) else None
        message = str(reason or f"the run ended with status {result.get('status')}")
        raise CompletionFailed(message, run_id=str(result.get("executionId") or result.get("runId") or ""))
    return completion
