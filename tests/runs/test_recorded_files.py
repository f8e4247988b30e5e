"""A run knows the Python file that it was started from: its tools are there again when the run continues."""

from __future__ import annotations

import os
from pathlib import Path

import httpx2
import pytest

from ropewalk import App
from ropewalk.app.open_project import open_project
from ropewalk.app.runs.upgrade import changed_file
from ropewalk.doors.http.site import make_site
from ropewalk.errors import Action, DefinitionChanged, InvalidFlow, NotFound

FLOWS = '''
from pathlib import Path
from ropewalk import flow, plan, tool

Path(__file__).with_name("imported").touch()

@tool
def work(n: int) -> int:
    """Work."""
    if Path(__file__).with_name("broken").exists():
        raise ValueError("broken")
    return n + 1

@plan
async def long(n: int = 1) -> int:
    """Work after an approval."""
    await approve("Go?")
    return await work(n)

@plan
async def fails(n: int = 1) -> int:
    """Work at once."""
    return await work(n)

with flow("built", n=int) as f:
    f.approval("Go?")
    f.result(f.call(work, n=f.input.n))
built = f.done()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    for place in (tmp_path, tmp_path / "inside"):
        (place / "longp.py").write_text(FLOWS)
    (tmp_path / "inside" / "ropewalk.toml").write_text("[store]\nurl = 'runs.db'\n")
    return tmp_path / "inside"


async def waiting_run(folder: Path, place: Path) -> None:
    async with App.open(folder) as app:
        assert (await app.run(place, {"n": 4}, run_id="L1", park=True)).status == "waiting"
        app.runs.approve("L1", by="ann")
    file = Path(str(place).rpartition(":")[0])
    os.utime(file, (1, 1))  # so that this process imports the file again, as another process does
    file.with_name("imported").unlink()


@pytest.mark.parametrize("name", ["long", "built"])
async def test_a_run_of_a_python_file_resumes_and_forks_with_the_tools_of_the_file(folder: Path, name: str) -> None:
    await waiting_run(folder, folder / f"longp.py:{name}")
    async with App.open(folder) as app:
        assert (await app.resume("L1")).result == 5
    async with App.open(folder) as app:
        forked = await app.runs.fork("L1", new_id="F1", at=["work"], park=True)
        assert forked.result == 5
        assert app.runs.row("F1").context["file"] == str(folder / f"longp.py:{name}")


async def test_no_code_runs_without_leave_or_from_outside_of_the_project(folder: Path) -> None:
    await waiting_run(folder, folder / "longp.py:long")
    async with open_project(App, folder, None, code=False) as app:
        with pytest.raises(InvalidFlow, match="unknown tool 'work'"):
            await app.resume("L1")
    assert not (folder / "imported").exists()
    async with App.open(folder) as app:  # the file is gone
        (folder / "longp.py").unlink()
        with pytest.raises(InvalidFlow, match=r"unknown tool 'work'$"):
            await app.resume("L1")


async def test_a_recorded_file_outside_of_the_project_is_not_imported(folder: Path) -> None:
    place = folder.parent / "longp.py:long"
    await waiting_run(folder, place)
    async with App.open(folder) as app:
        with pytest.raises(InvalidFlow, match="unknown tool 'work'") as refused:
            await app.resume("L1")
        assert not (folder.parent / "imported").exists()
        assert str(refused.value).endswith(f"to use the tools of its file: await app.resume('L1', Path('{place}'))")
        assert (await app.resume("L1", place)).result == 5


async def test_a_changed_file_is_named_and_the_remedy_fits_the_status_of_the_run(folder: Path) -> None:
    file, place = folder / "longp.py", folder / "longp.py:fails"
    (folder / "broken").touch()
    async with App.open(folder) as app:
        assert (await app.run(place, {"n": 4}, run_id="R1")).status == "failed"
        assert changed_file(app.context, "R1") is None
    file.write_text(file.read_text().replace("work(n)\n\nwith", "work(n + 1)\n\nwith"))
    async with App.open(folder) as app:
        assert changed_file(app.context, "R1")[1].action is Action.RETRY_CHANGED
        with pytest.raises(DefinitionChanged) as changed:
            await app.runs.retry("R1", definition=place)
        assert changed.value.remedy == changed_file(app.context, "R1")[1]
        transport = httpx2.ASGITransport(make_site(app, "t"))
        head = {"Authorization": "Bearer t"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=head) as client:
            retried = (await client.post("/api/runs/R1/retry", json={"wait": 20})).json()
        assert retried["status"] == "failed"
        assert "longp.py:fails has changed since; run R1 keeps its definition; to use" in retried["note"]
        (folder / "broken").unlink()
        assert (await app.runs.retry("R1", upgrade=True)).result == 6  # the file that is recorded
        assert changed_file(app.context, "R1") is None
        file.write_text(file.read_text().replace("work(n + 1)", "work(n + 2)"))
        assert changed_file(app.context, "R1")[1].action is Action.FORK_CHANGED


def test_a_misspelt_python_file_is_suggested(folder: Path) -> None:
    with pytest.raises(NotFound, match=r"did you mean '.*inside/longp\.py:long'"):
        App.open(folder).load(folder / "longpp.py:long")
