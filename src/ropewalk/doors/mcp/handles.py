"""Handles for large results: `call_tool` answers with a reference and a preview, and `read_value` reads the value.

A large result fills the context of a model, which mostly needs a part of it. The value stays in the store: the result
of a flow in its run, any other result in a run of its own. The handle is the one that plans give and read with `value`.
Only results of `call_tool` are replaced: a client that calls a tool by its name gets what the tool declares.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...app.saved_plans import RESULT, recorded_value
from ...errors import ExpressionError, NotFound, RopewalkError
from ...expr.jsonpath import compile_query
from ...expr.operators import Budget
from ...journal.address import run_sync_in_thread
from ...tools.backends.route import normalise_mcp
from ...values import Json
from .results import RUN, failed, given
from .tool_source import CallContext, ExposedTool

if TYPE_CHECKING:
    from ...app.app import App

log = logging.getLogger("ropewalk.mcp.server")

READ: Final = "read_value"
_ALL: Final = "$"
_RECORD: Final = "return value"  # the program whose run keeps the result of a tool
_OUTPUT: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The JSON, or the part of it from `offset`."},
        "size": {"type": "integer", "description": "Characters of the whole JSON."},
        "next": {"type": "integer", "description": "The offset of the rest, if there is more."},
    },
    "required": ["text", "size"],
}
_INPUT: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "value": {"type": "string", "description": "The text `$value` of the handle."},
        "path": {
            "type": "string",
            "default": _ALL,
            "description": "JSONPath, as $[0:3] or $.rows[*].id: gives a list of what it selects.",
        },
        "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "The first character to return."},
    },
    "required": ["value"],
}


class ResultHandles:
    """Replaces large results by handles, and reads them."""

    # `app`: The app, whose store has the values and whose `[plans] max_result` is the limit, in bytes of JSON.

    def __init__(self, app: App) -> None:
        self._app = app

    async def shorten(self, result: Any) -> Any:
        """Return a result with a handle in place of its value if that is too large, else the result as it is."""

        # Images and other content without text stay. Errors, tasks, and results that ask for input are never replaced.
        if getattr(result, "content", None) is None or result.is_error or not self._is_large(result):
            return result
        try:
            handle = await self._handle(result)
        except RopewalkError:  # the call is done: its result must not get lost
            log.exception("a large result has no handle, as it could not be recorded")
            return result
        from mcp_types import TextContent

        run = (result.meta or {}).get(RUN) or {}
        # The last text of a partial run says what failed.
        kept = [
            block
            for number, block in enumerate(result.content, 1)
            if block.type != "text" or (run.get("status") == "partial" and number == len(result.content))
        ]
        text = TextContent(type="text", text=orjson.dumps(handle).decode())
        return result.model_copy(update={"content": [text, *kept], "structured_content": handle})

    def read_tool(self) -> ExposedTool:
        """Return the tool that reads the value of a handle."""
        return ExposedTool(
            id=READ,
            wanted=READ,
            checked=True,
            description='Reads a large result, given as {"$value": ...}: all of it, or the part that you need.',
            input_schema=_INPUT,
            output_schema=_OUTPUT,
            annotations={"readOnlyHint": True},
            call=self._read,
            is_current=lambda: True,
        )

    def _is_large(self, result: Any) -> bool:
        limit = self._app.context.plans.max_result
        texts = sum(len(block.text.encode()) for block in result.content if block.type == "text")
        return texts > limit or len(orjson.dumps(result.structured_content)) > limit

    async def _handle(self, result: Any) -> Json:
        """Return the handle of a result."""

        # The value of a flow is in its run; any other one is recorded in a new run.
        plans = self._app.plans
        run = (result.meta or {}).get(RUN)
        if run is not None:
            id = str(run["runId"])
            value = await run_sync_in_thread(
                self._app.store, lambda: recorded_value(self._app.context, f"{id}/{RESULT}")
            )
            return plans.handle(value, id, RESULT)
        answer = await plans.run_plan(_RECORD, {"value": normalise_mcp(result)[0]})
        return answer["result"]

    async def _read(self, args: dict[str, Json], asked: CallContext) -> Any:
        place, path, offset = str(args["value"]), str(args.get("path", _ALL)), int(str(args.get("offset", 0)))
        try:
            text = await run_sync_in_thread(self._app.store, lambda: self._text(place, path))
        except NotFound:
            return failed(f"value: there is no value {place!r}; use the `$value` of a handle", {"kind": "NotFound"})
        except ExpressionError as error:
            return failed(f"path: {error}", {"kind": "InvalidInput"})
        end = offset + self._app.context.plans.max_result
        answer: dict[str, Json] = {"text": text[offset:end], "size": len(text)}
        if end < len(text):
            answer["next"] = end
        return given(answer, _OUTPUT)

    def _text(self, place: str, path: str) -> str:
        """Return the JSON of what a path selects in the result of a run of this project."""
        row = self._app.store.get_run(place.removesuffix(f"/{RESULT}"))
        if row is None or (row.context or {}).get("project") != self._app.project:
            raise NotFound("value", place)
        value = recorded_value(self._app.context, place)
        selected = value if path == _ALL else compile_query(path)(Budget(), value)
        return orjson.dumps(selected).decode()
