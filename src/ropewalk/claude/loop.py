"""Conversations with tools: `complete_with_tools` and `complete_json_with_tools`.

Each is a run of an agent (`dialects/agent.py`) on an engine: the app's, where it is journaled and can be resumed, or
without an app one in memory. Nothing here calls a model or a tool itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from ..dialects.agent import OPTIONS
from ..dialects.agent_flow import MAX_ROUNDS
from ..engine.engine import check_run_id
from ..errors import CompletionFailed, ModelError
from ..events import Event
from ..journal.journal import RunRow
from ..journal.offloop import off_loop
from ..tools.toolbox import Toolbox
from ..values import Json, closest
from .approval import Ask, asking
from .completion import Completion, completion_of
from .given_tools import GivenTools, Selected, approved, resolve
from .hearing import Hearing
from .memory import MemoryHost
from .model import ModelClient
from .turn import Listener, listening

_log = logging.getLogger("ropewalk.tools")
_GAVE_UP: Final = ("failed", "timeout")


class Host(Protocol):
    """Where conversations run: an App is one."""

    @property
    def toolbox(self) -> Toolbox: ...

    def loaded(self, document: Mapping[str, Any], /) -> Any:
        """A document compiled."""
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
        """The result of a run of it; `request` is what the selector learns for."""
        ...


async def complete_with_tools(
    prompt: str | None = None,
    *,
    tools: GivenTools = None,
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
    """Let the model answer a prompt, calling tools on the way, until it has finished or a limit is reached.

    A limit is no error: see `Completion.stop_reason`. CompletionFailed says that the model gave no answer. `messages`
    begin or go on with a conversation in the shapes of the Messages API, `prompt` is then added. With `app` the run
    is in its store, under `run_id` if given, and `resume_completion` goes on with it after a crash; its selector learns
    how the tools did for `request` (that of `select`, else the prompt; "": for none). Tools in `approve` (True: all)
    are called when `ask(tool, input)` says so. Other options: max_calls, max_tokens (per turn),
    token_budget, cost_budget, result_size, cache, prompt_cache, stream, thinking, effort, tool_choice, stop_sequences.
    """
    check_run_id(run_id)
    _check_options(options)
    document, input = _document(prompt, messages, system)
    more = {"model": model, "max_rounds": max_rounds, "name": name, **options}
    return await converse(
        {**document, **{key: value for key, value in more.items() if value is not None}},
        input,
        host=app if app is not None else MemoryHost(client),
        tools=tools,
        approve=approve,
        ask=ask,
        on_event=on_event,
        run_id=run_id,
        request=request if request is not None else tools.query if isinstance(tools, Selected) else prompt,
    )


async def converse(
    document: Mapping[str, Any],
    input: Json,
    *,
    host: Any,
    tools: GivenTools = None,
    approve: bool | Collection[str] = False,
    ask: Ask | None = None,
    on_event: Listener | None = None,
    run_id: str | None = None,
    request: str | None = None,
    lenient: bool = False,
) -> Completion:
    """Run an agent's document with these tools; with `lenient` tools that nothing has are left out, and said."""
    selector = getattr(host, "selector", None)
    ids, warnings = await resolve(tools, host.toolbox, selector, lenient=lenient)
    found = {"kind": "agent", **document, "tools": ids}
    if asked := approved(approve, ids, tools, host.toolbox):
        found |= {"approve": asked, "ask": "caller"}
    hearing = Hearing(on_event, _log)
    with listening(hearing.listener), asking(ask):
        loaded = host.loaded(found)
        try:
            if run_id is not None:
                await try_again(host, run_id, hearing.watcher)
            result = await host.execute(loaded, input=input, run_id=run_id, request=request, on_event=hearing.watcher)
        except ModelError as error:  # before the run began
            raise CompletionFailed(str(error), run_id=run_id or "") from error
    return _completion(result, warnings)


async def complete_json_with_tools(
    prompt: str | None = None, schema: Json = None, *, max_corrections: int | None = None, **options: Any
) -> Completion:
    """The same for an answer in JSON that fits a schema: `Completion.data`.

    An answer that does not fit is told what is wrong, `max_corrections` times. CompletionFailed says that there is no
    JSON that fits; its `.completion` keeps the last answer.
    """
    if schema is None:
        raise TypeError("complete_json_with_tools needs the JSON Schema of the answer")
    if max_corrections is not None:
        options["max_corrections"] = max_corrections
    done = await complete_with_tools(prompt, output_schema=schema, **options)
    if not done.finished:
        raise CompletionFailed(f"no JSON that fits the schema: {done.why}", run_id=done.run_id, completion=done)
    return done


async def resume_completion(
    run_id: str, *, app: Any, tools: GivenTools = None, on_event: Listener | None = None, ask: Ask | None = None
) -> Completion:
    """Go on with a conversation whose process died, or that failed: finished turns and recorded calls are not paid for
    again. `tools` are those it began with, where the app has not got them itself: functions, Tools, a Toolbox."""
    hearing = Hearing(on_event, _log)
    _, warnings = await resolve(tools, app.toolbox, getattr(app, "selector", None))
    with listening(hearing.listener), asking(ask):
        await try_again(app, run_id, hearing.watcher)
        result = await app.resume(run_id, on_event=hearing.watcher)
    return _completion(result.to_dict(), warnings)


async def try_again(app: Any, run_id: str, on_event: Callable[[Event], None] | None = None) -> RunRow | None:
    """The run of this id, if there is one. One that failed goes on first: what is recorded of it holds (a store in
    memory keeps nothing to go on from). One that somebody stopped stays so."""
    store = getattr(app, "store", None)
    if store is None:
        return None
    row: RunRow | None = await off_loop(store, lambda: store.get_run(run_id))
    if row is not None and row.status in _GAVE_UP and store.durable:
        await app.runs.retry(run_id, on_event=on_event)
    return row


def _document(
    prompt: str | None, messages: Sequence[Mapping[str, Json]] | None, system: str | None
) -> tuple[dict[str, Any], dict[str, Json]]:
    """What is asked is the input of the run: a text in it is never read as a reference."""
    if prompt is None and not messages:
        raise TypeError("a conversation begins with a prompt or with messages")
    if prompt is not None and not isinstance(prompt, str):
        raise TypeError(f"the prompt is a text, not {type(prompt).__name__}")
    if prompt is not None and not prompt.strip():
        raise ValueError("the prompt is empty")
    input: dict[str, Any] = {} if system is None else {"system": system}
    document: dict[str, Any] = {} if system is None else {"system": "$input.system"}
    if messages is None:
        return {**document, "prompt": "$input.prompt"}, {**input, "prompt": prompt}
    asked = [{"role": "user", "content": prompt}] if prompt is not None else []
    return {**document, "messages": "$input.messages"}, {**input, "messages": [*messages, *asked]}


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in OPTIONS:
            near = closest(name, OPTIONS)
            raise TypeError(
                f"complete_with_tools has no option {name!r}" + (f"; did you mean {near!r}?" if near else "")
            )


def _completion(result: Mapping[str, Any], warnings: Sequence[str]) -> Completion:
    done = completion_of(result, tuple(warnings))
    if done is None:
        error = result.get("error")
        said = error.get("message") if isinstance(error, Mapping) else None
        message = str(said or f"the run ended as {result.get('status')}")
        raise CompletionFailed(message, run_id=str(result.get("executionId") or result.get("runId") or ""))
    return done
