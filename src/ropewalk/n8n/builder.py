"""Build n8n workflows from a prompt. Begin to read here.

A build has five phases (`phases.py`): the model discovers nodes, configures and connects them (`draft.py`), repairs
(`repairs.py`) and documents the workflow; code makes the JSON (`workflow.py`). n8n-mcp (`node_tools.py`) decides if a
workflow is valid, except for the errors that `verdict.py` knows to be wrong.

A build is one run, and each phase is a run that is part of it (`RUN/build/discovery`, ...). Called again with the same
`run_id` after a crash, finished phases are not repeated.

To add a tool for a phase, add a line to TOOLS (`node_tools.py`) and its name to the phase. To add a kind of repair, add
it to OPERATIONS (`repairs.py`). `as_json` and `as_text` make the report of a build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import orjson

from ..agents import Phase, PhaseResult
from ..agents.loop import retry_failed_run
from ..agents.turn import Listener
from ..engine.engine import new_run_id
from ..errors import CompletionFailed, ConfigError, JournalConflict
from ..fast_dataclass import dataclass
from ..journal.address import run_sync_in_thread
from ..journal.protocol import RunRow
from ..notations.agent import ENDS
from ..select.text import informative_words, normalised
from ..values import Json, did_you_mean
from .draft import Draft, draft_problems, make_draft
from .node_tools import NodeTypeFacts, Server, ServerDown, register
from .phases import CONFIGURATION, DISCOVERY, DOCUMENTATION, PHASES, RULES, VALIDATION, PhaseReport, ServerQuestions
from .repairs import apply_repairs
from .run import DOCUMENT, BuildParts
from .run import register as register_build
from .verdict import Verdict, make_verdict
from .workflow import MANUAL, BuiltWorkflow, make_workflow

MAX_REPAIRS: Final = 5
_MAX_SEARCH_WORDS: Final = 12


@dataclass(frozen=True, kw_only=True)
class Built:
    """The result of a build.

    Attributes:
        workflow: The workflow; n8n can import it if it is valid.
        valid: The verdict of n8n-mcp; None if n8n-mcp was not available. False also for an incomplete draft.
        problems: The remaining problems.
        warnings: The warnings of n8n-mcp, its errors that are known to be wrong, and the corrected node types.
        credentials: The credentials to fill in: `{node, types}`.
        documentation: A description of the workflow in Markdown.
        repairs: How often the draft was repaired.
        phases: The reports of the phases, in order.
        run_id: The id of the build's run.
    """

    workflow: dict[str, Json]
    valid: bool | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    credentials: list[Json]
    documentation: str
    repairs: int
    phases: tuple[PhaseReport, ...]
    run_id: str

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all phases."""
        total: dict[str, int] = {}
        for phase in self.phases:
            for unit, count in phase.usage.items():
                total[unit] = total.get(unit, 0) + count
        return total

    @property
    def cost(self) -> float | None:
        """US dollars of all phases; None if a price is not known."""
        costs = [phase.cost for phase in self.phases]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def degraded(self) -> tuple[str, ...]:
        """Tools and results that phases had to do without, as `phase: reason`."""
        return tuple(dict.fromkeys(f"{phase.name}: {reason}" for phase in self.phases for reason in phase.degraded))

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Every tool call in order, with its phase."""
        return [{"phase": phase.name, **call} for phase in self.phases for call in phase.calls]


class WorkflowBuilder:
    """Builds n8n workflows with the model, store and toolbox of an app.

    Args:
        app: The app.
        tools: Give the model tools of n8n-mcp; a mapping adds tools of the app, by the name of the phase. Without tools
            n8n-mcp still supplies facts and validates. The default adds those in `[n8n.tools]` of the project.
        directory: Where to look for `node_modules`; by default the project of the app, or the working directory.
        **options: Options of the conversations, such as model, max_tokens and token_budget.
    """

    def __init__(
        self,
        app: Any,
        *,
        tools: bool | Mapping[str, Sequence[str]] | None = None,
        directory: Path | str | None = None,
        **options: Json,
    ) -> None:
        tools = (app.context.n8n_tools or True) if tools is None else tools
        self._app, self._request = app, {"tools": _phase_tools(tools), "options": options}
        self._server = Server(app.toolbox, Path(directory or app.project or Path.cwd()))
        register(app.toolbox, self._server)
        register_build(app, self._run_build)

    @property
    def not_installed(self) -> str | None:
        """A message that says how to install n8n-mcp, if it is missing; else None."""
        return self._server.not_installed

    async def build(
        self,
        prompt: str,
        *,
        run_id: str | None = None,
        on_event: Listener | None = None,
        on_phase: Callable[[str], None] | None = None,
    ) -> Built:
        """Build a workflow.

        Args:
            prompt: The task in words.
            run_id: The id of the build's run; the same id resumes a build after a crash.
            on_event: Gets the events of the conversations.
            on_phase: Gets the name of each phase when it begins.

        Returns:
            The result, also if the workflow is not valid.

        Raises:
            CompletionFailed: A phase had no result to continue with.
            JournalConflict: The run is a build for another prompt.
        """
        build_id, listener = run_id or new_run_id(), _BuildListener(on_event, on_phase)
        await self._check_task(build_id, prompt)
        token = _current_listener.set(listener)
        try:
            if run_id is not None:
                await retry_failed_run(self._app, build_id)  # finished phases are not repeated
            request = {"task": prompt, **self._request}
            result = await self._app.execute(self._app.load(DOCUMENT), input=request, run_id=build_id)
        finally:
            _current_listener.reset(token)
        if listener.failure is not None:
            raise listener.failure
        if listener.built is not None:
            return listener.built
        if not result.get("success"):
            error = result.get("error")
            reason = (
                error.get("message")
                if isinstance(error, dict)
                else error or f"the build ended with status {result.get('status')}"
            )
            raise CompletionFailed(str(reason), run_id=build_id)
        return _built_from_json(result["data"])

    async def _check_task(self, run_id: str, prompt: str) -> None:
        """Raise JournalConflict if a run of this id builds something else."""
        store = self._app.store
        row: RunRow | None = await run_sync_in_thread(store, lambda: store.get_run(run_id))
        if row is not None and row.input["task"] != prompt:
            problem = f"this run id belongs to the build of {row.input['task']!r}; use another id"
            raise JournalConflict(run_id, "", problem)

    async def _run_build(self, parts: BuildParts, request: Mapping[str, Any]) -> tuple[dict[str, Json], str | None]:
        listener = _current_listener.get() or _BuildListener()
        build = _Build(parts, self._server, request, listener)
        try:
            result = await build.run()
        except CompletionFailed as failure:
            listener.failure = failure
            raise
        listener.built, listener.failure = result, None
        reason = "; ".join(result.problems) or "it was not validated"
        return orjson.loads(
            orjson.dumps(asdict(result))
        ), None if result.valid else f"the workflow is not valid: {reason}"


class _BuildListener:
    """The callbacks of a build, and its outcome."""

    built: Built | None = None
    failure: CompletionFailed | None = None

    def __init__(self, on_event: Listener | None = None, on_phase: Callable[[str], None] | None = None) -> None:
        self.on_event, self.on_phase = on_event, on_phase


_current_listener: ContextVar[_BuildListener | None] = ContextVar("ropewalk_n8n_build", default=None)


class _Build:
    """One build."""

    def __init__(self, parts: BuildParts, server: Server, request: Mapping[str, Any], listener: _BuildListener) -> None:
        self._parts, self._server, self._listener = parts, server, listener
        self._task, self._tools, self._options = request["task"], request["tools"], request["options"]
        self._questions = ServerQuestions(parts, server)
        self._type_facts = NodeTypeFacts(self._facts)
        self._corrections: dict[str, None] = {}
        self._repair_suffix = ""  # of the current repair, in the ids of the runs of its questions
        self._reports: list[PhaseReport] = []

    async def run(self) -> Built:
        discovered = (await self._run_phase(DISCOVERY, essentials=await self._search())).value

        # The facts about the discovered types go into the prompt, so that the model asks less.
        missing = await self._learn_types(discovered)
        essentials = self._type_facts.essentials(node["type"] for node in discovered["nodes"])
        configured = (await self._run_phase(CONFIGURATION, missing, found=discovered, essentials=essentials)).value
        draft, unmatched = make_draft(discovered, configured)

        # From here on code decides; the model only repairs and documents.
        self._report_phase("building")
        draft_workflow = self._make_workflow(draft)
        self._reports.append(PhaseReport(name="building", usage={}, degraded=(missing,) if missing else ()))
        draft_workflow, verdict, repairs = await self._validate_and_repair(draft_workflow, unmatched)
        documentation = await self._document(draft_workflow)
        return Built(
            workflow=draft_workflow.workflow,
            valid=verdict.valid,
            problems=verdict.problems,
            warnings=(*self._corrections, *verdict.warnings),
            credentials=draft_workflow.credentials,
            documentation=documentation,
            repairs=repairs,
            phases=tuple(self._reports),
            run_id=self._parts.run,
        )

    async def _validate_and_repair(
        self, workflow: BuiltWorkflow, unmatched: list[str]
    ) -> tuple[BuiltWorkflow, Verdict, int]:
        """Validate the workflow and let the model repair it while it has problems, at most five times."""

        # Operations that could not be applied (`unmatched`) are reported to the model with the problems. They alone are
        # not a reason for another repair.
        self._report_phase("validation")
        repairs = 0
        for attempt in range(MAX_REPAIRS + 1):
            verdict = await self._judge(workflow)
            if not verdict.problems or attempt == MAX_REPAIRS:
                break
            try:
                answer = await self._ask_for_repairs(workflow, [*verdict.problems, *unmatched], f"-{attempt + 1}")
            except CompletionFailed as failure:
                if failure.completion is None:
                    raise
                break  # the draft with its problems is still a result
            self._repair_suffix = f"-{attempt + 1}"
            draft, unmatched = apply_repairs(workflow.draft, answer.value["operations"])
            repairs += draft != workflow.draft  # an answer without an applicable operation is not a repair
            await self._learn_types(draft)
            workflow = self._make_workflow(draft)
        if not attempt:
            self._reports.append(PhaseReport(name=VALIDATION.name, usage={}, degraded=_missing_judgement(verdict)))
        return workflow, verdict, repairs

    def _make_workflow(self, draft: Draft) -> BuiltWorkflow:
        workflow = make_workflow(draft, self._type_facts.get)
        self._corrections |= dict.fromkeys(workflow.corrections)
        return workflow

    async def _ask_for_repairs(self, workflow: BuiltWorkflow, problems_found: list[str], suffix: str) -> PhaseResult:
        essentials = self._type_facts.essentials(node["type"] for node in workflow.draft["nodes"])
        return await self._run_phase(
            VALIDATION,
            suffix=suffix,
            problems=list(problems_found),
            draft=workflow.draft,
            workflow=workflow.workflow,
            essentials=essentials,
        )

    async def _judge(self, workflow: BuiltWorkflow) -> Verdict:
        """Return the verdict from our own checks and from n8n-mcp."""
        own_problems = draft_problems(workflow.draft, workflow.triggers)
        try:
            [judgement] = await self._questions.ask("judge", [{"workflow": workflow.workflow}], self._repair_suffix)
        except ServerDown as error:
            return Verdict(
                valid=False if own_problems else None,
                problems=tuple(own_problems),
                warnings=(f"not validated: {error}",),
            )
        if "refused" in judgement:
            return Verdict(valid=False, problems=(*own_problems, judgement["refused"]))
        return make_verdict(own_problems, judgement, workflow.workflow)

    async def _document(self, workflow: BuiltWorkflow) -> str:
        """Return the documentation; empty if that phase fails, because the workflow is still useful."""
        try:
            result = await self._run_phase(DOCUMENTATION, workflow=workflow.workflow, credentials=workflow.credentials)
        except CompletionFailed as failure:
            self._reports.append(
                PhaseReport(name=DOCUMENTATION.name, success=False, usage={}, degraded=(str(failure),))
            )
            return ""
        return str(result.value)

    async def _search(self) -> Json:
        """Search nodes for the words of the task, so the model need not start with a search."""
        words = dict.fromkeys(word for _, word in informative_words(normalised(self._task), _MAX_SEARCH_WORDS))
        try:
            results = await self._questions.ask("search", [{"word": word} for word in words])
        except ServerDown:
            return []  # the report of the phase says so
        return list({row["nodeType"]: row for rows in results for row in rows}.values())

    async def _learn_types(self, draft: Draft) -> str | None:
        """Fetch the facts about a draft's node types."""

        # Return the reason if n8n-mcp is not available.
        try:
            await self._type_facts.learn([*(node["type"] for node in draft["nodes"]), MANUAL])
        except ServerDown as error:
            return str(error)
        return None

    async def _facts(self, types: list[str]) -> list[Any]:
        return await self._questions.ask("facts", [{"nodeType": type} for type in types], self._repair_suffix)

    async def _run_phase(
        self, phase: Phase, unavailable: str | None = None, *, suffix: str = "", **input: Json
    ) -> PhaseResult:
        """Run a phase, with its tools if they are enabled and n8n-mcp is available."""

        # A phase that began is resumed.
        self._report_phase(phase.name + suffix)
        part_name = phase.name + suffix
        own_tools = self._tools.get(phase.name, ()) if isinstance(self._tools, Mapping) else ()
        server_tools = phase.tools if self._tools is not False else ()
        missing = None
        row = await self._parts.row(part_name)
        if server_tools and row is None:
            missing = unavailable or await self._server.connect()
        elif server_tools and row is not None and not set(server_tools) & set(row.document["tools"]):
            missing = "this build began without n8n-mcp"
        variant = replace(phase, tools=(*(server_tools if missing is None else ()), *own_tools))
        # A resumed phase keeps its input, because the answers of n8n-mcp may have changed meanwhile.
        phase_input = dict(row.input) if row is not None else {"task": self._task, "rules": RULES, **input}
        result = await variant.run(
            phase_input, app=self._parts, on_event=self._listener.on_event, run_id=part_name, **self._options
        )
        self._reports.append(_phase_report(part_name, result, missing, self._parts.id(part_name)))
        if not result.success:
            message = f"{phase.name}: no result to continue with: {result.completion.why}"
            raise CompletionFailed(message, run_id=self._parts.id(part_name), completion=result.completion)
        return result

    def _report_phase(self, name: str) -> None:
        if self._listener.on_phase is not None:
            self._listener.on_phase(name)


