"""The methods of tasks: the extension of 2026-07-28 and the methods of 2025-11-25, over the same tasks.

A client that declares the extension gets a task for every flow. A client of 2025-11-25 asks for one in the parameters
of its call. Tasks of servers behind a gateway get the server's name before their id, and are passed through.

All clients over HTTP show the same token. So a task of 2025-11-25 belongs to its session while that is open, and there
is no `tasks/list`. A task of 2026-07-28, which has no sessions, belongs to everyone who knows its id.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ...errors import message_of
from ...tools.mcp.requests import ServerRefused
from ...values import Json
from .client_channel import TASKS, ClientChannel
from .results import TASK_SEPARATOR, protocol_error
from .tasks import POLL_INTERVAL, TERMINAL, Tasks
from .tool_source import ExposedTool
from .waits import for_older_client

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from ...app.app import App

RELATED: Final = "io.modelcontextprotocol/related-task"
_OLDER_CAPABILITY: Final[dict[str, Any]] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
_TIMEOUT: Final = 60.0  # seconds for a server behind to answer about a task
_OLDER_FIELDS: Final[dict[str, str]] = {"ttlMs": "ttl", "pollIntervalMs": "pollInterval"}
_OLDER_TASK: Final[tuple[str, ...]] = (
    "taskId",
    "status",
    "statusMessage",
    "createdAt",
    "lastUpdatedAt",
    "ttlMs",
    "pollIntervalMs",
)


class TaskMethods:
    """Serves `tasks/*`, and turns calls of flows into tasks."""

    def __init__(self, app: App, tasks: Tasks) -> None:
        self._app, self.tasks = app, tasks
        # The tasks that each open session of 2025-11-25 has created, by its connection.
        self._created: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self.has_one_client: Callable[[], bool] = lambda: False
        """Returns True where all requests come from one client."""

    def register(self, server: Server[Any]) -> None:
        """Add the methods and the capability to a server."""
        import mcp_types as types

        class TaskParams(types.RequestParams):
            task_id: str

        class UpdateParams(TaskParams):
            input_responses: dict[str, Any]

        server.extensions[TASKS] = {}
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)
        server.add_request_handler("tasks/result", TaskParams, self._result)
        server.add_request_handler("tasks/list", types.PaginatedRequestParams, self._list)

    def older_capability(self) -> Any:
        """Return the capability that 2025-11-25 has for tasks."""
        from mcp_types import ServerTasksCapability

        listing: dict[str, Any] = {"list": {}} if self.has_one_client() else {}
        return ServerTasksCapability.model_validate(_OLDER_CAPABILITY | listing)

    # --- creating

    async def created(
        self, tool: ExposedTool, args: dict[str, Json], key: str | None, client: ClientChannel, requested: bool
    ) -> dict[str, Any] | None:
        """Create a task for a call, if the tool and the client support tasks."""
        if tool.task is None or not (client.takes_tasks if client.is_modern else requested):
            if tool.task_only:
                raise _needs_tasks(client)
            return None
        task = await self.tasks.create(tool, args, key)
        if client.is_modern:
            return _new_task(task)
        if not self.has_one_client():
            self._note_created(client.id, task["taskId"])
        return {"task": _older(task)}

    def _note_created(self, connection: Any, task_id: str) -> None:
        if connection not in self._created:
            connection.exit_stack.callback(self._created.pop, connection, None)
        self._created.setdefault(connection, set()).add(task_id)

    def _check(self, ctx: Any, task_id: str | None, *, modern: bool | None = None) -> bool:
        """Check that a client may send this request; return True if it speaks 2026-07-28."""
        is_modern = _check_revision(ctx, task_id, modern=modern)
        owners = [connection for connection, ids in self._created.items() if task_id in ids]
        if not is_modern and owners and ctx.session._connection not in owners:
            raise _unknown_task(task_id)
        return is_modern

    # --- methods

    async def _get(self, ctx: Any, params: Any) -> dict[str, Any]:
        is_modern = self._check(ctx, params.task_id)
        passed = await self._ask_owner("tasks/get", params.task_id)
        if passed is not None:
            return {**passed, "taskId": params.task_id}
        task = await _known(self.tasks.get, params.task_id)
        return task if is_modern else _older(task)

    async def _update(self, ctx: Any, params: Any) -> dict[str, Any]:
        self._check(ctx, params.task_id, modern=True)
        responses = {"inputResponses": params.input_responses}
        if await self._ask_owner("tasks/update", params.task_id, responses) is None:
            await _known(lambda id: self.tasks.update(id, params.input_responses), params.task_id)
        return {}

    async def _cancel(self, ctx: Any, params: Any) -> dict[str, Any]:
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        is_modern = self._check(ctx, params.task_id)
        if await self._ask_owner("tasks/cancel", params.task_id) is not None:
            return {}
        before = await _known(self.tasks.get, params.task_id)
        if not is_modern and before["status"] in TERMINAL:
            raise MCPError(INVALID_PARAMS, f"task {params.task_id} has ended: {before['status']}")
        await _known(self.tasks.cancel, params.task_id)
        return {} if is_modern else {**_older(before), "status": "cancelled"}

    async def _result(self, ctx: Any, params: Any) -> dict[str, Any]:
        """Answer `tasks/result` of 2025-11-25: wait for the end, and ask the client for what the task needs."""
        from mcp import MCPError
        from mcp_types import INTERNAL_ERROR

        self._check(ctx, params.task_id, modern=False)
        client = ClientChannel(ctx, ctx.session._connection)
        while True:
            task = await _known(self.tasks.result, params.task_id)
            if task["status"] != "input_required":
                break
            for path, request in task["inputRequests"].items():
                response = await client.ask(request["method"], for_older_client(path, request["params"]))
                await self.tasks.update(params.task_id, {path: response})
        if "result" in task:
            result: dict[str, Any] = task["result"]
            return {**result, "_meta": {**(result.get("_meta") or {}), RELATED: {"taskId": params.task_id}}}
        error = task.get("error") or {"code": INTERNAL_ERROR, "message": f"the task ended as {task['status']}"}
        raise MCPError(error["code"], error["message"])

    async def _list(self, ctx: Any, params: Any) -> dict[str, Any]:
        from mcp import MCPError
        from mcp_types import METHOD_NOT_FOUND

        self._check(ctx, None, modern=False)
        if not self.has_one_client():
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        return {"tasks": [_older(task) for task in await self.tasks.list()]}

    async def _ask_owner(self, method: str, id: str, more: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Pass a request on to the server behind that owns a task; None if no server does."""
        from mcp import MCPError
        from mcp_types import INTERNAL_ERROR

        servers = self._app.toolbox.mcp
        server, separator, inner = id.partition(TASK_SEPARATOR)
        if not separator or servers is None or server not in servers.names:
            return None
        try:
            result: dict[str, Any] = await servers.ask(
                server, lambda session: _ask(session, method, {"taskId": inner, **(more or {})}), method, _TIMEOUT
            )
        except ServerRefused as error:
            raise protocol_error(error) from error
        except (ConnectionError, TimeoutError) as error:
            raise MCPError(INTERNAL_ERROR, message_of(error)) from error
        return {key: value for key, value in result.items() if key != "_meta"}


