"""The only file that uses DBOS: its tables and queues, the client that queues work, and the executor that takes it.

Ropewalk uses the public interface of DBOS, including its documented table `workflow_status`, wherever possible.
`dbos_contract.py` lists everything that is used, and checks the list when a client or a worker starts. Private names
serve three purposes:

- creating the tables over Ropewalk's own connections: `DBOS.migrate` opens others, and installs triggers;
- waking the threads of the queues when something is queued, so that they need not poll all the time;
- limiting how many runs a worker executes from all its queues together: DBOS limits each queue by itself.

The tables are in their own schema next to the store's (`ropewalk_dbos` next to `ropewalk`). All workers of one major
version of Ropewalk take each other's workflows: a run pins its definition, so the code of workers may differ.

While the server is away, each thread of DBOS and SQLAlchemy logs that several times a second with a traceback.
`RepetitionFilter` lowers these records to the level debug, because the heartbeat already logs the outage once.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ..errors import StoreError, install_command
from ..journal.news import News
from ..journal.postgres.session import IDLE_TRANSACTION_SECONDS, Session, Target, driver, notification
from ..journal.postgres.worker_registry import WorkerRegistry
from ..journal.sql.rows import fetch
from .dbos_contract import check_columns, check_instance, check_package
from .queue_listener import PUT, QueueListener

if TYPE_CHECKING:
    import sqlalchemy

_REPEAT_AFTER: Final = 60.0  # seconds after which the same message is logged again
_MAX_REMEMBERED: Final = 200  # messages
_AWAY: Final = re.compile(
    r"OperationalError|InterfaceError|AdminShutdown|CrashShutdown|CannotConnectNow|PoolTimeout"
    r"|AwaitedWorkflowCancelled"  # its dispatch was cancelled meanwhile; the run has another one
    r"|outcome was not recorded"  # its workflow was queued twice; the journal of the run has its outcome
)
_NUMBER: Final = re.compile(r"\d+")


class RepetitionFilter(logging.Filter):
    """Lowers records to debug that report an outage of the server, or repeat a recent message."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Lower the level of a repeated record; return True if it is logged at all."""
        if record.levelno <= logging.DEBUG:
            return True
        text = record.getMessage()
        with_error = f"{text} {record.exc_info[0]}" if record.exc_info else text
        if _AWAY.search(with_error) is None and not self._repeats(_NUMBER.sub("#", text)):
            return True
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger().isEnabledFor(logging.DEBUG)

    def _repeats(self, text: str) -> bool:
        now = time.monotonic()
        last = self._logged_at.get(text)
        if last is not None and now - last < _REPEAT_AFTER:
            return True
        if len(self._logged_at) >= _MAX_REMEMBERED:
            self._logged_at.clear()
        self._logged_at[text] = now
        return False


_repetition_filter: Final = RepetitionFilter()


def quiet_logs() -> None:
    """Route the logs of DBOS through the handlers of the application, without repetitions."""

    # Idempotent.
    log = logging.getLogger("dbos")
    log.setLevel(logging.WARNING)
    for handler in list(log.handlers):
        log.removeHandler(handler)
    log.addHandler(logging.NullHandler())  # without any handler DBOS would add its own again
    log.propagate = True
    log.addFilter(_repetition_filter)
    # A filter sees only the records of its own logger, not those of child loggers.
    for name in ("sqlalchemy.pool", "sqlalchemy.pool.impl.QueuePool"):
        logging.getLogger(name).addFilter(_repetition_filter)


