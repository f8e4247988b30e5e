"""Google's Gemini API."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .stand_in import Turn, pieces

# The fields of the API's own Schema, which is a part of OpenAPI 3.0.
SCHEMA = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering",
    "default", "items", "minimum", "maximum",
}  # fmt: skip
REQUEST = {
    "contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent",
    "labels", "serviceTier", "store",
}  # fmt: skip
PART = {
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
    "thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata",
}  # fmt: skip
CONFIG = {
    "stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities",
    "candidateCount", "maxOutputTokens", "temperature", "topP", "topK", "seed", "presencePenalty", "frequencyPenalty",
    "responseLogprobs", "logprobs", "thinkingConfig", "mediaResolution", "speechConfig", "imageConfig",
    "enableEnhancedCivicAnswers",
}  # fmt: skip
FREE = {"parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema", "args", "response", "labels"}
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


class GeminiWire:
    """`POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`."""

    def judge(self, path: str, body: dict[str, Any]) -> list[str]:
        match = re.search(r"/models/([^:/]+):(streamGenerateContent|generateContent)(\?alt=sse)?$", path)
        if match is None:
            return [f"not found: {path}"]
        found: list[str] = []
        for rule in (_request, _contents, _tools, _config):
            found += rule(_in_camel_case(body), match[1])
        return found

    def error(self, status: int, message: str) -> dict[str, Any]:
        kinds = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        return {"error": {"code": status, "message": message, "status": kinds.get(status, "INTERNAL")}}

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return "streamGenerateContent" in path

    def answer(self, turn: Turn, number: int, body: dict[str, Any]) -> dict[str, Any]:
        if turn.refusal:
            return {"promptFeedback": {"blockReason": "SAFETY"}, **_tail(turn, number)}
        return {**_candidate(_parts(turn, number), "STOP"), **_tail(turn, number)}

    def events(self, turn: Turn, number: int, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        if turn.refusal:
            yield "", {"promptFeedback": {"blockReason": "SAFETY"}, **_tail(turn, number)}
            return
        for part in _parts(turn, number):
            texts = pieces(part["text"]) if "text" in part else []
            for piece in texts[:-1]:
                yield "", {**_candidate([{**part, "text": piece}]), **_tail(turn, number)}
            last = {**part, "text": texts[-1]} if texts else part
            yield "", {**_candidate([last]), **_tail(turn, number)}
        yield "", {**_candidate([{"text": ""}], "STOP"), **_tail(turn, number)}


def _in_camel_case(value: Any) -> Any:
    """A body with the names that the API documents; it takes both spellings. What users write keeps its names."""
    if isinstance(value, list):
        return list(map(_in_camel_case, value))
    if not isinstance(value, dict):
        return value
    named = {re.sub(r"_([a-z])", lambda match: match[1].upper(), name): inner for name, inner in value.items()}
    return {name: inner if name in FREE else _in_camel_case(inner) for name, inner in named.items()}


def _candidate(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    ending = {"finishReason": finish} if finish else {}
    return {"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, **ending}]}


def _tail(turn: Turn, number: int) -> dict[str, Any]:
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    if turn.cached:
        usage["cachedContentTokenCount"] = turn.cached
    return {"usageMetadata": usage, "modelVersion": "gemini-2.5-flash", "responseId": f"resp-{number}"}


def _parts(turn: Turn, number: int) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if turn.thinking:
        parts.append({"text": turn.thinking, "thought": True})
    if turn.text:
        parts.append({"text": turn.text})
    for index, call in enumerate(turn.calls):
        sign = {"thoughtSignature": base64.b64encode(b"sealed-%d" % number).decode()} if index == 0 else {}
        parts.append({"functionCall": {"id": f"call-{number}-{index}", "name": call.name, "args": call.input}, **sign})
    return parts


# --- documented rules -----------------------------------------------------------------------------


def _unknown(value: Mapping[str, Any], known: set[str], at: str) -> Iterator[str]:
    for name in sorted(set(value) - known):
        yield f"Invalid JSON payload received. Unknown name \"{name}\" at '{at}': Cannot find field."


def _request(body: dict[str, Any], model: str) -> Iterator[str]:
    yield from _unknown(body, REQUEST, "")
    system = body.get("systemInstruction")
    if system is not None and not any(part.get("text", "").strip() for part in system.get("parts", ())):
        yield "GenerateContentRequest.system_instruction.parts: must have a text parameter"


def _contents(body: dict[str, Any], model: str) -> Iterator[str]:
    contents = body.get("contents") or []
    if not contents:
        yield "GenerateContentRequest.contents: contents is not specified"
    called = 0
    for at, content in enumerate(contents):
        role, parts = content.get("role", "user"), content.get("parts") or []
        if role not in ("user", "model", "function"):
            yield "Please use a valid role: user, model."
        if not parts:
            yield f"GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
        calls = [part for part in parts if "functionCall" in part]
        answers = [part for part in parts if "functionResponse" in part]
        if called or answers:
            if len(answers) != called:
                yield (
                    "Please ensure that the number of function response parts is equal to the number of function call "
                    "parts of the function call turn."
                )
        if calls and (at == 0 or contents[at - 1].get("role", "user") == "model"):
            yield "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
        if calls and model.startswith("gemini-3") and "thoughtSignature" not in calls[0]:
            yield f"Function call is missing a thought_signature in functionCall parts: {calls[0]['functionCall']['name']}"
        called = len(calls)
        for index, part in enumerate(parts):
            yield from _part(part, f"contents[{at}].parts[{index}]")
    if called:
        yield "Please ensure that function response turn comes immediately after a function call turn."


def _part(part: dict[str, Any], at: str) -> Iterator[str]:
    yield from _unknown(part, PART, at)
    if not set(part) - {"thought", "thoughtSignature", "videoMetadata"}:
        yield f"{at}.data: required oneof field 'data' must have one initialized field"
    for name in ("functionCall", "functionResponse"):
        if name in part and not NAME.fullmatch(str(part[name].get("name", ""))):
            yield f"{at}.{name}.name: Invalid function name."
    answer = part.get("functionResponse")
    if answer is not None and not isinstance(answer.get("response"), dict):
        yield f"Invalid value at '{at}.function_response.response' (type.googleapis.com/google.protobuf.Struct)"
    data = part.get("inlineData")
    if data is not None:
        if not data.get("mimeType"):
            yield f"{at}.inline_data.mime_type: must not be empty"
        try:
            base64.b64decode(data.get("data", "").replace("-", "+").replace("_", "/"), validate=True)
        except ValueError:
            yield f"Invalid value at '{at}.inline_data.data' (TYPE_BYTES), Base64 decoding failed"


def _tools(body: dict[str, Any], model: str) -> Iterator[str]:
    names: list[str] = []
    for at, tool in enumerate(body.get("tools") or ()):
        for index, function in enumerate(tool.get("functionDeclarations") or ()):
            place, name = f"tools[{at}].function_declarations[{index}]", str(function.get("name", ""))
            yield from _unknown(
                function,
                {
                    "name",
                    "description",
                    "parameters",
                    "parametersJsonSchema",
                    "behavior",
                    "response",
                    "responseJsonSchema",
                },
                place,
            )
            if not NAME.fullmatch(name):
                yield f"GenerateContentRequest.{place}.name: Invalid function name. Must start with a letter or an underscore."
            if name in names:
                yield f"Duplicate function declaration found: {name}"
            names.append(name)
            if "parameters" in function and "parametersJsonSchema" in function:
                yield f"{place}: parameters and parameters_json_schema are mutually exclusive"
            if "parameters" in function:
                yield from _schema(function["parameters"], f"{place}.parameters")
    mode = ((body.get("toolConfig") or {}).get("functionCallingConfig")) or {}
    if mode.get("allowedFunctionNames") and mode.get("mode") not in ("ANY", "VALIDATED"):
        yield "Allowed function names should only be set when function calling mode is ANY or VALIDATED."
    for name in mode.get("allowedFunctionNames") or ():
        if name not in names:
            yield f"Allowed function name {name} is not declared."
    if mode.get("mode") == "ANY" and not names:
        yield "Function calling config is set without function_declarations."


def _schema(schema: Any, at: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        yield f"Invalid value at '{at}'"
        return
    yield from _unknown(schema, SCHEMA, at)
    kind = str(schema.get("type", "")).upper()
    if kind not in ("", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"):
        yield f"Invalid value at '{at}.type'"
    if "enum" in schema and kind != "STRING":
        yield f"{at}.enum: only allowed for STRING type"
    if kind == "ARRAY" and "items" not in schema:
        yield f"{at}.items: missing field."
    for name in schema.get("required", ()):
        if name not in schema.get("properties", {}):
            yield f"{at}.required[0]: property is not defined"
    for name, inner in schema.get("properties", {}).items():
        yield from _schema(inner, f"{at}.properties[{name}]")
    if "items" in schema:
        yield from _schema(schema["items"], f"{at}.items")
    for inner in schema.get("anyOf", ()):
        yield from _schema(inner, f"{at}.any_of")


def _config(body: dict[str, Any], model: str) -> Iterator[str]:
    config = body.get("generationConfig") or {}
    yield from _unknown(config, CONFIG, "generation_config")
    if config.get("maxOutputTokens") is not None and config["maxOutputTokens"] < 1:
        yield "Unable to submit request because it has a maxOutputTokens value that is not positive."
    if len(config.get("stopSequences") or ()) > 5:
        yield "GenerateContentRequest.generation_config.stop_sequences: at most 5 are allowed"
    for name, low, high in (("temperature", 0, 2), ("topP", 0, 1)):
        if config.get(name) is not None and not low <= config[name] <= high:
            yield f"* GenerateContentRequest.generation_config.{name}: must be in the range [{low}, {high}]."
    kind = config.get("responseMimeType", "text/plain")
    if ("responseSchema" in config or "responseJsonSchema" in config) and kind not in (
        "application/json",
        "text/x.enum",
    ):
        yield "response_schema is only supported with response_mime_type application/json."
    if kind == "application/json" and body.get("tools") and not model.startswith("gemini-3"):
        yield "Function calling with a response mime type: 'application/json' is unsupported"
    if "responseSchema" in config:
        yield from _schema(config["responseSchema"], "generation_config.response_schema")
