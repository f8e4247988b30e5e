"""What a project has set up: `ropewalk.toml`, the common `mcpServers` JSON, ROPEWALK_STORE.

`read_config(directory)` finds `ropewalk.toml` in the directory or the nearest one above it;
without one everything has its default. Unknown keys and wrong types are a ConfigError with line
and column. A server whose `${VARIABLE}` is not set is put into `broken` with the reason: one
server never stops the others. `import_tools(config)` is a separate step, because it runs code.

Refused here: connecting, opening a store. To add a setting, add a field in `settings.py` and its
key in `table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .limits import Limits
    from .modules import import_tools
    from .project import find, read_config
    from .settings import Config, McpServed, McpServer, Provider
    from .workplace import Queue, Terms, Workplace

__all__ = [
    "Config",
    "Limits",
    "McpServed",
    "McpServer",
    "Provider",
    "Queue",
    "Terms",
    "Workplace",
    "find",
    "import_tools",
    "read_config",
]

_AT = {"Limits": "limits", "import_tools": "modules", "find": "project", "read_config": "project"}
_AT |= dict.fromkeys(("Queue", "Terms", "Workplace"), "workplace")


def __getattr__(name: str) -> Any:
    """Each name from its file when it is first asked for: an app without a project reads no TOML."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_AT.get(name, 'settings')}"), name)
