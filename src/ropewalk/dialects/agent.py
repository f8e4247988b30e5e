"""Agents: a prompt, the tools a model may call for it, and what its answer must look like, as a document.

The prompt (and the system prompt) may hold references to `$input`; texts that come in through them are data and are
never read again. Refused here: limits that are no limits, and both a prompt and messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import InvalidFlow, NodeFailed, Unfinished
from ..expr import lift
from ..expr.ast import Arr, Expr, Fn, Lit, Obj, Ref
from ..frozen import dataclass
from ..ir import Flow, Graph, Meta, Node
from ..ops import Require
from ..values import Json, closest
from . import fields as f
from .agent_blocks import EMPTY, RESULT_SIZE, rendered, told_whole
from .agent_flow import ENDS, MAX_ROUNDS, MODEL, agent_loop
from .fields import Checker, Report, join, say
from .nodes import read_document
from .notation import Compiled, told_together

ROOTS: Final = frozenset(("input", "secret"))


def _positive_number(value: Json, path: str, report: Report) -> Json:
    if f.number(value, path, report) == 0 and value == 0:
        say(report, path, "must be above 0")
    return value


_CHOICES: Final = ("auto", "any", "none", "tool")


def _choice(value: Json, path: str, report: Report) -> Json:
    """What the model is told of calling: `{type: auto | any | none}`, or `{type: tool, name}`."""
    given = f.mapping(value, path, report)
    if report or not isinstance(given, dict):
        return given
    known = f.known_keys(given, dict.fromkeys(("type", "name", "disable_parallel_tool_use")), path, report)
    f.one_of(_CHOICES)(known.get("type"), join(path, "type"), report)
    if known.get("type") == "tool" and not isinstance(known.get("name"), str):
        say(report, join(path, "name"), "names the tool that is to be called")
    return known


def _flag_or_names(value: Json, path: str, report: Report) -> Json:
    return value if isinstance(value, bool) else f.names(value, path, report)


def _content(value: Json, path: str, report: Report) -> Json:
    """What is said to the model: a text, or blocks of content."""
    if not isinstance(value, (str, list)):
        say(report, path, f"must be a text or a list of content blocks, not {f.kind(value)}")
    return value


def _messages(value: Json, path: str, report: Report) -> Json:
    if not isinstance(value, list) and not (isinstance(value, str) and value.startswith("$")):
        say(report, path, f"must be a list of messages or a reference to one, not {f.kind(value)}")
    return value


OPTIONS: Final[dict[str, Checker]] = {
    "model": f.name,
    "max_rounds": f.positive,
    "max_calls": f.positive,
    "max_tokens": f.positive,
    "token_budget": f.positive,
    "cost_budget": _positive_number,
    "max_corrections": f.count,
    "result_size": f.positive,
    "cache": f.truth,
    "stream": f.truth,
    "prompt_cache": f.truth,
    "thinking": f.mapping,
    "effort": f.one_of(("low", "medium", "high", "xhigh", "max")),
    "tool_choice": _choice,
    "stop_sequences": f.names,
    "output_schema": f.anything,
}
"""What is said to the model's tool with every turn."""
FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "kind": f.text,
    "name": f.name,
    "description": f.text,
    "prompt": _content,
    "messages": _messages,
    "system": f.text,
    "tools": f.names,
    "approve": _flag_or_names,
    "ask": f.one_of(("wait", "caller")),
    "inputSchema": f.mapping,
    "timeout": f.number,
    **OPTIONS,
}


