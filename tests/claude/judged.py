"""Every request that a test makes to a model is judged by the rules of the Messages API, and counted.

Requests of models in the test's own process are judged as they are made, those over the wire by the stand-ins. A test
that makes an invalid request fails, and the summary says how many were judged.
"""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.agents import turn
from ropewalk.agents.client import ClaudeClient
from ropewalk.agents.model import Request

from .judge import judge

counted = {"judged": 0, "invalid": 0}
"""Requests of this process."""
_total = {"judged": 0, "invalid": 0}
"""Requests of all processes of a parallel run."""


def check(body: dict[str, Any]) -> None:
    """Judge a body, count it, and fail where it is invalid."""
    problems = judge(body)
    counted["judged"] += 1
    if problems:
        counted["invalid"] += 1
        raise AssertionError(f"a request that the Messages API refuses: {problems}")


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Judge what every model is asked; give the list that problems are added to."""
    found: list[str] = []
    asked = turn._ask

    async def judged(client: Any, request: Request, *rest: Any) -> Any:
        if not isinstance(client, ClaudeClient):  # whose requests are judged as they come over the wire
            try:
                body = ClaudeClient().body(request)
                body.pop("extra_body", None)  # members in the words of another API
                check(body)
            except AssertionError as error:
                found.append(str(error))
        return await asked(client, request, *rest)

    monkeypatch.setattr(turn, "_ask", judged)
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["requests_judged"] = dict(counted)
    else:
        for key in _total:
            _total[key] += counted[key]


def pytest_testnodedown(node: Any, error: Any) -> None:
    for key, number in getattr(node, "workeroutput", {}).get("requests_judged", {}).items():
        _total[key] += number


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _total["judged"]:
        words = f"Messages API: {_total['judged']} requests judged, {_total['invalid']} invalid"
        terminalreporter.write_line(words)
