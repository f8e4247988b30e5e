"""The room that finds the tools a request needs, in the words of the request, on a CPU.

`selector` is the way in. `text`, `card` and `request` make words of tools and requests, `index` finds
candidates, `features` and `weights` rank them, `choice` cuts, `documented` holds the documented strategies, `usage`
what was learnt, `embed` the optional models. Refused here: knowing how a tool is run, and stores
(`usage` is handed a place to keep things). To add a strategy, give `documented.STRATEGIES` a scorer.
"""

from __future__ import annotations
