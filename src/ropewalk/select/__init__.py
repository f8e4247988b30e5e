"""Find the tools that a request needs, by the words of the request, on a CPU.

Start with `selector.py`. `text.py`, `tool_card.py` and `query.py` turn tools and requests into words. `word_index.py`
holds the words of all tools, `legacy.py` has the documented strategies, `results.py` shapes what a strategy found, and
`usage.py` keeps what was learnt. `phrases.py` keeps how people ask for tools, and `phrase_rules.py` writes that. These
need no library but a stemmer. With the extra `select` (numpy, rapidfuzz, PyStemmer), `index.py` also holds impacts and
vectors, `candidates.py` finds candidates, `hybrid.py` ranks them, and `memory.py`, `phrase_index.py` and
`embedding.py` compare requests.

Refused here: knowing how a tool is run, and stores (`usage.py` gets a `UseStore`). To add a strategy, add its function
to `legacy.STRATEGIES`.
"""

from __future__ import annotations
