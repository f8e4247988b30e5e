"""What follows from an answer: which calls are made, what is said back, and whether the conversation is over.

A pure function of the answer and of what there was before, so that it can be journaled with the answer and holds on
resume. To handle another stop reason, add it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..dialects.agent_flow import ENDS, MAX_ROUNDS
from ..errors import ModelError
from ..frozen import dataclass
from ..values import Json, digest
from .answer import correction, read_json
from .definitions import Card, Cards
from .model import Answer
from .refusals import note_of

CORRECTIONS: Final = 2
"""How often an answer that does not fit its schema is asked for again."""
TOKENS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
REASONS: Final[dict[str, str]] = {
    "end_turn": "the model has finished",
    "stop_sequence": "a stop sequence came",
    "max_tokens": "the answer was cut at max_tokens; no call in it was made",
    "refusal": "the model refused to go on",
    "model_context_window_exceeded": "the conversation is longer than the model can read",
    "max_rounds": "the limit of rounds was reached before the model had finished",
    "max_calls": "the limit of tool calls was reached before the model had finished",
    "token_budget": "the budget of tokens was spent before the model had finished",
    "cost_budget": "the budget of money was spent before the model had finished",
    "invalid_json": "the answer did not fit its schema, also when asked again",
    "no_tool_use": "the model said that it calls tools, and called none",
}
"""Why a conversation is over. Anything else is a reason of the model's that is not known here: it stops, too."""


@dataclass(frozen=True, slots=True)
class Before:
    """The conversation up to an answer: what was asked for, what the tools are, what was done."""

    options: Mapping[str, Any]
    cards: Cards
    trace: Sequence[Mapping[str, Any]]
    totals: Mapping[str, Any]
    notes: Sequence[str] = ()
    """What was left out of the request or converted."""


def decide(answer: Answer, before: Before) -> dict[str, Json]:
    """The turn as the loop obeys it: `uses` to be made, `said` to be added to the messages, `stop_reason` when it is
    over."""
    content = [dict(block) for block in answer.content]
    totals = _totals(answer, before)
    text = "".join(str(block.get("text") or "") for block in content if block.get("type") == "text")
    wanted = [block for block in content if block.get("type") == "tool_use"]
    turn = _Turn(answer, before, totals, wanted, text)
    stop, data, problems = turn.ending()
    uses = turn.uses() if stop is None and answer.stop_reason == "tool_use" else []
    totals["calls"] += sum(1 for use in uses if use["run"] is not None)
    if problems:
        totals["corrections"] += 1
        if stop is not None:
            totals["details"] = "; ".join(problems)
    if stop is not None and stop not in ENDS:
        totals["why"] = _unfinished(stop, answer.details, problems, text)
    said: list[Json] = [{"role": "assistant", "content": content}] if content else []
    if uses:
        said.append({"role": "user", "content": [_result(use["id"]) for use in uses]})
    elif wanted:
        note = f"not called: {REASONS.get(stop or '', stop)}"
        said.append({"role": "user", "content": [_result(block.get("id"), note) for block in wanted]})
    elif stop is None and problems:
        said.append({"role": "user", "content": correction(problems)})
    return {
        "content": content,
        "text": text,
        "data": data,
        "answer": data if before.options.get("output_schema") is not None else text,
        "problems": list(problems),
        "model_stop_reason": answer.stop_reason,
        "stop_reason": stop,
        "uses": uses,
        "said": said,
        "usage": {key: answer.usage.get(key, 0) for key in TOKENS},
        "cost": answer.cost,
        "totals": totals,
    }


