"""The ledger of a store in memory, which also answers for stores that save what they hold."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from .ledger import AMOUNTS, Exhausted, Limits, check_limits


class MemoryLedger:
    """The accounts and the reservations of a store, under its lock."""

    _lock: threading.RLock

    def __init__(self) -> None:
        self._accounts: dict[str, dict[str, float]] = {}
        self._reservations: dict[str, list[str]] = {}

    def reserve(self, key: str, limits: Limits, calls: int = 1, /) -> Exhausted | None:
        with self._lock:
            if key in self._reservations:
                return None
            used = {account: self.used(account) for account in limits}
            exhausted = check_limits(limits, used) if calls else None
            if exhausted is None:
                self._reservations[key] = sorted(limits)
                self._add(sorted(limits), {"calls": calls})
            return exhausted

    def settle(self, key: str, amounts: Mapping[str, float], /) -> None:
        with self._lock:
            self._add(self._reservations.pop(key, []), amounts)

    def used(self, account: str, /) -> dict[str, float]:
        with self._lock:
            return self._accounts.get(account) or dict.fromkeys(AMOUNTS, 0)

    def _add(self, accounts: list[str], amounts: Mapping[str, float]) -> None:
        for account in accounts:
            before = self.used(account)
            self._accounts[account] = {name: before[name] + amounts.get(name, 0) for name in AMOUNTS}
