"""Decide what follows from a model's answer: calls to make, messages to add, and whether the conversation ends.

`next_turn` is a pure function of the answer and the conversation before it. The journal keeps its result, so a resumed
run decides the same. To handle another stop reason, add it to `_Turn.ending` and `REASONS`.

`extract_json` finds JSON in an answer, repairs it and checks it against the schema. A repair closes open brackets and
strings and drops surplus commas; it never invents a value. The model gets the problems that remain and may correct
them; after `max_corrections` the conversation ends with `invalid_json`.

`ropewalk:approval` is the tool that asks a person before a call. `answer_approvals_with` sets the function that
answers; without one, every call is refused.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import orjson

from ..errors import InvalidValue, ModelError
from ..fast_dataclass import dataclass
from ..notations.agent import APPROVAL, ENDS, MAX_ROUNDS
from ..schema import Schema, compile_schema
from ..tools.backends.local import maybe_await
from ..tools.tool import Tool, parse_tool_id
from ..values import Json, check_json, digest, parse_json
from .model import Answer
from .request_checks import describe_refused_part
from .tool_definitions import Card, Cards

_FENCE: Final = re.compile(r"```[A-Za-z0-9_-]*\s*\n(.*?)(?:```|\Z)", re.DOTALL)
_MAX_STARTS: Final = 50
_NOTHING: Final[Any] = object()
_MAX_PROBLEMS: Final = 20


def extract_json(text: str, schema: Json) -> tuple[Json, list[str]]:
    """Find the JSON in an answer that fits a schema."""
    compiled = compile_schema(schema)
    first: Json = None
    wrong: list[str] | None = None
    for value in _json_candidates(text):
        problems = _schema_problems(compiled, value)
        if not problems:
            return value, []
        if wrong is None:
            first, wrong = value, problems[:_MAX_PROBLEMS]
    if wrong is None:
        return None, ["the answer contains no JSON" if text.strip() else "the answer is empty"]
    return first, wrong


def _schema_problems(compiled: Schema, value: Any) -> list[str]:
    try:
        check_json(value, "answer")
    except InvalidValue as error:
        return [str(error)]  # an integer past 64 bits, say, which the model can write as text
    return [str(problem) for problem in compiled.problems(value, "answer")]


def correction_prompt(problems: list[str]) -> str:
    """Return the message that asks the model to correct an answer that does not fit the schema."""
    listed = "\n".join(f"- {problem}" for problem in problems)
    return f"The answer does not fit the JSON Schema:\n{listed}\nAnswer again, with the corrected JSON only."


def json_instruction(schema: Json) -> str:
    """Return the system prompt for JSON from a model without structured output."""
    return (
        f"Answer with JSON only, without any other text, that fits this JSON Schema:\n{orjson.dumps(schema).decode()}"
    )


def _json_candidates(text: str) -> Iterator[Json]:
    """Yield the JSON values in a text, most likely the answer first: the text, fenced blocks, then brackets."""
    for piece in (text, *(match[1] for match in _FENCE.finditer(text))):
        value = _try_parse(piece.strip())
        if value is not _NOTHING:
            yield value
    for count, match in enumerate(re.finditer(r"[{\[]", text)):
        if count == _MAX_STARTS:
            return
        piece, is_closed = _bracketed_part(text, match.start())
        for attempt in (piece, _close_brackets(piece)) if is_closed else (_close_brackets(piece),):
            value = _try_parse(attempt)
            if value is not _NOTHING:
                yield value
                break


def _try_parse(text: str) -> Any:
    try:
        return parse_json(text)
    except (orjson.JSONDecodeError, InvalidValue):
        return _NOTHING


def _json_marks(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield brackets and commas outside of strings, `"` at the end of a string, and `open` if the last has no end."""
    quoted = escaped = False
    for i in range(start, len(text)):
        char = text[i]
        if quoted:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                quoted = False
                yield i, '"'
        elif char == '"':
            quoted = True
        elif char in "{}[],":
            yield i, char
    if quoted:
        yield len(text), "open"


def _bracketed_part(text: str, start: int) -> tuple[str, bool]:
    """Return the text from a bracket to its closing bracket and True, or the rest of the text and False."""
    level = 0
    for i, mark in _json_marks(text, start):
        if mark in "{[":
            level += 1
        elif mark in "}]":
            level -= 1
            if not level:
                return text[start : i + 1], True
    return text[start:], False


