"""Runs as people look at them: lists, details, events as they happen, stopping."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..dialects.notation import NOTATIONS
from ..dialects.records import Outcome
from ..errors.given import must_be
from ..events import Event
from ..journal.filters import statuses
from ..journal.journal import ENDS, STATUSES, Definition, Entry, Pruned, RunRow
from ..journal.sql_rows import CHUNK
from ..values import Json
from . import asked
from .following import Following
from .pinned import SAME
from .standing import STANDINGS, attended, standing, told
from .steps import endings, events_of, steps, summary, taken_over

if TYPE_CHECKING:
    from ..app import App
    from ..definitions import Source
    from ..jobs import Executor
    from .contents import Content

MOST = 100_000
KINDS: Final = (*NOTATIONS, CHUNK, "schedule")
"""What runs are of: definitions, parts of large ones, and schedules that could not begin."""
_PAGE: Final = 500

Waiting = list[dict[str, Json]]
Listed = list[RunRow]
Versions = list[Definition]
History = list[Entry]


class Runs:
    """`app.runs`: every run in the store, whoever executes it."""

    def __init__(self, app: App) -> None:
        self.app, self.engine, self.store = app, app.engine, app.store

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
        """The newest runs first, without their large values; with `all` also those that are part of
        another: flows that it called as tools. `status` may be several, also `queued`, `interrupted` or `answered`,
        which are runs that are running and have no process (`standing`); `flow` is a definition's id or name; the list
        goes on behind the run `after`."""
        asked.texts_or_none(kind=kind, definition_id=definition_id, flow=flow, text=text, after=after)
        asked.numbers_or_none(since=since, until=until)
        asked.amount(limit=limit)
        asked.known_statuses(status, (*STATUSES, *STANDINGS))
        if kind is not None:
            asked.one_of(kind=kind, known=KINDS, what=f"no run is one of a {kind!r}")
        find = functools.partial(
            self.store.list_runs,
            kind=kind, definition_id=definition_id, flow=flow, text=text, since=since, until=until, top=not all,
        )  # fmt: skip
        wanted = {one for one in statuses(status or ()) if one in STANDINGS}
        if not wanted:
            return find(status=status, after=after, limit=limit)
        stored = [one for one in statuses(status or ()) if one in STATUSES]
        found: Listed = []
        while len(found) < limit:
            page = find(status=[*stored, "running"], after=after, limit=_PAGE)
            stands = self.standing(page)
            found += [row for row in page if row.status in stored or stands.get(row.id) in wanted]
            if len(page) < _PAGE:
                break
            after = page[-1].id
        return found[:limit]

    def row(self, run_id: str) -> RunRow | None:
        asked.texts(run_id=run_id)
        return self.store.get_run(run_id)

    def history(self, run_id: str) -> History:
        """Everything recorded so far, in order."""
        asked.texts(run_id=run_id)
        live = self.engine.live.get(run_id)
        if live is not None and not self.store.durable:
            return live.entries()
        return self.store.history(run_id)

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

        asked.texts(run_id=run_id, hash=hash)
        return content(self, run_id, hash)

    def get(
        self, run_id: str, *, events: bool = True, after: int = 0, limit: int | None = None
    ) -> dict[str, Json] | None:
        """Get one run with its recorded steps.

        Args:
            run_id: The id of the run.
            events: Whether to add the same as `events`.
            after: Where the page begins: `next` of the page before it.
            limit: How many entries of the journal a page has, at most. None: all of it, in one.

        Returns:
            The run, its steps as `nodes`, and the place of the `next` page (None for the last); None when there is no
            such run.
        """
        from .answers import unanswered
        from .pages import Page, read_page, waits_of
        from .untaken import with_untaken

        asked.texts(run_id=run_id)
        asked.amount(after=after)
        asked.amount_or_none(limit=limit)
        row = self.store.get_run(run_id, so_far=True)
        if row is None:
            return None
        if limit is None:
            history = waiting = self.history(run_id)
            page = Page(with_untaken(self.app, row, history), [], set(), None)
        else:
            page = read_page(self, row, after, limit)
            history, waiting = [*page.entries, *page.beside], waits_of(self, row)
        stands = self.standing([row]).get(run_id)
        elapsed = (row.ended_at or time.time()) - row.started_at
        before = taken_over(history, row)
        return {
            **summary(row, self.current(row)),
            "elapsed": round(elapsed * 1000, 3),
            **told(stands),
            "definitionId": row.definition_id,
            "version": self.version(row),
            "fingerprint": row.fingerprint,
            "forkedFrom": row.forked_from,
            "parent": row.parent,
            "owner": row.owner,
            "input": row.input,
            "result": self.result(row),
            "error": row.error,
            "endings": endings(history),
            "waitingFor": [] if row.status in ENDS else unanswered(self, row, waiting),
            "nodes": steps(page.entries, row, page.beside, page.blocks, is_last=page.next is None),
            "next": page.next,
            **({"events": [event.to_dict() for _, event in events_of(run_id, page.entries, before)]} if events else {}),
        }

    def result(self, row: RunRow) -> Json:
        """How the run of a whole row has ended; of one that was stopped while nobody ran it what is left of it."""
        from .remains import let_go, remains

        return remains(self.app, row) if let_go(row) else row.result

    async def ended(self, row: RunRow) -> Json:
        """Return the same as `result`, found on a thread: what is left of a stopped run takes one more run of its
        definition, which must not hold the event loop."""
        return await asyncio.to_thread(self.result, row)

    async def arguments(self, run_id: str) -> Mapping[str, Json]:
        """What each of its calls was given, by path without attempts, as far as the run has come; secrets are
        references. Found by running it once more in memory with what is recorded: no tool is called."""
        from .arguments import arguments

        asked.texts(run_id=run_id)
        return await arguments(self.app, run_id)

    def current(self, row: RunRow) -> str | None:
        """The node a live run is at."""
        if row.status in ENDS:
            return None
        live = self.engine.live.get(row.id)
        return (live.position() if live is not None else None) or row.current_node or None

    def interrupted(self) -> set[str]:
        """The ids of runs whose process is gone before they ended: `resume` goes on with them."""
        found = self.standing(self.store.orphans())
        return {id for id, stands in found.items() if stands == "interrupted"}

    def standing(self, rows: Iterable[RunRow]) -> dict[str, str]:
        """Which of these runs no process executes: `queued` are those that a worker takes by itself, `interrupted`
        those that somebody is to resume, `answered` those that waited, have got what they waited for, and are to be
        resumed, too."""
        return standing(self, rows)

    def attended(self, row: RunRow) -> bool:
        """Whether a worker goes on with the run by itself: it was put in line for workers, or is a chunk of one that
        was, or workers are there, who take every run whose tools they can have."""
        return attended(self, row)

    def stop(self, run_id: str) -> bool:
        """Stop a run that is running or waiting, in whatever process; True when it was."""
        asked.texts(run_id=run_id)
        return self.engine.stop(run_id)

    def versions(self, kind: str, id: str) -> Versions:
        """Every version of a stored definition that is kept, newest first."""
        asked.texts(kind=kind, id=id)
        return self.store.list_versions(kind, id)

    def waiting(self, run_id: str | None = None) -> Waiting:
        """What a run waits for, or what all runs that are running or waiting do: events and approvals, each with
        its run, its path and its node. Raises NotFound for an unknown run."""
        from .answers import waiting

        asked.texts_or_none(run_id=run_id)
        return waiting(self, run_id)

    def send(self, run_id: str, event: str, payload: Json = None, *, id: str | None = None, early: bool = True) -> bool:
        """Send an event to a run; it is kept until a wait for it takes it. The same `id` is sent once: False when
        it was there. Not `early` it is refused (NotWaiting) unless the run waits for it now."""
        from .answers import send

        asked.texts(run_id=run_id, event=event)
        asked.texts_or_none(id=id)
        return send(self, run_id, event, payload, id, early)

    def approve(
        self,
        run_id: str,
        name: str | None = None,
        *,
        approved: bool = True,
        by: str | None = None,
        note: str | None = None,
    ) -> dict[str, Json]:
        """Answer an approval that the run waits for: the one at this path or of this node, the only one without a
        `name`. Gives what was answered; raises NotWaiting when there is none, or more than one."""
        from .answers import approve

        asked.texts(run_id=run_id)
        asked.texts_or_none(name=name, by=by, note=note)
        must_be(bool, approved=approved)
        return approve(self, run_id, name, approved, by, note)

    def outermost(self, run_id: str) -> str:
        """Return the id of the run that a run is part of, directly or not: the one to resume, stop or answer. Of a run
        that is part of no other this is its own id.

        Raises:
            NotFound: there is no run of this id.
        """
        from .pinned import known, outermost

        asked.texts(run_id=run_id)
        return outermost(self.store, known(self.store, run_id)).id

    def version(self, row: RunRow) -> int | None:
        """Which version of its stored definition a run goes by; None for one that is not stored."""
        if row.definition_id is None:
            return None
        kept = self.store.list_versions(row.kind, row.definition_id)
        return next((one.version for one in kept if one.fingerprint == row.fingerprint), None)

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
        """Go on with a run that has ended: what failed runs again, of a for_each only the items that failed. With
        `from_nodes` (ids, names or paths such as `each[3]/fetch`) those and everything that depends on them.

        A tool that ran, but whose result was rejected, is called again like any other failure; the event
        `call.repeated` says so. `accept` names nodes whose rejected results the run uses instead,
        without a call. As a mapping it gives the results by node, for results that are not JSON.

        Everything else keeps its recorded result. `definition` and `upgrade` are those of `app.resume`. Raises
        NothingToRetry where that would do nothing, NotFound for a run or node that is not there, RunBusy while the
        run is being executed.
        """
        from .rerun import retry

        asked.texts(run_id=run_id)
        asked.names(from_nodes=from_nodes)
        return await retry(self.app, run_id, from_nodes, definition, upgrade, executor, on_event, park, accept)

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
        """Start a new run from one of before, with another input or definition. What was recorded is reused where a
        call would be made with the same arguments; the nodes `at`, and what depends on them, run in any case. The
        other run stays as it is."""
        from .fork import fork

        asked.texts(run_id=run_id)
        asked.texts_or_none(new_id=new_id)
        asked.names(at=at)
        return await fork(self.app, run_id, input, definition, at, new_id, executor, on_event, park)

    def diff(self, a: str, b: str) -> dict[str, Json]:
        """What differs between two runs: definition, input, node by node status, value and error, result."""
        from .changes import changes
        from .difference import difference
        from .pinned import known, pinned

        asked.texts(a=a, b=b)
        one, other = known(self.store, a), known(self.store, b)
        made = []
        if one.fingerprint != other.fingerprint and one.kind == other.kind:
            made = changes(pinned(self.app, one).flow, pinned(self.app, other).flow)
        return difference((one, self.history(a)), (other, self.history(b)), made)

    def prune(
        self,
        *,
        older_than: float | None = None,
        keep: int | None = None,
        status: str | Sequence[str] = (),
        dry: bool = False,
    ) -> Pruned:
        """Delete runs that ended more than `older_than` seconds ago, or are not among the newest `keep`, with all
        that is recorded of them; with `dry` only say how many and how much."""
        asked.numbers_or_none(older_than=older_than)
        asked.amount_or_none(keep=keep)
        asked.known_statuses(status, STATUSES)
        before = None if older_than is None else time.time() - older_than
        pruned = self.store.prune(before=before, keep=keep, status=statuses(status or ()), dry=dry)
        if pruned.runs and not dry:
            from .retention import forget

            forget(self.store)
        return pruned

    def export(self, run_id: str) -> dict[str, Json]:
        """Everything the store holds of a run and its parts; what is recorded of secrets is their names."""
        from .export import export

        asked.texts(run_id=run_id)
        return export(self.store, run_id)

    async def watch(self, run_id: str, *, poll: float = 0.1) -> AsyncIterator[Event]:
        """Its events so far and as they are recorded, until the run has ended, or waits without a process, or its
        process is gone: the last event is run.finished, run.waiting or run.interrupted."""
        asked.texts(run_id=run_id)
        asked.numbers_or_none(poll=poll)
        following = Following(self, run_id, poll=poll)
        while not following.over:
            for event in await following.look():
                yield event
            if not following.over:
                await asyncio.sleep(following.pause)

    def following(self, run_id: str) -> Following:
        """For those who wait for a run that others execute: what is new in it, look by look."""
        return Following(self, run_id, begins=True)