def _phase_tools(tools: bool | Mapping[str, Sequence[str]]) -> bool | dict[str, Json]:
    """Return the tools of a build, with those of the app by phase."""
    if isinstance(tools, bool):
        return tools
    for name in tools:
        if name not in PHASES:
            suggestion = did_you_mean(name, PHASES)
            hint = f"did you mean {suggestion}?" if suggestion else f"use {', '.join(PHASES)}"
            raise ConfigError(f"[n8n.tools]: the builder has no phase {name!r} with a model; {hint}")
    return {name: list[Json](tools[name]) for name in tools}


def _phase_report(name: str, result: PhaseResult, missing: str | None, run_id: str) -> PhaseReport:
    completion = result.completion
    degraded = [f"without tools: {missing}"] if missing else []
    if not result.success:
        degraded.append(f"without a result: {completion.why}")
    return PhaseReport(
        name=name,
        success=completion.stop_reason in ENDS,
        degraded=(*degraded, *result.degraded),
        rounds=completion.rounds,
        calls=tuple(completion.trace),
        usage=dict(completion.usage),
        cost=completion.cost,
        run_id=run_id,
    )


def _built_from_json(recorded: Any) -> Built:
    """Return the recorded result of a build that had finished before."""
    lists = ("problems", "warnings")
    reports = [PhaseReport(**{**phase, "degraded": tuple(phase["degraded"]), "calls": tuple(phase["calls"])})
              for phase in recorded["phases"]]  # fmt: skip
    return Built(**{**recorded, **{key: tuple(recorded[key]) for key in lists}, "phases": tuple(reports)})


