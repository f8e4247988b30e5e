"""Find the tools that a request needs, by the words of the request, on a CPU.

Start with `selector.py`. `text.py`, `tool_card.py` and `query.py` turn tools and requests into words. `index.py` holds
the words of all tools, `candidates.py` finds candidates, and `hybrid.py` ranks them. `legacy.py` has the documented
strategies, `usage.py` and `memory.py` what was learnt, `embedding.py` the optional models.

Refused here: knowing how a tool is run, and stores (`usage.py` gets a `UseStore`). To add a strategy, add its function
to `legacy.STRATEGIES`.
"""

from __future__ import annotations