APPLICATION: Final = "ropewalk"
RUN_WORKFLOW: Final = "ropewalk.run"
CHUNK_WORKFLOW: Final = "ropewalk.chunk"
CHUNK_QUEUE: Final = "_chunks"
DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY: Final = 100  # the default; priorities go from 1, which is first, to LOWEST_PRIORITY
LOWEST_PRIORITY: Final = 2**31 - 1
_POLL_AFTER_SIGNAL: Final = 0.01  # seconds from a signal to the poll, so that runs queued together are taken together
_POLL_SHARED: Final = 0.15  # seconds between polls of a queue in which other workers may make room
_POLL_IDLE: Final = 1.0  # seconds between polls of a queue without a signal
_STOP_INTERVAL: Final = 0.1  # seconds between looks of a thread, for notifications nobody sends, whether it is to end
LIVE_STATUSES: Final = "('ENQUEUED', 'DELAYED', 'PENDING')"
_LONGEST_SCHEMA: Final = 58  # characters; Postgres allows 63
_DELETE_BATCH: Final = 500  # workflows deleted together
_CONNECTIONS: Final = 4  # of a client
_POOL_TIMEOUT: Final = 5.0  # seconds for which a client waits for a free connection
_PATIENCE: Final = 60.0  # seconds for which a patient client waits for a server that is away
_RETRY_PAUSE: Final = 0.2  # seconds between its attempts


def import_dbos() -> Any:
    """Import DBOS and check its version."""
    try:
        import dbos
    except ImportError as error:
        raise StoreError(
            f'engine="dbos" needs DBOS: {install_command("distributed")} ({str(error).splitlines()[0]})'
        ) from error
    check_package()
    return dbos


def code_version() -> str:
    """Return the application version under which DBOS runs are queued: the major version of Ropewalk."""
    return f"{APPLICATION}-{version('ropewalk').partition('.')[0]}"


def dbos_schema(target: Target) -> str:
    """Return the schema of the tables of DBOS for a store."""
    if len(target.schema) > _LONGEST_SCHEMA:
        message = f'with engine="dbos" a schema name has at most {_LONGEST_SCHEMA} characters'
        raise StoreError(f"schema={target.schema}: {message}")
    return f"{target.schema}_dbos"


class JsonSerializer:
    """The serializer of arguments and results: readable, and never code that runs when it is read."""

    def serialize(self, data: Any) -> str:
        """Return any JSON value as text; unknown types as their `str`."""
        return orjson.dumps(data, default=str).decode()

    def deserialize(self, text: str) -> Any:
        """Return the value of a JSON text."""
        return orjson.loads(text)

    def name(self) -> str:
        """Return the name under which DBOS records this serializer."""
        return "ropewalk_json"


def connection_pool(target: Target, size: int, patience: float = 30.0) -> sqlalchemy.Engine:
    """Make a pool of connections to the store's database for DBOS."""
    import sqlalchemy

    def connect() -> Any:
        connection = driver().connect(**target.parameters)
        connection.execute(f"SET idle_in_transaction_session_timeout TO {round(IDLE_TRANSACTION_SECONDS * 1000)}")
        connection.commit()  # a rollback would undo the setting
        return connection

    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=connect,
        pool_size=size,
        max_overflow=0,
        pool_timeout=patience,
        pool_pre_ping=True,
    )


