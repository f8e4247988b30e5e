"""The thread that kills children which exceed their limits, also while the event loop of their caller is busy."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

_TICK: Final = 0.05  # seconds between two looks at the children that compute
_PATIENCE: Final = 40  # looks without a child before the thread waits to be woken


class Watched(Protocol):
    """A child that computes."""

    def exceeded(self, now: float) -> str | None:
        """Return the limit that the child exceeds, if it does."""
        ...

    def kill(self, reason: str) -> None:
        """End the child, and remember why."""
        ...


class Watch:
    """Looks after the children that compute."""

    def __init__(self) -> None:
        self._children: set[Watched] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_idle = True
        self._thread: threading.Thread | None = None

    def add(self, child: Watched) -> None:
        """Look after a child from now on."""
        with self._lock:
            self._children.add(child)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ropewalk-plans", daemon=True)
                self._thread.start()
            if self._is_idle:
                self._wake.set()

    def remove(self, child: Watched) -> None:
        """Look after a child no longer."""
        with self._lock:
            self._children.discard(child)

    @property
    def children(self) -> int:
        """How many children compute now."""
        return len(self._children)

    def _run(self) -> None:
        quiet = 0
        while True:
            time.sleep(_TICK)
            with self._lock:
                children = list(self._children)
                quiet = 0 if children else quiet + 1
                self._is_idle = quiet > _PATIENCE
                if self._is_idle:
                    self._wake.clear()
            for child in children:
                limit = child.exceeded(time.monotonic())
                with self._lock:
                    # A child that has just answered may serve another program.
                    if limit is not None and child in self._children:
                        child.kill(limit)
            if quiet > _PATIENCE:
                self._wake.wait()
