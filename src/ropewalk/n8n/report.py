"""The report of a build: as JSON, and as Markdown for people."""

from __future__ import annotations

from ..values import Json
from .builder import Built
from .phases import Passed

_WORDS = {True: "valid (n8n-mcp)", False: "not valid", None: "not judged: n8n-mcp could not be asked"}


def as_json(built: Built) -> dict[str, Json]:
    """Everything but the workflow."""
    return {
        "valid": built.valid,
        "problems": list(built.problems),
        "warnings": list(built.warnings),
        "credentials": built.credentials,
        "documentation": built.documentation,
        "repairs": built.repairs,
        "degraded": list(built.degraded),
        "usage": dict(built.usage),
        "cost": built.cost,
        "phases": [_phase(phase) for phase in built.phases],
        "runId": built.run_id,
    }


def as_text(built: Built) -> str:
    """What a person wants to know before importing it."""
    nodes = built.workflow["nodes"]
    count = len(nodes) if isinstance(nodes, list) else 0
    lines = [f"# {built.workflow['name']}", "", f"{count} nodes, {_WORDS[built.valid]}, repaired {built.repairs} times"]
    lines += _listed("Problems", built.problems)
    lines += _listed("Credentials to fill in", [_credential(one) for one in built.credentials])
    lines += _listed("Warnings", built.warnings)
    lines += _listed("Done without", built.degraded)
    spent = f"{sum(built.usage.values()):,} tokens" + (f", ${built.cost:.4f}" if built.cost is not None else "")
    calls = [f"{phase.name}: {_calls(phase)}" for phase in built.phases]
    lines += _listed(f"Phases ({spent}, run {built.run_id})", calls)
    if built.documentation:
        lines += ["", "## Documentation", "", built.documentation]
    return "\n".join(lines) + "\n"


def _phase(phase: Passed) -> dict[str, Json]:
    calls = [{key: call.get(key) for key in ("tool", "input", "round", "outcome")} for call in phase.calls]
    return {
        "name": phase.name,
        "success": phase.success,
        "degraded": list(phase.degraded),
        "rounds": phase.rounds,
        "calls": list(calls),
        "usage": dict(phase.usage),
        "cost": phase.cost,
        "runId": phase.run_id,
    }


def _calls(phase: Passed) -> str:
    if not phase.rounds:
        return "no model"
    tools = ", ".join(str(call["tool"]).rpartition(":")[2] for call in phase.calls)
    rounds = "1 round" if phase.rounds == 1 else f"{phase.rounds} rounds"
    return rounds + (f", called {tools}" if tools else ", no calls")


def _credential(one: Json) -> str:
    assert isinstance(one, dict)
    types = one["types"]
    return f"{one['node']}: {', '.join(map(str, types)) if isinstance(types, list) else types}"


def _listed(title: str, lines: object) -> list[str]:
    rows = [f"- {line}" for line in lines] if isinstance(lines, (list, tuple)) else []
    return ["", f"## {title}", "", *rows] if rows else []
