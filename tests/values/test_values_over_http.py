"""A direct HTTP run of a flow of every kind: as a document, as a file of the project, and as a stored definition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from claude.wire import StandIn
from ropewalk.app.lookup import STORED
from serve.server import Served, serve

from .flow_kinds import DOCUMENTS, INPUT, KINDS, VALUES, source

TESTS = str(Path(__file__).parents[1])
MODULE = f"""\
import sys

sys.path.insert(0, {TESTS!r})
from values.flow_kinds import ping, search
"""
FLOWS = '[mcp_server]\nflows = ["flows"]\n'
IN_PYTHON = """\
from ropewalk import flow

k = flow("k", topic=str)
k.result(k.call("search", query=k.input.topic))
"""
JSON_KINDS = [kind for kind in KINDS if kind != "experience"]
OLD_NAMES = {"id", "executionId", "data", "finalState", "results"}
MODEL_FREE = [kind for kind in JSON_KINDS if kind != "agent"]


def document(kind: str) -> dict[str, Any]:
    """The definition of a kind as JSON; that of a flow written in Python is the graph that it exports."""
    if kind == "python":
        exported: dict[str, Any] = source("python", Path()).done().export("flow")
        return exported
    return DOCUMENTS[kind]


def project(folder: Path) -> Path:
    """Write every kind as a file below `flows`."""
    flows = folder / "flows"
    flows.mkdir()
    for kind in JSON_KINDS:
        (flows / f"{kind}.json").write_text(json.dumps({**document(kind), "name": f"file {kind}"}))
    source("experience", flows)
    (flows / "written.py").write_text(IN_PYTHON)
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(project(tmp_path_factory.mktemp("over_http")), settings=FLOWS, tools=MODULE)


def value_of_run(served: Served, body: dict[str, Any]) -> Any:
    """Start a run, and return the value in its answer; the record and a second request must have the same."""
    answer = served.post("/api/runs", {**body, "input": INPUT, "wait": 20})
    assert answer.status_code == 200, answer.text
    done = answer.json()
    assert done["status"] == "completed", done
    value = done["result"]
    assert OLD_NAMES.isdisjoint(done)
    record = served.get(f"/api/runs/{done['runId']}").json()
    assert (record["runId"], record["result"]) == (done["runId"], value)
    assert OLD_NAMES.isdisjoint(record)
    again = served.post("/api/runs", {**body, "input": INPUT, "wait": 20, "runId": done["runId"]}).json()
    assert (again["new"], again["result"]) == (False, value)
    return value


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("kind", MODEL_FREE)
def test_a_document_gives_its_value(kind: str, as_text: bool, served: Served) -> None:
    given = json.dumps(document(kind)) if as_text else document(kind)
    assert value_of_run(served, {"document": given}) == VALUES[kind]


@pytest.mark.parametrize("kind", [*MODEL_FREE, "experience"])
def test_a_file_of_the_project_gives_its_value(kind: str, served: Served) -> None:
    id = "flows/k" if kind == "experience" else f"flows/{kind}.json"
    assert value_of_run(served, {"definition": {"kind": "file", "id": id}}) == VALUES[kind]


@pytest.mark.parametrize("kind", [kind for kind in MODEL_FREE if document(kind)["kind"] in STORED])
def test_a_stored_definition_gives_its_value(kind: str, served: Served) -> None:
    notation, id = document(kind)["kind"], f"stored-{kind.replace(' ', '-')}"
    created = served.post(f"/api/definitions/{notation}", {"document": {**document(kind), "id": id}})
    assert created.status_code == 201, created.text
    assert value_of_run(served, {"definition": {"kind": notation, "id": id}}) == VALUES[kind]


@pytest.mark.parametrize("kind", [kind for kind in JSON_KINDS if document(kind)["kind"] not in STORED])
def test_only_chains_and_compositions_are_stored(kind: str, served: Served) -> None:
    notation = document(kind)["kind"]
    for where in (*STORED, notation):
        refused = served.post(f"/api/definitions/{where}", {"document": {**document(kind), "id": "k"}})
        assert refused.status_code == 422, refused.text
    started = served.post("/api/runs", {"definition": {"kind": notation, "id": "k"}, "input": INPUT})
    assert started.status_code == 422
    assert "chain" in started.json()["error"]["message"]


def test_an_experience_is_refused_as_a_document(served: Served) -> None:
    experience = {
        "kind": "experience", "name": "k", "version": "0.1.0", "state": {"schema": {"found": {"type": "object"}}},
        "graph": {"nodes": [{"id": "s", "kind": "call", "tool": "search", "writes": ["found"]}], "edges": []},
    }  # fmt: skip
    refused = served.post("/api/runs", {"document": experience, "input": INPUT, "wait": 20})
    assert refused.status_code == 422
    assert "names files of its directory" in refused.text


def test_a_flow_of_a_python_file_of_the_project_gives_its_value(served: Served) -> None:
    listed = [line["id"] for line in served.get("/api/definitions").json()["definitions"]]
    assert [id for id in listed if "written" in id] == ["flows/written.py:k"]
    value_of_run(served, {"definition": {"kind": "file", "id": "flows/written.py:k"}})


@pytest.mark.parametrize("where", ["flows/written.py", "flows/written.py:other", "written:k"])
def test_python_code_is_refused_in_every_other_form(where: str, served: Served) -> None:
    by_id = served.post("/api/runs", {"definition": {"kind": "file", "id": where}, "input": INPUT})
    assert (by_id.status_code, by_id.json()["error"]["kind"]) == (404, "NotFound")
    by_text = served.post("/api/runs", {"document": where, "input": INPUT})
    assert by_text.status_code == 422
    assert "a definition must be an object" in by_text.text
    as_code = served.post("/api/runs", {"document": IN_PYTHON, "input": INPUT})
    assert as_code.status_code == 422


# --- agents, whose model is a stand-in for the Messages API ---------------------------------------


@pytest.fixture(scope="module")
def with_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, StandIn]]:
    model = StandIn(tmp_path_factory.mktemp("aimock"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANTHROPIC_API_KEY", "no-key")
        environment.setenv("ANTHROPIC_BASE_URL", model.url)
        for server in serve(project(tmp_path_factory.mktemp("agents")), settings=FLOWS, tools=MODULE):
            yield server, model
    model.close()


@pytest.mark.node
@pytest.mark.parametrize("form", ["document", "definition"])
def test_an_agent_gives_its_value(form: str, with_model: tuple[Served, StandIn]) -> None:
    served, model = with_model
    model.reset()
    model.answer({"content": VALUES["agent"]})
    body = {
        "document": {"document": DOCUMENTS["agent"]},
        "definition": {"definition": {"kind": "file", "id": "flows/agent.json"}},
    }
    assert value_of_run(served, body[form]) == VALUES["agent"]
    assert [request["messages"][0]["content"] for request in model.bodies] == ["Tell me of rope."], "asked once"
