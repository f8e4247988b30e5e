"""Twenty requests for each API that its documentation forbids, each with the rule that it breaks."""

from __future__ import annotations

from typing import Any

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}
STRICT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
Case = tuple[str, dict[str, Any]]


def _chat() -> list[Case]:
    user = {"role": "user", "content": "hi"}
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    calling = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    function = {"name": "add", "parameters": OBJECT}
    tool = {"type": "function", "function": function}

    def ask(*messages: Any, **more: Any) -> dict[str, Any]:
        return {"model": "gpt-4o", "messages": list(messages or (user,)), **more}

    def of_function(**more: Any) -> dict[str, Any]:
        return {"type": "function", "function": {**function, **more}}

    form = {"name": "answer", "schema": STRICT}
    return [
        ("messages may not be empty", {"model": "gpt-4o", "messages": []}),
        ("an unknown argument", ask(max_rounds=3)),
        ("an unknown role", ask({"role": "robot", "content": "hi"})),
        ("a result without a call", ask(user, result)),
        ("a call without a result", ask(user, calling, user)),
        ("a call without a result at the end", ask(user, calling)),
        ("two calls of one id", ask(user, {**calling, "tool_calls": [call, call]}, result, result)),
        ("content may be null only beside calls", ask(user, {"role": "assistant", "content": None})),
        ("content may not be empty", ask({"role": "user", "content": []})),
        ("a result has only text", ask(user, calling, {**result, "content": [{"type": "image_url"}]})),
        ("an image is a data URL or an address", ask({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x.png"}}]})),
        ("a name has letters, digits, - and _", ask(tools=[of_function(name="files:read")])),
        ("a name has at most 64 characters", ask(tools=[of_function(name="x" * 65)])),
        ("parameters are an object", ask(tools=[of_function(parameters={"type": "array"})])),
        ("strict forbids other properties", ask(tools=[of_function(parameters=STRICT, strict=True)])),
        ("at most 128 tools", ask(tools=[of_function(name=f"t{n}") for n in range(129)])),
        ("a choice of a tool that is not offered", ask(tools=[tool], tool_choice={"type": "function", "function": {"name": "x"}})),
        ("a choice without tools", ask(tool_choice="required")),
        ("stream_options only in a stream", ask(stream_options={"include_usage": True})),
        ("at most four stop sequences", ask(stop=["a", "b", "c", "d", "e"])),
        ("a strict answer lists all properties", ask(response_format={"type": "json_schema", "json_schema": {**form, "strict": True}})),
        ("a reasoning model has no temperature", {**ask(temperature=0.5), "model": "gpt-5"}),
        ("a reasoning model has no max_tokens", {**ask(max_tokens=10), "model": "gpt-5"}),
    ]  # fmt: skip


def _responses() -> list[Case]:
    user = {"role": "user", "content": "hi"}
    call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "1"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    text = {"type": "output_text", "text": "hi", "annotations": []}
    tool = {"type": "function", "name": "add", "parameters": OBJECT, "strict": False}
    form = {"type": "json_schema", "name": "answer", "schema": STRICT}

    def ask(*items: Any, **more: Any) -> dict[str, Any]:
        return {"model": "gpt-5", "input": list(items or (user,)), **more}

    return [
        ("an input is needed", {"model": "gpt-5"}),
        ("an unknown parameter", ask(messages=[])),
        ("an unknown kind of item", ask({"type": "thought", "text": "hm"})),
        ("a result without a call", ask(user, result)),
        ("a call without a result", ask(user, call)),
        ("two calls of one id", ask(user, call, call, result)),
        ("reasoning without what follows it", ask(user, reasoning)),
        ("reasoning that a user follows", ask(user, reasoning, user)),
        ("reasoning that is not stored", ask(user, {**reasoning, "encrypted_content": None}, {**said, "content": [text]}, store=False)),
        ("the id of a call begins with fc", ask(user, {**call, "id": "call_1"}, result)),
        ("the id of a message begins with msg", ask({**said, "id": "x", "content": [text]})),
        ("content may not be empty", ask({"role": "user", "content": []})),
        ("a user writes input_text", ask({"type": "message", "role": "user", "content": [text]})),
        ("an image is a data URL or an address", ask({"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": "x.png"}]})),
        ("a name has letters, digits, - and _", ask(tools=[{**tool, "name": "a b"}])),
        ("parameters are an object", ask(tools=[{**tool, "parameters": {"type": "string"}}])),
        ("strict forbids other properties", ask(tools=[{**tool, "parameters": STRICT, "strict": True}])),
        ("a choice of a tool that is not offered", ask(tools=[tool], tool_choice={"type": "function", "name": "x"})),
        ("a choice without tools", ask(tool_choice="required")),
        ("at least 16 tokens", ask(max_output_tokens=5)),
        ("a strict answer lists all properties", ask(text={"format": {**form, "strict": True}})),
        ("a reasoning model has no temperature", ask(temperature=0.5)),
    ]  # fmt: skip


def _gemini() -> list[Case]:
    user = {"role": "user", "parts": [{"text": "hi"}]}
    call = {"role": "model", "parts": [{"functionCall": {"name": "add", "args": {}}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": {"result": 1}}}]}
    schema = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}

    def ask(*contents: Any, **more: Any) -> dict[str, Any]:
        return {"contents": list(contents or (user,)), **more}

    def tools(**function: Any) -> dict[str, Any]:
        return ask(tools=[{"functionDeclarations": [{"name": "add", "parameters": schema, **function}]}])

    def config(**config: Any) -> dict[str, Any]:
        return ask(generationConfig=config)

    return [
        ("contents may not be empty", {"contents": []}),
        ("an unknown field", ask(messages=[])),
        ("an unknown role", ask({"role": "assistant", "parts": [{"text": "hi"}]})),
        ("parts may not be empty", ask({"role": "user", "parts": []})),
        ("a part has data", ask({"role": "user", "parts": [{}]})),
        ("an unknown kind of part", ask({"role": "user", "parts": [{"image": "x"}]})),
        ("a result without a call", ask(user, result)),
        ("a call without a result", ask(user, call, user)),
        ("fewer results than calls", ask(user, {"role": "model", "parts": call["parts"] * 2}, result)),
        ("a call first", ask(call, result)),
        ("a call without a result at the end", ask(user, call)),
        ("a result is an object", ask(user, call, {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": "1"}}]})),
        ("a file has a type", ask({"role": "user", "parts": [{"inlineData": {"data": "aGk="}}]})),
        ("a file is base64", ask({"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "?"}}]})),
        ("a name begins with a letter", tools(name="1add")),
        ("a name has at most 64 characters", tools(name="x" * 65)),
        ("a keyword that the schema does not have", tools(parameters={**schema, "additionalProperties": False})),
        ("a required property that is not defined", tools(parameters={**schema, "required": ["b"]})),
        ("an array without items", tools(parameters={"type": "OBJECT", "properties": {"a": {"type": "ARRAY"}}})),
        ("two schemas of one function", tools(parametersJsonSchema=OBJECT)),
        ("a choice of a function that is not offered", ask(toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["x"]}})),
        ("tools and JSON", {**tools(), "generationConfig": {"responseMimeType": "application/json"}}),
        ("a schema without its type", config(responseSchema=schema)),
        ("at most five stop sequences", config(stopSequences=list("abcdef"))),
        ("a temperature from 0 to 2", config(temperature=3)),
        ("tokens above zero", config(maxOutputTokens=0)),
    ]  # fmt: skip


def _messages() -> list[Case]:
    user = {"role": "user", "content": "hi"}
    use = {"type": "tool_use", "id": "t1", "name": "add", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "1"}
    tool = {"name": "add", "input_schema": OBJECT}

    def ask(*messages: Any, **more: Any) -> dict[str, Any]:
        return {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": list(messages or (user,)), **more}

    def says(*blocks: Any) -> dict[str, Any]:
        return {"role": "user", "content": list(blocks)}

    def answers(*blocks: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": list(blocks)}

    return [
        ("messages may not be empty", {**ask(), "messages": []}),
        ("max_tokens above zero", {**ask(), "max_tokens": 0}),
        ("an unknown parameter", ask(max_rounds=3)),
        ("an unknown role", ask({"role": "system", "content": "hi"})),
        ("the user begins", ask(answers({"type": "text", "text": "hi"}))),
        ("text may not be empty", ask(says({"type": "text", "text": ""}))),
        ("a result without a call", ask(says(result))),
        ("a call without a result", ask(user, answers(use), user)),
        ("results come first", ask(user, answers(use), says({"type": "text", "text": "x"}, result))),
        ("a result twice", ask(user, answers(use), says(result, result))),
        ("two calls of one id", ask(user, answers(use, use), says(result))),
        ("an image of the assistant", ask(user, answers({"type": "image", "source": {"type": "url", "url": "https://x"}}))),
        ("a name has letters, digits, - and _", ask(tools=[{**tool, "name": "files:read"}])),
        ("a name has at most 64 characters", ask(tools=[{**tool, "name": "x" * 200}])),
        ("two tools of one name", ask(tools=[tool, tool])),
        ("the input is an object", ask(tools=[{**tool, "input_schema": {"type": "array"}}])),
        ("no anyOf at the top", ask(tools=[{**tool, "input_schema": {**OBJECT, "anyOf": []}}])),
        ("a choice of a tool that is not offered", ask(tools=[tool], tool_choice={"type": "tool", "name": "x"})),
        ("at least 1,024 tokens of thinking", ask(thinking={"type": "enabled", "budget_tokens": 10})),
        ("the system prompt may not be blank", ask(system=" ")),
        ("at most four marks of the cache", ask(says(*[{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5))),
    ]  # fmt: skip


MALFORMED = {"chat": _chat(), "responses": _responses(), "gemini": _gemini(), "messages": _messages()}
