"""Limits of time that grow with the load of the machine, so that no test fails because others are busy."""

from __future__ import annotations

import os


def patience(seconds: float) -> float:
    """Return how long to wait for what takes less than `seconds` on an idle machine."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * max(1.0, 4.0 * load)
