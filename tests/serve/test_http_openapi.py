"""What the OpenAPI document says of the routes: for people, and for programs that make a client of it."""

from __future__ import annotations

from typing import Any

import pytest

from .server import Served


@pytest.fixture(scope="module")
def operations(served: Served) -> dict[str, Any]:
    """By method and path."""
    paths = served.get("/api/openapi.json").json()["paths"]
    return {f"{method.upper()} {path}": about for path, methods in paths.items() for method, about in methods.items()}


def test_each_operation_has_a_summary_of_words_and_a_name_of_its_own(operations: dict[str, Any]) -> None:
    assert operations["POST /api/runs"]["summary"] == "Start a run"
    assert operations["GET /api/runs"]["operationId"] == "list_runs"
    for key in ("summary", "operationId"):
        assert len({about[key] for about in operations.values()}) == len(operations)
    assert [about["summary"] for about in operations.values() if " " not in about["summary"]] == []


def test_each_operation_says_what_it_answers(operations: dict[str, Any]) -> None:
    for name, about in operations.items():
        answers = {status: one for status, one in about["responses"].items() if status.startswith("2")}
        assert answers, name
        for status, answer in answers.items():
            content = answer.get("content", {})
            assert status == "204" or content, name
            if "application/json" in content:
                assert content["application/json"]["schema"], (name, status)


@pytest.mark.parametrize("verb", ["", "/{run_id}/retry", "/{run_id}/resume", "/{run_id}/fork"])
def test_a_run_may_be_answered_at_once_or_with_its_result(operations: dict[str, Any], verb: str) -> None:
    answers = operations[f"POST /api/runs{verb}"]["responses"]
    shapes = {status: answers[status]["content"]["application/json"]["schema"]["$ref"] for status in ("200", "202")}
    assert shapes == {"200": "#/components/schemas/Result", "202": "#/components/schemas/Begun"}


@pytest.mark.parametrize("verb", ["retry", "resume", "fork"])
def test_no_body_is_asked_for_where_none_is_needed(operations: dict[str, Any], verb: str) -> None:
    assert not operations[f"POST /api/runs/{{run_id}}/{verb}"]["requestBody"].get("required")
