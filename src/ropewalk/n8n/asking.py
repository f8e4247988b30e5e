"""What a build asks n8n-mcp by itself: what it knows of the task and of node types, and its judgement.

Each batch of questions is a run that is part of the build (`RUN/build/search`, `facts`, `judge`, ...): after a crash
the same build asks nothing again that was answered. To ask something else, add a function to QUESTIONS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from ..errors import ToolError
from ..tools.tool import Tool
from ..tools.toolbox import Toolbox
from ..values import Json
from .facts import asked as facts_of
from .node_tools import core_nodes
from .one_run import Parts
from .server import Server, ServerDown

NAMESPACE: Final = "n8n-builder-asks"
_FOUND_FIRST: Final = 4
Question: TypeAlias = Callable[[Server, Mapping[str, Any]], Awaitable[Json]]


async def _search(server: Server, given: Mapping[str, Any]) -> Json:
    """The nodes that a word of the task finds; none where n8n-mcp refuses the word."""
    try:
        rows = await core_nodes(server, [given["word"]], _FOUND_FIRST)
    except ToolError:
        return []
    return [{key: row.get(key) for key in ("nodeType", "displayName", "description")} for row in rows]


async def _facts(server: Server, given: Mapping[str, Any]) -> Json:
    return await facts_of(server, given["nodeType"])


async def _judge(server: Server, given: Mapping[str, Any]) -> Json:
    """What n8n-mcp says of a workflow; `refused` where it does not even look at it."""
    try:
        said = await server.call("validate_workflow", {"workflow": given["workflow"]})
    except ToolError as error:
        return {"refused": str(error)}
    return {"valid": said["valid"], "errors": said.get("errors") or [], "warnings": said.get("warnings") or []}


QUESTIONS: Final[dict[str, Question]] = {"search": _search, "facts": _facts, "judge": _judge}


class Asking:
    """Asks questions for one build. A batch is a part of it, called like the question and what tells it from the
    others of its kind."""

    def __init__(self, parts: Parts, server: Server) -> None:
        self._parts, self._server = parts, server
        _register(parts.toolbox, server)

    async def ask(self, question: str, each: Iterable[Mapping[str, Json]], suffix: str = "") -> list[Any]:
        """The answers, in order. ServerDown where nobody gives one."""
        calls = list(each)
        if not calls:
            return []
        own = f"{question}{suffix}"
        document = {
            "kind": "composition",
            "name": f"n8n-{question}",
            "nodes": [{"id": question, "type": "map", "items": "$input.calls", "tool": f"{NAMESPACE}:{question}"}],
        }
        if await self._parts.row(own) is None and (why := await self._server.reach()) is not None:
            raise ServerDown(why)
        done = await self._parts.execute(self._parts.loaded(document), input={"calls": calls}, run_id=own)
        given = done.get("data")
        if not done.get("success") or not isinstance(given, list):
            raise ServerDown(str(done.get("error") or f"{own} ended as {done.get('status')}"))
        return given


def _register(toolbox: Toolbox, server: Server) -> None:
    for name, question in QUESTIONS.items():
        toolbox.register(
            Tool(
                name,
                f"Asks n8n-mcp for a build: {name}.",
                {"type": "object"},
                namespace=NAMESPACE,
                annotations={"readOnlyHint": True},
                handler=_handler(question, server),
            )
        )


def _handler(question: Question, server: Server) -> Callable[..., Awaitable[Json]]:
    async def handler(**given: Any) -> Json:
        return await question(server, given)

    return handler
