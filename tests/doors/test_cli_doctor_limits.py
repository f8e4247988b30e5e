"""`doctor` comes to its end whatever does not answer, says what that was, and looks at the rest."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from faults.scene import Scene
from ropewalk.doors.cli import dispatch
from ropewalk.journal.address import open_store
from ropewalk.journal.postgres.session import parse_target
from ropewalk.journal.protocol import NewRun
from tiers import sampled

pytestmark = pytest.mark.process


async def fill(address: str) -> None:
    store = open_store(address)
    await (await store.open(NewRun(id="r", kind="chain"))).finish("completed", None)
    store.close()


def findings(scene: Scene, *more: str) -> dict[str, tuple[str, str]]:
    done = scene.run("doctor", "--timeout", "1", "--json", *more)
    told: dict[str, Any] = json.loads(done.out)
    assert told["ok"] is (done.code == 0)
    return {one["name"]: (one["state"], one["message"]) for one in told["findings"]}


def test_a_postgres_store_that_is_locked_is_named_and_the_rest_is_looked_at(tmp_path: Path, postgres_url: str) -> None:
    scene = Scene(tmp_path / "project", store=postgres_url)
    asyncio.run(fill(postgres_url))
    where = parse_target(postgres_url)
    with psycopg.connect(**where.parameters) as holder:
        holder.execute(f"LOCK TABLE {where.schema}.run IN ACCESS EXCLUSIVE MODE")
        found = findings(scene, "--runs")
    state, said = found["store"]
    assert state == "fault"
    assert "no answer within 1 s" in said
    assert "pg_stat_activity" in said
    assert found["runs"] == ("note", "not checked, because the store does not answer")
    assert found["tools"][0] == "ok"
    assert {"model", "agents"} & set(found)  # agents may be in the store
    again = scene.run("doctor", "--json", "--runs", "--timeout", "50")
    assert again.code == 0, again.out


def test_a_file_that_another_process_keeps_locked_is_named(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "project")
    asyncio.run(fill(scene.address))
    holder = apsw.Connection(str(scene.db))
    holder.pragma("locking_mode", "exclusive")
    holder.execute("BEGIN EXCLUSIVE; UPDATE run SET name = name")
    try:
        found = findings(scene)
    finally:
        holder.close()
    state, said = found["store"]
    assert state == "fault"
    assert "no answer within 1 s" in said
    assert "fuser" in said
    assert found["tools"][0] == "ok"


@pytest.mark.parametrize(("as_json", "printed"), [(True, b'{"ok":false}\n'), (False, b"a fault\n")])
def test_the_answer_before_a_sudden_end_has_the_form_of_the_command(
    monkeypatch: pytest.MonkeyPatch, as_json: bool, printed: bytes
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "argv", ["ropewalk"] if as_json else ["ropewalk", "--json"])
    monkeypatch.setattr(dispatch, "_kept_stdout", out)
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        dispatch.exit_now(dispatch.Answer(data={"ok": False}, text="a fault", exit=1), as_json=as_json)
    assert (ended.value.code, out.getvalue()) == (1, printed)


@pytest.mark.parametrize("form", sampled("faults", ["json", "text"], 1))
def test_a_server_that_says_nothing_is_named_and_ended(tmp_path: Path, form: str) -> None:
    scene = Scene(tmp_path / "project")
    file = scene.folder / "alive"
    code = f"import pathlib, time; pathlib.Path({str(file)!r}).touch(); time.sleep(600)"
    config = scene.folder / "ropewalk.toml"
    server = f"[mcp.silent]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['-c', code])}\n"
    config.write_text(f"{config.read_text()}\n{server}")
    if form == "json":
        state, said = findings(scene)["server silent"]
        assert (state, "no answer within 1 s" in said) == ("fault", True)
        assert file.exists()
    else:
        done = scene.run("doctor", "--timeout", "1")
        assert done.code == 1
        assert "✗ server silent" in done.out
        assert done.out.rstrip().endswith("found")
