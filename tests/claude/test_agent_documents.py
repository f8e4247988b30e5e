"""Agents as documents: read, checked, run, planned, drawn, used as tools, cut short like every other definition."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ropewalk import tool
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, ModelError
from ropewalk.journal.memory import MemoryStore
from ropewalk.notations.json_schema import schema_of
from ropewalk.schema import compile_schema
from ropewalk.testing import ScriptedModel, ScriptedTools, held, results_in, wants

AGENT: dict[str, Any] = {
    "kind": "agent",
    "name": "librarian",
    "description": "Finds books.",
    "system": "You speak ${$input.language}.",
    "prompt": "Find a book about ${$input.topic}.",
    "tools": ["find"],
    "inputSchema": {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "language": {"type": "string"}},
        "required": ["topic"],
    },
}


@tool
async def find(topic: str) -> list[str]:
    """Titles about a topic."""
    return [f"All about {topic}"]


LIMIT = "max_rounds: the conversation reached max_rounds before the model had finished"


def run(document: Any, model: ScriptedModel, input: Any = None, **more: Any) -> Any:
    async def body() -> Any:
        async with App("memory", tools=[find], model=model) as app:
            return (await app.run(document, input, **more)).to_dict()

    return asyncio.run(body())


def test_an_agent_runs_like_every_definition() -> None:
    model = ScriptedModel(wants("find", {"topic": "ropes"}), "Take 'All about ropes'.")
    done = run(AGENT, model, {"topic": "ropes $input.language", "language": "English"})
    assert (done["status"], done["success"], done["result"]) == ("completed", True, "Take 'All about ropes'.")
    assert (done["stopReason"], done["warnings"], done["error"]) == ("end_turn", [], None)
    assert done["conversation"]["totals"]["rounds"] == 2
    first = model.requests[0]
    assert (first.system, first.messages[0]["content"]) == (
        "You speak English.",
        "Find a book about ropes $input.language.",
    )
    assert results_in(model.requests[1])[0]["content"] == '["All about ropes"]'


def test_a_limit_and_a_model_that_cannot_be_asked_are_in_the_result() -> None:
    done = run({**AGENT, "max_rounds": 1}, ScriptedModel(wants("find", {"topic": "x"})), {"topic": "x"})
    assert (done["status"], done["success"], done["stopReason"]) == ("failed", False, "max_rounds")
    assert (done["error"], done["warnings"]) == (
        {"nodeId": None, "tool": None, "message": LIMIT, "kind": "Unfinished", "needs": "restart"},
        [],
    )
    assert done["conversation"]["totals"]["rounds"] == 1
    done = run(AGENT, ScriptedModel(ModelError("no network")), {"topic": "x"})
    assert (done["status"], done["success"], done["result"]) == ("failed", False, None)
    assert done["error"]["message"] == "no network"


PROBLEMS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"kind": "agent"}, {"prompt": "a prompt or messages"}),
    ({"prompt": "x", "messages": []}, {"messages": "either a prompt or messages"}),
    ({"prompt": 3}, {"prompt": "must be a string or a list of content blocks, not a number"}),
    ({"messages": "hello"}, {"messages": "must be a list of messages or a reference to one, not a string"}),
    ({"prompt": "${$state.x}"}, {"prompt": "$state is not known here"}),
    ({"prompt": "x", "tool": ["a"]}, {"tool": "did you mean tools?"}),
    ({"prompt": "x", "max_ronds": 3}, {"max_ronds": "did you mean max_rounds?"}),
    ({"prompt": "x", "tools": ["fnd"]}, {"tools[0]": "did you mean find?"}),
    ({"prompt": "x", "tools": ["find"], "approve": ["fin"]}, {"approve[0]": "did you mean find?"}),
    (
        {"prompt": "x", "max_rounds": 0, "cost_budget": 0, "effort": "hihg", "cache": 3},
        {
            "max_rounds": "1 or more",
            "cost_budget": "above 0",
            "effort": "did you mean high?",
            "cache": "true, false or an object",
        },
    ),
    ({"prompt": "x", "output_schema": {"type": "objct"}}, {"output_schema.type": "objct"}),
]


SCHEMA = compile_schema(schema_of("agent"))
BEYOND = ("$state", "find", "objct")
"""What only the reader knows: what references mean, which tools there are, what a schema is."""


def test_the_schema_for_editors_knows_every_spelling_of_a_field() -> None:
    assert SCHEMA.problems(AGENT, "") == []
    assert SCHEMA.problems({"prompt": None, "messages": "$input.messages", "maxRounds": 3, "tools": "find"}, "") == []
    assert SCHEMA.problems({"prompt": "x", "maxRounds": 3, "max_rounds": 3}, "") != []


@pytest.mark.parametrize(("document", "problems"), PROBLEMS, ids=[next(iter(wrong)) for _, wrong in PROBLEMS])
def test_what_is_wrong_is_told_at_its_place(document: dict[str, Any], problems: dict[str, str]) -> None:
    model = ScriptedModel("never asked")
    with pytest.raises(InvalidFlow) as refused:
        run({"kind": "agent", **document}, model)
    told = {problem.path: str(problem) for problem in refused.value.problems}
    assert sorted(told) == sorted(problems)
    for path, text in problems.items():
        assert text in told[path]
    if not any(text in str(problems) for text in BEYOND):
        assert SCHEMA.problems({"kind": "agent", **document}, "") != []
    assert model.requests == []


def test_both_spellings_and_the_shape_are_known() -> None:
    document = {"prompt": "x", "maxRounds": 3, "outputSchema": {"type": "object"}}

    async def body() -> Any:
        async with App("memory", model=ScriptedModel("{}")) as app:
            loaded = app.load(document)
            return loaded.kind, loaded.document, await app.run(document)

    kind, read, done = asyncio.run(body())
    assert (kind, read["max_rounds"], read["output_schema"], done.result) == ("agent", 3, {"type": "object"}, {})


PLANNED = """\
librarian
├─ agent  Agent · system: You speak ${$input.language}. · prompt: Find a book about ${$input.topic}. · at most 20 rounds
│  └─ find
└─ = $out.agent

