"""The ledger in a SQL store. Each function is one transaction of the writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from ..ledger import AMOUNTS, Exhausted, Limits, check_limits
from .rows import Connection, fetch

_COLUMNS: Final = ", ".join(AMOUNTS)
_ADD: Final = f"UPDATE account SET {', '.join(f'{name} = {name} + ?' for name in AMOUNTS)} WHERE id = ?"


def reserve(connection: Connection, key: str, limits: Limits, calls: int) -> Exhausted | None:
    # The accounts are locked in one order, so that two calls never wait for each other.
    for account in sorted(limits):
        connection.execute("INSERT INTO account (id) VALUES (?) ON CONFLICT DO NOTHING", (account,))
        connection.execute("UPDATE account SET calls = calls WHERE id = ?", (account,))
    if fetch(connection, "SELECT 1 FROM reservation WHERE key = ?", (key,)):
        return None
    exhausted = check_limits(limits, {account: used(connection, account) for account in limits}) if calls else None
    if exhausted is None:
        accounts = orjson.dumps(sorted(limits)).decode()
        connection.execute("INSERT INTO reservation (key, accounts) VALUES (?, ?)", (key, accounts))
        if calls:
            _add(connection, sorted(limits), {"calls": calls})
    return exhausted


def settle(connection: Connection, key: str, amounts: Mapping[str, float]) -> None:
    for (accounts,) in fetch(connection, "DELETE FROM reservation WHERE key = ? RETURNING accounts", (key,)):
        if any(amounts.values()):
            _add(connection, orjson.loads(accounts), amounts)


def used(connection: Connection, account: str) -> dict[str, float]:
    rows = fetch(connection, f"SELECT {_COLUMNS} FROM account WHERE id = ?", (account,))
    return dict(zip(AMOUNTS, rows[0] if rows else (0,) * len(AMOUNTS), strict=True))


def _add(connection: Connection, accounts: list[str], amounts: Mapping[str, float]) -> None:
    values = [amounts.get(name, 0) for name in AMOUNTS]
    connection.executemany(_ADD, [(*values, account) for account in accounts])
