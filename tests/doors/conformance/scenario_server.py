"""The server behind the gateway: what the conformance scenarios ask for by name, in both revisions.

`scenario_server.py` serves stdio. A client of an older revision is asked while the call waits; one of 2026-07-28 gets
results that ask for input.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import warnings
from typing import Any

import mcp_types as types
from conformance_tools import png
from mcp import MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.message import ServerMessageMetadata

KEY = os.urandom(16)
ANY = {"type": "object", "properties": {}}
TASKS = "io.modelcontextprotocol/tasks"
MISSING_CAPABILITY = -32021


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT = {"type": "string"}
NAME = {"message": "What is your name?", "requestedSchema": schema(name=TEXT)}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
TITLED = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
OPTIONS = ["option1", "option2", "option3"]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}
SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}],
    "maxTokens": 100,
}
PERSON = {"message": "Who are you?", "requestedSchema": schema(username=TEXT, email=TEXT)}

# The input requests of each tool, by key; those of several rounds as a list.
ASKS: dict[str, list[dict[str, Any]]] = {
    "test_elicitation": [{"user": {"method": "elicitation/create", "params": PERSON}}],
    "test_elicitation_sep1034_defaults": [
        {
            "user": {
                "method": "elicitation/create",
                "params": {"message": "Defaults", "requestedSchema": schema(**DEFAULTS)},
            }
        }
    ],
    "test_elicitation_sep1330_enums": [
        {"user": {"method": "elicitation/create", "params": {"message": "Enums", "requestedSchema": schema(**ENUMS)}}}
    ],
    "test_sampling": [{"model": {"method": "sampling/createMessage", "params": SAMPLE}}],
    "test_streaming_elicitation": [{"user_name": {"method": "elicitation/create", "params": NAME}}],
    "test_input_required_result_elicitation": [{"user_name": {"method": "elicitation/create", "params": NAME}}],
    "test_input_required_result_sampling": [
        {"capital_question": {"method": "sampling/createMessage", "params": SAMPLE}}
    ],
    "test_input_required_result_list_roots": [{"client_roots": {"method": "roots/list", "params": {}}}],
    "test_input_required_result_request_state": [
        {
            "confirm": {
                "method": "elicitation/create",
                "params": {"message": "Please confirm", "requestedSchema": schema(ok={"type": "boolean"})},
            }
        }
    ],
    "test_input_required_result_multiple_inputs": [
        {
            "user_name": {"method": "elicitation/create", "params": NAME},
            "greeting": {"method": "sampling/createMessage", "params": SAMPLE},
            "client_roots": {"method": "roots/list", "params": {}},
        }
    ],
    "test_input_required_result_multi_round": [
        {"step1": {"method": "elicitation/create", "params": NAME}},
        {
            "step2": {
                "method": "elicitation/create",
                "params": {"message": "Which color?", "requestedSchema": schema(color=TEXT)},
            }
        },
    ],
    "test_input_required_result_tampered_state": [{"confirm": {"method": "elicitation/create", "params": NAME}}],
    "test_input_required_result_capabilities": [
        {
            "user_name": {"method": "elicitation/create", "params": NAME},
            "greeting": {"method": "sampling/createMessage", "params": SAMPLE},
        }
    ],
    "test_tool_with_task": [{"user_name": {"method": "elicitation/create", "params": NAME}}],
}
CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
RESULTS = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}
REQUESTS = {
    "elicitation/create": types.ElicitRequest,
    "sampling/createMessage": types.CreateMessageRequest,
    "roots/list": types.ListRootsRequest,
}
OTHER_TOOLS = (
    "test_tool_with_logging",
    "test_logging_tool",
    "test_missing_capability",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "protocol_error_job",
)


def text(value: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=value)])


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def opened(sealed_state: str) -> str:
    state = sealed_state.partition(".")[0]
    if not hmac.compare_digest(sealed(state), sealed_state):
        raise MCPError(types.INVALID_PARAMS, "the request state is not ours")
    return state


class Tasks:
    """The tasks of the server, in memory."""

    def __init__(self) -> None:
        self._tasks: dict[str, dict[str, Any]] = {}

    def create(self, id: str, **outcome: Any) -> dict[str, Any]:
        shown = {
            "taskId": id,
            "status": "working",
            "createdAt": "2026-11-27T08:00:00Z",
            "lastUpdatedAt": "2026-11-27T08:00:00Z",
            "ttlMs": 60_000,
        }
        self._tasks[id] = {**shown, **outcome}
        return {**shown, "resultType": "task"}

    async def get(self, ctx: Any, params: Any) -> dict[str, Any]:
        task = self._tasks.get(params.task_id)
        if task is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown task {params.task_id}")
        return task


class Scenarios:
    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.tasks = Tasks()
        self.extra_tools: list[str] = []
        self.extra_prompts: list[str] = []

    async def list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        names = [*ASKS, *OTHER_TOOLS, *self.extra_tools]
        return types.ListToolsResult(
            tools=[types.Tool(name=name, description=f"{name}.", input_schema=ANY) for name in names]
        )

    async def call(self, ctx: Any, params: Any) -> Any:
        if params.name in ASKS:
            return await self.ask(ctx, params)
        other = getattr(self, params.name, None)
        if params.name not in OTHER_TOOLS or other is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await other(ctx)

    async def ask(self, ctx: Any, params: Any) -> Any:
        """Answer a tool that needs input: from the client now, or by a result that asks for it."""
        rounds = ASKS[params.name]
        if ctx.session.can_send_request:
            answers = {}
            for requests in rounds:
                for key, request in requests.items():
                    answers[key] = await self.send(ctx, request)
            return text(f"answers: {json.dumps(answers)}")
        number = 0
        if params.request_state is not None:
            number = int(opened(params.request_state).rpartition("-")[2])
        capabilities = (ctx.session.client_capabilities or types.ClientCapabilities()).model_dump(exclude_none=True)
        requests = {key: item for key, item in rounds[number].items() if CAPABILITY[item["method"]] in capabilities}
        responses = params.input_responses or {}
        if set(requests) <= set(responses):
            number += 1
            if number == len(rounds):
                return self.answered(params.name, {key: responses[key] for key in requests})
            requests = rounds[number]
        has_state = len(rounds) > 1 or "state" in params.name or "multiple" in params.name
        state = sealed(f"{params.name}-{number}") if has_state else None
        return types.InputRequiredResult.model_validate({"inputRequests": requests, "requestState": state})

    def answered(self, name: str, responses: dict[str, Any]) -> Any:
        said = {key: item.model_dump(mode="json", exclude_none=True) for key, item in responses.items()}
        result = text(f"state-ok, answers: {json.dumps(said)}")
        if name != "test_tool_with_task":
            return result
        shown = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return self.tasks.create("named", status="completed", result=shown)

    async def send(self, ctx: Any, request: dict[str, Any]) -> Any:
        made = REQUESTS[request["method"]].model_validate(request)
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        result: Any = await ctx.session.send_request(made, RESULTS[request["method"]], metadata=related)
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def test_tool_with_logging(self, ctx: Any) -> Any:
        for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            note = types.LoggingMessageNotification.model_validate({"params": {"level": "info", "data": message}})
            await ctx.session.send_notification(note, related_request_id=ctx.request_id)
            await asyncio.sleep(0.05)
        return text("logged")

    async def test_logging_tool(self, ctx: Any) -> Any:
        with warnings.catch_warnings(action="ignore"):  # the revision that has this deprecates it
            await ctx.session.send_log_message("info", "only for those who asked", related_request_id=ctx.request_id)
        return text("done")

    async def test_missing_capability(self, ctx: Any) -> Any:
        capabilities = ctx.session.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            data = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_CAPABILITY, "Missing required client capability", data)
        return text("sampled")

    async def test_trigger_tool_change(self, ctx: Any) -> Any:
        self.extra_tools.append(f"extra_{len(self.extra_tools)}")
        await self.bus.publish(ToolsListChanged())
        return text("changed")

    async def test_trigger_prompt_change(self, ctx: Any) -> Any:
        self.extra_prompts.append(f"extra_{len(self.extra_prompts)}")
        await self.bus.publish(PromptsListChanged())
        return text("changed")

    async def protocol_error_job(self, ctx: Any) -> Any:
        return self.tasks.create(
            "broken", status="failed", error={"code": types.INTERNAL_ERROR, "message": "the job is broken"}
        )

    # --- prompts, resources, completions

    async def list_prompts(self, ctx: Any, params: Any) -> types.ListPromptsResult:
        arguments = {
            "test_prompt_with_arguments": ["arg1", "arg2"],
            "test_prompt_with_embedded_resource": ["resourceUri"],
        }
        names = ["test_simple_prompt", *arguments, "test_prompt_with_image", "test_input_required_result_prompt"]
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=name,
                    description=f"{name}.",
                    arguments=[types.PromptArgument(name=arg, required=True) for arg in arguments.get(name, ())],
                )
                for name in [*names, *self.extra_prompts]
            ]
        )

    async def get_prompt(self, ctx: Any, params: Any) -> Any:
        arguments = params.arguments or {}
        last = "Please look at it."
        parts: list[Any] = []
        if params.name == "test_input_required_result_prompt":
            answer = (params.input_responses or {}).get("user_context")
            if answer is None:
                wanted = {"message": "Which context?", "requestedSchema": schema(context=TEXT)}
                requests = {"user_context": {"method": "elicitation/create", "params": wanted}}
                return types.InputRequiredResult.model_validate({"inputRequests": requests})
            last = f"Use {answer.content}"
        elif params.name == "test_simple_prompt":
            last = "This is a simple prompt for testing."
        elif params.name == "test_prompt_with_arguments":
            last = f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"
        elif params.name == "test_prompt_with_embedded_resource":
            inside = types.TextResourceContents(
                uri=arguments["resourceUri"], mime_type="text/plain", text="Embedded resource content for testing."
            )
            parts = [types.EmbeddedResource(type="resource", resource=inside)]
        else:
            parts = [types.ImageContent(type="image", data=png(), mime_type="image/png")]
        parts.append(types.TextContent(type="text", text=last))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=part) for part in parts])

    async def list_resources(self, ctx: Any, params: Any) -> types.ListResourcesResult:
        names = ("static-text", "static-binary", "watched-resource")
        return types.ListResourcesResult(
            resources=[types.Resource(uri=f"test://{name}", name=name, description=f"{name}.") for name in names]
        )

    async def list_templates(self, ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, ctx: Any, params: Any) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri == "test://static-binary":
            contents: Any = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=png())
        elif uri.startswith("test://template/"):
            said = json.dumps({"id": uri.split("/")[3], "templateTest": True})
            contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=said)
        elif uri in ("test://static-text", "test://watched-resource"):
            said = "This is the content of the static text resource."
            contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=said)
        else:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        return types.ReadResourceResult(contents=[contents])

    async def complete(self, ctx: Any, params: Any) -> types.CompleteResult:
        near = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=near, total=len(near), has_more=False))


async def nothing(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


class TaskParams(types.RequestParams):
    task_id: str


async def main() -> None:
    scenarios = Scenarios()
    server: Server[Any] = Server(
        "scenarios",
        on_list_tools=scenarios.list_tools,
        on_call_tool=scenarios.call,
        on_list_prompts=scenarios.list_prompts,
        on_get_prompt=scenarios.get_prompt,
        on_list_resources=scenarios.list_resources,
        on_list_resource_templates=scenarios.list_templates,
        on_read_resource=scenarios.read_resource,
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_completion=scenarios.complete,
        on_subscriptions_listen=ListenHandler(scenarios.bus),
    )
    server.extensions[TASKS] = {}
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    server.add_request_handler("tasks/get", TaskParams, scenarios.tasks.get)
    changes = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(changes))


if __name__ == "__main__":
    asyncio.run(main())
