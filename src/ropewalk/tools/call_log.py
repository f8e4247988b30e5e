"""The log `ropewalk.tools`: what a model's calls were given and what they returned, with secrets masked."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Any, Final

import orjson

from ..config.secret import Known, says_secret
from ..errors import OutputValidationFailed
from ..redaction import MARK
from ..values import Json
from .bound import Bound
from .raw import RawResult
from .route import Args, OnProgress

log = logging.getLogger("ropewalk.tools")
MAX_LOGGED: Final = 2_000
"""Longest text of an input or a result in the log, in characters."""


def logged(bound: Bound, tool_id: str) -> Bound:
    """Wrap a model's tool so that the log has the input and the result of each call at level INFO."""

    async def call(
        args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        wanted = log.isEnabledFor(logging.INFO)
        if wanted:
            log.info("tool %s input: %s", tool_id, shown(args))
        try:
            result = await bound.call(args, key, timeout, on_progress)
        except OutputValidationFailed as error:
            if error.result is not None:
                if wanted:
                    kept = error.result.value if error.result.is_json else error.result.text
                    log.info("tool %s rejected result: %s", tool_id, shown(kept))
                if error.result.is_json:  # in the form that the conversation reads, where a person accepts it
                    error.result = RawResult(True, {"value": error.result.value})
            raise
        if wanted:
            log.info("tool %s result: %s", tool_id, shown(result.get("value") if isinstance(result, dict) else result))
        return result

    return replace(bound, call=call, direct=None)


def shown(value: Json) -> str:
    """Write a value as JSON on one line, shortened, without secrets: those that this process knows, and whatever has a
    secret's name."""
    text = orjson.dumps(Known(os.environ).redaction.value(masked(value))).decode()
    return text if len(text) <= MAX_LOGGED else text[: MAX_LOGGED - 1] + "…"


def masked(value: Any) -> Json:
    """Replace the members of objects whose names say that they are secrets."""
    if isinstance(value, dict):
        return {key: MARK if says_secret(key) and item is not None else masked(item) for key, item in value.items()}
    return [masked(item) for item in value] if isinstance(value, list) else value