async def _ask(session: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request that the SDK's session does not know."""
    import mcp_types as types
    from pydantic import TypeAdapter

    class TaskRequest(types.Request[dict[str, Any], str]):
        name_param = "taskId"

    request = TaskRequest(method=method, params=params)
    result: dict[str, Any] = await session.send_request(request, TypeAdapter(dict[str, Any]))
    return result


def _check_revision(ctx: Any, task_id: str | None, *, modern: bool | None) -> bool:
    """Check that the revision of a client has this request; return True if it is 2026-07-28."""
    from mcp import MCPError
    from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
    from mcp_types import HEADER_MISMATCH, METHOD_NOT_FOUND
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    if modern is not None and is_modern is not modern:
        raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
    if is_modern:
        client = ClientChannel(ctx, None)
        if not client.takes_tasks:
            raise _needs_tasks(client)
        headers = getattr(ctx.request, "headers", None)
        # The SDK compares the names of its own methods only.
        if headers is not None and decode_header_value(headers.get(MCP_NAME_HEADER)) != task_id:
            raise MCPError(HEADER_MISMATCH, f"the header Mcp-Name must be the task id {task_id!r}")
    return is_modern


def _needs_tasks(client: ClientChannel) -> Exception:
    from mcp import MCPError
    from mcp_types import INVALID_REQUEST, MISSING_REQUIRED_CLIENT_CAPABILITY

    if not client.is_modern:
        return MCPError(INVALID_REQUEST, "this tool runs only as a task: send `task` with the call")
    data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"the client must declare the extension {TASKS}", data)


async def _known(operation: Callable[[str], Awaitable[Any]], id: str) -> Any:
    try:
        return await operation(id)
    except KeyError:
        raise _unknown_task(id) from None


def _unknown_task(id: str | None) -> Exception:
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS

    return MCPError(INVALID_PARAMS, f"Unknown task: {id}")


def _new_task(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task as the result of the call that has created it."""
    shown = {key: task[key] for key in _OLDER_TASK if key in task}
    return {**shown, "resultType": "task"}


def _older(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task in the fields of 2025-11-25."""
    shown: dict[str, Any] = {}
    for key in _OLDER_TASK:
        if key in task:
            shown[_OLDER_FIELDS.get(key, key)] = task[key]
    return {**shown, "pollInterval": shown.get("pollInterval", POLL_INTERVAL)}
