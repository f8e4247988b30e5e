"""What both APIs of OpenAI refuse: names, schemas and strict mode."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
REASONING = re.compile(r"(gpt-5(?!.*chat)|o\d)")


def function_problems(functions: list[Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with functions as they are offered."""
    if len(functions) > 128:
        yield "Invalid 'tools': array too long. Expected an array with maximum length 128."
    for at, function in enumerate(functions):
        name, parameters = str(function.get("name", "")), function.get("parameters")
        if not NAME.fullmatch(name):
            yield f"Invalid 'tools[{at}].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        if isinstance(parameters, Mapping):
            if parameters and parameters.get("type") != "object":
                yield f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'."
            if function.get("strict") and (problem := strict_problem(parameters)):
                yield f"Invalid schema for function '{name}': {problem}"


def format_problems(form: Mapping[str, Any], at: str) -> Iterator[str]:
    """What is wrong with the JSON Schema of an answer."""
    if not NAME.fullmatch(str(form.get("name", ""))):
        yield f"Invalid '{at}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
    schema = form.get("schema")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        yield f"Invalid schema for response_format '{form.get('name')}': schema must be a JSON Schema of 'type: \"object\"'."
    elif form.get("strict") and (problem := strict_problem(schema)):
        yield f"Invalid schema for response_format '{form.get('name')}': {problem}"


def strict_problem(schema: Any) -> str | None:
    """Why strict mode refuses a schema."""
    if isinstance(schema, list):
        return next(filter(None, map(strict_problem, schema)), None)
    if not isinstance(schema, Mapping):
        return None
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required", ())) != set(schema.get("properties", {})):
            return "'required' is required to be supplied and to be an array including every key in properties."
    return next(filter(None, map(strict_problem, schema.values())), None)


def sampling_problems(body: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the numbers of a request."""
    for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1)):
        if body.get(name) is not None and not low <= body[name] <= high:
            yield f"Invalid '{name}': expected a value from {low} to {high}."
        if body.get(name) is not None and REASONING.match(str(body.get("model"))):
            yield f"Unsupported parameter: '{name}' is not supported with this model."
    metadata = body.get("metadata")
    if metadata is not None and len(metadata) > 16:
        yield "Invalid 'metadata': too many properties. Expected an object with at most 16 properties."


def image_problem(url: str) -> str | None:
    """Why an address of an image is refused."""
    if re.match(r"https?://", url) or re.match(r"data:image/(png|jpeg|gif|webp);base64,.", url):
        return None
    return f"Invalid image URL: {url[:30]!r}. Expected a base64-encoded data URL or an HTTP(S) URL."
