"""The ledger of a store: what runs have used of their budgets, and what calls in progress have reserved.

An account counts for everything that shares one budget: a run with its corrections, a definition, a day of a project. A
call is reserved before it is made, in every account that it counts for, and settled after it. Both are one transaction
each, so parallel calls in any number of processes never exceed a limit of calls. A reservation survives a crash of its
process: the call is repeated under the same key, and counts once. An account is deleted with the last of its runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeAlias, runtime_checkable

from ..fast_dataclass import dataclass
from ..values import Json

AMOUNTS: Final = ("calls", "seconds", "tokens", "cost", "unpriced")
"""What an account counts. `unpriced` is the number of turns of models whose price is not known."""
Limits: TypeAlias = Mapping[str, Mapping[str, float]]
"""By account the limits of its budget, by amount."""


MAX_LIMITS: Final = {"calls": 2**53, "tokens": 2**53, "seconds": 10 * 365 * 86_400, "cost": 1e12}
"""The largest limit of each amount: ten years, and numbers that every store holds exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """The limit that refuses a call: the account, the amount, its limit, and how much is used or reserved."""

    account: str
    amount: str
    limit: float
    used: float


@runtime_checkable
class LedgerStore(Protocol):
    """The part of a store that keeps the ledger; a store without it refuses runs with a budget."""

    def reserve(self, key: str, limits: Limits, calls: int = 1, /) -> Exhausted | None:
        """Reserve calls in every account, or return the first limit that is reached."""
        # Atomic: all accounts are checked and changed, or none. A key that is reserved already is not counted again. An
        # account without limits only counts. With 0 calls nothing is checked.
        ...

    def settle(self, key: str, amounts: Mapping[str, float], /) -> None:
        """End a reservation, and add what was used besides its calls to its accounts."""
        # Without such a reservation nothing happens, so that a repeated settlement counts once.
        ...

    def used(self, account: str, /) -> dict[str, float]:
        """Return what is used of an account, reserved calls included; 0 of each amount for a new one."""
        ...

    def join(self, run_id: str, accounts: Iterable[str], until: float, /) -> None:
        """Let a run count for accounts, which are kept until it is deleted, and at least until a time."""
        # Pruning deletes the accounts without runs, and what is reserved in them. The time is in seconds since the
        # epoch: later runs may count for the same account, as for that of a day.
        ...

    def members(self, account: str, /) -> list[str]:
        """Return the ids of the runs that count for an account, oldest first."""
        ...


def check_limits(limits: Limits, used: Mapping[str, Mapping[str, float]]) -> Exhausted | None:
    """Return the first limit that is reached; None if there is none."""
    for account, budget in limits.items():
        amounts = used[account]
        for amount, limit in budget.items():
            if amounts[amount] >= limit or (amount == "cost" and amounts["unpriced"]):
                return Exhausted(account=account, amount=amount, limit=limit, used=amounts[amount])
    return None


def limit_problem(name: str, value: Json) -> str:
    """Return what is wrong with a limit of a budget; "" for a valid one."""
    if name not in MAX_LIMITS:
        return "must be calls, seconds, tokens or cost"
    # In Python, bool is a subclass of int; True is no limit.
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and -math.inf < value < math.inf
    whole = name in ("calls", "tokens")
    least_ok = is_number and (value > 0 if name == "seconds" else value >= 0)
    if not least_ok or (whole and not isinstance(value, int)):
        kind = "an integer of 0 or more" if whole else "a number above 0" if name == "seconds" else "a number from 0"
        return f"must be {kind}{', in US dollars' if name == 'cost' else ''}"
    return "" if value <= MAX_LIMITS[name] else f"must be at most {MAX_LIMITS[name]:,.10g}"