def _missing_judgement(verdict: Verdict) -> tuple[str, ...]:
    return verdict.warnings if verdict.valid is None else ()


_VERDICT_TEXTS = {True: "valid (n8n-mcp)", False: "not valid", None: "not validated: n8n-mcp was not available"}


def as_json(built: Built) -> dict[str, Json]:
    """Return the report of a build as JSON, without the workflow."""
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
        "phases": [_phase_json(phase) for phase in built.phases],
        "runId": built.run_id,
    }


def as_text(built: Built) -> str:
    """Return the report of a build as Markdown, for people who import the workflow."""
    nodes = built.workflow["nodes"]
    count = len(nodes) if isinstance(nodes, list) else 0
    lines = [
        f"# {built.workflow['name']}",
        "",
        f"{count} nodes, {_VERDICT_TEXTS[built.valid]}, repaired {built.repairs} times",
    ]
    lines += _section("Problems", built.problems)
    lines += _section("Credentials to fill in", [_describe_credential(credential) for credential in built.credentials])
    lines += _section("Warnings", built.warnings)
    lines += _section("Done without", built.degraded)
    costs = f"{sum(built.usage.values()):,} tokens" + (f", ${built.cost:.4f}" if built.cost is not None else "")
    calls = [f"{phase.name}: {_describe_calls(phase)}" for phase in built.phases]
    lines += _section(f"Phases ({costs}, run {built.run_id})", calls)
    if built.documentation:
        lines += ["", "## Documentation", "", built.documentation]
    return "\n".join(lines) + "\n"


def _phase_json(phase: PhaseReport) -> dict[str, Json]:
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


def _describe_calls(phase: PhaseReport) -> str:
    if not phase.rounds:
        return "no model"
    tools = ", ".join(str(call["tool"]).rpartition(":")[2] for call in phase.calls)
    rounds = "1 round" if phase.rounds == 1 else f"{phase.rounds} rounds"
    return rounds + (f", called {tools}" if tools else ", no calls")


def _describe_credential(credential: Json) -> str:
    assert isinstance(credential, dict)
    types = credential["types"]
    return f"{credential['node']}: {', '.join(map(str, types)) if isinstance(types, list) else types}"


def _section(title: str, lines: object) -> list[str]:
    rows = [f"- {line}" for line in lines] if isinstance(lines, (list, tuple)) else []
    return ["", f"## {title}", "", *rows] if rows else []
