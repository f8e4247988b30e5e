"""The configuration of a project: `ropewalk.toml`, the common `mcpServers` JSON, ROPEWALK_STORE.

`read_config(directory)` finds `ropewalk.toml` in the directory or the nearest one above it. Without the file every
setting has its default. Unknown keys and wrong types raise a ConfigError with line and column. A server that reads an
unset `${VARIABLE}` is put into `failures` with the reason, so that one server never stops the others.
`import_tools(config)` is a separate step, because it runs code.

Refused here: connecting, opening a store. To add a setting, add a field in `settings.py` and its key in `toml.py`.
"""
