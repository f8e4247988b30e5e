"""What is set up for the model: `[claude]` in `ropewalk.toml`, the environment, or arguments, the last one winning."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from ..frozen import dataclass

DEFAULT_MODEL: Final = "claude-sonnet-5-5"
DEFAULT_SERVER: Final = "mcp"
"""What the MCP server of `MCP_SERVER_URL` is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The model's name, where it is reached, and how long an answer may be and take.

    `max_tokens` is per turn, `timeout` in seconds per request; `max_retries` is how often a request that was turned
    away (429, 5xx, overloaded) or did not arrive is sent again. With `prompt_cache` the API keeps what rounds have in
    common. The key comes from `ANTHROPIC_API_KEY` alone.
    """

    model: str = DEFAULT_MODEL
    base_url: str | None = None
    max_tokens: int = 16_000
    max_retries: int = 4
    timeout: float = 600.0
    stream: bool = True
    prompt_cache: bool = True


def settings(table: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a project's `[claude]` table over those of the environment."""
    given: dict[str, Any] = {}
    for name, variable in (("base_url", "ANTHROPIC_BASE_URL"), ("model", "ANTHROPIC_MODEL")):
        if environ.get(variable):
            given[name] = environ[variable]
    return Settings(**{**given, **(table or {})})


def default_server(environ: Mapping[str, str] = os.environ) -> dict[str, Any] | None:
    """The MCP server that the environment names: `MCP_SERVER_URL`, with `SMITHERY_API_KEY` as its bearer."""
    url = environ.get("MCP_SERVER_URL")
    if not url:
        return None
    # The header names the variable: what the variable holds is not expanded again.
    headers = {"headers": {"Authorization": "Bearer ${SMITHERY_API_KEY}"}} if environ.get("SMITHERY_API_KEY") else {}
    return {"url": url, **headers}
