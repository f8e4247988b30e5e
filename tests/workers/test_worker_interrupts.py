"""Ctrl-C at each turn of the event loop until a command knows its run: what the command says of it is true."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.doors.cli.dispatch import dispatch
from ropewalk.journal.address import open_store
from ropewalk.journal.protocol import RunRow

CHAIN = "name: greeting\nnodes: [{id: a, type: tool, tool: greet, params: {fail: $input.fail}}]\n"
TOOLS = """
from ropewalk import tool

@tool
async def greet(fail: bool = False) -> str:
    if fail:
        raise ValueError("no")
    return "hello"
"""
MOST_TURNS = 300
ENOUGH = 3  # interruptions in a row of a command that knows its run

Interrupted = Callable[..., Iterator[tuple[str, RunRow | None]]]


@pytest.fixture
def interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Interrupted]:
    """Run a command with `{id}` again and again, interrupt it one turn later each time, and yield what it says and the
    run, until it has known its run some times."""
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "greeting.yaml").write_text(CHAIN)
    (tmp_path / "asking.yaml").write_text("nodes: [{id: ask, type: wait, event: go}]\n")
    monkeypatch.chdir(tmp_path)
    turns_left = 0
    turn: Any = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]

    def interrupted_turn(loop: asyncio.BaseEventLoop) -> None:
        nonlocal turns_left
        if threading.current_thread() is threading.main_thread():  # DBOS has a loop of its own
            turns_left -= 1
            if turns_left == 0:
                signal.raise_signal(signal.SIGINT)
        turn(loop)

    monkeypatch.setattr(asyncio.BaseEventLoop, "_run_once", interrupted_turn)

    def interrupt(
        command: str, url: str, engine: str, before: Callable[[str], None] = lambda id: None
    ) -> Iterator[tuple[str, RunRow | None]]:
        nonlocal turns_left
        (tmp_path / "ropewalk.toml").write_text(
            f'[tools]\nmodules = ["tools"]\n[store]\nurl = "{url}"\nengine = "{engine}"\n'
        )
        known = 0
        store = open_store(url, tmp_path)
        for number in range(1, MOST_TURNS):
            id = f"r{number}"
            before(id)
            capfd.readouterr()
            turns_left = number
            code = dispatch(shlex.split(command.format(id=id)))
            ended, turns_left = turns_left > 0 or code == 0, 0
            said = capfd.readouterr().err
            if ended:
                break
            assert code == 130, said
            yield said, store.get_run(id)
            known = 0 if re.search(r"^interrupted; ", said, re.MULTILINE) else known + 1
            if known == ENOUGH:
                break
        else:
            raise AssertionError("the run was never known")
        store.close()

    # A shell starts what it puts in the background with the signal ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield interrupt
    signal.signal(signal.SIGINT, handler)


def assert_true(said: str, row: RunRow | None) -> str:
    """Compare what the command says of its run with the store; return which of the endings it is."""
    if row is None or (row.status in ("failed", "waiting") and said == "interrupted; nothing has run\n"):
        assert "interrupted; nothing has run\n" in said
        return "unchanged"
    if row.status == "running":
        follow = f"workers continue the run; to follow it: ropewalk runs watch {row.id}\n"
        resume = f"interrupted; to continue the run: ropewalk resume {row.id}\n"
        assert follow in said or (said == resume and "queue" not in (row.context or {}))
        return "running"
    if row.status == "stopped":
        assert "stopping the run; its tools are being cancelled\n" in said
        return "stopped"
    assert said.endswith(f"interrupted; run {row.id} is {row.status}; to see it: ropewalk runs show {row.id}\n")
    return row.status


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        "run greeting.yaml --id {id} fail=false",
        "run greeting.yaml --id {id} fail=false --no-wait",
        "runs retry {id}",
        *(
            pytest.param(words, marks=pytest.mark.campaign("reliability", only=True))
            for words in (
                "run greeting.yaml --id {id} fail=false --queue default",
                "runs fork failed --id {id}",
                "resume {id}",
            )
        ),
    ],
)
def test_ctrl_c_of_a_command_whose_run_workers_execute_says_where_the_run_is(
    interrupted: Interrupted, postgres_url: str, tmp_path: Path, command: str
) -> None:
    async def existing(id: str) -> None:
        async with App.open(tmp_path, engine="local") as app:
            if "retry" in command or ("fork" in command and id == "r1"):
                await app.run(tmp_path / "greeting.yaml", {"fail": True}, run_id="failed" if "fork" in command else id)
            elif "resume" in command:
                await app.run(tmp_path / "asking.yaml", run_id=id, park=True)

    seen = interrupted(command, postgres_url, "dbos", lambda id: asyncio.run(existing(id)))
    assert {assert_true(said, row) for said, row in seen} >= {"unchanged", "running"}


def test_ctrl_c_of_a_run_in_this_process_says_whether_it_is_stored(interrupted: Interrupted) -> None:
    seen = interrupted("run greeting.yaml --id {id} fail=false", "runs.db", "local")
    assert {assert_true(said, row) for said, row in seen} >= {"unchanged"}
