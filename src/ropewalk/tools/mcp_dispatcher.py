"""What passes between a session of the SDK and an MCP server that may misbehave.

The SDK validates every notification and starts a task for each, and one malformed tool makes it refuse the whole list.
Here progress goes straight to its request, notifications that nobody needs are dropped before they cost anything, and
malformed tools are taken out of a list by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from ..values import Json

if TYPE_CHECKING:
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

OnProgress: TypeAlias = Callable[[float, float | None, str | None], None]

_NEEDED: Final = frozenset(
    (
        "notifications/cancelled",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    )
)
_LISTED: Final = 60  # characters of a tool's name in an error


class ProgressTokens:
    """Who hears of the progress of which call, by the token that the call has sent."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._listeners: dict[str, OnProgress] = {}

    def add(self, listener: OnProgress) -> str:
        """Return a new token, whose progress goes to `listener` until `drop`."""
        token = f"ropewalk-{next(self._numbers)}"
        self._listeners[token] = listener
        return token

    def drop(self, token: str) -> None:
        """Forget a token: its call has ended."""
        self._listeners.pop(token, None)

    def tell(self, params: Mapping[str, Any]) -> None:
        """Hand a progress notification to its listener; what is malformed or nobody's is dropped."""
        token, progress, total = params.get("progressToken"), params.get("progress"), params.get("total")
        listener = self._listeners.get(token) if isinstance(token, str) else None
        if listener is None or not _is_number(progress):
            return
        message = params.get("message")
        listener(
            float(progress),
            float(total) if _is_number(total) else None,
            message if isinstance(message, str) else None,
        )


class Malformed:
    """The tools that a server lists and that are no tools of the protocol: why each is left out, by name."""

    def __init__(self) -> None:
        self.version: Callable[[], str | None] = lambda: None
        """The protocol version that the session has agreed on."""
        self._found: dict[str, str] = {}

    def taken(self) -> dict[str, str]:
        """Return what was found since the last call, and forget it."""
        found, self._found = self._found, {}
        return found

    def left_out(self, page: dict[str, Any]) -> dict[str, Any]:
        """Return a page of tools without the malformed ones."""
        tools = page.get("tools")
        if not isinstance(tools, list) or self._fault(tools) is None:
            return page
        sound = []
        for place, tool in enumerate(tools):
            if (fault := self._fault([tool])) is None:
                sound.append(tool)
            else:
                self._found[_name(tool, place)] = fault
        return {**page, "tools": sound}

    def _fault(self, tools: list[Json]) -> str | None:
        """Why the SDK would refuse a page of these tools."""
        from mcp_types import ListToolsResult
        from mcp_types.methods import validate_server_result
        from pydantic import ValidationError

        page = {"tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        try:
            validate_server_result("tools/list", self.version() or "2025-11-25", page)
            ListToolsResult.model_validate(page, by_name=False)
        except KeyError:
            return None  # the SDK does not judge the lists of this version
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"][2:]))
            return f"the protocol does not allow this tool: {where}: {first['msg']}".replace(": : ", ": ")
        return None


def dispatcher(read: Any, write: Any, progress: ProgressTokens, malformed: Malformed) -> JSONRPCDispatcher[Any]:
    """Return the dispatcher for a session with a server, over its message streams."""
    made: JSONRPCDispatcher[Any] = _type()(read, write, progress, malformed)
    return made


@cache
def _type() -> Any:
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

    class Dispatcher(JSONRPCDispatcher[Any]):
        def __init__(self, read: Any, write: Any, progress: ProgressTokens, malformed: Malformed) -> None:
            super().__init__(read, write)
            self._progress, self._malformed = progress, malformed

        async def send_raw_request(
            self, method: str, params: Mapping[str, Any] | None, opts: Any = None, **more: Any
        ) -> dict[str, Any]:
            if method == "server/discover" and opts:
                # The SDK's limit of 10 s; the whole handshake has the server's connect_timeout.
                opts = {key: value for key, value in opts.items() if key != "timeout"}
            answer = await super().send_raw_request(method, params, opts, **more)
            return self._malformed.left_out(answer) if method == "tools/list" else answer

        async def run(self, on_request: Any, on_notify: Any, on_notify_intercept: Any = None, **more: Any) -> None:
            def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
                if method == "notifications/progress":
                    self._progress.tell(params or {})
                if on_notify_intercept is not None and on_notify_intercept(method, params):
                    return True
                return method not in _NEEDED

            await super().run(on_request, on_notify, intercept, **more)

    return Dispatcher


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _name(tool: Json, place: int) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name[:_LISTED] if isinstance(name, str) and name else f"#{place + 1}"
