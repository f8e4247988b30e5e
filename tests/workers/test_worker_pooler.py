"""Workers behind PgBouncer in session mode."""

from __future__ import annotations

from pathlib import Path

from journal.pgbouncer import pgbouncer

from .crew import STEPS, Crew, kill


def test_a_killed_worker_behind_a_pooler_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    with pgbouncer(postgres_url, "session", "default_pool_size = 60", "max_client_conn = 200") as url:
        scene = Crew(tmp_path / "project", url, STEPS, "")
        try:
            workers = scene.hire(2)
            ids = [scene.submit("chain.yaml", id=f"r{n}") for n in range(4)]
            kill(workers[0])
            assert [scene.until_ended(id) for id in ids] == ["completed"] * 4
        finally:
            scene.dismiss()
