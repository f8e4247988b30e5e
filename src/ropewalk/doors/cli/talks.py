"""Conversations of agents in the words of those who wrote them: turns and calls, not the nodes of the loop.

What a turn said, called and cost stands in what is recorded of it; the nodes around it (`calls`, `use`, `approved`)
nobody wrote, and they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from .table import first_line

_MOST: Final = 80
_ARGS: Final = 60
_DONE: Final = ("end_turn", "stop_sequence")
_ASKED: Final = re.compile(r"(?:.*/)?([^/]+)\[(\d+)\]/(?:\1\.)?calls\[\d+\]/(?:\1\.)?use\[\d+\]/(?:\1\.)?approval\..+")


def asker(path: str) -> str | None:
    """`agent turn 2` of the path of an approval that an agent asks for; None of every other one."""
    found = _ASKED.fullmatch(path)
    return f"{found[1]} turn {int(found[2]) + 1}" if found else None


class Talks:
    """The agents of one run. `take` its steps in their order, and get those that are to be told."""

    def __init__(self, kind: str, document: Any) -> None:
        names = ["agent"] if kind == "agent" else sorted(set(_agents(document)))
        of = "|".join(map(re.escape, names)) or r"(?!)"
        own = "" if kind == "agent" else r"(?P=id)\."
        self._inside = re.compile(
            rf"(?P<at>(?:.*/)?(?P<id>{of})(?:@\d+)?)\[(?P<round>\d+)\]/{own}"
            rf"(?:turn(?:@(?P<try>\d+))?|calls(?:\[(?P<use>\d+)\](?:/{own}(?P<rest>.*))?)?)"
        )
        self._document = kind == "agent"
        self._turns: dict[tuple[str, int], dict[str, Any]] = {}
        self._totals: dict[str, dict[str, Any]] = {}

    def told(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The steps; those of agents with `words` in place of a path and `says` in place of a value."""
        for row in rows:
            found = self._inside.fullmatch(row["path"])
            if found is not None:
                yield from self._inner(row, found)
            elif row["path"] in self._totals and row["kind"] == "node":
                yield {**row, "says": _sum(self._totals[row["path"]])}
            else:
                yield row

    def error(self, message: str) -> str:
        """What the run failed of, without the names of the loop's nodes."""
        path, colon, rest = message.partition(": ")
        found = self._inside.fullmatch(path)
        if found is not None and colon:
            return f"{found['at']} turn {int(found['round']) + 1}: {rest}"
        return rest if self._document and path == "finished" else message

    def _inner(self, row: dict[str, Any], found: re.Match[str]) -> Iterator[dict[str, Any]]:
        at, turn = found["at"], int(found["round"])
        words = f"{at} turn {turn + 1}"
        if found["use"] is None:
            if row["path"].endswith("calls"):
                return
            if isinstance(row.get("value"), dict) and "uses" in row["value"]:
                self._turns[at, turn] = row["value"]
                self._totals[at] = {**(row["value"].get("totals") or {}), "stop": row["value"].get("stop_reason")}
                row = {**row, "says": _turn(row["value"])}
            yield {**row, "words": words + (f", attempt {found['try']}" if found["try"] else "")}
            return
        uses = self._turns.get((at, turn), {}).get("uses") or []
        use = uses[int(found["use"])] if int(found["use"]) < len(uses) else {}
        yield from _call(row, words, found["rest"] or "", use)


def _call(row: dict[str, Any], words: str, rest: str, use: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What there is to tell of a step of one call that the model wants."""
    tool = use.get("tool") or use.get("name") or "a tool"
    called = f"{words} calls {tool} {first_line(_text(use.get('input')), _ARGS)}"
    last = rest.rpartition("/")[2]
    if row["kind"] == "branch":
        if use.get("run") is None and rest.endswith("use"):
            again = use.get("same_as")
            said = use.get("error") if again is None else "the result of the same call before"
            yield {**row, "status": "ok" if again is not None else "failed", "words": called, "says": _text(said)}
    elif re.search(r"(^|\.)call\.", last):
        value = row.get("value")
        if isinstance(value, dict):
            value = value.get("value", value)
        yield {**row, "words": called, **({} if row["status"] in ("failed", "recovered") else {"value": value})}
    elif row["kind"] in ("wait", "signal", "timer"):
        yield {**row, "words": words}


def _turn(value: Mapping[str, Any]) -> str:
    """What a turn of the model came to."""
    uses = value.get("uses") or []
    parts = []
    if uses:
        parts.append("calls " + ", ".join(str(use.get("tool") or use.get("name")) for use in uses))
    elif value.get("answer") not in (None, ""):
        parts.append(first_line(_text(value["answer"]), _MOST))
    stop = value.get("stop_reason")
    if stop is not None and stop not in _DONE:
        parts.append(f"ends: {stop}")
    return " · ".join([*parts, *_paid(value.get("usage"), value.get("cost"))])


def _sum(totals: Mapping[str, Any]) -> str:
    """What all turns took, and why there were no more."""
    counts = [f"{totals.get(key, 0):,} {word}{'' if totals.get(key) == 1 else 's'}" for key, word in
              (("rounds", "turn"), ("calls", "call"))]  # fmt: skip
    why = totals.get("why") or ("the model had ended" if totals.get("stop") in _DONE else totals.get("stop"))
    return " · ".join([", ".join(counts), *_paid(totals.get("usage"), totals.get("cost")), *([why] if why else [])])


def _paid(usage: Any, cost: Any) -> list[str]:
    """Tokens and money, where they are known."""
    given = usage if isinstance(usage, dict) else {}
    out = given.get("output_tokens", 0)
    into = sum(amount for key, amount in given.items() if key != "output_tokens" and isinstance(amount, int))
    tokens = [f"{into:,} tokens in, {out:,} out"] if into or out else []
    return tokens + ([f"${cost:.4f}"] if isinstance(cost, (int, float)) else [])


def _agents(value: Any) -> Iterator[str]:
    """The ids of all nodes of a document that are agents."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            if one.get("kind") == "agent" and isinstance(one.get("id"), str):
                yield one["id"]
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
