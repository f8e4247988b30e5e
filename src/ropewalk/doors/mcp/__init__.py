"""The MCP server: flows and tools as tools of MCP clients, and many MCP servers behind one (the gateway).

`Catalogue` (`catalogue.py`) knows what is offered: flows (`flows.py`), tools of the toolbox and of the configured MCP
servers (`tool_source.py`) and the operations on plans (`plans.py`). A gateway offers `find_tools` and `call_tool` in
place of a long list. `prompts.py`, `resources.py` and `tasks.py` offer flows and runs in other forms of the protocol.
`server.py` makes one server object of these; it speaks every supported revision over stdio or HTTP (`transports.py`).

This package runs, checks and selects nothing: the app does. To offer something else, write another source of tools and
give it to the catalogue.
"""
