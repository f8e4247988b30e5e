"""Find out which request an unreadable message answers, so that the call fails at once and not at its timeout.

A message is unreadable when it is not JSON, or not a JSON-RPC message. Its id is trusted only where a response has it:
at the top level of an object without a method. A log line that quotes a request ends no call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from mcp_types import JSONRPCError
    from pydantic import ValidationError

_SHOWN: Final = 200  # characters of an unreadable message that an error quotes
_LONGEST_FRAGMENT: Final = 65_536  # bytes of a message in several lines that are kept while its end is missing
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")'
_FIRST: Final = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID
_LAST: Final = _ID + rb"\s*\}\s*$"
_END: Final = 300  # bytes at the end of a message in which an id is looked for


class Unreadable(str):
    """The `data` of the error that takes the place of an unreadable answer: the beginning of what the server sent."""

    __slots__ = ()


class OpenRequests:
    """The requests that the other side has not answered yet."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._fragment = b""  # of a message that is printed in several lines

    def sent(self, message: Any) -> None:
        """Note a message on its way out."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard((message.params or {}).get("requestId", ""))

    def received(self, message: Any) -> Any:
        """Note a message that has arrived, and return it.

        An error with the id null answers a request that the server could not read. Where only one request is open,
        it is that one, and the message gets its id."""
        from mcp_types import JSONRPCError, JSONRPCResponse

        if self._fragment:
            self._fragment = b""
        if isinstance(message, JSONRPCError) and message.id is None and len(self._ids) == 1:
            message = message.model_copy(update={"id": next(iter(self._ids))})
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            self._ids.discard(self._known(message.id))
        return message

    def may_read(self, line: bytes) -> bool:
        """Return False for a line that cannot be (part of) a message, as most garbage cannot."""
        return bool(self._fragment) or line.lstrip()[:1] == b"{"

    def failed(self, line: bytes, error: ValidationError) -> JSONRPCError | None:
        """Return the error that answers the request which an unreadable line was meant for, or None."""
        whole = self._joined(line)
        if whole is None:
            return None
        id, why = self._owner(whole, error)
        if id not in self._ids:
            return None
        from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

        self._ids.discard(id)
        sent = Unreadable(whole[: 4 * _SHOWN].decode(errors="replace").strip()[:_SHOWN])
        return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=PARSE_ERROR, message=why, data=sent))

    def _joined(self, line: bytes) -> bytes | None:
        """The message that a line is or ends; None while its end is missing."""
        if not self._fragment:
            if line.strip() != b"{":
                return line
            self._fragment = line
            return None
        self._fragment += line + b"\n"
        if not line.startswith(b"}") and len(self._fragment) < _LONGEST_FRAGMENT:
            return None
        whole, self._fragment = self._fragment, b""
        return whole

    def _owner(self, message: bytes, error: ValidationError) -> tuple[int | str, str]:
        """The id that a message has as a response ("" where it has none), and what is wrong with the message."""
        try:
            value = orjson.loads(message)
        except ValueError:
            return self._known(_id_in_text(message)), f"it is not JSON ({error.errors()[0]['msg']})"
        if not isinstance(value, dict) or "method" in value:
            return "", ""
        return self._known(value.get("id")), _fault(value, b"\n" in message.strip())

    def _known(self, id: Any) -> int | str:
        """An id as we sent it: a server may answer 7 with "7"."""
        if isinstance(id, bool) or not isinstance(id, (int, str)):
            return ""
        if id not in self._ids and isinstance(id, str) and id.isdecimal():
            return int(id)
        return id


def _id_in_text(message: bytes) -> Any:
    if b'"method"' in message[:1000]:
        return None
    found = re.match(_FIRST, message[:1000]) or re.search(_LAST, message[-_END:])
    if found is None or not message.lstrip().startswith(b"{"):
        return None
    return orjson.loads(found[1])


def _fault(message: dict[str, Any], in_lines: bool) -> str:
    if in_lines:
        return "it is printed in several lines; the protocol wants each message in one"
    if "error" in message:
        return "its error is not an object with a code and a message"
    if "result" not in message:
        return "it has neither a result nor an error"
    if not isinstance(message["result"], dict):
        return "its result is not an object"
    return "it is not a JSON-RPC message"
