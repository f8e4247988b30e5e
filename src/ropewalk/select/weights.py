"""The weights of the features (see features.NAMES), and how sure a score makes one.

Made by `bench/select_fit.py --write` on the sets metatool, bfcl, sealtools, each counting the same.
PLAIN is without a model, MODEL with one; SURE is for either.
"""

from __future__ import annotations

from typing import Final

PLAIN: Final[dict[str, float]] = {
    "coverage": 3.759,
    "in parameters": 2.443,
    "name covered": 2.497,
    "description covered": 4.578,
    "neighbours": 4.547,
    "letters of name": 1.064,
    "meaning": 2.813,
    "best meaning": 2.938,
    "exact words": 1.179,
    "best words": 1.697,
}
MODEL: Final[dict[str, float]] = {
    "coverage": 2.72,
    "in parameters": 2.608,
    "name covered": 2.049,
    "description covered": 3.099,
    "neighbours": 4.463,
    "letters of name": 0.971,
    "meaning": 1.105,
    "best meaning": 1.162,
    "exact words": 1.289,
    "best words": 1.147,
    "model": 6.063,
    "best model": 4.69,
}
SURE: Final[dict[str, dict[str, float]]] = {
    "plain": {"bias": -1.377, "five": 2.649, "value": 0.348, "size": -0.339, "usual": 1.765},
    "model": {"bias": -2.112, "five": 2.246, "value": 0.406, "size": -0.277, "usual": 0.417},
}
