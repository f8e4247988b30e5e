"""The tools that the conformance scenarios call by name."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
import zlib
from typing import Any

import mcp_types as types

from ropewalk import tool

TEXT = "This is a simple text response for testing."


def png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = (1).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")), chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def wav() -> str:
    """Eight samples of silence."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8000)
        file.writeframes(bytes([128] * 8))
    return base64.b64encode(out.getvalue()).decode()


def result(*parts: Any) -> types.CallToolResult:
    return types.CallToolResult(content=list(parts))


def embedded(text: str, kind: str) -> types.EmbeddedResource:
    inside = types.TextResourceContents(uri="test://embedded-resource", mime_type=kind, text=text)
    return types.EmbeddedResource(type="resource", resource=inside)


@tool
def say() -> str:
    """Gives the text."""
    return TEXT


@tool
def test_image_content() -> object:
    """An image."""
    return result(types.ImageContent(type="image", data=png(), mime_type="image/png"))


@tool
def test_audio_content() -> object:
    """A sound."""
    return result(types.AudioContent(type="audio", data=wav(), mime_type="audio/wav"))


@tool
def test_embedded_resource() -> object:
    """A resource in the result."""
    return result(embedded("This is an embedded resource content.", "text/plain"))


@tool
def test_multiple_content_types() -> object:
    """A text, an image and a resource."""
    return result(
        types.TextContent(type="text", text="Multiple content types test:"),
        types.ImageContent(type="image", data=png(), mime_type="image/png"),
        embedded('{"test": "data", "value": 123}', "application/json"),
    )


@tool(input_schema={"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
def headers(region: str = "") -> str:
    """A tool one of whose arguments is sent as a header, too."""
    return region


@tool
def greet(name: str) -> str:
    """A tool that is no flow, and so never a task."""
    return f"Hello, {name}!"


@tool
async def pause(seconds: float) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return f"slept {seconds} s"


@tool
def fail() -> str:
    """Fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool(
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
def json_schema_2020_12_tool(**given: object) -> str:
    """A tool with an input schema of JSON Schema 2020-12."""
    return "taken"
