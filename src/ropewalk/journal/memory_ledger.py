"""The ledger of a store in memory, which also answers for stores that save what they hold."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .changes import Changes
from .ledger import AMOUNTS, Exhausted, Limits, check_limits

if TYPE_CHECKING:
    from .memory import Record


class MemoryLedger(Changes):
    """The accounts and the reservations of a store, under its lock."""

    _runs: dict[str, Record]

    def __init__(self) -> None:
        super().__init__()
        self._accounts: dict[str, dict[str, float]] = {}
        self._reservations: dict[str, list[str]] = {}
        self._members: dict[str, list[str]] = {}
        self._kept_until: dict[str, float] = {}

    def reserve(self, key: str, limits: Limits, calls: int = 1, /) -> Exhausted | None:
        with self._changing:
            if key in self._reservations:
                return None
            used = {account: self.used(account) for account in limits}
            exhausted = check_limits(limits, used) if calls else None
            if exhausted is None:
                self._reservations[key] = sorted(limits)
                self._changed("reservation", key)
                self._add(sorted(limits), {"calls": calls})
            return exhausted

    def settle(self, key: str, amounts: Mapping[str, float], /) -> None:
        with self._changing:
            self._add(self._reservations.pop(key, []), amounts)
            self._changed("reservation", key)

    def used(self, account: str, /) -> dict[str, float]:
        with self._lock:
            return self._accounts.get(account) or dict.fromkeys(AMOUNTS, 0)

    def join(self, run_id: str, accounts: Iterable[str], until: float, /) -> None:
        with self._changing:
            for account in accounts:
                self._accounts[account] = self.used(account)
                self._kept_until[account] = max(until, self._kept_until.get(account, 0.0))
                members = self._members.setdefault(account, [])
                if run_id in self._runs and run_id not in members:
                    members.append(run_id)
                self._changed("account", account)

    def members(self, account: str, /) -> list[str]:
        with self._lock:
            return list(self._members.get(account, ()))

    def _drop_accounts(self) -> None:
        """Delete the accounts without a run that need not be kept any more, and what is reserved in them."""
        now, accounts, reservations = time.time(), list(self._accounts), list(self._reservations)
        self._members = {
            account: left
            for account, members in self._members.items()
            if (left := [run for run in members if run in self._runs])
        }
        self._accounts = {
            account: used
            for account, used in self._accounts.items()
            if account in self._members or self._kept_until.get(account, 0.0) >= now
        }
        self._kept_until = {account: self._kept_until.get(account, 0.0) for account in self._accounts}
        self._reservations = {
            key: accounts
            for key, accounts in self._reservations.items()
            if all(account in self._accounts for account in accounts)
        }
        for account in accounts:
            self._changed("account", account)
        for key in set(reservations) - self._reservations.keys():
            self._changed("reservation", key)

    def _add(self, accounts: list[str], amounts: Mapping[str, float]) -> None:
        for account in accounts:
            before = self.used(account)
            self._accounts[account] = {name: before[name] + amounts.get(name, 0) for name in AMOUNTS}
            self._changed("account", account)
