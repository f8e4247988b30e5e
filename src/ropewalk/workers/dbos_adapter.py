"""The one place that uses DBOS: its tables, its queues, the client that queues work, the executor that takes it.

Ropewalk uses the public interface of DBOS, to which its documented table `workflow_status` belongs, wherever there is
one. `contract.py` lists what is used, and every private name among it, and checks the list when a client or a worker
starts. The private names serve three ends:

- making the tables with connections of ours: `DBOS.migrate` makes its own ones, and installs triggers;
- waking the threads of the queues when something is queued, so that they need not look all the time;
- limiting how many runs a worker has in all its queues together: DBOS limits each queue by itself.

The tables are in a schema of their own next to the store's (`ropewalk_dbos` next to `ropewalk`). Workflows of one major
version of Ropewalk are taken by all its workers: a run pins its definition, so the code of workers may differ.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import orjson

from ..errors import StoreError
from ..errors.given import install
from ..journal.connection import fetch
from ..journal.fleet import Fleet
from ..journal.news import News
from ..journal.postgres_news import message
from ..journal.postgres_session import PAUSE, Session, Target, driver
from .bell import PUT, Bell
from .contract import check_columns, check_instance, check_package
from .quiet import quiet

if TYPE_CHECKING:
    import sqlalchemy

APPLICATION: Final = "ropewalk"
RUN: Final = "ropewalk.run"
TICK: Final = "ropewalk.tick"
PLAY: Final = "ropewalk.chunk"
CHUNKS: Final = "_chunks"
QUEUE: Final = "default"
PRIORITY: Final = 100  # of 1, which goes first, to MOST
MOST: Final = 2**31 - 1
_SOON: Final = 0.01  # seconds from the bell to the look: what comes together is seen together
_OFTEN: Final = 0.15  # seconds between looks at a queue when others may have made room in it
_SELDOM: Final = 1.0  # seconds between looks at a queue for which no bell rings
ALIVE: Final = "('ENQUEUED', 'DELAYED', 'PENDING')"
_LONGEST: Final = 58
_TICKS_KEPT: Final = 86_400.0  # seconds: what was due is not due twice
_AT_ONCE: Final = 500
_CONNECTIONS: Final = 4  # of a client
_BUSY: Final = 5.0  # seconds for which it waits for one of them
_PATIENCE: Final = 60.0  # seconds for which a patient client waits for a server that is away
_AGAIN: Final = 0.2  # seconds between its attempts


def package() -> Any:
    """DBOS. Raises StoreError, saying what to install, when it is not there."""
    try:
        import dbos
    except ImportError as error:
        raise StoreError(
            f'engine="dbos" needs DBOS: {install("distributed")} ({str(error).splitlines()[0]})'
        ) from error
    check_package()
    return dbos


def code_version() -> str:
    """What DBOS calls the version of the application: the major one of Ropewalk."""
    return f"{APPLICATION}-{version('ropewalk').partition('.')[0]}"


def schema_of(where: Target) -> str:
    if len(where.schema) > _LONGEST:
        raise StoreError(f'schema={where.schema}: with engine="dbos" its name has at most {_LONGEST} characters')
    return f"{where.schema}_dbos"


class Json:
    """What DBOS keeps of ours, readable, and never code that runs when it is read."""

    def serialize(self, data: Any) -> str:
        return orjson.dumps(data, default=str).decode()

    def deserialize(self, text: str) -> Any:
        return orjson.loads(text)

    def name(self) -> str:
        return "ropewalk_json"


def connections(where: Target, most: int, patience: float = 30.0) -> sqlalchemy.Engine:
    """Make a pool of connections to the store's database for DBOS.

    Args:
        where: The store.
        most: The number of connections.
        patience: Seconds to wait for a connection when all are in use.
    """
    import sqlalchemy

    def connect() -> Any:
        made = driver().connect(**where.parameters)
        made.execute(f"SET idle_in_transaction_session_timeout TO {round(PAUSE * 1000)}")
        made.commit()  # what is set in a transaction that is rolled back is not set
        return made

    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=connect,
        pool_size=most,
        max_overflow=0,
        pool_timeout=patience,
        pool_pre_ping=True,
    )


class Client:
    """Queues work, from any process; blocking, safe from any thread.

    Args:
        where: The store.
        is_patient: Wait for a server that is away. A worker does not: it has to notice that the server is away.
    """

    def __init__(self, where: Target, *, is_patient: bool = True) -> None:
        self._where, self._is_patient = where, is_patient
        self._lock = threading.Lock()
        self._client: Any = None
        self._pool: Any = None

    def enqueue(
        self, id: str, name: str, queue: str, args: Iterable[Any], *, priority: int = PRIORITY, delay: float = 0
    ) -> None:
        """Queue one piece of work. Once for each id: a second time changes nothing."""
        self.enqueue_all(name, queue, {id: args}, priority=priority, delay=delay)

    def enqueue_all(
        self, name: str, queue: str, args: Mapping[str, Iterable[Any]], *, priority: int = PRIORITY, delay: float = 0
    ) -> None:
        """Queue several pieces of work in one transaction.

        Args:
            name: The workflow.
            queue: The queue.
            args: The arguments of each workflow, by id.
            priority: From 1, which goes first, to `MOST`.
            delay: Seconds until the work may be taken.

        Raises:
            StoreError: The server stayed away for longer than a patient client waits.
            sqlalchemy.exc.SQLAlchemyError: The server is away, and this client is not patient.
        """
        from sqlalchemy.exc import InterfaceError, OperationalError, TimeoutError

        options: dict[str, Any] = {
            "workflow_name": name,
            "queue_name": queue,
            "app_version": code_version(),
            "application_name": APPLICATION,
            "priority": priority,
            **({"delay_seconds": delay} if delay else {}),
        }
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                self._enqueue(options, queue, args)
                return
            except (OperationalError, InterfaceError, TimeoutError) as error:
                if not self._is_patient:
                    raise
                if time.monotonic() > end:
                    why = " ".join(str(error).split())
                    away = f"{self._where.name}: the server was away for {_PATIENCE:g} s while work was being queued"
                    raise StoreError(f"{away} ({why})") from error
                time.sleep(_AGAIN)

    def _enqueue(self, options: dict[str, Any], queue: str, args: Mapping[str, Iterable[Any]]) -> None:
        client, pool = self.client, self.pool
        with pool.begin() as connection:
            for id, values in args.items():
                client.enqueue_in_transaction(connection, {**options, "workflow_id": id}, *values)
            channel, said = message(self._where, News(PUT, 0, queue))
            connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (channel, said))

    @property
    def pool(self) -> Any:
        """The connections of the client."""
        self.client  # noqa: B018 - makes them
        return self._pool

    @property
    def client(self) -> Any:
        """The client of DBOS, made when it is first needed."""
        with self._lock:
            if self._client is None:
                dbos = package()
                quiet()
                prepare(self._where)
                pool = connections(self._where, _CONNECTIONS, _BUSY)
                try:
                    self._client = _client(dbos, self._where, pool, retry_connection_errors=self._is_patient)
                except BaseException:
                    pool.dispose()
                    raise
                self._pool = pool
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.destroy()
                self._pool.dispose()
                self._client = None


def prepare(where: Target) -> None:
    """Make the tables of DBOS, or bring them up to date; quick when they are."""
    dbos = package()
    pool = connections(where, 2)
    try:
        client = _client(dbos, where, pool, lazy=True)
        try:
            check_instance("DBOSClient", client)
            client._sys_db.run_migrations()
        finally:
            client.destroy()
    finally:
        pool.dispose()


def _client(dbos: Any, where: Target, pool: sqlalchemy.Engine, **more: Any) -> Any:
    return dbos.DBOSClient(
        system_database_engine=pool,
        dbos_system_schema=schema_of(where),
        serializer=Json(),
        application_name=APPLICATION,
        **more,
    )


# --- where a dispatch is ------------------------------------------------------------------

_CURRENT: Final = "w.workflow_uuid = run.id || '@' || lease.epoch"
_WAITING: Final = "w.status IN ('ENQUEUED', 'DELAYED')"
_HELD: Final = "w.status = 'PENDING' AND w.executor_id IN (SELECT id FROM worker)"


def is_live(where: Target) -> str:
    """Return a condition on `run` and `lease`: a dispatch of this run is queued, or with a worker that is known."""
    return f"EXISTS (SELECT FROM {_table(where)} AS w WHERE {_CURRENT} AND ({_WAITING} OR {_HELD}))"


def is_used(where: Target) -> str:
    """Return a condition on `run` and `lease`: there was a dispatch of this run at this epoch."""
    return f"EXISTS (SELECT FROM {_table(where)} AS w WHERE {_CURRENT})"


def find_abandoned(session: Session, where: Target) -> list[tuple[str, str]]:
    """Return the dispatches, each an id and a workflow, that were taken by workers which are gone."""
    query = (
        f"SELECT workflow_uuid, name FROM {_table(where)}"
        " WHERE status = 'PENDING' AND executor_id NOT IN (SELECT id FROM worker)"
    )
    return [(str(id), str(name)) for id, name in fetch(session, query)]


def find_taken(session: Session, where: Target, worker: str, since: float) -> list[tuple[str, str]]:
    """Return the dispatches, each an id and a workflow, that this worker took more than `since` seconds ago."""
    query = (
        f"SELECT workflow_uuid, name FROM {_table(where)} WHERE status = 'PENDING' AND executor_id = ?1"
        " AND updated_at < (EXTRACT(EPOCH FROM clock_timestamp()) - CAST(?2 AS float8)) * 1000"
    )
    return [(str(id), str(name)) for id, name in fetch(session, query, (worker, since))]


def _table(where: Target) -> str:
    return f"{schema_of(where)}.workflow_status"


def forget(where: Target) -> int:
    """Delete what is kept of work that is done, for runs that are gone; gives how many. Nothing where DBOS has no
    tables yet."""
    table = _table(where)
    query = (
        f"SELECT workflow_uuid FROM {table} AS w WHERE status NOT IN {ALIVE} AND CASE name"
        f" WHEN '{TICK}' THEN created_at < EXTRACT(EPOCH FROM clock_timestamp()) * 1000 - {_TICKS_KEPT * 1000:.0f}"
        f" ELSE NOT EXISTS (SELECT FROM run WHERE id = regexp_replace(w.workflow_uuid, '@[0-9]+$', '')) END"
        f" LIMIT {_AT_ONCE}"
    )
    fleet, client, gone = Fleet(where), Client(where), 0
    try:
        if not fleet.do(lambda s: fetch(s, "SELECT 1 WHERE to_regclass(?) IS NOT NULL", (table,))):
            return 0
        while some := [str(id) for (id,) in fleet.do(lambda s: fetch(s, query))]:
            client.client.delete_workflows(some)
            gone += len(some)
    finally:
        client.close()
        fleet.close()
    return gone


class Executor:
    """DBOS in a worker's process, made and launched on the loop that does the work.

    Args:
        where: The store.
        id: The worker's id, which is nobody else's.
        concurrency: Greatest number of runs in all queues together; None for any number.
        is_closed: While it returns True, nothing is taken from the queues whose runs count.
    """

    def __init__(
        self, where: Target, id: str, concurrency: int | None, is_closed: Callable[[], bool] = lambda: False
    ) -> None:
        self.id, self._where, self._concurrency, self._is_closed = id, where, concurrency, is_closed
        self.bell = Bell(())
        self._pool = connections(where, 10)
        self._dbos: Any = None
        self._executing: dict[str, None] = {}
        self._unasked: set[str] = set()
        self._pauses: dict[str, float] = {}
        self._registrar: int | None = None  # the thread that registers queues; it looks at them, too
        self._is_resting = False

    @property
    def executing(self) -> list[str]:
        """The ids of the dispatches that this process executes. From any thread."""
        return list(self._executing)

    def launch(self, workflows: Mapping[str, Callable[..., Awaitable[Any]]], queues: Sequence[str], also: str) -> None:
        """Take work for `workflows` from `queues`, which may be registered later, and from one that does not count."""
        dbos = package()
        quiet()
        config: dict[str, Any] = {
            "name": APPLICATION,
            "system_database_engine": self._pool,
            "dbos_system_schema": schema_of(self._where),
            "serializer": Json(),
            "executor_id": self.id,
            "application_version": code_version(),
            "use_listen_notify": False,
            "log_level": "WARNING",
            "scheduler_polling_interval_sec": 1.0,
        }
        self._dbos = dbos.DBOS(config=config)
        check_instance("DBOS", self._dbos)
        for name, body in workflows.items():
            dbos.DBOS.workflow(name=name, max_recovery_attempts=None)(self._counted(body))
        dbos.DBOS.listen_queues([*queues, also])
        self.bell = Bell([*queues, also])
        dbos.DBOS.launch()
        self._check_columns()
        self._attend(queues, also)

    def _check_columns(self) -> None:
        import sqlalchemy

        query = sqlalchemy.text(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = :schema AND table_name = 'workflow_status'"
        )
        with self._pool.connect() as connection:
            found = connection.execute(query, {"schema": schema_of(self._where)})
            check_columns({str(name) for (name,) in found})

    def _counted(self, body: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """A function, which is what DBOS can mark; the dispatch counts as executed until DBOS is done with it."""
        current = package().DBOS

        async def workflow(*args: Any) -> Any:
            id, task = str(current.workflow_id), asyncio.current_task()
            self._executing[id] = None
            assert task is not None
            task.add_done_callback(lambda _: self._ended(id))
            return await body(*args)

        return workflow

    def _ended(self, id: str) -> None:
        self._executing.pop(id, None)
        self.bell.ring()  # a place is free

    @property
    def unasked(self) -> set[str]:
        """The queues whose thread has not yet asked what the queue is, which is how it is woken and limited."""
        return self._unasked

    def register(self, queues: Mapping[str, Mapping[str, Any]]) -> None:
        """Say how queues are limited, for all workers. Blocking; not on an event loop."""
        self._registrar = threading.get_ident()
        try:
            for name, limits in queues.items():
                queue = self._dbos.register_queue(
                    name, polling_interval_sec=_SOON, on_conflict="always_update", **limits
                )
                check_instance("Queue", queue)
                if name in self._pauses and {"global_concurrency", "limiter"} & set(limits):
                    self._pauses[name] = _OFTEN
        finally:
            self._registrar = None

    def _attend(self, queues: Sequence[str], also: str) -> None:
        """Have the threads of the queues wait for the bell before they look; they ask what the queue is each time.

        DBOS knows a worker concurrency for each queue, the same for all workers; that of a worker is for all its
        queues together. So a queue's is made as small as what the others leave, each time it is looked at."""
        system, active = self._dbos._sys_db, self._dbos._active_workflows_set
        look = system.get_queue
        names = [*queues, also]
        self._unasked = set(names)
        self._pauses = dict.fromkeys(names, _SELDOM)

        def get_queue(name: str, *args: Any, **more: Any) -> Any:
            if name not in self._pauses or threading.get_ident() == self._registrar:
                return look(name, *args, **more)
            self._unasked.discard(name)
            self.bell.wait(name, self._pauses[name])
            queue = look(name, *args, **more)
            if queue is None:
                return queue
            if self._is_resting or (name in queues and self._is_closed()):
                queue._worker_concurrency = 0
            elif self._concurrency is not None and name in queues:
                others = sum(active.count_for_queue(other) for other in queues if other != name)
                left, own = max(0, self._concurrency - others), queue._worker_concurrency
                queue._worker_concurrency = left if own is None else min(own, left)
            return queue

        system.get_queue = get_queue

    def rest(self) -> None:
        """Take no more work; what is begun goes on."""
        self._is_resting = True

    def close(self) -> None:
        """Blocking, and not on the loop that does the work. What is begun belongs to nobody afterwards."""
        self.rest()
        self.bell.end()
        if self._dbos is not None:
            package().DBOS.destroy(workflow_completion_timeout_sec=0)
        self._pool.dispose()
