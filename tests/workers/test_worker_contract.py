"""What Ropewalk relies on in DBOS: the installed release has it, and one that lacks it is refused by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import dbos
import dbos._core
import dbos._sys_db
import pytest

from ropewalk.errors import StoreError
from ropewalk.workers import contract
from ropewalk.workers.system import package

from .crew import Crew

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _checked_again() -> Iterator[None]:
    contract.check_package.cache_clear()
    yield
    contract.check_package.cache_clear()


def test_the_pinned_minor_version_is_the_one_that_is_tested() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["distributed"]
    [pin] = [one for one in extra if one.startswith("dbos")]
    minor = int(contract.TESTED.split(".")[1])
    assert pin == f"dbos>={contract.TESTED},<3.{minor + 1}"
    assert version("dbos").startswith(f"{contract.TESTED}.")
    assert f"dbos=={version('dbos')}\n" in (ROOT / "constraints.txt").read_text()


def test_the_installed_release_has_all_of_it() -> None:
    contract.check_package()


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (dbos.DBOSClient, "cancel_workflows", "DBOSClient.cancel_workflows"),
        (dbos.DBOSClient, "enqueue_in_transaction", "DBOSClient.enqueue_in_transaction"),
        (dbos.DBOS, "listen_queues", "DBOS.listen_queues"),
        (dbos._sys_db.SystemDatabase, "get_queue", "dbos._sys_db.SystemDatabase.get_queue"),
        (dbos._core.ActiveWorkflowById, "count_for_queue", "dbos._core.ActiveWorkflowById.count_for_queue"),
    ],
)
def test_a_release_that_lacks_something_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, said: str
) -> None:
    monkeypatch.delattr(owner, name)
    with pytest.raises(StoreError, match=re.escape(said)) as refused:
        package()
    assert f"DBOS {version('dbos')} lacks" in str(refused.value)
    assert "pip install 'dbos==3.4.*'" in str(refused.value)


def test_a_parameter_that_has_another_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(*, url: str) -> None:
        raise AssertionError(url)

    monkeypatch.setattr(dbos._sys_db.SystemDatabase, "create", create)
    with pytest.raises(StoreError, match=r"the parameter schema of dbos\._sys_db\.SystemDatabase\.create"):
        contract.check_package()


def test_queues_the_instance_and_columns_are_checked() -> None:
    for check in (contract.check_queue, contract.check_instance):
        with pytest.raises(StoreError, match=r"Queue\._limiter|DBOS\(\)\._sys_db"):
            check(object())
    with pytest.raises(StoreError, match="the column executor_id of workflow_status"):
        contract.check_columns(contract.COLUMNS - {"executor_id"})  # type: ignore[arg-type]


def test_a_worker_with_such_a_release_ends_with_the_reason(crew: Callable[..., Crew]) -> None:
    scene = crew()
    (scene.folder / "tools.py").write_text(
        (scene.folder / "tools.py").read_text() + "\nimport dbos\ndel dbos.DBOSClient.resume_workflows\n"
    )
    done = scene.run("worker")
    assert done.code != 0
    assert "DBOSClient.resume_workflows" in done.err