def refusal(error: ModelError, before: Before) -> dict[str, Json]:
    """Make the turn of a request that the API refused for one of its parts: nothing is said, and the next turn goes
    without that part."""
    silent = Answer(content=[], stop_reason="", cost=0.0, model=str(before.totals.get("model") or ""))
    totals = _totals(silent, before)
    part: dict[str, Any] = dict(error.part or {})
    totals["rounds"] -= 1
    totals["refused"] = [*before.totals.get("refused", ()), {**part, "why": str(error)}]
    note = note_of(part, str(error))
    totals["notes"] = list(dict.fromkeys([*totals["notes"], *([note] if note else [])]))
    return {
        "content": [],
        "text": "",
        "data": None,
        "answer": None if before.options.get("output_schema") is not None else "",
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
    before: Before
    totals: Mapping[str, Any]
    wanted: list[dict[str, Any]]
    text: str

    def ending(self) -> tuple[str | None, Json, list[str]]:
        """Why it is over, None when it goes on; the JSON that was asked for, and what is wrong with it."""
        reason, schema = self.answer.stop_reason, self.before.options.get("output_schema")
        if reason == "tool_use":
            return (self._spent() if self.wanted else "no_tool_use"), None, []
        if reason == "pause_turn":
            return self._spent(), None, []
        if reason not in ENDS or schema is None:
            return reason, None, []
        data, problems = read_json(self.text, schema)
        if not problems:
            return reason, data, []
        if self.totals["corrections"] >= self.before.options.get("max_corrections", CORRECTIONS):
            return "invalid_json", None, problems
        return self._spent(), None, problems

    def _spent(self) -> str | None:
        """The limit that another round would pass."""
        options, totals = self.before.options, self.totals
        if totals["rounds"] >= options.get("max_rounds", MAX_ROUNDS):
            return "max_rounds"
        most = options.get("max_calls")
        if most is not None and totals["calls"] + len(self.wanted) > most:
            return "max_calls"
        most = options.get("token_budget")
        if most is not None and sum(totals["usage"].values()) >= most:
            return "token_budget"
        most = options.get("cost_budget")
        if most is not None and (totals["cost"] or 0.0) >= most:
            return "cost_budget"
        return None

    def uses(self) -> list[dict[str, Any]]:
        """The calls as the loop makes them: `run` is the tool, or None where `error` or `same_as` stands instead."""
        made = _made(self.before.trace) if self.before.options.get("cache", True) else {}
        found = []
        for block in self.wanted:
            card, given = self.before.cards.named(block.get("name")), block.get("input")
            use: dict[str, Any] = {
                "id": str(block.get("id")),
                "round": self.totals["rounds"],
                "tool": card.tool if card is not None else None,
                "name": block.get("name"),
                "input": given if isinstance(given, dict) else {},
                "run": None,
                "error": None,
                "same_as": None,
            }
            if card is None:
                use["error"] = self._unknown(block.get("name"))
            elif not isinstance(given, dict):
                use["error"] = "the arguments are no JSON object"
            else:
                use |= self._planned(use, card, made)
            found.append(use)
        return found

    def _planned(self, use: Mapping[str, Any], card: Card, made: dict[str, str]) -> dict[str, Any]:
        if not card.read_only or not self.before.options.get("cache", True):
            return {"run": card.tool}
        mark = digest([card.tool, use["input"]])
        first = made.setdefault(mark, str(use["id"]))
        return {"run": card.tool} if first == use["id"] else {"same_as": first}

    def _unknown(self, name: Json) -> str:
        there = ", ".join(card.name for card in self.before.cards.cards) or "none"
        return f"there is no tool {name!r} here, and nothing was called; the tools are: {there}"


def _unfinished(stop: str, details: str, problems: Sequence[str], text: str) -> str:
    """Why a conversation is over that came to no end, and what was said last."""
    said = f"{stop}: {REASONS.get(stop, 'the model stopped for this reason, which is not known here')}"
    more = "; ".join(filter(None, [details, *problems]))
    last = f"; its last answer: {text[:2000]}" if text else ""
    return f"{said}{f' ({more})' if more else ''}{last}"


def _made(trace: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The calls that gave a value, by tool and arguments."""
    found: dict[str, str] = {}
    for use in trace:
        outcome = use.get("outcome") or {}
        if "value" in outcome:
            found.setdefault(digest([use.get("tool"), use.get("input")]), str(use.get("id")))
    return found


def _totals(answer: Answer, before: Before) -> dict[str, Any]:
    past = before.totals
    usage = past.get("usage") or {}
    before_now = past.get("cost", 0.0)
    # Prices are of millionths of dollars: what is behind the twelfth place came of adding.
    cost = None if answer.cost is None or before_now is None else round(before_now + answer.cost, 12)
    return {
        "rounds": past.get("rounds", 0) + 1,
        "calls": past.get("calls", 0),
        "corrections": past.get("corrections", 0),
        "usage": {key: usage.get(key, 0) + answer.usage.get(key, 0) for key in TOKENS},
        "cost": cost,
        "model": answer.model or past.get("model", ""),
        "notes": list(dict.fromkeys([*past.get("notes", ()), *before.cards.notes, *before.notes, *answer.warnings])),
        "details": answer.details,
        **({"refused": past["refused"]} if past.get("refused") else {}),
    }


def _result(id: Any, note: str | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": str(id)}
    return block if note is None else {**block, "content": note, "is_error": True}
