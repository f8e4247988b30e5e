"""The weights of the features (see features.NAMES), and how sure a score makes one.

Made by `bench/select_fit.py --write` on the sets metatool, bfcl, sealtools, toolbench, alpaca, tmdb, spotify,
acebench, livemcp, nestful, each counting the same. PLAIN is without a model, MODEL with one; SURE is for
either, fitted on metatool, bfcl, sealtools.
"""

from __future__ import annotations

from typing import Final

PLAIN: Final[dict[str, float]] = {
    "coverage": 1.153,
    "only in parameters": 3.906,
    "exact words": 0.872,
    "telling words": 1.644,
    "tool covered": 4.526,
    "description covered": 2.022,
    "neighbours": 2.531,
    "letters of name": 1.452,
    "meaning": 2.267,
    "best meaning": 2.08,
}
MODEL: Final[dict[str, float]] = {
    "coverage": 0.606,
    "only in parameters": 3.767,
    "exact words": 0.798,
    "telling words": 1.428,
    "tool covered": 3.609,
    "description covered": 1.45,
    "neighbours": 2.262,
    "letters of name": 1.681,
    "meaning": 0.983,
    "best meaning": 0.915,
    "model": 3.908,
    "best model": 3.039,
}
SURE: Final[dict[str, dict[str, float]]] = {
    "plain": {"bias": -1.512, "five": 3.832, "value": 0.419, "size": -0.359, "usual": 1.012},
    "model": {"bias": -1.831, "five": 2.814, "value": 0.521, "size": -0.287, "usual": 0.741},
}
