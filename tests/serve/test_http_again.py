"""Over HTTP: runs gone on with, forked, compared, and answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fork_server

from .server import COMMAND, Served
from .test_http_api import call, chain, events, fresh

pytestmark = pytest.mark.process


def ended(served: Served, run_id: str) -> Any:
    """The run once it has ended, heard of by its events."""
    assert [kind for _, kind, _ in events(served, run_id)][-2:] == ["run.finished", "end"]
    return served.get(f"/api/runs/{run_id}").json()


def test_a_failed_run_is_retried_and_keeps_what_was_done(served: Served) -> None:
    id, file = fresh(), fresh()
    document = chain(call("a", "add", a=1), {**call("n", "need", name=file), "maxRetries": 0})
    assert served.post("/api/runs", {"document": document, "runId": id, "wait": 20}).json()["status"] == "failed"
    (served.folder / file).touch()
    before = served.get(f"/api/runs/{id}").json()["nodes"][0]
    done = served.post(f"/api/runs/{id}/retry", {"wait": 20})
    assert (done.status_code, done.json()["status"], done.json()["runId"]) == (200, "completed", id)
    assert served.get(f"/api/runs/{id}").json()["nodes"][0] == {**before, "replayed": True}
    again = served.post(f"/api/runs/{id}/retry", {})
    assert (again.status_code, again.json()["error"]["kind"]) == (409, "NothingToRetry")
    assert '/retry with {"nodes": [NODE]}' in again.json()["error"]["message"]
    begun = served.post(f"/api/runs/{id}/retry", {"nodes": ["a"]})
    assert (begun.status_code, begun.json()) == (202, {"runId": id, "status": "running"})
    assert ended(served, id)["status"] == "completed"
    wrong = served.post(f"/api/runs/{id}/retry", {"nodes": ["b"]})
    assert (wrong.status_code, wrong.json()["error"]["kind"]) == (404, "NotFound")


def test_a_fork_has_its_own_input_and_the_runs_are_compared(served: Served) -> None:
    id, other = fresh(), fresh()
    document = chain(call("a", "add", a="$input.n"), call("b", "add", a=1))
    served.post("/api/runs", {"document": document, "runId": id, "input": {"n": 1}, "wait": 20})
    forked = served.post(f"/api/runs/{id}/fork", {"input": {"n": 5}, "runId": other, "wait": 20}).json()
    assert (forked["runId"], forked["forkedFrom"], forked["result"]) == (other, id, {"a": 6, "b": 2})
    found = served.get(f"/api/runs/{id}/diff", params={"with": other}).json()
    assert (found["input"], found["same"]) == ([{"path": "n", "a": 1, "b": 5}], 1)
    assert [(node["path"], node["value"]) for node in found["nodes"]] == [("a", [{"path": "", "a": 2, "b": 6}])]
    plain = served.post(f"/api/runs/{id}/fork", {"wait": 20}).json()
    assert plain["result"] == {"a": 2, "b": 2}
    assert (plain["result"], "executionId" in plain) == ({"a": 2, "b": 2}, False)
    again = served.post(f"/api/runs/{id}/retry", {"nodes": ["b"], "wait": 20}).json()
    assert set(again) == set(served.post("/api/runs", {"document": document, "input": {"n": 1}, "wait": 20}).json()) - {
        "new"
    }
    assert served.post(f"/api/runs/{id}/resume", {}).json()["result"] == {"a": 2, "b": 2}
    taken = served.post(f"/api/runs/{id}/fork", {"runId": other})
    assert (taken.status_code, taken.json()["error"]["kind"]) == (409, "RunExists")
    assert served.get(f"/api/runs/{id}/diff", params={"with": "nope"}).status_code == 404


def test_a_fork_may_have_another_document_but_none_of_files(served: Served) -> None:
    id = fresh()
    served.post("/api/runs", {"document": chain(call("a", "add", a=1)), "runId": id, "wait": 20})
    other = chain(call("a", "add", a=1), call("b", "add", a="$output.a"))
    assert served.post(f"/api/runs/{id}/fork", {"document": other, "wait": 20}).json()["result"] == {"a": 2, "b": 3}
    refused = served.post(f"/api/runs/{id}/fork", {"document": "tools.py"})
    assert (refused.status_code, "a definition must be an object" in refused.text) == (422, True)


@pytest.mark.parametrize("approved", [True, False])
def test_an_approval_is_seen_and_answered(served: Served, approved: bool) -> None:
    id = fresh()
    served.post("/api/runs", {"document": chain({"id": "w", "type": "wait", "approval": "Ship it?"}), "runId": id})
    seen = iter(events(served, id))
    assert next(kind for _, kind, _ in seen if kind == "wait.started")
    (wait,) = served.get(f"/api/runs/{id}/waiting").json()["waiting"]
    assert (wait["runId"], wait["path"], wait["approval"]) == (id, "w", "Ship it?")
    assert wait in served.get("/api/waiting").json()["waiting"]
    said = served.post(f"/api/runs/{id}/approve", {"approved": approved, "by": "ann", "note": "so"}).json()
    assert (said["runId"], said["answered"]["approved"]) == (id, approved)
    run = ended(served, id)
    assert run["status"] == ("completed" if approved else "failed")
    late = served.post(f"/api/runs/{id}/approve", {})
    assert (late.status_code, late.json()["error"]["kind"]) == (409, "RunEnded")


def test_an_event_is_sent(served: Served) -> None:
    id = fresh()
    served.post("/api/runs", {"document": chain({"id": "w", "type": "wait", "event": "paid"}), "runId": id})
    none = served.post(f"/api/runs/{id}/send", {"event": "other", "early": False})
    assert (none.status_code, none.json()["error"]["kind"]) == (409, "NotWaiting")
    assert served.post(f"/api/runs/{id}/send", {"event": "paid", "payload": {"sum": 3}}).json()["sent"]
    assert ended(served, id)["result"] == {"w": {"sum": 3}}


def park(served: Served, id: str) -> None:
    """A run that a command line has left waiting."""
    (served.folder / "wait.yaml").write_text("kind: chain\nnodes:\n  - {id: w, type: wait, approval: 'Ship?'}\n")
    parked = fork_server.run(
        [COMMAND, "run", "wait.yaml", "--id", id], cwd=served.folder, capture_output=True, text=True
    )
    assert parked.returncode == 4, parked.stderr
    assert served.get(f"/api/runs/{id}").json()["status"] == "waiting"


def test_a_parked_run_goes_on_in_the_server_when_it_is_approved(served: Served) -> None:
    id = fresh()
    park(served, id)
    assert served.post(f"/api/runs/{id}/approve", {"node": "w"}).json()["answered"]["approved"]
    assert ended(served, id)["status"] == "completed"
    done = served.post(f"/api/runs/{id}/resume", {})
    assert (done.status_code, done.json()["status"]) == (200, "completed")


def test_a_run_that_waits_is_taken_on_and_is_nobody_elses_then(served: Served) -> None:
    id = fresh()
    park(served, id)
    assert served.post(f"/api/runs/{id}/resume", {}).status_code == 202
    busy = served.post(f"/api/runs/{id}/resume", {})
    assert (busy.status_code, busy.json()["error"]["kind"]) == (409, "RunBusy")
    served.post(f"/api/runs/{id}/approve", {})
    assert ended(served, id)["status"] == "completed"


def test_what_is_done_again_is_a_run(served: Served, tmp_path: Path) -> None:
    for route, body in [("retry", {}), ("resume", {}), ("fork", {}), ("approve", {}), ("send", {"event": "x"})]:
        assert served.post(f"/api/runs/{tmp_path.name}/{route}", body).status_code == 404
    assert served.get(f"/api/runs/{tmp_path.name}/waiting").status_code == 404


def test_a_parked_run_that_was_answered_elsewhere_is_called_that_and_gone_on_with(served: Served) -> None:
    id = fresh()
    park(served, id)
    said = fork_server.run([COMMAND, "runs", "approve", id], cwd=served.folder, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    listed = served.get("/api/runs?status=answered").json()["runs"]
    for row in (*listed, served.get(f"/api/runs/{id}").json()):
        assert (row["runId"], row["status"], row["answered"], row["interrupted"]) == (id, "running", True, False)
    assert len(listed) == 1
    assert served.post(f"/api/runs/{id}/resume", {}).status_code == 202
    assert ended(served, id)["status"] == "completed"


def test_a_rejected_result_is_accepted_and_nothing_is_called_again(served: Served) -> None:
    id, file = fresh(), fresh()
    document = chain(call("n", "misfit", name=file))
    failed = served.post("/api/runs", {"document": document, "runId": id, "wait": 20}).json()
    assert failed["errors"][0]["ran"] is True
    [node] = served.get(f"/api/runs/{id}").json()["nodes"]
    assert node["error"]["result"] == {"value": f"made {file}"}
    wrong = served.post(f"/api/runs/{id}/retry", {"accept": ["x"]})
    assert (wrong.status_code, wrong.json()["error"]["kind"]) == (404, "NotFound")
    done = served.post(f"/api/runs/{id}/retry", {"accept": ["n"], "wait": 20}).json()
    assert (done["status"], done["result"]) == ("completed", {"n": f"made {file}"})
    assert (served.folder / file).read_text() == "x"
    other = fresh()
    served.post("/api/runs", {"document": document, "runId": other, "wait": 20})
    done = served.post(f"/api/runs/{other}/retry", {"accept": {"n": {"made": 2}}, "wait": 20}).json()
    assert done["result"] == {"n": {"made": 2}}
    assert (served.folder / file).read_text() == "xx"
