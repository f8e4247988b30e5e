"""The page about workers, from SQLite to two workers on Postgres, run as it stands."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import test_docs
from ropewalk.journal.address import open_store

from .crew import Crew

PAGE = test_docs.PROJECT / "docs" / "workers.md"


@pytest.mark.parametrize("shells", ["fresh ones", "one"])
def test_a_newcomer_gets_from_sqlite_to_two_workers_by_the_page_alone(
    shells: str, crew: Callable[..., Crew], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = crew().url
    monkeypatch.setenv("DATABASE_URL", url)
    steps = test_docs.blocks(PAGE.read_text("utf-8"))
    if shells == "one":
        pasted = [step for step in steps if step.kind == "sh"]
        steps = [replace(pasted[0], code="\n".join(step.code for step in pasted))]
    done: list[subprocess.CompletedProcess[str]] = []
    for block in steps:
        done.append(test_docs.run(block, tmp_path))
        assert done[-1].returncode == 0, f"workers.md:{block.line}\n{done[-1].stdout}"
    assert any("takes runs" in one.stdout and '{"each":[12,12]}' in one.stdout for one in done), done
    store = open_store(url)
    assert {row.status for row in store.list_runs()} == {"completed"}
    assert len(store.list_runs()) == 3  # one of them copied
    store.close()