def fits(document: Mapping[str, Json]) -> bool:
    return "prompt" in document and "nodes" not in document and "steps" not in document


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile an agent; raises InvalidFlow with every problem of the document."""
    given, report = read_document(config, FIELDS, "agent", ("inputSchema", "output_schema"))
    if ("prompt" in given) == ("messages" in given):
        say(report, "prompt" if "prompt" not in given else "messages", "an agent has a prompt or messages, one of them")
    flow = _flow(given, report)
    if report:
        raise InvalidFlow(told_together(report, flow), flow)
    name = str(given.get("name", "agent"))
    return Compiled(
        kind="agent",
        id=str(given.get("id", name)),
        name=name,
        document=given,
        flow=flow,
        warnings=(),
        render=Rendering(name, given.get("result_size") or RESULT_SIZE),
        typed_at="output_schema",
        output_schema=given.get("output_schema", {"type": "string"}),
    )


def _flow(given: Mapping[str, Any], report: Report) -> Flow:
    tools = tuple(dict.fromkeys(given.get("tools", ())))
    loop = agent_loop(
        agent_options(given),
        tools,
        start_of(given, "", report),
        approve=approved(given, tools, "", report),
        ask_caller=given.get("ask") == "caller",
        path="tools",
    )
    timeout = given.get("timeout")
    node = Node(id="agent", op=loop, meta=Meta(source="", labels={"limit": "max_rounds", "initial": ""}))
    ended = [Fn("==", (Ref("out", ("agent", "stop_reason")), Lit(reason))) for reason in ENDS]
    why = Ref("out", ("agent", "totals", "why"))
    held = Require(value=Ref("out", ("agent",)), holds=Fn("||", tuple(ended)), message=why)
    done = Node(id="finished", op=held, meta=Meta(hidden=True))
    return Flow(
        name=str(given.get("name", "agent")),
        body=Graph(nodes=(node, done), result=Ref("out", ("agent",)), ordered=True),
        input_schema=given.get("inputSchema"),
        timeout=timeout / 1000 if timeout else None,
    )


def agent_options(given: Mapping[Any, Any]) -> dict[str, Json]:
    """What the model's tool is told of a document with every turn."""
    return {"max_rounds": MAX_ROUNDS, **{key: given[key] for key in OPTIONS if key in given}}


def approved(given: Mapping[str, Any], tools: tuple[str, ...], path: str, report: Report) -> frozenset[str]:
    """The tools that somebody is asked about before they are called."""
    said = given.get("approve", False)
    if isinstance(said, bool):
        return frozenset(tools) if said else frozenset()
    for i, name in enumerate(said):
        if name not in tools:
            say(report, f"{join(path, 'approve')}[{i}]", f"{name!r} is none of the tools", closest(name, tools))
    return frozenset(said)


def start_of(given: Mapping[str, Json], path: str, report: Report, roots: frozenset[str] = ROOTS) -> Expr:
    """The messages that a conversation begins with: the system prompt as one of its own, then the user's."""

    def read(key: str) -> Expr:
        return lift(given.get(key), roots, path=join(path, key), problems=report)

    system = [_message("system", read("system"))] if given.get("system") else []
    if "messages" not in given:
        return Arr((*system, _message("user", read("prompt"))))
    return Fn("flatten", (Arr((Arr(tuple(system)), read("messages"))),))


def _message(role: str, content: Expr) -> Expr:
    return Obj((("role", Lit(role)), ("content", content)))


@dataclass(frozen=True, slots=True)
class Rendering:
    """Writes an ending as the result of an agent."""

    name: str
    size: int

    def __call__(self, ending: Any) -> dict[str, Json]:
        talk = ending.value if ending.value is not None else ending.outputs.get("agent")  # which a limit has, too
        value = talk if type(talk) is dict else {}
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "agent": self.name,
            "status": ending.status,
            "result": value.get("answer"),
            "stopReason": value.get("stop_reason"),
            "warnings": list((value.get("totals") or {}).get("notes", ())),
            "conversation": self.told(value) if value else None,
            "error": _error(ending.error),
            "duration": round(ending.duration * 1000, 3),
        }

    def told(self, value: dict[str, Any]) -> dict[str, Json]:
        """The conversation with the messages as the model has them, so that they can be sent again."""
        system, messages = rendered(value["messages"], value["trace"], self.size)
        return {
            **value,
            **({"system": system} if system else {}),
            "messages": [message if message["content"] else {**message, "content": EMPTY} for message in messages],
            "trace": told_whole(value["trace"]),
        }


def _error(error: Exception | None) -> Json:
    if isinstance(error, NodeFailed):
        # Of a limit there is no node to be named: the whole of it came to no end.
        node = None if error.kind == Unfinished.__name__ else error.node
        often = f" (asked {error.attempts} times)" if error.tool == MODEL and error.attempts > 1 else ""
        return {
            "nodeId": node,
            "tool": error.tool,
            "message": error.message + often,
            "kind": error.kind,
            **({"ran": True} if error.ran else {}),
        }
    return None if error is None else {"nodeId": None, "message": str(error), "kind": type(error).__name__}
