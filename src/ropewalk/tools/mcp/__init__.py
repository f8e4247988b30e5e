"""Tools of MCP servers: configuration, connections, listing, calls and logins. `servers.py` is the way in."""
