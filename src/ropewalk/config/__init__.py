"""What a project has set up: `ropewalk.toml`, the common `mcpServers` JSON, ROPEWALK_STORE.

`read_config(directory)` finds `ropewalk.toml` in the directory or the nearest one above it;
without one everything has its default. Unknown keys and wrong types are a ConfigError with line
and column. A server whose `${VARIABLE}` is not set is put into `broken` with the reason: one
server never stops the others. `import_tools(config)` is a separate step, because it runs code.

Refused here: connecting, opening a store. To add a setting, add a field in `settings.py` and its
key in `table.py`.
"""

from .modules import import_tools
from .project import find, read_config
from .settings import Config, Limits, McpServer, Provider

__all__ = ["Config", "Limits", "McpServer", "Provider", "find", "import_tools", "read_config"]
