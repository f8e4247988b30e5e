"""Build n8n workflows from a prompt. Begin to read here.

A build has five phases (`phases.py`): the model discovers nodes, configures and connects them, repairs and documents
the workflow; code makes the JSON. `make_workflow` chooses ids, unique names, versions, positions and a trigger: equal
drafts and facts give the same workflow, byte for byte. `workflow.py` applies repairs. Only n8n-mcp (`node_tools.py`)
decides whether a workflow is valid.

A build is one run, and each phase is a run that is part of it (`RUN/build/discovery`, ...). Called again with the same
`run_id` after a crash, finished phases are not repeated.

To add a tool for a phase, add a line to TOOLS (`node_tools.py`) and its name to the phase. To add a kind of repair, add
it to OPERATIONS (`workflow.py`). `as_json` and `as_text` make the report of a build.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from ..agents import Phase, PhaseResult
from ..agents.loop import retry_failed_run
from ..agents.turn import Listener
from ..engine.engine import new_run_id
from ..errors import CompletionFailed, JournalConflict
from ..fast_dataclass import dataclass
from ..journal.address import run_sync_in_thread
from ..journal.protocol import RunRow
from ..notations.agent import ENDS
from ..select.text import informative_words, normalised
from ..values import Json, fresh
from .node_tools import Facts, NodeTypeFacts, Server, ServerDown, register, short_type
from .phases import CONFIGURATION, DISCOVERY, DOCUMENTATION, RULES, VALIDATION, PhaseReport, ServerQuestions
from .run import DOCUMENT, BuildParts
from .run import register as register_build
from .workflow import MAIN, STICKY_NOTE, Draft, apply_repairs, connection_type, distances, draft_problems, make_draft

MANUAL: Final = "nodes-base.manualTrigger"
_ID_NAMESPACE: Final = uuid.UUID("6f1c5f0e-6f0a-5d51-9d0c-7f1d8f6d2b11")
_WIDTH, _HEIGHT = 240, 180


class FactsByType(Protocol):
    """Facts about node types: NodeTypeFacts, or a dict."""

    def __getitem__(self, type: str, /) -> Facts | None:
        """Return the facts of a node type."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWorkflow:
    """A workflow and its draft."""

    # The JSON that n8n can import.
    workflow: dict[str, Json]
    # The draft, with a trigger.
    draft: Draft
    # The names of the nodes, by their ids in the draft.
    names: dict[str, str]
    # The ids of the triggers.
    triggers: tuple[str, ...]
    # The credentials that nodes need: `{node, types}`.
    credentials: list[Json]


def make_workflow(draft: Draft, facts_by_type: FactsByType) -> BuiltWorkflow:
    """Make the workflow of a draft, even of one with problems, for the report."""
    draft = add_trigger(draft, facts_by_type)
    triggers = tuple(node["id"] for node in draft["nodes"] if _is_trigger(node, facts_by_type))
    names = _unique_names(draft)
    places = _positions(draft, triggers)

    # Without facts about its type, a node gets version 1; n8n-mcp then reports the unknown type.
    nodes: list[Json] = []
    credentials: list[Json] = []
    for node in draft["nodes"]:
        facts, name = facts_by_type[node["type"]], names[node["id"]]
        parameters = fresh(node["parameters"])
        nodes.append(
            {
                "id": str(uuid.uuid5(_ID_NAMESPACE, f"{draft['name']}\n{node['id']}")),
                "name": name,
                "type": facts.type if facts is not None else full_type(node["type"]),
                "typeVersion": _version_number(facts.version) if facts is not None else 1,
                "position": list(places[node["id"]]),
                "parameters": parameters,
            }
        )
        if facts is not None and (needs := facts.needs(parameters)):
            credentials.append({"node": name, "types": list(needs)})
    workflow: dict[str, Json] = {
        "name": draft["name"],
        "nodes": nodes,
        "connections": _connections(draft, names),
        "settings": {"executionOrder": "v1"},
    }
    return BuiltWorkflow(workflow=workflow, draft=draft, names=names, triggers=triggers, credentials=credentials)


def add_trigger(draft: Draft, facts_by_type: FactsByType) -> Draft:
    """Return the draft with a trigger: if it has none, a manual one in front of the nodes without a predecessor."""
    nodes = draft["nodes"]
    if not nodes or any(_is_trigger(node, facts_by_type) for node in nodes):
        return draft
    targets = {connection["to"] for connection in draft["connections"] if connection_type(connection) == MAIN}
    helpers = {connection["from"] for connection in draft["connections"] if connection_type(connection) != MAIN}
    starts = [
        node["id"] for node in nodes if node["id"] not in targets | helpers and not node["type"].endswith(STICKY_NOTE)
    ]
    if not starts:
        return draft  # a cycle has no first node
    used_ids = {node["id"] for node in nodes}
    id = next(name for n in range(len(used_ids) + 1) if (name := "start" + (str(n) if n else "")) not in used_ids)
    trigger = {"id": id, "type": MANUAL, "name": "Start", "parameters": {}}
    connections = [{"from": id, "to": connection} for connection in starts]
    return {**draft, "nodes": [trigger, *nodes], "connections": [*connections, *draft["connections"]]}


def full_type(node_type: str) -> str:
    """Return a node type in the spelling of workflows: `n8n-nodes-base.slack`."""
    short = short_type(node_type)
    if short.startswith("nodes-base."):
        return f"n8n-{short}"
    return f"@n8n/n8n-{short}" if short.startswith("nodes-langchain.") else short


def _is_trigger(node: Mapping[str, Any], facts_by_type: FactsByType) -> bool:
    facts = facts_by_type[node["type"]]
    short = short_type(node["type"])  # without facts, the name decides
    return facts.trigger if facts is not None else short.endswith("Trigger") or short == "nodes-base.webhook"


