"""The lines that a server prints and logs, for the logs of the calls that are in progress.

The server does not say which call it means, so every call gets them. The secrets of its settings are removed here,
because a run knows only its own. A line is held back until it ends, because a secret could be in two pieces of it.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from ...config.secrets import Secrets
from ..raw_result import json_text
from .requests import Request

_MAX_HELD: Final = 64 * 1024  # characters of a line


class CallOutput:
    """The output of one server."""

    def __init__(self, requests: Collection[Request], secrets: Callable[[], Secrets]) -> None:
        self._requests, self._secrets = requests, secrets
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def keep_stderr(self, data: bytes) -> None:
        """Add what the server prints."""
        lines, newline, self._held = (self._held + self._decoder.decode(data)).rpartition("\n")
        self._write(lines + newline)
        if len(self._held) > _MAX_HELD:
            self.flush()

    def flush(self) -> None:
        """Add the beginning of a line, before a call ends."""
        held, self._held = self._held, ""
        self._write(held)

    def keep_message(self, params: Mapping[str, Any]) -> None:
        """Add a log message of the protocol."""
        outputs = [request.output for request in self._requests if request.output is not None]
        if not outputs:
            return
        secrets, data = self._secrets(), params.get("data")
        text = secrets.redact_error(data if isinstance(data, str) else json_text(data))
        for output in outputs:
            output.add("server", text, str(params.get("level") or ""))

    def _write(self, text: str) -> None:
        outputs = [request.output for request in self._requests if request.output is not None]
        if not text or not outputs:
            return
        text = self._secrets().redact_error(text)
        for output in outputs:
            output.write("server", text)
