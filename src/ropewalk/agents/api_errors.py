"""Meanings of errors of a model's API: why there was no connection, and the HTTP status of an error inside a stream.

The SDKs of all makers raise "Connection error" for every cause. The exceptions below theirs name the true one.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..errors import CORRECTION

_STATUSES: Final = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
}
"""The HTTP status that an API gives with a kind of error, if the error comes before the stream begins."""
_CLOSED: Final = "the server closed the connection without an answer"
_UNSUPPORTED: Final = "UnsupportedProtocol"


def connection_cause(error: BaseException) -> str:
    """Return why there is no connection, from the exceptions below an error of an SDK."""
    text = ""
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return f"the name of the host cannot be resolved ({cause.strerror})"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens at this address (connection refused)"
        if isinstance(cause, OverflowError):
            return "the port is not a number from 0 to 65535"
        if type(cause).__name__ == _UNSUPPORTED:
            return "the address does not begin with http:// or https://"
        if type(cause).__name__ == "RemoteProtocolError" or isinstance(cause, ConnectionError):
            return _CLOSED
        text = str(cause).strip() or text
    return text.removesuffix(".") or type(error).__name__


def connection_needs(error: BaseException) -> str:
    """Return CORRECTION if no server can be reached at an address as it is written, otherwise ""."""
    causes = list(_causes(error))
    is_wrong = any(isinstance(cause, OverflowError) or type(cause).__name__ == _UNSUPPORTED for cause in causes)
    return CORRECTION if is_wrong else ""


def status_in_stream(body: Any) -> int | None:
    """Return the HTTP status that fits the error event of a stream; None if it says too little."""
    error = body.get("error", body) if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    code = error.get("code")
    if isinstance(code, (int, str)) and str(code).isdecimal() and 400 <= int(code) < 600:
        return int(code)
    # A code says more than a type: OpenAI's `invalid_request_error` has many.
    return next((_STATUSES[str(kind)] for kind in (code, error.get("type")) if str(kind) in _STATUSES), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that caused it, the outermost first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        if isinstance(current, BaseExceptionGroup):
            current = current.exceptions[0]
        else:
            current = current.__cause__ or current.__context__
