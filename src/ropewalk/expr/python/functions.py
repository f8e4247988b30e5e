"""The computations of a plan's nodes: pieces of a program, and the handling of values and exits between them.

These functions have names that no expression of a document can spell. An *exit* is null, or how statements left:
`{"k": "return", "v": value}`, `{"k": "raise", "e": exception}`, `{"k": "break"}` or `{"k": "continue"}`.
"""

from __future__ import annotations

import datetime
import json
from functools import lru_cache
from typing import Any, Final

from ...errors import ExpressionError
from ...values import Json, digest
from ..function_registry import function
from ..operators import MAX_STEPS, Budget
from .failures import EXCEPTIONS, exception_from, exception_record, failure_record, is_instance
from .piece import EXIT, PRINTED, Evaluate, ProgramFailed, compile_piece
from .values import TAG, UNBOUND, Approval, Refused, copied, guard_raw, pack, to_json, unpack

UNBOUND_MARK: Final[Json] = pack(UNBOUND)


def piece_text(
    code: str, outputs: list[str], guarded: bool, lines: list[int], raw: list[str], prints: bool, inside: bool
) -> str:
    """Return the first argument of `py:piece`."""
    spec = {"code": code, "outputs": outputs, "guarded": guarded, "lines": lines, "raw": raw, "prints": prints}
    return json.dumps({**spec, "inside": inside}, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=4096)
def _piece_of(spec: str, inputs: tuple[str, ...]) -> Evaluate:
    read = json.loads(spec)
    return compile_piece(
        read["code"],
        inputs,
        tuple(read["outputs"]),
        read["guarded"],
        tuple(read["lines"]),
        frozenset(read["raw"]),
        read["inside"],
    )


@function("py:piece", 2)
def _piece(spec: str, inputs: dict[str, Json]) -> Json:
    return _piece_of(spec, tuple(inputs))(inputs)


@function("py:elsewhere", 2)
def _elsewhere(spec: str, inputs: dict[str, Json]) -> Json:
    """Refuse a piece of a program of a model: a process with a pool of children replaces this function."""
    raise ExpressionError("this program can only be computed in a child process")


@function("py:json", 3)
def _json(value: Json, name: Json, line: Json) -> Json:
    """Return a packed value as the argument of a call."""
    if type(value) is not dict or TAG not in value:
        return value
    content = _unrolled(value)
    if content is UNBOUND:
        error = NameError(f"name '{name}' is not defined")
        raise ProgramFailed(exception_record(error, int(line)))
    try:
        return to_json(content)
    except Refused as error:
        raise Refused(f"line {line}: {error}") from None


@function("py:question", 2, 3, returns="string")
def _question(tool: Json, arguments: Json, version: Json = None) -> Json:
    """Return what a person is asked before a call: the tool, its arguments, and the digest of the call."""
    mark = _call_digest(tool, arguments, version)
    return f"Call {tool} with {json.dumps(arguments, ensure_ascii=False)}? [{mark}]"


@function("py:approved_call", 2, 3)
def _approved_call(tool: Json, arguments: Json, version: Json = None) -> Json:
    """Return the call that an approval is for, so that it fits no other call and no question of `approve`."""
    return {"tool": tool, "version": version, "digest": _call_digest(tool, arguments, version)}


def _call_digest(tool: Json, arguments: Json, version: Json) -> str:
    # Runs that began without versions keep the digest that a person has seen.
    return digest([tool, arguments] if version is None else ["call", tool, version, arguments])[:16]


@function("py:raw", 1)
def _raw(value: Json) -> Json:
    return guard_raw(value)


@function("py:items", 1)
def _items(value: Json) -> Json:
    if type(value) is list:
        return value
    return [pack(item) for item in _unrolled(value)]


def _unrolled(value: Json) -> Any:
    """Return an unpacked value, within the budget of one evaluation."""
    budget = Budget()
    stack: list[Any] = [value]
    # A range takes a few bytes, and becomes a list of any length.
    while stack:
        part = stack.pop()
        if type(part) is dict:
            stack += part.values()
        elif type(part) is list:
            if len(part) == 2 and part[0] == "range":
                budget.spend(min(len(range(*part[1])), MAX_STEPS + 1))
            else:
                stack += part
    return unpack(value)


@function("py:caught", 3)
def _caught(error: Json, tool: Json, line: Json) -> Json:
    """Return the exit of a call that gave `error` to `on_error`; null if it succeeded."""
    if type(error) is not dict:
        return None
    record = error.get("exception")
    if type(record) is not dict:
        record = failure_record(error, str(tool))
    return {"k": "raise", "e": pack(exception_from({**record, "line": record.get("line") or line}))}


@function("py:timeout", 1)
def _timeout(line: Json) -> Json:
    return {"k": "raise", "e": pack(exception_from({"type": "TimeoutError", "args": [], "message": "", "line": line}))}


