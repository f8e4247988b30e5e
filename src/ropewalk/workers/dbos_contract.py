"""List everything that Ropewalk uses of DBOS, and check it when a client or a worker starts.

`dbos_adapter.py` uses nothing of DBOS that is not listed here. Ropewalk refuses a release of DBOS that lacks any of it
before it takes work, and names what is missing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from ..errors import StoreError

log = logging.getLogger("ropewalk.workers")
TESTED: Final = "3.4"
"""The minor version of DBOS that the tests run with; pyproject.toml allows no other."""

PUBLIC: Final[dict[str, tuple[str, ...]]] = {
    "DBOS": ("config",),
    "DBOS.destroy": ("workflow_completion_timeout_sec",),
    "DBOS.launch": (),
    "DBOS.listen_queues": (),
    "DBOS.workflow": ("name", "max_recovery_attempts"),
    "DBOS.workflow_id": (),
    "DBOSClient": (
        "system_database_engine", "dbos_system_schema", "serializer", "application_name", "lazy",
        "retry_connection_errors",
    ),
    "DBOSClient.cancel_workflows": (),
    "DBOSClient.delete_workflows": (),
    "DBOSClient.destroy": (),
    "DBOSClient.enqueue_in_transaction": (),
    "DBOSClient.register_queue": (
        "polling_interval_sec", "on_conflict", "global_concurrency", "worker_concurrency", "limiter",
    ),
}  # fmt: skip
"""The public names of DBOS that Ropewalk uses, with the parameters that it passes by name."""

PRIVATE: Final[dict[str, tuple[str, ...]]] = {
    "_core.ActiveWorkflowById.count_for_queue": (),
    "_sys_db.SystemDatabase.get_queue": (),
    "_sys_db.SystemDatabase.run_migrations": (),
}
"""The private names of DBOS that Ropewalk uses and that classes have."""

OF_INSTANCES: Final = {
    "DBOS": ("_active_workflows_set",),
    "DBOSClient": ("_sys_db",),
    "Queue": ("_worker_concurrency",),
}
"""The private attributes of instances of DBOS's classes that Ropewalk uses."""

KEYS: Final = {
    "DBOSConfig": (
        "name", "system_database_engine", "dbos_system_schema", "serializer", "executor_id", "application_version",
        "use_listen_notify", "notification_listener_polling_interval_sec", "log_level",
        "scheduler_polling_interval_sec",
    ),
    "EnqueueOptions": (
        "workflow_name", "queue_name", "app_version", "application_name", "priority", "delay_seconds", "workflow_id",
    ),
}  # fmt: skip
"""The keys of DBOS's typed dictionaries that Ropewalk sets."""

COLUMNS: Final = frozenset(("workflow_uuid", "status", "name", "executor_id", "updated_at"))
"""The columns of the documented table `workflow_status` that Ropewalk's statements name."""

ASKED_WITHIN: Final = 15.0
"""Seconds in which the thread of each queue asks what the queue is, once a worker has started."""


@lru_cache(maxsize=1)
def check_package() -> None:
    """Check the installed DBOS, once per process."""
    installed = version("dbos")
    _refuse(installed, list(_missing()))
    if not f"{installed}.".startswith(f"{TESTED}."):
        log.warning("DBOS %s is not the version that Ropewalk is tested with (%s)", installed, TESTED)


def check_instance(kind: str, instance: Any) -> None:
    """Check an object that DBOS made."""
    missing = [f"{kind}().{name}" for name in OF_INSTANCES[kind] if not hasattr(instance, name)]
    _refuse(version("dbos"), missing)


def check_columns(columns: set[str]) -> None:
    """Check the columns of the table `workflow_status`."""
    _refuse(version("dbos"), [f"the column {name} of workflow_status" for name in sorted(COLUMNS - columns)])


def warn_unasked(queues: set[str]) -> None:
    """Log that DBOS takes runs in another way than the tested version does."""
    log.error(
        "DBOS %s does not call SystemDatabase.get_queue for these queues: %s; runs start late, and the worker exceeds"
        " its limit of runs at once; install dbos==%s.*",
        version("dbos"),
        ", ".join(sorted(queues)),
        TESTED,
    )


def _missing() -> Iterator[str]:
    for path, parameters in {**PUBLIC, **PRIVATE}.items():
        yield from _missing_at(path, parameters)
    package = import_module("dbos")
    for name, keys in KEYS.items():
        known = getattr(getattr(package, name, None), "__annotations__", {})
        yield from (f"the key {key} of {name}" for key in keys if key not in known)


def _missing_at(path: str, parameters: tuple[str, ...]) -> Iterator[str]:
    value: Any = import_module("dbos")
    for name in path.split("."):
        value = inspect.getattr_static(value, name, None)  # a property itself, not its value
        if value is None:
            yield path
            return
    function = getattr(value, "__func__", value)  # of a class method
    known = inspect.signature(function).parameters if parameters else {}
    yield from (f"the parameter {name} of {path}" for name in parameters if name not in known)


def _refuse(installed: str, missing: list[str]) -> None:
    if missing:
        raise StoreError(
            f"DBOS {installed} lacks {', '.join(missing)}, which Ropewalk needs;"
            f" install the tested version: pip install 'dbos=={TESTED}.*'"
        )
