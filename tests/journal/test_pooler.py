"""A store behind a connection pooler: sessions are kept, or it is refused with the reason and the cure."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

import fork_server
from journal.pgbouncer import pgbouncer
from ropewalk import App, tool
from ropewalk.errors import StoreError
from ropewalk.journal.postgres import session
from ropewalk.journal.postgres.store import PostgresStore

pytestmark = pytest.mark.process

CHAIN = {
    "kind": "chain",
    "name": "sums",
    "nodes": [{"id": f"n{i}", "type": "tool", "tool": "inc", "params": {"n": i}} for i in range(20)],
}


@tool
async def inc(n: int) -> int:
    """Add one."""
    return n + 1


@pytest.mark.parametrize("robin", [0, 1])
@pytest.mark.parametrize("idle", [0, 1, 3])
def test_transaction_mode_is_refused_with_the_setting_to_change(postgres_url: str, robin: int, idle: int) -> None:
    with pgbouncer(postgres_url, "transaction", f"server_round_robin = {robin}") as url:
        plain = url.partition("?")[0]
        # Leave several idle server connections in the pool, which a check could mistake for sessions.
        busy = [psycopg.connect(plain) for _ in range(idle)]
        for connection in busy:
            connection.execute("SELECT 1")
        for connection in busy:
            connection.close()
        with pytest.raises(StoreError, match=r"transaction mode.*pool_mode = session"):
            PostgresStore(url)


def test_statement_mode_is_refused(postgres_url: str) -> None:
    with pgbouncer(postgres_url, "statement") as url, pytest.raises(StoreError, match=r"statement mode"):
        PostgresStore(url)


def test_a_pool_of_one_connection_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_PATIENCE", 0.5)
    one = pgbouncer(postgres_url, "session", "default_pool_size = 1")
    with one as url, pytest.raises(StoreError, match=r"default_pool_size"):
        PostgresStore(url)


def test_session_mode_runs_and_resumes(postgres_url: str) -> None:
    async def case(url: str) -> None:
        for _ in range(3):
            async with App(url, tools=[inc]) as app:
                outcome = await app.run(CHAIN)
                assert outcome.results["n19"] == 20
                assert app.runs.get(outcome.run_id)["resultCount"] == 20

    with pgbouncer(postgres_url, "session") as url:
        asyncio.run(case(url))


def test_doctor_and_run_name_the_setting(postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "wait.yaml").write_text("kind: chain\nnodes:\n  - {id: a, type: delay, delay: 1}\n")
    with pgbouncer(postgres_url, "transaction") as url:
        for words in (["run", "wait.yaml"], ["doctor"]):
            done = fork_server.run(
                [fork_server.COMMAND, *words, "--store", url], cwd=tmp_path, capture_output=True, text=True, timeout=300
            )
            assert done.returncode != 0
            assert "pool_mode = session" in done.stdout + done.stderr
            assert "Traceback" not in done.stderr
