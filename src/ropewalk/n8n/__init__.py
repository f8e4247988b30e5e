"""The n8n workflow builder: from a prompt to a workflow that n8n can import.

`builder.py` is where to begin reading: five phases (`phases.py`), of which the model speaks in four. What becomes of
its words is code: `building.py` makes the JSON, `mending.py` applies repairs, and n8n-mcp (`server.py`) alone says
whether the result is valid. To add a tool for a phase, add a line to TOOLS (`node_tools.py`) and its name to a phase;
to add a kind of repair, a function in `mending.py`.
"""

from .builder import Built, WorkflowBuilder

__all__ = ["Built", "WorkflowBuilder"]