def _unique_names(draft: Draft) -> dict[str, str]:
    """Return unique names of nodes by id, made as n8n does: the second `Set` becomes `Set1`."""
    original = Counter(node["name"] for node in draft["nodes"])
    used: set[str] = set()
    names: dict[str, str] = {}
    for node in draft["nodes"]:
        name, count = node["name"] or node["id"], 0
        while name in used or (count and name in original):
            count += 1
            name = f"{node['name'] or node['id']}{count}"
        used.add(name)
        names[node["id"]] = name
    return names


def _positions(draft: Draft, triggers: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return positions by node id: a column for each distance from the trigger, helpers below their node."""
    columns = distances(draft, triggers)
    rows: Counter[int] = Counter()
    positions: dict[str, tuple[int, int]] = {}
    for node in draft["nodes"]:
        column = columns.get(node["id"], 0)
        positions[node["id"]] = (column * _WIDTH, rows[column] * _HEIGHT)
        rows[column] += 1
    return positions


def _connections(draft: Draft, names: Mapping[str, str]) -> dict[str, Json]:
    by_source: dict[str, Any] = {}
    for connection in draft["connections"]:
        source, type = names.get(connection["from"], connection["from"]), connection_type(connection)
        outputs = by_source.setdefault(source, {}).setdefault(type, [])
        output = connection.get("output") or 0
        outputs.extend([] for _ in range(output + 1 - len(outputs)))
        target = {
            "node": names.get(connection["to"], connection["to"]),
            "type": type,
            "index": connection.get("input") or 0,
        }
        if target not in outputs[output]:
            outputs[output].append(target)
    return by_source


def _version_number(version: float) -> Json:
    return int(version) if version == int(version) else version


MAX_REPAIRS: Final = 5
_MAX_SEARCH_WORDS: Final = 12


@dataclass(frozen=True, kw_only=True)
class Built:
    """The result of a build.

    Attributes:
        workflow: The workflow; n8n can import it if it is valid.
        valid: The verdict of n8n-mcp; None if n8n-mcp was not available. False also for an incomplete draft.
        problems: The remaining problems.
        warnings: The warnings of n8n-mcp.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    valid: bool | None
    problems: list[str]
    warnings: tuple[str, ...] = ()


class WorkflowBuilder:
    """Builds n8n workflows with the model, store and toolbox of an app.

    Args:
        app: The app.
        tools: Give the model tools of n8n-mcp. Without them n8n-mcp still supplies facts and validates.
        directory: Where to look for `node_modules`; by default the project of the app, or the working directory.
        **options: Options of the conversations, such as model, max_tokens and token_budget.
    """

    def __init__(self, app: Any, *, tools: bool = True, directory: Path | str | None = None, **options: Json) -> None:
        self._app, self._request = app, {"tools": tools, "options": options}
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
        draft_workflow = make_workflow(draft, self._type_facts)
        self._reports.append(PhaseReport(name="building", usage={}, degraded=(missing,) if missing else ()))
        draft_workflow, verdict, repairs = await self._validate_and_repair(draft_workflow, unmatched)
        documentation = await self._document(draft_workflow)
        return Built(
            workflow=draft_workflow.workflow,
            valid=verdict.valid,
            problems=tuple(verdict.problems),
            warnings=verdict.warnings,
            credentials=draft_workflow.credentials,
            documentation=documentation,
            repairs=repairs,
            phases=tuple(self._reports),
            run_id=self._parts.run,
        )

    async def _validate_and_repair(
        self, workflow: BuiltWorkflow, unmatched: list[str]
    ) -> tuple[BuiltWorkflow, _Verdict, int]:
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
            workflow = make_workflow(draft, self._type_facts)
        if not attempt:
            self._reports.append(PhaseReport(name=VALIDATION.name, usage={}, degraded=_missing_judgement(verdict)))
        return workflow, verdict, repairs

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

    async def _judge(self, workflow: BuiltWorkflow) -> _Verdict:
        """Return the verdict from our own checks and from n8n-mcp."""
        own_problems = draft_problems(workflow.draft, workflow.triggers)
        try:
            [judgement] = await self._questions.ask("judge", [{"workflow": workflow.workflow}], self._repair_suffix)
        except ServerDown as error:
            return _Verdict(
                valid=False if own_problems else None, problems=own_problems, warnings=(f"not validated: {error}",)
            )
        if "refused" in judgement:
            return _Verdict(valid=False, problems=[*own_problems, judgement["refused"]])
        all_problems = [*own_problems, *map(_problem_text, judgement["errors"])]
        if not judgement["valid"] and not all_problems:
            all_problems = ["n8n-mcp considers it invalid, without a reason"]
        return _Verdict(
            valid=not all_problems, problems=all_problems, warnings=tuple(map(_problem_text, judgement["warnings"]))
        )

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
        uses_tools = bool(phase.tools) and self._tools
        row = await self._parts.row(part_name)
        if row is not None:
            missing = "this build began without n8n-mcp" if uses_tools and not row.document["tools"] else None
        else:
            missing = (unavailable or await self._server.connect()) if uses_tools else None
        variant = replace(phase, tools=phase.tools if uses_tools and missing is None else ())
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


def _missing_judgement(verdict: _Verdict) -> tuple[str, ...]:
    return verdict.warnings if verdict.valid is None else ()


def _problem_text(problem: Mapping[str, Any]) -> str:
    message = problem["message"] if isinstance(problem["message"], str) else str(problem["message"])
    node = problem.get("node")
    return message if node in (None, "", "workflow") else f"{node}: {message}"


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
