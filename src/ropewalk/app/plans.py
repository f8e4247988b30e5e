"""Plans of models: find tools, check a program, run it, resume it, save it as a tool.

One service answers every interface (Python, MCP, chat, agents, HTTP) with the same JSON. A program with an error makes
no calls. Refused here: how an interface words an answer, and who may ask.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import orjson

from ..config.settings import Parallel
from ..draw import draw
from ..engine import budgets
from ..engine.engine import new_run_id
from ..errors import InvalidFlow, InvalidInput, JournalConflict, Problem, RunBusy
from ..journal.address import run_sync_in_thread
from ..journal.protocol import ENDS, RunRow
from ..notations.plan.readers import MODEL, ORIGIN, prepare_names, reader_of
from ..notations.plan.tools import servers_in, with_tools
from ..notations.records import Outcome, outcome
from ..plans.read.tools import python_name
from ..select.search import USUAL_LIMIT, line_of, read_search
from ..source.document import escape_invisible, shorten
from ..tools.reserved import OWN
from ..tools.stubs import stub
from ..tools.version import tool_version
from ..values import Json, json_problems
from .corrections import CONTEXT, Corrections, chain_of, require_in_effect
from .facts import facts_of_definition, facts_of_tool
from .first_design import find_answer, sent_answers
from .plan_callers import RecordedCallChanged, apply_limits
from .preflight import check_input
from .recorded_calls import RecordedCalls, is_compiled, line_at
from .recorded_run import require_run
from .run_budget import budgets_of, read_budget
from .runs.queries import RunService
from .runs.undo import undo
from .runs.undone import undo_offer, undo_report
from .saved_plans import KIND, RESULT, recorded_schema, register_saved_plan, register_saved_plans, store_plan
from .start import OnEvent, Start

if TYPE_CHECKING:
    from ..engine.engine import Job
    from .context import Context
    from .jobs import Jobs
    from .prepared import Prepared

Approve: TypeAlias = Literal["none", "destructive", "writes"]
_PATIENCE: Final = 5.0  # seconds for servers to list their tools
_PREVIEW: Final = 500  # characters of a value behind a handle
_MOST_PARTIAL: Final = 100  # recorded calls in the answer to a failed plan
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "none": (),
    "destructive": ("destructive",),
    "writes": ("destructive", "write"),
}
_NOT_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_NAME: Final = r"[a-z_][a-z0-9_]{0,63}"


class Plans:
    """The operations of models on plans: find tools, check, run, resume, undo, save.

    Args:
        context: The tools, the store and the engine.
        jobs: Makes the jobs of runs.
        approve: Which calls wait for an approval, unless an operation says otherwise: "none", "destructive", or
            "writes" for these and calls whose effect is not known. A person's own program asks nothing by default.
    """

    def __init__(self, context: Context, jobs: Jobs, approve: Approve = "none") -> None:
        self.context, self.jobs, self.approve = context, jobs, approve

    @property
    def _runs(self) -> RunService:
        return RunService(self.context, self.jobs)

    def for_models(self) -> Plans:
        """Return the operations with the approvals that the project asks of models (`[plans] approve`)."""
        return Plans(self.context, self.jobs, self.context.plans.approve)

    # --- find and check ------------------------------------------------------------------------

    async def find_tools(
        self, request: str | None = None, limit: int = USUAL_LIMIT, *, queries: Sequence[str] | None = None
    ) -> dict[str, Json]:
        """Find the tools that a request needs, flows and saved plans included.

        Args:
            request: The task, in words.
            limit: The largest number of tools, from 1 to 50.
            queries: Several tasks, at most 10. The best tools of each are among the results.

        Returns:
            `stubs`, Python stubs of the best tools and a comment with one line for each of the others; `tools` with
            the name, the effect and the score of each; for several queries `queries`, the names that each has found;
            and a `note` if no tool fits.
        """
        search = read_search(request, queries, limit, name="request")
        # Connect only for a valid request: servers may take seconds to start.
        await self.context.toolbox.connect_within(_PATIENCE)
        await self.jobs.connect_own()
        tools = {tool.id: tool for tool in self.context.toolbox.list() if tool.namespace != OWN}
        # Two tools may have one Python name; a program that calls it gets the last one.
        names = {id: python_name(id) for id in tools}
        by_name = {name: id for id, name in names.items()}
        # The selector ranks in a thread. A change of the tools meanwhile has no effect. There is no threshold: the best
        # tools are offered even if none fits well, and each score says how well.
        results = await asyncio.to_thread(self.context.selection.search, search, names, by_name, 0)
        effects = {found.key: facts_of_tool(self.context, found.key).effect for found in results.found}
        stubs, lines = results.in_two_densities(
            lambda found: f"# {effects[found.key]}\n{stub(tools[found.key], names[found.key])}",
            lambda found: f"# {effects[found.key]}: {line_of(names[found.key], tools[found.key])}\n",
        )
        return {
            "stubs": "\n".join((*stubs, *lines)),
            "tools": [
                {"name": names[found.key], "effect": effects[found.key], "score": round(found.score, 2)}
                for found in results.found
            ],
            **results.renamed(names).remarks,
        }

    async def check_plan(
        self, code: str, input: Mapping[str, Json] | None = None, *, parallel: Parallel | None = None
    ) -> dict[str, Json]:
        """Check a program without calling any tool.

        Args:
            code: The program.
            input: Its input. Names in it count as inputs of the program.
            parallel: Which calls overlap; see `run_plan`.

        Returns:
            `ok`, and either `problems`, each with `line`, `column`, `message` and `text` with a caret, or `facts` and
            the `graph` as text.
        """
        loaded, problems = await self.load(code, input, parallel=parallel)
        if loaded is None or problems:
            return {"ok": False, "problems": [problem_of_program(code, problem) for problem in problems]}
        return {
            "ok": True,
            "facts": facts_of_definition(self.context, loaded).to_dict(),
            "graph": draw(loaded.flow, "text"),
        }

    async def load(
        self,
        code: str,
        input: Mapping[str, Json] | None,
        approve: Approve | None = None,
        parallel: Parallel | None = None,
        **fields: Json,
    ) -> tuple[Prepared | None, list[Problem]]:
        """Compile and check a program; return it with its problems. Servers that it names are connected first."""
        if wrong := [*_wrong_arguments(code, input, approve)]:
            raise InvalidInput(wrong)
        unreadable = _NOT_TEXT.search(code)
        if unreadable is not None:
            message = "a NUL character or a lone surrogate, which no text of a program has; remove it"
            return None, [Problem(path="code", column=unreadable.start() + 1, message=message)]
        toolbox = self.context.toolbox
        await register_saved_plans(self.jobs)
        overlap = parallel or self.context.plans.parallel
        document: dict[str, Any] = {"kind": KIND, "name": "plan", "code": code, "parallel": overlap, **fields}
        document[ORIGIN] = MODEL
        reader = reader_of(document)
        await prepare_names(code)
        missing = [tool for tool in servers_in(reader.names(code), toolbox) if toolbox.is_missing(tool)]
        if missing:
            await toolbox.connect_for(missing)
        if input:
            document["inputs"] = sorted(input)
        document = dict(with_tools(document, toolbox, reader, self.context.plans.effects))
        if places := reader.values(code):
            document["values"] = await run_sync_in_thread(self.context.store, lambda: self._schemas_of(places))
        asked = _ASKED[self.approve if approve is None else approve]
        for entry in document["tools"].values():
            tool = toolbox.get(entry["id"])
            if tool is not None and facts_of_tool(self.context, tool.id).effect in asked:
                entry.update(approve=True, version=tool_version(tool))
        try:
            await self.context.definitions.read_ahead(document)
            # `loaded` suggests tools of the toolbox for unknown names.
            loaded = self.context.definitions.get(document)
            await self.jobs.connect_for(loaded.flow)
            checked = self.context.definitions.check(loaded, unknown_tools="problem")
            problems = list(checked.problems)
            if input is not None and not problems:
                check_input(loaded.flow, dict(input))
        except InvalidFlow as error:
            return None, list(error.problems)
        except InvalidInput as error:
            problems = list(error.problems)
        return loaded, problems

    def _schemas_of(self, places: set[str]) -> dict[str, Json]:
        """Return the JSON Schemas of recorded values, as far as they are known."""
        schemas = {place: recorded_schema(self.context, place) for place in sorted(places)}
        return {place: schema for place, schema in schemas.items() if schema is not None}

    # --- run -----------------------------------------------------------------------------------

    async def run_plan(
        self,
        code: str,
        input: Mapping[str, Json] | None = None,
        budget: Mapping[str, Json] | None = None,
        *,
        run_id: str | None = None,
        approve: Approve | None = None,
        parallel: Parallel | None = None,
        on_event: OnEvent = None,
    ) -> dict[str, Json]:
        """Check a program and run it durably. A program with an error makes no calls.

        Args:
            code: The program.
            input: Its input.
            budget: The limits of the whole run with the flows that it calls: `calls` of tools, `seconds`, `tokens` of
                models, and their `cost` in US dollars.
            run_id: The id of the run; a run of this id that exists is resumed.
            approve: Which calls wait for an approval: "none", "destructive" or "writes".
            parallel: Which calls may overlap where Python makes one after another: "reads" (those of tools that only
                read) or "none". Default: `[plans] parallel`, which is "reads" unless the project sets it.
            on_event: Gets the events of the run while it executes.

        Returns:
            An answer with `status`: "completed" with `result`; "waiting" with `waitingFor` and `runId`; "failed" with
            `error` (the line, its text, and why) and `partial`, what the calls before it gave; "invalid" with
            `problems`.
        """
        limits = read_budget(budget)
        loaded, problems = await self.load(code, input, approve, parallel)
        if loaded is None or problems:
            return {"status": "invalid", "problems": [problem_of_program(code, problem) for problem in problems]}
        start = Start(definition=loaded, input=dict(input or {}), run_id=run_id, on_event=on_event)
        return await self.start(start, limits)

    async def start(self, start: Start, limits: Mapping[str, Any]) -> dict[str, Json]:
        """Run a checked plan under limits, or resume the run of this id."""
        store, own = self.context.store, start.run_id or new_run_id()
        row = await run_sync_in_thread(store, lambda: store.get_run(own)) if start.run_id is not None else None
        if row is not None and row.status not in ENDS:
            return await self._continue(row, Start(on_event=start.on_event))
        job = await self.jobs.new(replace(start, run_id=own))
        if limits:
            await run_sync_in_thread(store, lambda: apply_limits(self.context, job, limits))
        try:
            return await self._execute(job)
        except RunBusy:  # another correction of the same run began first
            await run_sync_in_thread(store, lambda: self._runs.stop(own))
            raise

    async def _execute(self, job: Job) -> dict[str, Json]:
        """Run a job; the run that a call of an agent makes is part of the agent's run, which waits with it."""
        engine, own = self.context.engine, job.new.id
        job.park = not engine.has_caller(own)
        try:
            result = await engine.run_part(job, own)
        except RecordedCallChanged as error:
            return await self._conflict(own, error)
        await self.context.selection.learn(job, result)
        return await self.answer(outcome(result, KIND))

    # --- resume --------------------------------------------------------------------------------

    async def resume_run(
        self,
        run_id: str,
        decision: Mapping[str, Json] | None = None,
        code: str | None = None,
        *,
        by: str | None = None,
        new_id: str | None = None,
        on_event: OnEvent = None,
    ) -> dict[str, Json]:
        """Continue a run that waits, failed, or lost its process.

        Args:
            run_id: The run.
            decision: An answer to what it waits for: `approved` with `note`, `node` and `digest` (which must be that of
                the question), or `event` with `payload`.
            code: A corrected program. It runs as a new run, which takes recorded calls with the same tool and arguments
                in the same order from this one.
            by: The person who decides.
            new_id: The id of the run of the corrected program; such a run that exists is continued.
            on_event: Gets the events of the run while it executes.

        Returns:
            An answer as `run_plan` gives it; also "conflict" with `recorded` and `changed`, when the corrected program
            would not repeat a write that was made.

        Raises:
            NotFound: There is no such run.
            NotWaiting: The run does not wait for this decision.
        """
        store, start = self.context.store, Start(run_id=new_id, on_event=on_event)
        row = await run_sync_in_thread(store, lambda: require_run(store, run_id))
        undoes = (row.context or {}).get("undoes")
        if row.kind != KIND and undoes is None:
            raise InvalidInput(
                [Problem(path="run_id", message=f"run {run_id} is a run of a {row.kind}, not of a plan")]
            )
        if decision is not None:
            await run_sync_in_thread(store, lambda: self._decide(row, decision, by))
        if undoes is not None:
            # A decision is carried out; nothing that a person rejected is proposed again here.
            return await self._undo(str(undoes), start, renew=False)
        if code is not None:
            return await self.correct(row, code, start)
        if row.parent is not None and row.status in ENDS and row.status != "completed":
            return await self.correct(row, None, start)  # a part cannot be retried by itself
        return await self._continue(row, start)

    async def _continue(self, row: RunRow, start: Start) -> dict[str, Json]:
        if row.status == "completed":
            return await self.answer(await self._ended(row))
        if await run_sync_in_thread(self.context.store, lambda: is_compiled(self.context.store, row.id)):
            return await self._continue_first_design(row, start)
        if row.status in ENDS:
            return await self._retry(row, start)
        job = await self.jobs.for_existing(row, start.parked())
        try:
            result = await self.jobs.continue_run(job, await self.context.store.reopen(row.id))
        except RecordedCallChanged as error:
            return await self._conflict(row.id, error)
        return await self.answer(outcome(result, KIND))

    async def _retry(self, row: RunRow, start: Start) -> dict[str, Json]:
        """Retry the failed steps of a run, which takes what fits from the record of its corrections."""
        store = self.context.store
        chain = await run_sync_in_thread(store, lambda: Corrections(self.context, row))
        if len(chain.rows) == 1:
            return await self.answer(await self._runs.retry(row.id, on_event=start.on_event, park=True))
        await run_sync_in_thread(store, chain.require_idle)
        try:
            result = await self._runs.retry(row.id, on_event=start.on_event, park=True)
        except RecordedCallChanged as error:
            return await self._conflict(row.id, error)
        return await self.answer(result)

    def _decide(self, row: RunRow, decision: Mapping[str, Json], by: str | None) -> None:
        """Send an answer to what a run waits for."""
        message = "must be {approved: true or false} or {event, payload}"
        if not isinstance(decision, Mapping):
            raise InvalidInput([Problem(path="decision", message=message)])
        require_in_effect(self.context, row)
        event = decision.get("event")
        if event is not None:
            self._runs.send(row.id, str(event), decision.get("payload"), early=False)
            return
        approved = decision.get("approved")
        if not isinstance(approved, bool):
            raise InvalidInput([Problem(path="decision", message=message)])
        node, note, mark = (decision.get(key) for key in ("node", "note", "digest"))
        # The digest names the call that the person saw, even if node ids repeat. A question has none in any case.
        if mark is not None:
            waits: list[dict[str, Any]] = self._runs.waiting(row.id)
            marked_waits = [wait for wait in waits if (wait.get("call") or {}).get("digest") == mark]
            if not marked_waits:
                raise InvalidInput([Problem(path="decision.digest", message="no question of this run has this digest")])
            node = marked_waits[0]["path"]
        self._runs.approve(
            row.id,
            None if node is None else str(node),
            approved=approved,
            by=by,
            note=None if note is None else str(note),
        )

    async def correct(self, row: RunRow, code: str | None, start: Start) -> dict[str, Json]:
        """Run corrected code, or the code of the run, in a new run that takes what fits from the record of this one."""
        store, new_id = self.context.store, start.run_id
        begun = await run_sync_in_thread(store, lambda: store.get_run(new_id)) if new_id is not None else None
        if begun is not None and _is_correction(begun, row, code):
            return {**await self._continue_correction(begun, start), "corrects": row.id}
        chain = await run_sync_in_thread(store, lambda: self._chain(row))
        document: Any = row.document
        fields = {key: document[key] for key in ("timeout", "parallel") if key in document}
        input: Any = row.input
        if code is None:
            code = str(document["code"])
            loaded, problems = await self._own_program(row)
        else:
            loaded, problems = await self.load(code, input, self._approve_of(document), **fields)
        if loaded is None or problems:
            return {"status": "invalid", "problems": [problem_of_program(code, problem) for problem in problems]}
        await run_sync_in_thread(store, lambda: self._supersede(chain))
        # The seconds of a run that only waited are settled here, because it never ends by itself.
        await budgets.end(row, store, row.spent)
        context: Any = row.context or {}
        limits = {**(context.get("plan") or {}), "corrects": row.id, "chain": chain.chain}
        answer = await self.start(replace(start, definition=loaded, input=dict(input or {})), limits)
        return {**answer, "corrects": row.id}

    async def _continue_correction(self, row: RunRow, start: Start) -> dict[str, Json]:
        """Continue a correction that an earlier process began with the same call, or answer how it ended."""
        if row.status not in ENDS:
            return await self._execute(await self.jobs.for_existing(row, start))
        return await self.answer(await self._ended(row))

    async def _ended(self, row: RunRow) -> Outcome:
        """Return the outcome of an ended run."""
        result: Any = await self._runs.ended(row)
        return outcome({**(result or {}), "status": row.status, "executionId": row.id}, row.kind)

    async def _continue_first_design(self, row: RunRow, start: Start) -> dict[str, Json]:
        """Run the program of a run of the first design in a new run, with the answers that were sent to the old one."""
        answers = await run_sync_in_thread(self.context.store, lambda: sent_answers(self.context, row.id))
        answer = await self.correct(row, None, start)
        while answer["status"] == "waiting":
            waits: Any = answer["waitingFor"]
            found = find_answer(answers, waits)
            if found is None:
                break
            sent, wait = found
            answers.remove(sent)
            decision = sent.decision if "event" in sent.decision else {**sent.decision, "node": wait["path"]}
            answer = await self.resume_run(str(answer["runId"]), decision, by=sent.by, on_event=start.on_event)
        return {**answer, "corrects": row.id}

    async def outcome_of_correction(self, row: RunRow, start: Start) -> Outcome:
        """Continue a run of the first design in a new run, and return the outcome of that one."""
        answer: dict[str, Any] = await self._continue_first_design(row, Start(on_event=start.on_event))
        if answer["status"] == "invalid":
            raise InvalidFlow(Problem(path="code", message=str(part["message"])) for part in answer["problems"])
        if answer["status"] == "conflict":
            raise JournalConflict(row.id, "", str(answer["message"]))
        store = self.context.store
        new = await run_sync_in_thread(store, lambda: require_run(store, str(answer["runId"])))
        if new.status in ENDS:
            return await self._ended(new)
        job = await self.jobs.for_existing(new, Start(on_event=start.on_event, park=start.park))
        return outcome(await self.jobs.continue_run(job, await store.reopen(new.id)), new.kind)

    async def _own_program(self, row: RunRow) -> tuple[Prepared | None, list[Problem]]:
        """Return the program that a run was started with, checked again."""
        try:
            await self.context.definitions.read_ahead({**row.document, "kind": KIND})
            loaded = self.context.definitions.get(row)
            await self.jobs.connect_for(loaded.flow)
            return loaded, list(self.context.definitions.check(loaded, unknown_tools="problem").problems)
        except InvalidFlow as error:
            return None, list(error.problems)

    def _chain(self, row: RunRow) -> Corrections:
        """Return the chain of a run that is corrected; raise RunUndone while calls of it are being undone."""
        if budgets.has_ledger(self.context.store):
            account = budgets.run_account(chain_of(row))
            for member in (chain_of(row), row.id):
                budgets.join(self.context.store, member, [account])
        chain = Corrections(self.context, row)
        chain.require_no_undo()
        chain.require_idle()
        return chain

    def _supersede(self, chain: Corrections) -> None:
        """Stop the runs of a chain, and leave the undo of their calls to the run that takes these over."""
        for row in chain.rows:
            if row.status not in ENDS:
                self._runs.stop(row.id)
            if row.undo_policy is not None:
                self.context.store.skip_undo(row.id)

    def _approve_of(self, document: Mapping[str, Any]) -> Approve | None:
        """Return the approvals that a run began with, so that corrected code asks no less."""
        asks = any(entry.get("approve") for entry in (document.get("tools") or {}).values())
        return "destructive" if asks and self.approve == "none" else None

    async def undo_run(self, run_id: str, *, on_event: OnEvent = None) -> dict[str, Json]:
        """Undo the finished steps of a run that has ended, or continue its undo.

        Calls that a model's program would have to wait for wait here, too: a person approves the undo as a whole. If
        the person rejected it, another call asks again.

        Args:
            run_id: The run.
            on_event: Gets the events of the undo.

        Returns:
            The report: `status` (undone or incomplete), `undoRun`, and the steps `undone`, `left` and `notUndoable`;
            `rejected` with `by` and `note` if a person rejected it; or `waiting` with `waitingFor` and the id of the
            undo as `runId`.

        Raises:
            NotFound: There is no such run.
            NothingToUndo: The run has not ended, or none of its finished steps has an undo.
            PartOfRun: The run is part of another one, which is undone as a whole.
        """
        return await self._undo(run_id, Start(on_event=on_event), renew=True)

    async def _undo(self, run_id: str, start: Start, *, renew: bool) -> dict[str, Json]:
        asked = _ASKED[self.approve]

        def needs_approval(tool: str) -> bool:
            return facts_of_tool(self.context, tool).effect in asked

        result = await undo(self.jobs, run_id, start.parked(), needs_approval, renew=renew)
        if result.status == "waiting":
            return await self.answer(result)
        report: Any = await run_sync_in_thread(self.context.store, lambda: self._runs.undo_report(run_id))
        return dict(report)

    # --- save ----------------------------------------------------------------------------------

    async def save_plan(self, name: str, code: str, description: str) -> dict[str, Json]:
        """Save a program as the tool `plans:NAME`. An existing plan of this name gets a new version.

        Args:
            name: Lower-case letters, digits and `_`.
            code: The program. Its annotated names without values are the parameters of the tool.
            description: A description, which tool search reads.

        Returns:
            `status` "saved" with `tool`, `version` and `inputSchema`, or "invalid" with `problems`.
        """
        loaded, problems = await self.checked_for_saving(name, code, description)
        if loaded is None or problems:
            return {"status": "invalid", "problems": [problem_of_program(code, problem) for problem in problems]}
        version = await run_sync_in_thread(self.context.store, lambda: store_plan(self.context, loaded))
        tool = register_saved_plan(self.jobs, replace(loaded, stored_id=loaded.compiled.id))
        return {
            "status": "saved",
            "tool": tool.id,
            "name": python_name(tool.id),
            "version": version,
            "inputSchema": tool.input_schema,
        }

    async def checked_for_saving(self, name: str, code: str, description: str) -> tuple[Prepared | None, list[Problem]]:
        """Check a program that is to be saved, and return it with its problems."""
        wrong = []
        if not isinstance(name, str) or not re.fullmatch(_NAME, name):
            wrong.append(Problem(path="name", message="must be lower-case letters, digits and _, not a digit first"))
        if not isinstance(description, str) or not description.strip():
            wrong.append(Problem(path="description", message="must say what the plan does"))
        if wrong:
            return None, wrong
        # What models may run later asks what the project asks of models.
        return await self.load(code, None, self.context.plans.approve, id=name, name=name, description=description)

    # --- answers -------------------------------------------------------------------------------

    async def _conflict(self, run_id: str, error: RecordedCallChanged) -> dict[str, Json]:
        await run_sync_in_thread(self.context.store, lambda: self._runs.stop(run_id))
        return {
            "status": "conflict",
            "runId": run_id,
            "message": str(error),
            "recorded": error.recorded.to_dict(),
            "changed": error.changed,
        }

    async def answer(self, result: Outcome) -> dict[str, Json]:
        """Return the part of a run's outcome that a model sees."""
        data = result.to_dict()
        status, run_id = str(data["status"]), str(data["runId"])
        answer: dict[str, Json] = {"status": status, "runId": run_id}
        if data.get("printed"):
            answer["printed"] = shorten(str(data["printed"]), self.context.plans.max_result)
        if status == "waiting":
            answer["waitingFor"] = data.get("waitingFor") or []
            # The person who decides sees in the answer what the program may do.
            facts = await run_sync_in_thread(self.context.store, lambda: self._runs.facts(run_id))
            return {**answer, "facts": facts} if facts else answer
        if status in ("completed", "partial"):
            return {**answer, "result": self.handle(data["result"], run_id, RESULT)}
        return {**answer, **await run_sync_in_thread(self.context.store, lambda: self._failure(run_id, data))}

    def handle(self, value: Json, run_id: str, node: str) -> Json:
        """Return a value, or a handle for it if its JSON is larger than `[plans] max_result`."""
        text = orjson.dumps(value)
        if len(text) <= self.context.plans.max_result:
            return value
        return {
            "$value": f"{run_id}/{node}",
            "type": _type_name(value),
            "size": len(text),
            "preview": text[: _PREVIEW * 4].decode(errors="ignore")[:_PREVIEW],
        }

    def _failure(self, run_id: str, data: Mapping[str, Any]) -> dict[str, Json]:
        """Return the line that failed, why, and what the calls before it gave."""
        row = require_run(self.context.store, run_id)
        document: Any = row.document
        lines = str(document.get("code", "")).split("\n")
        errors: Any = data.get("errors") or [{}]
        error: Any = errors[0]
        history = self.context.history(run_id)
        message = str(error.get("message") or "")
        own = re.match(r"line (\d+): ", message)
        line = line_at(str(error.get("path") or "")) or (int(own[1]) if own else None)
        text = escape_invisible(lines[line - 1].strip()) if line is not None and 0 < line <= len(lines) else None
        failed = {"line": line, "text": text, "message": message, "tool": error.get("tool"), "kind": error.get("kind")}
        if error.get("kind") == "BudgetExceeded":
            failed["budgets"] = list(budgets_of(self.context.store, row))
        partial: list[Json] = [
            {
                "line": call.line,
                "tool": python_name(call.tool),
                "value": self.handle(call.entry.data, run_id, call.entry.path),
            }
            for call in RecordedCalls(row, history).calls[-_MOST_PARTIAL:]
        ]
        return {"error": failed, "partial": partial, **self._undo_of(row)}

    def _undo_of(self, row: RunRow) -> dict[str, Json]:
        """Return what is undone of a failed run, or what can be undone of it; {} if nothing is to undo."""
        report = undo_report(self.context, row)
        if report is None or report["status"] == "none":
            report = undo_offer(self.context, row)
        return {} if report is None else {"undo": report}


