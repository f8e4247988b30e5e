"""Starting the program of an MCP server on stdio."""

from __future__ import annotations

import os

from ..config.secret import Secrets
from .child import Child, program, start
from .mcp_config import ServerConfig, child_environment


async def spawn(config: ServerConfig) -> tuple[Child, Secrets]:
    """Start the program; also gives the secrets in its environment.

    Raises ConnectionError that says what could not be started and why."""
    env, secrets = child_environment(config)
    if config.cwd is not None and not os.path.isdir(config.cwd):  # noqa: ASYNC240 - one stat beside a fork
        raise ConnectionError(f"{config}: cwd {config.cwd!r} is not a directory")
    try:
        child = await start([program(config.command, env), *config.args], env, config.cwd)
    except FileNotFoundError as error:
        hint = '; arguments belong in "args"' if " " in config.command else ""
        raise ConnectionError(f"{config}: no program {config.command!r} on the PATH{hint}") from error
    except (OSError, ValueError) as error:
        raise ConnectionError(f"{config}: cannot start {config.command!r}: {error}") from error
    return child, secrets