def _close_brackets(text: str) -> str:
    """Close open brackets and strings, and drop commas before a closing bracket."""
    opened: list[str] = []
    comma = -1  # the latest mark, if it is a comma; -1 after any other mark
    drop: set[int] = set()
    cut_in_string = False
    for i, mark in _json_marks(text, 0):
        if mark in ("{", "["):
            opened.append("}" if mark == "{" else "]")
        elif mark in ("}", "]"):
            if comma >= 0 and not text[comma + 1 : i].strip():
                drop.add(comma)
            if opened:
                opened.pop()
        elif mark == "open":
            cut_in_string = True
        comma = i if mark == "," else -1
    # An end inside a string cannot end with half an escape, and a member without its value is dropped.
    body = "".join(char for i, char in enumerate(text) if i not in drop)
    if cut_in_string:
        body = body.rstrip("\\") + '"'
    body = body.rstrip()
    if opened:
        body = _drop_incomplete_member(body)
    return body + "".join(reversed(opened))


def _drop_incomplete_member(text: str) -> str:
    """Drop a comma at the end, or a last member that has no value yet, such as `, "key":`."""
    text = re.sub(r",\s*$", "", text)
    return re.sub(r'([{,])\s*"(?:[^"\\]|\\.)*"\s*:\s*$', lambda m: "" if m[1] == "," else "{", text)


CORRECTIONS: Final = 2
"""How often the model may correct an answer that does not fit its schema."""
TOKENS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
REASONS: Final[dict[str, str]] = {
    "end_turn": "the model has finished",
    "stop_sequence": "the model wrote a stop sequence",
    "max_tokens": "the answer was cut at max_tokens; no call in it was made",
    "refusal": "the model refused to continue",
    "model_context_window_exceeded": "the conversation is longer than the model can read",
    "max_rounds": "the conversation reached max_rounds before the model had finished",
    "max_calls": "the conversation reached max_calls before the model had finished",
    "token_budget": "the conversation spent its token_budget before the model had finished",
    "cost_budget": "the conversation spent its cost_budget before the model had finished",
    "invalid_json": "the answer did not fit its schema, even after corrections",
    "no_tool_use": "the model announced tool calls but made none",
}
"""Explanations of stop reasons. A stop reason that is not listed ends the conversation as well."""


@dataclass(frozen=True, slots=True)
class TurnState:
    """The conversation before an answer."""

    # The options of the agent.
    options: Mapping[str, Any]
    # The tools as the model knows them.
    cards: Cards
    # The calls so far, with their outcomes.
    trace: Sequence[Mapping[str, Any]]
    # Rounds, calls, corrections, tokens and costs so far.
    totals: Mapping[str, Any]
    # Parts of the request that were left out or converted.
    notes: Sequence[str] = ()
    # Returns the outcome that the cache has for a call: takes the tool, the arguments and the id of the call.
    find_cached: Callable[[str, Json, str], dict[str, Json] | None] | None = None


def next_turn(answer: Answer, state: TurnState) -> dict[str, Json]:
    """Return the turn that the agent loop carries out."""
    content = [dict(block) for block in answer.content]
    totals = _add_totals(answer, state)
    # The text of a turn that was paused continues in this answer.
    text = totals.pop("paused", "") + "".join(
        str(block.get("text") or "") for block in content if block.get("type") == "text"
    )
    requested = [block for block in content if block.get("type") == "tool_use"]
    turn = _Turn(answer, state, totals, requested, text)
    stop, data, problems = turn.ending()

    # Calls count only in a turn that asks for them and stays within the limits.
    uses = turn.uses() if stop is None and answer.stop_reason == "tool_use" else []
    totals["calls"] += sum(1 for use in uses if use["run"] is not None or "cached" in use)
    if problems:
        totals["corrections"] += 1
        if stop is not None:
            totals["details"] = "; ".join(problems)
    if stop is None and answer.stop_reason == "pause_turn":
        totals["paused"] = text
    if stop is not None and stop not in ENDS:
        totals["why"] = _describe_unfinished(stop, answer.details, problems, text)

    # The API requires a result for every requested call, also for those that are not made.
    messages: list[Json] = [{"role": "assistant", "content": content}] if content else []
    if uses:
        messages.append({"role": "user", "content": [_result_block(use["id"]) for use in uses]})
    elif requested:
        note = f"not called: {REASONS.get(stop or '', stop or answer.stop_reason)}"
        messages.append({"role": "user", "content": [_result_block(block.get("id"), note) for block in requested]})
    elif stop is None and problems:
        messages.append({"role": "user", "content": correction_prompt(problems)})
    return {
        "content": content,
        "text": text,
        "data": data,
        "answer": data if state.options.get("output_schema") is not None else text,
        "problems": list(problems),
        "model_stop_reason": answer.stop_reason,
        "stop_reason": stop,
        "uses": uses,
        "said": messages,
        "usage": {key: answer.usage.get(key, 0) for key in TOKENS},
        "cost": answer.cost,
        "totals": totals,
    }


