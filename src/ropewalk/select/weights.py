"""The weights of the features (see features.NAMES), and how sure a score makes one.

Made by `bench/select_fit.py --write` on the sets metatool, bfcl, sealtools, toolbench, alpaca, tmdb, spotify,
acebench, livemcp, nestful, each counting the same. PLAIN is without a model, MODEL with one; SURE is for
either, fitted on metatool, bfcl, sealtools.
"""

from __future__ import annotations

from typing import Final

PLAIN: Final[dict[str, float]] = {
    "coverage": 3.307,
    "in parameters": 2.155,
    "name covered": 1.506,
    "description covered": 3.695,
    "neighbours": 2.641,
    "letters of name": 0.996,
    "meaning": 3.092,
    "best meaning": 2.463,
    "exact words": 0.793,
    "best words": 0.566,
}
MODEL: Final[dict[str, float]] = {
    "coverage": 2.477,
    "in parameters": 2.289,
    "name covered": 1.146,
    "description covered": 2.827,
    "neighbours": 2.496,
    "letters of name": 1.325,
    "meaning": 1.382,
    "best meaning": 1.092,
    "exact words": 0.611,
    "best words": 0.445,
    "model": 4.205,
    "best model": 3.112,
}
SURE: Final[dict[str, dict[str, float]]] = {
    "plain": {"bias": -0.864, "five": 4.325, "value": 0.295, "size": -0.376, "usual": 0.795},
    "model": {"bias": -1.505, "five": 3.244, "value": 0.431, "size": -0.316, "usual": 0.269},
}