class Client:
    """Queues work, from any process; blocking, safe from any thread."""

    # `is_patient`: Whether to wait for a server that is away. A worker must not, because it has to notice that.

    def __init__(self, target: Target, *, is_patient: bool = True) -> None:
        self._target, self._is_patient = target, is_patient
        self._lock = threading.Lock()
        self._client: Any = None
        self._pool: Any = None

    def enqueue(
        self, id: str, name: str, queue: str, args: Iterable[Any], *, priority: int = DEFAULT_PRIORITY, delay: float = 0
    ) -> None:
        """Queue one workflow."""

        # An id that was queued before changes nothing.
        # `enqueue_all` describes the arguments.
        self.enqueue_all(name, queue, {id: args}, priority=priority, delay=delay)

    def enqueue_all(
        self,
        name: str,
        queue: str,
        args: Mapping[str, Iterable[Any]],
        *,
        priority: int = DEFAULT_PRIORITY,
        delay: float = 0,
    ) -> None:
        """Queue several workflows in one transaction."""
        from sqlalchemy.exc import InterfaceError, OperationalError, TimeoutError

        options: dict[str, Any] = {
            "workflow_name": name,
            "queue_name": queue,
            "app_version": code_version(),
            "application_name": APPLICATION,
            "priority": priority,
            **({"delay_seconds": delay} if delay else {}),
        }
        # Queueing again is safe, because DBOS takes an id only once.
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
                    away = (
                        f"{self._target.name}: could not queue a run, because the server could not be reached for "
                        f"{_PATIENCE:g} s"
                    )
                    raise StoreError(f"{away} ({why})") from error
                time.sleep(_RETRY_PAUSE)

    def _enqueue(self, options: dict[str, Any], queue: str, args: Mapping[str, Iterable[Any]]) -> None:
        client, pool = self.client, self.pool
        with pool.begin() as connection:
            for id, values in args.items():
                client.enqueue_in_transaction(connection, {**options, "workflow_id": id}, *values)
            channel, payload = notification(self._target, News(PUT, 0, queue))
            connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (channel, payload))

    @property
    def pool(self) -> Any:
        """The connections of the client, opened when they are first needed."""
        self.client  # noqa: B018 - makes them
        return self._pool

    @property
    def client(self) -> Any:
        """The client of DBOS, made when it is first needed."""
        with self._lock:
            if self._client is None:
                dbos = import_dbos()
                quiet_logs()
                prepare(self._target)
                pool = connection_pool(self._target, _CONNECTIONS, _POOL_TIMEOUT)
                try:
                    self._client = _make_client(dbos, self._target, pool, retry_connection_errors=self._is_patient)
                except BaseException:
                    pool.dispose()
                    raise
                self._pool = pool
            return self._client

    def close(self) -> None:
        """Close the client and its connections."""

        # Idempotent.
        with self._lock:
            if self._client is not None:
                self._client.destroy()
                self._pool.dispose()
                self._client = None


