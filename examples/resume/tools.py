"""A step with an effect that must not happen twice, and a log outside the process to prove it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ropewalk import tool


@tool
def ship(order: int) -> dict[str, int]:
    """Ship one order."""
    time.sleep(0.1)
    with Path(os.environ["SHIPPED"]).open("a") as log:
        log.write(f"{order}\n")
    return {"shipped": order, "process": os.getpid()}
