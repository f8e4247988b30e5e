"""The operations on plans over HTTP: find, check, run, resume, save."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import Field

from ...app.plan_operations import call_operation
from ...app.start import Start
from ...select.search import MAX_LIMIT, MAX_QUERIES, USUAL_LIMIT
from ...values import check_json
from . import models
from .errors import Answer, Route, Served
from .models import RequestBody

router = APIRouter(prefix="/api/plans", tags=["plans"], route_class=Route, default_response_class=Answer)


class FindTools(RequestBody):
    queries: list[str] | None = Field(
        None, min_length=1, max_length=MAX_QUERIES, description="One query per task: an operation and an object."
    )
    request: str | None = Field(None, max_length=10_000, description="One task, in place of `queries`.")
    limit: int = Field(USUAL_LIMIT, ge=1, le=MAX_LIMIT)


class CheckPlan(RequestBody):
    code: str = Field(description="The program.")
    input: dict[str, Any] | None = None


class RunPlan(CheckPlan):
    budget: dict[str, Any] | None = Field(
        None, description="The limits of the whole run: `calls`, `seconds`, `tokens` and `cost` (US dollars)."
    )
    runId: str | None = Field(None, max_length=500, description="The id of the run, by which its events can be read.")


class ResumeRun(RequestBody):
    runId: str = Field(max_length=500)
    decision: dict[str, Any] | None = Field(
        None, description="`approved` with `note`, `node` and `digest`, or `event` with `payload`."
    )
    code: str | None = Field(None, description="A corrected program. Calls that were already made are not repeated.")
    by: str | None = Field(None, max_length=500, description="The person who decides.")


class SavePlan(RequestBody):
    name: str = Field(max_length=64)
    code: str
    description: str = Field(max_length=10_000)


async def _answer(app: Served, name: str, body: RequestBody, **options: Any) -> Answer:
    fields = body.model_dump(exclude_none=True, exclude={"runId", "by"})
    if name == "resume_run":
        fields["run_id"] = options.pop("resumes")
    check_json(fields, "arguments")
    return Answer(await call_operation(app.plans.for_models(), name, fields, **options))


@router.post("/find", summary="Find tools for a program", response_model=models.PlanTools)
async def find(body: FindTools, app: Served) -> Answer:
    """Return the tools that a request needs, as Python stubs."""
    return await _answer(app, "find_tools", body)


@router.post("/check", summary="Check a program", response_model=models.PlanCheck)
async def check(body: CheckPlan, app: Served) -> Answer:
    """Return the problems of a program with their places, or the calls that it may make. No tool is called."""
    return await _answer(app, "check_plan", body)


@router.post("/run", summary="Run a program", response_model=models.PlanAnswer)
async def run(body: RunPlan, app: Served) -> Answer:
    """Check and run a program. The answer comes when it ends, or waits for an approval or an event."""
    return await _answer(app, "run_plan", body, start=Start(run_id=body.runId))


@router.post("/resume", summary="Resume a program", response_model=models.PlanAnswer)
async def resume(body: ResumeRun, app: Served) -> Answer:
    """Continue a run after an approval, an event or a failure, or with corrected code."""
    return await _answer(app, "resume_run", body, resumes=body.runId, may_decide=True, by=body.by)


@router.post("/save", summary="Save a program", response_model=models.PlanAnswer)
async def save(body: SavePlan, app: Served) -> Answer:
    """Save a program as a tool. By default this waits for an approval."""
    return await _answer(app, "save_plan", body)
