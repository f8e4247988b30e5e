"""The ledger in a SQL store. Each function is one transaction of the writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import orjson

from ..ledger import AMOUNTS, Exhausted, Limits, check_limits
from .rows import Connection, fetch

_COLUMNS: Final = ", ".join(AMOUNTS)
_ADD: Final = f"UPDATE account SET {', '.join(f'{name} = {name} + ?' for name in AMOUNTS)} WHERE id = ?"

_KEEP: Final = "UPDATE account SET kept_until = CASE WHEN kept_until < ?1 THEN ?1 ELSE kept_until END WHERE id = ?2"
_JOIN: Final = "INSERT INTO account_run (account, run) SELECT ?, seq FROM run WHERE id = ? ON CONFLICT DO NOTHING"
_MEMBERS: Final = "SELECT run.id FROM account_run JOIN run ON seq = run WHERE account = ? ORDER BY seq"
_UNUSED: Final = "kept_until < ? AND NOT EXISTS (SELECT 1 FROM account_run WHERE account = account.id)"


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


def join(connection: Connection, run_id: str, accounts: Iterable[str], until: float) -> None:
    for account in sorted(accounts):
        connection.execute("INSERT INTO account (id) VALUES (?) ON CONFLICT DO NOTHING", (account,))
        # This locks the row in any case, so that nobody deletes the account meanwhile.
        connection.execute(_KEEP, (until, account))
        connection.execute(_JOIN, (account, run_id))


def members(connection: Connection, account: str) -> list[str]:
    return [id for (id,) in fetch(connection, _MEMBERS, (account,))]


def find_unused(connection: Connection, now: float) -> list[str]:
    """Return the accounts that no run counts for and that need not be kept."""
    return [id for (id,) in fetch(connection, f"SELECT id FROM account WHERE {_UNUSED} ORDER BY id", (now,))]


def drop_unused(connection: Connection, accounts: Iterable[str], now: float) -> None:
    """Delete those of these accounts that are still unused, and the reservations in them."""
    delete = f"DELETE FROM account WHERE {_UNUSED} AND id = ? RETURNING id"
    dropped = {id for account in accounts for (id,) in fetch(connection, delete, (now, account))}
    reserved = fetch(connection, "SELECT key, accounts FROM reservation") if dropped else []
    ended = [(key,) for key, text in reserved if not dropped.isdisjoint(orjson.loads(text))]
    connection.executemany("DELETE FROM reservation WHERE key = ?", ended)


def _add(connection: Connection, accounts: list[str], amounts: Mapping[str, float]) -> None:
    values = [amounts.get(name, 0) for name in AMOUNTS]
    connection.executemany(_ADD, [(*values, account) for account in accounts])
