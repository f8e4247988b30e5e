"""The weights of the features (see features.NAMES), and how sure a score makes one.

Made by `bench/select_fit.py --write` on the sets metatool, bfcl, sealtools, toolbench, alpaca, tmdb, spotify,
acebench, livemcp, nestful, each counting the same. PLAIN is without a model, MODEL with one; SURE is for
either, fitted on metatool, bfcl, sealtools.
"""

from __future__ import annotations

from typing import Final

PLAIN: Final[dict[str, float]] = {
    "coverage": 1.305,
    "only in parameters": 4.013,
    "exact words": 0.629,
    "telling words": 1.715,
    "tool covered": 4.066,
    "description covered": 2.267,
    "neighbours": 2.539,
    "letters of name": 1.443,
    "meaning": 2.923,
    "best meaning": 2.341,
}
MODEL: Final[dict[str, float]] = {
    "coverage": 1.048,
    "only in parameters": 3.681,
    "exact words": 0.495,
    "telling words": 1.368,
    "tool covered": 3.301,
    "description covered": 1.738,
    "neighbours": 2.408,
    "letters of name": 1.672,
    "meaning": 1.255,
    "best meaning": 0.997,
    "model": 4.223,
    "best model": 3.065,
}
SURE: Final[dict[str, dict[str, float]]] = {
    "plain": {"bias": -1.44, "five": 4.143, "value": 0.374, "size": -0.359, "usual": 0.87},
    "model": {"bias": -2.045, "five": 3.271, "value": 0.472, "size": -0.288, "usual": 0.361},
}
