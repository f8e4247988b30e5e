"""The scale of an embedding model: how similar it finds texts with the same meaning, and texts without.

Some models find unrelated texts 0.05 alike, others 0.75. The weights of the features belong to one scale, that of
MiniLM, so the similarities of every other model are moved to it. A model may know its scale (`scale`). The scale of any
other is measured once, on the requests and tools below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


class Scale(NamedTuple):
    """The usual similarities of texts that are unrelated, and of a request with its tool."""

    unrelated: float
    related: float

    def convert(self, similarities: Array) -> Array:
        """Return similarities on this scale as similarities on the scale of MiniLM."""
        if self == MINILM:
            return similarities
        gain = (MINILM.related - MINILM.unrelated) / (self.related - self.unrelated)
        converted: Array = ((similarities - self.unrelated) * gain + MINILM.unrelated).astype(np.float32)
        return converted


MINILM: Final = Scale(0.07, 0.43)
MAX_GAIN: Final = 20.0  # of a conversion; a model with a narrower scale tells hardly anything apart
# Descriptions of tools, each with a request for it that shares few of its words.
PAIRS: Final = (
    ("Send an email message to one or more recipients.", "let Anna know in writing that I will be late"),
    ("Get the weather forecast for a place.", "will it rain in Oslo tomorrow?"),
    ("Create an event in a calendar.", "I meet Ben for lunch on Friday, put that down"),
    ("List the files in a folder.", "what is in my downloads?"),
    ("Translate a text into another language.", "how do you say good morning in Greek?"),
    ("Run a query on an SQL database.", "how many rows of the orders table have no customer?"),
    ("Play a song or an album.", "put on some quiet jazz"),
    ("Book a flight.", "I need a plane ticket to Lisbon for Monday"),
    ("Convert an amount from one currency to another.", "how much is 50 dollars in euros?"),
    ("Delete a user account.", "remove the login of a colleague who left us"),
    ("Find restaurants near a place.", "where can I eat pizza around here?"),
    ("Get the price of a share.", "what is a Siemens stock worth?"),
)


def measure_scale(embed_tools: Callable[[list[str]], Array], embed_request: Callable[[str], Array]) -> Scale:
    """Measure the scale of a model by its vectors of length 1; MiniLM's if it does not tell the pairs apart."""
    tools = embed_tools([tool for tool, _ in PAIRS])
    similarities = np.stack([embed_request(request) for _, request in PAIRS]) @ tools.T
    own = np.eye(len(PAIRS), dtype=bool)
    related, others = float(similarities[own].mean()), similarities[~own]
    unrelated = float(others.mean())
    least = max(float(others.std()), (MINILM.related - MINILM.unrelated) / MAX_GAIN)
    return Scale(unrelated, related) if related - unrelated > least else MINILM
