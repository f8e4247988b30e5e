"""The log `ropewalk.tools` has the input and the result of a model's calls, without secrets."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from ropewalk import Toolbox, tool
from ropewalk.agents import complete_with_tools
from ropewalk.testing import ScriptedModel, wants


@tool
async def sign_in(user: str, password: str) -> dict[str, Any]:
    return {"user": user, "session_token": "s3cr3t-session", "said": f"welcome, {password}", "big": "x" * 5000}


@tool
def misfit(user: str) -> dict[str, Any]:
    return user  # type: ignore[return-value]


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_it_has_input_and_result(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, level: int) -> None:
    monkeypatch.setenv("BANK_PASSWORD", "hunter2hunter2")
    caplog.set_level(level, logger="ropewalk.tools")
    calls = [wants("sign_in", {"user": "ann", "password": "hunter2hunter2"}), wants("misfit", {"user": "ann"})]
    tools = Toolbox([sign_in, misfit], strict_output=["misfit"])
    asyncio.run(complete_with_tools("go", client=ScriptedModel(calls, "done"), tools=tools))
    lines = [re.sub(r" \[.*use.*?/call\.\w+\]", "", record.getMessage()) for record in caplog.records]
    told = [line for line in lines if " input: " in line or "result: " in line]
    if level == logging.WARNING:
        assert told == []
        return
    assert 'tool sign_in input: {"user":"ann","password":"***"}' in told
    [result] = [line for line in told if line.startswith("tool sign_in result: ")]
    assert result.startswith(
        'tool sign_in result: {"user":"ann","session_token":"***","said":"welcome, ***","big":"xxx'
    )
    assert len(result) < 2100
    assert 'tool misfit rejected result: "ann"' in told
    assert "hunter2" not in " ".join(lines)