def _wrong_arguments(code: Any, input: Any, approve: Any) -> Iterator[Problem]:
    if not isinstance(code, str):
        yield Problem(path="code", message="must be the text of a program")
    if approve is not None and approve not in _ASKED:
        yield Problem(path="approve", message=f"must be one of: {', '.join(_ASKED)}")
    if input is None:
        return
    if not isinstance(input, Mapping):
        yield Problem(path="input", message="must be an object with the values that the program reads, by name")
        return
    for error in json_problems(dict.fromkeys(input), "input"):
        yield Problem(path=error.place, message=error.message)


def _is_correction(row: RunRow, corrected: RunRow, code: str | None) -> bool:
    """Return True if a run is the correction of another one with some code, or with the code of that one."""
    limits, document = (row.context or {}).get(CONTEXT) or {}, row.document
    same = isinstance(document, dict) and code in (None, document.get("code"))
    return same and limits.get("corrects") == corrected.id


def _line(source: str) -> int | None:
    match = re.match(r"code:(\d+)", source)
    return int(match[1]) if match else None


def problem_of_program(code: str, problem: Problem) -> dict[str, Json]:
    """Return a problem of a program with its line and column, and the line with a caret under the column."""
    lines = code.split("\n")
    line: int | None = None
    column = 1
    if problem.path == "code" and problem.column is not None:
        before = code[: problem.column - 1]
        line, column = before.count("\n") + 1, problem.column - 1 - (before.rfind("\n") + 1) + 1
    elif (line := _line(problem.path)) is not None and line <= len(lines):
        # The check knows the line and the argument; the caret points at its name, else at the statement.
        word = re.split(r"[.\[]", problem.path)[-1].rstrip("]")
        match = re.search(rf"\b{re.escape(word)}\b", lines[line - 1]) if word.isidentifier() else None
        column = match.start() + 1 if match else len(lines[line - 1]) - len(lines[line - 1].lstrip()) + 1
    message = re.sub(r"^line \d+: ", "", problem.message)
    if problem.suggestion:
        message += f"; did you mean {problem.suggestion}?"
    if line is None or not 0 < line <= len(lines):
        return {"line": line, "column": None, "message": f"{problem.path}: {message}" if problem.path else message}
    text = lines[line - 1].replace("\t", " ")
    caret = f"line {line}, column {column}: {message}\n    {escape_invisible(text)}\n    {' ' * (column - 1)}^"
    return {"line": line, "column": column, "message": message, "text": caret}


def _type_name(value: Json) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")
