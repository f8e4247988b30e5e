"""What Ropewalk relies on in DBOS, checked when a client or a worker starts.

`system.py` and `dispatches.py` use the public interface of DBOS wherever there is one. Where there is none they use
what is listed here as internal: to make its tables with connections of ours, to wake the threads of its queues, and to
take less from a queue for a moment. A release of DBOS that changes any of it is refused by name, before it takes work.
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

_PUBLIC: Final = {
    "DBOS": ("destroy", "launch", "listen_queues", "register_queue", "workflow", "workflow_id"),
    "DBOSClient": (
        "apply_schedules",
        "cancel_workflows",
        "delete_schedule",
        "delete_workflows",
        "destroy",
        "enqueue",
        "enqueue_in_transaction",
        "list_schedules",
        "pause_schedule",
        "resume_schedule",
        "resume_workflows",
    ),
}
# Of modules of DBOS: classes, their methods, and the parameters that are given by name.
_INTERNAL: Final = {
    "_sys_db.SystemDatabase.create": (
        "system_database_url",
        "engine_kwargs",
        "engine",
        "schema",
        "serializer",
        "executor_id",
        "use_listen_notify",
    ),
    "_sys_db.SystemDatabase.run_migrations": (),
    "_sys_db.SystemDatabase.destroy": (),
    "_sys_db.SystemDatabase.get_queue": ("name",),
    "_core.ActiveWorkflowById.count_for_queue": ("queue_name",),
}
_OF_A_QUEUE: Final = ("_concurrency", "_limiter", "_worker_concurrency")
_OF_THE_INSTANCE: Final = ("_active_workflows_set", "_sys_db", "background_thread_stop_events")
COLUMNS: Final = frozenset(("workflow_uuid", "status", "name", "executor_id", "created_at", "updated_at"))
"""Those of the table `workflow_status` that statements of ours name."""


ASKED_WITHIN: Final = 15.0
"""Seconds in which the thread of each queue asks what the queue is, once a worker has started."""


@lru_cache(maxsize=1)
def check_package() -> None:
    """Check the installed DBOS, once per process.

    Raises:
        StoreError: It lacks something that Ropewalk relies on; the message names each.
    """
    installed = version("dbos")
    _refuse(installed, list(_missing()))
    if not f"{installed}.".startswith(f"{TESTED}."):
        log.warning("DBOS %s is not the version that Ropewalk is tested with (%s)", installed, TESTED)


def check_instance(dbos: Any) -> None:
    """Check a DBOS that has been made and launched.

    Args:
        dbos: The instance.

    Raises:
        StoreError: It lacks something that Ropewalk relies on; the message names each.
    """
    missing = [f"DBOS().{name}" for name in _OF_THE_INSTANCE if not hasattr(dbos, name)]
    _refuse(version("dbos"), missing)


def check_queue(queue: Any) -> None:
    """Check a queue that DBOS has handed to one of its threads.

    Args:
        queue: The queue.

    Raises:
        StoreError: It lacks something that Ropewalk relies on; the message names each.
    """
    _refuse(version("dbos"), [f"Queue.{name}" for name in _OF_A_QUEUE if not hasattr(queue, name)])


def check_columns(found: set[str]) -> None:
    """Check the columns of the table `workflow_status`.

    Args:
        found: Their names.

    Raises:
        StoreError: One that Ropewalk reads is missing; the message names each.
    """
    _refuse(version("dbos"), [f"the column {name} of workflow_status" for name in sorted(COLUMNS - found)])


def warn_unasked(queues: set[str]) -> None:
    """Log that DBOS takes runs in another way than the tested version does.

    Args:
        queues: The queues whose threads have not called `get_queue`.
    """
    log.error(
        "DBOS %s does not call SystemDatabase.get_queue for: %s; runs are taken late, and the limit of runs at once in"
        " this worker does not hold; install dbos==%s.*",
        version("dbos"),
        ", ".join(sorted(queues)),
        TESTED,
    )


def _missing() -> Iterator[str]:
    package = import_module("dbos")
    for owner, names in _PUBLIC.items():
        kind = getattr(package, owner, None)
        # On a property of the class, as `DBOS.workflow_id`, `getattr` would ask for its value.
        known = set(dir(kind)) | set(dir(type(kind)))
        yield from (f"{owner}.{name}" for name in names if name not in known)
    for path, parameters in _INTERNAL.items():
        module, owner, name = path.split(".")
        found = getattr(getattr(import_module(f"dbos.{module}"), owner, None), name, None)
        if not callable(found):
            yield f"dbos.{path}"
            continue
        known = set(inspect.signature(found).parameters)
        yield from (f"the parameter {one} of dbos.{path}" for one in parameters if one not in known)


def _refuse(installed: str, missing: list[str]) -> None:
    if missing:
        raise StoreError(
            f"DBOS {installed} lacks what Ropewalk relies on: {', '.join(missing)};"
            f" install the version that it is tested with: pip install 'dbos=={TESTED}.*'"
        )