def refused_turn(error: ModelError, state: TurnState) -> dict[str, Json]:
    """Return an empty turn that records the part of a request that the API refused."""

    # The next request leaves the part out.
    silent = Answer(content=[], stop_reason="", cost=0.0, model=str(state.totals.get("model") or ""))
    totals = _add_totals(silent, state)
    part: dict[str, Any] = dict(error.part or {})
    totals["rounds"] -= 1  # a refused request is not a round of the model
    totals["refused"] = [*state.totals.get("refused", ()), {**part, "why": str(error)}]
    note = describe_refused_part(part, str(error))
    totals["notes"] = list(dict.fromkeys([*totals["notes"], *([note] if note else [])]))
    return {
        "content": [],
        "text": "",
        "data": None,
        "answer": None if state.options.get("output_schema") is not None else "",
        "problems": [],
        "model_stop_reason": None,
        "stop_reason": None,
        "uses": [],
        "said": [],
        "usage": dict.fromkeys(TOKENS, 0),
        "cost": 0.0,
        "totals": totals,
    }


@dataclass(frozen=True, slots=True)
class _Turn:
    answer: Answer
    state: TurnState
    totals: Mapping[str, Any]
    requested: list[dict[str, Any]]
    text: str

    def ending(self) -> tuple[str | None, Json, list[str]]:
        """Return the stop reason (None to continue), the JSON of the answer, and the problems with it."""
        reason, schema = self.answer.stop_reason, self.state.options.get("output_schema")
        if reason == "tool_use":
            return (self._reached_limit() if self.requested else "no_tool_use"), None, []
        if reason == "pause_turn":
            return self._reached_limit(), None, []
        if reason not in ENDS or schema is None:
            return reason, None, []
        data, problems = extract_json(self.text, schema)
        if not problems:
            return reason, data, []
        if self.totals["corrections"] >= self.state.options.get("max_corrections", CORRECTIONS):
            return "invalid_json", None, problems
        return self._reached_limit(), None, problems

    def _reached_limit(self) -> str | None:
        """Return the limit that another round would exceed; None if there is none."""
        options, totals = self.state.options, self.totals
        if totals["rounds"] >= options.get("max_rounds", MAX_ROUNDS):
            return "max_rounds"
        limit = options.get("max_calls")
        if limit is not None and totals["calls"] + len(self.requested) > limit:
            return "max_calls"
        limit = options.get("token_budget")
        if limit is not None and sum(totals["usage"].values()) >= limit:
            return "token_budget"
        limit = options.get("cost_budget")
        if limit is not None and (totals["cost"] or 0.0) >= limit:
            return "cost_budget"
        return None

    def uses(self) -> list[dict[str, Any]]:
        """Return the requested calls for the loop: each has the tool in `run`, an `error`, `same_as` or `cached`."""
        earlier = _successful_calls(self.state.trace) if self.state.options.get("cache", True) else {}
        uses = []
        # Every call gets an entry: the model needs a result even for a call that cannot be made.
        for block in self.requested:
            card, arguments = self.state.cards.by_name(block.get("name")), block.get("input")
            use: dict[str, Any] = {
                "id": str(block.get("id")),
                "round": self.totals["rounds"],
                "tool": card.tool if card is not None else None,
                "name": block.get("name"),
                "input": arguments if isinstance(arguments, dict) else {},
                "run": None,
                "error": None,
                "same_as": None,
            }
            if card is None:
                use["error"] = self._unknown_tool(block.get("name"))
            elif not isinstance(arguments, dict):
                use["error"] = "the arguments are not a JSON object"
            else:
                use |= self._plan_call(use, card, earlier)
            uses.append(use)
        return uses

    def _plan_call(self, use: Mapping[str, Any], card: Card, earlier: dict[str, str]) -> dict[str, Any]:
        if not card.read_only or not self.state.options.get("cache", True):
            return {"run": card.tool}
        # A read-only call with the same arguments reuses the result of the first one.
        key = digest([card.tool, use["input"]])
        first_id = earlier.setdefault(key, str(use["id"]))
        if first_id != use["id"]:
            return {"same_as": first_id}
        find = self.state.find_cached
        cached = None if find is None else find(card.tool, use["input"], str(use["id"]))
        return {"run": card.tool} if cached is None else {"cached": cached}

    def _unknown_tool(self, name: Json) -> str:
        known = ", ".join(card.name for card in self.state.cards.cards) or "none"
        return f"there is no tool {name!r} here, and nothing was called; the tools are: {known}"


