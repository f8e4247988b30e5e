"""The page about workers, from SQLite to two workers on Postgres, run as it stands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import test_docs
from ropewalk.journal import open_store

from .crew import Crew


def test_a_newcomer_gets_from_sqlite_to_two_workers_by_the_page_alone(
    crew: Callable[..., Crew], tmp_path: Path
) -> None:
    url = crew().url
    page = test_docs.PROJECT / "docs" / "workers.md"
    done: list[subprocess.CompletedProcess[str]] = []
    os.environ["DATABASE_URL"] = url
    try:
        for block in test_docs.blocks(page.read_text("utf-8")):
            done.append(test_docs.run(block, tmp_path))
            assert done[-1].returncode == 0, f"workers.md:{block.line}\n{done[-1].stdout}"
    finally:
        del os.environ["DATABASE_URL"]
    assert any("takes runs" in one.stdout and '{"each":[12,12]}' in one.stdout for one in done), done
    store = open_store(url)
    assert {row.status for row in store.list_runs()} == {"completed"}
    store.close()