def prepare(target: Target, queues: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Create or migrate the tables of DBOS, and register queues for all workers; quick when all is up to date."""

    # Blocking; not on an event loop. DBOS looks for new queues once a second, so they are there before it starts.
    dbos = import_dbos()
    pool = connection_pool(target, 2)
    try:
        client = _make_client(dbos, target, pool, lazy=True)
        try:
            check_instance("DBOSClient", client)
            client._sys_db.run_migrations()
            for name, limits in (queues or {}).items():
                queue = client.register_queue(
                    name, polling_interval_sec=_POLL_AFTER_SIGNAL, on_conflict="always_update", **limits
                )
                check_instance("Queue", queue)
        finally:
            client.destroy()
    finally:
        pool.dispose()


def _make_client(dbos: Any, target: Target, pool: sqlalchemy.Engine, **options: Any) -> Any:
    return dbos.DBOSClient(
        system_database_engine=pool,
        dbos_system_schema=dbos_schema(target),
        serializer=JsonSerializer(),
        application_name=APPLICATION,
        **options,
    )


# --- where a dispatch is ------------------------------------------------------------------

_IS_CURRENT_DISPATCH: Final = "w.workflow_uuid = run.id || '@' || lease.epoch"
_IS_QUEUED: Final = "w.status IN ('ENQUEUED', 'DELAYED')"
_IS_WITH_WORKER: Final = "w.status = 'PENDING' AND w.executor_id IN (SELECT id FROM worker)"


def live_dispatch_condition(target: Target) -> str:
    """Return an SQL condition on `run` and `lease`: a dispatch of this run is queued, or with a known worker."""
    is_live = f"{_IS_CURRENT_DISPATCH} AND ({_IS_QUEUED} OR {_IS_WITH_WORKER})"
    return f"EXISTS (SELECT FROM {_workflow_table(target)} AS w WHERE {is_live})"


def any_dispatch_condition(target: Target) -> str:
    """Return an SQL condition on `run` and `lease`: this run had a dispatch at this epoch."""
    return f"EXISTS (SELECT FROM {_workflow_table(target)} AS w WHERE {_IS_CURRENT_DISPATCH})"


class Dispatch(NamedTuple):
    """A workflow of DBOS that carries a run or a chunk to a worker."""

    id: str
    workflow: str


def find_abandoned_dispatches(session: Session, target: Target) -> list[Dispatch]:
    """Return the dispatches that were taken by workers which no longer exist."""
    query = (
        f"SELECT workflow_uuid, name FROM {_workflow_table(target)}"
        " WHERE status = 'PENDING' AND executor_id NOT IN (SELECT id FROM worker)"
    )
    return [Dispatch(str(id), str(workflow)) for id, workflow in fetch(session, query)]


def find_taken_dispatches(session: Session, target: Target, worker: str, since: float) -> list[Dispatch]:
    """Return the dispatches that a worker took more than `since` seconds ago and has not ended."""
    query = (
        f"SELECT workflow_uuid, name FROM {_workflow_table(target)} WHERE status = 'PENDING' AND executor_id = ?1"
        " AND updated_at < (EXTRACT(EPOCH FROM clock_timestamp()) - CAST(?2 AS float8)) * 1000"
    )
    return [Dispatch(str(id), str(workflow)) for id, workflow in fetch(session, query, (worker, since))]


def _workflow_table(target: Target) -> str:
    return f"{dbos_schema(target)}.workflow_status"


def delete_ended_workflows(target: Target) -> int:
    """Delete the ended workflows of runs that no longer exist."""
    table = _workflow_table(target)
    query = (
        f"SELECT workflow_uuid FROM {table} AS w WHERE status NOT IN {LIVE_STATUSES}"
        f" AND NOT EXISTS (SELECT FROM run WHERE id = regexp_replace(w.workflow_uuid, '@[0-9]+$', ''))"
        f" LIMIT {_DELETE_BATCH}"
    )
    registry, client, deleted = WorkerRegistry(target), Client(target), 0
    try:
        if not registry.run_in_transaction(
            lambda session: fetch(session, "SELECT 1 WHERE to_regclass(?) IS NOT NULL", (table,))
        ):
            return 0
        # Delete in batches, so that no transaction locks many rows.
        while ids := [str(id) for (id,) in registry.run_in_transaction(lambda session: fetch(session, query))]:
            client.client.delete_workflows(ids)
            deleted += len(ids)
    finally:
        client.close()
        registry.close()
    return deleted


def _database_class() -> Any:
    from dbos._sys_db import SystemDatabase

    return SystemDatabase


class Executor:
    """DBOS in a worker's process, made and launched on the event loop that executes the runs."""

    def __init__(
        self, target: Target, id: str, concurrency: int | None, is_closed: Callable[[], bool] = lambda: False
    ) -> None:
        self.id, self._target, self._concurrency, self._is_closed = id, target, concurrency, is_closed
        self.listener = QueueListener(())
        self._pool = connection_pool(target, 10)
        self._dbos: Any = None
        self._executing: dict[str, None] = {}
        self._unpolled_queues: set[str] = set()
        self._pauses: dict[str, float] = {}
        self._original_get_queue: Any = None
        self._takes_nothing = False

    @property
    def executing(self) -> list[str]:
        """The ids of the dispatches that this process executes."""

        # Safe from any thread.
        return list(self._executing)

    def launch(
        self,
        workflows: Mapping[str, Callable[..., Awaitable[Any]]],
        queues: Mapping[str, Mapping[str, Any]],
        uncounted_queue: str,
    ) -> None:
        """Start to take workflows from these queues, which are registered with these limits."""
        dbos = import_dbos()
        quiet_logs()
        config: dict[str, Any] = {
            "name": APPLICATION,
            "system_database_engine": self._pool,
            "dbos_system_schema": dbos_schema(self._target),
            "serializer": JsonSerializer(),
            "executor_id": self.id,
            "application_version": code_version(),
            "use_listen_notify": False,
            "notification_listener_polling_interval_sec": _STOP_INTERVAL,
            "log_level": "WARNING",
            "scheduler_polling_interval_sec": 1.0,
        }
        self._dbos = dbos.DBOS(config=config)
        check_instance("DBOS", self._dbos)
        # DBOS must not restart workflows by itself: Ropewalk dispatches lost runs again.
        for name, body in workflows.items():
            dbos.DBOS.workflow(name=name, max_recovery_attempts=None)(self._count_execution(body))
        dbos.DBOS.listen_queues([*queues, uncounted_queue])
        self.listener = QueueListener([*queues, uncounted_queue])
        self.listener.wake()  # take what was queued before
        self._check_columns()
        self._wake_threads_by_signal(queues, uncounted_queue)  # before the first of them starts
        dbos.DBOS.launch()

    def _check_columns(self) -> None:
        import sqlalchemy

        query = sqlalchemy.text(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = :schema AND table_name = 'workflow_status'"
        )
        with self._pool.connect() as connection:
            columns = connection.execute(query, {"schema": dbos_schema(self._target)})
            check_columns({str(name) for (name,) in columns})

    def _count_execution(self, body: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Wrap the function of a workflow so that its dispatch counts as executing until DBOS is done with it."""
        current = import_dbos().DBOS

        async def workflow(*args: Any) -> Any:
            id, task = str(current.workflow_id), asyncio.current_task()
            self._executing[id] = None
            assert task is not None
            task.add_done_callback(lambda _: self._on_end(id))
            return await body(*args)

        return workflow

    def _on_end(self, id: str) -> None:
        self._executing.pop(id, None)
        self.listener.wake()  # there is room for another run

    @property
    def unpolled_queues(self) -> set[str]:
        """The queues whose thread has not called `get_queue` yet, so that this worker cannot wake or limit it."""
        return self._unpolled_queues

    def _wake_threads_by_signal(self, queues: Mapping[str, Mapping[str, Any]], uncounted_queue: str) -> None:
        """Make the threads of the queues wait for a signal before they poll, by replacing `get_queue`, which each
        calls first."""

        # DBOS has a concurrency per queue, equal in all workers; the concurrency of a worker holds for all its queues
        # together. So at each poll, a queue gets at most the number of runs that the other queues leave.
        database_class = _database_class()
        active, original = self._dbos._active_workflows_set, database_class.get_queue
        names = [*queues, uncounted_queue]
        self._unpolled_queues = set(names)
        self._pauses = dict.fromkeys(names, _POLL_IDLE)
        # In these queues, a run of another worker that ends makes room.
        self._pauses |= {name: _POLL_SHARED for name in queues if {"global_concurrency", "limiter"} & set(queues[name])}

        def get_queue(database: Any, name: str, *args: Any, **more: Any) -> Any:
            if database.engine.pool is not self._pool.pool or name not in self._pauses:
                return original(database, name, *args, **more)
            self._unpolled_queues.discard(name)
            self.listener.wait(name, self._pauses[name])
            queue = original(database, name, *args, **more)
            # A concurrency of 0 makes the thread take nothing at this poll.
            if queue is None:
                return queue
            if self._takes_nothing or (name in queues and self._is_closed()):
                queue._worker_concurrency = 0
            elif self._concurrency is not None and name in queues:
                other_workflows = sum(active.count_for_queue(other) for other in queues if other != name)
                free_places, own = max(0, self._concurrency - other_workflows), queue._worker_concurrency
                queue._worker_concurrency = free_places if own is None else min(own, free_places)
            return queue

        # The threads start while DBOS launches, so the instance that they ask does not exist before.
        database_class.get_queue = get_queue
        self._original_get_queue = original

    def stop_taking(self) -> None:
        """Take no more workflows; those in progress continue."""
        self._takes_nothing = True

    def close(self) -> None:
        """Stop DBOS."""

        # Blocking, and not on the event loop of the runs. Workflows in progress belong to nobody afterwards.
        self.stop_taking()
        self.listener.close()
        if self._dbos is not None:
            import_dbos().DBOS.destroy(workflow_completion_timeout_sec=0)
        if self._original_get_queue is not None:
            _database_class().get_queue = self._original_get_queue
        self._pool.dispose()
