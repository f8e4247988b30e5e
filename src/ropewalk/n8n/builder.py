"""The builder: runs the phases, makes the workflow, has it judged, has it repaired.

A build is one run, each phase of the model a run that is part of it (`RUN/build/discovery`, ...): called again with the
same `run_id` after a crash, what had ended is not asked again. Refused: to call valid what n8n-mcp has not called so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import orjson

from ..claude import Phase, PhaseResult
from ..claude.loop import try_again
from ..claude.turn import Listener
from ..dialects.agent_flow import ENDS
from ..engine.engine import new_run_id
from ..errors import CompletionFailed, JournalConflict
from ..frozen import dataclass
from ..journal.journal import RunRow
from ..journal.offloop import off_loop
from ..select.text import normalised, told
from ..values import Json
from .asking import Asking
from .building import MANUAL, Made, make
from .draft import Draft, drafted, problems
from .facts import Known
from .mending import mend
from .node_tools import register
from .one_run import DOCUMENT, Parts
from .one_run import register as register_build
from .phases import CONFIGURATION, DISCOVERY, DOCUMENTATION, RULES, VALIDATION, Passed
from .server import Server, ServerDown

MOST_REPAIRS: Final = 5
_MOST_WORDS: Final = 12


@dataclass(frozen=True, kw_only=True)
class Built:
    """What became of a prompt.

    `workflow` can be imported if `valid`: True and False are n8n-mcp's word (False also for a draft that we refuse),
    None says that it could not be asked. `problems` are what is still wrong, `repairs` how often it was changed,
    `credentials` what to fill in: `{node, types}`.
    """

    workflow: dict[str, Json]
    valid: bool | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    credentials: list[Json]
    documentation: str
    repairs: int
    phases: tuple[Passed, ...]
    run_id: str

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all phases."""
        total: dict[str, int] = {}
        for phase in self.phases:
            for kind, count in phase.usage.items():
                total[kind] = total.get(kind, 0) + count
        return total

    @property
    def cost(self) -> float | None:
        """US dollars of all phases; None where no price is known."""
        costs = [phase.cost for phase in self.phases]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def degraded(self) -> tuple[str, ...]:
        """What phases did without, and why."""
        return tuple(dict.fromkeys(f"{phase.name}: {why}" for phase in self.phases for why in phase.degraded))

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Every call of a tool, in order, with its phase."""
        return [{"phase": phase.name, **call} for phase in self.phases for call in phase.calls]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    valid: bool | None
    problems: list[str]
    warnings: tuple[str, ...] = ()


class WorkflowBuilder:
    """Builds n8n workflows with an app's model, store and toolbox. Without `tools` the model has none; n8n-mcp still
    gives the essentials and judges. `options` are those of a conversation: model, max_tokens, token_budget, ..."""

    def __init__(self, app: Any, *, tools: bool = True, directory: Path | str | None = None, **options: Json) -> None:
        self._app, self._asked = app, {"tools": tools, "options": options}
        self._server = Server(app.toolbox, Path(directory or app.project or Path.cwd()))
        register(app.toolbox, self._server)
        register_build(app, self._work)

    @property
    def not_installed(self) -> str | None:
        """What to install, where there is no n8n-mcp to be asked."""
        return self._server.not_installed

    async def build(
        self,
        prompt: str,
        *,
        run_id: str | None = None,
        on_event: Listener | None = None,
        on_phase: Callable[[str], None] | None = None,
    ) -> Built:
        """Build a workflow. CompletionFailed says in which phase the model gave nothing to go on with."""
        own, heard = run_id or new_run_id(), _Heard(on_event, on_phase)
        await self._of_this(own, prompt)
        token = _heard.set(heard)
        try:
            if run_id is not None:
                await try_again(self._app, own)  # what had ended of it is not asked again
            asked = {"task": prompt, **self._asked}
            done = await self._app.execute(self._app.loaded(DOCUMENT), input=asked, run_id=own)
        finally:
            _heard.reset(token)
        if heard.failed is not None:
            raise heard.failed
        if heard.built is not None:
            return heard.built
        if not done.get("success"):
            said = done.get("error")
            why = said.get("message") if isinstance(said, dict) else said or f"the build ended as {done.get('status')}"
            raise CompletionFailed(str(why), run_id=own)
        return _read(done["data"])

    async def _of_this(self, run_id: str, prompt: str) -> None:
        """Refuse to go on with a build that was for something else."""
        store = self._app.store
        row: RunRow | None = await off_loop(store, lambda: store.get_run(run_id))
        if row is not None and row.input["task"] != prompt:
            what = f"this build is of {row.input['task']!r}; another one needs another id"
            raise JournalConflict(run_id, "", what)

    async def _work(self, parts: Parts, asked: Mapping[str, Any]) -> tuple[dict[str, Json], str | None]:
        heard = _heard.get() or _Heard()
        build = _Build(parts, self._server, asked, heard)
        try:
            built = await build.run()
        except CompletionFailed as failed:
            heard.failed = failed
            raise
        heard.built, heard.failed = built, None
        wrong = "; ".join(built.problems) or "nobody judged it"
        return orjson.loads(orjson.dumps(asdict(built))), None if built.valid else f"the workflow is not valid: {wrong}"


class _Heard:
    """Who hears of a build, and what came of it."""

    built: Built | None = None
    failed: CompletionFailed | None = None

    def __init__(self, on_event: Listener | None = None, on_phase: Callable[[str], None] | None = None) -> None:
        self.on_event, self.on_phase = on_event, on_phase


_heard: ContextVar[_Heard | None] = ContextVar("ropewalk_n8n_build", default=None)


class _Build:
    """One build."""

    def __init__(self, parts: Parts, server: Server, asked: Mapping[str, Any], heard: _Heard) -> None:
        self._parts, self._server, self._heard = parts, server, heard
        self._task, self._tools, self._options = asked["task"], asked["tools"], asked["options"]
        self._asking = Asking(parts, server)
        self._known = Known(self._facts)
        self._round = ""  # of repairs: what the runs of its questions are called
        self._passed: list[Passed] = []

    async def run(self) -> Built:
        found = (await self._phase(DISCOVERY, essentials=await self._search())).value
        down = await self._learn(found)
        essentials = self._known.essentials(node["type"] for node in found["nodes"])
        configured = (await self._phase(CONFIGURATION, down, found=found, essentials=essentials)).value
        draft, stray = drafted(found, configured)
        self._tell("building")
        made = make(draft, self._known)
        self._passed.append(Passed(name="building", usage={}, degraded=(down,) if down else ()))
        made, verdict, repairs = await self._repaired(made, stray)
        documentation = await self._document(made)
        return Built(
            workflow=made.workflow,
            valid=verdict.valid,
            problems=tuple(verdict.problems),
            warnings=verdict.warnings,
            credentials=made.credentials,
            documentation=documentation,
            repairs=repairs,
            phases=tuple(self._passed),
            run_id=self._parts.run,
        )

    async def _repaired(self, made: Made, wrong: list[str]) -> tuple[Made, _Verdict, int]:
        """Judged, and mended as long as it is wrong, five times at most. What could not be done (`wrong`) is told to
        the model together with what the judge says, and is no reason to go on by itself."""
        self._tell("validation")
        repairs = 0
        for before in range(MOST_REPAIRS + 1):
            verdict = await self._judge(made)
            if not verdict.problems or before == MOST_REPAIRS:
                break
            try:
                done = await self._repairing(made, [*verdict.problems, *wrong], f"-{before + 1}")
            except CompletionFailed as failed:
                if failed.completion is None:
                    raise
                break  # the draft as it is, and what is wrong with it, is worth more than nothing
            self._round = f"-{before + 1}"
            draft, wrong = mend(made.draft, done.value["operations"])
            repairs += draft != made.draft  # an answer of which nothing could be done is no repair
            await self._learn(draft)
            made = make(draft, self._known)
        if not before:
            self._passed.append(Passed(name=VALIDATION.name, usage={}, degraded=_unjudged(verdict)))
        return made, verdict, repairs

    async def _repairing(self, made: Made, wrong: list[str], suffix: str) -> PhaseResult:
        essentials = self._known.essentials(node["type"] for node in made.draft["nodes"])
        return await self._phase(
            VALIDATION,
            suffix=suffix,
            problems=list(wrong),
            draft=made.draft,
            workflow=made.workflow,
            essentials=essentials,
        )

    async def _judge(self, made: Made) -> _Verdict:
        """Our own refusals, then n8n-mcp's word."""
        own = problems(made.draft, made.triggers)
        try:
            [said] = await self._asking.ask("judge", [{"workflow": made.workflow}], self._round)
        except ServerDown as down:
            return _Verdict(valid=False if own else None, problems=own, warnings=(f"not judged: {down}",))
        if "refused" in said:
            return _Verdict(valid=False, problems=[*own, said["refused"]])
        wrong = [*own, *map(_told, said["errors"])]
        if not said["valid"] and not wrong:
            wrong = ["n8n-mcp calls it invalid, and does not say why"]
        return _Verdict(valid=not wrong, problems=wrong, warnings=tuple(map(_told, said["warnings"])))

    async def _document(self, made: Made) -> str:
        """What documents it; a workflow without is still one."""
        try:
            done = await self._phase(DOCUMENTATION, workflow=made.workflow, credentials=made.credentials)
        except CompletionFailed as failed:
            self._passed.append(Passed(name=DOCUMENTATION.name, success=False, usage={}, degraded=(str(failed),)))
            return ""
        return str(done.value)

    async def _search(self) -> Json:
        """What searches for the words of the task find, so that the model need not begin with that."""
        words = dict.fromkeys(word for _, word in told(normalised(self._task), _MOST_WORDS))
        try:
            found = await self._asking.ask("search", [{"word": word} for word in words])
        except ServerDown:
            return []  # the phase says what it does without
        return list({row["nodeType"]: row for rows in found for row in rows}.values())

    async def _learn(self, draft: Draft) -> str | None:
        """Ask what the draft needs to be known; why not, where nobody answers."""
        try:
            await self._known.learn([*(node["type"] for node in draft["nodes"]), MANUAL])
        except ServerDown as down:
            return str(down)
        return None

    async def _facts(self, types: list[str]) -> list[Any]:
        return await self._asking.ask("facts", [{"nodeType": type} for type in types], self._round)

    async def _phase(self, phase: Phase, down: str | None = None, *, suffix: str = "", **input: Json) -> PhaseResult:
        """Run a phase: with its tools if it has any, they are wanted, and the server is there. One of before goes on
        as it began."""
        self._tell(phase.name + suffix)
        own = phase.name + suffix
        wanted = bool(phase.tools) and self._tools
        row = await self._parts.row(own)
        if row is not None:
            missing = "it began without" if wanted and not row.document["tools"] else None
        else:
            missing = (down or await self._server.reach()) if wanted else None
        asked = replace(phase, tools=phase.tools if wanted and missing is None else ())
        # What n8n-mcp says of nodes may have changed meanwhile: the phase goes on with what it was given.
        given = dict(row.input) if row is not None else {"task": self._task, "rules": RULES, **input}
        done = await asked.run(given, app=self._parts, on_event=self._heard.on_event, run_id=own, **self._options)
        self._passed.append(_passed(own, done, missing, self._parts.id(own)))
        if not done.success:
            why = f"{phase.name}: no result to go on with: {done.completion.why}"
            raise CompletionFailed(why, run_id=self._parts.id(own), completion=done.completion)
        return done

    def _tell(self, name: str) -> None:
        if self._heard.on_phase is not None:
            self._heard.on_phase(name)