@function("py:loop_exit", 1)
def _loop_exit(exit: Json) -> Json:
    return None if type(exit) is not dict or exit["k"] == "continue" else exit


@function("py:collected", 3)
def _collected(before: Json, states: Json, names: Json) -> Json:
    """Return the state after a loop: that of its last round, with the lists to which all of its rounds appended."""
    state = dict(states[-1] if states else before)
    for name in names:
        items = [*unpack(before[name])]
        for one in states:
            items += unpack(one[name])
        state[name] = pack(items)
    return state


@function("py:after_loop", 1)
def _after_loop(exit: Json) -> Json:
    return None if type(exit) is not dict or exit["k"] == "break" else exit


@function("py:after_call", 1)
def _after_call(exit: Json) -> Json:
    return None if type(exit) is not dict or exit["k"] == "return" else exit


@function("py:returned", 2)
def _returned(exit: Json, old: Json) -> Json:
    """Return what a function gave; what the name had before if the function raised."""
    if type(exit) is not dict:
        return None
    return exit.get("v") if exit["k"] == "return" else old


@function("py:either", 2)
def _either(first: Json, second: Json) -> Json:
    return second if first is None else first


@function("py:raise", 1)
def _raise(exit: Json) -> Json:
    """Fail where the exit is an exception; give any other exit on."""
    if type(exit) is dict and exit["k"] == "raise":
        error = unpack(exit["e"])
        raise ProgramFailed(exception_record(error))
    return exit


@function("py:handler", 2, returns="integer")
def _handler(exit: Json, clauses: Json) -> Json:
    """Return the number of the `except` that catches the exit; -1 for none, -2 where no exit was taken."""
    if type(exit) is not dict:
        return -2
    if exit["k"] == "raise":
        error = unpack(exit["e"])
        for number, names in enumerate(clauses):
            if is_instance(error, tuple(EXCEPTIONS[str(name)] for name in names)):
                return number
    return -1


@function("py:exception", 1)
def _exception(exit: Json) -> Json:
    return exit["e"] if type(exit) is dict else None


@function("py:gathered", 3)
def _gathered(groups: Json, returns_exceptions: Json, old: Json) -> Json:
    """Return the results of calls that ran at once: `{EXIT: exit of the first failure, "v": results}`."""
    results: list[Any] = []
    first: Json = None
    for is_list, group in groups:
        for result in group if is_list else [group]:
            exit = result[EXIT]
            if type(exit) is dict and exit["k"] == "raise":
                first = first or exit
                results.append(unpack(exit["e"]))
            else:
                results.append(unpack(result["v"]))
    if first is not None and not returns_exceptions:
        return {EXIT: first, "v": old}
    return {EXIT: None, "v": pack(results)}


@function("py:no_exit", 1, returns="boolean")
def _no_exit(exits: Json) -> Json:
    """Return True if no exit of a list is taken."""
    return all(exit is None for exit in exits)


@function("py:first_exit", 1)
def _first_exit(exits: Json) -> Json:
    """Return the first exit of a list that is taken; null for none."""
    return next((exit for exit in exits if exit is not None), None)


@function("py:overlapped", 2)
def _overlapped(exits: Json, names: Json) -> Json:
    """Return the state after steps that overlapped: that of Python, which stops at the first step that fails."""

    # `names`: For each name its values, the first one from before, as `[steps that must have succeeded, value]`.
    failed = next((number for number, exit in enumerate(exits) if exit is not None), len(exits))
    state = {EXIT: exits[failed] if failed < len(exits) else None}
    return state | {name: [value for since, value in rows if since <= failed][-1] for name, rows in names.items()}


@function("py:printed", 2)
def _printed(before: Json, groups: Json) -> Json:
    """Return what was printed before, and then by calls that ran at once, in the order of the program."""
    texts = list(before)
    for is_list, group in groups:
        for result in group if is_list else [group]:
            texts += result[PRINTED]
    return texts


@function("py:limit", 3)
def _limit(exit: Json, line: Json, limit: Json) -> Json:
    if exit is None:
        raise ExpressionError(f"line {line}: the while loop reached its limit of {limit} iterations")
    return exit


@function("py:now", 3)
def _now(text: Json, world: Json, has_zone: Json) -> Json:
    """Return the date or time that a journaled step read, with its time zone only where the program asks for one."""
    moment = datetime.datetime.fromisoformat(str(text))
    if world == "today":
        return pack(moment.date())
    return pack(moment if has_zone else moment.replace(tzinfo=None))


@function("py:approval", 1)
def _approval(answer: Json) -> Json:
    return pack(Approval(copied(answer)))


@function("py:merge", 2)
def _merge(fields: Json, more: Json) -> Json:
    return {**fields, **more}


@function("py:member", 2)
def _member(fields: Json, name: Json) -> Json:
    return fields[name]
