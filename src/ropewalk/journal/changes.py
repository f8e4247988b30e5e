"""The notes by which a store in memory tells a store that saves which of its parts a method has changed."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager


class Changes:
    """The lock of a store in memory, and the notes of its changes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changing: AbstractContextManager[object] = self._lock
        """Held by a method that changes the store; in a store that saves, its end saves what was noted."""

    def _changed(self, kind: str, *names: str) -> None:
        """Note that a part of the store was changed or deleted."""
