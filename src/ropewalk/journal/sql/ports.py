"""The protocols between the writer, the lease watcher and the logs of a SQL store.

The watcher calls the writer, and both call the open logs; the log and the writer in turn hold the watcher. These two
protocols let each of them name the others without importing their modules, so that no import cycle arises, not even
one of types. Add a method here only when two of the three modules need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ...errors import StoreError
from ..protocol import RunRow
from .rows import Connection, Row

T = TypeVar("T")


class OpenRun(Protocol):
    """The log of a run that this process owns, as the writer and the lease watcher use it."""

    seq: int
    epoch: int
    run: RunRow
    renewed_at: float
    """When, by `boottime`, the last confirmed lease renewal was sent."""
    touched: bool
    """Whether the run has something to show with the next heartbeat."""
    beaten_at: float
    """When the last heartbeat was written, by `time.monotonic`."""
    last_signal: int
    """Number of the last signal that the run was notified of."""
    failure: StoreError | None
    """Set by the writer: nothing of this run is written until its event loop knows."""
    on_signal: Callable[[], None] | None
    node: str

    @property
    def abandoned(self) -> bool:
        """True if nobody can release the run any more: its event loop is closed, or its release failed."""
        ...

    def elapsed(self) -> float:
        """Measure the run."""
        ...

    def lease_values(self) -> tuple[float | str, ...]:
        """Collect the values of a heartbeat."""
        ...

    async def renew(self) -> None:
        """Renew the lease now; raise Fenced when another process has taken the run over."""
        ...

    def stop_soon(self) -> None:
        """Have `on_stop` called once on the run's event loop."""

        # Safe from any thread.
        ...

    def signal_soon(self) -> None:
        """Have `on_signal` called on the run's event loop."""

        # Safe from any thread.
        ...

    def not_written(self, row: Row, error: Exception) -> None:
        """Take back an entry that could not be written."""
        ...


class LeaseWriter(Protocol):
    """The writer of a store, as its lease watcher uses it."""

    @property
    def connection(self) -> Connection:
        """The connection for writing."""
        ...

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The exceptions that the database and its driver raise."""
        ...

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Call a function in one transaction."""

        # The caller holds the writer's lock.
        ...

    def retry_transient(self, work: Callable[[], T]) -> T:
        """Call a function, and again while the obstacle may pass."""
        ...

    def version(self) -> int | None:
        """Read the version of the database."""
        ...

    def listens_for_changes(self) -> bool:
        """Ask the database for announcements."""
        ...

    def check_location(self) -> None:
        """Check that the store is still where it was opened."""
        ...

    def wake_regularly(self) -> None:
        """Make the writer's thread look at the open runs from now on."""
        ...

    def wake_once(self) -> None:
        """Wake the writer's thread once."""
        ...
