"""A worker as a store knows it."""

from __future__ import annotations

from typing import Any

from ...fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A row of the table `worker`."""

    id: str
    # The process of the worker, in the words of `Owner.dump`: leases name it as their owner.
    owner: str
    # Seconds since its last heartbeat.
    silent: float
    # When the worker registered, in seconds since the epoch.
    began: float
    # What the worker says about itself: its queues, its concurrency, its version.
    about: dict[str, Any]
    # The last heartbeat by the server's clock, in seconds since the epoch; 0 if its process is known dead.
    beat: float = 0.0
