"""Messages between a parent and a child: JSON with its length in four bytes before it, at most 16 MB."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any, Final

import orjson

from ...values import Json

MOST_BYTES: Final = 16_000_000
"""The largest message."""
_LENGTH: Final = 4
_CHUNK: Final = 1 << 18


class BadFrame(Exception):
    """A message that is too long or is not a JSON object."""


class Closed(Exception):
    """The other side closed the connection, or is dead."""


def encode(message: Mapping[str, Json]) -> bytes:
    """Return a message with its length before it."""
    try:
        body = orjson.dumps(message)
    except TypeError as error:
        raise BadFrame(f"the message is not JSON: {error}") from None
    if len(body) > MOST_BYTES:
        raise BadFrame(f"the message has {len(body):,} bytes; the limit is {MOST_BYTES:,}")
    return len(body).to_bytes(_LENGTH, "big") + body


def _length(head: bytearray) -> int:
    length = int.from_bytes(head, "big")
    if length > MOST_BYTES:
        raise BadFrame(f"the message has {length:,} bytes; the limit is {MOST_BYTES:,}")
    return length


def _decode(body: bytes | bytearray) -> dict[str, Any]:
    try:
        message = orjson.loads(body)
    except ValueError as error:
        raise BadFrame(f"the message is not JSON: {error}") from None
    if type(message) is not dict:
        raise BadFrame("the message is not an object")
    return message


def read(connection: socket.socket) -> dict[str, Any]:
    """Return the next message of a blocking connection."""
    return _decode(_exactly(connection, _length(_exactly(connection, _LENGTH))))


def _exactly(connection: socket.socket, count: int) -> bytearray:
    data = bytearray()
    while len(data) < count:
        try:
            chunk = connection.recv(min(count - len(data), _CHUNK))
        except OSError as error:
            raise Closed from error
        if not chunk:
            raise Closed
        data += chunk
    return data


def write(connection: socket.socket, message: Mapping[str, Json]) -> None:
    """Send a message over a blocking connection."""
    data = encode(message)
    try:
        connection.sendall(data)
    except OSError as error:
        raise Closed from error


async def read_async(connection: socket.socket) -> dict[str, Any]:
    """Return the next message of a connection that does not block."""
    return _decode(await _exactly_async(connection, _length(await _exactly_async(connection, _LENGTH))))


async def _exactly_async(connection: socket.socket, count: int) -> bytearray:
    loop, data = asyncio.get_running_loop(), bytearray()
    while len(data) < count:
        try:
            chunk = await loop.sock_recv(connection, min(count - len(data), _CHUNK))
        except OSError as error:
            raise Closed from error
        if not chunk:
            raise Closed
        data += chunk
    return data


async def write_async(connection: socket.socket, message: Mapping[str, Json]) -> None:
    """Send a message over a connection that does not block."""
    data = encode(message)
    try:
        await asyncio.get_running_loop().sock_sendall(connection, data)
    except OSError as error:
        raise Closed from error
