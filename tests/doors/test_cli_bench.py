"""`ropewalk bench`: it measures, and leaves nothing behind."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.process

CASES = ["one after another", "all at once", "runs of 10 steps at once"]


def test_a_step_is_measured_by_hand_in_memory_and_beside_the_store(project):
    assert project("run", "shout.yaml", "--input", '{"text": "a"}').code == 0
    before = sorted(path for path in project.home.rglob("*") if "__pycache__" not in path.parts)
    done = project("bench", "--steps", "20", "--rounds", "1", "--json")
    assert done.code == 0, done.err
    cases = done.data["cases"]
    assert [one["where"] for one in cases] == ["plain asyncio", *["memory"] * 3, *["sqlite"] * 3]
    assert [one["case"] for one in cases[1:]] == [*CASES, *CASES]
    assert all(one["microsecondsPerStep"] > 0 and one["steps"] == 20 for one in cases)
    assert sorted(path for path in project.home.rglob("*") if "__pycache__" not in path.parts) == before
    assert len(project("runs", "ls", "--json").data) == 1
    assert "plain asyncio  one after another" in project("bench", "--steps", "2", "--rounds", "1").out


def test_in_postgres_it_has_a_schema_of_its_own_and_drops_it(project, postgres_url):
    import psycopg

    done = project("bench", "--steps", "5", "--rounds", "1", "--store", postgres_url)
    assert done.code == 0, done.err
    assert done.out.count("postgres") == 3
    with psycopg.connect(postgres_url.partition("?")[0] + _without_schema(postgres_url)) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'ropewalk_bench%'").fetchall()
    assert found == []


@pytest.mark.parametrize("store", ["foo://x", "sqlit:///a.db"])
def test_an_address_that_names_no_store_is_told(project, store):
    done = project("bench", "--steps", "5", "--rounds", "1", "--store", store)
    assert done.code == 1
    assert "unsupported store URL" in done.err


def _without_schema(url: str) -> str:
    words = [word for word in url.partition("?")[2].split("&") if word and not word.startswith("schema=")]
    return f"?{'&'.join(words)}" if words else ""
