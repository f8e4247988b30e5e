"""Each remedy in the words of each interface."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from ropewalk.doors.cli.dispatch import dispatch
from ropewalk.doors.errors import error_message
from ropewalk.doors.remedies import WORDINGS, Door, word_remedy
from ropewalk.errors import Action, DefinitionChanged, Remedy, StoreError

EXAMPLE = {
    "run_id": "a b",
    "node": "each[3]/fetch",
    "name": "nightly",
    "tool": "scale:weigh",
    "server": "shop",
    "scope": "orders:write",
    "file": "new flow.yaml",
}
FLAG = re.compile(r"ropewalk |--[a-z]")


def example(action: Action) -> Remedy:
    names = {name for _, name, _, _ in Formatter().parse(action.value) if name}
    return Remedy(action, {name: EXAMPLE[name] for name in names})


def test_every_action_has_a_row() -> None:
    assert set(WORDINGS) == set(Action)


@pytest.mark.parametrize("door", Door, ids=lambda door: door.value)
@pytest.mark.parametrize("action", Action, ids=lambda action: action.name)
def test_every_remedy_has_words_at_every_door(action: Action, door: Door) -> None:
    remedy = example(action)
    words = word_remedy(remedy, door)
    assert words
    assert not re.search(r"\{(run_id|node|name|tool|server|scope|file)\}", words)
    if door is Door.PYTHON:
        assert not FLAG.search(words)
        assert "/api/" not in words
    elif door is Door.CLI:
        assert "/api/" not in words
        assert "await" not in words
    else:
        # A command is of use only to whoever sits at the server, and the text says so.
        assert "await" not in words
        assert ("on the server's host" in words) is bool(FLAG.search(words) or "ROPEWALK_STORE" in words)
    assert error_message(StoreError("It failed").with_remedy(action, **remedy.arguments), door) == f"It failed; {words}"


def test_arguments_are_encoded_for_the_interface() -> None:
    again = Remedy(Action.RETRY_FROM, {"run_id": "a b", "node": 'x["y"]'})
    assert word_remedy(again, Door.CLI) == """to run it again: ropewalk runs retry 'a b' --from 'x["y"]'"""
    assert word_remedy(again, Door.HTTP).endswith(r"""POST /api/runs/a%20b/retry with {"nodes": ["x[\"y\"]"]}""")
    assert word_remedy(again, Door.PYTHON).endswith("""await app.runs.retry('a b', ['x["y"]'])""")


def test_an_error_carries_its_remedy_as_data() -> None:
    error = DefinitionChanged("r", [])
    assert error.remedy == Remedy(Action.UPGRADE, {"run_id": "r", "file": "FILE"})
    assert "ropewalk" not in str(error)


def test_a_printed_command_names_the_store_and_the_project_of_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.db").write_text("x")
    assert dispatch(["runs", "ls", "--store", "bad.db", "-C", "."]) == 1
    assert "run `ropewalk doctor --store bad.db -C .` to see" in capfd.readouterr().err
    shown = word_remedy(Remedy(Action.RESUME, {"run_id": "r"}), Door.CLI)
    assert shown == "to resume it: ropewalk resume r --store bad.db -C ."
    assert word_remedy(Remedy(Action.TRUST, {}), Door.CLI).startswith("to agree to them: ropewalk trust -C .,")
    assert word_remedy(Remedy(Action.TRUST, {}), Door.HTTP).startswith("to agree to them: ropewalk trust,")
    assert dispatch(["runs", "ls"]) == 0
    assert word_remedy(Remedy(Action.RESUME, {"run_id": "r"}), Door.CLI) == "to resume it: ropewalk resume r"