def _describe_unfinished(stop: str, details: str, problems: Sequence[str], text: str) -> str:
    """Explain why a conversation ended unfinished, with the problems and the last answer."""
    reason = f"{stop}: {REASONS.get(stop, 'the model stopped for a reason that is not known here')}"
    details_text = "; ".join(filter(None, [details, *problems]))
    last_answer = f"; its last answer: {text[:2000]}" if text else ""
    return f"{reason}{f' ({details_text})' if details_text else ''}{last_answer}"


def _successful_calls(trace: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the ids of the calls that succeeded, by the digest of tool and arguments."""
    ids: dict[str, str] = {}
    for use in trace:
        outcome = use.get("outcome") or {}
        if "value" in outcome:
            ids.setdefault(digest([use.get("tool"), use.get("input")]), str(use.get("id")))
    return ids


def _add_totals(answer: Answer, state: TurnState) -> dict[str, Any]:
    past = state.totals
    usage = past.get("usage") or {}
    earlier_cost = past.get("cost", 0.0)
    # Prices are millionths of dollars: digits after the twelfth are rounding errors of the sum.
    cost = None if answer.cost is None or earlier_cost is None else round(earlier_cost + answer.cost, 12)
    return {
        "rounds": past.get("rounds", 0) + 1,
        "calls": past.get("calls", 0),
        "corrections": past.get("corrections", 0),
        "usage": {key: usage.get(key, 0) + answer.usage.get(key, 0) for key in TOKENS},
        "cost": cost,
        "model": answer.model or past.get("model", ""),
        "notes": list(dict.fromkeys([*past.get("notes", ()), *state.cards.notes, *state.notes, *answer.warnings])),
        "details": answer.details,
        **{key: past[key] for key in ("refused", "paused") if past.get(key)},
    }


def _result_block(id: Any, note: str | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": str(id)}
    return block if note is None else {**block, "content": note, "is_error": True}


Ask: TypeAlias = Callable[[str, dict[str, Json]], "bool | str | Awaitable[bool | str]"]
"""Gets a tool id and its arguments; returns True to allow the call, or False or a reason to refuse it."""
APPROVAL_TIMEOUT = 7 * 24 * 3600.0
_current_ask: ContextVar[Ask | None] = ContextVar("ropewalk_claude_ask", default=None)


@contextmanager
def answer_approvals_with(ask: Ask | None) -> Iterator[None]:
    """Let `ask` decide about the calls that need an approval within the block."""
    token = _current_ask.set(ask)
    try:
        yield
    finally:
        _current_ask.reset(token)


def approval_tool() -> Tool:
    """Return the tool `ropewalk:approval`."""
    id = parse_tool_id(APPROVAL)
    return Tool(
        id.name,
        "Asks a person whether a call may be made.",
        {"type": "object"},
        namespace=id.namespace,
        annotations={"timeout": APPROVAL_TIMEOUT},
        handler=_ask_approval,
    )


async def _ask_approval(*, tool: str, input: dict[str, Json]) -> dict[str, Json]:
    ask = _current_ask.get()
    if ask is None:
        return {"approved": False, "reason": f"{tool} was not called: it needs an approval, and nobody can be asked"}
    reply: Any = await maybe_await(ask(tool, input))
    if reply is True:
        return {"approved": True, "reason": ""}
    reason = reply if isinstance(reply, str) and reply else "the user refused it"
    return {"approved": False, "reason": f"{tool} was not called: {reason}"}
