"""The weights of the features (see features.NAMES), and how sure a score makes one.

Made by `bench/select_fit.py --write` on the sets metatool, bfcl, sealtools, each counting the same.
PLAIN is without a model, MODEL with one; SURE is for both.
"""

from __future__ import annotations

from typing import Final

PLAIN: Final[dict[str, float]] = {
    "coverage": 1.94,
    "in parameters": 1.906,
    "name covered": 2.145,
    "description covered": 2.869,
    "neighbours": 1.087,
    "letters of name": 0.856,
    "meaning": 0.732,
    "best meaning": 0.91,
    "best clause": 2.255,
    "first in a clause": 0.477,
    "clause covered": 0.642,
    "meaning of a clause": 3.076,
    "exact words": 0.907,
}
MODEL: Final[dict[str, float]] = {
    "coverage": 0.526,
    "in parameters": 2.012,
    "name covered": 1.765,
    "description covered": 1.847,
    "neighbours": 1.082,
    "letters of name": 0.783,
    "meaning": 0.097,
    "best meaning": 0.121,
    "best clause": 2.127,
    "first in a clause": 0.43,
    "clause covered": 0.809,
    "meaning of a clause": 2.442,
    "exact words": 1.099,
    "model": 3.403,
    "best model": 2.268,
}
SURE: Final[dict[str, float]] = {
    "plain bias": -2.766,
    "plain coverage": 1.039,
    "plain exact words": 1.363,
    "plain clause covered": 2.081,
    "plain meaning": 0.501,
    "plain name covered": 1.232,
    "plain fall": 0.08,
    "plain evidence": 1.704,
    "model bias": -2.316,
    "model coverage": 0.872,
    "model exact words": 1.2,
    "model clause covered": 1.989,
    "model meaning": 0.472,
    "model name covered": 1.071,
    "model evidence": 1.602,
    "model fall": 0.08,
}
