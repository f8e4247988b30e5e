"""The makers' own SDKs, each behind the same few words: they say whether a stand-in behaves as its API does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

TOOL = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}


@dataclass
class Reply:
    """An answer: its text, its calls as (id, name, input), and what the SDK's user sends back next time."""

    text: str = ""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    refused: bool = False
    cached: int = 0
    back: list[Any] = field(default_factory=list)


class Chat:
    def __init__(self, url: str) -> None:
        from openai import AsyncOpenAI

        self.client = AsyncOpenAI(base_url=f"{url}/v1", api_key="no-key", max_retries=2)

    async def close(self) -> None:
        await self.client.close()

    def user(self, text: str, image: str | None = None) -> Any:
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
        return {"role": "user", "content": [{"type": "text", "text": text}, picture] if image else text}

    def results(self, reply: Reply, value: str) -> list[Any]:
        return [{"role": "tool", "tool_call_id": id, "content": value} for id, _, _ in reply.calls]

    async def say(self, history: list[Any], stream: bool, schema: Any = None) -> Reply:
        function = {"name": "add", "description": "Adds.", "parameters": TOOL}
        given: dict[str, Any] = {
            "model": "gpt-4o",
            "messages": history,
            "tools": [{"type": "function", "function": function}],
        }
        if schema:
            form = {"name": "answer", "schema": schema, "strict": True}
            given["response_format"] = {"type": "json_schema", "json_schema": form}
        if stream:
            async with self.client.chat.completions.stream(**given, stream_options={"include_usage": True}) as events:
                async for _ in events:
                    pass
                done = await events.get_final_completion()
        else:
            done = await self.client.chat.completions.create(**given)
        choice = done.choices[0]
        if choice.finish_reason is None:
            raise ConnectionError("the stream ended without a reason")
        message = choice.message
        calls = [
            (call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()
        ]
        back = message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True)
        for call in back.get("tool_calls", ()):
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        usage = done.usage.prompt_tokens_details if done.usage else None
        refused = message.refusal is not None
        return Reply(message.content or "", calls, refused, (usage.cached_tokens or 0) if usage else 0, [back])


class Responses:
    def __init__(self, url: str) -> None:
        from openai import AsyncOpenAI

        self.client = AsyncOpenAI(base_url=f"{url}/v1", api_key="no-key", max_retries=2)

    async def close(self) -> None:
        await self.client.close()

    def user(self, text: str, image: str | None = None) -> Any:
        picture = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{image}"}
        return {"role": "user", "content": [{"type": "input_text", "text": text}, picture] if image else text}

    def results(self, reply: Reply, value: str) -> list[Any]:
        return [{"type": "function_call_output", "call_id": id, "output": value} for id, _, _ in reply.calls]

    async def say(self, history: list[Any], stream: bool, schema: Any = None) -> Reply:
        tool = {"type": "function", "name": "add", "description": "Adds.", "parameters": TOOL, "strict": False}
        given: dict[str, Any] = {"model": "gpt-5", "input": history, "tools": [tool], "store": False}
        given["include"] = ["reasoning.encrypted_content"]
        if schema:
            given["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}}
        if stream:
            async with self.client.responses.stream(**given) as events:
                async for _ in events:
                    pass
                done = await events.get_final_response()
        else:
            done = await self.client.responses.create(**given)
        calls = [
            (item.call_id, item.name, json.loads(item.arguments))
            for item in done.output
            if item.type == "function_call"
        ]
        refused = any(part.type == "refusal" for item in done.output if item.type == "message" for part in item.content)
        back = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in done.output]
        for item in back:
            for part in item.get("content") or ():
                part.pop("parsed", None)
        cached = done.usage.input_tokens_details.cached_tokens if done.usage else 0
        return Reply(done.output_text, calls, refused, cached, back)


class Messages:
    def __init__(self, url: str) -> None:
        from anthropic import AsyncAnthropic

        self.client = AsyncAnthropic(base_url=url, api_key="no-key", max_retries=2)

    async def close(self) -> None:
        await self.client.close()

    def user(self, text: str, image: str | None = None) -> Any:
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}
        return {"role": "user", "content": [{"type": "text", "text": text}, picture] if image else text}

    def results(self, reply: Reply, value: str) -> list[Any]:
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": value} for id, _, _ in reply.calls]
        return [{"role": "user", "content": blocks}]

    async def say(self, history: list[Any], stream: bool, schema: Any = None) -> Reply:
        tool = {"name": "add", "description": "Adds.", "input_schema": TOOL}
        given: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 1000, "messages": history, "tools": [tool]}
        if schema:
            given["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if stream:
            async with self.client.messages.stream(**given) as events:
                done = await events.get_final_message()
        else:
            done = await self.client.messages.create(**given)
        if done.stop_reason is None:
            raise ConnectionError("the stream ended without a reason")
        text = "".join(block.text for block in done.content if block.type == "text")
        calls = [(block.id, block.name, dict(block.input)) for block in done.content if block.type == "tool_use"]
        blocks = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in done.content]
        back = {"role": "assistant", "content": blocks}
        return Reply(text, calls, done.stop_reason == "refusal", done.usage.cache_read_input_tokens or 0, [back])


class Gemini:
    def __init__(self, url: str) -> None:
        from google import genai
        from google.genai import types

        retry = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.01)
        options = types.HttpOptions(base_url=url, retry_options=retry)
        self.client = genai.Client(api_key="no-key", http_options=options)

    async def close(self) -> None:
        await self.client.aio.aclose()

    def user(self, text: str, image: str | None = None) -> Any:
        picture = {"inline_data": {"mime_type": "image/png", "data": image}}
        return {"role": "user", "parts": [{"text": text}, *([picture] if image else [])]}

    def results(self, reply: Reply, value: str) -> list[Any]:
        parts = [
            {"function_response": {"id": id, "name": name, "response": {"result": value}}}
            for id, name, _ in reply.calls
        ]
        return [{"role": "user", "parts": parts}]

    async def say(self, history: list[Any], stream: bool, schema: Any = None) -> Reply:
        declaration = {"name": "add", "description": "Adds.", "parameters_json_schema": TOOL}
        config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
        if schema:
            config |= {"response_mime_type": "application/json", "response_json_schema": schema}
        else:
            config["tools"] = [{"function_declarations": [declaration]}]
        given: dict[str, Any] = {"model": "gemini-2.5-flash", "contents": history, "config": config}
        models = self.client.aio.models
        chunks = (
            [chunk async for chunk in await models.generate_content_stream(**given)]
            if stream
            else [await models.generate_content(**given)]
        )
        contents = [one.content for chunk in chunks for one in chunk.candidates or () if one.content is not None]
        parts = [part for content in contents for part in content.parts or () if part.text != ""]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        calls = [
            (part.function_call.id, part.function_call.name, dict(part.function_call.args))
            for part in parts
            if part.function_call
        ]
        ended = any(one.finish_reason for chunk in chunks for one in chunk.candidates or ())
        refused = any(chunk.prompt_feedback is not None for chunk in chunks)
        if not ended and not refused:
            raise ConnectionError("the stream ended without a reason")
        cached = chunks[-1].usage_metadata.cached_content_token_count or 0
        return Reply(text, calls, refused, cached, [{"role": "model", "parts": parts}])


SDKS = {"chat": Chat, "responses": Responses, "messages": Messages, "gemini": Gemini}
