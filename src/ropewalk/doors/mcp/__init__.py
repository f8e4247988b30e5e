"""The MCP door: flows and tools as the tools of an MCP server, and many MCP servers behind one.

`Catalogue` knows what is offered: flows (`flows.py`), tools of the toolbox and, as they are, those of the
configured MCP servers (`tools.py`), `find_tools` in place of a long list (`find.py`). `server.py` makes one
server object of it that speaks both eras of the protocol, over stdio (`stdio.py`) or HTTP (`http.py`).
Refused here: running, checking and choosing anything: the app does. To offer something else, write a source
(`offer.Source`) and give it to the catalogue.
"""
