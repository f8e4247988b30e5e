"""An MCP server that asks a person before it deploys, in both eras, over stdio or over HTTP on the port it is given.

`deploy` asks for the branch and then for a confirmation. `pair` asks both at once where the era has that. `twice`
asks one question twice. `pay` sends the person to an address. `draft` asks a model and a person at once. `endless`
asks 12 times. Each call adds a line to the file that LEDGER names: its key, and the kinds of its answers. If the file
LEDGER.forget is there, the server has forgotten its state once.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

BRANCH = {
    "type": "object",
    "properties": {
        "branch": {"type": "string", "enum": ["main", "next"]},
        "copies": {"type": "integer", "minimum": 1, "default": 2},
    },
    "required": ["branch"],
}
SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
ROUNDS: dict[str, list[dict[str, dict[str, Any]]]] = {
    "deploy": [
        {"branch": {"mode": "form", "message": "Which branch of {service}?", "requestedSchema": BRANCH}},
        {"sure": {"mode": "form", "message": "Deploy {service}?", "requestedSchema": SURE}},
    ],
    "pay": [{"pay": {"mode": "url", "message": "Pay for {service}", "url": "https://pay.example/{service}"}}],
}
ROUNDS["twice"] = [{"first": ROUNDS["deploy"][1]["sure"]}, {"second": ROUNDS["deploy"][1]["sure"]}]
ROUNDS["pair"] = [{**ROUNDS["deploy"][0], **ROUNDS["deploy"][1]}]
PROMPT = {"role": "user", "content": {"type": "text", "text": "A note for {service}"}}
ROUNDS["draft"] = [{"note": {"messages": [PROMPT], "maxTokens": 9}, **ROUNDS["deploy"][1]}]
ROUNDS["endless"] = [{f"sure{number}": ROUNDS["deploy"][1]["sure"]} for number in range(12)]
SERVICE = {"type": "object", "properties": {"service": {"type": "string"}}, "required": ["service"]}


async def list_tools(_: object, __: object) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=SERVICE) for name in ROUNDS])


def asked(name: str, number: int, service: str) -> dict[str, dict[str, Any]]:
    """The parameters of the questions of a round, by their keys."""
    text = json.dumps(ROUNDS[name][number]).replace("{service}", service)
    return dict(json.loads(text))


def note(line: dict[str, Any]) -> None:
    with open(os.environ["LEDGER"], "a") as ledger:
        print(json.dumps(line), file=ledger)


def has_forgotten() -> bool:
    try:
        os.remove(os.environ["LEDGER"] + ".forget")
    except FileNotFoundError:
        return False
    return True


async def call(ctx: Any, params: types.CallToolRequestParams) -> Any:
    service = (params.arguments or {})["service"]
    note({"key": (ctx.meta or {}).get("ropewalk/idempotencyKey"), "answers": sorted(params.input_responses or {})})
    if params.request_state is not None and has_forgotten():
        raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState")
    answers: dict[str, Any] = json.loads(params.request_state or "{}")
    if ctx.session.can_send_request:  # the older era: the call stays open meanwhile
        for number in range(len(ROUNDS[params.name])):
            for name, question in asked(params.name, number, service).items():
                if "url" in question:
                    result = await ctx.session.elicit_url(
                        question["message"], question["url"], "1", related_request_id=ctx.request_id
                    )
                else:
                    result = await ctx.session.elicit_form(
                        question["message"], question["requestedSchema"], related_request_id=ctx.request_id
                    )
                answers[name] = result.model_dump(mode="json", exclude_none=True)
        return types.CallToolResult(content=[], structured_content={"service": service, **answers})
    for name, response in (params.input_responses or {}).items():
        answers[name] = response.model_dump(mode="json", exclude_none=True)
    for number in range(len(ROUNDS[params.name])):
        questions = asked(params.name, number, service)
        if not set(questions) <= set(answers):
            requests = {
                name: {
                    "method": "sampling/createMessage" if "messages" in item else "elicitation/create",
                    "params": item,
                }
                for name, item in questions.items()
            }
            state = {"inputRequests": requests, "requestState": json.dumps(answers)}
            return types.InputRequiredResult.model_validate(state)
    return types.CallToolResult(content=[], structured_content={"service": service, **answers})


server = Server("asker", on_list_tools=list_tools, on_call_tool=call)


async def stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def http(port: int) -> None:
    import uvicorn

    class Ready(uvicorn.Server):
        async def startup(self, *args: Any, **kwargs: Any) -> None:
            await super().startup(*args, **kwargs)
            print("ready", flush=True)

    config = uvicorn.Config(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="error")
    Ready(config).run()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        http(int(sys.argv[1]))
    else:
        asyncio.run(stdio())
