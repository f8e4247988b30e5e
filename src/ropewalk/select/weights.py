"""The weights of the features (see features.NAMES), and how sure a score makes one.

Made by `bench/select_fit.py --write` on the sets metatool, bfcl, sealtools, each counting the same.
PLAIN is without a model, MODEL with one; SURE is for either.
"""

from __future__ import annotations

from typing import Final

PLAIN: Final[dict[str, float]] = {
    "coverage": 3.54,
    "in parameters": 2.276,
    "name covered": 2.428,
    "description covered": 4.107,
    "neighbours": 4.478,
    "letters of name": 0.647,
    "meaning": 4.098,
    "best meaning": 3.101,
    "exact words": 1.558,
    "best words": 1.149,
}
MODEL: Final[dict[str, float]] = {
    "coverage": 2.476,
    "in parameters": 2.749,
    "name covered": 2.554,
    "description covered": 2.949,
    "neighbours": 4.377,
    "letters of name": 0.647,
    "meaning": 1.771,
    "best meaning": 1.323,
    "exact words": 1.455,
    "best words": 0.818,
    "model": 5.962,
    "best model": 4.503,
}
SURE: Final[dict[str, dict[str, float]]] = {
    "plain": {"bias": -1.533, "five": 3.04, "value": 0.352, "size": -0.349, "usual": 1.202},
    "model": {"bias": -2.204, "five": 2.457, "value": 0.405, "size": -0.278, "usual": 0.266},
}
