"""The weights of the features (see features.NAMES), and how sure a score makes one.

Made by `bench/select_fit.py --write` on the sets metatool, bfcl, sealtools, toolbench, alpaca, tmdb, spotify,
acebench, livemcp, nestful, each counting the same. PLAIN is without a model, MODEL with one; SURE is for
either, fitted on metatool, bfcl, sealtools.
"""

from __future__ import annotations

from typing import Final

PLAIN: Final[dict[str, float]] = {
    "coverage": 1.102,
    "only in parameters": 3.914,
    "exact words": 0.846,
    "telling words": 1.632,
    "tool covered": 4.501,
    "description covered": 1.953,
    "neighbours": 2.498,
    "letters of name": 1.407,
    "meaning": 2.425,
    "best meaning": 2.142,
}
MODEL: Final[dict[str, float]] = {
    "coverage": 0.696,
    "only in parameters": 3.73,
    "exact words": 0.652,
    "telling words": 1.402,
    "tool covered": 3.592,
    "description covered": 1.469,
    "neighbours": 2.278,
    "letters of name": 1.65,
    "meaning": 1.04,
    "best meaning": 0.938,
    "model": 3.914,
    "best model": 3.097,
}
SURE: Final[dict[str, dict[str, float]]] = {
    "plain": {"bias": -1.55, "five": 3.794, "value": 0.424, "size": -0.353, "usual": 0.989},
    "model": {"bias": -1.875, "five": 2.839, "value": 0.525, "size": -0.285, "usual": 0.713},
}
