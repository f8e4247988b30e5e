"""The public service `app.runs`: list, show, watch, stop, answer, retry, undo, fork and delete runs."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ...argument_checks import require_type, wrong_type
from ...config.secrets import process_redaction
from ...duration import read_duration
from ...events import Event
from ...journal.address import run_sync_in_thread
from ...journal.protocol import ENDS, SCHEDULE, STATUSES, Definition, Entry, Pruned, RunRow, statuses
from ...journal.sql.rows import CHUNK
from ...notations.records import Outcome, outcome
from ...notations.registry import NOTATIONS
from ...values import Json
from ..presenters import run_line
from ..recorded_run import SAME, orphans
from ..run_budget import budgets_of
from ..start import Executor, Start
from .argument_checks import checks_arguments, known_statuses, one_of, require
from .following import Following
from .listed_run import ListedRun
from .liveness import (
    LIVENESS_STATES,
    current_node,
    error_of,
    liveness_of,
    shown_status,
    waiting_run_ids,
)
from .steps import earlier_endings, events_of, reuse_cutoff, steps
from .unattended import has_worker

if TYPE_CHECKING:
    from ..context import Context
    from ..jobs import Jobs
    from ..prepared import Source
    from .contents import Content

MOST = 100_000
KINDS: Final = (*NOTATIONS, CHUNK, SCHEDULE)
"""Kinds of runs: those of definitions, chunks of large maps, and schedules that could not start."""
_PAGE: Final = 500

Waiting = list[dict[str, Json]]
Listed = list[ListedRun]
Versions = list[Definition]
History = list[Entry]


@checks_arguments
class RunService:
    """`app.runs`: every run in the store, in whichever process it is executed."""

    def __init__(self, context: Context, jobs: Jobs) -> None:
        self.context, self.jobs = context, jobs
        self.engine, self.store = context.engine, context.store

    def tool_stats(self, *, since: float | None = None, limit: int = 1000) -> dict[str, Json]:
        """Count the calls, failures and durations of each tool in recorded runs.

        Args:
            since: Only runs that started at this time or later, in seconds since the epoch.
            limit: Maximum number of runs to read, newest first.

        Returns:
            `tools`, by number of calls, and the number of `runs` that were read and of those that could not be.

        Raises:
            InvalidInput: An argument has a wrong type.
        """
        from .statistics import tool_stats

        require_type(int, limit=limit)
        if since is not None and (isinstance(since, bool) or not isinstance(since, (int, float))):
            raise wrong_type("since", "a time in seconds since the epoch", since)
        return tool_stats(self.context, since=since, limit=limit)

    def list(
        self,
        *,
        status: str | Sequence[str] | None = None,
        kind: str | None = None,
        definition_id: str | None = None,
        flow: str | None = None,
        text: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: str | None = None,
        all: bool = False,
        limit: int = 50,
    ) -> Listed:
        """List runs, newest first, without their large values.

        Args:
            status: A status or several. `queued`, `interrupted` and `answered` select running runs without a process.
            kind: Only runs of this kind of definition, such as `chain`.
            definition_id: Only runs of the definition with this id.
            flow: Only runs of the definition with this id or name.
            text: Only runs with this text in their id, name or error.
            since: Only runs that started at this time or later, in seconds since the epoch.
            until: Only runs that started before this time, in seconds since the epoch.
            after: Continue the list behind the run with this id.
            all: Also list parts of other runs: the flows that they called as tools.
            limit: Maximum number of runs.

        Returns:
            The rows of the runs. A row also has the keys of `get`, such as `row["status"]` and `row["result"]`.

        Raises:
            InvalidInput: An argument has a wrong type, or there is no such status or kind.
        """
        known_statuses(status, (*STATUSES, *LIVENESS_STATES))
        if kind is not None:
            one_of(kind=kind, known=KINDS, what=f"there is no kind of run {kind!r}")
        find = functools.partial(
            self.store.list_runs,
            kind=kind, definition_id=definition_id, flow=flow, text=text, since=since, until=until, top=not all,
        )  # fmt: skip
        wanted = set(statuses(status or ()))
        live_states = wanted & {*LIVENESS_STATES}
        waiting = waiting_run_ids(self.context) if len(wanted & {"running", "waiting"}) == 1 else set()
        if not live_states and not waiting:
            return [ListedRun.of(row, self) for row in find(status=status, after=after, limit=limit)]
        # No store records the liveness of a run, nor that it waits inside its process: pages of runs are filtered.
        stored = [item for item in STATUSES if item in wanted]
        result: Listed = []
        while len(result) < limit:
            page = find(status=[*stored, "running"], after=after, limit=_PAGE)
            liveness = self.liveness_of(page)
            for row in page:
                state = liveness.get(row.id)
                if state in live_states or shown_status(row, state, row.id in waiting) in stored:
                    result.append(ListedRun.of(row, self))
            if len(page) < _PAGE:
                break
            after = page[-1].id
        return result[:limit]

    def line(self, row: RunRow) -> dict[str, Json]:
        """Present a row as one item of a list.

        Args:
            row: The row.

        Returns:
            The summary of the run, as `get` begins with.
        """
        is_waiting = row.status == "running" and row.id in waiting_run_ids(self.context)
        return run_line(row, self.liveness_of([row]).get(row.id), self.current(row), is_waiting=is_waiting)

    def row(self, run_id: str) -> RunRow | None:
        """Return the whole row of a run, or None if there is no such run.

        Args:
            run_id: The id of the run.

        Returns:
            The row, with the recorded input and result.
        """
        return self.store.get_run(run_id)

    def history(self, run_id: str) -> History:
        """Return all entries that are recorded so far, in order.

        Args:
            run_id: The id of the run.

        Returns:
            The entries.
        """
        return self.context.history(run_id)

    def content(self, run_id: str, hash: str) -> Content:
        """Get content (an image, audio, an embedded resource) that a value of the run refers to.

        Args:
            run_id: The id of the run.
            hash: The SHA-256 of the bytes, which a value has as `$content.blob`.

        Returns:
            A `Content` with `data`, `mime_type` and `name`.

        Raises:
            NotFound: There is no such run, it does not refer to this content, or the bytes are gone.
        """
        from .contents import content

        return content(self, run_id, hash)

    def get(
        self, run_id: str, *, events: bool = True, after: int = 0, limit: int | None = None
    ) -> dict[str, Json] | None:
        """Get one run with its recorded steps.

        Args:
            run_id: The id of the run.
            events: Whether to add the events of the run as `events`.
            after: Where the page begins: `next` of the page before it.
            limit: How many entries of the journal a page has, at most. None: all of it, in one.

        Returns:
            The run with the fields of its outcome (its value as `result`), its steps as `nodes`, and the place of the
            `next` page (None for the last); None when there is no such run.
        """
        from .answers import unanswered_waits
        from .pages import Page, complete_failures, read_page, waits_of, with_untaken
        from .undone import shown_undo

        row = self.store.get_run(run_id, so_far=True)
        if row is None:
            return None
        if limit is None:
            history = waiting = self.history(run_id)
            page = Page(with_untaken(self.context, row, history), [], set(), None)
        else:
            page = read_page(self.context, row, after, limit)
            history, waiting = [*page.entries, *page.related], waits_of(self.context, row)
        # Steps before a retry or a fork count as reused, also those outside this page.
        liveness = self.liveness_of([row]).get(run_id)
        before = reuse_cutoff(history, row)
        waits = [] if row.status in ENDS else unanswered_waits(self.context, row, waiting)
        nodes = steps(page.entries, row, page.related, page.blocks, is_last=page.next is None)
        complete_failures(self.store, row, nodes)
        result = self.result(row)
        answer = outcome(result, row.kind).to_answer() if isinstance(result, dict) else {}
        endings = earlier_endings(history)
        return {
            **answer,
            **run_line(row, liveness, self.current(row), is_waiting=bool(waits)),
            "elapsed": round(((row.ended_at or time.time()) - row.started_at) * 1000, 3),
            "definitionId": row.definition_id,
            "version": self.version(row),
            "fingerprint": row.fingerprint,
            "forkedFrom": row.forked_from,
            "parent": row.parent,
            "undo": shown_undo(self.context, row, history if page.next is None and not after else None),
            "budgets": budgets_of(self.store, row),
            "owner": row.owner,
            "resumed": _resumptions(row, len(endings)),
            "input": process_redaction().value(row.input),
            "result": answer.get("result"),
            "error": error_of(self.context, row, liveness),
            "endings": endings,
            "waitingFor": waits,
            "facts": self.facts(run_id, waits),
            "nodes": nodes,
            "next": page.next,
            **({"events": [event.to_dict() for _, event in events_of(run_id, page.entries, before)]} if events else {}),
        }

    def result(self, row: RunRow) -> Json:
        """Return the recorded result of a run, or the partial one of a run that was stopped without a process.

        Args:
            row: The whole row of the run.

        Returns:
            The result in the fields of its notation; None while the run is unfinished.
        """
        from .simulate import stopped_result_sync, was_abandoned

        return stopped_result_sync(self.jobs, row) if was_abandoned(row) else row.result

    def earlier_seconds(self, row: RunRow) -> float:
        """Return the seconds of execution before the run was last retried; 0 for a run that never was.

        Args:
            row: The row of the run.

        Returns:
            The seconds.
        """
        if row.epoch < 2:
            return 0.0
        # Each retry records how the execution before it ended, at a path named by the number of its owner.
        entries = self.store.history_at(row.id, [f"#{number}" for number in range(1, row.epoch + 1)])
        return float(sum(entry.data.get("spent", 0.0) for entry in entries if entry.kind == "ending"))

    async def ended(self, row: RunRow) -> Json:
        """Return what `result` does, without holding the event loop and on no other one.

        Args:
            row: The whole row of the run.

        Returns:
            The result in the fields of its notation.
        """
        from .simulate import ended_result

        return await ended_result(self.jobs, row)

    async def arguments(self, run_id: str) -> Mapping[str, Json]:
        """Return the arguments of the recorded calls. The run is replayed in memory; no tool is called.

        Args:
            run_id: The id of the run.

        Returns:
            The arguments by path without attempts. Secrets are references.

        Raises:
            NotFound: There is no such run.
        """
        from .simulate import recorded_arguments

        return await recorded_arguments(self.jobs, run_id)

    def current(self, row: RunRow) -> str | None:
        """Return the node that an unfinished run is at, or None if it is unknown.

        Args:
            row: The row of the run.

        Returns:
            The id or path of the node.
        """
        return current_node(self.context, row)

    def interrupted(self) -> set[str]:
        """Return the ids of runs that lost their process before they ended, and that somebody must resume.

        Returns:
            The ids.
        """
        result = self.liveness_of(orphans(self.store).values())
        return {id for id, liveness in result.items() if liveness == "interrupted"}

    def liveness_of(self, rows: Iterable[RunRow]) -> dict[str, str]:
        """Return the state of the runs that no process executes.

        Args:
            rows: The rows of the runs.

        Returns:
            By id: `queued` if a worker takes the run by itself, `interrupted` if somebody must resume it, `answered` if
            it waited, was answered and must be resumed.
        """
        return liveness_of(self.context, rows)

    def has_worker(self, row: RunRow) -> bool:
        """Return True if a worker continues the run by itself.

        It does if the run was queued, if it is a chunk of a queued run, or if workers can have its tools.

        Args:
            row: The row of the run.

        Returns:
            False if somebody must resume the run.
        """
        return has_worker(self.context, row)

    def stop(self, run_id: str) -> bool:
        """Stop a run, in whatever process it runs.

        Args:
            run_id: The id of the run.

        Returns:
            True if the run was running or waiting.
        """
        return self.engine.stop(run_id)

    def versions(self, kind: str, id: str) -> Versions:
        """Return the kept versions of a stored definition, newest first.

        Args:
            kind: `chain` or `composition`.
            id: The id of the definition.

        Returns:
            The versions with their documents.
        """
        return self.store.list_versions(kind, id)

    def waiting(self, run_id: str | None = None) -> Waiting:
        """Return the events and approvals that one run waits for, or that all runs wait for.

        Args:
            run_id: The id of the run. Default: all runs that are running or waiting.

        Returns:
            Each wait with its run, its path and its node.

        Raises:
            NotFound: There is no such run.
        """
        from .answers import open_waits_of_runs

        return open_waits_of_runs(self.context, run_id)

    def facts(self, run_id: str, waits: Waiting | None = None) -> Waiting:
        """Return the facts about the flows of a run that wait for an approval: what they may do once they continue.

        Args:
            run_id: The id of the run.
            waits: Only the flows with these waits, which `waiting` has returned. Default: all waits of the run.

        Returns:
            For each flow its name as `flow`, its `kind`, and the facts that a preview has.

        Raises:
            NotFound: There is no such run.
        """
        from ..facts import facts_for_approval

        return facts_for_approval(self.context, run_id, self.waiting(run_id) if waits is None else waits)

    def send(self, run_id: str, event: str, payload: Json = None, *, id: str | None = None, early: bool = True) -> bool:
        """Send an event, or the answer to a question of an MCP server. The store keeps it until a wait takes it.

        Args:
            run_id: The id of the run.
            event: The name of the event.
            payload: The value that the wait gets. The answer to a question has the fields of its form.
            id: Idempotency key: an event with this id is delivered only once.
            early: Accept an event that the run does not wait for yet.

        Returns:
            False if an event with this id was sent before.

        Raises:
            InvalidInput: The answer does not fit the form of the question.
            NotWaiting: The run does not wait for the event, and `early` is False. Or the question has another answer.
            RunEnded: The run is finished, and `early` is False.
            NotFound: There is no such run.
        """
        from .answers import send_event

        return send_event(self.context, run_id, event, payload, id, early)

    def approve(
        self,
        run_id: str,
        name: str | None = None,
        *,
        approved: bool = True,
        by: str | None = None,
        note: str | None = None,
    ) -> dict[str, Json]:
        """Answer an approval that a run waits for.

        Args:
            run_id: The id of the run.
            name: The id or the path of the node. Default: the only approval.
            approved: False rejects.
            by: Who answers.
            note: A comment for the record.

        Returns:
            The wait with its answer.

        Raises:
            NotWaiting: The run waits for no such approval, or for more than one.
            NotFound: There is no such run.
        """
        from .answers import answer_approval

        require_type(bool, approved=approved)
        return answer_approval(self.context, run_id, name, approved, by, note)

    def outermost(self, run_id: str) -> str:
        """Return the id of the outermost run that contains a run: the one to resume, stop or answer.

        Args:
            run_id: The id of the run. A run that is part of no other is its own outermost run.

        Returns:
            The id.

        Raises:
            NotFound: There is no run with this id.
        """
        from ..recorded_run import outermost, require_run

        return outermost(self.store, require_run(self.store, run_id)).id

    def version(self, row: RunRow) -> int | None:
        """Return the version of the stored definition that a run uses; None if it is not stored.

        Args:
            row: The row of the run.

        Returns:
            The number of the version.
        """
        if row.definition_id is None:
            return None
        versions = self.store.list_versions(row.kind, row.definition_id)
        return next((item.version for item in versions if item.fingerprint == row.fingerprint), None)

    async def retry(
        self,
        run_id: str,
        from_nodes: Sequence[str] = (),
        *,
        definition: Source | None = None,
        upgrade: bool = False,
        executor: Executor | None = None,
        on_event: Callable[[Event], None] | None = None,
        park: bool = False,
        accept: Sequence[str] | Mapping[str, Json] = (),
    ) -> Outcome:
        """Retry the failed steps of a finished run. Everything else keeps its recorded result.

        Args:
            run_id: The id of the run.
            from_nodes: Rerun these nodes and everything after them: ids, names or paths such as `each[3]/fetch`.
                Default: the steps that failed; of a loop only the failed items.
            definition: A changed definition, as for `App.resume`.
            upgrade: Continue with the changed definition.
            executor: `async (tool_id, arguments) -> value`; needed if the run was started with one.
            on_event: Called with each event. `call.repeated` reports a tool that ran before and is called again.
            park: Return while the run waits for an event or an approval.
            accept: Nodes whose rejected results are used without another call; a mapping gives the results by node.

        Returns:
            The outcome of the run.

        Raises:
            NothingToRetry: Nothing would run again.
            NotFound: The run or a node does not exist.
            RunBusy: A process is executing the run.
        """
        from .rerun import retry

        start = Start(executor=executor, on_event=on_event, park=park)
        row = await run_sync_in_thread(self.store, lambda: self.store.get_run(run_id))
        if row is not None and row.kind == "plan" and row.status in ENDS:
            from ..first_design import is_of_first_design

            if await run_sync_in_thread(self.store, lambda: is_of_first_design(self.context, row)):
                return await self.jobs.correct(row, start)
        return await retry(self.jobs, run_id, from_nodes, definition, upgrade, start, accept)

    async def fork(
        self,
        run_id: str,
        *,
        input: Json = SAME,
        definition: Source | None = None,
        at: Sequence[str] = (),
        new_id: str | None = None,
        executor: Executor | None = None,
        on_event: Callable[[Event], None] | None = None,
        park: bool = False,
    ) -> Outcome:
        """Start a new run from an earlier one, with different input or a different definition.

        A recorded call with the same arguments is reused. The earlier run stays unchanged.

        Args:
            run_id: The id of the earlier run.
            input: The input of the new run. Default: that of the earlier run.
            definition: The definition of the new run. Default: the recorded one.
            at: Rerun these nodes and everything after them: ids, names or paths.
            new_id: The id of the new run. Default: a new id.
            executor: `async (tool_id, arguments) -> value`; needed if the earlier run was started with one.
            on_event: Called with each event of the new run.
            park: Return while the new run waits for an event or an approval.

        Returns:
            The outcome of the new run.

        Raises:
            NotFound: The run or a node does not exist.
            RunExists: There is a run with the new id.
        """
        from .rerun import fork

        start = Start(input=input, run_id=new_id, executor=executor, on_event=on_event, park=park)
        return await fork(self.jobs, run_id, definition, at, start)

    async def undo(
        self, run_id: str, *, executor: Executor | None = None, on_event: Callable[[Event], None] | None = None
    ) -> dict[str, Json]:
        """Undo a finished run: call the undo of each finished step, in reverse order of completion.

        A failing undo is retried. If it fails for good, the undo is incomplete, and another call continues there.

        Args:
            run_id: The id of the run.
            executor: `async (tool_id, arguments) -> value`; needed if the run was started with one.
            on_event: Called with each event of the undo, which is a run of its own.

        Returns:
            The report: `status` (undone, undoing or incomplete), `undoRun`, and the steps `undone`, `left` and
            `notUndoable`.

        Raises:
            NothingToUndo: The run has not ended, or none of its finished steps has an undo.
            RunBusy: Another process is undoing the run.
            InvalidFlow: The tool of an undo is not known here; nothing is undone.
        """
        from .undo import undo

        await undo(self.jobs, run_id, Start(executor=executor, on_event=on_event))
        return await run_sync_in_thread(self.store, lambda: self.undo_report(run_id) or {})

    def undo_report(self, run_id: str) -> dict[str, Json] | None:
        """Return the report of `undo`; None for a run that nobody has begun to undo and that has no policy.

        Args:
            run_id: The id of the run.
        """
        from ..recorded_run import require_run
        from .undone import undo_report

        return undo_report(self.context, require_run(self.store, run_id))

    def diff(self, a: str, b: str) -> dict[str, Json]:
        """Compare two runs: definition, input, result, and status, value and error of each node.

        Args:
            a: The id of one run.
            b: The id of the other run.

        Returns:
            The differences as JSON.

        Raises:
            NotFound: There is no such run.
        """
        from ..recorded_run import require_run
        from .compare import RecordedRun, compare_runs, flow_changes

        row_a, row_b = require_run(self.store, a), require_run(self.store, b)
        differences = []
        if row_a.fingerprint != row_b.fingerprint and row_a.kind == row_b.kind:
            differences = flow_changes(
                self.context.definitions.get(row_a).flow, self.context.definitions.get(row_b).flow
            )
        return compare_runs(RecordedRun(row_a, self.history(a)), RecordedRun(row_b, self.history(b)), differences)

    def prune(
        self,
        *,
        older_than: float | str | None = None,
        keep: int | None = None,
        status: str | Sequence[str] = (),
        dry: bool = False,
    ) -> Pruned:
        """Delete finished runs with everything that is recorded of them.

        Args:
            older_than: Delete runs that ended more than this number of seconds ago, or a duration such as "30d".
            keep: Keep the newest N runs.
            status: Delete only runs with this status, or one of these.
            dry: Delete nothing, only count.

        Returns:
            The number of runs, and their size in bytes.
        """
        known_statuses(status, STATUSES)
        before = None if older_than is None else time.time() - read_duration(older_than)
        pruned = self.store.prune(before=before, keep=keep, status=statuses(status or ()), dry=dry)
        if pruned.runs and not dry:
            from .retention import delete_queue_records

            delete_queue_records(self.store)
        return pruned

    def export(self, run_id: str) -> dict[str, Json]:
        """Return everything that the store holds of a run and its parts, as JSON. Secrets appear only by name.

        Args:
            run_id: The id of the run.

        Returns:
            `run`, `entries`, `signals`, `parts`, and `contents` in base64 by SHA-256.

        Raises:
            NotFound: There is no such run.
        """
        from .steps import export_run

        return export_run(self.store, run_id)

    def actions(self, run_id: str, node: str | None = None) -> Sequence[str]:
        """Return what can be done with a run now. Nothing is changed, and no tool is called.

        Args:
            run_id: The id of the run.
            node: The id or path of a node: only whether the run can be retried or forked from there.

        Returns:
            Those of `stop`, `resume`, `retry`, `undo` and `fork` that the run would accept.

        Raises:
            NotFound: There is no such run.
        """
        from .actions import actions_of

        return actions_of(self.jobs, run_id, node)

    def logs(self, run_id: str, node: str | None = None) -> Sequence[dict[str, Json]]:
        """Return what the tools of a run have printed and logged, line by line.

        Ropewalk's commands capture it. Another program runs inside `ropewalk.tools.capture.capture`.

        Args:
            run_id: The id of the run.
            node: Only the lines of this node, by its id or path, and of the steps inside it.

        Returns:
            The lines of the run and its parts in the order of time: `path`, `node`, `number` (of the line in its
            step), `at` (seconds since the epoch), `stream` (stdout, stderr, log or server), `level` (of a log), and
            `text`. Where a step has printed more than `[limits]` keeps, one line has `leftOut` in place of a text.

        Raises:
            NotFound: There is no such run.
        """
        from .logs import log_lines

        return log_lines(self.context, run_id, node)

    async def watch(self, run_id: str, *, poll: float = 0.1) -> AsyncIterator[Event]:
        """Yield the events of a run so far, then each new one as it is recorded.

        Args:
            run_id: The id of the run.
            poll: Minimum number of seconds between two reads of the store.

        Yields:
            The events. The last one is `run.finished`, `run.waiting` or `run.interrupted`.
        """
        require([("run_id", "str", run_id), ("poll", "float", poll)])
        following = Following(self, run_id, poll=poll)
        while not following.over:
            for event in await following.look():
                yield event
            if not following.over:
                await asyncio.sleep(following.pause)

    def following(self, run_id: str) -> Following:
        """Return a reader of the new events of a run that another process executes.

        Args:
            run_id: The id of the run.

        Returns:
            The reader.
        """
        return Following(self, run_id, begins=True)


def _resumptions(row: RunRow, retries: int) -> int:
    """Return how often a process continued the run; a retry, and the first claim of a queued run, do not count."""
    is_of_queue = isinstance(row.context, dict) and "queue" in row.context
    return max(0, row.epoch - 1 - retries - is_of_queue)