Tools:
  find(topic: string) -> array

Calls: no fixed bound
  find  write, no undo, unbounded
  ropewalk:model  read, at most 120
Loops without a fixed bound:
  calls
  agent  stops after 20 iterations
"""


def test_plan_and_graph_show_the_loop_and_ask_nobody() -> None:
    async def body() -> None:
        model = ScriptedModel("never asked")
        async with App("memory", tools=[find], model=model) as app:
            plan = await app.preview(AGENT)
            called = [node["tool"] for node in plan.nodes if "tool" in node]
            assert called == ["find"]
            assert "find" in app.draw(AGENT)
            assert plan.text() == PLANNED
        assert model.requests == []

    asyncio.run(body())


def test_an_agent_is_a_tool_of_a_chain_and_a_run_within_its_run() -> None:
    chain = {"kind": "chain", "name": "c", "nodes": [
        {"id": "ask", "type": "tool", "tool": "librarian", "params": {"topic": "ropes"}},
    ]}  # fmt: skip

    async def body() -> None:
        model = ScriptedModel(wants("find", {"topic": "ropes"}), "found")
        async with App(MemoryStore(durable=True), tools=[find], model=model) as app:
            app.toolbox.register(app.as_tool(AGENT))
            done = await app.run(chain)
            assert done.results["ask"] == "found"
            [part] = app.store.list_runs(parent=done.run_id)
            assert (part.kind, part.name) == ("agent", "librarian")

    asyncio.run(body())


def test_why_there_is_no_json_is_said_with_the_last_answer() -> None:
    document = {"prompt": "x", "output_schema": {"type": "object", "required": ["n"]}, "max_corrections": 0}
    done = run(document, ScriptedModel('{"m": 1}'))
    assert (done["success"], done["result"]) == (False, None)
    said = done["error"]["message"]
    assert said.startswith("invalid_json: the answer did not fit its schema, even after corrections (answer: ")
    assert said.endswith('"n" is a required property); its last answer: {"m": 1}')


def test_what_a_conversation_came_to_can_be_sent_again() -> None:
    """Every call in it is answered with what the model was told, errors and results of before included."""
    document = {**AGENT, "result_size": 9, "tools": ["look"]}

    @tool(name="look", annotations={"readOnlyHint": True})
    async def look(topic: str) -> str:
        """Looks."""
        return f"all about {topic}"

    async def body() -> None:
        wanted = [wants("look", {"topic": "x"}, "1"), wants("look", {"topic": "x"}, "2"), wants("none", {}, "3")]
        model = ScriptedModel(wanted, "found", "again")
        async with App("memory", tools=[look], model=model) as app:
            said = (await app.run(document, {"topic": "x", "language": "French"})).to_dict()["conversation"]
            assert said["system"] == "You speak French."
            sent = [result for result in said["messages"][2]["content"] if result["type"] == "tool_result"]
            assert sent == results_in(model.requests[1])
            assert [one.get("is_error", False) for one in sent] == [False, False, True]
            assert [one["content"][:9] for one in sent] == ["all about", "all about", "there is "]
            again = {"kind": "agent", "messages": "$input.messages"}
            more = [*said["messages"], {"role": "user", "content": "Sure?"}]
            assert (await app.run(again, {"messages": more})).result == "again"
            assert list(model.requests[2].messages) == more

    asyncio.run(body())


def test_a_limit_is_a_failed_run_wherever_it_is_looked_at(tmp_path: Path) -> None:
    document = {**AGENT, "max_rounds": 1}

    async def body() -> None:
        model = ScriptedModel(wants("find", {"topic": "x"}))
        async with App(f"sqlite:///{tmp_path}/runs.db", tools=[find], model=model) as app:
            done = await app.run(document, {"topic": "x"}, run_id="r")
            [row] = app.runs.list()
            shown = app.runs.get("r")
            assert shown is not None
            assert (done.status, row.status, shown["status"], shown["error"]["message"]) == (
                "failed", "failed", "failed", f"finished: {LIMIT}",
            )  # fmt: skip
            assert {**done.to_answer(), "error": shown["error"], "duration": shown["duration"]}.items() <= shown.items()
            again = await app.runs.retry("r")  # it comes to the same, and nobody is asked
            assert (again.status, again.error, len(model.requests)) == ("failed", done.error, 1)
            app.model = model = ScriptedModel("found")
            again = await app.runs.retry("r", ["agent"])  # from the beginning
            assert (again.status, again.result, len(model.requests)) == ("completed", "found", 1)

    asyncio.run(body())


def test_an_agent_that_came_to_a_limit_is_a_tool_that_failed() -> None:
    chain = {"kind": "chain", "name": "c", "nodes": [
        {"id": "ask", "type": "tool", "tool": "librarian", "params": {"topic": "ropes"}},
    ]}  # fmt: skip

    async def body() -> None:
        async with App("memory", tools=[find], model=ScriptedModel(wants("find", {"topic": "ropes"}))) as app:
            app.toolbox.register(app.as_tool({**AGENT, "max_rounds": 2}))
            done = await app.run(chain)
            assert done.status == "failed"
            assert LIMIT in str(done.to_dict()["errors"])

    asyncio.run(body())


def test_stopping_a_run_cancels_the_call_that_is_under_way() -> None:
    tools = ScriptedTools({"slow": held()})

    async def body() -> None:
        model = ScriptedModel([wants("slow"), wants("slow")])
        async with App(MemoryStore(durable=True), tools=tools.tools(), model=model) as app:
            running = asyncio.ensure_future(app.run({"prompt": "go", "tools": ["slow"]}, run_id="r"))
            await tools.called("slow", 2)
            assert app.runs.stop("r")
            done = await running
        assert (done.status, done.success) == ("stopped", False)
        assert [call.status for call in tools.calls] == ["cancelled", "cancelled"]

    asyncio.run(body())


def test_two_agents_in_an_experience_run_with_their_own_tools() -> None:
    nodes = [
        {"id": "a", "kind": "agent", "prompt": "A", "tools": ["find"], "writes": ["a"]},
        {"id": "b", "kind": "agent", "prompt": "B ${$state.a}", "writes": ["b"], "max_rounds": 2},
    ]
    document = {
        "kind": "experience", "name": "two", "version": "0.1.0",
        "state": {"schema": {"a": {"type": "string"}, "b": {"type": "string"}}},
        "graph": {"nodes": nodes, "edges": [{"from": "a", "to": "b"}]},
    }  # fmt: skip
    model = ScriptedModel(
        wants("find", {"topic": "x"}), "first", wants("find", {"topic": "y"}), wants("find", {"topic": "z"}), "never"
    )
    done = run(document, model)
    assert (done["status"], done["finalState"]) == ("failed", {"a": "first"})
    [error] = done["errors"]
    assert error["nodeId"] == "b"
    assert "max_rounds: the conversation reached max_rounds" in error["message"]
    assert results_in(model.requests[3])[0]["content"].startswith("there is no tool 'find' here")
    assert model.requests[2].messages[0]["content"] == "B first"
    assert done["metrics"]["tokens_in"] == 40 - 10  # the turn that ended in an error gave no value


def test_an_approval_is_waited_for_without_a_process(tmp_path: Path) -> None:
    ran: list[Any] = []

    @tool
    async def order(material: str) -> str:
        """Orders."""
        ran.append(material)
        return f"ordered {material}"

    store = f"sqlite:///{tmp_path}/runs.db"
    document = {"kind": "agent", "prompt": "go", "tools": ["order"], "approve": ["order"]}
    wanted = [wants("order", {"material": "nylon"}, "1"), wants("order", {"material": "gold"}, "2")]

    async def begin() -> None:
        async with App(store, tools=[order], model=ScriptedModel(wanted)) as app:
            done = await app.run(document, run_id="r", park=True)
            assert done.status == "waiting"
            said = {wait["approval"]: wait["path"] for wait in done.waiting_for}
            assert list(said) == ['Call order with {"material":"nylon"}?', 'Call order with {"material":"gold"}?']
            assert ran == []
            for approved, path in zip((True, False), said.values(), strict=True):
                app.runs.approve("r", path, approved=approved, by="ann", note="too dear")

    async def finish() -> None:
        model = ScriptedModel("done")  # the turn before the wait is not asked for again
        async with App(store, tools=[order], model=model) as app:
            done = await app.resume("r")
            assert (done.status, done.result) == ("completed", "done")
            good, bad = results_in(model.requests[0])
            assert good["content"] == "ordered nylon"
            assert (bad["is_error"], bad["content"]) == (True, "order was not called: not approved by ann: too dear")

    asyncio.run(begin())
    asyncio.run(finish())
    assert ran == ["nylon"]


def test_an_unknown_tool_of_a_document_with_other_faults_is_told_with_its_place() -> None:
    async def told() -> tuple[Any, ...]:
        async with App("memory", model=ScriptedModel("never")) as app:
            checked = await app.validate({**AGENT, "tools": ["nothere"], "max_rounds": -1})
            return (*checked.problems, *checked.warnings)

    assert [problem.path for problem in asyncio.run(told())] == ["max_rounds", "tools[0]"]