def _passed(name: str, done: PhaseResult, missing: str | None, run_id: str) -> Passed:
    completion = done.completion
    without = [f"without tools: {missing}"] if missing else []
    if not done.success:
        without.append(f"without a result: {completion.why}")
    return Passed(
        name=name,
        success=completion.stop_reason in ENDS,
        degraded=(*without, *done.degraded),
        rounds=completion.rounds,
        calls=tuple(completion.trace),
        usage=dict(completion.usage),
        cost=completion.cost,
        run_id=run_id,
    )


def _read(recorded: Any) -> Built:
    """A build that had ended before, as it is recorded."""
    lists = ("problems", "warnings")
    passed = [Passed(**{**phase, "degraded": tuple(phase["degraded"]), "calls": tuple(phase["calls"])})
              for phase in recorded["phases"]]  # fmt: skip
    return Built(**{**recorded, **{key: tuple(recorded[key]) for key in lists}, "phases": tuple(passed)})


def _unjudged(verdict: _Verdict) -> tuple[str, ...]:
    return verdict.warnings if verdict.valid is None else ()


def _told(one: Mapping[str, Any]) -> str:
    message = one["message"] if isinstance(one["message"], str) else str(one["message"])
    node = one.get("node")
    return message if node in (None, "", "workflow") else f"{node}: {message}"
